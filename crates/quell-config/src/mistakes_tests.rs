use super::tests::{parse, told, with};

/// The line, the column and the message of each, as people see them; and all but what is no TOML come with a fix.
pub(super) fn check(cases: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (lines, expected) in cases {
        let problems = with(lines).unwrap_err();
        let has_help = problems.to_string().contains(" = help: ");
        let told = told(Err(problems)).join("\n");
        if told != *expected || has_help == told.contains("this is not TOML") {
            wrong.push(format!("{lines}\n  expected {expected}\n  told     {told}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn mistakes_are_told_in_their_place_with_what_to_write() {
    check(&[
        (
            "[policy.x]\nattemps = 3",
            "3:1 policy.x.attemps is not known here: did you mean `attempts`?",
        ),
        ("[polcy.x]\nattempts = 3", "2:2 polcy is not known here: did you mean `policy`?"),
        (
            "[policy.x]\nattempts = 0",
            "3:12 policy.x.attempts is 0, so nothing would ever be sent: write at least 1, which means no retries",
        ),
        (
            "[policy.x]\nattempts = \"3\"",
            "3:12 policy.x.attempts is \"3\": write a whole number from 0 to 4294967295",
        ),
        (
            "[policy.x]\nattempts = -1",
            "3:12 policy.x.attempts is -1: write a whole number from 0 to 4294967295",
        ),
        (
            "[policy.x]\nattempts = 99999999999999999999",
            "3:12 policy.x.attempts is 99999999999999999999: write a whole number from 0 to 4294967295",
        ),
        (
            "[policy.x]\ntimeout = 4",
            "3:11 policy.x.timeout is 4: write a duration with its unit, such as \"4s\" or \"1200ms\"",
        ),
        (
            "[policy.x]\ntimeout = \"4\"",
            "3:11 policy.x.timeout is \"4\": write a duration with its unit, such as \"4s\" or \"1200ms\"",
        ),
        (
            "[policy.x]\nper_try_timeout = \"1h\"",
            "3:19 policy.x.per_try_timeout is 3600s: write more than 0s and at most timeout, which is 60s",
        ),
        (
            "[policy.x]\nbackoff = { jitter = \"ful\" }",
            "3:22 policy.x.backoff.jitter is \"ful\": did you mean `full`?",
        ),
        (
            "[policy.x]\nbackoff = { base = \"0s\" }",
            "3:20 policy.x.backoff.base is 0s, so retries would follow at once: write a duration such as \"100ms\"",
        ),
        (
            "[policy.x]\nbackoff = { kind = \"fixed\", factor = 2.0 }",
            "3:29 policy.x.backoff.factor is not known here: write waits, kind, base, cap or jitter",
        ),
        (
            "[policy.x]\nbackoff = { kind = \"list\", waits = [] }",
            "3:36 policy.x.backoff.waits has 0 waits: write from 1 to 16, of which the last repeats",
        ),
        (
            "[policy.x]\nbackoff = { kind = \"fixed\", waits = [\"1s\"] }",
            "3:37 policy.x.backoff.waits is a list of waits: write kind = \"list\", or leave it out",
        ),
        (
            "[policy.x]\nretry_on = [503, \"conect\"]",
            "3:18 policy.x.retry_on[1] is \"conect\": write \"connect\", \"timeout\" or a status from 400 to 599, such as 503",
        ),
        (
            "[policy.x]\nretry_on = 503",
            "3:12 policy.x.retry_on is a number: write a list in brackets",
        ),
        ("[policy.x]\npreset = \"lmm\"", "3:10 policy.x.preset is \"lmm\": did you mean `llm`?"),
        (
            "[policy.x]\nhedge = { after = 2.0 }",
            "3:19 policy.x.hedge.after is 2: write the share of attempts that are quicker, from 0.5 up to 1, such as 0.95",
        ),
        (
            "[policy.\"a b\"]",
            "2:9 policy has the name \"a b\": write 1 to 64 of the characters a-z, A-Z, 0-9, underscore and dash",
        ),
        ("policy = 3", "2:10 policy is a number: write a table, such as { … }"),
        (
            "[upstream.x]\nbudget = { max = 0 }",
            "3:18 upstream.x.budget.max is 0, so no retry is ever paid for: write at least 1, or attempts = 1 to forbid retries",
        ),
        (
            "[upstream.x]\nbudget = { instances = 0 }",
            "3:24 upstream.x.budget.instances is 0: write how many processes share the budget, at least 1",
        ),
        (
            "[upstream.x]\nbudget = { kind = \"window\", max = 1 }",
            "3:29 upstream.x.budget.max is not known here: write mode, instances, ephemeral, preset, kind, ratio, window or bootstrap",
        ),
        (
            "[upstream.x]\nbudget = { kind = \"divided\" }",
            "3:19 upstream.x.budget.kind is \"divided\", which every kind can be: write instances, the number of processes, beside the fleet's own kind and numbers",
        ),
        (
            "[upstream.x]\nbudget = { kind = \"shared\" }",
            "3:19 upstream.x.budget.kind is \"shared\", which no host has yet: write kind = \"tokens\" and instances, the number of processes",
        ),
        (
            "[upstream.x]\nbudget = { kind = \"sampled\", inner = { kind = \"none\" } }",
            "3:30 upstream.x.budget.inner is of kind \"none\": write a kind that can be asked, such as \"tokens\"",
        ),
        (
            "[upstream.x]\nbudget = { cost = { timeout = -1 } }",
            "3:12 upstream.x.budget.cost is 0 millionths of a token: write at least 1 and at most max, which is 100 tokens",
        ),
        (
            "[upstream.x]\nchildren = { max = 0 }",
            "3:20 upstream.x.children.max is 0, so no retry is ever paid for: write at least 1, or attempts = 1 to forbid retries",
        ),
        (
            "[upstream.x]\nbreaker = { failure_rate = 50 }",
            "3:28 upstream.x.breaker.failure_rate is 50: write a share above 0 and up to 1, such as 0.5",
        ),
        (
            "[upstream.x]\nbreaker = { over = \"off\" }",
            "3:20 upstream.x.breaker.over is \"off\": write consecutive = 5 and no slow, or \"time\" for rates, or mode = \"disabled\" for no breaker",
        ),
        (
            "[upstream.x]\nbreaker = { over = \"time\", calls = 3 }",
            "3:36 upstream.x.breaker.calls is written, and over says not to count them: write over = \"calls\" or \"either\", or leave it out",
        ),
        (
            "[upstream.x]\nbreaker = { record = [404], ignore = [404] }",
            "3:22 upstream.x.breaker.record and breaker.ignore both have the code 404: write it in one of them",
        ),
        (
            "[upstream.x]\nbreaker = { mode = \"of\" }",
            "3:20 upstream.x.breaker.mode is \"of\": write enforce, report, disabled, forced-open or forced-closed",
        ),
        (
            "[upstream.x]\nin_flight = { limit = 0 }",
            "3:23 upstream.x.in_flight.limit is 0, so every call would be refused: write at least 1, or \"adaptive\"",
        ),
        (
            "[upstream.x]\nin_flight = { limit = 9, ceiling = 9 }",
            "3:36 upstream.x.in_flight.ceiling is for a limit that finds itself: write limit = \"adaptive\", or leave it out",
        ),
        (
            "[upstream.x]\nin_flight = { limit = 9, pools = { a = 10 } }",
            "3:26 upstream.x.in_flight.pools[0] is 10, which caps nothing: write at most the limit, 9",
        ),
        (
            "[upstream.x]\nrate_limit = { burst = 1 }",
            "3:1 upstream.x.rate_limit.per_second is missing: write how many per second, such as 1000",
        ),
        (
            "[upstream.x]\nthrottle = { k = 1 }",
            "3:18 upstream.x.throttle.k is 1: write a number from 1.1 to 100, such as 2.0 for two requests per accepted one",
        ),
        (
            "[upstream.x]\nendpoints = []",
            "3:13 upstream.x.endpoints is empty: write at least one, such as \"http://127.0.0.1:9000\"",
        ),
        (
            "[upstream.x]\nendpoints = [\"10.0.0.5\"]",
            "3:14 upstream.x.endpoints[0]: \"10.0.0.5\" is no upstream: it has no scheme; write http://host:port or https://host:port",
        ),
        (
            "[upstream.x]\nprotocol = \"h2\"",
            "3:12 upstream.x.protocol is \"h2\": write auto, http1 or http2",
        ),
        (
            "[upstream.x]\nresolve = \"1ms\"",
            "3:11 upstream.x.resolve is too short: write at least \"100ms\", such as \"30s\"",
        ),
        (
            "[upstream.x]\nconnect_timeout = \"0s\"",
            "3:19 upstream.x.connect_timeout is 0s: write a duration such as \"2s\"",
        ),
        ("[upstream.x]\nhost = \"kepe\"", "3:8 upstream.x.host is \"kepe\": did you mean `keep`?"),
        (
            "[upstream.x]\ntls = { cert = \"c.pem\" }",
            "3:16 upstream.x.tls.cert needs key beside it: write both or neither",
        ),
        (
            "[upstream.x]\ntls = { server_name = \"a:1\" }",
            "3:23 upstream.x.tls.server_name is no name: write such as \"payments.internal\"",
        ),
        (
            "[upstream.x]\nendpoints = [\"http://a\"]\ntls = {}",
            "4:1 upstream.x.tls is for endpoints that speak it, and none does: write https://, or leave it out",
        ),
        (
            "x = 1",
            "2:1 x is not known here: write version, gateway, policy, upstream, tenant, route, store, worker or scenario",
        ),
        ("[policy", "2:8 this is not TOML: unclosed table, expected `]`"),
        ("a = 1\na = 2", "3:1 this is not TOML: duplicate key"),
    ]);
    assert_eq!(told(parse("")), ["1:1 version is missing: write version = 1 in the first line"]);
    assert_eq!(
        told(parse("version = 2")),
        ["1:11 version is 2: write 1, which is what this quell reads"]
    );
    let long = format!("version = 1\n#{}", "x".repeat(1 << 20));
    assert_eq!(told(parse(&long)), ["1:1 the file has 1048589 bytes: write at most 1MiB"]);
}

#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let told =
        told(with("[upstream.x]\nbugdet = {}\nqueue = 1\n[policy.x]\nattempts = 0\ntimeout = 1"));
    let lines: Vec<_> = told.iter().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(lines, ["3:1", "4:1", "6:12", "7:11"]);
}
