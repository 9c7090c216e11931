//! A host whose in-flight limit somebody else decides: what a rule is told, and how it is obeyed.

use quell_core::{Event, Input, Outcome, Reason, Step, Time, Upstream, Wake};

use crate::control::{Answered, Control, Load, Seen};

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
    wake: &mut Vec<Wake>,
) {
    match input {
        Input::Ended { outcome, .. } => {
            let at = upstream.snapshot(now);
            if outcome.is_served() {
                let load = Load { under_way: at.in_flight, queued: at.queued > 0 };
                control.saw(now, Seen::Served { since, sent_at: sent.at, load });
            }
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
            left_behind(control, now, sent.at, upstream);
        }
        Input::Start | Input::Woke => {
            let at = upstream.snapshot(now);
            if let Some(limit) = control.before(now, at.in_flight)
                && limit != at.limit
            {
                upstream.set_limit(now, limit, wake);
            }
        }
        _ => {}
    }
}

/// Tells a rule that nobody waits any more for what was sent then.
fn left_behind(control: &mut dyn Control, now: Time, sent_at: Time, upstream: &mut Upstream) {
    let at = upstream.snapshot(now);
    let load = Load { under_way: at.in_flight, queued: at.queued > 0 };
    control.saw(now, Seen::Left { sent_at, load });
}

/// Tells a rule that the caller of a call that came `since` then has left; so many of its attempts were under way.
pub(super) fn tells_left(
    control: &mut dyn Control,
    now: Time,
    (since, sent): (Time, Sent),
    open: usize,
    upstream: &mut Upstream,
) {
    control.left(now, now.since(since), open > 0);
    (0..open).for_each(|_| left_behind(control, now, sent.at, upstream));
    control.saw(now, Seen::GaveUp { since });
}

/// Lets as many in as the rule says, after this step.
pub(super) fn obeys(
    control: &mut dyn Control,
    now: Time,
    step: &Step,
    upstream: &mut Upstream,
    wake: &mut Vec<Wake>,
) {
    match step {
        Step::Enqueue { .. } => {
            control.pressed(now);
            control.saw(now, Seen::Pressed);
        }
        Step::Finish(finish) if finish.reason.is_some_and(is_for_want_of_a_slot) => {
            control.saw(now, Seen::Pressed);
        }
        _ => {}
    }
    while let Some(event) = upstream.next_event() {
        if let Event::BreakerOpened { .. } | Event::BreakerClosed = event {
            control.saw(now, Seen::Tripped);
        }
    }
    let limit = control.after(now);
    if limit != upstream.snapshot(now).limit {
        upstream.set_limit(now, limit, wake);
    }
}

fn is_for_want_of_a_slot(reason: Reason) -> bool {
    use Reason::{DeadlineMargin, InFlightFull, QueueFull, Shed};
    matches!(reason, QueueFull | InFlightFull | DeadlineMargin | Shed)
}
