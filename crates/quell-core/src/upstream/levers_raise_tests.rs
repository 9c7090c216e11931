//! More attempts than are written, where a chain shares one credit.

use super::{
    tests::{PAY, broken, ended, open_handed, policy, step},
    *,
};
use crate::{
    Arrival, Call, Input, Step,
    credit::{Credit, Received, Retries, Role},
    upstream::tests::at,
};

/// A call that fails every time: how many attempts it makes, and why no more. `pull` is asked before each fails.
fn play(
    credit: impl Fn(u32) -> Credit,
    pull: impl Fn(u32) -> Option<Lever>,
) -> (u32, Option<Reason>) {
    let (policy, mut upstream) = (policy(PAY), open_handed());
    let pulled = |upstream: &mut Upstream, attempts| {
        if let Some(lever) = pull(attempts) {
            upstream.pull(at(0), lever, PAY, Some(at(60_000)), &mut Vec::new()).unwrap();
        }
    };
    let credit = Some(credit(policy.attempts()));
    let mut call = Call::of(Arrival { credit, ..Arrival::new() });
    call.set_repeatable(true);
    pulled(&mut upstream, 0);
    let mut now = at(0);
    let mut next = step(&mut call, now, Input::Start, &policy, &mut upstream);
    loop {
        next = match next {
            Step::Send(send) => {
                call.sent(send.slot);
                pulled(&mut upstream, call.attempts());
                step(&mut call, now, broken(&send), &policy, &mut upstream)
            }
            Step::Sleep { until } => {
                now = until;
                step(&mut call, now, Input::Woke, &policy, &mut upstream)
            }
            end => return (call.attempts(), ended(&end).1),
        }
    }
}

#[test]
fn a_lever_raises_the_credit_of_a_chain_that_begins_here_and_no_other() {
    let stranger = Some(Received::stranger(Retries::new(1)));
    let trusted = Some(Received::trusted(Retries::new(1)));
    let generous = Some(Received::trusted(Retries::new(50)));
    for (role, received, sends, reason) in [
        (Role::Auto, None, 5, Reason::AttemptsSpent),
        (Role::Edge, None, 5, Reason::AttemptsSpent),
        (Role::Auto, stranger, 2, Reason::CreditSpent),
        (Role::Edge, stranger, 2, Reason::CreditSpent),
        (Role::Auto, trusted, 2, Reason::CreditSpent),
        (Role::Auto, generous, 3, Reason::AttemptsSpent),
        (Role::Interior, None, 1, Reason::Interior),
    ] {
        let credit = |attempts| Credit::new(role, attempts, received);
        let ended = play(credit, |sent| (sent == 0).then_some(Lever::Attempts(5)));
        assert_eq!(ended, (sends, Some(reason)), "{role:?} {received:?}");
    }
}

/// Whoever sent the last attempt may have kept nothing of the request.
#[test]
fn what_is_raised_while_the_last_attempt_is_out_comes_too_late_for_it() {
    let credit = |attempts| Credit::new(Role::Auto, attempts, None);
    for (pulled_at, sends) in [(1, 9), (2, 9), (3, 3)] {
        let ended = play(credit, |sent| (sent == pulled_at).then_some(Lever::Attempts(9)));
        assert_eq!(ended, (sends, Some(Reason::AttemptsSpent)), "pulled after {pulled_at}");
    }
}
