//! Every crate takes the lints of its workspace, and every workspace forbids unsafe code.
//!
//! **Why.** Lints are inherited only by crates that say so: a new crate without the two lines compiles in peace, with
//! unsafe code and all.

use toml::{Table, Value};

use crate::violation::{Violation, line_where};
use crate::workspace::File;

pub(super) fn check(file: &File) -> Vec<Violation> {
    let manifest: Table = match toml::from_str(&file.text) {
        Ok(manifest) => manifest,
        Err(error) => {
            let what = format!("the manifest cannot be read ({})", error.message());
            return vec![Violation::new(&file.path, 1, what, "mend the TOML")];
        }
    };
    let mut violations = Vec::new();
    let inherits = at(&manifest, &["lints", "workspace"]).and_then(Value::as_bool) == Some(true);
    if manifest.contains_key("package") && !inherits {
        let line = line_where(&file.text, |line| line.starts_with("[lints"));
        let what = "the crate does not take the lints of the workspace";
        violations.push(Violation::new(&file.path, line, what, "write [lints] workspace = true"));
    }
    let level =
        at(&manifest, &["workspace", "lints", "rust", "unsafe_code"]).and_then(Value::as_str);
    if manifest.contains_key("workspace") && level != Some("forbid") {
        let line = line_where(&file.text, |line| line.starts_with("[workspace.lints.rust"));
        let what = "the workspace does not forbid unsafe code";
        violations.push(Violation::new(
            &file.path,
            line,
            what,
            "write unsafe_code = \"forbid\" in [workspace.lints.rust]",
        ));
    }
    violations
}

fn at<'a>(table: &'a Table, path: &[&str]) -> Option<&'a Value> {
    let (last, tables) = path.split_last()?;
    tables.iter().try_fold(table, |table, key| table.get(*key)?.as_table())?.get(*last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check(&File::new("Cargo.toml", text)).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn a_crate_that_takes_the_lints_passes_in_either_spelling() {
        assert_eq!(lines("[package]\nname = \"a\"\n[lints]\nworkspace = true\n"), [0_usize; 0]);
        assert_eq!(lines("lints.workspace = true\n[package]\nname = \"a\"\n"), [0_usize; 0]);
    }

    #[test]
    fn a_crate_without_the_lints_or_with_its_own_is_caught() {
        assert_eq!(lines("[package]\nname = \"a\"\n"), [1]);
        assert_eq!(lines("[package]\nname = \"a\"\n[lints]\nworkspace = false\n"), [3]);
        assert_eq!(lines("[package]\nname = \"a\"\n[lints.rust]\nunsafe_code = \"allow\"\n"), [3]);
    }

    #[test]
    fn a_workspace_that_does_not_forbid_unsafe_code_is_caught() {
        assert_eq!(lines("[workspace]\nmembers = []\n"), [1]);
        assert_eq!(lines("[workspace]\n[workspace.lints.rust]\nunsafe_code = \"deny\"\n"), [2]);
        assert_eq!(
            lines("[workspace]\n[workspace.lints.rust]\nunsafe_code = \"forbid\"\n"),
            [0_usize; 0]
        );
    }

    #[test]
    fn a_manifest_that_is_no_toml_is_a_violation_and_no_crash() {
        assert_eq!(lines("[package\n"), [1]);
    }
}
