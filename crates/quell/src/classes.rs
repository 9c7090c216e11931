//! Classes: the kinds of calls that an upstream gets, by name.
//!
//! **Why.** The core compares calls with calls of their own kind, and knows a kind by a number. People want to see names, and
//! strangers can ask for as many paths as they like: so names are kept here, and not more than so many.
//!
//! **How.** [`Upstream::class`] takes the key of a kind and gives the class to tell the [arrival](quell_core::Arrival::class):
//! the same, or 0 (`other`) where there are already 64. A known one costs a look at an array. When there is no room, those that
//! nobody has asked for in a minute make some. [`Upstream::classes`] shows what was learned of each.
//!
//! ```
//! use quell::{Clock, Quell, levers::route_key};
//!
//! let stock = Quell::upstream("stock").clock(Clock::manual()).build()?;
//! let count = route_key("count");
//! assert_eq!(stock.shared().class(count, || "count".into()), count);
//! for n in 0..100 {
//!     stock.shared().class(1_000 + n, || format!("scan {n}")); // a stranger tries doors
//! }
//! assert_eq!(stock.shared().class(7, || "late".into()), 0);
//! assert_eq!(stock.shared().class_name(count).as_deref(), Some("count"));
//! # Ok::<_, quell::Invalid>(())
//! ```

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    net::IpAddr,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use quell_core::{Time, classes::Snapshot};

use crate::{Upstream, http::quota::network, sync::Mutex};

/// Classes with a name of their own.
const MOST: usize = 64;
/// Places to look for them, twice as many so that a look is short. A power of two.
const PLACES: usize = 2 * MOST;
/// Who was not asked for in so long may have to make room.
const IDLE: Duration = Duration::from_secs(60);
/// The longest name, in bytes.
const LONGEST: usize = 200;
/// The name of all that has none.
const OTHER: &str = "other";

/// One kind of calls, and what was learned of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    /// Its name; `other` is what came without a kind, or when there was no room for more.
    pub name: String,
    /// How it looks now.
    pub state: Snapshot,
}

impl Upstream {
    /// The class of a call whose kind has this key: see the [module](self). Its name is asked for if it is new.
    #[inline]
    pub fn class(&self, key: u64, name: impl FnOnce() -> String) -> u64 {
        match self.names().is_known(key) {
            true => key,
            false => self.names().add(key, self.clock().now(), name),
        }
    }

    /// What a class is called.
    pub fn class_name(&self, class: u64) -> Option<String> {
        self.names().name(class)
    }

    /// What is known of each class, the busiest first.
    pub fn classes(&self) -> Vec<Class> {
        let states = self.with_core(|now, core, _| core.classes(now));
        let class = |state: Snapshot| {
            // One that gave its place to another has no name any more; it is shown only while it has calls under way.
            let name = self.class_name(state.key);
            let is_shown = name.is_some() || state.key == 0 || state.in_flight > 0;
            is_shown.then(|| Class { name: name.unwrap_or_else(|| OTHER.to_owned()), state })
        };
        let mut classes: Vec<_> = states.into_iter().filter_map(class).collect();
        classes.sort_by(|a, b| b.state.rate.total_cmp(&a.state.rate).then(a.name.cmp(&b.name)));
        classes
    }
}

/// What stands for a caller's name, or for a credential, where the core tells callers apart; never 0. Nobody can find out from
/// it what it stands for, nor make another name that has the same: it is another in every process.
///
/// ```
/// use quell::classes::caller_key;
///
/// assert_eq!(caller_key(b"shop"), caller_key(b"shop"));
/// assert_ne!(caller_key(b"shop"), caller_key(b"bank"));
/// ```
pub fn caller_key(name: &[u8]) -> u64 {
    static SECRET: OnceLock<RandomState> = OnceLock::new();
    SECRET.get_or_init(RandomState::new).hash_one(name).max(1)
}

/// The same for an address. An IPv6 network of 64 bits counts as one, as it usually belongs to one customer.
pub fn caller_at(ip: IpAddr) -> u64 {
    match network(ip) {
        IpAddr::V4(ip) => caller_key(&ip.octets()),
        IpAddr::V6(ip) => caller_key(&ip.octets()),
    }
}

/// The names of an upstream's classes.
pub(crate) struct Names {
    /// Where the keys are, each at its place or after it; 0 is none. Who misses one that is there looks into the book.
    places: [Place; PLACES],
    book: Mutex<Book>,
}

