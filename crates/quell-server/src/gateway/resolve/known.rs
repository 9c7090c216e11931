//! Which addresses an endpoint has, which to try first, and when to look again. Knows no clock and no network.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::Instant;

/// Addresses kept of one name.
const MOST: usize = 32;
/// No name is looked up more often, whatever happens.
const AT_MOST: Duration = Duration::from_secs(1);
/// How long an address that could not be reached is tried last.
const AVOIDED: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Address {
    addr: SocketAddr,
    failed_at: Option<Instant>,
}

impl Address {
    fn is_avoided(&self, now: Instant) -> bool {
        self.failed_at.is_some_and(|at| now.saturating_duration_since(at) < AVOIDED)
    }
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Known {
    /// IPv6 and IPv4 in turn.
    all: Vec<Address>,
    next: usize,
    /// `None` for an address that was written as such.
    every: Option<Duration>,
    looked_at: Option<Instant>,
    /// A connect has failed since.
    doubted: bool,
    /// Why the last lookup found nothing.
    error: Option<(io::ErrorKind, String)>,
}

impl Known {
    /// An address that was written as such.
    pub(super) fn fixed(addr: SocketAddr) -> Self {
        let all = vec![Address { addr, failed_at: None }];
        Self { all, next: 0, every: None, looked_at: None, doubted: false, error: None }
    }

    /// A name that was not looked up yet.
    pub(super) fn name(every: Duration) -> Self {
        let every = Some(every);
        Self { all: Vec::new(), next: 0, every, looked_at: None, doubted: false, error: None }
    }

    /// Another interval; an address that was written as such has none.
    pub(super) fn set_every(&mut self, every: Duration) {
        self.every = self.every.map(|_| every);
    }

    /// Whether to look the name up now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        match (self.every, self.looked_at) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(every), Some(at)) => {
                let hurry = self.doubted || self.error.is_some();
                now.saturating_duration_since(at)
                    >= if hurry { AT_MOST } else { every.max(AT_MOST) }
            }
        }
    }

    /// What a lookup found. Nothing or an error changes nothing: the last good addresses stay.
    pub(super) fn learn(&mut self, now: Instant, found: io::Result<Vec<SocketAddr>>) {
        self.looked_at = Some(now);
        self.doubted = false;
        match found {
            Err(error) => self.error = Some((error.kind(), error.to_string())),
            Ok(found) if found.is_empty() => {
                self.error = Some((io::ErrorKind::NotFound, "it has no address".into()));
            }
            Ok(found) => {
                self.error = None;
                let failed_at = |addr: &SocketAddr| {
                    self.all.iter().find(|known| known.addr == *addr)?.failed_at
                };
                self.all = in_turn(found)
                    .into_iter()
                    .map(|addr| Address { addr, failed_at: failed_at(&addr) })
                    .collect();
            }
        }
    }

    /// All addresses in the order to try them, each time from another on; those that could not be reached lately
    /// come last. `None` if none is known.
    pub(super) fn order(&mut self, now: Instant) -> Option<Vec<SocketAddr>> {
        if self.all.is_empty() {
            return None;
        }
        self.next = (self.next + 1) % self.all.len();
        let (before, from) = self.all.split_at(self.next);
        let (avoided, good): (Vec<_>, Vec<_>) =
            from.iter().chain(before).partition(|address| address.is_avoided(now));
        Some(good.into_iter().chain(avoided).map(|address| address.addr).collect())
    }

    /// Why no address is known.
    pub(super) fn why(&self, host: &str) -> io::Error {
        let (kind, why) = match &self.error {
            Some((kind, why)) => (*kind, why.as_str()),
            None => (io::ErrorKind::NotFound, "it was not looked up yet"),
        };
        io::Error::new(kind, format!("{host} cannot be looked up: {why}"))
    }

    /// An address could be reached.
    pub(super) fn reached(&mut self, addr: SocketAddr) {
        self.note(addr, None);
    }

    /// An address could not be reached: perhaps the name has moved.
    pub(super) fn failed(&mut self, addr: SocketAddr, now: Instant) {
        self.doubted = true;
        self.note(addr, Some(now));
    }

    fn note(&mut self, addr: SocketAddr, failed_at: Option<Instant>) {
        if let Some(known) = self.all.iter_mut().find(|known| known.addr == addr) {
            known.failed_at = failed_at;
        }
    }
}

