//! `quell explain`: whether one request would be sent again, why or why not, and how long it waits.
//!
//! **Why.** "Why was this not retried?" is asked at night, and the answer follows from the file: the status, the method, a
//! hint, the attempt, the time left, the budget. People who have to work it out in their heads get it wrong.
//!
//! **How.** Nothing is worked out here. The core's own call is played a thousand times with the file's policy against an upstream
//! that nobody has called yet, every attempt ending as asked; what is shown is what it decided. A script of successes and
//! failures is played against the core's own budget in the same way.

mod case;
mod report;
mod sequence;
mod show;
mod which;
mod why;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use crate::config::{Config, Override, Policy, value};
use anyhow::Context;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header::RETRY_AFTER};
use quell::core::{self, Failure, Fault, Outcome};
use quell::http::{IDEMPOTENCY_KEY, LONGEST_KEPT, Statuses, UnsafeMethods};

use self::case::{Case, Ends};
use self::report::{Deadline, Fleet, Report};
use self::sequence::Script;
use self::which::Which;
use self::why::About;
use crate::check;
use crate::gateway::plan::Terms;
use crate::{sim::file, terminal};

/// Says whether a request would be sent again, why or why not, and how long it would wait.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The config file
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    #[command(flatten)]
    which: Which,
    /// Its method
    #[arg(long, default_value = "GET")]
    method: Method,
    /// The status that every attempt ends with
    #[arg(long, value_name = "STATUS", required_unless_present = "fault")]
    status: Option<StatusCode>,
    /// How every attempt ends, if not with a status
    #[arg(long, value_enum, conflicts_with = "status")]
    fault: Option<Ended>,
    /// Which attempt is asked about
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    attempt: u32,
    /// The Retry-After of the replies: seconds or a date
    #[arg(long, value_name = "VALUE", requires = "status")]
    retry_after: Option<HeaderValue>,
    /// The request carries an Idempotency-Key
    #[arg(long)]
    key: bool,
    /// The length of its body, such as 100KiB
    #[arg(long, value_name = "SIZE", value_parser = size)]
    body_bytes: Option<u64>,
    /// How long an attempt takes to end, such as 200ms
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = time)]
    took: Duration,
    /// How long the caller says it waits, such as 2s
    #[arg(long, value_name = "TIME", value_parser = time)]
    deadline: Option<Duration>,
    /// Also print the budget over a sequence, such as "ok*100 fail*20 idle*5s"; a failure asks for one retry
    #[arg(long, value_name = "SCRIPT")]
    sequence: Option<Script>,
    /// The time between two events of the sequence
    #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = time)]
    every: Duration,
    /// Processes that use this file; as the budget says if not given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    instances: Option<u32>,
    /// A setting that goes over file and environment; may be given more than once
    #[arg(long, value_name = "KEY=VALUE", value_parser = check::set)]
    set: Vec<Override>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// How an attempt ends that gets no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Ended {
    /// There is no connection: nothing was sent
    Connect,
    /// There is no reply in time
    Timeout,
    /// The connection breaks after the request was sent
    Reset,
}

fn time(text: &str) -> Result<Duration, String> {
    value::duration(text).ok_or_else(|| "write a time with its unit, such as 200ms".to_owned())
}

fn size(text: &str) -> Result<u64, String> {
    let size = text.parse().ok().or_else(|| value::size(text));
    size.ok_or_else(|| "write bytes, or a size with its unit, such as 100KiB".to_owned())
}

/// Runs the command.
pub fn main(args: &Args) -> anyhow::Result<ExitCode> {
    let config = match file::load(&args.config, &args.set) {
        Ok((config, _)) => config,
        Err(error) => return check::wrong(&error, args.json),
    };
    let report = args.report(&config)?;
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print!("{}", show::text(&report, terminal::ink()));
    }
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn report(&self, config: &Config) -> anyhow::Result<Report> {
        let headers = self.headers();
        let Terms { route, policy, spec } = self.which.find(config, &self.method, &headers)?;
        let upstream =
            config.upstreams.get(&route.upstream).context("the route's upstream is gone")?;
        let named = route.policy.as_ref().unwrap_or(&route.upstream);
        let named = check::called(config, named, upstream);
        let (ends, hint, happened) = self.ends(&policy);
        let case = Case {
            policy: &spec,
            upstream: upstream.spec,
            ends,
            repeatable: UnsafeMethods::from(policy.unsafe_methods).repeats(&self.method, &headers),
            replayable: self.body_bytes.is_none_or(|bytes| bytes <= LONGEST_KEPT as u64),
            deadline: self.deadline,
            took: self.took,
        };
        let about = About {
            method: self.method.as_str(),
            happened: &happened,
            policy: &policy,
            named: &named,
            budget: upstream.spec.budget.to_string(),
            hint,
            deadline: self.deadline,
        };
        let after = report::after(&report::runs(&case)?);
        let asked = after.iter().find(|after| after.attempt == self.attempt);
        let reason = asked.and_then(report::After::reason);
        let why = match (asked, reason) {
            (Some(asked), _) if asked.retried >= 1.0 => about.again(self.attempt),
            (Some(_), Some(reason)) => about.not(reason),
            (Some(_), None) => "it succeeded".to_owned(),
            (None, _) => match after.last().and_then(report::After::reason) {
                Some(reason) => {
                    format!("attempt {} is the last: {}", after.len(), about.not(reason))
                }
                None => "the first attempt succeeded".to_owned(),
            },
        };
        let budget = upstream.spec.budget;
        let course = self.sequence.as_ref().map(|script| script.play(budget, self.every, 1));
        Ok(Report {
            file: self.config.display().to_string(),
            route: route.name,
            upstream: route.upstream,
            policy: named,
            request: self.which.request(&self.method, self.key, self.body_bytes),
            happened,
            attempt: self.attempt,
            retried: asked.map(|after| after.retried),
            reason: reason.map(core::Reason::as_str),
            why,
            after,
            deadline: Deadline::new(&case)?,
            fleet: Fleet::new(&upstream.budget, budget, self.instances),
            sequence: course.transpose()?,
        })
    }

    /// Those of the request.
    fn headers(&self) -> HeaderMap {
        let mut headers = self.which.headers();
        if self.key {
            headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static("explained"));
        }
        headers
    }

    /// How an attempt ends, the hint it brings, and both in words.
    fn ends(&self, policy: &Policy) -> (Ends, Option<Duration>, String) {
        let Some(status) = self.status else {
            return match self.fault {
                Some(Ended::Timeout) => (Ends::Late, None, "a timeout".to_owned()),
                Some(Ended::Reset) => {
                    let broken = Outcome::Failed(Failure::of(Fault::Server));
                    (Ends::So(broken), None, "a broken connection".to_owned())
                }
                Some(Ended::Connect) | None => {
                    (Ends::Unsent, None, "a failure to connect".to_owned())
                }
            };
        };
        let mut reply = HeaderMap::new();
        let mut words = status.as_u16().to_string();
        if let Some(value) = &self.retry_after {
            reply.insert(RETRY_AFTER, value.clone());
            words += &format!(" with Retry-After {}", value.to_str().unwrap_or("that is no text"));
        }
        let unix_now = quell::Clock::system().unix_now();
        let outcome = Statuses::from(policy).classify(status, &reply, unix_now);
        (Ends::So(outcome), outcome.hint(), words)
    }
}

#[cfg(test)]
mod tests;
