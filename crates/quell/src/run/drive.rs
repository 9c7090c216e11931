//! Drive: the loop as a future with a name, so that a service can say what its calls are made of.

mod late;
mod news;

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use pin_project_lite::pin_project;
use quell_core::{Answer, Arrival, Failure, Finish, Input, Outcome, Reason, Send, Step, Time};

use super::{Done, End, Failed, Given, Sender, Try, Waits};
use crate::{
    clock::Timer,
    observe::Next,
    upstream::{Guard, Terms, Upstream},
};

pin_project! {
    /// A call on its way to its end: see the [module](super).
    #[project = Driving]
    #[must_use = "nothing is sent before it is polled"]
    pub struct Drive<T: Terms, S: Sender> {
        guard: Guard<T>,
        sender: S,
        waits: Waits,
        phase: Phase,
        // The attempts under way: what they are, and those themselves. A hedge is rare, so it gets a box.
        tries: [Option<Try>; 2],
        #[pin]
        first: Option<S::Attempt>,
        hedge: Option<Pin<Box<S::Attempt>>>,
        hedge_at: Option<Time>,
        // Whether the first of them has yet to be handed all of its request.
        uploads: bool,
        // When the latest one times out.
        timeout_at: Time,
        #[pin]
        keeping: Option<S::Keeping>,
        #[pin]
        timer: Timer,
        // What the latest attempts gave, as far as they gave anything, and what that came to.
        last: Option<S::Reply>,
        outcome: Outcome,
        kept: Kept<S::Kept>,
    }

    impl<T: Terms, S: Sender> PinnedDrop for Drive<T, S> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if this.is_open() {
                this.note_sent();
                // What was never given whole is no work for anybody, and says nothing of how long its caller would wait.
                match this.given(0) {
                    Given::All(_) => this.guard.abandon(),
                    _ => drop(this.guard.step(Input::Ended { slot: 0, outcome: Outcome::Abandoned })),
                }
                this.leave(Some(Reason::ClientGone));
            }
        }
    }
}

/// What the call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Start,
    /// It was admitted before the first poll, and nothing was sent yet.
    Admitted(Send),
    /// It was refused before the first poll.
    Refused(Finish),
    Open,
    /// Since this instant.
    Queue(Time),
    /// Until the reply is kept, and then until this instant.
    Keep(Time),
    Sleep(Time),
    Over,
}

enum Kept<K> {
    None,
    /// With a status: a reply that a caller can be given.
    Reply(K),
    /// Without: good only to say what went wrong.
    Error(K),
}

type DoneOf<S> = Done<<S as Sender>::Reply, <S as Sender>::Kept>;

impl<T: Terms, S: Sender> Drive<T, S> {
    #[inline]
    pub(super) fn new(guard: Guard<T>, sender: S, waits: Waits) -> Self {
        Self::at(Phase::Start, guard, sender, waits)
    }

    #[inline(always)]
    fn at(phase: Phase, guard: Guard<T>, sender: S, waits: Waits) -> Self {
        Self {
            guard,
            sender,
            waits,
            phase,
            tries: [None, None],
            first: None,
            hedge: None,
            hedge_at: None,
            uploads: false,
            timeout_at: Time::MAX,
            keeping: None,
            timer: Timer::default(),
            last: None,
            outcome: Outcome::Abandoned,
            kept: Kept::None,
        }
    }

    /// A call that asks to be admitted now rather than at the first poll; nothing is sent before that. The sender is told
    /// whether it was.
    #[inline(always)]
    pub(crate) fn begun(
        terms: T,
        arrive: impl FnOnce(&T) -> Arrival,
        sender: impl FnOnce(bool) -> S,
    ) -> Self {
        // Made here and nowhere else: it is large, and each hand it goes through would copy it.
        let arrival = arrive(&terms);
        let mut guard = Guard::new(terms, arrival);
        let phase = match guard.step(Input::Start) {
            Step::Send(send) => Phase::Admitted(send),
            Step::Enqueue { .. } => Phase::Queue(guard.now()),
            Step::Finish(finish) => Phase::Refused(finish),
            Step::Sleep { .. } | Step::Await => Phase::Open, // which no call begins with
        };
        let sender = sender(matches!(phase, Phase::Admitted(_)));
        Self::at(phase, guard, sender, Waits::Async)
    }

    /// Whoever makes the attempts, and to whom.
    pub fn ends(self: Pin<&mut Self>) -> (&mut S, &Upstream) {
        let this = self.project();
        (this.sender, this.guard.upstream())
    }
}

impl<T: Terms, S: Sender> Future for Drive<T, S> {
    type Output = DoneOf<S>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // By itself, so that what follows need not be laid out for a call that succeeds at once.
        let ended = match self.as_mut().project().poll_first(cx) {
            Some((reply, Outcome::Success)) if self.hedge.is_none() => {
                return Poll::Ready(self.project().succeeded(reply));
            }
            ended => ended,
        };
        self.project().poll_on(ended, cx)
    }
}

