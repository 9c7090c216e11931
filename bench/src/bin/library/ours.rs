//! Ours: the library's preset, with a limit as the peers have one.

use std::{
    convert::Infallible,
    future::{IntoFuture, ready},
    hint::black_box,
};

use anyhow::{Context, Result};
use quell::{Limit, Quell, tower::QuellLayer};
use quell_bench::{
    does::does,
    services::{Answers, calls, comes_true},
    work::{SEED, Work},
};
use tower::{Layer, service_fn};

/// The whole engine as one layer.
pub(crate) fn layer<A: Answers>(limit: Limit) -> Result<impl Work> {
    Ok(calls(QuellLayer::new(quell(limit)?).layer(service_fn(A::answer))))
}

/// The function API without a box.
pub(crate) fn call(limit: Limit) -> Result<impl Work> {
    let quell = quell(limit)?;
    Ok(does(move || comes_true(quell.call(|_| ready(Ok::<_, Infallible>(black_box(1)))).run())))
}

/// The function API as everybody writes it: awaited, which boxes the call.
pub(crate) fn call_boxed(limit: Limit) -> Result<impl Work> {
    let quell = quell(limit)?;
    Ok(does(move || {
        comes_true(quell.call(|_| ready(Ok::<_, Infallible>(black_box(1)))).into_future())
    }))
}

fn quell(limit: Limit) -> Result<Quell> {
    let quell = Quell::upstream("bench").in_flight(limit).idempotent().seed(SEED).build();
    quell.context("the library's preset is no upstream")
}
