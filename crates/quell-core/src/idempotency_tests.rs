use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const ME: Owner = Owner(1);
const OTHER: Owner = Owner(2);
const PAYLOAD: Fingerprint = Fingerprint([1; 32]);
const CHANGED: Fingerprint = Fingerprint([2; 32]);
const CREATED: Ending = Ending::Stored { status: 201 };

fn at(ms: u64) -> Stamp {
    Stamp::from_millis(ms)
}

fn rules(lease: u64, ttl: u64, on_expiry: OnExpiry) -> Rules {
    let (lease, ttl) = (Duration::from_millis(lease), Duration::from_millis(ttl));
    Rules::new(Spec { lease, ttl, on_expiry }).unwrap()
}

fn claimed(begin: Begin) -> Record {
    match begin {
        Begin::Claim(record) => record,
        other => panic!("expected a claim, got {other:?}"),
    }
}

/// K13.
#[test]
fn a_row_left_by_a_failed_attempt_does_not_swallow_the_retry() {
    let rules = rules(10, 100, OnExpiry::Hold);
    let first = claimed(begin(None, at(0), ME, PAYLOAD, &rules));
    let row = abandon(Some(&first), ME, first.fence()).unwrap();
    let second = claimed(begin(Some(&row), at(1), OTHER, CHANGED, &rules));
    assert!(second.fence() > first.fence());
}

#[test]
fn a_second_request_is_told_of_the_first_or_gets_its_reply_or_is_caught_with_another_payload() {
    let rules = rules(10, 100, OnExpiry::Rerun);
    let record = claimed(begin(None, at(0), ME, PAYLOAD, &rules));
    let again = |record: &Record, payload| begin(Some(record), at(9), OTHER, payload, &rules);
    assert_eq!(again(&record, PAYLOAD), Begin::InFlight { retry_at: at(10) });
    assert_eq!(again(&record, CHANGED).reason(), Some(Reason::KeyMismatch));
    let done = complete(Some(&record), at(5), ME, record.fence(), CREATED, &rules).unwrap();
    assert_eq!(again(&done, PAYLOAD), Begin::Replay(CREATED));
    assert_eq!(again(&done, CHANGED), Begin::Mismatch);
    claimed(begin(Some(&done), at(105), OTHER, CHANGED, &rules)); // forgotten
}

#[test]
fn a_done_request_whose_reply_is_gone_is_refused_and_never_run_again() {
    let rules = rules(10, 100, OnExpiry::Rerun);
    let record = claimed(begin(None, at(0), ME, PAYLOAD, &rules));
    let gone = Ending::of(200, false, None).unwrap();
    let done = complete(Some(&record), at(0), ME, record.fence(), gone, &rules).unwrap();
    for ms in [0, 10, 11, 99] {
        let begin = begin(Some(&done), at(ms), OTHER, PAYLOAD, &rules);
        assert_eq!(begin.reason(), Some(Reason::KeyInFlight), "after {ms} ms");
    }
}

#[test]
fn an_expired_lease_is_run_again_or_held_as_the_policy_says() {
    let record = claimed(begin(None, at(0), ME, PAYLOAD, &rules(10, 100, OnExpiry::Hold)));
    let again =
        |ms, on_expiry| begin(Some(&record), at(ms), OTHER, PAYLOAD, &rules(10, 100, on_expiry));
    assert_eq!(again(10, OnExpiry::Hold), Begin::InFlight { retry_at: at(100) });
    claimed(again(10, OnExpiry::Rerun));
    claimed(again(100, OnExpiry::Hold)); // forgotten
}

