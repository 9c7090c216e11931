//! The report: one HTML file that says it all, without a network, in light and dark.

pub(crate) mod heat;
mod lanes;

use std::path::Path;

use anyhow::Context;
use quell_charts::{
    bars::{Group, bars},
    svg::escape,
};

use super::{Job, columns, heading_facts, layers};

const STYLE: &str = include_str!("style.css");

/// A page of sections.
#[derive(Debug)]
pub(crate) struct Page {
    title: String,
    intro: String,
    sections: Vec<String>,
}

impl Page {
    /// An empty page.
    pub(crate) fn new(title: &str, intro: &str) -> Self {
        Self { title: escape(title), intro: escape(intro), sections: Vec::new() }
    }

    /// Adds what all jobs came to, one section per scenario.
    pub(crate) fn jobs(&mut self, jobs: &[Job<'_>]) {
        for jobs in jobs.chunk_by(|a, b| a.plan.name == b.plan.name) {
            self.sections.push(scenario(jobs));
        }
    }

    /// Adds a section that is already written.
    pub(crate) fn section(&mut self, html: String) {
        self.sections.push(html);
    }

    /// Writes the whole file.
    pub(crate) fn write(&self, path: &Path, footer: &str) -> anyhow::Result<()> {
        std::fs::write(path, self.html(footer))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// The whole file.
    fn html(&self, footer: &str) -> String {
        let Self { title, intro, sections } = self;
        let (body, footer) = (sections.concat(), escape(footer));
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
             <title>{title}</title>\n<style>\n{STYLE}</style></head>\n<body><main>\
             <header><h1>{title}</h1><p>{intro}</p></header>\n{body}\n<footer>{footer}</footer></main></body></html>\n"
        )
    }
}

/// One scenario: who healed, the figures, goodput side by side, and what happened inside.
fn scenario(jobs: &[Job<'_>]) -> String {
    let Some(first) = jobs.first() else { return String::new() };
    let facts = heading_facts(first.plan)
        .map(|(name, value)| format!("<li>{} <b>{}</b></li>", escape(name), escape(&value)));
    let most = lanes::most(jobs);
    let multiples = jobs.iter().map(|job| {
        format!(
            "<div class=\"card\">{}{}</div>",
            title(job),
            lanes::goodput(job, (360.0, 170.0), most)
        )
    });
    let inside = jobs.iter().enumerate().map(|(i, job)| {
        // The two ends of the comparison are open, the others a click away.
        let open = if i == 0 || i + 1 == jobs.len() { " open" } else { "" };
        format!(
            "<details class=\"card\"{open}><summary><h3>{}</h3>{}<span class=\"note\">{}</span></summary>\
             <div class=\"lanes\">{}</div></details>",
            escape(job.who.label()),
            pill(job),
            escape(&job.check.to_string()),
            lanes::all(job)
        )
    });
    format!(
        "<section id=\"{0}\"><h2>{0}</h2><p class=\"note\">{1}</p><ul class=\"facts\">{2}</ul>\
         <div class=\"card wide\">{3}</div>{6}\
         <div class=\"panels\">{4}</div>{5}</section>",
        escape(&first.plan.name),
        escape(&says(jobs)),
        facts.concat(),
        table(jobs),
        multiples.collect::<String>(),
        inside.collect::<String>(),
        by_layer(jobs),
    )
}

/// What reached each service, if there are several.
fn by_layer(jobs: &[Job<'_>]) -> String {
    let rows = layers::rows(jobs);
    if rows.is_empty() {
        return String::new();
    }
    let names: String =
        layers::COLUMNS.iter().map(|name| format!("<th>{}</th>", escape(name))).collect();
    let rows = rows.iter().map(|(label, cells)| {
        let cells = cells.iter().map(|cell| format!("<td>{}</td>", escape(cell)));
        let first = if label.is_empty() { "" } else { " class=\"first\"" };
        format!("<tr{first}><td>{}</td>{}</tr>", escape(label), cells.collect::<String>())
    });
    format!(
        "<div class=\"card wide layers\"><table><thead><tr><th></th>{names}</tr></thead><tbody>{}</tbody></table></div>\
         <div class=\"card bars\"><h3>Sends per user, layer by layer (dotted: one)</h3>{}</div>",
        rows.collect::<String>(),
        sends(jobs),
    )
}

/// Attempts per user that reached each service, from the outage's start on, one group of bars per policy.
fn sends(jobs: &[Job<'_>]) -> String {
    fn group<'a>(job: &'a Job<'_>) -> Group<'a> {
        let sends = layers::sends(&job.runs).into_iter().enumerate();
        let bars = sends.map(|(i, value)| (layers::name(job.plan, i), value)).collect();
        Group { label: job.who.label(), bars }
    }
    bars("sends per user, layer by layer", &jobs.iter().map(group).collect::<Vec<_>>())
}

/// The finding in a sentence or two.
fn says(jobs: &[Job<'_>]) -> String {
    let heals = |job: &&Job<'_>| job.runs.iter().all(|run| run.summary.verdict.healed());
    let (healed, down): (Vec<_>, Vec<_>) = jobs.iter().partition(heals);
    let names =
        |jobs: &[&Job<'_>]| jobs.iter().map(|job| job.who.label()).collect::<Vec<_>>().join(", ");
    match (healed.as_slice(), down.as_slice()) {
        ([], _) => "Nobody heals.".to_owned(),
        (_, []) => "Everybody heals.".to_owned(),
        (healed, down) => format!("Heals: {}. Does not: {}.", names(healed), names(down)),
    }
}

fn title(job: &Job<'_>) -> String {
    format!("<div class=\"title\"><h3>{}</h3>{}</div>", escape(job.who.label()), pill(job))
}

fn pill(job: &Job<'_>) -> String {
    let class = job.runs.first().map_or("unclear", |run| run.summary.verdict.as_str());
    format!("<span class=\"pill {class}\">{}</span>", escape(&job.verdict()))
}

fn table(jobs: &[Job<'_>]) -> String {
    let names: String =
        columns(jobs).iter().map(|name| format!("<th>{}</th>", escape(name))).collect();
    let rows = jobs.iter().map(|job| {
        let cells = job.figures().into_iter().map(|cell| format!("<td>{}</td>", escape(&cell)));
        format!(
            "<tr><td>{}</td><td>{}</td>{}</tr>",
            escape(job.who.label()),
            pill(job),
            cells.collect::<String>()
        )
    });
    format!(
        "<table><thead><tr><th></th>{names}</tr></thead><tbody>{}</tbody></table>",
        rows.collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use quell_sim::precheck::Precheck;

    use super::*;
    use crate::sim::file;

    /// Three services in a row; the last stalls.
    const CHAIN: &str = r#"
version = 1
[scenario.chain]
load = "100/s"
instances = 4
patience = "1s"
service = { workers = 60, time = "100ms" }
calls = [{ to = "orders" }]
outage = { kind = "brownout", share = 0.0, at = "20s", length = "10s" }
watch = "40s"
against = ["naive", "client"]
[scenario.chain.behind.orders]
workers = 40
time = "100ms"
calls = [{ to = "stock" }]
[scenario.chain.behind.stock]
workers = 12
time = "100ms"
faults = { kind = "stall", at = "20s", length = "10s" }
"#;

    #[test]
    fn a_chain_is_shown_layer_by_layer() {
        let plans = file::parse(CHAIN).unwrap();
        let plan = &plans[0];
        let jobs = plan.against.iter().map(|who| {
            let runs = vec![quell_sim::run(&who.scenario, 1).unwrap()];
            let check = Precheck::of(&who.scenario).unwrap();
            Job { plan, who, check, runs, price: Some(0.002) }
        });
        let jobs: Vec<_> = jobs.collect();
        let mut page = Page::new("A chain", "");
        page.jobs(&jobs);
        let html = page.html("");
        assert_eq!(html.matches("class=\"bar ").count(), 2 * 3, "a bar per service and policy");
        for name in ["service", "orders", "stock"] {
            let lane = format!("attempts at {name} per second</title>");
            assert_eq!(html.matches(&lane).count(), 2);
        }
        assert!(html.contains("cost/1,000") && !html.contains("NaN"));
        let table = layers::table(&jobs).unwrap().to_string();
        assert_eq!(table.lines().count(), 2 + 2 * 3, "{table}");
    }
}
