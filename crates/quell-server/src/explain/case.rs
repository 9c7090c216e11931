//! Case: one request and what became of its attempts, played to the end by the core's own call.

use std::time::Duration;

use quell::core::spec::{Invalid, UpstreamSpec};
use quell::core::{
    Arrival, Call, Failure, Fault, Finish, Input, Outcome, Policy, Reason, Step, Time, Upstream,
};

/// How each attempt ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Ends {
    /// With a reply, or a connection that breaks.
    So(Outcome),
    /// Before anything was sent.
    Unsent,
    /// Not, until its time is over.
    Late,
}

/// A request, and how every attempt to serve it ends.
#[derive(Debug)]
pub(super) struct Case<'a> {
    pub(super) policy: &'a Policy,
    pub(super) upstream: UpstreamSpec,
    pub(super) ends: Ends,
    pub(super) repeatable: bool,
    pub(super) replayable: bool,
    /// How long the caller says that it waits.
    pub(super) deadline: Option<Duration>,
    /// How long an attempt takes that is not late.
    pub(super) took: Duration,
}

/// How one call went.
#[derive(Debug, PartialEq)]
pub(super) struct Run {
    /// How long it waited before each further attempt.
    pub(super) waits: Vec<Duration>,
    /// Why there was none after the last; `None` after a success.
    pub(super) reason: Option<Reason>,
    /// How long its caller waited.
    pub(super) elapsed: Duration,
}

impl Case<'_> {
    /// Plays one call against an upstream that nobody has called yet.
    pub(super) fn run(&self, seed: u64) -> Result<Run, Invalid> {
        let mut now = Time::ZERO;
        let mut upstream = Upstream::new(self.upstream, self.policy.per_try(), seed, now)?;
        let deadline = self.deadline.map_or(Time::MAX, |deadline| now + deadline);
        let mut call = Call::of(Arrival { deadline, ..Arrival::new() });
        call.set_repeatable(self.repeatable);
        call.set_replayable(self.replayable || self.ends == Ends::Unsent); // nothing of it was taken
        let (mut waits, mut wake) = (Vec::new(), Vec::new());
        let mut input = Input::Start;
        loop {
            input = match call.step(now, input, self.policy, &mut upstream, &mut wake) {
                Step::Send(send) => {
                    if self.ends != Ends::Unsent {
                        call.sent(send.slot);
                    }
                    let soon = (now + self.took).min(send.timeout_at);
                    let (slot, late) = (send.slot, soon == send.timeout_at);
                    now = if self.ends == Ends::Late { send.timeout_at } else { soon };
                    match self.ends {
                        Ends::So(outcome) if !late => Input::Ended { slot, outcome },
                        Ends::Unsent if !late => {
                            let outcome = Outcome::Failed(Failure::of(Fault::Connect));
                            Input::Ended { slot, outcome }
                        }
                        _ => Input::TimedOut { slot },
                    }
                }
                Step::Sleep { until } => {
                    waits.push(until.since(now));
                    now = until;
                    Input::Woke
                }
                Step::Finish(Finish { reason, .. }) => {
                    return Ok(Run { waits, reason, elapsed: now.since(Time::ZERO) });
                }
                // One call alone neither queues nor hedges.
                Step::Enqueue { .. } | Step::Await => {
                    return Ok(Run {
                        waits,
                        reason: call.reason(),
                        elapsed: now.since(Time::ZERO),
                    });
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use quell::core::spec::PolicySpec;

    use super::*;

    fn run(ends: Ends, change: impl FnOnce(&mut Case<'_>)) -> Run {
        let policy = Policy::new(PolicySpec::strict()).unwrap();
        let mut case = Case {
            policy: &policy,
            upstream: UpstreamSpec::gateway(),
            ends,
            repeatable: true,
            replayable: true,
            deadline: None,
            took: Duration::ZERO,
        };
        change(&mut case);
        case.run(1).unwrap()
    }

    fn server() -> Ends {
        Ends::So(Outcome::Failed(Failure::of(Fault::Server)))
    }

    #[test]
    fn a_call_is_retried_as_often_as_the_policy_says() {
        let run = run(server(), |_| ());
        assert_eq!((run.waits.len(), run.reason), (1, Some(Reason::AttemptsSpent)));
        assert_eq!(run.elapsed, run.waits[0]);
    }

    #[test]
    fn a_success_needs_no_reason() {
        let run = run(Ends::So(Outcome::Success), |case| case.took = Duration::from_secs(1));
        assert_eq!(run, Run { waits: vec![], reason: None, elapsed: Duration::from_secs(1) });
    }

    #[test]
    fn what_was_never_sent_may_be_sent_again_and_what_was_may_not() {
        let unsafe_request = |case: &mut Case<'_>| case.repeatable = false;
        assert_eq!(run(Ends::Unsent, unsafe_request).waits.len(), 1);
        for ends in [server(), Ends::Late] {
            assert_eq!(run(ends, unsafe_request).reason, Some(Reason::NotSafe));
            assert_eq!(
                run(ends, |case| case.replayable = false).reason,
                Some(Reason::NotReplayable)
            );
        }
    }

    #[test]
    fn attempts_take_their_time_and_the_deadline_ends_them() {
        assert_eq!(run(Ends::Late, |_| ()).elapsed.as_secs(), 10);
        let short = run(Ends::Late, |case| case.deadline = Some(Duration::from_secs(5)));
        assert_eq!((short.waits.len(), short.reason), (0, Some(Reason::Deadline)));
        let slow = run(server(), |case| case.took = Duration::from_secs(60));
        assert_eq!(slow.elapsed.as_secs(), 10, "an attempt takes no longer than it may");
    }
}
