//! All metrics of one moment.

use std::net::SocketAddr;

use super::look;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Scrape {
    text: String,
    values: Vec<(String, f64)>,
}

impl Scrape {
    pub(crate) async fn of(admin: SocketAddr) -> Self {
        let text = look(admin, "/metrics").await.text().to_owned();
        let value = |line: &str| {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line:?}"));
            (name.to_owned(), value.parse().unwrap_or_else(|_| panic!("{line:?}")))
        };
        let values = text.lines().filter(|line| !line.starts_with('#')).map(value).collect();
        Self { text, values }
    }

    /// The value of this very series, if it is there.
    pub(crate) fn value(&self, full: &str) -> Option<f64> {
        self.values.iter().find(|(name, _)| name == full).map(|(_, value)| *value)
    }

    /// The sum of all values of this name whose labels hold each of these, such as `result="503"`.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let family = format!("# TYPE {} ", name.trim_end_matches("_total"));
        assert!(self.text.contains(&family), "there is no {name} in\n{}", self.text);
        let told = |full: &str| {
            full.split('{').next() == Some(name)
                && labels
                    .iter()
                    .all(|(label, value)| full.contains(&format!("{label}=\"{value}\"")))
        };
        self.values.iter().filter(|(full, _)| told(full)).map(|(_, value)| value).sum()
    }

    /// What there is of this name and is not nought, to be shown.
    pub(crate) fn lines(&self, name: &str) -> String {
        let is_shown = |(full, value): &&(String, f64)| full.starts_with(name) && *value != 0.0;
        let lines = self.values.iter().filter(is_shown);
        lines.map(|(full, value)| format!("{full} {value}\n")).collect()
    }

    /// The same, of what is counted.
    pub(crate) fn count(&self, name: &str, labels: &[(&str, &str)]) -> usize {
        self.sum(name, labels) as usize
    }
}
