//! docs/reasons.md is written from the table of reasons in the core.

#![allow(clippy::unwrap_used, reason = "a test that cannot read its page has failed")]

use std::time::Duration;

use quell::{Reason, http::Word};

/// The documentation of each reason, from the source of the core.
fn meanings() -> Vec<String> {
    let source = include_str!("../../quell-core/src/reason.rs");
    let table = source.split("reasons! {").nth(1).unwrap().split("\n}").next().unwrap();
    let docs = table.lines().filter_map(|line| line.trim().strip_prefix("/// "));
    docs.map(|doc| doc.trim_end_matches('.').to_owned()).collect()
}

fn word(reason: Reason) -> &'static str {
    match Word::on(reason, Some(Duration::from_secs(1))) {
        None => "–",
        Some(Word::No) => "`no`",
        Some(Word::After(_)) => "`after=<s>`",
    }
}

fn page() -> String {
    let mut page = String::from(
        "# Reasons\n\n\
         Why there was no attempt, or no further one. The set is closed: the same words stand in `quell-stop`, in metrics, in the access log, in events and in \
         the library's errors. This page is written from the code.\n\n\
         - *HTTP* and *gRPC* are the status of a reply that is Quell's own. Where an upstream's reply is passed on, its own status stays. `client_gone` is in logs only.\n\
         - *quell-retry* is what the caller is told about coming back.\n\
         - *Retry-After* says whether a refusal has one; the wait is jittered.\n\
         - *fallback* says whether the route's fallback may stand in for the reply.\n\n\
         | reason | HTTP | gRPC | quell-retry | Retry-After | fallback | what happened |\n|---|---|---|---|---|---|---|\n",
    );
    let yes = |is: bool| if is { "yes" } else { "–" };
    for (reason, meaning) in Reason::ALL.iter().zip(meanings()) {
        page += &format!(
            "| `{reason}` | {} | {} | {} | {} | {} | {meaning} |\n",
            reason.status(),
            reason.grpc_code(),
            word(*reason),
            yes(reason.sends_retry_after()),
            yes(reason.allows_fallback()),
        );
    }
    page
}

#[test]
fn the_documented_reasons_are_those_there_are() {
    assert_eq!(meanings().len(), Reason::ALL.len());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reasons.md");
    if std::env::var_os("QUELL_WRITE_DOCS").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), page());
}