#[test]
fn a_lease_can_be_renewed_and_a_late_owner_may_still_complete_if_nobody_took_over() {
    let rules = rules(10, 100, OnExpiry::Rerun);
    let record = claimed(begin(None, at(0), ME, PAYLOAD, &rules));
    let fence = record.fence();
    let record = renew(Some(&record), at(8), ME, fence, &rules).unwrap();
    assert_eq!(
        begin(Some(&record), at(17), OTHER, PAYLOAD, &rules),
        Begin::InFlight { retry_at: at(18) }
    );
    assert!(complete(Some(&record), at(50), ME, fence, CREATED, &rules).is_ok());
    let taken = claimed(begin(Some(&record), at(50), OTHER, PAYLOAD, &rules));
    assert_eq!(complete(Some(&taken), at(50), ME, fence, CREATED, &rules), Err(Stale));
    assert_eq!(renew(Some(&taken), at(50), ME, fence, &rules), Err(Stale));
    assert_eq!(abandon(Some(&taken), ME, fence), Err(Stale));
    assert_eq!(abandon(None, ME, fence), Err(Stale));
}

/// R3: a completion that is sent again because its answer got lost is no mistake.
#[test]
fn completing_twice_keeps_the_first_word() {
    let rules = rules(10, 100, OnExpiry::Rerun);
    let record = claimed(begin(None, at(0), ME, PAYLOAD, &rules));
    let done = complete(Some(&record), at(0), ME, record.fence(), CREATED, &rules).unwrap();
    let again = complete(Some(&done), at(3), ME, record.fence(), Ending::Failed, &rules);
    assert_eq!(again, Ok(done));
    assert_eq!(abandon(Some(&done), ME, record.fence()), Err(Stale));
}

/// T1: a record that was forgotten takes its fence with it, and the next one is greater all the same.
#[test]
fn fences_grow_even_when_the_record_was_forgotten() {
    let rules = rules(10, 100, OnExpiry::Rerun);
    let old = claimed(begin(None, at(1_000), ME, PAYLOAD, &rules));
    let new = claimed(begin(None, at(2_000), ME, PAYLOAD, &rules));
    assert!(new.fence() > old.fence());
    assert_eq!(complete(Some(&new), at(2_001), ME, old.fence(), CREATED, &rules), Err(Stale));
    let back = claimed(begin(
        Some(&abandon(Some(&new), ME, new.fence()).unwrap()),
        at(0),
        ME,
        PAYLOAD,
        &rules,
    ));
    assert!(back.fence() > new.fence(), "the clock stepped back");
}

#[test]
fn only_what_is_final_is_kept_and_only_what_is_short_is_stored() {
    for status in 100..600 {
        for declared in [false, true] {
            let of = |length| Ending::of(status, declared, length);
            let temporary = matches!(status, 408 | 425 | 429 | 500..=599);
            let stored = (200..300).contains(&status)
                || (declared && (400..500).contains(&status) && !temporary);
            let done = stored || (300..400).contains(&status);
            assert_eq!(
                of(Some(LONGEST_BODY)) == Some(Ending::Stored { status }),
                stored,
                "{status}"
            );
            assert_eq!(of(Some(LONGEST_BODY + 1)).is_some(), done, "{status}");
            assert_eq!(of(None), done.then_some(Ending::Unstored { status }), "{status}");
        }
    }
}

#[test]
fn cookies_credentials_and_hop_by_hop_fields_are_never_stored() {
    for field in ["Set-Cookie", "AUTHORIZATION", "transfer-encoding", "Connection", "quell-stop"] {
        assert!(!may_store(field), "{field}");
    }
    assert!(may_store("content-type") && may_store("location"));
    assert!(NEVER_STORED.is_sorted());
}

/// A day later they would tell somebody else how long to wait.
#[test]
fn what_one_call_was_told_of_limits_and_waits_is_never_stored() {
    for field in ["RateLimit", "RateLimit-Policy", "Retry-After"] {
        assert!(!may_store(field), "{field}");
    }
    for field in ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"] {
        assert!(!may_store(field), "{field}");
    }
}

#[test]
fn nonsense_is_refused_with_the_field_and_the_fix() {
    let (zero, second) = (Duration::ZERO, Duration::from_secs(1));
    for (lease, ttl) in [(zero, second), (second, zero), (second, Duration::from_millis(999))] {
        let spec = Spec { lease, ttl, ..Spec::default() };
        let message = Rules::new(spec).unwrap_err().to_string();
        assert!(message.starts_with("idempotency.") && message.contains("write"), "{message}");
    }
    let rules = Rules::new(Spec::default()).unwrap();
    assert!(rules.outlives(Duration::from_secs(3_600)) && !rules.outlives(Duration::MAX));
}

