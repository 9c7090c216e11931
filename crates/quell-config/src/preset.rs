//! Presets: sets of numbers that go together.

use quell_core::spec::{PolicySpec, UpstreamSpec};

use super::policy::RetryOn;

/// What a policy or an upstream starts from. A file means the same in every host, so it is not the host who chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preset {
    /// For a proxy in front of a service, unless something else is written.
    #[default]
    Gateway,
    /// The same with shorter timeouts, for a service whose replies are known to be quick.
    Strict,
    /// For calls made from inside a service.
    Library,
    /// For calls to language models.
    Llm,
    /// For work that nobody waits for.
    Background,
}

impl Preset {
    /// Each with the word for it.
    pub const WORDS: [(&'static str, Self); 5] = [
        ("gateway", Self::Gateway),
        ("strict", Self::Strict),
        ("library", Self::Library),
        ("llm", Self::Llm),
        ("background", Self::Background),
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        word(&Self::WORDS, self)
    }

    /// How its calls behave.
    pub fn policy(self) -> PolicySpec {
        match self {
            Self::Gateway => PolicySpec::gateway(),
            Self::Strict => PolicySpec::strict(),
            Self::Library => PolicySpec::library(),
            Self::Llm => PolicySpec::llm(),
            Self::Background => PolicySpec::background(),
        }
    }

    /// What its callers share.
    pub fn upstream(self) -> UpstreamSpec {
        match self {
            Self::Gateway | Self::Strict => UpstreamSpec::gateway(),
            Self::Library => UpstreamSpec::library(),
            Self::Llm => UpstreamSpec::llm(),
            Self::Background => UpstreamSpec::background(),
        }
    }

    /// What is worth another attempt.
    pub fn retry_on(self) -> Vec<RetryOn> {
        let statuses: &[u16] = match self {
            Self::Llm => &[429, 500, 503, 529],
            _ => &[408, 425, 429, 500, 502, 503, 504],
        };
        let always = [RetryOn::Connect, RetryOn::Timeout];
        always.into_iter().chain(statuses.iter().map(|&code| RetryOn::Status(code))).collect()
    }
}

/// The word for a meaning.
pub(super) fn word<T: PartialEq>(words: &[(&'static str, T)], meaning: T) -> &'static str {
    words.iter().find(|(_, known)| *known == meaning).map_or("", |(word, _)| word)
}
