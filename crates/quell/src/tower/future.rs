//! ResponseFuture: a call of a service, on its way.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use pin_project_lite::pin_project;
use quell_core::Reason;
use tower_service::Service;

use super::{
    calls::{Calls, Reply},
    protocol::{Ended, Inbound, Outbound, Refused},
};
use crate::{
    error::{CallError, Cause, Parts},
    quell::Owned,
    run::{Done, Drive, End},
};

pin_project! {
    /// A call of a [`QuellService`](super::QuellService), on its way. Dropping it gives back all that the call holds.
    ///
    /// The last reply of the service is given as it is, whatever its meaning. An error says why there is none.
    #[must_use = "nothing is sent before it is polled"]
    pub struct ResponseFuture<S, P, Req>
    where
        P: Outbound<Req>,
        P: Inbound<S::Response, S::Error>,
        S: Service<P::Outgoing>,
        S: Clone,
    {
        #[pin]
        drive: Drive<Owned, Calls<S, P, Req>>,
    }
}

impl<S, P, Req> ResponseFuture<S, P, Req>
where
    P: Outbound<Req> + Inbound<S::Response, S::Error>,
    S: Service<P::Outgoing> + Clone,
{
    #[inline(always)]
    pub(super) fn new(drive: Drive<Owned, Calls<S, P, Req>>) -> Self {
        Self { drive }
    }
}

impl<S, P, Req> Future for ResponseFuture<S, P, Req>
where
    P: Outbound<Req> + Inbound<S::Response, S::Error>,
    S: Service<P::Outgoing> + Clone,
{
    type Output = Result<P::Answer, CallError<(), S::Error>>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut drive = self.project().drive;
        match ready!(drive.as_mut().poll(cx)) {
            Done {
                end: End::Reply(Reply::Came(Ok(answer))), attempts: 1, reason: None, ..
            } => Poll::Ready(Ok(answer)),
            other => Poll::Ready(finish(drive, other)),
        }
    }
}

type DoneOf<A, E> = Done<Reply<A, E>, Reply<A, E>>;

/// Anything but a success at once.
#[cold]
fn finish<S, P, Req>(
    drive: Pin<&mut Drive<Owned, Calls<S, P, Req>>>,
    done: DoneOf<P::Answer, S::Error>,
) -> Result<P::Answer, CallError<(), S::Error>>
where
    P: Outbound<Req> + Inbound<S::Response, S::Error>,
    S: Service<P::Outgoing> + Clone,
{
    let Done { end, outcome, reason, attempts, retry_at, elapsed, .. } = done;
    let (calls, upstream) = drive.ends();
    let ended = Ended { attempts, reason, elapsed };
    let reason = reason.unwrap_or(Reason::NotRetryable);
    let retry_in = match retry_at {
        Some(at) => Some(at.since(calls.clock().now())),
        None => outcome.hint(),
    };
    let refused = Refused { reason, attempts, retry_in };
    if ended.reason.is_some_and(Reason::allows_fallback)
        && let Some(mut stand_in) = calls.protocol.stand_in(&refused)
    {
        calls.protocol.mark(&mut stand_in, ended);
        return Ok(stand_in);
    }
    let reply = match end {
        End::Reply(reply) | End::Kept(reply) => reply,
        End::TimedOut { earlier } | End::Refused { earlier } => earlier.unwrap_or(Reply::Nothing),
    };
    let cause = match reply {
        Reply::Came(Ok(mut answer)) => {
            calls.protocol.mark(&mut answer, ended);
            return Ok(answer);
        }
        Reply::Came(Err(error)) | Reply::Unready(error) => Cause::Error(error),
        Reply::Nothing => {
            if let Some(own) = calls.protocol.refuse(&refused) {
                return Ok(own);
            }
            if attempts > 0 { Cause::TimedOut } else { Cause::Refused }
        }
    };
    let operation = upstream.name().to_owned();
    Err(CallError::new(Parts { operation, attempts, elapsed, reason, retry_in, cause }))
}
