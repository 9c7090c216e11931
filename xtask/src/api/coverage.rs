//! Which public items have an example that compiles: their own, or that of their type or module.
//!
//! **Why.** Whoever meets an item for the first time wants to see it used. A type's example shows its methods and a module's
//! example its types, so one good example serves many; the crate's own is too far away to count.

use std::collections::BTreeMap;

use rustdoc_types::{Crate, Id, Item, ItemEnum, Visibility};

/// What is found out about one item, under its shortest name.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Found {
    kind: &'static str,
    path: String,
    documented: bool,
    /// In itself, or in what it was reached through.
    example: bool,
}

/// What has no docs and what has no example, and the shares of both.
pub(super) fn report(krate: &Crate) -> String {
    let mut walk = Walk { krate, found: BTreeMap::new() };
    walk.visit(&krate.root, &Above::default());
    let mut items: Vec<_> = walk.found.into_values().collect();
    items.sort_by(|a, b| a.path.cmp(&b.path));
    let lacking = |title: &str, lacks: &dyn Fn(&Found) -> bool| {
        let lines: Vec<_> = items.iter().filter(|item| lacks(item)).map(Found::line).collect();
        let with = items.len() - lines.len();
        let share = 100 * with / items.len().max(1);
        format!("{title}: {with} of {} items ({share} %)", items.len())
            + if lines.is_empty() { "\n" } else { "; not:\n" }
            + &lines.concat()
    };
    lacking("docs", &|item| !item.documented)
        + &lacking("example in the item, its type or its module", &|item| !item.example)
}

impl Found {
    fn line(&self) -> String {
        format!("  {} {}\n", self.kind, self.path)
    }
}

/// What an item was reached through.
#[derive(Debug, Clone, Default)]
struct Above {
    path: Vec<String>,
    example: bool,
}

struct Walk<'a> {
    krate: &'a Crate,
    found: BTreeMap<Id, Found>,
}

impl Walk<'_> {
    fn visit(&mut self, id: &Id, above: &Above) {
        let Some(item) = self.krate.index.get(id) else { return }; // of another crate
        if let ItemEnum::Use(used) = &item.inner {
            self.follow(used, above);
            return;
        }
        let Some((kind, below)) = parts(self.krate, item) else { return };
        let mut path = above.path.clone();
        path.extend(item.name.clone());
        let docs = item.docs.as_deref().unwrap_or_default();
        let example = above.example || has_example(docs);
        let found = Found { kind, path: path.join("::"), documented: !docs.is_empty(), example };
        match self.found.get_mut(id) {
            // A second name that shows nothing new; this also ends circles.
            Some(known) if known.example || !example => return,
            Some(known) => known.example = true,
            None => drop(self.found.insert(*id, found)),
        }
        let above = Above { path, example: example && *id != self.krate.root };
        for id in below {
            self.visit(&id, &above);
        }
    }

    /// A re-export: the item itself under another name, or everything in a module.
    fn follow(&mut self, used: &rustdoc_types::Use, above: &Above) {
        let Some(target) = used.id.as_ref().and_then(|id| self.krate.index.get(id)) else { return };
        match &target.inner {
            ItemEnum::Module(module) if used.is_glob => {
                module.items.iter().for_each(|id| self.visit(id, above));
            }
            _ => self.visit(&target.id, above),
        }
    }
}

/// What an item counts as, and what is below it; nothing for fields, variants and the like.
fn parts(krate: &Crate, item: &Item) -> Option<(&'static str, Vec<Id>)> {
    let public =
        |id: &Id| krate.index.get(id).is_some_and(|item| item.visibility == Visibility::Public);
    let methods = |impls: &[Id]| {
        let inherent = |id: &Id| match krate.index.get(id).map(|item| &item.inner) {
            Some(ItemEnum::Impl(found)) if found.trait_.is_none() => found.items.clone(),
            _ => Vec::new(),
        };
        impls.iter().flat_map(inherent).filter(public).collect()
    };
    Some(match &item.inner {
        ItemEnum::Module(module) => ("mod", module.items.clone()),
        ItemEnum::Struct(found) => ("struct", methods(&found.impls)),
        ItemEnum::Enum(found) => ("enum", methods(&found.impls)),
        ItemEnum::Union(found) => ("union", methods(&found.impls)),
        ItemEnum::Trait(found) => ("trait", found.items.clone()),
        ItemEnum::Function(_) => ("fn", Vec::new()),
        ItemEnum::TypeAlias(_) => ("type", Vec::new()),
        ItemEnum::Macro(_) | ItemEnum::ProcMacro(_) => ("macro", Vec::new()),
        _ => return None,
    })
}

