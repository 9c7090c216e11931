//! Levers as people name them: by upstream or route, for a while, with a name and a reason.
//!
//! What is in force is known to the upstreams alone; here is only who asked for it and why, under a number by which it can
//! be undone. A lever ends after an hour unless it is said for how long, or `forever`.

use std::time::Duration;

use http::StatusCode;
use parking_lot::Mutex;
use quell::Upstream;
use quell::core::Lever;
use quell::levers::route_key;
use serde::Serialize;

use super::audit::Audit;
use super::door::Refused;
use super::operations::InForce;
use super::view::{lever_word, spoken};
use super::wanted::Wanted;

/// How long a lever stays pulled if nobody says so.
const USUAL: Duration = Duration::from_secs(3_600);
/// The longest that can be asked for; beyond it people mean `forever`.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);

/// A lever that is pulled, and who did it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Held {
    id: u64,
    upstream: String,
    route: Option<String>,
    #[serde(rename = "lever")]
    word: &'static str,
    value: Option<u32>,
    left_seconds: Option<f64>,
    by: String,
    why: String,
    #[serde(skip)]
    lever: Lever,
}

/// What came of it.
#[derive(Debug, Serialize)]
pub(super) struct Done {
    /// What was done, for people.
    done: String,
    /// By which it can be undone, if it can.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Levers {
    pub(super) audit: Audit,
    held: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    last: u64,
    held: Vec<Held>,
}

/// What people ask for comes to one of these.
enum Deed {
    Pull(Lever),
    Drop,
    ResetBudget,
}

impl Levers {
    /// Does what somebody asks for, and writes it down.
    pub(super) fn pull(&self, in_force: &dyn InForce, wanted: &Wanted) -> Result<Done, Refused> {
        let deed = deed(wanted)?;
        let length = length(wanted.length.as_deref())?;
        let (upstream, route) = target(in_force, wanted)?;
        let key = route.map(route_key);
        let whose = match route {
            Some(route) => format!("route {route} of upstream {}", upstream.name()),
            None => format!("upstream {}", upstream.name()),
        };
        let [by, why] = [&wanted.by, &wanted.why].map(|text| text.as_deref().unwrap_or_default());
        let (done, id) = match deed {
            Deed::Drop => {
                let dropped = upstream.drop_waiting(key);
                (format!("{whose}: dropped {dropped} who waited, and the retries that sleep"), None)
            }
            Deed::ResetBudget if route.is_some() => {
                return Err(wrong("the budget belongs to the upstream: name the upstream"));
            }
            Deed::ResetBudget => {
                upstream.reset_budget();
                (format!("{whose}: filled the retry budget"), None)
            }
            Deed::Pull(lever) => {
                upstream.pull(lever, key, length).map_err(|stuck| wrong(&stuck.to_string()))?;
                let (word, value) = lever_word(lever);
                let number = value.map_or_else(String::new, |value| format!(" {value}"));
                let held = Held {
                    id: 0,
                    upstream: upstream.name().to_owned(),
                    route: route.map(str::to_owned),
                    word,
                    value,
                    left_seconds: None,
                    by: by.to_owned(),
                    why: why.to_owned(),
                    lever,
                };
                let id = self.hold(held);
                (format!("{whose}: {word}{number} {}", spoken(length)), Some(id))
            }
        };
        self.audit.note(done.clone(), by, why);
        Ok(Done { done, id })
    }

    /// Lets go of the lever with this number.
    pub(super) fn undo(
        &self,
        in_force: &dyn InForce,
        id: u64,
        by: &str,
        why: &str,
    ) -> Result<Done, Refused> {
        let nothing = || {
            let text = format!(
                "there is no lever {id} that is pulled: GET /levers shows those there are\n"
            );
            (StatusCode::NOT_FOUND, text)
        };
        let shown = self.show(in_force);
        let held = shown.into_iter().find(|held| held.id == id).ok_or_else(nothing)?;
        let upstream = named(in_force, &held.upstream).ok_or_else(nothing)?;
        upstream.undo(held.lever, held.route.as_deref().map(route_key));
        self.held.lock().held.retain(|held| held.id != id);
        let done = format!("{}: undone {} ({id})", held.whose(), held.word);
        self.audit.note(done.clone(), by, why);
        Ok(Done { done, id: None })
    }

