use super::*;

fn told(bytes: &str) -> Result<Option<ReplyHead>, Broken> {
    reply(&mut BytesMut::from(bytes), &Method::GET, &FieldRules::ANY)
}

fn framing(fields: &str) -> Result<(Framing, bool), String> {
    let told = told(&format!("HTTP/1.1 200 OK\r\n{fields}\r\n")).map_err(|e| e.to_string())?;
    told.map(|told| (told.framing, told.keep)).ok_or_else(|| "unfinished".into())
}

#[test]
fn a_request_becomes_what_it_says_and_its_body_stays_behind() {
    let text =
        "POST /a?b=c HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nx-one:  2 \r\nContent-Length: 3\r\n\r\nabc";
    let mut bytes = BytesMut::from(text);
    let RequestHead { parts, framing, keep, expects } = request(&mut bytes).unwrap();
    assert_eq!((parts.method, parts.uri.to_string().as_str()), (Method::POST, "/a?b=c"));
    assert!(parts.headers.get_all("x-one").iter().eq(["1", "2"]));
    assert_eq!(parts.headers.len(), 4);
    assert_eq!((framing, keep, expects), (Framing::Length(3), true, false));
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
    assert_eq!(framing("Content-Length: 7\r\n"), Ok((Framing::Length(7), true)));
    assert_eq!(
        framing("Content-Length: 7\r\nContent-Length: 7\r\n"),
        Ok((Framing::Length(7), true))
    );
    assert_eq!(framing("Content-Length: 0\r\n"), Ok((Framing::Over, true)));
    assert_eq!(framing("Transfer-Encoding: chunked\r\n"), Ok((Framing::CHUNKED, true)));
    assert_eq!(framing("Transfer-Encoding: Chunked\r\n"), Ok((Framing::CHUNKED, true)));
    assert!(framing("Transfer-Encoding: gzip, chunked\r\n").is_err(), "undone by nobody");
    assert_eq!(framing("Transfer-Encoding: gzip\r\n"), Ok((Framing::UntilEnd, false)));
    assert_eq!(framing(""), Ok((Framing::UntilEnd, false)));
}

/// H12, from the other side: an upstream that says two things is not believed, or not used again.
#[test]
fn a_reply_that_can_be_read_in_two_ways_is_none_or_the_last_on_its_connection() {
    let both = "Content-Length: 7\r\nTransfer-Encoding: chunked\r\n";
    assert_eq!(framing(both), Ok((Framing::CHUNKED, false)));
    let told = told(&format!("HTTP/1.1 200 OK\r\n{both}\r\n")).unwrap().unwrap();
    assert!(!told.parts.headers.contains_key(CONTENT_LENGTH));
    for length in ["7\r\nContent-Length: 8", "+7", "", "7, 7", "9999999999999999999"] {
        assert!(framing(&format!("Content-Length: {length}\r\n")).is_err(), "{length}");
    }
}

#[test]
fn replies_without_bodies_have_none_whatever_they_say() {
    for (status, method) in [(204, "GET"), (304, "GET"), (103, "GET"), (200, "HEAD")] {
        let mut bytes =
            BytesMut::from(format!("HTTP/1.1 {status} x\r\nContent-Length: 9\r\n\r\n").as_str());
        let told = reply(&mut bytes, &method.parse().unwrap(), &FieldRules::ANY).unwrap().unwrap();
        assert_eq!((told.framing, told.keep), (Framing::Over, true), "{status}");
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
