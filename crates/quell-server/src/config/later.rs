//! `[store]` and `[worker.*]`: understood and checked; but for memory, no host uses them yet.

use std::{path::PathBuf, time::Duration};

use quell::core::ladder::{self, Ladder, Names};

use super::{Secret, fields::Fields};

/// Where keys and events are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Store {
    /// In the process; gone when it ends.
    Memory,
    /// In files.
    Embedded(PathBuf),
    /// In Redis, at an address that may hold a password.
    Redis(Option<Secret>),
    /// In Postgres, at an address that may hold a password.
    Postgres(Option<Secret>),
}

#[derive(Clone, Copy)]
enum Kind {
    Memory,
    Embedded,
    Redis,
    Postgres,
}

impl Store {
    pub(super) fn read(fields: &Fields<'_>) -> Self {
        let words = [
            ("memory", Kind::Memory),
            ("embedded", Kind::Embedded),
            ("redis", Kind::Redis),
            ("postgres", Kind::Postgres),
        ];
        let kind = fields.word("kind", &words).unwrap_or(Kind::Embedded);
        if !matches!(kind, Kind::Memory) {
            fields.all_idle("keys are kept in memory, and there is no worker");
        }
        match kind {
            Kind::Memory => Self::Memory,
            Kind::Embedded => {
                let path: String = fields.get("path").unwrap_or_else(|| "quell-data".to_owned());
                Self::Embedded(path.into())
            }
            Kind::Redis => Self::Redis(fields.secret("url")),
            Kind::Postgres => Self::Postgres(fields.secret("url")),
        }
    }
}

/// A consumer of events.
#[derive(Debug, Clone, PartialEq)]
pub struct Worker {
    /// The brokers, if the events come from Kafka.
    pub kafka: Option<String>,
    /// Where they come from.
    pub topic: String,
    /// Who reads them.
    pub group: Option<String>,
    /// Who is called with each.
    pub handler: String,
    /// How long an event waits before each further attempt.
    pub tiers: Vec<Duration>,
}

impl Worker {
    pub(super) fn read(fields: &Fields<'_>) -> Option<Self> {
        fields.all_idle("there is no worker");
        let source = fields.table("source");
        let handler = fields.get("handler");
        fields
            .needs("handler", "where events are posted, such as \"http://127.0.0.1:9000/events\"");
        let tiers = fields.list("tiers").map_or_else(ladder::Spec::default, ladder::Spec::Tiers);
        let ladder = Ladder::new(&tiers);
        if let Err(error) = &ladder {
            fields.invalid(error);
        }
        fields.needs("source", "such as { kafka = \"127.0.0.1:9092\", topic = \"payments\" }");
        let source = source?;
        let kafka = source.get("kafka");
        let (topic, group): (Option<String>, Option<String>) =
            (source.get("topic"), source.get("group"));
        source.needs("topic", "the topic that the events come from");
        let topic = topic?;
        if let Err(error) = Names::new(&topic, group.as_deref()) {
            fields.invalid(&error);
        }
        Some(Self { kafka, topic, group, handler: handler?, tiers: ladder.ok()?.tiers().to_vec() })
    }
}
