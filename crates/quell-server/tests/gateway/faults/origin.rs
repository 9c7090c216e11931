//! A raw origin that misbehaves as planned, and writes down what reached it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::plan::{self, Act, How, Plan, Point, Speech};
use crate::kit::server::Server;
use crate::kit::{PATIENCE, ms, noise};

/// How long the body of an ordinary reply is, and of one that is longer than what is kept.
const BODY: usize = 500;
const LONG: usize = 100_000;

/// One attempt that reached the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Arrival {
    pub(super) id: usize,
    /// As the gateway numbers it.
    pub(super) attempt: u32,
    pub(super) act: Act,
}

impl Arrival {
    /// The body of its reply, which says to whom it belongs.
    pub(super) fn text(&self) -> Vec<u8> {
        let length = if self.act == Act::LongError { LONG } else { BODY };
        let mut body = format!("{}/{}:", self.id, self.attempt).into_bytes();
        body.extend_from_slice(&noise(length));
        body
    }
}

/// What reached the origin.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) arrivals: Vec<Arrival>,
    /// Connections, each of which carried one attempt, that died before their first request.
    pub(super) killed: Vec<How>,
    pub(super) accepted: u64,
    /// Attempts that came when no more were taken, or left before they had come.
    pub(super) overlooked: usize,
    /// What no gateway should send.
    pub(super) wrong: Vec<String>,
}

/// How callers and origin tell each other how far a request has come.
#[derive(Debug)]
pub(super) struct Sign {
    /// The highest attempt that has reached the origin.
    pub(super) arrived: watch::Sender<u32>,
    /// Whether the caller has seen a reply's head.
    pub(super) answered: watch::Sender<bool>,
}

/// What all connections share.
#[derive(Debug)]
pub(super) struct Shared {
    seed: u64,
    pub(super) plans: Vec<Plan>,
    pub(super) signs: Vec<Sign>,
    log: Mutex<Log>,
}

/// See the [module](self).
pub(super) struct Origin {
    pub(super) addr: SocketAddr,
    shared: Arc<Shared>,
    _server: Server,
}

impl Origin {
    pub(super) async fn start(seed: u64, plans: Vec<Plan>, speech: Speech) -> Self {
        let sign = |_| Sign { arrived: watch::Sender::new(0), answered: watch::Sender::new(false) };
        let signs = plans.iter().map(sign).collect();
        let shared = Arc::new(Shared { seed, plans, signs, log: Mutex::default() });
        let all = Arc::clone(&shared);
        let server = Server::start(move |stream| {
            let shared = Arc::clone(&all);
            async move {
                let number = shared.entered();
                let _ = stream.set_nodelay(true); // a gateway that is gone already is none of our business
                match speech {
                    Speech::Http1 => shared.converse(number, stream).await,
                    Speech::Http2 => shared.converse_by_frames(stream).await,
                }
            }
        })
        .await;
        Self { addr: server.addr, shared, _server: server }
    }

    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        self.shared.log()
    }

    pub(super) fn sign(&self, id: usize) -> &Sign {
        &self.shared.signs[id]
    }
}

/// A connection, and what was read of it and not yet used.
struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
}

struct Head {
    id: Option<usize>,
    attempt: u32,
    /// `None` for chunks.
    length: Option<usize>,
}

