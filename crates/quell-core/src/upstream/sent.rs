//! Sent: an attempt that every gate let through gets its endpoint, its passes and its permit.

use super::*;

impl Upstream {
    /// The breaker alone decides while it is not closed; its probe takes a ghost's place.
    #[cold]
    pub(super) fn admit_probe(&mut self, now: Time, ask: &Ask, seat: Seat) -> Admission {
        let endpoint = self.endpoints.choose(now, ask.tried, &mut self.rng);
        self.endpoints.displace(endpoint, ask.pool);
        let class = self.classes.enter(ask.class, now);
        Admission::Go(self.send_to(now, ask, endpoint, seat, class))
    }

    #[inline]
    pub(super) fn send(&mut self, now: Time, ask: &Ask, place: Place, seat: Seat) -> Permit {
        let endpoint = match place {
            Place::Free => self.endpoints.choose(now, ask.tried, &mut self.rng),
            Place::Ghost(endpoint) => {
                self.events.push(Event::GhostProbe { endpoint });
                self.endpoints.probe(endpoint, ask.pool, now);
                endpoint
            }
        };
        let class = self.classes.enter(ask.class, now);
        self.send_to(now, ask, endpoint, seat, class)
    }

    #[inline(never)]
    pub(super) fn send_to(
        &mut self,
        now: Time,
        ask: &Ask,
        endpoint: u16,
        seat: Seat,
        index: u16,
    ) -> Permit {
        let pass = match seat {
            Seat::NOWHERE => self.breaker.take(now),
            _ => self.take_key(now, seat),
        };
        let class = self.classes.at(index);
        class.sent_at = now;
        let own = class.breaker.as_mut().map_or(Stub::NONE, |breaker| breaker.take(now).stub());
        let number = if ask.uploads {
            self.endpoints.number()
        } else {
            class.sends(now);
            self.endpoints.sent(endpoint)
        };
        let permit = self.permit(now, ask, index, (endpoint, number), pass);
        Permit { seat, own, ..permit }
    }

    #[inline(always)]
    pub(super) fn permit(
        &mut self,
        now: Time,
        ask: &Ask,
        class: u16,
        (endpoint, number): (u16, u64),
        pass: Pass,
    ) -> Permit {
        let caller = Callers::group(ask.caller);
        self.callers.take(caller, now);
        Permit {
            since: ask.since,
            number,
            endpoint,
            pool: Pool::NONE, // until it has a slot there
            pass,
            seat: Seat::NOWHERE,
            cost: ask.cost.into(),
            class,
            caller,
            uploads: ask.uploads.into(),
            own: Stub::NONE,
            credential: ask.credential,
        }
    }
}
