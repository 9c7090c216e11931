//! Limiting: the future that adds the fields of a rate limit to a reply.

use std::{
    convert::Infallible,
    future::Future,
    pin::Pin,
    task::{Context, Poll, ready},
};

use axum_core::response::Response;
use pin_project_lite::pin_project;

use crate::http::quota::Passed;

pin_project! {
    /// The reply of a service behind a [`RateLimit`](super::RateLimit), or the refusal.
    #[derive(Debug)]
    pub struct Limiting<F> {
        #[pin]
        state: State<F>,
    }
}

pin_project! {
    #[project = Project]
    #[derive(Debug)]
    enum State<F> {
        Passed { #[pin] inner: F, passed: Passed },
        Refused { response: Option<Response> },
    }
}

impl<F> Limiting<F> {
    pub(super) fn passed(inner: F, passed: Passed) -> Self {
        Self { state: State::Passed { inner, passed } }
    }

    pub(super) fn refused(response: Response) -> Self {
        Self { state: State::Refused { response: Some(response) } }
    }
}

impl<F: Future<Output = Result<Response, Infallible>>> Future for Limiting<F> {
    type Output = Result<Response, Infallible>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().state.project() {
            Project::Passed { inner, passed } => {
                let Ok(mut response) = ready!(inner.poll(cx));
                std::mem::take(passed).write(response.headers_mut());
                Poll::Ready(Ok(response))
            }
            // There is nothing to give to whoever polls again after the end.
            Project::Refused { response } => {
                response.take().map_or(Poll::Pending, |response| Poll::Ready(Ok(response)))
            }
        }
    }
}