impl Shared {
    pub(super) fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }

    /// One more connection, and which one.
    fn entered(&self) -> u64 {
        let mut log = self.log();
        log.accepted += 1;
        log.accepted - 1
    }

    async fn converse(&self, number: u64, stream: TcpStream) {
        let mut wire = Wire { stream, read: Vec::new() };
        if let Some(how) = plan::at_accept(self.seed, number) {
            self.log().killed.push(how);
            return wire.end(how).await;
        }
        while let Some(head) = wire.head().await {
            let Some(id) = head.id else {
                // A control, such as what comes after all faults to see that everything works.
                let _ = wire.body(head.length, usize::MAX).await;
                let _ =
                    wire.stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await;
                continue;
            };
            let plan = &self.plans[id];
            let arrival = Arrival { id, attempt: head.attempt, act: plan.act(head.attempt) };
            self.log().arrivals.push(arrival);
            self.signs[id].arrived.send_modify(|arrived| *arrived = head.attempt.max(*arrived));
            if !self.act(&mut wire, &head, plan, arrival).await {
                return;
            }
        }
    }

    /// Whether the connection goes on.
    async fn act(&self, wire: &mut Wire, head: &Head, plan: &Plan, arrival: Arrival) -> bool {
        let Arrival { id, attempt, act } = arrival;
        if let Act::Cut(point @ (Point::Head | Point::Body), how) = act {
            if point == Point::Body {
                let _ = wire.body(head.length, plan.length / 2).await;
            }
            wire.end(how).await;
            return false;
        }
        let body = wire.body(head.length, usize::MAX).await;
        let Some(body) = body else { return false }; // the caller left
        if body != plan.payload() {
            self.log().wrong.push(format!("{id}/{attempt}: {} bytes of body", body.len()));
        }
        let text = arrival.text();
        let empty = plan.method == "HEAD";
        let reply = Reply {
            status: act.status().unwrap_or(200),
            text: &text,
            chunked: (id + attempt as usize).is_multiple_of(2),
            hangs: matches!(act, Act::Cut(_, How::Hang) | Act::CutError(How::Hang)),
            empty,
        };
        let reply = reply.bytes();
        let middle = |part: &[u8]| part.len() - text.len() / 2;
        match act {
            Act::Reply(_) | Act::LongError => wire.write(&reply).await,
            Act::Refuse | Act::GoAwayBelow | Act::GoAwayAbove | Act::GoAwayCut => {
                unreachable!("HTTP/1.1 has no word for it")
            }
            Act::Cut(Point::Read, how) => wire.end_after(b"", how).await,
            Act::Cut(Point::ReplyHead, how) => wire.end_after(&reply[..20], how).await,
            Act::Cut(..) => {
                let _ = wire.write(&reply[..middle(&reply)]).await;
                // Else a reset could overtake what was sent before.
                let mut answered = self.signs[id].answered.subscribe();
                let _ = timeout(PATIENCE, answered.wait_for(|answered| *answered)).await;
                let how = if let Act::Cut(_, how) = act { how } else { How::Hang };
                wire.end_after(b"", how).await
            }
            Act::CutError(how) => wire.end_after(&reply[..middle(&reply)], how).await,
            Act::Late => {
                wire.drain().await;
                let _ = wire.stream.write_all(&reply).await; // nobody reads it
                false
            }
            Act::Trickle => {
                for byte in &reply {
                    if !wire.write(&[*byte]).await {
                        return false;
                    }
                    tokio::task::yield_now().await;
                }
                true
            }
            Act::UntilClose => {
                // Where there is no body its end cannot be the connection's, which has to be told.
                let close = if empty { "connection: close\r\n" } else { "" };
                let head = format!("HTTP/1.1 200 OK\r\nx-id: {id}\r\n{close}\r\n");
                let text = if empty { &[][..] } else { &text };
                wire.end_after(&[head.as_bytes(), text].concat(), How::Close).await
            }
            Act::Continues => {
                let early = b"HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n".repeat(10);
                wire.write(&[&early, &reply[..]].concat()).await
            }
            Act::Storm => {
                let early = b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(20);
                while wire.write(&early).await {
                    sleep(ms(1)).await; // a storm, not a flood: the processor is others' too
                }
                false
            }
            Act::Surplus => {
                let more = b"HTTP/1.1 200 OK\r\nx-id: 0\r\ncontent-length: 4\r\n\r\nEVIL";
                wire.write(&[&reply, &more[..]].concat()).await
            }
            Act::TwoLengths => {
                let two = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\nabc";
                wire.end_after(two, How::Close).await
            }
            Act::SameLengths => {
                let length = format!("content-length: {}\r\n", text.len());
                let head = format!("HTTP/1.1 200 OK\r\n{length}{length}\r\n");
                let text = if empty { &[][..] } else { &text };
                wire.write(&[head.as_bytes(), text].concat()).await
            }
            Act::Garbage => {
                let garbage = b"220 \x00\xff mail.example ESMTP ready\r\n250 ok\r\n\r\n";
                wire.end_after(garbage, How::Close).await
            }
            Act::Oversized => {
                let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
                for n in 0..10_000 {
                    head.extend_from_slice(format!("x-{n}: {}\r\n", "x".repeat(90)).as_bytes());
                }
                wire.end_after(&head, How::Close).await
            }
            Act::Switch => {
                let switch = b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
                wire.end_after(switch, How::Hang).await
            }
        }
    }
}

