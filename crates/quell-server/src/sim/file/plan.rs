//! Plan: a scenario, and the ways it is faced.

use quell_sim::Scenario;

use crate::sim::gate::Promises;

/// A scenario by name, and who is to face it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its name in the file.
    pub name: String,
    /// What happens, in a word.
    pub trouble: String,
    /// The scenario with naive callers.
    pub scenario: Scenario,
    /// The names of the services behind the first, from the top down.
    pub behind: Vec<String>,
    /// Who faces it.
    pub against: Vec<Way>,
    /// Who else could: all that have a name.
    pub others: Vec<Way>,
    /// What must hold with `--gate`.
    pub promises: Vec<Promises>,
}

impl Plan {
    /// A way to face it, by the word for it, whether or not the file asks for it.
    pub fn way(&self, word: &str) -> Option<&Way> {
        self.against.iter().chain(&self.others).find(|way| way.word == word)
    }
}

/// A way to face a scenario.
#[derive(Debug, Clone, PartialEq)]
pub struct Way {
    /// For machines: the word in the file.
    pub word: String,
    /// For people.
    pub label: String,
    /// The scenario as it is faced.
    pub scenario: Scenario,
}

impl Way {
    /// For people.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// For machines: the word in the file.
    pub fn word(&self) -> &str {
        &self.word
    }
}
