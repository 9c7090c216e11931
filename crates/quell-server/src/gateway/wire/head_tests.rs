use super::*;

fn told(bytes: &str) -> Result<Option<Told>, Broken> {
    reply(&mut BytesMut::from(bytes), &Method::GET)
}

fn coded(fields: &str) -> Result<(Coded, bool), String> {
    let told = told(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")).map_err(|e| e.to_string())?;
    told.map(|told| (told.coded, told.keep)).ok_or_else(|| "unfinished".into())
}

#[test]
fn a_request_becomes_what_it_says_and_its_body_stays_behind() {
    let text =
        "POST /a?b=c HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nx-one:  2 \r\nContent-Length: 3\r\n\r\nabc";
    let mut bytes = BytesMut::from(text);
    let Asked { parts, coded, keep, expects } = request(&mut bytes).unwrap();
    assert_eq!((parts.method, parts.uri.to_string().as_str()), (Method::POST, "/a?b=c"));
    assert!(parts.headers.get_all("x-one").iter().eq(["1", "2"]));
    assert_eq!(parts.headers.len(), 4);
    assert_eq!((coded, keep, expects), (Coded::Length(3), true, false));
    assert_eq!(bytes, "abc");
}

#[test]
fn who_waits_for_our_word_has_something_to_send() {
    let asked = |text: &str| request(&mut BytesMut::from(text)).unwrap().expects;
    assert!(asked("PUT / HTTP/1.1\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n"));
    assert!(!asked("PUT / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n"));
    assert!(!asked("PUT / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"));
}

#[test]
fn a_connection_stays_unless_its_version_or_its_words_say_otherwise() {
    let keeps = |version: &str, said: &str| {
        let text = format!("GET / {version}\r\n{said}\r\n");
        request(&mut BytesMut::from(text.as_str())).unwrap().keep
    };
    assert!(keeps("HTTP/1.1", "") && !keeps("HTTP/1.0", ""));
    assert!(!keeps("HTTP/1.1", "Connection: te, Close\r\n"));
    assert!(keeps("HTTP/1.0", "Connection: Keep-Alive\r\n"));
    assert!(!keeps("HTTP/1.0", "Connection: keep-alive\r\nConnection: close\r\n"));
}

#[test]
fn where_a_reply_ends_is_told_by_one_of_its_fields() {
    assert_eq!(coded("Content-Length: 7\r\n"), Ok((Coded::Length(7), true)));
    assert_eq!(coded("Content-Length: 7\r\nContent-Length: 7\r\n"), Ok((Coded::Length(7), true)));
    assert_eq!(coded("Content-Length: 0\r\n"), Ok((Coded::Over, true)));
    assert_eq!(coded("Transfer-Encoding: chunked\r\n"), Ok((Coded::CHUNKED, true)));
    assert_eq!(coded("Transfer-Encoding: Chunked\r\n"), Ok((Coded::CHUNKED, true)));
    assert!(coded("Transfer-Encoding: gzip, chunked\r\n").is_err(), "undone by nobody");
    assert_eq!(coded("Transfer-Encoding: gzip\r\n"), Ok((Coded::UntilEnd, false)));
    assert_eq!(coded(""), Ok((Coded::UntilEnd, false)));
}

/// H12, from the other side: an upstream that says two things is not believed, or not used again.
#[test]
fn a_reply_that_can_be_read_in_two_ways_is_none_or_the_last_on_its_connection() {
    let both = "Content-Length: 7\r\nTransfer-Encoding: chunked\r\n";
    assert_eq!(coded(both), Ok((Coded::CHUNKED, false)));
    let told = told(&format!("HTTP/1.1 200 OK\r\n{both}\r\n")).unwrap().unwrap();
    assert!(!told.parts.headers.contains_key(CONTENT_LENGTH));
    for length in ["7\r\nContent-Length: 8", "+7", "", "7, 7", "9999999999999999999"] {
        assert!(coded(&format!("Content-Length: {length}\r\n")).is_err(), "{length}");
    }
}

#[test]
fn replies_without_bodies_have_none_whatever_they_say() {
    for (status, method) in [(204, "GET"), (304, "GET"), (103, "GET"), (200, "HEAD")] {
        let mut bytes =
            BytesMut::from(format!("HTTP/1.1 {status} x\r\nContent-Length: 9\r\n\r\n").as_str());
        let told = reply(&mut bytes, &method.parse().unwrap()).unwrap().unwrap();
        assert_eq!((told.coded, told.keep), (Coded::Over, true), "{status}");
        assert_eq!(told.parts.headers[CONTENT_LENGTH], "9", "which is true of another request");
    }
}

#[test]
fn a_head_is_read_only_when_it_is_whole() {
    let text = "HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 2\r\n\r\n";
    for end in 0..text.len() {
        assert!(told(&text[..end]).unwrap().is_none(), "{end}");
    }
    assert!(told(text).unwrap().is_some());
    assert!(told("HTTP/1.1 99 x\r\n\r\n").is_err() && told("nonsense\r\n\r\n").is_err());
}

fn parts_of(fields: &[(&str, &str)]) -> request::Parts {
    let mut request = Request::put("/x?y");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0
}

fn written(fields: &[(&str, &str)], host: Option<&str>, body: Coded) -> String {
    let mut out = Vec::new();
    let host = host.map(|host| host.parse().unwrap());
    let added = [(HeaderName::from_static("via"), HeaderValue::from_static("us"))];
    let terms = Terms { host: host.as_ref(), added: &added, may_replace: true };
    write_request(&mut out, &parts_of(fields), terms, body);
    String::from_utf8(out).unwrap()
}

#[test]
fn a_request_is_framed_by_what_is_known_of_its_body() {
    let plain = written(&[("host", "a"), ("via", "them")], None, Coded::Over);
    assert_eq!(plain, "PUT /x?y HTTP/1.1\r\nhost: a\r\nvia: us\r\n\r\n");
    let own = written(&[("host", "a"), ("content-length", "3")], Some("b:1"), Coded::Length(3));
    assert_eq!(own, "PUT /x?y HTTP/1.1\r\nhost: b:1\r\ncontent-length: 3\r\nvia: us\r\n\r\n");
    let whole = written(&[("host", "a")], None, Coded::Length(3));
    assert!(whole.ends_with("\r\ncontent-length: 3\r\n\r\n"), "{whole}");
    let chunked = written(&[("content-length", "3"), ("te", "trailers")], None, Coded::CHUNKED);
    assert_eq!(
        chunked,
        "PUT /x?y HTTP/1.1\r\nconnection: te\r\nte: trailers\r\nvia: us\r\ntransfer-encoding: chunked\r\n\r\n"
    );
}

fn answered(fields: &[(&str, &str)], body: Coded, version: Version, keep: bool) -> String {
    let mut reply = Response::builder().status(200);
    for (name, value) in fields {
        reply = reply.header(*name, *value);
    }
    let (parts, ()) = reply.body(()).unwrap().into_parts();
    let (mut out, date) = (Vec::new(), Date::default());
    let length = (body == Coded::Over).then_some(0);
    write_reply(&mut out, &parts, Manner { body, length, keep, version, date: &date });
    String::from_utf8(out).unwrap()
}

#[test]
fn a_reply_says_how_long_it_is_when_it_was_made_and_whether_more_may_follow() {
    let dated = [("date", "then"), ("content-length", "2")];
    let plain = answered(&dated, Coded::Length(2), Version::HTTP_11, true);
    assert_eq!(plain, "HTTP/1.1 200 OK\r\ndate: then\r\ncontent-length: 2\r\n\r\n");
    let empty = answered(&[], Coded::Over, Version::HTTP_11, true);
    assert!(empty.contains("content-length: 0\r\n") && empty.contains("\r\ndate: "), "{empty}");
    let old = answered(&dated, Coded::Length(2), Version::HTTP_10, true);
    assert!(old.ends_with("connection: keep-alive\r\n\r\n"), "{old}");
    let last = answered(&dated, Coded::CHUNKED, Version::HTTP_11, false);
    assert!(last.ends_with("transfer-encoding: chunked\r\nconnection: close\r\n\r\n"), "{last}");
    assert!(!last.contains("content-length"), "{last}");
}

#[test]
fn a_length_that_is_not_the_bodys_own_is_not_repeated() {
    let wrong = answered(&[("content-length", "9")], Coded::Length(2), Version::HTTP_11, true);
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
    write_end(&mut out, Some(&map));
    write_interim(&mut out, StatusCode::EARLY_HINTS, &map);
    let expected = "0\r\nsum: 1\r\n\r\nHTTP/1.1 103 Early Hints\r\nsum: 1\r\n\r\n";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