#[derive(Default)]
struct Place {
    key: AtomicU64,
    /// Whether it was asked for since the last sweep.
    used: AtomicBool,
}

#[derive(Default)]
struct Book {
    names: Vec<(u64, Box<str>)>,
    swept: Time,
}

impl Names {
    pub(crate) fn new() -> Self {
        Self {
            places: std::array::from_fn(|_| Place::default()),
            book: Mutex::new(Book::default()),
        }
    }

    #[inline]
    fn is_known(&self, key: u64) -> bool {
        let mut at = key as usize;
        loop {
            let place = &self.places[at % PLACES];
            match place.key.load(Relaxed) {
                0 => return key == 0,
                found if found == key => {
                    if !place.used.load(Relaxed) {
                        place.used.store(true, Relaxed);
                    }
                    return true;
                }
                _ => at = at.wrapping_add(1),
            }
        }
    }

    #[cold]
    fn add(&self, key: u64, now: Time, name: impl FnOnce() -> String) -> u64 {
        let mut book = self.book.lock();
        if self.is_known(key) {
            return key; // another was faster
        }
        if book.names.len() == MOST && now.since(book.swept) >= IDLE {
            book.swept = now;
            self.sweep(&mut book);
        }
        if book.names.len() == MOST {
            return 0;
        }
        let mut name = name();
        let end = (0..=LONGEST.min(name.len())).rev().find(|&at| name.is_char_boundary(at));
        name.truncate(end.unwrap_or(0));
        book.names.push((key, name.into()));
        self.place(key, true);
        key
    }

    fn name(&self, key: u64) -> Option<String> {
        let book = self.book.lock();
        book.names.iter().find(|(known, _)| *known == key).map(|(_, name)| name.to_string())
    }

    /// Forgets whoever was not asked for since the last time.
    fn sweep(&self, book: &mut Book) {
        let used = |place: &&Place| place.used.swap(false, Relaxed);
        let used: Vec<_> = self.places.iter().filter(used).map(|p| p.key.load(Relaxed)).collect();
        book.names.retain(|(key, _)| used.contains(key));
        self.places.iter().for_each(|place| place.key.store(0, Relaxed));
        book.names.iter().for_each(|(key, _)| self.place(*key, false));
    }

    fn place(&self, key: u64, used: bool) {
        let mut at = key as usize;
        while self.places[at % PLACES].key.load(Relaxed) != 0 {
            at = at.wrapping_add(1);
        }
        let place = &self.places[at % PLACES];
        place.used.store(used, Relaxed);
        place.key.store(key, Relaxed);
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.book.lock().names.iter().map(|(_, name)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    fn add(names: &Names, key: u64, now: Time) -> u64 {
        if names.is_known(key) { key } else { names.add(key, now, || format!("n{key}")) }
    }

    #[test]
    fn a_sweep_keeps_whoever_is_asked_for_and_lets_newcomers_in() {
        let names = Names::new();
        for key in 1..=64 {
            assert_eq!(add(&names, key * PLACES as u64, at(0)), key * PLACES as u64); // all at one place
        }
        assert_eq!(add(&names, 7, at(59)), 0);
        assert_eq!(add(&names, 7, at(60)), 0, "all were used since the start");
        let kept = 5 * PLACES as u64;
        assert_eq!(add(&names, kept, at(100)), kept);
        assert_eq!(add(&names, 7, at(119)), 0);
        assert_eq!(add(&names, 7, at(120)), 7);
        assert_eq!((names.name(7).as_deref(), names.name(kept).is_some()), (Some("n7"), true));
        assert_eq!(names.name(6 * PLACES as u64), None);
        assert!(names.is_known(kept) && !names.is_known(6 * PLACES as u64));
    }

    #[test]
    fn what_has_no_kind_is_other_and_takes_no_place() {
        let names = Names::new();
        assert_eq!(add(&names, 0, at(0)), 0);
        assert_eq!(names.name(0), None);
    }

    #[test]
    fn a_network_of_ipv6_is_one_caller() {
        let at = |ip: &str| caller_at(ip.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::2"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let names = Names::new();
        names.add(3, at(0), || "é".repeat(150));
        assert_eq!(names.name(3).unwrap().chars().count(), 100);
    }
}
