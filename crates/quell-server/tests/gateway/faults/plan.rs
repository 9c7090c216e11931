//! What is to happen, drawn from a seed: who asks for what, and how the origin misbehaves.
//!
//! Everything is a function of the seed and the request's number, so a run can be repeated although its tasks interleave
//! as they like.

use bytes::Bytes;
use quell::core::Rng;

use crate::kit::noise;

/// Most sends per request, by the policy that is tested.
pub(super) const ATTEMPTS: u32 = 3;
/// The longest body that the gateway keeps, of either way.
const KEPT: usize = 64 * 1024;
/// A connection is killed before its first request, one in so many.
const ACCEPT_KILLS: u64 = 12;

/// Where an exchange is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Point {
    /// Before anything was read.
    Accept,
    /// After the request's head.
    Head,
    /// In the middle of the request's body.
    Body,
    /// After the whole request.
    Read,
    /// In the middle of the reply's head.
    ReplyHead,
    /// In the middle of the reply's body, which its reader knows to be incomplete.
    ReplyBody,
}

/// How it is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// RST.
    Reset,
    /// FIN on our half; the other is read on.
    Close,
    /// Nothing more, until the other side closes.
    Hang,
}

/// What the origin does with an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Answers, as it should.
    Reply(u16),
    /// Breaks off there, with a 200 under way if it gets so far.
    Cut(Point, How),
    /// Breaks off in the body of a 503.
    CutError(How),
    /// Answers after the gateway has given up.
    Late,
    /// Answers 503 with a body longer than what is kept.
    LongError,
    /// Answers byte by byte.
    Trickle,
    /// Answers without a length and ends the body by closing.
    UntilClose,
    /// Announces an answer ten times before it comes.
    Continues,
    /// Announces an answer for ever.
    Storm,
    /// Adds a second reply that nobody asked for.
    Surplus,
    /// Claims two lengths, of which one is wrong.
    TwoLengths,
    /// Claims its length twice.
    SameLengths,
    /// Is not HTTP.
    Garbage,
    /// A head of a megabyte.
    Oversized,
    /// Switches protocols unasked.
    Switch,
    /// HTTP/2: says that it did not begin with this one.
    Refuse,
    /// HTTP/2: says that it did not begin with this one, nor with any later one, and takes no more.
    GoAwayBelow,
    /// HTTP/2: finishes this one and takes no more.
    GoAwayAbove,
    /// HTTP/2: says that it began with this one, takes no more, and breaks off.
    GoAwayCut,
}

use Act::*;

const HOWS: [How; 3] = [How::Reset, How::Close, How::Hang];
/// `Point::Accept` is drawn by connection.
const POINTS: [Point; 5] =
    [Point::Head, Point::Body, Point::Read, Point::ReplyHead, Point::ReplyBody];
const OTHERS: [Act; 20] = [
    Reply(404),
    Reply(408),
    Reply(429),
    Reply(500),
    Reply(501),
    Reply(502),
    Reply(503),
    Reply(504),
    Late,
    LongError,
    Trickle,
    UntilClose,
    Continues,
    Storm,
    Surplus,
    TwoLengths,
    SameLengths,
    Garbage,
    Oversized,
    Switch,
];

/// What ends one stream alone: whatever ends a connection ends others' attempts, too, and is tried by itself.
const BY_FRAMES: [Act; 11] = [
    Reply(404),
    Reply(429),
    Reply(500),
    Reply(503),
    Cut(Point::Read, How::Reset),
    Cut(Point::Read, How::Hang),
    Cut(Point::ReplyBody, How::Reset),
    Cut(Point::ReplyBody, How::Hang),
    Late,
    Refuse,
    GoAwayAbove,
];

impl Act {
    fn draw(rng: &mut Rng) -> Self {
        let cuts = (POINTS.len() * HOWS.len()) as u64;
        let kinds = cuts + HOWS.len() as u64 + OTHERS.len() as u64;
        match rng.below(kinds) {
            n if n < cuts => Cut(POINTS[n as usize / HOWS.len()], HOWS[n as usize % HOWS.len()]),
            n if n < cuts + 3 => CutError(HOWS[(n - cuts) as usize]),
            n => OTHERS[(n - cuts) as usize - HOWS.len()],
        }
    }

    pub(super) fn is_fault(self) -> bool {
        self != Reply(200)
    }

    /// The status whose head the gateway gets, if it gets one.
    pub(super) fn status(self) -> Option<u16> {
        match self {
            Reply(status) => Some(status),
            CutError(_) | LongError => Some(503),
            Cut(Point::ReplyBody, _)
            | Trickle
            | UntilClose
            | Continues
            | Surplus
            | SameLengths
            | GoAwayAbove => Some(200),
            Cut(..) | Late | Storm | TwoLengths | Garbage | Oversized | Switch => None,
            Refuse | GoAwayBelow | GoAwayCut => None,
        }
    }

    /// Whether the reply's head comes, and its body not to its end.
    pub(super) fn breaks_body(self) -> bool {
        matches!(self, Cut(Point::ReplyBody, _) | CutError(_))
    }

