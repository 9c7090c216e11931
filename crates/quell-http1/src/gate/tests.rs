use proptest::prelude::*;

use super::*;

/// What came of a stream of bytes that arrives in parts.
#[derive(Debug, PartialEq)]
struct Came {
    passed: Vec<u8>,
    refused: Option<Malformed>,
    phase: Phase,
}

/// Shows a new gate the parts one after the other, and what was left over again, as the socket does.
fn show<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Came {
    let mut gate = Gate::new();
    let mut left = Vec::new();
    let mut passed = Vec::new();
    for part in parts {
        left.extend_from_slice(part);
        let look = gate.look(&left);
        passed.extend(left.drain(..look.pass));
        if let Some(Refused::Request(malformed) | Refused::Body(malformed)) = look.refused {
            return Came { passed, refused: Some(malformed), phase: gate.phase() };
        }
    }
    Came { passed, refused: None, phase: gate.phase() }
}

const TWO: &[u8] = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /\
    \r\nPUT /x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3;e\r\nabc\r\n0\r\nT: u\r\n\r\n\
    GET / HTTP/1.1\r\n";

#[test]
fn messages_follow_each_other_and_an_unfinished_head_is_left_over() {
    let came = show([TWO]);
    assert_eq!((came.refused, came.phase), (None, Phase::Head));
    assert_eq!(came.passed.len(), TWO.len() - "GET / HTTP/1.1\r\n".len());
}

#[test]
fn a_request_refused_within_what_came_at_once_passes_in_no_part() {
    let first = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let second = b"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let both = [first.as_slice(), second, b"3\r\nabc\r\nX"].concat();
    let look = Gate::new().look(&both);
    assert_eq!(look.pass, first.len());
    assert!(matches!(look.refused, Some(Refused::Request(Malformed { code: "chunk", .. }))));

    let mut gate = Gate::new();
    assert_eq!(gate.look(second), Look { pass: second.len(), refused: None });
    let look = gate.look(b"3\r\nabc\r\nX");
    assert_eq!(look.pass, 8);
    assert!(matches!(look.refused, Some(Refused::Body(Malformed { code: "chunk", .. }))));
}

#[test]
fn where_a_connection_stands_is_known_at_every_byte() {
    let phases: String = (0..=TWO.len())
        .map(|end| match show([&TWO[..end]]).phase {
            Phase::Rest => 'r',
            Phase::Head => 'h',
            Phase::Body => 'b',
            Phase::Open => 'o',
        })
        .collect();
    let mut short = phases.clone().into_bytes();
    short.dedup();
    assert_eq!(String::from_utf8(short).unwrap(), "rhbrhbrh", "{phases}");
    assert_eq!(phases.matches('b').count(), 5 + 21);
}

#[test]
fn once_open_it_lets_everything_through() {
    let mut gate = Gate::new();
    gate.open();
    assert_eq!(gate.look(b"\0\n\n"), Look { pass: 3, refused: None });
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0";
    assert_eq!(show(preface.chunks(1)).passed, preface);
}

/// Lengths of the messages in `bytes` as httparse reads them; the last may be unfinished.
fn as_others_read(mut bytes: &[u8]) -> Result<Vec<usize>, String> {
    let mut lengths = Vec::new();
    while !bytes.is_empty() {
        let mut fields = [httparse::EMPTY_HEADER; crate::limits::MOST_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        let parsed = request.parse(bytes).map_err(|error| error.to_string())?;
        let httparse::Status::Complete(head) = parsed else {
            return Err("a part of a head".into());
        };
        request.path.unwrap().parse::<http::Uri>().map_err(|error| error.to_string())?;
        let of = |name: &str| {
            let mut all =
                request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case(name));
            (all.next().map(|field| String::from_utf8_lossy(field.value).into_owned()), all.count())
        };
        let body = match (of("content-length"), of("transfer-encoding")) {
            ((None, 0), (None, 0)) => 0,
            ((Some(length), 0), (None, 0)) => length.parse().map_err(|error| format!("{error}"))?,
            ((None, 0), (Some(coding), 0)) if coding.eq_ignore_ascii_case("chunked") => {
                chunks(&bytes[head..])?
            }
            framing => return Err(format!("{framing:?}")),
        };
        let length = (head + body).min(bytes.len());
        lengths.push(length);
        bytes = &bytes[length..];
    }
    Ok(lengths)
}

