//! A host whose in-flight limit somebody else decides: what a rule is told, and how it is obeyed.

use quell_core::{Input, Outcome, Step, Time, Upstream, Wake};

use crate::arena::{Answered, Control};

/// When an attempt was sent, and how many were under way then; that is looked at only where a rule wants to know.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sent {
    pub(super) at: Time,
    pub(super) with: u32,
}

/// Tells a rule what happened to a call that came `since` then, whose last attempt was sent at that time.
pub(super) fn tells(
    control: &mut dyn Control,
    now: Time,
    input: &Input,
    (since, sent): (Time, Sent),
    upstream: &mut Upstream,
) {
    match input {
        Input::Ended { outcome, .. } => {
            let at = upstream.snapshot(now);
            control.answered(&Answered {
                now,
                sent_at: sent.at,
                took: now.since(sent.at),
                good: matches!(outcome, Outcome::Success),
                in_flight: sent.with,
                patience: at.patience,
                known: at.known,
            });
        }
        Input::TimedOut { .. } => {
            control.left(now, now.since(since), true);
        }
        _ => {}
    }
}

/// Lets as many in as the rule says, after this step.
pub(super) fn obeys(
    control: &mut dyn Control,
    now: Time,
    step: &Step,
    upstream: &mut Upstream,
    wake: &mut Vec<Wake>,
) {
    if let Step::Enqueue { .. } = step {
        control.pressed(now);
    }
    let limit = control.limit();
    if limit != upstream.snapshot(now).limit {
        upstream.set_limit(now, limit, wake);
    }
}
