use super::*;

fn read(head: impl AsRef<[u8]>) -> Result<Option<(usize, Follows)>, Malformed> {
    Head::default().read(head.as_ref(), false)
}

/// What follows a head with these fields.
fn framed(fields: &str) -> Result<Follows, &'static str> {
    let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
    match read(&head) {
        Ok(Some((length, framing))) => {
            assert_eq!(length, head.len());
            Ok(framing)
        }
        Ok(None) => panic!("unfinished: {head:?}"),
        Err(malformed) => Err(malformed.code),
    }
}

fn refused(head: &str) -> (u16, &'static str) {
    let malformed = read(head).expect_err(head);
    (malformed.status.as_u16(), malformed.code)
}

#[test]
fn a_head_ends_at_its_empty_line_and_may_have_one_before_it() {
    let head = b"GET /a?b=c HTTP/1.1\r\nHost: a\r\nX: \t y\tz \x80\xff\r\n\r\n";
    let more = [b"\r\n".as_slice(), head, b"GET"].concat();
    assert_eq!(read(head), Ok(Some((head.len(), Follows::Nothing))));
    assert_eq!(read(&more), Ok(Some((head.len() + 2, Follows::Nothing))));
    for end in 0..head.len() {
        assert_eq!(read(&head[..end]), Ok(None), "{end}");
    }
    assert_eq!(refused("\r\n\r\nGET / HTTP/1.1\r\n"), (400, "line"));
}

/// H12.
#[test]
fn every_line_ends_with_both_bytes() {
    for head in [
        "GET / HTTP/1.1\nHost: a\n\n",
        "\nGET / HTTP/1.1\r\n",
        "GET / HTTP/1.1\rHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\rX",
        "GET / HTTP/1.1\r\nHost: a\rb\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX\n",
    ] {
        assert_eq!(refused(head).0, 400, "{head:?}");
    }
}

#[test]
fn every_control_byte_is_noticed_wherever_it_stands() {
    for byte in (0..b' ').chain([0x7f]).filter(|byte| *byte != b'\t') {
        for before in 0..20 {
            let value = [vec![b'v'; before], vec![byte], vec![b'w'; 9]].concat();
            let head = [b"GET / HTTP/1.1\r\nX:", value.as_slice(), b"\r\n\r\n"].concat();
            assert!(read(&head).is_err(), "{byte:#x} after {before}");
        }
    }
}

#[test]
fn the_request_line_is_a_method_a_target_and_a_version_with_one_blank_between() {
    for line in [
        "GET /",
        "GET",
        "GET  / HTTP/1.1",
        "GET /  HTTP/1.1",
        "GET / HTTP/1.1 ",
        " GET / HTTP/1.1",
        "GET\t/ HTTP/1.1",
        "GET /\tHTTP/1.1",
        "GET / HTTP/1.1 HTTP/1.1",
        "GET / http/1.1",
        "GET / HTTP/1",
        "GET / HTTP/1.10",
        "GET / HTTP/+1.1",
        "G(T / HTTP/1.1",
        "G\u{e9}T / HTTP/1.1",
        " / HTTP/1.1",
    ] {
        assert_eq!(refused(&format!("{line}\r\nHost: a\r\n\r\n")).0, 400, "{line:?}");
    }
    for version in ["0.9", "1.2", "2.0", "3.0"] {
        let head = format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n");
        assert_eq!(refused(&head), (505, "version"), "{version}");
    }
}

#[test]
fn targets_are_paths_or_urls_without_bytes_that_need_escapes() {
    let of = |method: &str, target: &str| {
        let head = format!("{method} {target} HTTP/1.1\r\nHost: a\r\n\r\n");
        read(&head).map(|_| ()).map_err(|malformed| malformed.code)
    };
    for target in ["/", "//x", "/a%20b?c[]={d}|^\\", "http://a", "HTTPS://a:1/x?y", "http://[::1]/"]
    {
        assert_eq!(of("GET", target), Ok(()), "{target}");
        // Whatever passes, the parser behind it reads.
        assert!(target.parse::<http::Uri>().is_ok(), "{target}");
    }
    for target in [
        "x",
        "x/y",
        "a:80",
        "*",
        "ftp://a/",
        "/a#b",
        "/\u{e9}",
        "/<",
        "/`",
        "/\"",
        "http://",
        "http:///",
        "http://u@a/",
        "http://a:b/",
        "http:/a",
        "?x",
    ] {
        assert!(matches!(of("GET", target), Err("target" | "line")), "{target}");
    }
    assert_eq!(of("OPTIONS", "*"), Ok(()));
    assert_eq!(of("CONNECT", "a:80"), Ok(()));
    let long = |length: usize| format!("/{}", "x".repeat(length - 1));
    assert_eq!(of("GET", &long(LONGEST_TARGET)), Ok(()));
    assert_eq!(refused(&format!("GET {} HTTP/1.1\r\n", long(LONGEST_TARGET + 1))), (414, "target"));
    assert_eq!(refused(&format!("GET {}", long(2 * LONGEST_TARGET))), (414, "target"));
}