/// Whether a comment has a block of Rust that is compiled.
fn has_example(docs: &str) -> bool {
    let mut inside = false;
    docs.lines().filter_map(|line| line.trim_start().strip_prefix("```")).any(|words| {
        inside = !inside;
        inside && words.split(',').all(|word| is_rust(word.trim()))
    })
}

fn is_rust(word: &str) -> bool {
    matches!(word, "" | "rust" | "no_run" | "should_panic") || word.starts_with("edition")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_of_rust_is_an_example_and_one_of_text_is_not() {
        for docs in [
            "```\na\n```",
            "x\n```rust\n```",
            "  ```no_run,edition2024\n```",
            "```text\n```\n```\n```",
        ] {
            assert!(has_example(docs), "{docs}");
        }
        for docs in ["", "a", "```toml\na\n```", "```ignore\n```", "```text\na\n```\nb"] {
            assert!(!has_example(docs), "{docs}");
        }
    }

    /// A crate `c` with a module `m` that holds a type with one method and a function, as rustdoc writes it.
    fn krate(module: &str, ty: &str, method: &str) -> Crate {
        let item = |id: u32, name: &str, docs: &str, inner: &str| {
            format!(
                r#""{id}": {{"id": {id}, "crate_id": 0, "name": "{name}", "span": null, "visibility": "public", "docs": "{docs}",
                "links": {{}}, "attrs": [], "deprecation": null, "inner": {inner}}}"#
            )
        };
        let generics = r#""generics": {"params": [], "where_predicates": []}"#;
        let function = format!(
            r#"{{"function": {{"sig": {{"inputs": [], "output": null, "is_c_variadic": false}}, {generics},
            "header": {{"is_const": false, "is_unsafe": false, "is_async": false, "abi": "Rust"}}, "has_body": true}}}}"#
        );
        let index = [
            item(
                0,
                "c",
                "```\\n```",
                r#"{"module": {"is_crate": true, "items": [1], "is_stripped": false}}"#,
            ),
            item(
                1,
                "m",
                module,
                r#"{"module": {"is_crate": false, "items": [2, 3], "is_stripped": false}}"#,
            ),
            item(
                2,
                "T",
                ty,
                &format!(r#"{{"struct": {{"kind": "unit", {generics}, "impls": [4]}}}}"#),
            ),
            item(3, "f", "words", &function),
            item(
                4,
                "",
                "",
                &format!(
                    r#"{{"impl": {{"is_unsafe": false, {generics}, "provided_trait_methods": [], "trait": null, "for": {{"generic": "T"}},
                    "items": [5], "is_negative": false, "is_synthetic": false, "blanket_impl": null}}}}"#
                ),
            ),
            item(5, "go", method, &function),
        ];
        let json = format!(
            r#"{{"root": 0, "crate_version": null, "includes_private": false, "index": {{{}}}, "paths": {{}}, "external_crates": {{}},
            "target": {{"triple": "", "target_features": []}}, "format_version": 57}}"#,
            index.join(",")
        );
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn an_example_serves_what_is_below_it_and_that_of_the_crate_does_not_count() {
        let example = "words\\n```\\n```";
        let lacking = |module, ty, method| {
            let report = report(&krate(module, ty, method));
            let lines = report.lines().skip_while(|line| !line.starts_with("example")).skip(1);
            lines.map(|line| line.trim().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            lacking("words", "words", "words"),
            ["mod c::m", "struct c::m::T", "fn c::m::T::go", "fn c::m::f"]
        );
        assert_eq!(lacking("words", example, "words"), ["mod c::m", "fn c::m::f"]);
        assert_eq!(
            lacking("words", "words", example),
            ["mod c::m", "struct c::m::T", "fn c::m::f"]
        );
        assert!(lacking(example, "words", "words").is_empty());
    }

    #[test]
    fn what_has_no_docs_is_named() {
        let report = report(&krate("words", "", "words"));
        assert!(
            report.starts_with("docs: 4 of 5 items (80 %); not:\n  struct c::m::T\n"),
            "{report}"
        );
    }
}
