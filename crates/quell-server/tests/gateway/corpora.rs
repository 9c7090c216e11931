//! Graded request heads, sent as they are: what could be read in two ways goes no further, and what is right passes.
//!
//! A few are written here. With `QUELL_CORPORA` set to a folder that holds `http-desync-guardian/*.yaml` (the test data
//! of aws/http-desync-guardian), all of those are sent too.

use std::path::Path;

use crate::kit::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tier {
    /// Passes.
    Compliant,
    /// May pass.
    Acceptable,
    /// Is refused, or passes in one meaning only.
    Ambiguous,
    /// Is refused.
    Severe,
}

#[derive(Debug, Clone, Default)]
struct Vector {
    name: Vec<u8>,
    method: Vec<u8>,
    uri: Vec<u8>,
    version: Vec<u8>,
    fields: Vec<(Vec<u8>, Vec<u8>)>,
    tier: Option<Tier>,
}

impl Vector {
    fn of(name: &str, fields: &[(&str, &str)], tier: Tier) -> Self {
        let own = |text: &str| text.as_bytes().to_vec();
        Self {
            name: own(name),
            method: own("POST"),
            uri: own("/x"),
            version: own("HTTP/1.1"),
            fields: fields.iter().map(|(name, value)| (own(name), own(value))).collect(),
            tier: Some(tier),
        }
    }

    fn name(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }

    /// The values of this field, blanks around the name or not.
    fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        let same = move |other: &[u8]| other.trim_ascii().eq_ignore_ascii_case(name.as_bytes());
        let all = self.fields.iter().filter(move |(name, _)| same(name));
        all.map(|(_, value)| String::from_utf8_lossy(value).trim().to_ascii_lowercase())
    }

    /// The request, with a host if it has none, and with a body of the kind that it promises.
    fn request(&self) -> Vec<u8> {
        let mut bytes = [self.method.as_slice(), b" ", &self.uri].concat();
        if !self.version.is_empty() {
            bytes.extend([b" ", self.version.as_slice()].concat());
        }
        bytes.extend(b"\r\n");
        if self.values("host").next().is_none() {
            bytes.extend(b"Host: a\r\n");
        }
        for (name, value) in &self.fields {
            bytes.extend([name, b": ".as_slice(), value, b"\r\n"].concat());
        }
        bytes.extend(b"\r\n");
        bytes.extend(self.body());
        bytes
    }

    fn body(&self) -> Vec<u8> {
        if self.values("transfer-encoding").any(|value| value.contains("chunked")) {
            return b"5\r\nhello\r\n0\r\n\r\n".to_vec();
        }
        let length = self.values("content-length").find_map(|value| value.parse().ok());
        vec![b'x'; length.unwrap_or(0)]
    }
}

