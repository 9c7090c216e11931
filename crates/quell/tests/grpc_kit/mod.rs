//! A server of tonic's that follows a script, and a client for it. Messages are text.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Buf, BufMut, Bytes};
use http::{HeaderMap, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use parking_lot::Mutex;
use quell::{Builder, Quell};
use tokio::{net::TcpListener, sync::Notify};
use tonic::{
    Request, Status, Streaming,
    body::Body,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    server::NamedService,
    transport::{Channel, Endpoint, server::TcpIncoming},
};
use tower::{Layer, Service};

use crate::wire::in_time;

pub(crate) type Client = Grpc<quell::tonic::Service<Channel>>;

pub(crate) type Fields = &'static [(&'static str, &'static str)];

/// What the server answers.
#[derive(Clone, Copy)]
pub(crate) enum Reply {
    /// A status in the head, and nothing else.
    TrailersOnly(Fields),
    /// A head, and a status after it.
    Trailers(Fields),
    /// A message and all is well.
    Text(&'static str),
    /// A message and then a status.
    TextThen(&'static str, Fields),
    /// A head, then a message when it is told to speak.
    Quiet(&'static str),
    /// Something in between that does not speak gRPC.
    Http(u16),
    /// Nothing at all.
    Hang,
}

/// A request as it came.
#[derive(Clone)]
pub(crate) struct Seen {
    headers: HeaderMap,
    pub(crate) message: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        Some(self.headers.get(name)?.to_str().unwrap())
    }
}

/// Answers from a script whose last line is repeated.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    pub(crate) speak: Arc<Notify>,
    script: Arc<Vec<Reply>>,
    requests: Arc<Mutex<Vec<Seen>>>,
    left: Arc<Mutex<usize>>,
}

impl Server {
    pub(crate) async fn start(script: &[Reply]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            address: listener.local_addr().unwrap(),
            speak: Arc::default(),
            script: Arc::new(script.to_vec()),
            requests: Arc::default(),
            left: Arc::default(),
        };
        let serving = tonic::transport::Server::builder().add_service(server.clone());
        tokio::spawn(serving.serve_with_incoming(TcpIncoming::from(listener)));
        server
    }

    pub(crate) fn requests(&self) -> Vec<Seen> {
        self.requests.lock().clone()
    }

    /// Calls that hung and were given up.
    pub(crate) fn left(&self) -> usize {
        *self.left.lock()
    }

    async fn answer(self, request: http::Request<Body>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let sent = body.collect().await.unwrap().to_bytes();
        let message = String::from_utf8(sent[5..].to_vec()).unwrap();
        let reply = {
            let mut requests = self.requests.lock();
            requests.push(Seen { headers: parts.headers, message });
            self.script[(requests.len() - 1).min(self.script.len() - 1)]
        };
        let fine = Frame::trailers(fields(&[("grpc-status", "0")]));
        let (head, frames) = match reply {
            Reply::TrailersOnly(said) => (said, vec![]),
            Reply::Trailers(said) => (&[][..], vec![Frame::trailers(fields(said))]),
            Reply::Text(text) => (&[][..], vec![message_of(text), fine]),
            Reply::TextThen(text, said) => {
                (&[][..], vec![message_of(text), Frame::trailers(fields(said))])
            }
            Reply::Quiet(text) => {
                let frames =
                    Frames { frames: [message_of(text), fine].into(), after: Some(self.spoken()) };
                return head_of(&[], frames);
            }
            Reply::Http(status) => {
                let mut reply = head_of(&[], Frames::of(vec![Frame::data("<html>".into())]));
                *reply.status_mut() = StatusCode::from_u16(status).unwrap();
                return reply;
            }
            Reply::Hang => {
                let _left = Left(self.left);
                std::future::pending().await
            }
        };
        head_of(head, Frames::of(frames))
    }

    fn spoken(&self) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Arc::clone(&self.speak).notified_owned())
    }
}

impl NamedService for Server {
    const NAME: &'static str = "stock.Stock";
}

impl Service<http::Request<Body>> for Server {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let answer = self.clone().answer(request);
        Box::pin(async { Ok(answer.await) })
    }
}

/// Counts calls that were dropped.
struct Left(Arc<Mutex<usize>>);

impl Drop for Left {
    fn drop(&mut self) {
        *self.0.lock() += 1;
    }
}

fn fields(said: Fields) -> HeaderMap {
    said.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
}

fn head_of(said: Fields, frames: Frames) -> Response<Body> {
    let mut reply = Response::new(Body::new(frames));
    *reply.headers_mut() = fields(said);
    reply.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    reply
}

fn message_of(text: &str) -> Frame<Bytes> {
    let mut message = vec![0];
    message.put_u32(text.len() as u32);
    message.put_slice(text.as_bytes());
    Frame::data(message.into())
}

struct Frames {
    frames: VecDeque<Frame<Bytes>>,
    after: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Frames {
    fn of(frames: Vec<Frame<Bytes>>) -> Self {
        Self { frames: frames.into(), after: None }
    }
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(after) = &mut self.after {
            std::task::ready!(after.as_mut().poll(cx));
            self.after = None;
        }
        Poll::Ready(self.frames.pop_front().map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty()
    }
}

/// Messages that are text.
#[derive(Clone, Copy)]
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
        String::from_utf8(bytes).map(Some).map_err(|_| Status::internal("not text"))
    }
}

pub(crate) fn client(server: &Server, upstream: Builder) -> Client {
    client_of(server.address, upstream)
}

pub(crate) fn client_of(address: SocketAddr, upstream: Builder) -> Client {
    client_by(address, upstream.build().unwrap())
}

pub(crate) fn client_by(address: SocketAddr, upstream: Quell) -> Client {
    let channel = Endpoint::try_from(format!("http://{address}")).unwrap().connect_lazy();
    Grpc::new(quell::tonic::layer(upstream).layer(channel))
}

pub(crate) async fn ask(client: &mut Client, request: Request<String>) -> Result<String, Status> {
    Ok(ask_whole(client, request).await?.into_inner())
}

/// The same with what is around the message.
pub(crate) async fn ask_whole(
    client: &mut Client,
    request: Request<String>,
) -> Result<tonic::Response<String>, Status> {
    in_time(async {
        client.ready().await?;
        let path = "/stock.Stock/Count".parse().unwrap();
        client.unary(request, path, Text).await
    })
    .await
}

pub(crate) async fn asking(mut client: Client, text: &str) -> Result<String, Status> {
    ask(&mut client, Request::new(text.to_owned())).await
}

pub(crate) async fn watch(client: &mut Client) -> Result<Streaming<String>, Status> {
    client.ready().await?;
    let path = "/stock.Stock/Watch".parse().unwrap();
    let request = Request::new("pens".to_owned());
    Ok(client.server_streaming(request, path, Text).await?.into_inner())
}
