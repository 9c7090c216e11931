//! Described: what each setting means, in one line, for whoever hovers over it in an editor.
//!
//! The lines stand in `described.txt`, each after the place of its setting as the [schema](super::schema()) knows it: `upstream.*.host`. Two dots
//! at its beginning say that it means the same wherever it stands. A budget within a budget has the settings of a budget.

/// A place, a colon and what it means, a line each.
pub(super) const LINES: &str = include_str!("described.txt");

/// What a setting means, if anybody wrote it down.
pub(super) fn meaning(place: &str) -> Option<&'static str> {
    let place = place.replace(".inner.", ".").replace(".children.", ".budget.");
    let exact = lines().find(|(known, _)| *known == place);
    let anywhere = |known: &str| {
        let end = known.strip_prefix("..").and_then(|known| place.strip_suffix(known));
        end.is_some_and(|before| before.ends_with('.'))
    };
    exact.or_else(|| lines().find(|(known, _)| anywhere(known))).map(|(_, meaning)| meaning)
}

pub(super) fn lines() -> impl Iterator<Item = (&'static str, &'static str)> {
    LINES.lines().filter_map(|line| line.split_once(": "))
}