/// IPv6 and IPv4 in turn, so that a machine with only one of them soon gets to it; no more than can be kept.
fn in_turn(found: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let (six, four): (Vec<_>, Vec<_>) = found.into_iter().partition(SocketAddr::is_ipv6);
    let (mut six, mut four) = (six.into_iter(), four.into_iter());
    let mut all = Vec::new();
    while all.len() < MOST {
        let before = all.len();
        all.extend(six.next());
        all.extend(four.next());
        if all.len() == before {
            break;
        }
    }
    all.truncate(MOST);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(30);

    fn addrs(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn known(found: &[&str], now: Instant) -> Known {
        let mut known = Known::name(EVERY);
        known.learn(now, Ok(addrs(found)));
        known
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_name_is_looked_up_at_once_then_at_its_interval() {
        let now = Instant::now();
        let mut known = Known::name(EVERY);
        assert!(known.is_due(now));
        assert_eq!(known.order(now), None);
        known.learn(now, Ok(addrs(&["10.0.0.1:80"])));
        assert!(!known.is_due(now + seconds(29)));
        assert!(known.is_due(now + seconds(30)));
        known.set_every(Duration::ZERO);
        assert!(!known.is_due(now + Duration::from_millis(999)));
        assert!(known.is_due(now + seconds(1)));
        assert_eq!(known.order(now), Some(addrs(&["10.0.0.1:80"])));
    }

    #[test]
    fn a_failed_connect_or_lookup_is_followed_by_a_lookup_at_most_once_a_second() {
        let now = Instant::now();
        let mut known = known(&["10.0.0.1:80"], now);
        known.failed("10.0.0.1:80".parse().unwrap(), now + seconds(5));
        assert!(known.is_due(now + seconds(5)));
        known.learn(now + seconds(5), Err(io::ErrorKind::TimedOut.into()));
        assert!(!known.is_due(now + Duration::from_millis(5_999)));
        assert!(known.is_due(now + seconds(6)));
        known.learn(now + seconds(6), Ok(addrs(&["10.0.0.1:80"])));
        assert!(!known.is_due(now + seconds(35)));
        assert!(known.is_due(now + seconds(36)));
    }

    #[test]
    fn the_last_good_addresses_outlive_failed_and_empty_lookups() {
        let now = Instant::now();
        let mut known = known(&["10.0.0.1:80"], now);
        for found in [Err(io::ErrorKind::TimedOut.into()), Ok(Vec::new())] {
            known.learn(now, found);
            assert_eq!(known.order(now), Some(addrs(&["10.0.0.1:80"])));
        }
        known.learn(now, Ok(addrs(&["10.0.0.2:80"])));
        assert_eq!(known.order(now), Some(addrs(&["10.0.0.2:80"])));
    }

    #[test]
    fn addresses_take_turns_and_both_families_do() {
        let now = Instant::now();
        let found = ["10.0.0.1:80", "10.0.0.2:80", "[fd00::1]:80"];
        let mut known = known(&found, now);
        let rounds: Vec<_> = (0..3).map(|_| known.order(now).unwrap()).collect();
        assert!(rounds.contains(&addrs(&["[fd00::1]:80", "10.0.0.1:80", "10.0.0.2:80"])));
        let mut firsts: Vec<_> = rounds.iter().map(|order| order[0].to_string()).collect();
        firsts.sort();
        assert_eq!(firsts, found);
    }

    #[test]
    fn an_address_that_could_not_be_reached_is_tried_last_for_ten_seconds_or_until_it_can() {
        let now = Instant::now();
        let mut known = known(&["10.0.0.1:80", "10.0.0.2:80"], now);
        let bad = "10.0.0.1:80".parse().unwrap();
        known.failed(bad, now);
        known.learn(now, Ok(addrs(&["10.0.0.1:80", "10.0.0.2:80"])));
        let mut firsts = |now| (0..2).filter(|_| known.order(now).unwrap()[0] == bad).count();
        assert_eq!(firsts(now + Duration::from_millis(9_999)), 0);
        assert_eq!(firsts(now + seconds(10)), 1);
        known.failed(bad, now);
        known.reached(bad);
        assert_eq!((0..2).filter(|_| known.order(now).unwrap()[0] == bad).count(), 1);
    }

    #[test]
    fn an_address_written_as_such_is_never_looked_up() {
        let now = Instant::now();
        let mut known = Known::fixed("[::1]:80".parse().unwrap());
        known.failed("[::1]:80".parse().unwrap(), now);
        known.set_every(seconds(1));
        assert!(!known.is_due(now + seconds(86_400)));
        assert_eq!(known.order(now), Some(addrs(&["[::1]:80"])));
    }

    #[test]
    fn a_name_with_thousands_of_addresses_is_bounded_and_keeps_both_families() {
        let now = Instant::now();
        let four = (1..5_000).map(|port| SocketAddr::from(([10, 0, 0, 1], port)));
        let six = ["[fd00::1]:80".parse().unwrap()];
        let mut known = Known::name(EVERY);
        known.learn(now, Ok(four.chain(six).collect()));
        let order = known.order(now).unwrap();
        assert_eq!(order.len(), MOST);
        assert!(order.contains(&six[0]));
    }
}
