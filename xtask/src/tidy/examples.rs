//! Examples say how they are run, and the README shows nothing that is not one.
//!
//! **Why.** A README's code is the first that a stranger copies and the last that anyone compiles: it needs a client, a server
//! and a runtime that would bury the six lines worth reading. So those lines stand in an example as well, which
//! `cargo xtask test` runs.

use crate::violation::{Violation, line_at};
use crate::workspace::File;

/// Where examples live: one file each, so that their list is that of the files.
pub(crate) const FOLDER: &str = "crates/quell/examples/";
const README: &str = "README.md";

/// The name of an example, if this is one.
pub(crate) fn name(path: &str) -> Option<&str> {
    path.strip_prefix(FOLDER)?.strip_suffix(".rs").filter(|name| !name.contains('/'))
}

pub(super) fn check(files: &[File]) -> Vec<Violation> {
    let examples: Vec<_> =
        files.iter().filter_map(|file| Some((name(&file.path)?, file))).collect();
    let mut violations: Vec<_> =
        examples.iter().filter_map(|(name, file)| says_how(name, file)).collect();
    for file in files.iter().filter(|file| file.path == README) {
        for (line, block) in blocks(&file.text) {
            if !examples.iter().any(|(_, example)| squeezed(&example.text).contains(&block)) {
                let fix = format!("write the same lines in one of {FOLDER}, and have it run them");
                violations.push(Violation::new(README, line, "this Rust is in no example", fix));
            }
        }
    }
    violations
}

fn says_how(name: &str, file: &File) -> Option<Violation> {
    let first = file.text.lines().next().unwrap_or_default();
    let says = first.starts_with("//!")
        && first.contains("`cargo run -p quell ")
        && first.split([' ', '`', '.']).any(|word| word == name);
    (!says).then(|| {
        let fix = format!("write in it `cargo run -p quell --example {name}`, with its features");
        Violation::new(&file.path, 1, "the first line does not say how to run this", fix)
    })
}

/// The blocks of Rust in a document, each with its line.
fn blocks(text: &str) -> Vec<(usize, String)> {
    let starts = text.match_indices("```rust\n");
    let block = |(at, fence): (usize, &str)| {
        let rest = &text[at + fence.len()..];
        (line_at(text, at), squeezed(rest.split("\n```").next().unwrap_or_default()))
    };
    starts.map(block).collect()
}

/// Without what a formatter changes.
fn squeezed(text: &str) -> String {
    text.split_whitespace().collect::<String>().replace(",)", ")")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(text: &str) -> File {
        File::new("crates/quell/examples/pay.rs", text)
    }

    #[test]
    fn an_example_says_in_its_first_line_how_to_run_it() {
        for good in [
            "//! Pays: `cargo run -p quell --example pay`.\n",
            "//! Pays: `cargo run -p quell --features reqwest --example pay`.\n",
        ] {
            assert_eq!(check(&[example(good)]), []);
        }
        for bad in [
            "",
            "//! Pays.\n//! `cargo run -p quell --example pay`",
            "//! Pays: `cargo run -p quell --example payments`.",
        ] {
            assert_eq!(check(&[example(bad)]).len(), 1, "{bad}");
        }
        let elsewhere = File::new("crates/quell/examples/kit/pay.rs", "");
        assert_eq!(check(&[elsewhere]), []);
    }

    #[test]
    fn what_the_readme_shows_stands_in_an_example_however_it_is_laid_out() {
        let example = example(
            "//! `cargo run -p quell --example pay`\nfn main() {\n    pay(\n        1,\n    );\n}\n",
        );
        let readme = |text| File::new("README.md", text);
        let shown = readme("# A\n```rust\npay(1);\n```\n```toml\nb = 1\n```\n");
        assert_eq!(check(&[example.clone(), shown]), []);
        let other = readme("# A\n```rust\npay(2);\n```\n");
        let found = check(&[example, other]);
        assert_eq!((found.len(), found[0].line), (1, 2));
    }
}