impl<T: Terms, S: Sender> Driving<'_, T, S> {
    /// Does what was decided, up to the next wait.
    fn follow(&mut self, step: Step) -> Option<DoneOf<S>> {
        *self.phase = match step {
            Step::Send(send) => self.launch(send),
            Step::Finish(finish) => {
                *self.phase = Phase::Over;
                return Some(self.done(finish));
            }
            Step::Enqueue { .. } => Phase::Queue(self.guard.now()),
            Step::Sleep { until } => self.keep(until),
            Step::Await => Phase::Open,
        };
        None
    }

    #[inline(always)]
    fn launch(&mut self, send: Send) -> Phase {
        let Send { slot, attempt: number, endpoint, timeout_at, hedge_at } = send;
        let started = self.guard.now();
        let credit = self.guard.call().handed_on(slot);
        let queued = match *self.phase {
            Phase::Queue(since) => started.since(since),
            _ => Duration::ZERO,
        };
        let attempt = Try { number, endpoint, queued, started, timeout_at, credit };
        self.tries[usize::from(slot)] = Some(attempt);
        let under_way = self.sender.send(&attempt);
        if slot == 0 {
            *self.uploads = !self.sender.is_given();
            self.first.set(Some(under_way));
        } else {
            *self.hedge = Some(Box::pin(under_way));
        }
        (*self.hedge_at, *self.timeout_at) = (hedge_at, timeout_at);
        Phase::Open
    }

    /// Sends what was admitted before, and looks at the first attempt if it is under way.
    #[inline(always)]
    fn poll_first(&mut self, cx: &mut Context<'_>) -> Option<(S::Reply, Outcome)> {
        if let Phase::Admitted(send) = *self.phase {
            *self.phase = self.launch(send);
        }
        match self.first.as_mut().as_pin_mut()?.poll(cx) {
            Poll::Ready(reply) => {
                let outcome = self.sender.classify(&reply);
                Some((reply, outcome))
            }
            Poll::Pending => None,
        }
    }

    /// Goes on after the first look, which found this: a retry is looked at as soon as it is sent.
    fn poll_on(
        &mut self,
        mut ended: Option<(S::Reply, Outcome)>,
        cx: &mut Context<'_>,
    ) -> Poll<DoneOf<S>> {
        loop {
            let step = match (ended.take(), *self.phase) {
                (Some((reply, Outcome::Success)), _) if self.hedge.is_none() => {
                    return Poll::Ready(self.succeeded(reply));
                }
                (Some((reply, outcome)), _) => self.ended(0, Some(reply), outcome),
                (None, Phase::Open) => {
                    if *self.uploads && self.sender.is_given() {
                        *self.uploads = false;
                        self.guard.given(0);
                    }
                    ready!(self.poll_slowly(cx))
                }
                (None, _) => ready!(self.poll_wait(cx)),
            };
            if let Some(done) = self.follow(step) {
                return Poll::Ready(done);
            }
            ended = self.poll_first(cx);
        }
    }

    /// The only attempt under way succeeded, as almost every one does: nothing is to be kept, asked or waited for.
    #[inline(always)]
    fn succeeded(&mut self, reply: S::Reply) -> DoneOf<S> {
        if let Some((below, returned)) = self.sender.told(&reply) {
            self.guard.call().debit(0, below, returned);
        }
        let tried = self.tries[0].take();
        self.first.set(None);
        let outcome = Outcome::Success;
        let step = self.guard.step(Input::Ended { slot: 0, outcome });
        debug_assert!(matches!(step, Step::Finish(_)), "a success ends the call");
        *self.phase = Phase::Over;
        if let Some(tried) = tried {
            self.tell(&tried, 0, outcome, Some(&reply), Next::Stop(None));
        }
        Done {
            end: End::Reply(reply),
            outcome,
            reason: None,
            attempts: self.guard.call().attempts(),
            retry_at: None,
            elapsed: self.guard.now().since(self.guard.since()),
            credit: self.guard.call().credit().copied(),
        }
    }

    /// An attempt came to its end, with a reply or by its timeout.
    #[cold]
    fn ended(&mut self, slot: u8, reply: Option<S::Reply>, outcome: Outcome) -> Step {
        if let Some((below, returned)) = reply.as_ref().and_then(|reply| self.sender.told(reply)) {
            self.guard.call().debit(slot, below, returned);
        }
        let input = match &reply {
            None if outcome != Outcome::Abandoned => Input::TimedOut { slot },
            _ => Input::Ended { slot, outcome },
        };
        self.prepare(slot, &outcome, reply.as_ref());
        let tried = self.tries[usize::from(slot)].take();
        if slot == 0 {
            self.first.set(None);
        } else {
            *self.hedge = None;
        }
        let step = self.guard.step(input);
        if let Some(tried) = tried {
            let next = match &step {
                Step::Sleep { until } => Next::Retry { at: *until },
                Step::Finish(finish) => Next::Stop(finish.reason),
                _ => Next::Stop(None),
            };
            self.tell(&tried, slot, outcome, reply.as_ref(), next);
        }
        // A reply, even of the one that was slower, is worth more than none.
        if reply.is_some() || self.last.is_none() {
            (*self.last, *self.outcome) = (reply, outcome);
        }
        step
    }

    /// What the core has to know before it judges anything but a lone success.
    fn prepare(&mut self, slot: u8, outcome: &Outcome, reply: Option<&S::Reply>) {
        self.note_sent();
        self.ask_whether_repeatable(self.sender.is_replayable());
        let attempt = self.tries[usize::from(slot)].map_or(0, |tried| tried.number);
        if *outcome != Outcome::Success
            && let Some(wait) = self.sender.wait(&Failed { attempt, outcome, reply })
        {
            self.guard.call().set_wait(wait);
        }
    }

    fn ask_whether_repeatable(&mut self, replayable: bool) {
        let repeatable = self.sender.is_repeatable();
        self.guard.call().set_repeatable(repeatable);
        self.guard.call().set_replayable(replayable);
        self.guard.call().set_uploads(!self.sender.is_given());
    }

    /// Tells the call which of its attempts went out. One whose sender panicked before there was a future may have.
    fn note_sent(&mut self) {
        let [first, hedge] = self.tries;
        let is_sent =
            |under_way: Option<&S::Attempt>| under_way.is_none_or(|a| self.sender.is_sent(a));
        if first.is_some() && is_sent(self.first.as_ref().as_pin_ref().map(Pin::get_ref)) {
            self.guard.call().sent(0);
        }
        if hedge.is_some() && is_sent(self.hedge.as_deref()) {
            self.guard.call().sent(1);
        }
    }

    fn is_open(&self) -> bool {
        self.tries.iter().any(Option::is_some)
    }

    /// Begins to keep the reply while the call sleeps, if there is one worth it.
    #[cold]
    fn keep(&mut self, until: Time) -> Phase {
        let Some(reply) = self.last.take() else { return Phase::Sleep(until) };
        if !self.is_coded() && matches!(self.kept, Kept::Reply(_)) {
            return Phase::Sleep(until); // a real reply is worth more than a later error
        }
        let keeping = self.sender.keep(reply, self.outcome, *self.timeout_at);
        self.keeping.set(Some(keeping));
        Phase::Keep(until)
    }

    fn is_coded(&self) -> bool {
        matches!(self.outcome, Outcome::Failed(Failure { code: Some(_), .. }))
    }

    #[cold]
    fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        match *self.phase {
            Phase::Queue(_) => match self.waits {
                Waits::Async => self.guard.poll_queue(cx, self.timer.as_mut()),
                Waits::Blocking => Poll::Ready(self.guard.queue_blocking()),
            },
            Phase::Keep(until) => {
                if let Some(keeping) = self.keeping.as_mut().as_pin_mut() {
                    let kept = ready!(keeping.poll(cx));
                    self.keeping.set(None);
                    match kept {
                        Ok(kept) if self.is_coded() => *self.kept = Kept::Reply(kept),
                        Ok(kept) => *self.kept = Kept::Error(kept),
                        Err(reply) => {
                            *self.last = Some(reply);
                            return Poll::Ready(self.guard.step(Input::NotKept));
                        }
                    }
                }
                *self.phase = Phase::Sleep(until);
                self.poll_wait(cx)
            }
            Phase::Sleep(until) => {
                let clock = self.guard.upstream().clock();
                match self.waits {
                    Waits::Async => ready!(self.timer.as_mut().poll_until(cx, clock, until)),
                    Waits::Blocking => clock.sleep_until_blocking(until),
                }
                Poll::Ready(self.guard.step(Input::Woke))
            }
            Phase::Start => {
                self.guard.call().set_uploads(!self.sender.is_given());
                Poll::Ready(self.guard.step(Input::Start))
            }
            Phase::Refused(finish) => Poll::Ready(Step::Finish(finish)),
            Phase::Admitted(_) | Phase::Open | Phase::Over => panic!("polled after its end"),
        }
    }

    #[cold]
    fn done(&mut self, finish: Finish) -> DoneOf<S> {
        // The loser of a hedge, whose slot is free or a ghost by now.
        if self.is_open() {
            self.leave(None);
        }
        self.first.set(None);
        *self.hedge = None;
        let end = match (finish.answer, self.last.take()) {
            (Answer::This, Some(reply)) => End::Reply(reply),
            (answer, _) => self.kept(answer),
        };
        let credit = self.guard.call().credit().copied();
        Done {
            end,
            outcome: *self.outcome,
            reason: finish.reason,
            attempts: finish.attempts,
            retry_at: finish.retry_at,
            elapsed: self.guard.now().since(self.guard.since()),
            credit,
        }
    }

    #[cold]
    fn kept(&mut self, answer: Answer) -> End<S::Reply, S::Kept> {
        let earlier = match std::mem::replace(self.kept, Kept::None) {
            Kept::Reply(kept) if answer == Answer::Kept => return End::Kept(kept),
            Kept::Reply(kept) | Kept::Error(kept) => Some(kept),
            Kept::None => None,
        };
        match answer {
            Answer::This => End::TimedOut { earlier },
            Answer::Kept | Answer::Refusal => End::Refused { earlier },
        }
    }
}
