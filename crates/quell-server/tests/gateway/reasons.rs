//! Every reason there is, met by a caller over real sockets: what it is told, and what metrics and
//! access log say of it.
//!
//! The table and the play are each a `match` over all reasons: a new one does not compile until it has both.

mod stage;

use quell::core::Reason;
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::grpc::peers::{Caller, Fields};
use crate::kit::*;
use stage::{Stage, ask, get, with};

/// What everybody sees of a request that ends for a reason.
struct Row {
    /// What the caller gets.
    status: u16,
    word: Word,
    counted: Counted,
    /// What a gRPC caller with these fields gets at the same place, where that is another table's matter.
    grpc: Option<(&'static str, Fields)>,
}

/// What a caller is told about coming back.
enum Word {
    /// `quell-retry: no`.
    No,
    /// When, in `quell-retry` and in `Retry-After`.
    After,
    /// Nothing.
    Nothing,
    /// What the upstream says in its `Retry-After`.
    Theirs(&'static str),
}

/// How a request is counted.
enum Counted {
    /// By its reason, as a refusal: nothing was sent, and the reply is ours.
    Refused,
    /// By its reason, as a retry that was not made. The reply is the upstream's.
    Denied,
    /// By nothing but what came of it.
    Came(&'static str),
}

use Counted::{Came, Denied, Refused};
use Word::{After, No, Nothing, Theirs};

/// `None` for what this gateway cannot come to yet.
fn row(reason: Reason) -> Option<Row> {
    const PLAIN: Fields = &[];
    const SHORT: Fields = &[("grpc-timeout", "300m")];
    const NO_TIME: Fields = &[("quell-deadline-ms", "0")];
    let (status, word, counted, grpc) = match reason {
        Reason::BreakerOpen => (503, After, Refused, Some(("14", PLAIN))),
        Reason::ProbeLimit => (503, After, Refused, Some(("14", PLAIN))),
        Reason::InFlightFull => (503, After, Refused, Some(("14", PLAIN))),
        Reason::QueueFull => (503, After, Refused, Some(("14", PLAIN))),
        Reason::QueueWait => (503, After, Refused, Some(("14", PLAIN))),
        Reason::DeadlineMargin => (503, After, Refused, Some(("14", SHORT))),
        Reason::RateLimited => (429, After, Refused, Some(("8", PLAIN))),
        Reason::NotBefore => (503, After, Refused, Some(("14", PLAIN))),
        Reason::Shed => (503, After, Refused, None),
        Reason::BudgetEmpty => (500, No, Denied, None),
        Reason::AttemptsSpent => (500, No, Denied, None),
        Reason::CreditSpent => (500, No, Denied, None),
        Reason::Interior => (500, Nothing, Denied, None),
        Reason::ToldNotTo => (503, No, Denied, None),
        Reason::HintTooLong => (503, Theirs("31"), Denied, None),
        Reason::Deadline => (504, Nothing, Refused, Some(("4", NO_TIME))),
        Reason::NotRetryable => (404, No, Came("rejected"), None),
        Reason::NotSafe => (500, No, Denied, None),
        Reason::NotReplayable => (503, Nothing, Denied, None),
        Reason::RetriesOff => (503, Nothing, Denied, None),
        Reason::KeyMissing => (400, No, Refused, None),
        Reason::KeyInFlight => (409, After, Refused, None),
        Reason::KeyMismatch => (422, No, Refused, None),
        Reason::Unauthorized => (401, No, Refused, Some(("16", PLAIN))),
        Reason::NoRoute => (404, No, Refused, Some(("5", PLAIN))),
        Reason::NoEndpoint => (503, Nothing, Refused, Some(("14", PLAIN))),
        Reason::PoolFull => (503, After, Refused, Some(("14", PLAIN))),
        Reason::Draining => (503, After, Refused, None),
        Reason::ClientGone => (499, Nothing, Came("abandoned"), None),
        Reason::StoreDown | Reason::CostCeiling => return None,
    };
    Some(Row { status, word, counted, grpc })
}

/// What the file says beside where to send.
fn settings(reason: Reason) -> &'static str {
    match reason {
        Reason::BreakerOpen => {
            r#"upstream.default.breaker = { min_calls = 1, open = "1m" }
            policy.default.attempts = 1"#
        }
        Reason::ProbeLimit => {
            r#"upstream.default.breaker = { min_calls = 1, open = "20ms", probes = 1 }
            policy.default.attempts = 1"#
        }
        Reason::InFlightFull => "upstream.default.in_flight = { limit = 1, queue = 0 }",
        Reason::QueueWait => {
            r#"upstream.default.in_flight = { limit = 1, queue = 9, queue_wait = "20ms" }"#
        }
        Reason::QueueFull | Reason::DeadlineMargin | Reason::Shed => {
            r#"upstream.default.in_flight = { limit = 1, queue = 1, queue_wait = "1m" }
            policy.default.per_try_timeout = "14s""#
        }
        Reason::RateLimited => {
            r#"route = [{ upstream = "default", rate_limit = { per_second = 0.05, burst = 1 } }]"#
        }
        Reason::NotBefore => "upstream.default.gate = \"all\"\npolicy.default.attempts = 1",
        Reason::BudgetEmpty => {
            r#"upstream.default.budget = { kind = "tokens", max = 1, ratio = 0.01 }"#
        }
        Reason::CreditSpent => "policy.default.attempts = 3",
        Reason::KeyMissing | Reason::KeyInFlight | Reason::KeyMismatch => {
            r#"route = [{ upstream = "default", idempotency = { required = true } }]"#
        }
        Reason::NoRoute => r#"route = [{ upstream = "default", match = { path = "/elsewhere" } }]"#,
        _ => "",
    }
}

fn keyed(answer: &str, body: &'static str) -> stage::Asked {
    with(ask("POST", answer, body), "idempotency-key", "k")
}

/// Brings a gateway to where requests end for this reason, and sends one. The gateway stays there.
async fn play(reason: Reason) -> (Stage, Option<Reply>) {
    let mut stage = Stage::new(reason, settings(reason)).await;
    let reply = match reason {
        Reason::BreakerOpen | Reason::RateLimited | Reason::BudgetEmpty => {
            stage.ask(get("500")).await;
            stage.ask(get("500")).await
        }
        Reason::NotBefore => {
            stage.ask(get("later")).await;
            stage.ask(get("200")).await
        }
        Reason::ProbeLimit => {
            stage.ask(get("500")).await;
            stage.probe().await;
            stage.ask(get("200")).await
        }
        Reason::InFlightFull | Reason::QueueWait => {
            stage.hold(get("hangs")).await;
            stage.ask(get("200")).await
        }
        Reason::QueueFull => {
            stage.hold(get("hangs")).await;
            stage.queue(get("200")).await;
            stage.ask(get("200")).await
        }
        Reason::DeadlineMargin => {
            stage.hold(get("hangs")).await;
            stage.ask(with(get("200"), "quell-deadline-ms", "300")).await
        }
        Reason::Shed => stage.shed().await,
        Reason::AttemptsSpent => stage.ask(get("500")).await,
        Reason::CreditSpent => stage.ask(with(get("500"), "quell-retry-credit", "1")).await,
        Reason::Interior => stage.ask(with(get("500"), "quell-retry-credit", "0")).await,
        Reason::ToldNotTo => stage.ask(get("never")).await,
        Reason::HintTooLong => stage.ask(get("much later")).await,
        Reason::Deadline => stage.ask(with(get("200"), "quell-deadline-ms", "0")).await,
        Reason::NotRetryable => stage.ask(get("404")).await,
        Reason::NotSafe => stage.ask(ask("POST", "500", "1 €")).await,
        Reason::NotReplayable => stage.ask(ask("PUT", "503", noise(64 * 1024 + 1))).await,
        Reason::RetriesOff => {
            stage.change("/levers", json!({ "lever": "retries-off", "for": "1h" })).await;
            stage.ask(get("503")).await
        }
        Reason::KeyMissing => stage.ask(ask("POST", "200", "1 €")).await,
        Reason::KeyInFlight => {
            stage.hold(keyed("hangs", "1 €")).await;
            stage.ask(keyed("200", "1 €")).await
        }
        Reason::KeyMismatch => {
            stage.ask(keyed("200", "1 €")).await;
            stage.ask(keyed("200", "2 €")).await
        }
        Reason::Unauthorized | Reason::NoRoute | Reason::NoEndpoint => stage.ask(get("200")).await,
        Reason::PoolFull => {
            let mut reader = stage.connect("x-answer: endless\r\n\r\n").await;
            assert_eq!(reader.read(&mut [0]).await.unwrap(), 1);
            stage.idlers.push(reader);
            stage.ask(get("200")).await
        }
        Reason::Draining => stage.drained().await,
        Reason::ClientGone => {
            let leaver = stage.connect("x-answer: hangs\r\n\r\n").await;
            stage.arrived(1).await;
            drop(leaver);
            until("it is noticed", || async { stage.came("abandoned").await == 1.0 }).await;
            return (stage, None);
        }
        Reason::StoreDown | Reason::CostCeiling => panic!("{reason} has no row"),
    };
    (stage, Some(reply))
}

impl Row {
    /// The caller is told why, and what to do.
    fn tells(&self, reason: Reason, reply: &Reply) {
        assert_eq!(reply.status.as_u16(), self.status, "{reply:?}");
        assert_eq!(reply.header("quell-stop"), Some(reason.as_str()), "{reply:?}");
        let told = (reply.header("quell-retry"), reply.header("retry-after"));
        match (&self.word, told) {
            (Nothing, (None, None)) | (No, (Some("no"), None)) => {}
            (Theirs(theirs), (None, Some(passed))) => assert_eq!(passed, *theirs),
            (After, (Some(word), Some(seconds))) => {
                assert_eq!(word, format!("after={seconds}"));
                assert!((1..=60).contains(&seconds.parse::<u32>().unwrap()), "{seconds}");
            }
            _ => panic!("{reply:?}"),
        }
        if matches!(self.counted, Refused) {
            assert_eq!(reason.status(), self.status);
            assert_eq!(reason.sends_retry_after(), matches!(self.word, After));
            let code = format!("\"code\":\"{}\"", reason.as_str().to_uppercase());
            assert!(reply.text().contains(&code), "{reply:?}");
            assert_eq!(reply.header("quell-attempts"), Some("0"));
        } else {
            assert_eq!(reply.text(), "theirs", "{reply:?}");
        }
    }

