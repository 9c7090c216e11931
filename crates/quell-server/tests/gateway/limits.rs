//! The limits of a head over real sockets: what has exactly as much as is allowed passes end to end, and what has one more
//! is answered, over HTTP/1 and over HTTP/2. The numbers come from where the code has them, so these tests hold for others.

use std::net::SocketAddr;

use crate::kit::*;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use quell_http1::limits::{
    LONGEST_HEAD, LONGEST_HEADER_LIST, LONGEST_REPLY_HEAD, LONGEST_TARGET, MOST_FIELDS,
};
use quell_server::gateway::Running;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// An upstream without limits of its own: it answers `/reply` with so many fields, or a head of so many bytes, as the
/// request's fields `fields` and `head` say; and tells in the body how many lines `x: y` the request had.
async fn upstream() -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    (address, serving)
}

async fn serve(mut stream: TcpStream) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte.into()),
            Err(_) => return,
        }
    }
    let of = |name: &str| {
        let mut lines = head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse::<usize>().ok())
    };
    let (fields, length) = (of("fields:").unwrap_or(2), of("head:").unwrap_or(0));
    let body = format!("{} lines, {} bytes", head.matches("\r\nx: y").count(), target(&head).len());
    let more = "z: 1\r\n".repeat(fields - 2);
    let mut reply =
        format!("HTTP/1.1 200 OK\r\nconnection: close\r\n{more}content-length: {}\r\n", body.len());
    if length > 0 {
        let rest = length - reply.len() - "pad: \r\n\r\n".len();
        reply += &format!("pad: {}\r\n", "p".repeat(rest));
    }
    let _ = stream.write_all(format!("{reply}\r\n{body}").as_bytes()).await;
}

fn target(head: &str) -> &str {
    head.split(' ').nth(1).unwrap()
}

/// Sends these bytes, and reads until the connection is closed.
async fn exchange(to: SocketAddr, bytes: &str) -> String {
    let mut caller = TcpStream::connect(to).await.unwrap();
    caller.write_all(bytes.as_bytes()).await.unwrap();
    let mut text = String::new();
    timeout(PATIENCE, caller.read_to_string(&mut text)).await.expect("left open").unwrap();
    text
}

/// Sends a request over HTTP/2, on a connection of its own: the status and the body of the reply.
async fn over_http2(
    gateway: &Running,
    path: &str,
    fields: &[(&str, &str)],
) -> (StatusCode, String) {
    let stream = TcpStream::connect(gateway.addr()).await.unwrap();
    let io = TokioIo::new(stream);
    let (mut send, http) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(http);
    let mut request = Request::get(format!("http://a{path}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let asked = send.send_request(request.body(Empty::<Bytes>::new()).unwrap());
    let reply = timeout(PATIENCE, asked).await.expect("no reply").unwrap();
    let status = reply.status();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn as_many_fields_as_the_limit_pass_end_to_end_and_one_more_is_a_431() {
    let (address, _serving) = upstream().await;
    let gateway = gateway(address);
    let ask = |fields: usize| {
        let lines = "x: y\r\n".repeat(fields - 2);
        format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{lines}\r\n")
    };
    let text = exchange(gateway.addr(), &ask(MOST_FIELDS)).await;
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    assert!(text.ends_with(&format!("{} lines, 1 bytes", MOST_FIELDS - 2)), "{text}");
    let text = exchange(gateway.addr(), &ask(MOST_FIELDS + 1)).await;
    assert!(text.starts_with("HTTP/1.1 431 ") && text.contains("\"code\":\"fields\""), "{text}");
    assert!(text.contains(&format!("more than {MOST_FIELDS} header fields")), "{text}");
}

#[tokio::test]
async fn as_many_fields_as_the_limit_pass_over_http_2_and_one_more_is_a_431() {
    let (address, _serving) = upstream().await;
    let gateway = gateway(address);
    let (status, text) = over_http2(&gateway, "/", &[("x", "y")].repeat(MOST_FIELDS)).await;
    assert_eq!((status, text), (StatusCode::OK, format!("{MOST_FIELDS} lines, 1 bytes")));
    let (status, text) = over_http2(&gateway, "/", &[("x", "y")].repeat(MOST_FIELDS + 1)).await;
    assert_eq!(status, StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    assert!(text.contains("\"code\":\"fields\""), "{text}");
}

#[tokio::test]
async fn a_target_as_long_as_the_limit_passes_and_one_byte_more_is_a_414() {
    let (address, _serving) = upstream().await;
    let gateway = gateway(address);
    let target = |length: usize| format!("/{}", "t".repeat(length - 1));
    let ask = |length: usize| {
        format!("GET {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", target(length))
    };
    let passed = format!("0 lines, {LONGEST_TARGET} bytes");
    let text = exchange(gateway.addr(), &ask(LONGEST_TARGET)).await;
    assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with(&passed), "{text}");
    for length in [LONGEST_TARGET + 1, LONGEST_HEAD + 1] {
        let text = exchange(gateway.addr(), &ask(length)).await;
        assert!(text.starts_with("HTTP/1.1 414 "), "{length}: {text}");
    }
    let over_2 = async |length: usize| over_http2(&gateway, &target(length), &[]).await;
    assert_eq!(over_2(LONGEST_TARGET).await, (StatusCode::OK, passed));
    assert_eq!(over_2(LONGEST_TARGET + 1).await.0, StatusCode::URI_TOO_LONG);
}

#[tokio::test]
async fn a_head_as_long_as_the_limit_passes_and_one_byte_more_is_a_431() {
    let (address, _serving) = upstream().await;
    let gateway = gateway(address);
    let start = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nlong: ";
    let ask = |length: usize| {
        let rest = length - start.len() - 4;
        format!("{start}{}\r\n\r\n", "v".repeat(rest))
    };
    let text = exchange(gateway.addr(), &ask(LONGEST_HEAD)).await;
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    let endless = ask(LONGEST_HEAD + 5).trim_end().to_owned();
    for head in [ask(LONGEST_HEAD + 1), endless] {
        let text = exchange(gateway.addr(), &head).await;
        assert!(text.starts_with("HTTP/1.1 431 ") && text.contains("\"code\":\"head\""), "{text}");
    }

    let over_2 = async |length: usize| {
        over_http2(&gateway, "/", &[("long", &"v".repeat(length))]).await.0.as_u16()
    };
    assert_eq!(over_2(LONGEST_HEADER_LIST as usize - 1024).await, 200);
    assert_eq!(over_2(LONGEST_HEADER_LIST as usize).await, 431);
}

#[tokio::test]
async fn a_reply_may_have_as_many_fields_and_bytes_of_head_and_one_with_more_is_broken() {
    let (address, _serving) = upstream().await;
    let gateway = gateway(address);
    let ask = async |field: String| {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{field}\r\n\r\n");
        exchange(gateway.addr(), &request).await
    };
    let text = ask(format!("fields: {MOST_FIELDS}")).await;
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    assert_eq!(text.matches("\r\nz: 1").count(), MOST_FIELDS - 2);
    let text = ask(format!("head: {LONGEST_REPLY_HEAD}")).await;
    assert!(text.starts_with("HTTP/1.1 200 "), "{}", &text[..200]);
    for over in
        [format!("fields: {}", MOST_FIELDS + 1), format!("head: {}", LONGEST_REPLY_HEAD + 1)]
    {
        let text = ask(over.clone()).await;
        assert!(text.starts_with("HTTP/1.1 502 ") && text.contains("BROKEN"), "{over}: {text}");
    }
}