fn scope(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    feed_scope(parts, |part| bytes.extend_from_slice(part));
    bytes
}

/// R4.
#[test]
fn parts_of_a_scope_do_not_run_into_each_other() {
    assert_ne!(scope(&[b"a:b", b"c"]), scope(&[b"a", b"b:c"]));
    assert_ne!(scope(&[b"", b"a"]), scope(&[b"a", b""]));
    assert_ne!(scope(&[b"a"]), scope(&[b"a", b""]));
    assert_ne!(scope(&[]), scope(&[b""]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::testing::cases()))]

    /// R4, for any parts.
    #[test]
    fn equal_scopes_have_equal_parts(
        a in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..5),
        b in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 0..5),
    ) {
        let flat = |parts: &[Vec<u8>]| scope(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>());
        prop_assert_eq!(flat(&a) == flat(&b), a == b);
    }
}

/// How often a key is claimed in a model before it has seen enough.
const CLAIMS: u8 = 4;

type BeginFn = fn(Option<&Record>, Stamp, Owner, Fingerprint, &Rules) -> Begin;
type CompleteFn = fn(Option<&Record>, Stamp, Owner, Fence, Ending, &Rules) -> Result<Record, Stale>;

/// A store and three tasks of two owners, all of which may be anywhere in their work.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    record: Option<Record>,
    now: u64,
    /// The claim that each task works under. A task that crashed has none, and told nobody.
    tasks: [Option<Fence>; 3],
    /// What the ghost of an observer knows: the last claim, who completed it, how often it was allowed to begin.
    last: Fence,
    done: Option<(Fence, Ending, Stamp)>,
    owed: u8,
    claims: u8,
}

#[derive(Debug, Clone, Copy)]
struct Model {
    rules: Rules,
    begin: BeginFn,
    complete: CompleteFn,
    clock: u64,
}

impl Model {
    fn owner(task: usize) -> Owner {
        if task < 2 { ME } else { OTHER } // two tasks of one process
    }