    /// How often it was counted.
    async fn count(&self, reason: Reason, stage: &Stage) -> f64 {
        let name = match self.counted {
            Refused => "quell_refusals_total",
            Denied => "quell_retries_denied_total",
            Came(outcome) => return stage.came(outcome).await,
        };
        reasoned(&stage.gateway, name, reason).await
    }

    /// It is noted as what it was, once for each request.
    async fn notes(&self, reason: Reason, stage: &Stage, requests: usize) {
        let lines = stage.lines(reason, requests).await;
        let outcome = match self.counted {
            Refused => "refused",
            Denied => "failed",
            Came(outcome) => outcome,
        };
        assert_eq!(
            (&lines[0]["status"], &lines[0]["outcome"]),
            (&json!(self.status), &json!(outcome))
        );
        assert_eq!(lines.len(), requests);
    }
}

async fn meet(reason: Reason, row: Row) {
    let (stage, reply) = play(reason).await;
    if let Some(reply) = &reply {
        row.tells(reason, reply);
    }
    assert_eq!(row.count(reason, &stage).await, 1.0);
    row.notes(reason, &stage, 1).await;
    if let Some((code, fields)) = row.grpc {
        let ended = Caller::connect(stage.gateway.addr()).await.call(fields, &[]).await;
        assert!(ended.trailers_only && ended.status == 200, "{ended:?}");
        assert_eq!(ended.code(), Some(code), "{ended:?}");
        assert_eq!(ended.end("grpc-message"), Some(reason.as_str()));
        assert_eq!(ended.headers["quell-stop"], reason.as_str());
        assert_eq!(reason.grpc_code().to_string(), code);
        assert_eq!(row.count(reason, &stage).await, 2.0);
        row.notes(reason, &stage, 2).await;
    }
}

#[tokio::test]
async fn every_reason_is_told_to_the_caller_counted_and_noted() {
    let mut wrong = Vec::new();
    for reason in Reason::ALL {
        let Some(row) = row(*reason) else { continue };
        // In a task of its own, so that one that is wrong does not hide the others.
        if tokio::spawn(meet(*reason, row)).await.is_err() {
            wrong.push(reason.as_str());
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
