//! The same origin by HTTP/2, frame by frame: what well-behaved libraries do not let one send.
//!
//! Requests are told apart by their bodies, which begin with their number: so nothing has to be decompressed.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::origin::{Arrival, Shared};
use super::plan::{Act, How, Point};
use crate::kit::PATIENCE;

const PREFACE: usize = 24;
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

/// On SETTINGS and PING: an acknowledgement; on HEADERS and DATA: the last of their stream.
const ACK: u8 = 1;
const END: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

const NO_ERROR: u32 = 0;
const INTERNAL_ERROR: u32 = 2;
const REFUSED_STREAM: u32 = 7;

struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Vec<u8>,
}

/// A stream on which a request comes in, or waits for its end.
#[derive(Default)]
struct Stream {
    body: Vec<u8>,
    /// Where it stands in the log, once it has arrived.
    arrival: Option<usize>,
}

struct Connection {
    shared: Arc<Shared>,
    write: Arc<Mutex<OwnedWriteHalf>>,
    open: HashMap<u32, Stream>,
    /// Streams above it are not processed.
    last: u32,
}

impl Shared {
    pub(super) async fn converse_by_frames(self: &Arc<Self>, stream: TcpStream) {
        let (mut read, write) = stream.into_split();
        if read.read_exact(&mut [0; PREFACE]).await.is_err() {
            return;
        }
        let mut connection = Connection {
            shared: Arc::clone(self),
            write: Arc::new(Mutex::new(write)),
            open: HashMap::new(),
            last: u32::MAX >> 1,
        };
        connection.frame(SETTINGS, 0, 0, &[]).await;
        while let Some(frame) = next(&mut read).await {
            connection.take(frame).await;
        }
    }
}

async fn next(read: &mut OwnedReadHalf) -> Option<Frame> {
    let mut head = [0; 9];
    read.read_exact(&mut head).await.ok()?;
    let [a, b, c, kind, flags, stream @ ..] = head;
    let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
    read.read_exact(&mut payload).await.ok()?;
    Some(Frame { kind, flags, stream: u32::from_be_bytes(stream) & u32::MAX >> 1, payload })
}

async fn write(to: &Mutex<OwnedWriteHalf>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    let _ = to.lock().await.write_all(&frame).await; // whoever is gone does not read it
}

impl Connection {
    async fn frame(&self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        write(&self.write, kind, flags, stream, payload).await;
    }

    async fn take(&mut self, frame: Frame) {
        let Frame { kind, flags, stream, payload } = frame;
        match kind {
            SETTINGS if flags & ACK == 0 => self.frame(SETTINGS, ACK, 0, &[]).await,
            PING if flags & ACK == 0 => self.frame(PING, ACK, 0, &payload).await,
            HEADERS if stream > self.last => self.shared.log().overlooked += 1,
            HEADERS => {
                let old = self.open.insert(stream, Stream::default());
                assert!(old.is_none() && flags & END == 0, "trailers, or a request without a body");
            }
            DATA => {
                if !payload.is_empty() {
                    let more = (payload.len() as u32).to_be_bytes();
                    self.frame(WINDOW_UPDATE, 0, 0, &more).await;
                    self.frame(WINDOW_UPDATE, 0, stream, &more).await;
                }
                assert!(flags & PADDED == 0, "padding");
                let Some(open) = self.open.get_mut(&stream) else { return };
                open.body.extend_from_slice(&payload);
                if flags & END != 0 {
                    self.arrived(stream).await;
                }
            }
            RST_STREAM => {
                let Some(open) = self.open.remove(&stream) else { return };
                let arrival = open.arrival.map(|index| self.shared.log().arrivals[index]);
                match arrival {
                    Some(arrival) if arrival.act == Act::Late => {
                        self.reply(stream, arrival, END).await;
                    }
                    Some(_) => {}
                    None => self.shared.log().overlooked += 1, // left before its body had come
                }
            }
            _ => {}
        }
    }

