//! Plain and Once: requests without a protocol of their own.

use std::future::{Ready, ready};

use quell_core::{Outcome, Time};

use super::protocol::{Inbound, Outbound};
use crate::{Clock, Rules, classify, run::Try};

/// Requests that can be cloned. What a result means is what a closure says, or [the usual](crate::classify): any error is
/// a fault of the server. Requests are repeated only if the handle was built with
/// [`idempotent`](crate::Builder::idempotent), or nothing was sent.
///
/// ```
/// use quell::{Failure, Fault, Outcome, Quell, tower::{Plain, QuellLayer}};
///
/// let stock = Quell::upstream("stock").idempotent().build()?;
/// let layer = QuellLayer::with(stock, Plain::by(|result: &Result<i64, String>| match result {
///     Ok(0..) => Outcome::Success,
///     Ok(_) => Outcome::Failed(Failure::of(Fault::Fatal)),
///     Err(_) => Outcome::Failed(Failure::of(Fault::Server)),
/// }));
/// # let _ = layer;
/// # Ok::<_, quell::Invalid>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain<C = Usual> {
    classify: C,
}

/// The usual reading of results: see [the module](crate::classify).
#[derive(Debug, Clone, Copy, Default)]
pub struct Usual;

impl<C> Plain<C> {
    /// By what this says.
    pub fn by(classify: C) -> Self {
        Self { classify }
    }
}

/// Says what a result comes to.
pub trait Reads<Res, Err>: Clone {
    /// What an attempt with this result came to.
    fn read(&self, result: &Result<Res, Err>, clock: &Clock, rules: &Rules) -> Outcome;
}

impl<Res: 'static, Err: 'static> Reads<Res, Err> for Usual {
    fn read(&self, result: &Result<Res, Err>, clock: &Clock, rules: &Rules) -> Outcome {
        classify::usual(result, clock, &rules.statuses)
    }
}

impl<Res, Err, F> Reads<Res, Err> for F
where
    F: Fn(&Result<Res, Err>) -> Outcome + Clone,
{
    fn read(&self, result: &Result<Res, Err>, _: &Clock, _: &Rules) -> Outcome {
        self(result)
    }
}

impl<Req: Clone, C: Clone> Outbound<Req> for Plain<C> {
    type Source = Req;
    type Outgoing = Req;

    fn source(&self, request: Req, _: &Rules) -> Req {
        request
    }

    fn next(&self, request: &mut Req, _: &Try) -> Option<Req> {
        Some(request.clone())
    }

    fn is_repeatable(&self, _: &Req) -> bool {
        false // unless the handle knows better
    }

    fn is_replayable(&self, _: &Req) -> bool {
        true
    }
}

impl<Res, Err, C: Reads<Res, Err>> Inbound<Res, Err> for Plain<C> {
    type Answer = Res;
    type Keeping = Ready<Result<Result<Res, Err>, Result<Res, Err>>>;

    fn answer(&self, reply: Res) -> Res {
        reply
    }

    fn classify(&self, result: &Result<Res, Err>, clock: &Clock, rules: &Rules) -> Outcome {
        self.classify.read(result, clock, rules)
    }

    fn keep(&self, result: Result<Res, Err>, _: &Clock, _: Time) -> Self::Keeping {
        ready(Ok(result))
    }
}

/// Requests that are sent once and never again, so that they need not be cloned: for layers that do not retry.
///
/// ```
/// use quell::{Limit, Quell, tower::{Once, QuellLayer}};
///
/// let printer = Quell::upstream("printer").attempts(1).in_flight(Limit::Fixed(2)).build()?;
/// let layer = QuellLayer::<Once>::with(printer, Once::default());
/// # let _ = layer;
/// # Ok::<_, quell::Invalid>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct Once<C = Usual> {
    plain: Plain<C>,
}

impl<C> Once<C> {
    /// By what this says.
    pub fn by(classify: C) -> Self {
        Self { plain: Plain::by(classify) }
    }
}

impl<Req, C: Clone> Outbound<Req> for Once<C> {
    type Source = Option<Req>;
    type Outgoing = Req;

    fn source(&self, request: Req, _: &Rules) -> Self::Source {
        Some(request)
    }

    fn next(&self, source: &mut Self::Source, _: &Try) -> Option<Req> {
        source.take()
    }

    fn is_repeatable(&self, _: &Self::Source) -> bool {
        false
    }

    fn is_replayable(&self, _: &Self::Source) -> bool {
        false
    }
}

impl<Res, Err, C: Reads<Res, Err>> Inbound<Res, Err> for Once<C> {
    type Answer = Res;
    type Keeping = Ready<Result<Result<Res, Err>, Result<Res, Err>>>;

    fn answer(&self, reply: Res) -> Res {
        reply
    }

    fn classify(&self, result: &Result<Res, Err>, clock: &Clock, rules: &Rules) -> Outcome {
        self.plain.classify(result, clock, rules)
    }

    fn keep(&self, result: Result<Res, Err>, clock: &Clock, by: Time) -> Self::Keeping {
        self.plain.keep(result, clock, by)
    }
}
