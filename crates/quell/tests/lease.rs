//! A fleet's limit, moved in the background from a place that now and then refuses, hangs or answers late.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use quell::{
    Clock,
    core::{Stamp, Time, lease::overshoot_bound},
    lease::{Answer, Down, Grant, Holder, Mover, Pool, Request, Return, Rules, Spec},
};
use tokio::{sync::oneshot, task::JoinHandle, time::sleep};

const TOKEN: u64 = 1_000_000;
/// How long a request is on its way when all is well.
const WAY: Duration = ms(2);
/// Later than any request is waited for.
const LATE: Duration = ms(200);
const STEP: Duration = ms(10);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn spec(per_second: u32, burst: u32, instances: u32) -> Spec {
    Spec { per_second, burst, instances, ..Spec::default() }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Well,
    Refuses,
    Hangs,
    /// Books in time, and answers when nobody waits.
    AnswersLate,
    /// The request is under way for long, and booked when nobody waits.
    BooksLate,
}

/// The place that counts: in memory, with faults on demand.
struct InMemory {
    clock: Clock,
    rules: Rules,
    now: Mutex<Now>,
}

struct Now {
    mode: Mode,
    pool: Pool,
    /// When it was asked, and how it was then.
    asked: Vec<(Time, Mode)>,
    /// What came of the requests that were booked late.
    late: Vec<Grant>,
    given_back: Vec<Return>,
}

impl InMemory {
    fn new(clock: &Clock, spec: Spec) -> Arc<Self> {
        let rules = Rules::new(spec).unwrap();
        let pool = Pool::new(&rules, stamp(clock));
        let (asked, late, given_back) = (Vec::new(), Vec::new(), Vec::new());
        let now = Mutex::new(Now { mode: Mode::Well, pool, asked, late, given_back });
        Arc::new(Self { clock: clock.clone(), rules, now })
    }

    fn turn(&self, mode: Mode) {
        self.now.lock().unwrap().mode = mode;
    }

    fn asked(&self, mode: Mode) -> usize {
        self.now.lock().unwrap().asked.iter().filter(|(_, was)| *was == mode).count()
    }

    fn book(&self, request: &Request) -> Grant {
        self.now.lock().unwrap().pool.lease(&self.rules, stamp(&self.clock), request)
    }
}

fn stamp(clock: &Clock) -> Stamp {
    Stamp::from_millis(1_700_000_000_000 + clock.now().as_nanos() / 1_000_000)
}

/// Shared, because what comes late is booked by a task that outlives the request.
struct Shared(Arc<InMemory>);

impl Holder for Shared {
    fn take<'a>(&'a self, request: &'a Request) -> Answer<'a, Result<Grant, Down>> {
        Box::pin(async move {
            let place = &self.0;
            let mode = {
                let mut now = place.now.lock().unwrap();
                let mode = now.mode;
                now.asked.push((place.clock.now(), mode));
                mode
            };
            sleep(WAY).await;
            match mode {
                Mode::Well => Ok(place.book(request)),
                Mode::Refuses => Err(Down::new("connection refused")),
                Mode::Hangs => std::future::pending().await,
                Mode::AnswersLate => {
                    let grant = place.book(request);
                    sleep(LATE).await;
                    Ok(grant)
                }
                Mode::BooksLate => {
                    let (place, request) = (Arc::clone(place), *request);
                    tokio::spawn(async move {
                        sleep(LATE).await;
                        let grant = place.book(&request);
                        place.now.lock().unwrap().late.push(grant);
                    });
                    std::future::pending().await
                }
            }
        })
    }

    fn give_back<'a>(&'a self, back: &'a Return) -> Answer<'a, Result<(), Down>> {
        Box::pin(async move {
            sleep(WAY).await;
            if self.0.now.lock().unwrap().mode != Mode::Well {
                std::future::pending::<()>().await;
            }
            let mut now = self.0.now.lock().unwrap();
            now.pool.give_back(&self.0.rules, stamp(&self.0.clock), back);
            now.given_back.push(*back);
            Ok(())
        })
    }
}

/// A process of the fleet.
struct Process {
    mover: Arc<Mover>,
    stop: oneshot::Sender<()>,
    moving: JoinHandle<()>,
}

impl Process {
    fn start(place: &Arc<InMemory>, spec: Spec, seed: u64) -> Self {
        let mover = Mover::new(spec, Arc::new(Shared(Arc::clone(place)))).unwrap();
        let mover = Arc::new(mover.clock(place.clock.clone()).seed(seed));
        let (stop, stopped) = oneshot::channel();
        let moving = tokio::spawn({
            let mover = Arc::clone(&mover);
            async move { mover.run(stopped).await }
        });
        Self { mover, stop, moving }
    }

    /// Everything that can be had now.
    fn take_all(&self) -> u64 {
        std::iter::from_fn(|| self.mover.take(1).ok()).count() as u64
    }

    async fn stop(self) -> Arc<Mover> {
        drop(self.stop);
        self.moving.await.unwrap();
        self.mover
    }
}

/// How much more than the rate was taken in the worst window, in tokens.
fn worst_window(taken: &[u64], per_second: u32) -> f64 {
    let brings = f64::from(per_second) * STEP.as_secs_f64();
    let (mut window, mut worst) = (0.0_f64, 0.0_f64);
    for taken in taken {
        window = window.max(0.0) + *taken as f64;
        worst = worst.max(window);
        window -= brings;
    }
    worst
}