#[test]
fn names_are_tokens_right_before_their_colon_and_no_line_goes_on() {
    assert_eq!(framed("A.!#$%&'*+^_`|~0-9:\r\n"), Ok(Follows::Nothing));
    for line in [
        "X : y",
        "X\t: y",
        ": y",
        "X",
        "X y",
        " X: y",
        "\tX: y",
        "(X): y",
        "X\u{e9}: y",
        "X\u{0}: y",
        "\"X\": y",
        "X: y\r\n z",
        "Content-Length : 3",
        " Content-Length: 3",
        "Transfer-Encoding\u{b}: chunked",
    ] {
        assert_eq!(framed(&format!("{line}\r\n")), Err("field"), "{line:?}");
    }
}

#[test]
fn a_length_is_said_once_in_digits() {
    assert_eq!(framed("content-LENGTH:  3\t\r\n"), Ok(Follows::Length(3)));
    assert_eq!(framed("Content-Length: 0\r\n"), Ok(Follows::Nothing));
    assert_eq!(
        framed("Content-Length: 999999999999999999\r\n"),
        Ok(Follows::Length(999_999_999_999_999_999))
    );
    for length in [
        "",
        "+3",
        "-3",
        "3 3",
        "3,3",
        "3, 3",
        "0x3",
        "3.0",
        "3;",
        "\"3\"",
        "1e3",
        "9999999999999999999",
        "\u{663}",
        "3\r\nContent-Length: 3",
        "3\r\nContent-Length: 4",
        "0\r\nContent-Length: 0",
    ] {
        assert_eq!(framed(&format!("Content-Length: {length}\r\n")), Err("framing"), "{length:?}");
    }
}

/// H12.
#[test]
fn there_is_one_coding_and_it_stands_alone() {
    assert_eq!(framed("transfer-encoding:\t Chunked \r\n"), Ok(Follows::Chunks));
    for coding in [
        "",
        "identity",
        "identity, chunked",
        "chunked, chunked",
        "chunked, gzip",
        ",chunked",
        "chunked,",
        "chunked;x",
        "\"chunked\"",
        "chu nked",
        "chunked\r\nTransfer-Encoding: chunked",
        "chunked\r\nContent-Length: 3",
    ] {
        assert_eq!(
            framed(&format!("Transfer-Encoding: {coding}\r\n")),
            Err("framing"),
            "{coding:?}"
        );
    }
    assert_eq!(framed("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), Err("framing"));
    for coding in ["gzip", "gzip, chunked", "xchunked"] {
        assert_eq!(
            framed(&format!("Transfer-Encoding: {coding}\r\n")),
            Err("coding"),
            "{coding:?}"
        );
    }
    assert_eq!(refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), (400, "framing"));
}

/// H12: some take `_` for `-`, and some leave out what they do not know.
#[test]
fn names_that_are_nearly_framing_are_refused() {
    for name in [
        "Content_Length",
        "content--length",
        "ContentLength",
        "TRANSFER_ENCODING",
        "Transfer.-Encoding",
    ] {
        assert_eq!(framed(&format!("{name}: 3\r\n")), Err("framing"), "{name}");
    }
    for name in
        ["Content-Length-Hash", "Content-Path-With", "Transfer-Encoding-Log", "X-Content-Length"]
    {
        assert_eq!(framed(&format!("{name}: 3\r\n")), Ok(Follows::Nothing), "{name}");
    }
}

/// H15.
#[test]
fn a_head_has_a_hundred_lines_and_32_kib_at_most() {
    let cookies = |count: usize| "Cookie: a=1\r\n".repeat(count);
    assert!(framed(&cookies(MOST_FIELDS - 1)).is_ok());
    assert_eq!(framed(&cookies(MOST_FIELDS)), Err("fields"));
    let long = |length: usize| format!("X: {}\r\n", "x".repeat(length));
    assert!(framed(&long(LONGEST_HEAD - 100)).is_ok());
    assert_eq!(framed(&long(LONGEST_HEAD)), Err("head"));
    let unfinished = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(LONGEST_HEAD));
    assert_eq!(refused(&unfinished), (431, "head"));
}

#[test]
fn the_preface_of_http_2_passes_at_the_beginning_of_a_connection_only() {
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let first = Head::default().read(preface, true);
    assert_eq!(first, Ok(Some((preface.len(), Follows::Another))));
    assert_eq!(read(preface).unwrap_err().status.as_u16(), 505);
}
