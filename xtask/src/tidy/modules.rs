//! Which modules of the command may know which.
//!
//! **Why.** A worker is to be served by the same admin side, reloads and logs as a gateway. That works only as long as what they
//! share does not reach back into one of them. Modules of one crate have no manifest that would say so, and one convenient import
//! is enough to tie them together again.
//!
//! **How.** A table of folders, and of the modules that no file in them may name, be it in an import or in a path. Tests are no
//! exception: a test of what is shared that needs a gateway shows that it is not.

use super::source::{Source, words};
use crate::violation::{Violation, line_at};
use crate::workspace::File;

/// Where files are, and the modules that they do not know.
const WALLS: &[(&str, &[&str])] = &[
    ("crates/quell-server/src/host/", &["admin", "gateway"]),
    ("crates/quell-server/src/admin/", &["gateway"]),
    ("crates/quell-server/src/admin.rs", &["gateway"]),
];

const FIX: &str = "let the host hand it over: see the trait Operations of the admin side, and Chores of host/side";

pub(super) fn check(source: &Source<'_>) -> Vec<Violation> {
    let path = source.file.path.as_str();
    let Some((room, unknown)) = WALLS.iter().find(|(room, _)| path.starts_with(room)) else {
        return Vec::new();
    };
    let mut violations = Vec::new();
    for module in *unknown {
        let mut lines: Vec<_> = paths(&source.code, module)
            .chain(imports(&source.code, module))
            .map(|offset| line_at(&source.code, offset))
            .collect();
        lines.sort_unstable();
        lines.dedup(); // an import with a path is one fault, not two
        violations.extend(lines.into_iter().map(|line| {
            let room = room.trim_start_matches("crates/");
            Violation::new(path, line, format!("{room} names the module {module}"), FIX)
        }));
    }
    violations
}

/// A room that moved would pass because nobody looks at it.
pub(super) fn check_rooms(files: &[File]) -> Vec<Violation> {
    let empty = WALLS.iter().filter(|(room, _)| !files.iter().any(|f| f.path.starts_with(room)));
    let tell = |(room, _): &(&str, _)| {
        let what = format!("{room} holds no file");
        Violation::new(file!(), 1, what, "name its new place in WALLS")
    };
    empty.map(tell).collect()
}

/// Where a path goes through the module, or ends in it.
fn paths<'a>(code: &'a str, module: &'a str) -> impl Iterator<Item = usize> + 'a {
    words(code, module).filter(move |&offset| {
        let (before, after) = (&code[..offset], &code[offset + module.len()..]);
        after.starts_with("::")
            || ["crate::", "super::", "quell_server::"].iter().any(|root| before.ends_with(root))
    })
}

/// Where an import names the module, braces or not.
fn imports<'a>(code: &'a str, module: &'a str) -> impl Iterator<Item = usize> + 'a {
    words(code, "use ").flat_map(move |start| {
        let statement = code[start..].split(';').next().unwrap_or_default();
        words(statement, module).map(move |offset| start + offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&Source::new(&File::new(path, text))).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_way_into_the_gateway_is_caught_however_it_is_written() {
        for (room, _) in WALLS {
            let path =
                if room.ends_with('/') { format!("{room}a/b.rs") } else { (*room).to_owned() };
            for text in [
                "use crate::gateway;",
                "use crate::gateway::plan::Plan;",
                "use crate::{\n    gateway::plan::Plan,\n    host,\n};",
                "use super::{gateway as g, host};",
                "fn f(plan: &crate::gateway::plan::Plan) {}",
                "use crate::gateway as g;",
                "#[cfg(test)]\nmod tests { use crate::gateway::kit; }",
                "fn f() { gateway::start() }",
            ] {
                assert_eq!(lines(&path, text).len(), 1, "{path}: {text}");
            }
        }
    }

    #[test]
    fn what_is_shared_is_below_the_admin_side() {
        assert_eq!(lines("crates/quell-server/src/host/a.rs", "\nuse crate::admin::x;\n"), [2]);
        assert_eq!(
            lines("crates/quell-server/src/admin/a.rs", "use crate::admin::x;\n"),
            [0_usize; 0]
        );
    }

    #[test]
    fn settings_variables_and_prose_may_be_called_gateway() {
        let text = "//! A gateway: crate::gateway.\nfn f() { let gateway = file.gateway.admin; }\n\
                    const A: &str = \"gateway::x\";\nuse crate::gateways::X;\n";
        assert_eq!(lines("crates/quell-server/src/admin/a.rs", text), [0_usize; 0]);
    }

    #[test]
    fn other_rooms_may_know_the_gateway() {
        let text = "use crate::gateway::plan::Plan;\n";
        assert_eq!(lines("crates/quell-server/src/explain/mod.rs", text), [0_usize; 0]);
    }

    #[test]
    fn a_room_that_moved_is_noticed() {
        let stays = File::new("crates/quell-server/src/host/mod.rs", "");
        assert_eq!(check_rooms(&[stays]).len(), WALLS.len() - 1);
    }
}
