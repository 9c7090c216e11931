//! Doors and who comes through them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{Bound, ErrorKind, Listener, Peer, Stream, io, tcp, unix};
use crate::host::kit::Dir;

fn open(bound: Vec<Bound>) -> Vec<Listener> {
    bound.into_iter().map(|bound| bound.open().unwrap()).collect()
}

/// Sends the word through and back.
async fn echoed(stream: &mut Stream, mut caller: impl io::Read + io::Write) -> String {
    caller.write_all(b"hello").unwrap();
    let mut word = [0; 5];
    stream.read_exact(&mut word).await.unwrap();
    assert!(stream.is_write_vectored());
    stream.write_all(&word).await.unwrap();
    caller.read_exact(&mut word).unwrap();
    String::from_utf8(word.to_vec()).unwrap()
}

#[tokio::test]
async fn callers_come_in_over_tcp_and_are_known_by_their_address() {
    let bound = tcp("127.0.0.1:0".parse().unwrap(), 2).unwrap();
    let addr = bound[0].addr().unwrap();
    assert_eq!(bound[1].addr(), Some(addr));
    let error = tcp(addr, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AddrInUse);
    let listeners = open(bound);
    let caller = std::net::TcpStream::connect(addr).unwrap();
    let (mut stream, peer) = tokio::select! {
        accepted = listeners[0].accept() => accepted.unwrap(),
        accepted = listeners[1].accept() => accepted.unwrap(),
    };
    assert_eq!(peer, Peer::Ip(addr.ip()));
    assert_eq!(echoed(&mut stream, caller).await, "hello");
}

#[tokio::test]
async fn an_ipv4_caller_of_an_ipv6_listener_has_its_ipv4_address() {
    let Ok(bound) = tcp("[::]:0".parse().unwrap(), 1) else { return }; // a machine without IPv6
    let port = bound[0].addr().unwrap().port();
    let listeners = open(bound);
    let _caller = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (_, peer) = listeners[0].accept().await.unwrap();
    assert_eq!(peer, Peer::Ip("127.0.0.1".parse().unwrap()));
}

#[tokio::test]
async fn every_core_can_take_callers_of_one_unix_socket_for_owner_and_group() {
    let dir = Dir::new("cores");
    let path = dir.path("quell.sock");
    let bound = unix(&path, 3).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    assert_eq!(bound[0].addr(), None);
    for listener in &open(bound) {
        let caller = UnixStream::connect(&path).unwrap();
        let (mut stream, peer) = listener.accept().await.unwrap();
        assert_eq!(peer, Peer::Unix);
        assert_eq!(echoed(&mut stream, caller).await, "hello");
    }
    assert!(!path.exists(), "left behind");
}

#[tokio::test]
async fn a_socket_that_was_left_behind_is_replaced_and_a_live_one_or_a_file_is_not() {
    let dir = Dir::new("stale");
    let path = dir.path("quell.sock");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let ours = unix(&path, 1).unwrap();
    for _ in 0..2 {
        let error = unix(&path, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse);
        assert!(error.to_string().contains("another process"), "{error}");
    }
    assert!(UnixStream::connect(&path).is_ok(), "the live one was taken away");
    drop(ours);
    fs::write(&path, "precious").unwrap();
    let error = unix(&path, 1).unwrap_err().to_string();
    assert!(error.contains("no socket"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn a_socket_that_took_the_place_of_ours_is_left_alone() {
    let dir = Dir::new("place");
    let path = dir.path("quell.sock");
    let ours = unix(&path, 1).unwrap();
    fs::remove_file(&path).unwrap();
    let theirs = unix(&path, 1).unwrap();
    drop(ours);
    assert!(UnixStream::connect(&path).is_ok());
    drop(theirs);
    assert!(!path.exists());
}

#[tokio::test]
async fn a_drain_lets_in_whoever_is_in_the_queue_and_nobody_after() {
    let dir = Dir::new("drain");
    let path = dir.path("quell.sock");
    let tcp = tcp("127.0.0.1:0".parse().unwrap(), 1).unwrap();
    let addr = tcp[0].addr().unwrap();
    let tcp_callers: Vec<_> =
        (0..40).map(|_| std::net::TcpStream::connect(addr).unwrap()).collect();
    let unix = unix(&path, 2).unwrap();
    let unix_callers: Vec<_> = (0..40).map(|_| UnixStream::connect(&path).unwrap()).collect();
    let mut streams = Vec::new();
    for listener in open(tcp).into_iter().chain(open(unix)) {
        listener.drain(|caller| streams.push(caller));
    }
    assert_eq!(streams.len(), 80);
    assert!(std::net::TcpStream::connect(addr).is_err());
    assert!(UnixStream::connect(&path).is_err() && !path.exists());
    let (over_tcp, over_unix) = streams.split_at_mut(40);
    for ((stream, peer), caller) in over_tcp.iter_mut().zip(tcp_callers) {
        assert_eq!(*peer, Peer::Ip(addr.ip()));
        assert_eq!(echoed(stream, caller).await, "hello");
    }
    for ((stream, peer), caller) in over_unix.iter_mut().zip(unix_callers) {
        assert_eq!(*peer, Peer::Unix);
        assert_eq!(echoed(stream, caller).await, "hello");
    }
}
