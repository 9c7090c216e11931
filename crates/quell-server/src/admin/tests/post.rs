//! A second host, as small as one can be: a post office that delivers letters and texts from a queue.
//!
//! It has two upstreams, a pipeline to each, one thread that works, one count of its own and a file. It knows `admin` and `host`, and
//! that is the point: nothing in it is a gateway's.

use std::collections::BTreeMap;
use std::future::{Ready, ready};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use arc_swap::ArcSwap;
use quell::core::credit::Role;
use quell::core::{Failure, Fault, Outcome, Policy, Reason, Time};
use quell::levers::route_key;
use quell::observe::labels::Metric;
use quell::observe::{Next, Tried};
use quell::run::{End, Try, drive_blocking};
use quell::{Clock, Upstream, upstream};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::admin::exposition::{Kind, Page, Row};
use crate::admin::operations::{InForce, OfRoute, OfUpstream, Operations, Token};
use crate::config::{AccessLog, Config, Override, Secret, Target};
use crate::host::Host;
use crate::host::access::{Access, Attempt};
use crate::host::counters::{Came, Count, Counters, Verdict};
use crate::host::life::Life;
use crate::host::log::Log;
use crate::host::reload::Source;
use crate::host::side::Chores;

/// What only a post office counts.
const DELIVERED: Row = Row::new(
    Metric { name: "post_delivered_total", help: "What was delivered" },
    Kind::Counter,
    &["pipeline"],
);

/// Which pipeline feeds which upstream.
const PIPELINES: [(&str, &str); 2] = [("letters", "mail"), ("texts", "sms")];

/// All that does not change while it runs.
pub(super) struct Post {
    rules: ArcSwap<Rules>,
    log: Arc<Log>,
    source: Source,
    life: Life,
    access: Arc<Access>,
    /// What was for no pipeline.
    undeliverable: Counters,
}

/// What its file comes to.
struct Rules {
    file: Config,
    token: Secret,
    upstreams: BTreeMap<String, Upstream>,
    pipelines: Vec<Pipeline>,
}

struct Pipeline {
    name: &'static str,
    upstream: Upstream,
    endpoints: Vec<Target>,
    policy: Policy,
    counters: Arc<[Counters]>,
    delivered: Arc<Count>,
}

impl Rules {
    /// All of it, or what is wrong with it. What is known of an upstream and what was counted stays. Numbers were proven when the file
    /// was read, and the file always names the same pipelines, so nothing fails half way.
    fn new(file: Config, before: Option<&Self>, log: &Arc<Log>) -> Result<Self, String> {
        let wrong = |error: quell::core::spec::Invalid| error.to_string();
        let (mut upstreams, mut pipelines) = (BTreeMap::new(), Vec::new());
        for (name, feeds) in PIPELINES {
            let written =
                file.upstreams.get(feeds).ok_or(format!("there is no upstream {feeds}"))?;
            let policy = file.policies.get(name).ok_or(format!("there is no policy {name}"))?;
            let policy = Policy::new(policy.spec).map_err(wrong)?.for_route(route_key(name));
            let known = before.and_then(|before| before.upstreams.get(feeds));
            let upstream = match known {
                Some(known) => {
                    known.reload(written.spec, policy.per_try()).map_err(wrong)?;
                    known.clone()
                }
                None => {
                    let observer = Some(Arc::clone(log) as _);
                    let host =
                        upstream::Host { clock: Clock::system(), observer, ..Default::default() };
                    Upstream::new(feeds, written.spec, policy.per_try(), host).map_err(wrong)?
                }
            };
            let same = before.and_then(|before| before.pipelines.iter().find(|p| p.name == name));
            pipelines.push(Pipeline {
                name,
                upstream: upstream.clone(),
                endpoints: written.endpoints.clone(),
                policy,
                counters: same
                    .map_or_else(|| Counters::per_core(1), |same| Arc::clone(&same.counters)),
                delivered: same.map_or_else(Arc::default, |same| Arc::clone(&same.delivered)),
            });
            upstreams.insert(feeds.to_owned(), upstream);
        }
        let token = "env:CARGO_PKG_NAME".parse().map_err(|_| "no such secret".to_owned())?;
        Ok(Self { file, token, upstreams, pipelines })
    }
}