#[tokio::test(start_paused = true)]
async fn three_movers_stay_within_the_limit_and_the_stated_overshoot_through_every_kind_of_outage()
{
    let spec = spec(100, 50, 3);
    for seed in 0..5 {
        let clock = Clock::tokio();
        let place = InMemory::new(&clock, spec);
        let mut fleet =
            vec![Process::start(&place, spec, seed), Process::start(&place, spec, seed + 100)];
        let mut taken = Vec::new();
        for step in 0..4_500_u64 {
            match step {
                500 => fleet.push(Process::start(&place, spec, seed + 200)),
                1_000 => place.turn(Mode::Refuses),
                1_700 => place.turn(Mode::Hangs),
                2_400 => place.turn(Mode::AnswersLate),
                3_100 => place.turn(Mode::BooksLate),
                1_400 | 2_100 | 2_800 | 3_500 => place.turn(Mode::Well),
                // Given back a little later, and meanwhile the others take what they can.
                4_000 => drop(tokio::spawn(fleet.remove(0).stop())),
                _ => {}
            }
            sleep(STEP).await;
            // A lull, so that tokens pile up, and then everything at once.
            let lull = step % 1_000 > 900;
            taken.push(fleet.iter().filter(|_| !lull).map(Process::take_all).sum());
        }
        let worst = worst_window(&taken, spec.per_second);
        let bound = (u64::from(spec.burst) + overshoot_bound(&spec, spec.instances)) as f64;
        assert!(worst <= bound, "seed {seed}: {worst} over the rate, and {bound} are allowed");

        let sum = |from: usize, to: usize| taken[from..to].iter().sum::<u64>();
        let calm = sum(600, 900);
        assert!((270..=330).contains(&calm), "seed {seed}: {calm} of 300 while all is well");
        let refused = sum(1_100, 1_400);
        assert!((200..=330).contains(&refused), "seed {seed}: {refused} of 300 on shares");
        let after_leaving = sum(4_100, 4_400);
        assert!((270..=330).contains(&after_leaving), "seed {seed}: {after_leaving} of 300");
        for mode in [Mode::Refuses, Mode::Hangs, Mode::AnswersLate, Mode::BooksLate] {
            assert!(place.asked(mode) > 0, "seed {seed}: nobody met {mode:?}");
        }
        // What comes when nobody waits any more takes nothing and settles nothing.
        let late = place.now.lock().unwrap().late.clone();
        assert!(!late.is_empty(), "seed {seed}");
        assert!(late.iter().all(|grant| grant.tokens == 0 && !grant.settled), "{late:?}");
        for process in fleet {
            process.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_is_away_is_asked_once_per_probe_interval() {
    for mode in [Mode::Refuses, Mode::Hangs, Mode::BooksLate, Mode::AnswersLate] {
        let (clock, spec) = (Clock::tokio(), spec(1_000, 1_000, 3));
        let place = InMemory::new(&clock, spec);
        let process = Process::start(&place, spec, 1);
        sleep(ms(1_000)).await;
        assert!(process.mover.is_holder_up());
        place.turn(mode);
        for _ in 0..6_000 {
            sleep(STEP).await;
            process.take_all();
        }
        let asked = place.asked(mode);
        assert!((55..=125).contains(&asked), "{mode:?}: asked {asked} times in a minute");
        assert!(!process.mover.is_holder_up());
        process.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_late_gives_the_process_nothing() {
    let (clock, spec) = (Clock::tokio(), spec(100, 50, 3));
    let place = InMemory::new(&clock, spec);
    place.turn(Mode::AnswersLate);
    let process = Process::start(&place, spec, 1);
    sleep(LATE + ms(50)).await; // the answer would be here
    // Since it gave up after 50 ms it lives on its share of 33 per second, and the answer adds nothing to that.
    let taken = process.take_all();
    assert!((5..=7).contains(&taken), "{taken}");
    assert!(!process.mover.is_holder_up());
    process.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_gives_back_what_it_did_not_use_and_takes_no_more() {
    let (clock, spec) = (Clock::tokio(), spec(100, 50, 3));
    let place = InMemory::new(&clock, spec);
    let process = Process::start(&place, spec, 1);
    let mut taken = 0;
    for _ in 0..20 {
        sleep(STEP).await;
        taken += u32::from(process.mover.take(1).is_ok());
    }
    assert!(taken >= 15, "{taken} of 20: only the first look or two find nothing here");
    let mover = process.stop().await;
    let given_back = place.now.lock().unwrap().given_back.clone();
    assert_eq!(given_back.len(), 1, "said once");
    assert!(given_back[0].tokens >= TOKEN && given_back[0].owed == 0, "{given_back:?}");
    assert!(mover.take(1).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_process_that_ends_while_the_holder_hangs_waits_for_it_no_longer_than_the_timeout() {
    let (clock, spec) = (Clock::tokio(), spec(100, 50, 3));
    let place = InMemory::new(&clock, spec);
    let process = Process::start(&place, spec, 1);
    sleep(ms(200)).await;
    place.turn(Mode::Hangs);
    process.take_all(); // so that a request is out when the process ends
    sleep(ms(30)).await;
    let before = clock.now();
    process.stop().await;
    assert!(clock.now().since(before) <= spec.timeout * 2, "{:?}", clock.now().since(before));
    assert_eq!(place.now.lock().unwrap().given_back, []);
}