    /// Looks at every order in which everything can happen; the number of worlds, or what is wrong in one of them.
    fn check(&self) -> Result<usize, &'static str> {
        let start = World {
            record: None,
            now: 1,
            tasks: [None; 3],
            last: Fence(0),
            done: None,
            owed: 1,
            claims: 0,
        };
        let (mut seen, mut next) = (BTreeSet::from([start.clone()]), vec![start]);
        while let Some(world) = next.pop() {
            for after in self.successors(&world)? {
                if seen.insert(after.clone()) {
                    next.push(after);
                }
            }
        }
        Ok(seen.len())
    }

    fn successors(&self, world: &World) -> Result<Vec<World>, &'static str> {
        let mut worlds = Vec::new();
        if world.now < self.clock {
            worlds.push(World { now: world.now + 1, ..world.clone() });
        }
        if world.record.is_some_and(|record| record.keep() <= at(world.now)) {
            worlds.push(World { record: None, done: None, owed: 1, ..world.clone() });
        }
        for task in 0..world.tasks.len() {
            match world.tasks[task] {
                None if world.claims == CLAIMS => {}
                None => worlds.push(self.begins(world, task)?),
                Some(fence) => {
                    let mut crashed = world.clone();
                    crashed.tasks[task] = None;
                    worlds.push(self.completes(&crashed, task, fence)?);
                    worlds.push(self.abandons(&crashed, task, fence)?);
                    worlds.push(crashed);
                }
            }
        }
        Ok(worlds)
    }

    fn begins(&self, world: &World, task: usize) -> Result<World, &'static str> {
        let mut world = world.clone();
        let (now, owner) = (at(world.now), Self::owner(task));
        let forgotten = world.record.is_some_and(|record| record.keep() <= now);
        let done = world.done.filter(|_| !forgotten);
        match (self.begin)(world.record.as_ref(), now, owner, PAYLOAD, &self.rules) {
            Begin::Claim(record) => {
                if done.is_some() {
                    return Err("what was completed is run again");
                }
                if let Some(Record::InProgress { until, .. }) = world.record
                    && now < until
                {
                    return Err("two at once within a lease");
                }
                if record.fence() <= world.last {
                    return Err("a fence that does not grow");
                }
                if self.rules.0.on_expiry == OnExpiry::Hold && world.owed == 0 && !forgotten {
                    return Err("run again though it was to be held");
                }
                world.claims += 1;
                (world.done, world.owed) = (None, 0);
                (world.last, world.tasks[task]) = (record.fence(), Some(record.fence()));
                world.record = Some(record);
            }
            Begin::Replay(ending) => {
                if done.is_none_or(|(_, stored, _)| stored != ending) {
                    return Err("a replay of what was never completed");
                }
            }
            Begin::InFlight { .. } => {
                if matches!(world.record, None | Some(Record::Free { .. })) {
                    return Err("a retry was swallowed");
                }
                if done.is_some() {
                    return Err("a completed reply was lost");
                }
            }
            Begin::Mismatch => return Err("a mismatch of equal payloads"),
        }
        Ok(world)
    }

    fn completes(&self, world: &World, task: usize, fence: Fence) -> Result<World, &'static str> {
        let mut world = world.clone();
        let ending = Ending::Stored { status: 200 + task as u16 };
        let (now, owner) = (at(world.now), Self::owner(task));
        let result = (self.complete)(world.record.as_ref(), now, owner, fence, ending, &self.rules);
        if let Ok(record) = result {
            if world.done.is_some() {
                return Err("two completions of one claim");
            }
            if fence != world.last {
                return Err("a completion by somebody who was overtaken");
            }
            world.done = Some((fence, ending, record.keep()));
            world.record = Some(record);
        }
        Ok(world)
    }

    fn abandons(&self, world: &World, task: usize, fence: Fence) -> Result<World, &'static str> {
        let mut world = world.clone();
        if let Ok(record) = abandon(world.record.as_ref(), Self::owner(task), fence) {
            if world.done.is_some() {
                return Err("a completed reply was lost");
            }
            (world.record, world.owed) = (Some(record), 1);
        }
        Ok(world)
    }
}

fn model(lease: u64, ttl: u64, on_expiry: OnExpiry) -> Model {
    Model { rules: rules(lease, ttl, on_expiry), begin, complete, clock: 6 }
}

/// K13: every order of beginnings, completions, failures, crashes, expiries and evictions.
#[test]
fn in_no_order_of_events_is_a_completed_reply_lost_or_run_again() {
    for on_expiry in [OnExpiry::Rerun, OnExpiry::Hold] {
        for (lease, ttl) in [(2, 100), (1, 100), (1, 2), (2, 3), (3, 3)] {
            let worlds = model(lease, ttl, on_expiry).check().unwrap();
            assert!(worlds > 100, "{worlds} worlds are no proof");
        }
    }
}

/// The positive control of K13.
#[test]
fn a_check_for_existence_swallows_the_retry_and_is_caught() {
    let by_existence: BeginFn = |record, now, owner, fingerprint, rules| match record {
        Some(Record::Done { ending, .. }) => Begin::Replay(*ending),
        Some(row) => Begin::InFlight { retry_at: row.keep() },
        None => begin(None, now, owner, fingerprint, rules),
    };
    let wrong = Model { begin: by_existence, ..model(2, 100, OnExpiry::Rerun) };
    assert_eq!(wrong.check(), Err("a retry was swallowed"));
}

/// The positive control of the fence.
#[test]
fn a_completion_that_looks_at_the_owner_alone_is_caught() {
    let by_owner: CompleteFn = |record, now, owner, _, ending, rules| {
        let fence = record.ok_or(Stale)?.fence();
        complete(record, now, owner, fence, ending, rules)
    };
    let wrong = Model { complete: by_owner, ..model(2, 100, OnExpiry::Rerun) };
    assert!(wrong.check().is_err());
}
