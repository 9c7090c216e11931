//! Registry: which kinds of calls have a class of their own.

use core::time::Duration;

use super::{Class, Snapshot};
use crate::Time;

/// Classes, the shared one included.
const MOST: usize = 64;
/// Places to look in, four for each class.
const PLACES: usize = 256;

/// How often to look for one that gives its place to another.
const LOOKS_EVERY: Duration = Duration::from_millis(50);

/// All classes of an upstream; the first is the one that is shared.
#[derive(Debug)]
pub(crate) struct Classes {
    all: Vec<Class>,
    /// Where each key's class is; 0 for nowhere.
    index: Box<[u8; PLACES]>,
    /// Until then nobody looks again for a class that gives its place to another.
    full_until: Time,
}

impl Classes {
    pub(crate) fn new(now: Time) -> Self {
        Self { all: vec![Class::new(0, now)], index: Box::new([0; PLACES]), full_until: now }
    }

    /// The class of this key, which counts from now on.
    #[inline]
    pub(crate) fn enter(&mut self, key: u64, now: Time) -> u16 {
        if key == 0 {
            return 0;
        }
        match self.find(key) {
            0 => self.admit(key, now),
            class => class,
        }
    }

    /// The class of this key; the shared one if it has none.
    #[inline]
    pub(crate) fn find(&self, key: u64) -> u16 {
        let mut place = start(key);
        loop {
            let at = self.index[place];
            if at == 0 || self.all[usize::from(at)].key == key {
                return at.into();
            }
            place = (place + 1) % PLACES;
        }
    }

    #[cold]
    fn admit(&mut self, key: u64, now: Time) -> u16 {
        if self.all.len() < MOST {
            self.all.push(Class::new(key, now));
            let class = self.all.len() - 1;
            self.note(class);
            return class as u16;
        }
        if now < self.full_until {
            return 0;
        }
        let Some(idle) = self.all.iter().skip(1).position(|class| class.is_idle(now)) else {
            self.full_until = now + LOOKS_EVERY;
            return 0;
        };
        self.all[idle + 1] = Class::new(key, now);
        *self.index = [0; PLACES];
        (1..self.all.len()).for_each(|class| self.note(class));
        (idle + 1) as u16
    }

    fn note(&mut self, class: usize) {
        let mut place = start(self.all[class].key);
        while self.index[place] != 0 {
            place = (place + 1) % PLACES;
        }
        self.index[place] = class as u8;
    }

    #[inline]
    pub(crate) fn at(&mut self, class: u16) -> &mut Class {
        &mut self.all[usize::from(class)]
    }

    #[inline]
    pub(crate) fn get(&self, class: u16) -> &Class {
        &self.all[usize::from(class)]
    }

    /// Those of which anything is under way, expected or was just answered.
    pub(crate) fn awake(&mut self) -> impl Iterator<Item = &mut Class> {
        self.all.iter_mut().filter(|class| class.is_awake())
    }

    /// How many attempts went out since the last look.
    pub(crate) fn sent(&self) -> f64 {
        self.all.iter().map(|class| class.sent_since() as f64).sum()
    }

    /// How many answers came since the last look, and how long they took together.
    pub(crate) fn answered(&self) -> (u32, u64) {
        let of = |class: &Class| (class.answers, class.took);
        let add =
            |(n, all): (u32, u64), (more, took): (u32, u64)| (n + more, all.wrapping_add(took));
        self.all.iter().map(of).fold((0, 0), add)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Class> {
        self.all.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Class> {
        self.all.iter_mut()
    }

    /// Whether most kinds of calls that were made of late fail, so that it is the service that fails and not a kind.
    pub(crate) fn most_fail(&self, now: Time) -> bool {
        let tried = self.all.iter().filter(|class| class.is_tried(now));
        let (all, failing) = tried.fold((0, 0), |(all, failing), class| {
            (all + 1, failing + usize::from(class.is_failing()))
        });
        all <= 1 || 2 * failing > all
    }

    /// Whether there is but one.
    pub(crate) fn is_one(&self) -> bool {
        self.all.len() == 1
    }

    /// When the last call was sent that was answered in time: of all classes, whose that was, and of all the others.
    pub(crate) fn newest(&self) -> (Time, u64, Time) {
        let first = (Time::ZERO, 0, Time::ZERO);
        self.all.iter().fold(first, |(newest, key, second), class| match class.newest {
            this if this > newest => (this, class.key, newest),
            this => (newest, key, second.max(this)),
        })
    }

    /// Whether this is the one in which all meet that have none of their own. What one of them does says nothing of the others.
    pub(crate) fn is_mixed(&self, class: u16) -> bool {
        class == 0 && self.all.len() == MOST
    }

    /// Whether any class is held apart.
    pub(crate) fn any_in_trouble(&self) -> bool {
        self.all.iter().any(|class| class.in_trouble)
    }

    /// How each kind looks that was ever seen.
    pub(crate) fn snapshots(&mut self, now: Time) -> Vec<Snapshot> {
        let seen = |class: &Class| {
            let heard = class.answered_at > class.born || class.failed_at > Time::ZERO;
            class.live() > 0 || class.is_known() || heard
        };
        self.all.iter_mut().filter(|class| seen(class)).map(|class| class.snapshot(now)).collect()
    }
}

fn start(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}
