//! Exposition: metrics as text, in the two forms that scrapers read.
//!
//! OpenMetrics names a counter's family without its `_total` and ends with `# EOF`; the classic form names what the sample
//! is called and knows no infos. All else is the same, so both are written here.

use std::fmt::Write;

use quell::observe::labels::Metric;

/// What scrapers can ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    OpenMetrics,
    Text,
}

impl Format {
    /// By the query, or by what the scraper accepts; OpenMetrics unless it wants only plain text.
    pub(crate) fn chosen(query: Option<&str>, accept: Option<&str>) -> Self {
        let asked =
            query.unwrap_or_default().split('&').find_map(|pair| pair.strip_prefix("format="));
        match (asked, accept) {
            (Some("text"), _) => Self::Text,
            (Some("openmetrics"), _) => Self::OpenMetrics,
            (_, Some(accept)) => {
                let open = accept.contains("application/openmetrics-text");
                if accept.contains("text/plain") && !open { Self::Text } else { Self::OpenMetrics }
            }
            _ => Self::OpenMetrics,
        }
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// How a metric's numbers are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
    Info,
}

impl Kind {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// A metric, how to read it, and what tells its series apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) metric: Metric,
    pub(crate) kind: Kind,
    pub(crate) labels: &'static [&'static str],
}

impl Row {
    /// A metric that is read so, told apart by these labels.
    pub(crate) const fn new(metric: Metric, kind: Kind, labels: &'static [&'static str]) -> Self {
        Self { metric, kind, labels }
    }
}

/// A label and its value.
pub(crate) type Label<'a> = (&'a str, &'a str);

/// A text that grows by one family after the other.
#[derive(Debug)]
pub(crate) struct Page {
    text: String,
    format: Format,
    /// Metrics that were begun.
    begun: Vec<Metric>,
}

impl Page {
    pub(crate) fn new(format: Format) -> Self {
        Self { text: String::new(), format, begun: Vec::new() }
    }

    /// Begins a family: all its samples follow before the next begins.
    pub(crate) fn family(&mut self, row: Row) -> Family<'_> {
        let Row { metric, kind, labels } = row;
        self.begun.push(metric);
        let (name, word) = match (self.format, kind) {
            (Format::OpenMetrics, Kind::Counter) => (metric.stem(), "counter"),
            (Format::OpenMetrics, Kind::Info) => {
                (metric.name.strip_suffix("_info").unwrap_or(metric.name), "info")
            }
            (Format::Text, Kind::Info) => (metric.name, "gauge"),
            _ => (metric.name, kind.word()),
        };
        let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
        self.put(format_args!("# HELP {name} {help}.\n# TYPE {name} {word}\n"));
        Family { page: self, name: metric.name, labels }
    }

    /// The metrics of the families so far.
    pub(super) fn begun(&self) -> &[Metric] {
        &self.begun
    }

    pub(crate) fn finish(mut self) -> String {
        if self.format == Format::OpenMetrics {
            self.text.push_str("# EOF\n");
        }
        self.text
    }

    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = self.text.write_fmt(text); // writing to a string cannot fail
    }
}

/// See [`Page::family`].
#[derive(Debug)]
pub(crate) struct Family<'a> {
    page: &'a mut Page,
    name: &'static str,
    labels: &'static [&'static str],
}

impl Family<'_> {
    pub(crate) fn sample(&mut self, labels: &[Label<'_>], value: f64) {
        self.line("", labels, None, value);
    }

    /// Counts of values up to each bound, of which the last is without bound, and their sum.
    pub(crate) fn histogram(
        &mut self,
        labels: &[Label<'_>],
        bounds: &[f64],
        counts: &[u64],
        sum: f64,
    ) {
        let mut so_far = 0;
        let bounds = bounds.iter().copied().chain([f64::INFINITY]);
        for (bound, count) in bounds.zip(counts) {
            so_far += count;
            self.line("_bucket", labels, Some(bound), so_far as f64);
        }
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, so_far as f64);
    }

    fn line(&mut self, suffix: &str, labels: &[Label<'_>], bound: Option<f64>, value: f64) {
        debug_assert!(
            labels.iter().map(|(label, _)| label).eq(self.labels),
            "{labels:?} of {}",
            self.name
        );
        let bound = bound.map(number);
        let bound = bound.as_deref().map(|bound| ("le", bound));
        self.page.put(format_args!("{}{suffix}", self.name));
        let mut before = '{';
        for (label, value) in labels.iter().copied().chain(bound) {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            self.page.put(format_args!("{before}{label}=\"{value}\""));
            before = ',';
        }
        let end = if before == ',' { "}" } else { "" };
        self.page.put(format_args!("{end} {}\n", number(value)));
    }
}

/// A number as both forms write it. Bounds of buckets have a point, as OpenMetrics wants them.
fn number(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        _ if value.is_nan() => "NaN".to_owned(),
        _ => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: Metric = Metric { name: "quell_done_total", help: "What is \\ done" };
    const WAIT: Metric = Metric { name: "quell_wait_seconds", help: "How long" };
    const BUILD: Metric = Metric { name: "quell_build_info", help: "Build" };

    fn page(format: Format) -> String {
        let mut page = Page::new(format);
        let row = |metric, kind, labels| Row { metric, kind, labels };
        page.family(row(DONE, Kind::Counter, &["route"])).sample(&[("route", "a \"b\"\n\\")], 3.0);
        page.family(row(WAIT, Kind::Histogram, &[])).histogram(&[], &[0.5], &[2, 1], 4.25);
        page.family(row(BUILD, Kind::Info, &["version"])).sample(&[("version", "1")], 1.0);
        page.finish()
    }

    #[test]
    fn openmetrics_names_families_and_ends() {
        let expected = "\
# HELP quell_done What is \\\\ done.
# TYPE quell_done counter
quell_done_total{route=\"a \\\"b\\\"\\n\\\\\"} 3
# HELP quell_wait_seconds How long.
# TYPE quell_wait_seconds histogram
quell_wait_seconds_bucket{le=\"0.5\"} 2
quell_wait_seconds_bucket{le=\"+Inf\"} 3
quell_wait_seconds_sum 4.25
quell_wait_seconds_count 3
# HELP quell_build Build.
# TYPE quell_build info
quell_build_info{version=\"1\"} 1
# EOF
";
        assert_eq!(page(Format::OpenMetrics), expected);
    }

    #[test]
    fn the_classic_form_names_samples_and_knows_no_infos() {
        let text = page(Format::Text);
        assert!(text.contains("# TYPE quell_done_total counter\n"), "{text}");
        assert!(text.contains("# TYPE quell_build_info gauge\n") && !text.contains("# EOF"));
    }

    #[test]
    fn scrapers_get_the_form_they_ask_for() {
        use Format::{OpenMetrics, Text};
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.4";
        for (query, accept, format) in [
            (None, None, OpenMetrics),
            (None, Some("*/*"), OpenMetrics),
            (None, Some(prometheus), OpenMetrics),
            (None, Some("text/plain;version=0.0.4"), Text),
            (Some("format=text"), Some(prometheus), Text),
            (Some("x=1&format=openmetrics"), Some("text/plain"), OpenMetrics),
        ] {
            assert_eq!(Format::chosen(query, accept), format, "{query:?} {accept:?}");
        }
    }

    #[test]
    fn no_number_breaks_the_line() {
        let shown = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.1, 1e300].map(number);
        assert_eq!(shown[..4], ["+Inf", "-Inf", "NaN", "0.1"]);
        assert!(shown[4].parse::<f64>().is_ok());
    }
}