    /// A whole request is here.
    async fn arrived(&mut self, stream: u32) {
        let Some(open) = self.open.get_mut(&stream) else { return };
        let id = open.body.split(|byte| *byte == b' ').next().unwrap();
        let id: usize = String::from_utf8_lossy(id).parse().unwrap();
        let shared = Arc::clone(&self.shared);
        let plan = &shared.plans[id];
        let arrival = {
            let mut log = shared.log();
            if open.body != plan.payload() {
                log.wrong.push(format!("{id}: {} bytes of body", open.body.len()));
            }
            let before = log.arrivals.iter().filter(|arrival| arrival.id == id).count() as u32;
            open.arrival = Some(log.arrivals.len());
            let arrival = Arrival { id, attempt: before + 1, act: plan.act(before + 1) };
            log.arrivals.push(arrival);
            arrival
        };
        shared.signs[id].arrived.send_modify(|arrived| *arrived = arrival.attempt.max(*arrived));
        self.act(stream, arrival).await;
    }

    async fn act(&mut self, stream: u32, arrival: Arrival) {
        match arrival.act {
            Act::Late | Act::Cut(Point::Read, How::Hang) => return, // the other side ends it
            Act::Refuse => self.reset(stream, REFUSED_STREAM).await,
            Act::Cut(Point::Read, How::Reset) => self.reset(stream, INTERNAL_ERROR).await,
            Act::Cut(Point::ReplyBody, how) => {
                self.reply(stream, arrival, 0).await;
                let mut answered = self.shared.signs[arrival.id].answered.subscribe();
                let to = Arc::clone(&self.write);
                tokio::spawn(async move {
                    let _ = timeout(PATIENCE, answered.wait_for(|answered| *answered)).await;
                    if how != How::Hang {
                        let code = INTERNAL_ERROR.to_be_bytes();
                        write(&to, RST_STREAM, 0, stream, &code).await;
                    }
                });
            }
            Act::Cut(..) | Act::GoAwayCut => {
                if arrival.act == Act::GoAwayCut {
                    self.go_away(u32::MAX >> 1).await;
                }
                // The whole connection, and all who are on it.
                let all = std::mem::take(&mut self.open);
                self.kill(all, arrival.act);
                self.last = 0;
                let _ = self.write.lock().await.shutdown().await;
                return;
            }
            Act::GoAwayAbove => {
                self.go_away(u32::MAX >> 1).await;
                self.reply(stream, arrival, END).await;
            }
            Act::GoAwayBelow => {
                self.last = stream - 1;
                self.go_away(stream.saturating_sub(2)).await;
                let above = self.open.extract_if(|open, _| *open >= stream).collect();
                self.kill(above, arrival.act);
                return;
            }
            _ => self.reply(stream, arrival, END).await,
        }
        self.open.remove(&stream);
    }

    /// What has arrived on these streams comes to this end; what has not is overlooked.
    fn kill(&self, streams: HashMap<u32, Stream>, act: Act) {
        let mut log = self.shared.log();
        for stream in streams.into_values() {
            match stream.arrival {
                Some(index) => log.arrivals[index].act = act,
                None => log.overlooked += 1,
            }
        }
    }

    async fn reset(&self, stream: u32, code: u32) {
        self.frame(RST_STREAM, 0, stream, &code.to_be_bytes()).await;
    }

    async fn go_away(&self, last: u32) {
        let payload = [last.to_be_bytes(), NO_ERROR.to_be_bytes()].concat();
        self.frame(GOAWAY, 0, 0, &payload).await;
    }

    /// Head and body, of which `flags` say whether that is all.
    async fn reply(&self, stream: u32, arrival: Arrival, flags: u8) {
        let status = arrival.act.status().unwrap_or(200).to_string();
        // The eighth name of the static table is `:status`; neither field is to be remembered.
        let mut head = [&[8, 3], status.as_bytes()].concat();
        if arrival.act == Act::Cut(Point::ReplyBody, How::Hang) {
            head.extend_from_slice(b"\x00\x07x-hangs\x011");
        }
        self.frame(HEADERS, END_HEADERS, stream, &head).await;
        let text = arrival.text();
        let sent = if flags == END { text.len() } else { text.len() / 2 };
        self.frame(DATA, flags, stream, &text[..sent]).await;
    }
}