/// Those written for this test.
fn ours() -> Vec<Vector> {
    use Tier::{Ambiguous, Compliant, Severe};
    let te = "Transfer-Encoding";
    let length = "Content-Length";
    vec![
        Vector::of("no body", &[("Accept", "*/*")], Compliant),
        Vector::of("a length", &[(length, "7")], Compliant),
        Vector::of("chunks", &[(te, "chunked")], Compliant),
        Vector::of("chunks in capitals", &[("TRANSFER-ENCODING", "CHUNKED")], Compliant),
        Vector::of("blanks around a value", &[(length, " \t7\t ")], Compliant),
        Vector::of("unusual names", &[("~x_!#$%&'*+.^`|", "")], Compliant),
        Vector::of("bytes over ASCII", &[("X", "\u{e9}\u{4e16}")], Compliant),
        Vector::of("a body's length twice", &[(length, "7"), (length, "7")], Ambiguous),
        Vector::of("two lengths", &[(length, "7"), (length, "0")], Severe),
        Vector::of("a length and chunks", &[(length, "7"), (te, "chunked")], Severe),
        Vector::of("chunks and a length", &[(te, "chunked"), (length, "7")], Severe),
        Vector::of("chunks twice", &[(te, "chunked"), (te, "chunked")], Severe),
        Vector::of("chunks after nothing", &[(te, "identity, chunked")], Severe),
        Vector::of("nearly chunks", &[(te, "xchunked")], Severe),
        Vector::of("quoted chunks", &[(te, "\"chunked\"")], Severe),
        Vector::of("chunks with a tail", &[(te, "chunked\u{b}")], Severe),
        Vector::of("chunks on the next line", &[(te, "\r\n chunked")], Severe),
        Vector::of("a blank before the colon", &[("Transfer-Encoding ", "chunked")], Ambiguous),
        Vector::of("a tab before the name", &[("\tTransfer-Encoding", "chunked")], Severe),
        Vector::of("a name on two lines", &[("Transfer-\r\nEncoding", "chunked")], Severe),
        Vector::of("a field after a bare CR", &[("X", "y\rTransfer-Encoding: chunked")], Severe),
        Vector::of("a field after a bare LF", &[("X", "y\nTransfer-Encoding: chunked")], Severe),
        Vector::of("a NUL", &[("X", "y\0z")], Severe),
        Vector::of("a sign", &[(length, "+7")], Severe),
        Vector::of("hexadecimal", &[(length, "0x7")], Severe),
        Vector::of("a list of lengths", &[(length, "7, 7")], Severe),
        Vector::of("more than can be counted", &[(length, "18446744073709551617")], Severe),
        Vector::of("a length with an underscore", &[("Content_Length", "7")], Ambiguous),
        Vector::of("two hosts", &[("Host", "a"), ("Host", "b")], Severe),
    ]
}

/// Reads the subset of YAML that the files are written in: a list of maps, one key to a line.
fn read(text: &str) -> Vec<Vector> {
    let mut vectors: Vec<Vector> = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let indent = line.len() - line.trim_start().len();
        let Some((key, value)) = line.trim_start().split_once(':') else { continue };
        let value = scalar(value.trim());
        if (indent, key) == (0, "- name") {
            vectors.push(Vector { name: value, ..Vector::default() });
            continue;
        }
        let Some(vector) = vectors.last_mut() else { continue };
        match (indent, key) {
            (2, "uri") => vector.uri = value,
            (2, "method") => vector.method = value,
            (2, "version") => vector.version = value,
            (4, "- name") => vector.fields.push((value, Vec::new())),
            (6, "value") => vector.fields.last_mut().unwrap().1 = value,
            (4, "tier") => {
                vector.tier = Some(match value.as_slice() {
                    b"Compliant" => Tier::Compliant,
                    b"Acceptable" => Tier::Acceptable,
                    b"Ambiguous" => Tier::Ambiguous,
                    b"Severe" => Tier::Severe,
                    _ => panic!("{line}"),
                });
            }
            (2, "headers" | "expected") | (4, "reason" | "required_message_items") => {}
            (6, _) => {} // a header's own grade, or an item of a message
            _ => panic!("what is this line? {line:?}"),
        }
    }
    vectors
}

/// A scalar: bare, in single quotes, or in double quotes with escapes.
fn scalar(text: &str) -> Vec<u8> {
    if let Some(inner) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        return inner.replace("''", "'").into_bytes();
    }
    let Some(inner) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else {
        return text.as_bytes().to_vec();
    };
    let mut bytes = inner.bytes();
    let mut read = Vec::new();
    while let Some(byte) = bytes.next() {
        read.push(match (byte, if byte == b'\\' { bytes.next() } else { None }) {
            (b'\\', Some(b'r')) => b'\r',
            (b'\\', Some(b'n')) => b'\n',
            (b'\\', Some(b't')) => b'\t',
            (b'\\', Some(b'x')) => {
                let digits: String = bytes.by_ref().take(2).map(char::from).collect();
                u8::from_str_radix(&digits, 16).unwrap()
            }
            (b'\\', Some(other)) => other,
            (byte, _) => byte,
        });
    }
    read
}