/// A reply as it should be.
struct Reply<'a> {
    status: u16,
    text: &'a [u8],
    chunked: bool,
    /// Whether it tells its reader that its end will not come.
    hangs: bool,
    /// Whether it answers a HEAD.
    empty: bool,
}

impl Reply<'_> {
    fn bytes(&self) -> Vec<u8> {
        let Self { status, text, chunked, hangs, empty } = *self;
        let hangs = if hangs { "x-hangs: 1\r\n" } else { "" };
        let (framing, last) = match chunked && !empty {
            true => {
                (format!("transfer-encoding: chunked\r\n\r\n{:x}\r\n", text.len()), "\r\n0\r\n\r\n")
            }
            false => (format!("content-length: {}\r\n\r\n", text.len()), ""),
        };
        let head = format!("HTTP/1.1 {status} Status\r\n{hangs}{framing}");
        let text = if empty { &[] } else { text };
        [head.as_bytes(), text, last.as_bytes()].concat()
    }
}

impl Wire {
    /// Reads more; `None` at the end.
    async fn more(&mut self) -> Option<()> {
        match self.stream.read_buf(&mut self.read).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(()),
        }
    }

    /// The next request's head.
    async fn head(&mut self) -> Option<Head> {
        let end = loop {
            match self.read.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None => self.more().await?,
            }
        };
        let text = String::from_utf8(self.read.drain(..end).collect()).unwrap().to_lowercase();
        let field = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(": ").map(str::to_owned))
        };
        let length = match field("transfer-encoding") {
            Some(_) => None,
            None => Some(field("content-length").map_or(0, |length| length.parse().unwrap())),
        };
        let attempt = field("quell-attempt").map_or(0, |attempt| attempt.parse().unwrap());
        Some(Head { id: field("x-id").map(|id| id.parse().unwrap()), attempt, length })
    }

    /// A request's body, or at least its first part; `None` if it breaks off.
    async fn body(&mut self, length: Option<usize>, most: usize) -> Option<Vec<u8>> {
        if let Some(length) = length {
            while self.read.len() < length.min(most) {
                self.more().await?;
            }
            let end = length.min(self.read.len());
            return Some(self.read.drain(..end).collect());
        }
        let mut body = Vec::new();
        while body.len() < most {
            let end = loop {
                match self.read.windows(2).position(|two| two == b"\r\n") {
                    Some(end) => break end,
                    None => self.more().await?,
                }
            };
            let size = String::from_utf8(self.read[..end].to_vec()).unwrap();
            let size = usize::from_str_radix(&size, 16).unwrap();
            while self.read.len() < end + 2 + size + 2 {
                self.more().await?;
            }
            body.extend_from_slice(&self.read[end + 2..end + 2 + size]);
            self.read.drain(..end + 2 + size + 2);
            if size == 0 {
                break;
            }
        }
        Some(body)
    }

    /// Whether it could be written.
    async fn write(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    async fn end_after(&mut self, bytes: &[u8], how: How) -> bool {
        let _ = self.write(bytes).await; // who does not take it finds the end all the same
        self.end(how).await;
        false
    }

    async fn end(&mut self, how: How) {
        match how {
            How::Reset => {
                let _ = SockRef::from(&self.stream).set_linger(Some(Duration::ZERO));
            }
            How::Close => {
                let _ = self.stream.shutdown().await;
                self.drain().await;
            }
            How::Hang => self.drain().await,
        }
    }

    /// Reads until the other side closes.
    async fn drain(&mut self) {
        while self.more().await.is_some() {
            self.read.clear();
        }
    }
}
