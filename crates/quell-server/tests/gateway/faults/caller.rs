//! Callers: each works through its requests on one connection while it lasts, and notes what it saw.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::origin::Sign;
use super::plan::{Caller, Plan};

/// Far beyond what a request may take: whoever waits so long waits for nothing.
const PATIENCE: Duration = Duration::from_secs(30);

/// How much of a reply's body came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Got {
    Whole(Bytes),
    /// It broke off, and the reader could tell.
    Broken,
    /// The caller did not wait for it.
    Unread,
}

/// What a caller saw.
#[derive(Debug)]
pub(super) enum Seen {
    /// It left before there was a reply.
    Left,
    Reply {
        status: u16,
        attempts: u32,
        stop: Option<String>,
        got: Got,
    },
    /// No reply, and the connection ended: nobody should see this.
    Nothing(hyper::Error),
}

/// A request's body, in parts; one that is left ends in the middle.
struct Sent {
    parts: VecDeque<Bytes>,
    length: Option<u64>,
    hangs: bool,
}

impl Sent {
    fn new(plan: &Plan) -> Self {
        let payload = plan.payload();
        let hangs = plan.caller == Caller::LeavesInBody;
        let sent = if hangs { payload.slice(..plan.length / 2) } else { payload };
        let parts = sent.chunks(7_000).map(Bytes::copy_from_slice).collect();
        Self { parts, length: (!plan.chunked).then_some(plan.length as u64), hangs }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.parts.pop_front() {
            None if self.hangs => Poll::Pending,
            part => Poll::Ready(part.map(|part| Ok(Frame::data(part)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.parts.is_empty() && !self.hangs
    }

    fn size_hint(&self) -> SizeHint {
        self.length.map_or_else(SizeHint::default, SizeHint::with_exact)
    }
}

/// See the [module](self).
pub(super) struct Lane {
    to: SocketAddr,
    open: Option<(SendRequest<Sent>, JoinHandle<()>)>,
}

impl Lane {
    pub(super) fn new(to: SocketAddr) -> Self {
        Self { to, open: None }
    }

    /// Closes the connection: nobody waits at it any more.
    fn leave(&mut self) {
        if let Some((_, task)) = self.open.take() {
            task.abort();
        }
    }

    async fn connection(&mut self) -> &mut SendRequest<Sent> {
        if let Some((send, _)) = &mut self.open
            && send.ready().await.is_err()
        {
            self.leave();
        }
        if self.open.is_none() {
            let stream = TcpStream::connect(self.to).await.unwrap();
            let (send, http) = handshake(TokioIo::new(stream)).await.unwrap();
            self.open = Some((send, tokio::spawn(async { drop(http.await) })));
        }
        &mut self.open.as_mut().unwrap().0
    }

    /// Sends a request on the kept connection, or on another one where that turns out to be closed and not a byte of it
    /// went out: a server may close one that rests at any moment.
    async fn send(
        &mut self,
        mut request: Request<Sent>,
    ) -> Result<Response<hyper::body::Incoming>, hyper::Error> {
        loop {
            match self.connection().await.try_send_request(request).await {
                Ok(reply) => return Ok(reply),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(error.into_error()),
                },
            }
            self.leave();
        }
    }

    /// One request, to its end or until its caller leaves.
    pub(super) async fn run(&mut self, plan: &Plan, sign: &Sign) -> Seen {
        let mut request =
            Request::builder().method(plan.method).uri(format!("/{}", plan.id)).header("host", "a");
        request = request.header("x-id", plan.id);
        if plan.keyed {
            request = request.header("idempotency-key", format!("key-{}", plan.id));
        }
        let request = request.body(Sent::new(plan)).unwrap();
        let mut arrived = sign.arrived.subscribe();
        let reply = self.send(request);
        let left = async {
            let _ = match plan.caller {
                Caller::LeavesAt(attempt) => arrived.wait_for(|arrived| *arrived == attempt).await,
                Caller::LeavesInBody => arrived.wait_for(|arrived| *arrived > 0).await,
                _ => std::future::pending().await,
            };
        };
        let reply = tokio::select! {
            () = left => None,
            reply = timeout(PATIENCE, reply) => Some(reply.unwrap_or_else(|_| panic!("no reply to {plan:?}"))),
        };
        match reply {
            None => {
                self.leave();
                Seen::Left
            }
            Some(Err(error)) => {
                self.leave();
                Seen::Nothing(error)
            }
            Some(Ok(reply)) => {
                sign.answered.send_replace(true);
                self.read(plan, reply).await
            }
        }
    }

    async fn read(&mut self, plan: &Plan, reply: Response<Incoming>) -> Seen {
        let (head, body) = reply.into_parts();
        let field = |name| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
        let got = if plan.caller == Caller::LeavesInReply || field("x-hangs").is_some() {
            Got::Unread
        } else {
            timeout(PATIENCE, whole(body)).await.unwrap_or_else(|_| panic!("no end to {plan:?}"))
        };
        // What was never sent to its end holds up whatever would follow it.
        if !matches!(got, Got::Whole(_)) || plan.caller == Caller::LeavesInBody {
            self.leave();
        }
        Seen::Reply {
            status: head.status.as_u16(),
            attempts: field("quell-attempts").map_or(0, |attempts| attempts.parse().unwrap()),
            stop: field("quell-stop"),
            got,
        }
    }
}

async fn whole(mut body: Incoming) -> Got {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        match frame {
            Ok(frame) => read.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Err(_) => return Got::Broken,
        }
    }
    Got::Whole(read.freeze())
}