/// The length of a body in chunks, or of what there is of it.
fn chunks(bytes: &[u8]) -> Result<usize, String> {
    let mut at = 0;
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        match httparse::parse_chunk_size(rest).map_err(|error| format!("{error:?}"))? {
            httparse::Status::Partial => return Ok(bytes.len()),
            httparse::Status::Complete((line, 0)) => {
                let mut fields = [httparse::EMPTY_HEADER; crate::limits::MOST_FIELDS];
                let trailers = httparse::parse_headers(&rest[line..], &mut fields);
                return match trailers.map_err(|error| error.to_string())? {
                    httparse::Status::Partial => Ok(bytes.len()),
                    httparse::Status::Complete((length, _)) => Ok(at + line + length),
                };
            }
            httparse::Status::Complete((line, size)) => at += line + size as usize + 2,
        }
    }
}

/// Requests from parts that are mostly right and now and then are not.
fn nearly_http() -> impl Strategy<Value = Vec<u8>> {
    let pick = |parts: &'static [&'static str]| prop::sample::select(parts);
    let start = pick(&[
        "GET / HTTP/1.1\r\n",
        "POST /a?b HTTP/1.1\r\n",
        "PUT http://a/ HTTP/1.0\r\n",
        "\r\nGET / HTTP/1.1\r\n",
    ]);
    let field = pick(&[
        "Host: a\r\n",
        "X: y\r\n",
        "Cookie: a=1; b=2\r\n",
        "Content-Length: 3\r\n",
        "Content-Length: 0\r\n",
        "Transfer-Encoding: chunked\r\n",
        "X : y\r\n",
        "X: y\n",
        " z\r\n",
        "X:\ty \r\n",
    ]);
    let body = pick(&[
        "",
        "abc",
        "3\r\nabc\r\n0\r\n\r\n",
        "0\r\n\r\n",
        "3\r\nabc\r\n0\r\nT: u\r\n\r\n",
        "2;x\r\nab\r\n0\r\n\r\n",
        "3\nabc",
        "+3\r\n",
    ]);
    let message = (start, prop::collection::vec(field, 0..4), body, any::<bool>()).prop_map(
        |(start, fields, body, fits)| {
            let chunked = fields.iter().any(|field| field.starts_with("Transfer"));
            let length = fields.iter().any(|field| field.ends_with("3\r\n"));
            let body = match (fits, chunked, length) {
                (false, ..) => body,
                (true, true, _) => "3\r\nabc\r\n0\r\n\r\n",
                (true, false, true) => "abc",
                (true, false, false) => "",
            };
            [start, &fields.concat(), "\r\n", body].concat().into_bytes()
        },
    );
    let broken = prop::option::weighted(0.2, (any::<prop::sample::Index>(), any::<u8>()));
    (prop::collection::vec(message, 1..4), broken).prop_map(|(messages, broken)| {
        let mut bytes = messages.concat();
        if let Some((at, byte)) = broken {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn no_bytes_break_it(bytes: Vec<u8>, more: Vec<u8>) {
        let mut gate = Gate::new();
        let look = gate.look(&bytes);
        prop_assert!(look.pass <= bytes.len());
        show([bytes.as_slice(), &more]);
    }

    /// H12: a stranger chooses where the bytes are cut, and must gain nothing by it.
    #[test]
    fn wherever_the_bytes_are_cut_the_verdict_is_the_same(bytes in nearly_http()) {
        let whole = show([bytes.as_slice()]);
        for cut in 1..bytes.len() {
            let parts = [&bytes[..cut], &bytes[cut..]];
            let came = show(parts);
            prop_assert_eq!(came.refused, whole.refused, "cut at {}", cut);
            if whole.refused.is_none() {
                prop_assert_eq!(&came, &whole, "cut at {}", cut);
            } else {
                // Of a body that is refused later its head has passed.
                prop_assert!(came.passed.starts_with(&whole.passed), "cut at {}", cut);
            }
        }
        prop_assert_eq!(show(bytes.chunks(1)).refused, whole.refused);
    }

    /// H12.
    #[test]
    fn what_passes_is_read_by_others_with_the_same_bounds(bytes in nearly_http()) {
        let mut gate = Gate::new();
        let mut bounds = Vec::new();
        let mut left = Vec::new();
        let mut passed = Vec::new();
        for byte in &bytes {
            left.push(*byte);
            let look = gate.look(&left);
            let is_new = gate.phase() == Phase::Rest && look.pass > 0;
            passed.extend(left.drain(..look.pass));
            if is_new {
                bounds.push(passed.len());
            }
            if look.refused.is_some() {
                break;
            }
        }
        if gate.phase() == Phase::Body {
            bounds.push(passed.len());
        }
        let lengths = as_others_read(&passed);
        let theirs = lengths.map(|lengths| {
            lengths.iter().scan(0, |at, length| { *at += length; Some(*at) }).collect::<Vec<_>>()
        });
        prop_assert_eq!(theirs, Ok(bounds), "{:?}", String::from_utf8_lossy(&passed));
    }
}
