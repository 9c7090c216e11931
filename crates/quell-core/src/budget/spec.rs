//! Spec: a budget as people write it.

use core::fmt;

use super::{Bucket, adaptive, failed_retry, grpc, probabilistic, ratio, sampled, tokens, window};

/// Which kind of budget, and its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Spec {
    /// Successes earn, retries cost: the default.
    Tokens(tokens::Spec),
    /// As gRPC does it: failures cost, and retries need more than half.
    Grpc(grpc::Spec),
    /// Only retries that fail cost.
    FailedRetry(failed_retry::Spec),
    /// A share of the successes of the last seconds.
    Ratio(ratio::Spec),
    /// A share of the successes of the last minute, with something to begin with.
    Window(window::Spec),
    /// Tokens, and caution while next to nothing succeeds.
    Adaptive(adaptive::Spec),
    /// Chance, held to a share of the traffic.
    Probabilistic(probabilistic::Spec),
    /// Some failures may ask another budget.
    Sampled(sampled::Spec),
    /// Every retry is allowed: has to be written out.
    Unlimited,
    /// No retry is.
    None,
}

impl Default for Spec {
    fn default() -> Self {
        Self::Tokens(tokens::Spec::default())
    }
}

macro_rules! from {
    ($($kind:ident = $spec:ty;)+) => {$(
        impl From<$spec> for Spec {
            fn from(spec: $spec) -> Self {
                Self::$kind(spec)
            }
        }
    )+};
}

from! {
    Tokens = tokens::Spec;
    Grpc = grpc::Spec;
    FailedRetry = failed_retry::Spec;
    Ratio = ratio::Spec;
    Window = window::Spec;
    Adaptive = adaptive::Spec;
    Probabilistic = probabilistic::Spec;
    Sampled = sampled::Spec;
}

impl Spec {
    /// The word that stands for the kind in a policy.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Tokens(_) => "tokens",
            Self::Grpc(_) => "grpc",
            Self::FailedRetry(_) => "failed-retry",
            Self::Ratio(_) => "ratio",
            Self::Window(_) => "window",
            Self::Adaptive(_) => "adaptive",
            Self::Probabilistic(_) => "probabilistic",
            Self::Sampled(_) => "sampled",
            Self::Unlimited => "unlimited",
            Self::None => "none",
        }
    }

    /// The tokens that are saved up, where the kind saves up any.
    pub fn bucket(&self) -> Option<Bucket> {
        match self.deciding() {
            Self::Tokens(spec) => Some(spec.bucket()),
            Self::Grpc(spec) => Some(spec.bucket),
            Self::FailedRetry(spec) => Some(spec.bucket),
            Self::Adaptive(spec) => Some(spec.bucket),
            _ => None,
        }
    }

    /// Tokens, or retries, that one success earns, where the kind says so.
    pub fn ratio(&self) -> Option<f64> {
        match self.deciding() {
            Self::Ratio(spec) => Some(spec.ratio),
            Self::Window(spec) => Some(spec.ratio),
            other => other.bucket().map(|bucket| bucket.ratio),
        }
    }

    /// The budget that is asked in the end: of a sampled one that inside it, else itself.
    pub fn deciding(&self) -> Self {
        match *self {
            Self::Sampled(spec) => spec.inner.into(),
            other => other,
        }
    }
}

/// What is in force, in a few words for people.
impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tokens(spec) => {
                write!(f, "{} tokens, {} per success", spec.max, spec.ratio)?;
                if let Some(every) = spec.refill {
                    write!(f, ", one per {every:?}")?;
                }
                if spec.pause_below > 0.0 {
                    write!(f, ", pauses below {} %", spec.pause_below * 100.0)?;
                }
                Ok(())
            }
            Self::Grpc(grpc::Spec { bucket }) => {
                write!(f, "grpc, {} tokens, {} per success", bucket.max, bucket.ratio)
            }
            Self::FailedRetry(failed_retry::Spec { bucket }) => {
                write!(f, "{} failed retries, {} per success", bucket.max, bucket.ratio)
            }
            Self::Ratio(spec) => {
                let (share, window, floor) = (spec.ratio * 100.0, spec.window, spec.floor);
                write!(f, "{share} % of successes in {window:?}, and {floor} per second")
            }
            Self::Window(spec) => {
                let (share, window, first) = (spec.ratio * 100.0, spec.window, spec.bootstrap);
                write!(f, "{share} % of successes in {window:?}, {first} without any")
            }
            Self::Adaptive(adaptive::Spec { bucket, .. }) => {
                write!(f, "adaptive, {} tokens, {} per success", bucket.max, bucket.ratio)
            }
            Self::Probabilistic(spec) => write!(f, "by chance, {} % of calls", spec.target * 100.0),
            Self::Sampled(spec) => {
                write!(f, "{} % of failures, of {}", spec.fraction * 100.0, Self::from(spec.inner))
            }
            Self::Unlimited => f.write_str("unlimited"),
            Self::None => f.write_str("none"),
        }
    }
}
