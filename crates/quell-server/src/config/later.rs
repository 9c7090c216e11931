//! `[store]` and `[worker.*]`: understood and checked; but for memory, no host uses them yet.

use std::{path::PathBuf, time::Duration};

use quell::core::ladder::{self, Ladder, Names};
use quell::store::Kind;

use quell_config::{
    setting::{Settings, Value},
    table::{self, Table},
};

use super::Secret;

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

const KINDS: [(&str, Kind); 4] = [
    ("memory", Kind::Memory),
    ("embedded", Kind::Embedded),
    ("redis", Kind::Redis),
    ("postgres", Kind::Postgres),
];

impl Default for Store {
    fn default() -> Self {
        Self::Embedded("quell-data".into())
    }
}

impl Store {
    pub(super) fn settings(&mut self, table: &Table<'_>) {
        let mut kind = self.kind();
        table.word("kind", &mut kind, &KINDS, "in what");
        if let Some(fields) = table.fields().filter(|_| kind != Kind::Memory) {
            fields.all_idle("keys are kept in memory, and there is no worker");
        }
        match kind {
            Kind::Memory => *self = Self::Memory,
            Kind::Embedded => self.embedded(table),
            Kind::Redis => *self = Self::Redis(self.url(table)),
            Kind::Postgres => *self = Self::Postgres(self.url(table)),
        }
    }

    /// All of it, as it stands in a file.
    pub fn written(&self) -> Settings {
        table::written(|table| self.clone().settings(table))
    }

    /// What [`open`](quell::store::open) takes.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Memory => Kind::Memory,
            Self::Embedded(_) => Kind::Embedded,
            Self::Redis(_) => Kind::Redis,
            Self::Postgres(_) => Kind::Postgres,
        }
    }

    fn embedded(&mut self, table: &Table<'_>) {
        let Self::Embedded(path) = self else { return };
        let read = table.setting(
            "path",
            "the folder, for embedded",
            |fields| fields.get::<String>("path"),
            || Some(Value::text(path.display())),
        );
        if let Some(read) = read.flatten() {
            *path = read.into();
        }
    }

    fn url(&self, table: &Table<'_>) -> Option<Secret> {
        let mut url = match self {
            Self::Redis(url) | Self::Postgres(url) => url.clone(),
            Self::Memory | Self::Embedded(_) => None,
        };
        let means = "the place of its URL, which may hold a password; for redis and postgres";
        table.secret("url", &mut url, means);
        url
    }
}

/// A consumer of events.
#[derive(Debug, Clone, PartialEq, Default)]
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
    /// Whether all is there that it cannot do without.
    pub(super) fn settings(&mut self, table: &Table<'_>) -> bool {
        if let Some(fields) = table.fields() {
            fields.all_idle("there is no worker");
        }
        let mut topic = None;
        table.inside("source", "where events come from", |inside| topic = self.source(inside));
        if let Some(Err(error)) =
            topic.as_deref().map(|topic| Names::new(topic, self.group.as_deref()))
        {
            table.invalid(&error);
        }
        let means = "where events are posted";
        let has_handler = table.set("handler", &mut self.handler, means);
        table.needs("handler", "where events are posted, such as \"http://127.0.0.1:9000/events\"");
        let has_tiers = self.tiers(table);
        table.needs("source", "such as { kafka = \"127.0.0.1:9092\", topic = \"payments\" }");
        let has_topic = topic.is_some();
        self.topic = topic.unwrap_or_default();
        has_handler && has_tiers && has_topic
    }

    /// All of it, as it stands in a file.
    pub fn written(&self) -> Settings {
        table::written(|table| {
            self.clone().settings(table);
        })
    }

    /// Where events come from, and the topic if it says one.
    fn source(&mut self, table: &Table<'_>) -> Option<String> {
        let mut topic = Some(self.topic.clone()).filter(|_| !table.reads());
        table.set("kafka", &mut self.kafka, "the brokers");
        table.set("topic", &mut topic, "the topic");
        table.set("group", &mut self.group, "the consumer group");
        table.needs("topic", "the topic that the events come from");
        topic
    }

    fn tiers(&mut self, table: &Table<'_>) -> bool {
        let mut written = self.tiers.clone();
        let means = "how long an event waits before each further attempt";
        let spec = match table.list("tiers", &mut written, means) {
            _ if !table.reads() => return true,
            true => ladder::Spec::Tiers(written),
            false => ladder::Spec::default(),
        };
        match Ladder::new(&spec) {
            Ok(ladder) => self.tiers = ladder.tiers().to_vec(),
            Err(error) => {
                table.invalid(&error);
                return false;
            }
        }
        true
    }
}
