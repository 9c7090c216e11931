//! Why: a reason in a sentence that says what to change.

use std::time::Duration;

use crate::config::Policy;
use crate::config::value::Written;
use quell::core::Reason;
use quell::http::LONGEST_KEPT;

use super::show::short;

/// What of a request the sentences speak of.
#[derive(Debug)]
pub(super) struct About<'a> {
    pub(super) method: &'a str,
    pub(super) happened: &'a str,
    pub(super) policy: &'a Policy,
    /// What the file calls the policy.
    pub(super) named: &'a str,
    pub(super) budget: String,
    pub(super) hint: Option<Duration>,
    pub(super) deadline: Option<Duration>,
}

impl About<'_> {
    /// Why there is another attempt after this one.
    pub(super) fn again(&self, attempt: u32) -> String {
        let Self { method, happened, .. } = self;
        let mut said = format!(
            "{happened} may pass, {method} may be sent again here, {attempt} of {} attempts are used, and the budget pays",
            self.policy.spec.attempts
        );
        if let Some(hint) = self.hint {
            said += &format!("; not before the {} that the upstream asked for", short(hint));
        }
        said
    }

    /// Why there is none.
    pub(super) fn not(&self, reason: Reason) -> String {
        let Self { method, happened, policy, named, budget, .. } = self;
        let timeout =
            self.deadline.map_or(policy.spec.timeout, |told| told.min(policy.spec.timeout));
        let timeout = Written(timeout);
        match reason {
            Reason::NotRetryable => {
                format!("{happened} is not in retry_on of {named}: another attempt would not help")
            }
            Reason::AttemptsSpent => format!(
                "{named} has attempts = {}, the first included, and this is the last",
                policy.spec.attempts
            ),
            Reason::NotSafe => format!(
                "the upstream may have acted on the {method}: send an Idempotency-Key, or write unsafe_methods = \"always\" in {named} if repeating does no harm"
            ),
            Reason::NotReplayable => format!(
                "the body is longer than the {} KiB that are kept, so it is sent once",
                LONGEST_KEPT / 1024
            ),
            Reason::HintTooLong => format!(
                "the upstream asks for {}, which is over hint.cap = {} of {named} or over the {timeout} of the call: its reply is passed on",
                Written(self.hint.unwrap_or_default()),
                Written(policy.spec.hint_cap)
            ),
            Reason::Deadline => format!(
                "the wait and another attempt do not fit into what is left of {timeout}: nobody would wait for the reply"
            ),
            Reason::BudgetEmpty => format!("the budget ({budget}) does not pay for it"),
            Reason::RetriesOff => "the budget is none: retries are switched off".to_owned(),
            Reason::BreakerOpen => {
                "the failures so far open the breaker, which stops retries at once".to_owned()
            }
            other => format!("{other}: see docs/gateway.md"),
        }
    }
}