impl Post {
    fn take(&self, path: &Path, set: &[Override]) -> Result<Vec<String>, String> {
        let file = Config::load(path, set).map_err(|error| error.to_string())?;
        let before = self.rules.load_full();
        let changes = file.changes_since(&before.file);
        self.rules.store(Arc::new(Rules::new(file, Some(&before), &self.log)?));
        Ok(changes)
    }

    /// Delivers one thing, with all the attempts that the policies allow.
    fn deliver(&self, sent: &Sent) {
        let rules = self.rules.load_full();
        let Some(pipeline) = rules.pipelines.iter().find(|own| own.name == sent.pipeline) else {
            self.undeliverable.refuse(Reason::NoRoute);
            return self.undeliverable.request(Verdict::Refused);
        };
        let counters = &pipeline.counters[0];
        let since = pipeline.upstream.clock().now();
        let mut carrier = Carrier { pipeline, text: &sent.text, since, attempts: Vec::new() };
        let done = drive_blocking(pipeline.upstream.begin(&pipeline.policy), &mut carrier);
        let verdict = match done.end {
            End::Reply(Ok(())) => {
                pipeline.delivered.add();
                Verdict::Success
            }
            _ => Verdict::Failed,
        };
        counters.request(verdict);
        self.access.record(&Record {
            pipeline: pipeline.name,
            outcome: verdict.as_str(),
            attempts: carrier.attempts,
        });
    }
}

/// A line of the access log, in a post office's words.
#[derive(Serialize)]
struct Record {
    pipeline: &'static str,
    outcome: &'static str,
    attempts: Vec<Attempt>,
}

/// Carries one thing, over a connection for each attempt.
struct Carrier<'a> {
    pipeline: &'a Pipeline,
    text: &'a str,
    since: Time,
    attempts: Vec<Attempt>,
}

impl quell::run::Sender for Carrier<'_> {
    type Reply = Result<(), ()>;
    type Kept = Self::Reply;
    type Attempt = Ready<Self::Reply>;
    type Keeping = Ready<Result<Self::Kept, Self::Reply>>;

    fn send(&mut self, attempt: &Try) -> Self::Attempt {
        let target = &self.pipeline.endpoints[usize::from(attempt.endpoint)];
        let mut stream = TcpStream::connect((&*target.host, target.port)).unwrap();
        writeln!(stream, "{}", self.text).unwrap();
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).unwrap();
        ready(if answer == "taken\n" { Ok(()) } else { Err(()) })
    }

    fn classify(&mut self, reply: &Self::Reply) -> Outcome {
        match reply {
            Ok(()) => Outcome::Success,
            Err(()) => Outcome::Failed(Failure::of(Fault::Server)),
        }
    }

    fn is_repeatable(&self) -> bool {
        true
    }

    fn keep(&mut self, reply: Self::Reply, _: &Outcome, _: Time) -> Self::Keeping {
        ready(Ok(reply))
    }

    fn tried(&mut self, tried: &Tried, _: Option<&Self::Reply>) {
        let counters = &self.pipeline.counters[0];
        counters.attempt(tried.attempt, tried.hedge, Came::of(&tried.outcome));
        if let Next::Stop(Some(reason)) = tried.next {
            counters.deny(reason);
        }
        let endpoint = self.pipeline.endpoints[usize::from(tried.endpoint)].to_string();
        self.attempts.push(Attempt::of(tried, self.since, Some(endpoint), None));
    }
}

impl Chores for Post {
    fn log(&self) -> &Log {
        &self.log
    }

    fn source(&self) -> &Source {
        &self.source
    }

    fn watch(&self) -> Option<Duration> {
        Some(Duration::from_millis(10))
    }

    fn reload(&self) -> Result<Vec<String>, String> {
        let taken = self.source.again(&self.log, |path, set| self.take(path, set));
        taken.unwrap_or_else(|| Err("there is no file".to_owned()))
    }

    fn refused(&self, reason: Reason) -> u64 {
        self.undeliverable.refusals[reason as usize].get()
    }
}

impl Operations for Post {
    fn is_ready(&self) -> bool {
        self.life.is_serving()
    }

