use http::header::TRANSFER_ENCODING;
use http::{Request, Response};

use super::*;

fn parts_of(fields: &[(&str, &str)]) -> request::Parts {
    let mut request = Request::put("/x?y");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn written(fields: &[(&str, &str)], host: Option<&str>, body: Framing) -> String {
    let mut out = Vec::new();
    let host = host.map(|host| host.parse().unwrap());
    let added = [(HeaderName::from_static("via"), HeaderValue::from_static("us"))];
    let terms = Terms { host: host.as_ref(), added: &added, may_replace: true };
    write_request(&mut out, &parts_of(fields), terms, body);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_request_is_framed_by_what_is_known_of_its_body() {
    let plain = written(&[("host", "a"), ("via", "them")], None, Framing::Over);
    assert_eq!(plain, "PUT /x?y HTTP/1.1\r\nhost: a\r\nvia: us\r\n\r\n");
    let own = written(&[("host", "a"), ("content-length", "3")], Some("b:1"), Framing::Length(3));
    assert_eq!(own, "PUT /x?y HTTP/1.1\r\nhost: b:1\r\ncontent-length: 3\r\nvia: us\r\n\r\n");
    let whole = written(&[("host", "a")], None, Framing::Length(3));
    assert!(whole.ends_with("\r\ncontent-length: 3\r\n\r\n"), "{whole}");
    let chunked = written(&[("content-length", "3"), ("te", "trailers")], None, Framing::CHUNKED);
    assert_eq!(
        chunked,
        "PUT /x?y HTTP/1.1\r\nconnection: te\r\nte: trailers\r\nvia: us\r\ntransfer-encoding: chunked\r\n\r\n"
    );
}

fn answered(fields: &[(&str, &str)], body: Framing, version: Version, keep: bool) -> String {
    let mut reply = Response::builder().status(200);
    for (name, value) in fields {
        reply = reply.header(*name, *value);
    }
    let (parts, ()) = reply.body(()).unwrap().into_parts();
    let (mut out, date) = (Vec::new(), Date::default());
    let length = (body == Framing::Over).then_some(0);
    write_reply(&mut out, &parts, Manner { body, length, keep, version, date: &date });
    String::from_utf8(out).unwrap()
}

#[test]
fn a_reply_says_how_long_it_is_when_it_was_made_and_whether_more_may_follow() {
    let dated = [("date", "then"), ("content-length", "2")];
    let plain = answered(&dated, Framing::Length(2), Version::HTTP_11, true);
    assert_eq!(plain, "HTTP/1.1 200 OK\r\ndate: then\r\ncontent-length: 2\r\n\r\n");
    let empty = answered(&[], Framing::Over, Version::HTTP_11, true);
    assert!(empty.contains("content-length: 0\r\n") && empty.contains("\r\ndate: "), "{empty}");
    let old = answered(&dated, Framing::Length(2), Version::HTTP_10, true);
    assert!(old.ends_with("connection: keep-alive\r\n\r\n"), "{old}");
    let last = answered(&dated, Framing::CHUNKED, Version::HTTP_11, false);
    assert!(last.ends_with("transfer-encoding: chunked\r\nconnection: close\r\n\r\n"), "{last}");
    assert!(!last.contains("content-length"), "{last}");
}

#[test]
fn a_length_that_is_not_the_bodys_own_is_not_repeated() {
    let wrong = answered(&[("content-length", "9")], Framing::Length(2), Version::HTTP_11, true);
    assert!(wrong.contains("content-length: 2\r\n") && !wrong.contains("length: 9"), "{wrong}");
}

#[test]
fn trailers_and_interim_replies_frame_nothing() {
    let mut out = Vec::new();
    let fields = [("sum", "1"), ("content-length", "5"), ("transfer-encoding", "chunked")];
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.insert(name, HeaderValue::from_static(value));
    }
    let rules = FieldRules {
        may_trail: |name| *name != CONTENT_LENGTH && *name != TRANSFER_ENCODING,
        ..FieldRules::ANY
    };
    write_end(&mut out, Some(&map), &rules);
    write_interim(&mut out, StatusCode::EARLY_HINTS, &map, &rules);
    let expected = "0\r\nsum: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\nsum: 1\r\n\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
