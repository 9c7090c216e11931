use std::time::Duration;

use quell::core::{breaker, budget::tokens, in_flight::Limit, ladder, spec::PolicySpec};
use quell_sim::{
    Scenario,
    dist::Dist,
    scenario::{
        Abandonment, Arrivals, Away, Callers, Cold, Curve, Edge, Node, Order, Outage, OutageKind,
        Queue, Restart, Resubmit, Service, Shards, Sharing,
    },
};

use super::*;

const SAMPLE: &str = include_str!("../../config/sample.toml");

fn one(text: &str) -> Plan {
    let plans = parse(&format!("version = 1\n{text}")).unwrap_or_else(|error| panic!("{error}"));
    plans.into_iter().next().unwrap()
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn words(plan: &Plan) -> Vec<&str> {
    plan.against.iter().map(Way::word).collect()
}

#[test]
fn the_shipped_storm_is_the_storm() {
    for plan in parse(STORM).unwrap() {
        assert_eq!(plan.scenario, Scenario::storm(plan.scenario.outage.kind), "{}", plan.name);
        assert_eq!(words(&plan), ["naive", "no-retries", "backoff", "client", "front"]);
        let front = &plan.way("front").unwrap().scenario;
        assert_eq!(*front, plan.scenario.clone().with_gateway());
        let client = plan.scenario.clone().with_callers(Callers::quell(s(1)));
        assert_eq!(plan.way("client").unwrap().scenario, client);
    }
    for plan in parse(LADDER).unwrap() {
        assert_eq!(plan.scenario, Scenario::storm(plan.scenario.outage.kind), "{}", plan.name);
    }
}

/// PRODUCT's own example: a scenario of the whole file, in the words of its policies.
#[test]
fn a_scenario_names_a_route_of_its_own_file() {
    let (config, plans) = parse_with("quell.toml", SAMPLE, &[]).unwrap();
    let [plan] = plans.as_slice() else { panic!("{plans:?}") };
    let (policy, upstream) = (config.policies["payments"].spec, &config.upstreams["payments"]);
    let front = plan.way("front").unwrap().scenario.gateway.unwrap();
    assert_eq!(front.policy, policy);
    assert_eq!(front.upstream.budget, upstream.spec.budget);
    assert_eq!((front.upstream.endpoints, upstream.spec.endpoints), (1, 2));
    let Callers::Quell { policy: called, .. } = plan.way("client").unwrap().scenario.callers else {
        panic!("{plan:?}")
    };
    let patient = PolicySpec { per_try_timeout: Some(s(1)), ..policy };
    assert_eq!(called, patient, "as patient as the scenario's callers");
    let storm = Scenario { instances: 50, ..Scenario::storm(OutageKind::Stall) };
    assert_eq!(plan.scenario, storm, "what is left out is as in the storm");
    assert_eq!(plan.promises.len(), 1);
}

#[test]
fn every_part_of_the_model_can_be_written() {
    let plan = one(r#"
[policy.far]
preset = "library"
attempts = 4
[upstream.far]
preset = "library"
budget = { start = 0 }
[scenario.all]
load = "100/s"
arrivals = { shape = [[0, 1], [30, 1.5]] }
resubmit = { share = 0.5, after = { mean = "5s" }, times = 2 }
writes = 0.25
instances = 7
patience = "2s"
restarts = [{ at = "40s", step = "1s" }]
credit = true
calls = [{ to = "orders", policy = "far", upstream = "far", credit = true, instances = 3, deadline = true, restart = { at = "9s" } }]
faults = [{ kind = "fail", at = "50s", length = "4s", flapping = { down = "1s", up = "1s" } }, { kind = "hang", share = 0.3, time = "10s", at = "0s", length = "9s" }]
outage = { kind = "bad-deploy", at = "30s", length = "10s", instances = 4, step = "5s" }
watch = "30s"
gateway = { starts = "3s" }
store = { budget = { per_second = 5, burst = 50 }, round_trip = "2ms", away = { at = "9s", length = "1s" } }
[scenario.all.service]
workers = 20
time = { p50 = "50ms", p99 = "200ms" }
queue = { order = "lifo", max = 100, wait = "500ms" }
abandonment = { margin = "110ms" }
failures = [[0.8, 0.0], [1.0, 1.0]]
crowding = [[1, 1], [4, 2]]
cold = { factor = 3, over = "10s" }
refusal_cost = "1ms"
shards = { count = 4, hit = 1 }
contended = true
hint = "4s"
[scenario.all.behind.stock]
workers = 5
gateway = { upstream = "far" }
time = { fast = "1ms", slow = "90ms", share = 0.05 }
abandonment = { cancels_after = "10ms" }
faults = { kind = "latency", factor = 10, at = "30s", length = "10s" }
[scenario.all.behind.orders]
workers = 9
time = { histogram = [["10ms", 3], ["20ms", 1]] }
calls = [{ to = "stock", marks = true }]
"#);
    let scenario = &plan.scenario;
    assert_eq!(scenario.arrivals, Arrivals::Shaped(Curve(vec![(0.0, 1.0), (30.0, 1.5)])));
    let after = Dist::Exponential { mean: s(5) };
    assert_eq!(scenario.resubmit, Some(Resubmit { share: 0.5, after, times: 2 }));
    assert_eq!((scenario.writes, scenario.instances, scenario.patience), (0.25, 7, s(2)));
    assert_eq!(scenario.restarts, [Restart { at: s(40), step: s(1) }]);
    let service = Service {
        queue: Queue { order: Order::Lifo, max: Some(100), wait: Some(ms(500)) },
        abandonment: Abandonment::Deadline { margin: ms(110) },
        failures: Curve(vec![(0.8, 0.0), (1.0, 1.0)]),
        crowding: Curve(vec![(1.0, 1.0), (4.0, 2.0)]),
        cold: Some(Cold { factor: 3.0, over: s(10) }),
        refusal_cost: ms(1),
        shards: Some(Shards { count: 4, hit: 1 }),
        contended: true,
        hint: Some(s(4)),
        ..Service::new(20, Dist::Lognormal { p50: ms(50), p99: ms(200) })
    };
    assert_eq!(scenario.service, service);
    // From the top down, whatever the order in the file.
    let [orders, stock] = scenario.below.as_slice() else { panic!("{scenario:?}") };
    assert_eq!(orders.service.workers, 9);
    assert_eq!(orders.calls, [Edge { marks: true, ..Edge::new(1) }]);
    let slow = Outage { kind: OutageKind::Latency { factor: 10.0 }, at: s(30), length: s(10) };
    let time = Dist::Bimodal { fast: ms(1), slow: ms(90), share: 0.05 };
    let abandonment = Abandonment::Cancels { after: ms(10) };
    let service = Service { abandonment, ..Service::new(5, time) };
    let gateway = stock.gateway.unwrap();
    assert_eq!(gateway.policy.attempts, 4, "the policy of its upstream's name");
    let gateway = Some(gateway);
    assert_eq!(*stock, Node { faults: vec![slow], gateway, ..Node::leaf(service) });
    let [edge] = scenario.calls.as_slice() else { panic!("{scenario:?}") };
    assert_eq!((edge.to, edge.policy.attempts, edge.credit, scenario.credit), (0, 4, true, true));
    let restart = Some(Restart { at: s(9), step: Duration::ZERO });
    assert_eq!((edge.instances, edge.deadline, edge.restart), (3, true, restart));
    let empty = tokens::Spec { start: Some(0), ..tokens::Spec::default() };
    assert_eq!(edge.upstream.budget, empty.into());
    let store = scenario.store.as_ref().unwrap();
    assert_eq!((store.budget.per_second, store.budget.burst, store.round_trip), (5, 50, ms(2)));
    assert_eq!(store.away, [Away { at: s(9), length: s(1) }]);
    // The deploy is judged as a whole and comes in parts; so does what flaps.
    assert_eq!((plan.trouble.as_str(), scenario.outage.length), ("bad-deploy", s(10)));
    let starts: Vec<_> = scenario.faults.iter().map(|fault| fault.at.as_secs()).collect();
    assert_eq!(starts, [30, 35, 50, 52, 0]);
    assert_eq!(plan.way("front").unwrap().scenario.gateway.unwrap().starts, s(3));
}

#[test]
fn services_that_share_and_grow_can_be_written() {
    let with = |sharing: &str| {
        one(&format!(
            "[scenario.x]\nload = \"5/s\"\nservice = {{ workers = 10, time = \"1s\"{sharing} }}\noutage = {{ kind = \"grown\", factor = 5, at = \"9s\", length = \"9s\" }}"
        ))
        .scenario
    };
    assert_eq!(with("").service.sharing, None);
    assert_eq!(with(", sharing = \"equal\"").service.sharing, Some(Sharing { loss: 0.0 }));
    let degrading = with(", sharing = { loss = 0.5 }");
    assert_eq!(degrading.service.sharing, Some(Sharing { loss: 0.5 }));
    assert_eq!(degrading.outage.kind, OutageKind::Grown { factor: 5.0 });
}

#[test]
fn arrivals_need_a_load_or_are_one() {
    let with = |arrivals: &str| {
        one(&format!(
            "[scenario.x]\narrivals = {arrivals}\nservice = {{ workers = 10, time = \"100ms\" }}"
        ))
        .scenario
    };
    let recorded = with("{ recorded = [0, [20, 2], 40] }");
    assert_eq!(recorded.arrivals, Arrivals::Recorded(vec![0, 20, 20, 40]));
    assert_eq!(recorded.load, 20.0);
    let closed = with("{ users = 90, think = \"800ms\" }");
    assert_eq!(closed.load, 100.0);
    let burst = Arrivals::Burst { users: 90, at: s(1) };
    assert_eq!(with("{ users = 90, at = \"1s\" }").arrivals, burst);
    assert_eq!(with("\"even\"\nload = \"5/s\"").arrivals, Arrivals::Even);
}

#[test]
fn a_file_has_ways_of_its_own() {
    let plan = one(r#"
[policy.after]
attempts = 3
backoff = { base = "500ms", cap = "10s" }
[upstream.after]
in_flight = { limit = 200 }
[scenario.x]
load = "100/s"
[scenario.x.way.before]
label = "as it was"
callers = { retries = 3, pause = "2s" }
[scenario.x.way.patient]
callers = { retries = 5, backoff = { base = "10ms", factor = 4.0, jitter = "none" } }
[scenario.x.way.after]
callers = { policy = "after" }
gateway = { upstream = "after", starts = "1s" }
"#);
    assert_eq!(words(&plan), ["before", "patient", "after"], "own ways are the usual ones");
    assert_eq!(plan.against[0].label(), "as it was");
    let callers = |i: usize| plan.against[i].scenario.callers;
    assert_eq!(callers(0), Callers::Fixed { retries: 3, pause: s(2) });
    let Callers::Backoff { retries: 5, backoff } = callers(1) else { panic!("{:?}", callers(1)) };
    assert_eq!(backoff.base, ms(10));
    let Callers::Quell { policy, .. } = callers(2) else { panic!("{:?}", callers(2)) };
    assert_eq!((policy.attempts, policy.backoff.base), (3, ms(500)));
    let gateway = plan.against[2].scenario.gateway.unwrap();
    assert_eq!((gateway.upstream.in_flight, gateway.starts), (Limit::Fixed(200), s(1)));
    assert_eq!(gateway.policy.attempts, 3, "the file's policy of that name");
    assert!(plan.way("front").is_some() && plan.way("behind").is_none());
}

/// What is wrong with a text, each with its place.
fn told(text: &str) -> String {
    let problems = parse(text).map(|_| ()).unwrap_err();
    problems.iter().map(|it| format!("{}\n  --> {}\n", it.message, it.place)).collect()
}

#[test]
fn mistakes_are_named_with_their_place_and_fix() {
    let base = "version = 1\n[policy.pay]\n[scenario.x]\nload = \"300/s\"\npatience = \"1s\"\n";
    for (written, expected) in [
        ("laod = 1", "scenario.x.laod is not known here: did you mean `load`?\n  --> scenario:6:1"),
        ("watch = 30", "scenario.x.watch is 30: write a duration with its unit"),
        (
            "watch = \"3s\"",
            "scenario.x.watch is too short to believe a recovery: write whole seconds, at least \"25s\"\n  --> scenario:6:9",
        ),
        (
            "instances = 0",
            "scenario.x.instances is 0, so nobody would call: write at least 1\n  --> scenario:6:13",
        ),
        (
            "service = { workers = 3 }",
            "scenario.x.service.time is missing: write how long a request takes, such as \"100ms\"\n  --> scenario:6:1",
        ),
        (
            "service = { workers = 0, time = \"1s\" }",
            "scenario.x.service.workers is 0, so nothing is ever done: write at least 1\n  --> scenario:6:23",
        ),
        (
            "service = { workers = 1, time = { p50 = \"1s\" } }",
            "scenario.x.service.time.p99 is missing: write a duration",
        ),
        (
            "service = { workers = 1, time = { p50 = \"1s\", p99 = \"1ms\" } }",
            "scenario.x.service.time makes no sense: lognormal has p50 1s and p99 1ms: write a p50 above 0s",
        ),
        (
            "service = { workers = 1, time = \"1s\", sharing = \"equl\" }",
            "scenario.x.service.sharing is \"equl\": did you mean `equal`?",
        ),
        (
            "service = { workers = 1, time = \"1s\", sharing = { loss = -1 } }",
            "scenario.x.service.sharing.loss is out of range: write what one more request per worker costs",
        ),
        (
            "service = { workers = 1, time = { } }",
            "scenario.x.service.time is no spread of times: write { mean",
        ),
        (
            "service = { workers = 1, time = \"1s\", failures = [[1, 2, 3]] }",
            "scenario.x.service.failures[0] is a list: write a point, such as [0.8, 0.5]",
        ),
        (
            "outage = { kind = \"stal\", at = \"1s\", length = \"1s\" }",
            "scenario.x.outage.kind is \"stal\": did you mean `stall`?\n  --> scenario:6:19",
        ),
        (
            "outage = { kind = \"stall\", at = \"10500ms\", length = \"1s\" }",
            "scenario.x.outage is judged by whole seconds: write at and length as such",
        ),
        (
            "outage = { kind = \"brownout\", at = \"1s\", length = \"1s\" }",
            "scenario.x.outage.share is missing: write a number",
        ),
        (
            "outage = { kind = \"brownout\", share = 2, at = \"1s\", length = \"1s\" }",
            "scenario.x.outage.share is out of range: write a number from 0 to 1\n  --> scenario:6:39",
        ),
        (
            "against = [\"niave\"]",
            "scenario.x.against[0] is \"niave\": did you mean `naive`?\n  --> scenario:6:12",
        ),
        (
            "route = \"/pay\"",
            "scenario.x.route is \"/pay\", and no route has that path: write [[route]]",
        ),
        (
            "policy = \"apy\"",
            "scenario.x.policy is \"apy\", and no policy is called that: did you mean \"pay\"?\n  --> scenario:6:1",
        ),
        (
            "calls = [{ to = \"stock\" }]",
            "no scenario.x.behind is called that: write one, as [scenario.x.behind.stock]",
        ),
        (
            "[scenario.x.behind.a]\nworkers = 1\ntime = \"1ms\"\ncalls = { to = \"b\" }\n[scenario.x.behind.b]\nworkers = 1\ntime = \"1ms\"\ncalls = { to = \"a\" }",
            "scenario.x.behind calls in a circle: write",
        ),
        (
            "assert = { max_wastd = 1 }",
            "scenario.x.assert.max_wastd is not known here: did you mean `max_wasted`?",
        ),
        (
            "assert = { verdict = \"heald\" }",
            "scenario.x.assert.verdict is \"heald\": did you mean `healed`?",
        ),
        (
            "assert = { goodput = [1, 0] }",
            "scenario.x.assert.goodput is a list: write a number, or the least and the most, such as [0.9, 1.1]",
        ),
        (
            "assert = { max_p99_after = 3 }",
            "scenario.x.assert.max_p99_after is 3: write the least and the most",
        ),
        (
            "assert = { behind = { a = 3 } }",
            "scenario.x.assert.behind names \"a\", which is no service in behind: write one that is",
        ),
        ("[scenario.x.way.naive]", "is a way that everybody knows; write another name"),
        (
            "[scenario.x.way.y]\ncallers = {}",
            "scenario.x.way.y.callers.retries is missing: write how often",
        ),
    ] {
        let message = told(&format!("{base}{written}"));
        assert!(message.contains(expected), "{written}\n{message}\nexpected: {expected}");
        assert!(message.contains("write") || message.contains("did you mean"), "{message}");
    }
}

#[test]
fn flags_go_over_the_file() {
    let flag = Override::flag("--set", "scenario.stall.load=500/s").unwrap();
    let (_, plans) = parse_with("demo", DEMO, std::slice::from_ref(&flag)).unwrap();
    assert_eq!(plans.iter().find(|plan| plan.name == "stall").unwrap().scenario.load, 500.0);
    let wrong = Override::flag("--set", "scenario.stall.load=500").unwrap();
    let message = parse_with("demo", DEMO, &[wrong]).unwrap_err().to_string();
    assert!(message.contains("--> --set scenario.stall.load\n"), "{message}");
}

#[test]
fn the_samples_of_the_documentation_load() {
    let page = include_str!("../../../../../docs/simulator.md");
    let mut samples = page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let whole = samples.next().unwrap();
    parse(whole).unwrap();
    let ways = samples.next().unwrap();
    let plan = parse(&whole.replace("against =", "#").replace("of = [\"front\"]", "of = []"));
    assert_eq!(words(&plan.unwrap()[0])[0], "naive");
    let both =
        format!("{whole}{ways}").replace("against = [", "against = [\"before\", \"after\", ");
    assert_eq!(words(&parse(&both).unwrap()[0])[..2], ["before", "after"]);
}

#[test]
fn a_topic_has_the_tiers_of_a_worker_and_is_faced_by_one() {
    let plan = one(r#"
[worker.events]
source = { topic = "payments" }
handler = "http://127.0.0.1:9000/events"
tiers = ["3s", "10s"]
[upstream.calm]
preset = "background"
breaker = { mode = "disabled" }
[scenario.x]
load = "100/s"
topic = { worker = "events", concurrency = 4, upstream = "calm" }
"#);
    assert_eq!(words(&plan), ["worker"]);
    let topic = plan.against[0].scenario.topic.as_ref().unwrap();
    assert_eq!(topic.tiers, ladder::Spec::Tiers(vec![s(3), s(10)]));
    assert_eq!((topic.concurrency, topic.policy.attempts), (4, 1));
    assert_eq!(topic.upstream.breaker.mode, breaker::Mode::Disabled);
}

/// A file with a piece cut out or doubled is told off or understood, and never more than that.
#[test]
fn no_cut_breaks_it() {
    let mut rng = quell::core::Rng::new(1);
    for shipped in SHIPPED {
        let chars: Vec<char> = shipped.text.chars().collect();
        for _ in 0..100 {
            let from = rng.below(chars.len() as u64) as usize;
            let to = (from + rng.below(30) as usize).min(chars.len());
            let rest = if rng.unit() < 0.5 { &chars[to..] } else { &chars[from..] };
            let text: String = chars[..to].iter().chain(rest).collect();
            let cut: String = chars[..from].iter().chain(&chars[to..]).collect();
            for text in [text, cut] {
                let _ = parse(&text).map_err(|problems| problems.to_string());
            }
        }
    }
}

#[test]
fn what_no_machine_could_run_is_refused() {
    for (written, expected) in [
        ("instances = 4000000000", "instances is 4000000000: write at most 100000"),
        ("watch = \"900y\"", "watch ends more than a day after the start: write less"),
        (
            "arrivals = { users = 4000000000, think = { p50 = \"1ns\", p99 = \"900y\" } }",
            "arrivals has 4000000000 users: write at most 10000000",
        ),
        (
            "outage = { kind = \"bad-deploy\", at = \"1s\", length = \"9s\", instances = 4000000000, step = \"0s\" }",
            "outage.instances is 4000000000: write at most 10000",
        ),
    ] {
        let text = format!("version = 1\n[scenario.x]\nload = \"300/s\"\n{written}");
        let message = told(&text);
        assert!(message.contains(expected), "{written}\n{message}");
    }
    let recorded = "version = 1\n[scenario.x]\narrivals = { recorded = [[1, 100000], [1, 100000], [1, 100000]] }";
    let plans = parse(recorded).unwrap();
    assert!(
        matches!(&plans[0].scenario.arrivals, Arrivals::Recorded(counts) if counts.len() == 86_400)
    );
}

const NAMED: &str = r#"
version = 1
[policy.pay]
per_try_timeout = "2s"
[upstream.pay]
[scenario.stall]
upstream = "pay"
load = "30/s"
patience = "300ms"
service = { workers = 4, time = "100ms" }
outage = { kind = "stall", at = "10s", length = "5s" }
against = ["naive", "client", "front"]
assert = { recovered_within = "1s" }
"#;

#[test]
fn a_named_policy_waits_no_longer_than_callers_do() {
    let plan = &parse(NAMED).unwrap()[0];
    let client = plan.against.iter().find(|way| way.word == "client").unwrap();
    let Callers::Quell { policy, .. } = client.scenario.callers else { panic!() };
    assert_eq!(policy.per_try_timeout, Some(Duration::from_millis(300)));
}

#[test]
fn what_is_promised_is_promised_of_what_the_file_says() {
    let naive = quell_sim::run(&parse(NAMED).unwrap()[0].scenario, 1).unwrap();
    let broken = |text: &str, who| parse(text).unwrap()[0].promises[0].broken(who, &naive);
    assert!(!naive.summary.verdict.within(1));
    assert!(broken(NAMED, "naive").is_empty() && !broken(NAMED, "front").is_empty());
    let alone = NAMED.replace(r#"["naive", "client", "front"]"#, r#"["naive"]"#);
    assert!(!broken(&alone, "naive").is_empty(), "it is all there is");
    let nothing = NAMED.replace(r#"recovered_within = "1s""#, r#"of = ["front"]"#);
    assert!(parse(&nothing).unwrap_err().to_string().contains("nothing is promised"));
}
