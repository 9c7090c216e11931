//! The wire: `quell-http1` with this gateway's sockets, bodies, timers and rules.
//!
//! **Why.** `quell-http1` knows nothing of the gateway. What it asks of its host is answered here, in one place.

use std::rc::Rc;
use std::task::Context;

use quell_http1::server::{Order, ReplyBody, Supervisor};
use quell_http1::{FieldRules, Transport, client, server};

use super::body::Body;
use super::counters::Verdict;
use super::forward::RequestBody;
use super::gate::{Malformed, Phase};
use super::headers::{may_be_nominated, may_trail};
use super::io::Io;
use super::per_core::Core;
use super::watch::{Told, Watch};

pub(super) use quell_http1::client::{Lost, Terms};
pub(super) use quell_http1::server::{Ended, serve};
pub(super) use quell_http1::{Broken, Date};

/// A caller's connection.
pub(super) type Talk = server::Connection<Io, Minded>;
/// The body of a caller's request.
pub(super) type Upload = server::Upload<Io, Minded>;
/// A connection to an upstream.
pub(super) type Conn = client::Connection<Io, RequestBody>;

/// Which fields may go where.
pub(super) static RULES: FieldRules = FieldRules { may_trail, may_be_nominated };

/// What minds a caller's connection: its watch, and its core's counters.
#[derive(Debug)]
pub(super) struct Minded {
    pub(super) watch: Rc<Watch>,
    pub(super) core: Rc<Core>,
}

impl Supervisor for Minded {
    fn order(&self, cx: &Context<'_>) -> Order {
        match self.watch.told(cx) {
            // HTTP/1 says with its next reply that the caller should leave.
            Told::Nothing | Told::Leave => Order::Continue,
            Told::Finish => Order::Finish,
            Told::Close => Order::Close,
        }
    }

    fn came(&self, bytes: usize, phase: Phase) {
        self.watch.came(bytes, phase);
    }

    fn writing(&self, waits: bool) {
        self.watch.writing(waits);
    }

    fn lingering(&self) {
        self.watch.lingering();
    }

    fn is_behind(&self) -> bool {
        self.watch.is_behind()
    }

    fn is_tunnel(&self) -> bool {
        self.watch.is_tunnel()
    }

    fn refused(&self, _: &Malformed) {
        self.core.counters().unrouted.request(Verdict::Malformed);
    }

    fn fields_of_refusal(&self) -> &[(&'static str, &'static str)] {
        &[("quell-attempts", "0")]
    }
}

impl ReplyBody for Body {
    fn is_own(&self) -> bool {
        Self::is_own(self)
    }
}

impl Transport for Io {
    fn closed() -> Self {
        Self::Closed
    }

    fn is_closed(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_closed(),
            Self::Detected(stream) => stream.get_ref().is_closed(),
            Self::Accepted(stream) => stream.get_ref().0.is_closed(),
            Self::Connected(_) => false, // which is ours to close
            Self::Closed => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use quell::http::headers::ATTEMPTS;

    use super::RULES;

    /// Fields of refusals are written as text; this is the name that everything else uses.
    #[test]
    fn a_refusal_tells_its_attempts_in_the_field_of_all_replies() {
        assert_eq!(ATTEMPTS, "quell-attempts");
    }

    #[test]
    fn trailers_and_interim_replies_frame_nothing_and_speak_for_nobody() {
        let may = |name| (RULES.may_trail)(&HeaderName::from_static(name));
        assert!(may("sum") && may("link"));
        for name in ["content-length", "transfer-encoding", "connection", "host", "quell-attempts"]
        {
            assert!(!may(name), "{name}");
        }
        let may = |name| (RULES.may_be_nominated)(&HeaderName::from_static(name));
        assert!(may("x-one") && !may("content-length") && !may("quell-deadline-ms"));
    }
}
