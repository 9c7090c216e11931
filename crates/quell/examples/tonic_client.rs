//! `cargo run -p quell --features tonic --example tonic_client`: a gRPC client that retries, and a server that is busy.
//!
//! A client that was generated from a `.proto` file takes the same service. Here the messages are text and the client is
//! the one inside of generated ones, so that nothing has to be generated.

use std::{
    convert::Infallible,
    error::Error,
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    task::{Context, Poll},
};

use bytes::{Buf, BufMut};
use quell::{Limit, Quell};
use tokio::net::TcpListener;
use tonic::{
    Code, Request, Response, Status,
    body::Body,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    server::NamedService,
    transport::{Endpoint, Server, server::TcpIncoming},
};
use tower::{Service, ServiceBuilder, service_fn};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let greeter = Greeter::default();
    let server = Server::builder().add_service(greeter.clone());
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    let upstream = Quell::upstream("greeter").idempotent().in_flight(Limit::Fixed(64)).build()?;
    let channel = Endpoint::try_from(format!("http://{address}"))?.connect_lazy();
    let service = ServiceBuilder::new().layer(quell::tonic::layer(upstream)).service(channel);
    let mut client = Grpc::new(service); // or GreeterClient::new(service)

    let greeting = greet(&mut client, "night shift").await?;
    println!("{greeting:?} at attempt {}", greeter.calls.load(Ordering::Relaxed));
    assert_eq!(greeting, "hello, night shift");
    assert_eq!(greeter.calls.load(Ordering::Relaxed), 3);

    let status = greet(&mut client, "").await.err().ok_or("nobody was greeted")?;
    println!("{:?}: {}, at once", status.code(), status.message());
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(greeter.calls.load(Ordering::Relaxed), 4);
    Ok(())
}

type Client = Grpc<quell::tonic::Service<tonic::transport::Channel>>;

async fn greet(client: &mut Client, name: &str) -> Result<String, Status> {
    client.ready().await?;
    let path = http::uri::PathAndQuery::from_static("/hello.Greeter/Greet");
    Ok(client.unary(Request::new(name.to_owned()), path, Text).await?.into_inner())
}

/// Is busy twice.
#[derive(Clone, Default)]
struct Greeter {
    calls: Arc<AtomicU32>,
}

impl Greeter {
    fn greet(&self, name: &str) -> Result<Response<String>, Status> {
        match self.calls.fetch_add(1, Ordering::Relaxed) {
            0 | 1 => Err(Status::unavailable("warming up")),
            _ if name.is_empty() => Err(Status::invalid_argument("nobody to greet")),
            _ => Ok(Response::new(format!("hello, {name}"))),
        }
    }
}

impl NamedService for Greeter {
    const NAME: &'static str = "hello.Greeter";
}

/// What would be generated.
impl Service<http::Request<Body>> for Greeter {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let this = self.clone();
        Box::pin(async move {
            let greet = service_fn(|name: Request<String>| {
                let this = this.clone();
                async move { this.greet(&name.into_inner()) }
            });
            Ok(tonic::server::Grpc::new(Text).unary(greet, request).await)
        })
    }
}

/// Messages that are text.
struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, text: String, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(text.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = from.copy_to_bytes(from.remaining()).to_vec();
        String::from_utf8(bytes).map(Some).map_err(|_| Status::invalid_argument("not text"))
    }
}