    fn drain(&self) {
        self.life.drain();
    }

    fn in_force(&self) -> Arc<dyn InForce> {
        self.rules.load_full()
    }

    fn unrouted(&self) -> Vec<&Counters> {
        vec![&self.undeliverable]
    }

    fn access(&self) -> Option<&Access> {
        Some(&self.access)
    }

    fn rows(&self) -> &'static [Row] {
        &[DELIVERED]
    }

    fn count(&self, page: &mut Page) {
        let mut family = page.family(DELIVERED);
        for pipeline in &self.rules.load().pipelines {
            family.sample(&[("pipeline", pipeline.name)], pipeline.delivered.get() as f64);
        }
    }
}

impl InForce for Rules {
    fn token(&self) -> Token<'_> {
        Token { setting: "post.token", secret: Some(&self.token) }
    }

    fn upstreams(&self) -> Vec<OfUpstream<'_>> {
        let all = self.upstreams.iter();
        all.map(|(name, upstream)| OfUpstream { upstream, spec: &self.file.upstreams[name].spec })
            .collect()
    }

    fn address(&self, upstream: &str, endpoint: usize) -> Option<String> {
        self.file.upstreams[upstream].endpoints.get(endpoint).map(ToString::to_string)
    }

    fn routes(&self) -> Vec<OfRoute<'_>> {
        let all = self.pipelines.iter().map(|pipeline| OfRoute {
            name: pipeline.name,
            upstream: &pipeline.upstream,
            policy: &pipeline.policy,
            role: Role::Edge,
            counters: &pipeline.counters,
        });
        all.collect()
    }

    fn settings(&self, route: usize) -> Value {
        json!({ "pipeline": self.pipelines[route].name })
    }

    fn state(&self) -> Map<String, Value> {
        Map::from_iter([("bags".to_owned(), json!(self.pipelines.len()))])
    }

    fn config(&self) -> String {
        self.file.effective()
    }
}

/// Something to be delivered.
struct Sent {
    pipeline: String,
    text: String,
}

/// A post office that runs.
pub(super) struct Running {
    post: Arc<Post>,
    pub(super) admin: SocketAddr,
    counter: Option<Sender<Sent>>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    /// By this file, with lines about what it delivers in another.
    pub(super) fn start(path: PathBuf, lines: &Path) -> Self {
        let log = Arc::new(Log::new(false));
        let rules = Rules::new(Config::load(&path, &[]).unwrap(), None, &log).unwrap();
        let access = Access::open(&AccessLog::File(lines.to_owned()), 0, None).unwrap().unwrap();
        let life = Life::begin();
        let (rules, source) = (ArcSwap::from_pointee(rules), Source::new(Some(path), Vec::new()));
        let undeliverable = Counters::default();
        let post = Arc::new(Post { rules, log, source, life, access, undeliverable });
        let (listener, admin) = crate::admin::listen(([127, 0, 0, 1], 0).into()).unwrap();
        let side =
            crate::admin::spawn(listener, Arc::clone(&post) as _, post.life.phases()).unwrap();
        let (counter, bag) = channel();
        let works = Arc::clone(&post);
        let worker = thread::spawn(move || work(&works, &bag));
        Self { post, admin, counter: Some(counter), threads: vec![worker, side] }
    }

    pub(super) fn send(&self, pipeline: &str, text: &str) {
        let sent = Sent { pipeline: pipeline.to_owned(), text: text.to_owned() };
        self.counter.as_ref().unwrap().send(sent).unwrap();
    }
}

fn work(post: &Post, bag: &Receiver<Sent>) {
    bag.iter().for_each(|sent| post.deliver(&sent));
}

impl Host for Running {
    fn reload(&self) {
        let _ = Chores::reload(&*self.post); // which tells what came of it
    }

    fn drains(&self) -> impl Future<Output = ()> {
        self.post.life.drains()
    }

    /// Delivers what is in the bag.
    fn drain(mut self) {
        self.post.life.drain();
        self.counter = None;
        self.threads.remove(0).join().unwrap();
        self.post.life.stop();
        self.threads.remove(0).join().unwrap();
    }
}
