//! Event: what can happen in a run, and what an answer says.
//!
//! **Why.** The agenda holds millions of events in a storm, and every actor makes and reads them. They stand here, apart from the loop that
//! carries them out, so that one list says all that can happen.

use quell_core::{Failure, Fault, Outcome};

use crate::slab::Key;

/// Something that will happen.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// A user's request begins.
    Arrives,
    /// A caller's patience ends.
    Leaves(Key),
    /// A caller tries again.
    Resends(Key),
    /// The service finished a job, unless it stalled in between.
    Served { shop: u16, job: Key, stalls: u32 },
    /// The service finished the work of a refusal.
    Refused { shop: u16 },
    /// A call that a job made has come to an end.
    Returns { shop: u16, job: Key, good: bool, marked: bool },
    /// An answer reaches whoever sent the request.
    Answers { to: Origin, reply: Reply },
    /// An attempt of a call runs into its timeout.
    TimesOut { call: Key, slot: u8, attempt: u16 },
    /// A call's sleep is over.
    Wakes(Key),
    /// A host's queue needs a look.
    Polls { host: u32 },
    /// The service notices that a caller has left.
    Cancels { shop: u16, from: Origin },
    /// Some records of a topic may be due.
    Ripens,
    /// A consumer's pause is over.
    Resumes { host: u32 },
    /// A process looks whether to lease more of a budget that a fleet shares.
    Leases { host: u32 },
    /// A message reaches the store, or comes back from it.
    Mail(Key),
    /// Quell starts.
    Starts,
    /// A host forgets all it knew.
    Restarts { host: u32 },
    /// A fault begins; the first of the first service is the outage.
    Breaks { shop: u16, fault: u32 },
    /// It ends.
    Mends { shop: u16, fault: u32 },
    /// A request of some kind begins.
    Comes { kind: u16 },
    /// Callers of some kind leave at once.
    Together { kind: u16 },
    /// What happens to one kind alone begins or ends.
    Turns { kind: u16, fault: u32, begins: bool },
    /// The service has been handed all of a request.
    Handed { from: Origin },
    /// Something that held no worker is done, unless it stood still in between.
    Waited { shop: u16, job: Key },
}

// An event is copied often, and a storm holds millions of them.
const _: () = assert!(size_of::<Event>() <= 16);

/// What an answer says, in a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// What was asked for.
    Good,
    /// An error.
    Error,
    /// Too much to do.
    Refused,
    /// An error, and a mark that it is not to be repeated.
    Final,
    /// An error of the request that callers take for one that may pass: somebody else was faster, or it is misread.
    Conflict,
    /// An error of the request, for good.
    Fatal,
    /// Too much to do, or an error, and when to come back.
    Later,
    /// This caller asks too often, and when to come back.
    Throttled,
}

impl Reply {
    pub(crate) fn outcome(self) -> Outcome {
        let server = |code| Failure::of(Fault::Server).with_code(code);
        Outcome::Failed(match self {
            Self::Good => return Outcome::Success,
            Self::Error => server(500),
            Self::Refused => server(503),
            Self::Later => Failure::of(Fault::Overload).with_code(503),
            Self::Throttled => Failure::of(Fault::Overload).with_code(429),
            Self::Fatal => Failure::of(Fault::Fatal).with_code(400),
            Self::Conflict => Failure { bad: false, ..server(409) },
            Self::Final => Failure { retryable: false, ..server(503) },
        })
    }
}

/// Who sent a request to the service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Origin {
    /// A caller.
    User(Key),
    /// One attempt of a Quell call.
    Call { call: Key, slot: u8, attempt: u16 },
}