fn vectors() -> Vec<Vector> {
    let mut vectors = ours();
    if let Ok(folder) = std::env::var("QUELL_CORPORA") {
        let folder = Path::new(&folder).join("http-desync-guardian");
        let before = vectors.len();
        for file in std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"))
        {
            let path = file.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                vectors.extend(read(&std::fs::read_to_string(path).unwrap()));
            }
        }
        assert!(vectors.len() >= before + 150, "only {} vectors found", vectors.len() - before);
    }
    vectors
}

/// Graded as right elsewhere, and refused here.
const STRICTER: &[(&str, &str)] = &[
    ("Different Transfer-Encoding headers", OTHER_CODINGS),
    ("Different Transfer-Encoding headers combined", OTHER_CODINGS),
    ("Transfer-Encoding with a param: chunked;custom_param", OTHER_CODINGS),
    ("Correct TE OK", OTHER_CODINGS),
    ("Transfer-Encoding: identity and chunked OK", OTHER_CODINGS),
    ("Multiple transfer encoding headers in a single request OK", OTHER_CODINGS),
    ("TE with custom parameters OK", OTHER_CODINGS),
    ("Compliant URL", "it has a fragment, and bytes that need escapes"),
    ("International in URI", "bytes over ASCII need escapes"),
    ("Empty URI", "a request without a target"),
];

const OTHER_CODINGS: &str = "no coding but chunked is undone here, so none is passed on";

/// Graded as ambiguous elsewhere, and passed on here with one meaning.
const NORMALISED: &[(&str, &str)] = &[
    ("Has a CL in GET", BODY_OF_GET),
    ("Has a TE in GET", BODY_OF_GET),
    ("Get with a body and Content-Length", BODY_OF_GET),
    ("Get with a body and Transfer-Encoding", BODY_OF_GET),
    ("Head with a body and Content-Length", BODY_OF_GET),
    ("Head with a body and Transfer-Encoding", BODY_OF_GET),
];

const BODY_OF_GET: &str = "a GET may have a body, which is passed on whole and framed anew";

/// H12.
#[tokio::test]
async fn graded_heads_pass_or_are_refused_as_they_should() {
    let upstream = Fake::start(|_, _| answer(200, "ok")).await;
    let gateway = gateway(upstream.addr);
    let vectors = vectors();
    if vectors.len() > ours().len() {
        for (name, why) in STRICTER.iter().chain(NORMALISED) {
            assert!(vectors.iter().any(|vector| vector.name() == *name), "no {name}, where {why}");
        }
    }
    let mut wrong = Vec::new();
    for vector in vectors {
        let before = upstream.seen().len();
        let status = status(gateway.addr(), &vector.request()).await;
        let seen = upstream.seen().split_off(before);
        let listed = |list: &[(&str, &str)]| list.iter().any(|(name, _)| *name == vector.name());
        let refused = seen.is_empty() && (400..600).contains(&status);
        let passed = status == 200 && is_one_request(&vector, &seen);
        let fine = match vector.tier.expect("a grade") {
            Tier::Compliant if listed(STRICTER) => refused,
            Tier::Compliant => passed,
            Tier::Acceptable => refused || passed,
            Tier::Ambiguous if listed(NORMALISED) => passed,
            Tier::Ambiguous | Tier::Severe => refused,
        };
        if !fine {
            wrong.push(format!("{:?} {}: {status}, {seen:?}", vector.tier, vector.name()));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Whether the upstream saw one request, framed in one way and with all of its body.
fn is_one_request(vector: &Vector, seen: &[Seen]) -> bool {
    let [one] = seen else { return false };
    let framings = ["content-length", "transfer-encoding"]
        .map(|name| one.headers.get_all(name).iter().count());
    let body = vector.body();
    let whole = if body.starts_with(b"5\r\n") { one.body == "hello" } else { one.body == body };
    framings.iter().sum::<usize>() <= 1 && whole
}

async fn status(to: std::net::SocketAddr, request: &[u8]) -> u16 {
    let mut caller = TcpStream::connect(to).await.unwrap();
    caller.write_all(request).await.unwrap();
    let mut reply = [0; 12];
    timeout(PATIENCE, caller.read_exact(&mut reply)).await.expect("no reply").unwrap();
    std::str::from_utf8(&reply[9..]).unwrap().parse().unwrap()
}