    /// Those that are pulled. Those that have ended since somebody last looked are written down as such.
    pub(super) fn show(&self, in_force: &dyn InForce) -> Vec<Held> {
        let mut book = self.held.lock();
        let (mut pulled, mut ended) = (Vec::new(), Vec::new());
        for mut held in book.held.drain(..) {
            let pulled_now = named(in_force, &held.upstream).map(Upstream::levers);
            let key = held.route.as_deref().map(route_key);
            let own = pulled_now
                .unwrap_or_default()
                .into_iter()
                .find(|own| own.lever == held.lever && own.route == key);
            match own {
                None => ended.push(held),
                Some(own) => {
                    held.left_seconds = own.left.map(|left| left.as_secs_f64());
                    pulled.push(held);
                }
            }
        }
        book.held.clone_from(&pulled);
        drop(book);
        for held in ended {
            self.audit.note(
                format!("{}: {} has ended", held.whose(), held.word),
                "quell",
                "its time is over",
            );
        }
        pulled
    }

    fn hold(&self, held: Held) -> u64 {
        let mut book = self.held.lock();
        book.last += 1;
        let id = book.last;
        let same = |own: &Held| {
            own.upstream == held.upstream
                && own.route == held.route
                && own.lever.replaces(held.lever)
        };
        book.held.retain(|own| !same(own));
        book.held.push(Held { id, ..held });
        id
    }
}

impl Held {
    fn whose(&self) -> String {
        match &self.route {
            Some(route) => format!("route {route} of upstream {}", self.upstream),
            None => format!("upstream {}", self.upstream),
        }
    }
}

fn wrong(text: &str) -> Refused {
    (StatusCode::BAD_REQUEST, format!("{text}\n"))
}

fn deed(wanted: &Wanted) -> Result<Deed, Refused> {
    let number = |what: &str| match wanted.value {
        Some(value @ 1..) => Ok(value),
        _ => Err(wrong(&format!("{what} needs a value of at least 1"))),
    };
    let deed = match &*wanted.lever {
        "attempts" => return Ok(Deed::Pull(Lever::Attempts(number("attempts")?))),
        "limit" => return Ok(Deed::Pull(Lever::Limit(number("limit")?))),
        "retries-off" => Deed::Pull(Lever::RetriesOff),
        "open" => Deed::Pull(Lever::BreakerOpen),
        "close" => Deed::Pull(Lever::BreakerClosed),
        "drop" => Deed::Drop,
        "reset-budget" => Deed::ResetBudget,
        other => {
            let other = other.chars().take(40).collect::<String>();
            return Err(wrong(&format!(
                "lever is {other:?}: write retries-off, attempts, limit, open, close, drop or reset-budget"
            )));
        }
    };
    match wanted.value {
        None => Ok(deed),
        Some(_) => Err(wrong(&format!("{} takes no value", wanted.lever))),
    }
}

fn length(written: Option<&str>) -> Result<Option<Duration>, Refused> {
    match written {
        None => Ok(Some(USUAL)),
        Some("forever") => Ok(None),
        Some(text) => match humantime::parse_duration(text) {
            Ok(length) if !length.is_zero() && length <= LONGEST => Ok(Some(length)),
            _ => Err(wrong("for: write a time such as \"10m\", at most 366 days, or \"forever\"")),
        },
    }
}

/// The upstream of this name.
fn named<'a>(in_force: &'a dyn InForce, name: &str) -> Option<&'a Upstream> {
    let upstreams = in_force.upstreams().into_iter();
    upstreams.map(|each| each.upstream).find(|upstream| upstream.name() == name)
}

/// The upstream that is meant, and the route if it is one.
fn target<'a>(
    in_force: &'a dyn InForce,
    wanted: &Wanted,
) -> Result<(&'a Upstream, Option<&'a str>), Refused> {
    let (upstreams, routes) = (in_force.upstreams(), in_force.routes());
    let names = || upstreams.iter().map(|each| each.upstream.name()).collect::<Vec<_>>().join(", ");
    match (&wanted.upstream, &wanted.route) {
        (Some(_), Some(_)) => Err(wrong("name an upstream or a route, not both")),
        (Some(name), None) => match named(in_force, name) {
            Some(upstream) => Ok((upstream, None)),
            None => Err(wrong(&format!("there is no such upstream; there are: {}", names()))),
        },
        (None, Some(name)) => match routes.iter().find(|route| route.name == name) {
            Some(route) => Ok((route.upstream, Some(route.name))),
            None => {
                let names: Vec<_> = routes.iter().map(|route| route.name).collect();
                Err(wrong(&format!("there is no such route; there are: {}", names.join(", "))))
            }
        },
        (None, None) => match &*upstreams {
            [only] => Ok((only.upstream, None)),
            _ => Err(wrong(&format!("name one of the upstreams: {}", names()))),
        },
    }
}
