//! Delivery: what an error proves about the request.

use std::{error::Error, io};

use quell_core::Delivery;

/// Longer chains of causes than this are not followed.
const DEEPEST: usize = 32;

/// Whether a request can have reached the upstream, going by the error that ended it and all of its causes.
///
/// Only what cannot happen once there is a connection is proof that nothing was sent: it was refused, or this machine had
/// no address left to connect from. All else is [`Delivery::Unknown`]. A reset proves nothing, not even on a connection
/// that was used before and has just been closed: the upstream may have read the request first. Nor does a timeout, or an
/// unreachable host. Clients know more than their errors say; where yours can tell that connecting failed (such as
/// `is_connect` of hyper-util and reqwest), ask it.
///
/// If the request's own body broke, the error is about that and not about the upstream: ask
/// [`Replay::has_failed`](super::Replay::has_failed) first.
///
/// ```
/// use std::io::{Error, ErrorKind};
/// use quell::{Delivery, http::delivery};
///
/// assert_eq!(delivery(&Error::from(ErrorKind::ConnectionRefused)), Delivery::NeverSent);
/// assert_eq!(delivery(&Error::from(ErrorKind::ConnectionReset)), Delivery::Unknown);
/// ```
pub fn delivery(error: &(dyn Error + 'static)) -> Delivery {
    let mut cause = Some(error);
    for _ in 0..DEEPEST {
        let Some(error) = cause else { break };
        let io = error.downcast_ref::<io::Error>();
        if io.is_some_and(|io| is_before_any_connection(io.kind())) {
            return Delivery::NeverSent;
        }
        // An I/O error that wraps another names the wrapped one's cause as its own, and skips the wrapped one.
        cause = match io.and_then(io::Error::get_ref) {
            Some(wrapped) => Some(wrapped),
            None => error.source(),
        };
    }
    Delivery::Unknown
}

fn is_before_any_connection(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{AddrInUse, AddrNotAvailable, ConnectionRefused};
    matches!(kind, ConnectionRefused | AddrNotAvailable | AddrInUse)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("a client's error")]
    struct Wraps(#[source] io::Error);

    /// H8.
    #[test]
    fn only_what_comes_before_any_connection_proves_that_nothing_was_sent() {
        use io::ErrorKind::*;
        for kind in [ConnectionRefused, AddrNotAvailable, AddrInUse] {
            assert_eq!(delivery(&io::Error::from(kind)), Delivery::NeverSent, "{kind}");
        }
        let proves_nothing = [
            ConnectionReset,
            ConnectionAborted,
            BrokenPipe,
            NotConnected,
            UnexpectedEof,
            TimedOut,
            HostUnreachable,
            NetworkUnreachable,
            Other,
        ];
        for kind in proves_nothing {
            assert_eq!(delivery(&io::Error::from(kind)), Delivery::Unknown, "{kind}");
        }
    }

    #[test]
    fn causes_are_found_however_they_are_wrapped() {
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(delivery(&Wraps(refused())), Delivery::NeverSent);
        assert_eq!(delivery(&io::Error::other(refused())), Delivery::NeverSent);
        assert_eq!(delivery(&Wraps(io::Error::other(Wraps(refused())))), Delivery::NeverSent);
        assert_eq!(delivery(&std::fmt::Error), Delivery::Unknown);
    }

    #[test]
    fn a_chain_without_an_end_has_one() {
        #[derive(Debug)]
        struct Itself;
        impl std::fmt::Display for Itself {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("itself")
            }
        }
        impl Error for Itself {
            fn source(&self) -> Option<&(dyn Error + 'static)> {
                Some(&Itself)
            }
        }
        assert_eq!(delivery(&Itself), Delivery::Unknown);
    }
}
