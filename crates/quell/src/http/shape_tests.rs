use std::collections::HashSet;

use ::http::Method;

use super::*;

fn shape(path: &str) -> String {
    Shape::new(&Method::GET, path).to_string()[4..].to_owned()
}

#[test]
fn what_looks_like_an_identifier_is_a_star() {
    for id in [
        "7",
        "1234567890",
        "0123abcd",
        "deadbeef1",
        "550e8400-e29b-41d4-a716-446655440000",
        "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "V1StGXR8_Z5jdHi6B-myT",
        "dGhpcyBpcyBhIHRva2Vu1",
        "order-12345",
        "inv_2024_7",
        "2024-01-31",
        "a12b3",
        "aB3dE9xK",
        "ann@example.com",
        "%E6%97%A5%E6%9C%AC",
        "a-title-that-is-so-long-that-nobody-chose-it-as-a-path",
    ] {
        assert_eq!(shape(&format!("/a/{id}/b")), "/a/*/b", "{id}");
    }
}

#[test]
fn words_stay_as_they_are() {
    for word in [
        "v1",
        "v2beta1",
        "oauth2",
        "ipv6",
        "base64",
        "sha256",
        "x509",
        "facade",
        "deadbeef",
        "products-of-the-week",
        "getUserProfileByName",
        "index.html",
        "shop.v1.Shop",
        ".well-known",
        "projects:run",
        "_search",
    ] {
        assert_eq!(shape(&format!("/{word}")), format!("/{word}"));
    }
}

#[test]
fn a_long_path_is_cut_and_empty_segments_do_not_count() {
    assert_eq!(shape("/a/b/c/d/e/f/g/h"), "/a/b/c/d/e/f/g/h");
    assert_eq!(shape("/a/b/c/d/e/f/g/h/i/j"), "/a/b/c/d/e/f/g/h/…");
    assert_eq!(shape("//a///b/"), "/a/b");
    assert_eq!((shape("/"), shape(""), shape("//")), ("/".into(), "/".into(), "/".into()));
    assert_eq!(shape("*"), "/*"); // what OPTIONS asks for
}

#[test]
fn paths_have_one_key_where_they_have_one_shape_and_only_there() {
    let mut seen = std::collections::HashMap::new();
    let words = ["", "a", "b", "ab", "7", "8", "orders", "v1", "x/9", "x/y", "1/2/3/4/5/6/7/8/9"];
    for method in [Method::GET, Method::POST, Method::PUT] {
        for first in words {
            for second in words {
                let path = format!("/{first}/{second}");
                let shape = Shape::new(&method, &path);
                let key = seen.entry(shape.to_string()).or_insert_with(|| shape.key(7));
                assert_eq!(shape.key(7), *key, "{shape}");
            }
        }
    }
    let keys: HashSet<_> = seen.values().collect();
    assert_eq!(keys.len(), seen.len());
}

#[test]
fn nothing_that_a_caller_writes_breaks_it() {
    let long = "9".repeat(100_000);
    assert_eq!(shape(&format!("/{long}")), "/*");
    assert_eq!(shape(&format!("/{}", "-".repeat(300))), "/*");
    assert_ne!(Shape::new(&Method::GET, &"/x".repeat(10_000)).key(0), 0);
}
