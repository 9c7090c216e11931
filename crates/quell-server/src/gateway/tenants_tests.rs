//! Facts about who calls. Keys are known by what stands in files, as the environment cannot be changed by tests.

#![allow(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use super::*;

const SHOP: &str = "qk_5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";
const BANK: &str = "a-key-from-before-quell-that-nobody-can-guess";

/// A file that is gone with the test.
struct Kept(PathBuf);

impl Kept {
    fn new(text: &str) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "quell-tenants-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn hash(key: &str) -> Self {
        Self::new(&format!("{}\n", Hash::of(key.as_bytes())))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn read(text: &str, clock: &Clock) -> Result<Tenants, Invalid> {
    let config = Config::parse("quell.toml", &format!("version = 1\n{text}"), &[]).unwrap();
    Tenants::new(&config, clock)
}

fn tenant(name: &str, kept: &Kept, more: &str) -> String {
    format!("[tenant.{name}]\nkeys = [\"file:{}\"]\n{more}\n", kept.0.display())
}

/// A shop that is critical and has two requests, then one every five seconds; and a bank.
fn shop_and_bank(clock: &Clock) -> Tenants {
    let (shop, bank) = (Kept::hash(SHOP), Kept::hash(BANK));
    let limited = "rate_limit = { per_second = 0.2, burst = 2 }\npriority = \"critical\"";
    let text = tenant("shop", &shop, limited) + &tenant("bank", &bank, "");
    read(&text, clock).unwrap()
}

fn headers(fields: &[(&'static str, &str)]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, value.parse().unwrap());
    }
    headers
}

#[test]
fn a_known_key_names_its_tenant_and_ends_here() {
    let tenants = shop_and_bank(&Clock::manual());
    let bearer = |key: &str| format!("Bearer {key}");
    let cases = [
        (headers(&[("x-api-key", SHOP)]), "shop"),
        (headers(&[("x-api-key", BANK)]), "bank"),
        (headers(&[("authorization", &bearer(SHOP))]), "shop"),
        (headers(&[("authorization", &format!("bEARER   {BANK}"))]), "bank"),
        (headers(&[("x-api-key", BANK), ("authorization", &bearer(SHOP))]), "bank"),
    ];
    for (mut fields, name) in cases {
        let found = tenants.identify(&mut fields).unwrap().unwrap();
        assert_eq!(&*found.name, name);
        assert!(fields.is_empty(), "a key goes on: {fields:?}");
    }
    assert_eq!(tenants.get("shop").unwrap().priority, Priority::Critical);
    assert_eq!(tenants.get("bank").unwrap().priority, Priority::Default);
}

#[test]
fn what_is_meant_for_the_upstream_goes_on_as_it_is() {
    let tenants = shop_and_bank(&Clock::manual());
    let token = ("authorization", "Bearer eyJhbGciOi");
    let mut both = headers(&[("x-api-key", SHOP), token]);
    assert!(tenants.identify(&mut both).unwrap().is_some());
    assert_eq!(both, headers(&[token]));
    for strange in
        [token, ("authorization", "Basic cXVlbGw6"), ("authorization", "Bearer"), ("x-api-key", "")]
    {
        let mut fields = headers(&[strange]);
        assert!(tenants.identify(&mut fields).unwrap().is_none());
        assert_eq!(fields, headers(&[strange]));
    }
}

#[test]
fn a_key_of_ours_that_is_not_known_is_refused_wherever_it_stands() {
    let tenants = shop_and_bank(&Clock::manual());
    let near = format!("{}b", &SHOP[..SHOP.len() - 1]);
    let long = format!("qk_{}", "5a".repeat(4_000));
    for key in [near.as_str(), "qk_", &long] {
        let bearer = format!("Bearer {key}");
        for field in [("x-api-key", key), ("authorization", bearer.as_str())] {
            assert_eq!(tenants.identify(&mut headers(&[field])).err(), Some(Unauthorized));
        }
    }
    let twice = [("x-api-key", SHOP), ("x-api-key", SHOP)];
    assert_eq!(tenants.identify(&mut headers(&twice)).err(), Some(Unauthorized));
    let mut reply = HeaderMap::new();
    Unauthorized.write(&mut reply);
    assert_eq!(reply["www-authenticate"], "Bearer realm=\"quell\"");
    assert_eq!(Unauthorized::REASON.status(), 401);
}

#[test]
fn a_route_that_asks_nobody_still_passes_no_key_of_ours_on() {
    let bearer = format!("Bearer {SHOP}");
    let mut fields = headers(&[("x-api-key", SHOP), ("authorization", &bearer), ("accept", "*/*")]);
    conceal(&mut fields);
    assert_eq!(fields, headers(&[("accept", "*/*")]));
    let theirs = [("x-api-key", "theirs"), ("authorization", "Bearer theirs")];
    let mut fields = headers(&theirs);
    conceal(&mut fields);
    assert_eq!(fields, headers(&theirs));
}

#[test]
fn a_tenant_that_asks_too_often_is_told_when_to_return_and_others_pass() {
    let clock = Clock::manual();
    let tenants = shop_and_bank(&clock);
    let shop = tenants.get("shop").unwrap();
    let mut reply = HeaderMap::new();
    shop.admit().unwrap().write(&mut reply);
    assert_eq!(reply["ratelimit"], "\"tenant\";r=1;t=5");
    let _ = shop.admit().unwrap();
    let limited = shop.admit().unwrap_err();
    let wait = limited.wait.unwrap();
    assert!((5..=8).contains(&wait.as_secs()), "{wait:?}");
    let mut refusal = HeaderMap::new();
    limited.write(&mut refusal);
    assert_eq!(refusal["ratelimit"], format!("\"tenant\";r=0;t={}", wait.as_secs()));
    assert_eq!(refusal["ratelimit-policy"], "\"tenant\";q=2;w=10");
    for _ in 0..100 {
        tenants.get("bank").unwrap().admit().unwrap().write(&mut refusal);
    }
    assert_eq!(refusal.get_all("ratelimit").iter().count(), 1, "no limit, nothing to say");
    clock.advance(wait);
    assert!(shop.admit().is_ok());
}

/// X9.
#[test]
fn a_reload_changes_keys_and_numbers_and_hands_out_no_new_burst() {
    let clock = Clock::manual();
    let before = shop_and_bank(&clock);
    for _ in 0..2 {
        let _ = before.get("shop").unwrap().admit().unwrap();
    }
    let other = Kept::hash("qk_another");
    let text = tenant("shop", &other, "rate_limit = { per_second = 1, burst = 50 }");
    let after = before.follow(read(&text, &clock).unwrap());
    let mut fields = headers(&[("x-api-key", "qk_another")]);
    let shop = after.identify(&mut fields).unwrap().unwrap();
    assert_eq!((&*shop.name, shop.priority), ("shop", Priority::Default));
    assert!(shop.admit().is_err());
    assert!(
        after.identify(&mut headers(&[("x-api-key", SHOP)])).is_err(),
        "the old key is no more"
    );
    assert!(after.get("bank").is_none());
    clock.advance(Duration::from_secs(2));
    assert_eq!(shop.status().map(|status| (status.tokens, status.capacity)), Some((2, 50)));
}

/// O5.
#[test]
fn what_is_wrong_with_a_key_is_told_by_its_place_and_not_by_what_is_there() {
    let clock = Clock::manual();
    let (key, twice) = (Kept::new(SHOP), Kept::hash(BANK));
    let place = key.0.display();
    let cases = [
        (
            "[tenant.shop]\nkeys = [\"env:QUELL_TEST_NO_SUCH\"]".to_owned(),
            "tenant.shop.keys: env:QUELL_TEST_NO_SUCH cannot be read: it is not set".to_owned(),
        ),
        (
            tenant("shop", &key, ""),
            format!("tenant.shop.keys: what is in file:{place} is no hash: {}", key::NoHash),
        ),
        (
            tenant("a", &twice, "") + &tenant("b", &twice, ""),
            format!(
                "tenant.b.keys: file:{} has the hash of a key of tenant a: give each its own key",
                twice.0.display()
            ),
        ),
    ];
    for (text, expected) in cases {
        let error = read(&text, &clock).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(!format!("{error:?}").contains(SHOP));
    }
}
