//! Redact: what of an error's body may stand in a log.
//!
//! A service in trouble tells more than it should: the token that it could not check, the password in the address that it
//! could not reach. What follows a word for a secret is masked, and so is everything that looks like one. That takes
//! harmless numbers along, and cannot know every secret: bodies are not logged unless somebody asks for it.

const MASK: &str = "[masked]";
/// What is written after these is a secret, in whatever case.
const NAMES: [&str; 14] = [
    "authorization",
    "bearer",
    "basic",
    "cookie",
    "credential",
    "token",
    "secret",
    "password",
    "passwd",
    "pwd",
    "api_key",
    "api-key",
    "apikey",
    "session",
];
/// A word of letters and digits that is this long may be one.
const LONG: usize = 20;

/// The text without what may be a secret.
pub(super) fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // Whether a name was read whose value comes next.
    let mut named = false;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_part(c) != is_part(first)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        if !is_part(first) {
            out.push_str(run);
            // There its value ends. It may be of several words, as `Bearer abc` is.
            named &= !run.contains(['\n', '&', '}']) && !run.contains("\",");
            continue;
        }
        let is_name = is_name(run);
        if (named && !is_name) || looks_secret(run) {
            out.push_str(MASK);
        } else {
            out.push_str(run);
        }
        named |= is_name;
    }
    out
}

/// What words and tokens are made of.
fn is_part(c: char) -> bool {
    c.is_alphanumeric()
        || matches!(c, '_' | '-' | '+' | '/' | '.' | '~' | '%' | '@' | '$' | '!' | '#' | '*')
}

fn is_name(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    NAMES.iter().any(|name| word.contains(name)) && !looks_secret(&word)
}

fn looks_secret(word: &str) -> bool {
    let has = |of: fn(char) -> bool| word.chars().any(of);
    (word.len() >= LONG && has(|c| c.is_ascii_digit()) && has(char::is_alphabetic))
        || word.contains('@')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// O5.
    #[test]
    fn secrets_in_an_errors_body_are_masked() {
        let cases = [
            ("no such order", "no such order"),
            ("authorization: Bearer abc.def", "authorization: Bearer [masked]"),
            (r#"{"password":"hunter2"}"#, r#"{"password":"[masked]"}"#),
            (
                r#"{"error":"no","access_token":"x y","code":7}"#,
                r#"{"error":"no","access_token":"[masked] [masked]","code":7}"#,
            ),
            ("cookie: a=1; b=2\nat 7", "cookie: [masked]=[masked]; [masked]=[masked]\nat 7"),
            ("?api_key=12&page=3", "?api_key=[masked]&page=3"),
            ("key 8e03978e40d543e88bc9f25a5f1f5f9e unknown", "key [masked] unknown"),
            ("postgres://me:pw@db/x", "postgres://me:[masked]"),
            ("timeout after 5000 ms in payments", "timeout after 5000 ms in payments"),
        ];
        for (text, expected) in cases {
            assert_eq!(redact(text), expected);
        }
    }

    #[test]
    fn no_text_breaks_it() {
        for text in ["", "é€😀", "token", "token=", "=", "\u{0}\n\t", &"a1".repeat(5_000)] {
            redact(text);
        }
    }
}