    /// What the gateway may count it as.
    pub(super) fn results(self) -> &'static [&'static str] {
        match self {
            Reply(200) => &["success"],
            Reply(404) => &["other_4xx"],
            Reply(408) => &["408"],
            Reply(429) => &["429"],
            Reply(500) => &["500"],
            Reply(501) => &["other_5xx"],
            Reply(502) => &["502"],
            Reply(503) | CutError(_) | LongError => &["503"],
            Reply(504) => &["504"],
            Reply(_) => &[],
            Cut(Point::ReplyBody, _)
            | Trickle
            | UntilClose
            | Continues
            | Surplus
            | SameLengths
            | GoAwayAbove => &["success"],
            Refuse | GoAwayBelow => &["connect", "broken"],
            Cut(_, How::Hang) | Late => &["timeout"],
            Cut(Point::Accept, _) => &["broken", "connect"],
            Storm => &["timeout", "broken"],
            Cut(..) | TwoLengths | Garbage | Oversized | Switch | GoAwayCut => &["broken"],
        }
    }

    /// Whether it is known that nothing was done.
    pub(super) fn is_unprocessed(self) -> bool {
        matches!(self, Refuse | GoAwayBelow)
    }

    /// Whether another attempt could help.
    pub(super) fn is_retryable(self) -> bool {
        !matches!(self.status(), Some(200 | 404 | 501)) && !matches!(self, LongError)
            // Its body does not come to an end in time: it is passed on as it is.
            && self != CutError(How::Hang)
    }
}

/// How the origin speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speech {
    Http1,
    Http2,
}

/// What the caller does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// Waits for the end.
    Stays,
    /// Leaves once this attempt has reached the origin, which does not answer it.
    LeavesAt(u32),
    /// Sends half of its body and leaves once the origin has seen the head.
    LeavesInBody,
    /// Leaves when it has seen the reply's head.
    LeavesInReply,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) id: usize,
    pub(super) method: &'static str,
    /// Whether it carries an `Idempotency-Key`.
    pub(super) keyed: bool,
    pub(super) length: usize,
    /// Whether the caller tells the length.
    pub(super) chunked: bool,
    pub(super) caller: Caller,
    acts: [Act; ATTEMPTS as usize],
}

impl Plan {
    pub(super) fn draw(seed: u64, id: usize, speech: Speech) -> Self {
        let mut rng = Rng::stream(seed, id as u64, 0);
        let method = match speech {
            Speech::Http1 => &["GET", "GET", "HEAD", "PUT", "PUT", "DELETE", "POST", "POST"][..],
            // Whose body has to tell who they are.
            Speech::Http2 => &["PUT", "PUT", "POST"],
        };
        let method = method[rng.below(method.len() as u64) as usize];
        let length = match method {
            "PUT" | "POST" => [20, 100, 20_000, 200_000][rng.below(4) as usize],
            _ => 0,
        };
        let keyed = method == "POST" && rng.below(2) == 0;
        let mut acts = [0, 1, 2].map(|attempt| {
            let good = if attempt == 0 { 10 } else { 50 };
            match speech {
                _ if rng.below(100) < good => Reply(200),
                Speech::Http1 => Act::draw(&mut rng),
                Speech::Http2 => BY_FRAMES[rng.below(BY_FRAMES.len() as u64) as usize],
            }
        });
        let leaves = rng.below(100);
        let caller = match leaves {
            0..6 => Caller::LeavesAt(1 + rng.below(2) as u32),
            6..9 if length > 0 && speech == Speech::Http1 => Caller::LeavesInBody,
            9..12 => Caller::LeavesInReply,
            _ => Caller::Stays,
        };
        let hang = Cut(Point::Read, How::Hang);
        match caller {
            Caller::LeavesAt(1) => acts[0] = hang,
            Caller::LeavesAt(_) => acts = [Reply(503), hang, Reply(200)],
            Caller::LeavesInBody => acts = [Cut(Point::Head, How::Hang); 3],
            Caller::LeavesInReply | Caller::Stays => {}
        }
        if method == "HEAD" {
            // What has no body cannot break in it.
            acts =
                acts.map(|act| if act.breaks_body() || act == LongError { Garbage } else { act });
        }
        Self { id, method, keyed, length, chunked: rng.below(2) == 0, caller, acts }
    }

    /// A small request of a caller who stays, to which this happens once.
    pub(super) fn fixed(id: usize, method: &'static str, act: Act) -> Self {
        let (keyed, length, chunked, caller) = (false, 20, false, Caller::Stays);
        Self { id, method, keyed, length, chunked, caller, acts: [act, Reply(200), Reply(200)] }
    }

    /// What the origin does with this attempt.
    pub(super) fn act(&self, attempt: u32) -> Act {
        let act = self.acts[(attempt.clamp(1, ATTEMPTS) - 1) as usize];
        match act {
            Cut(Point::Body, how) if self.length == 0 => Cut(Point::Head, how),
            act => act,
        }
    }

    pub(super) fn is_repeatable(&self) -> bool {
        self.method != "POST" || self.keyed
    }

    /// Whether all of its body is kept for another attempt. One whose length is not told is kept until it outgrows what may
    /// be: an attempt that fails before that can be repeated.
    pub(super) fn is_replayable(&self) -> bool {
        self.length <= KEPT
    }

    /// Whether none of it is kept, as its length is told.
    pub(super) fn is_streamed(&self) -> bool {
        !self.is_replayable() && !self.chunked
    }

    /// Its body, which says whose it is.
    pub(super) fn payload(&self) -> Bytes {
        let mut payload = format!("{} ", self.id).into_bytes();
        payload.extend_from_slice(&noise(self.length));
        payload.truncate(self.length);
        payload.into()
    }
}

/// Whether the n-th connection dies before its first request, and how.
pub(super) fn at_accept(seed: u64, connection: u64) -> Option<How> {
    let mut rng = Rng::stream(seed, connection, 1);
    (rng.below(ACCEPT_KILLS) == 0).then(|| HOWS[rng.below(3) as usize])
}
