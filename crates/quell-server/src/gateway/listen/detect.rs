//! Which HTTP a caller speaks without TLS: HTTP/2 opens with a preface that no request of HTTP/1.1 can be.
//!
//! The bytes that were looked at are handed on first, by [`Prefixed`]. No more than the preface is ever read here, and
//! for HTTP/1.1 one read tells.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use crate::host::tls::Version;

const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reads until it is clear which HTTP is spoken. Once the first byte has come, that may take `head`; how long a silent
/// caller is kept is up to whoever awaits this and may drop it at any time. An end of the stream reads as HTTP/1.1,
/// which knows what to make of it.
pub(in crate::gateway) async fn detect<S: AsyncRead + Unpin>(
    stream: S,
    head: Duration,
) -> io::Result<(Prefixed<S>, Version)> {
    let mut stream = Prefixed::new(stream);
    let version = match stream.fill().await? {
        Some(version) => version,
        None => timeout(head, stream.rest()).await.map_err(|_| io::ErrorKind::TimedOut)??,
    };
    Ok((stream, version))
}

/// A stream some of whose bytes were read already; they come first.
#[derive(Debug)]
pub(in crate::gateway) struct Prefixed<S> {
    bytes: [u8; PREFACE.len()],
    read: u8,
    given: u8,
    stream: S,
}

impl<S> Prefixed<S> {
    fn new(stream: S) -> Self {
        Self { bytes: [0; PREFACE.len()], read: 0, given: 0, stream }
    }

    pub(in crate::gateway) fn get_ref(&self) -> &S {
        &self.stream
    }

    fn waiting(&self) -> &[u8] {
        &self.bytes[usize::from(self.given)..usize::from(self.read)]
    }
}

impl<S: AsyncRead + Unpin> Prefixed<S> {
    /// Reads once; `None` if that does not tell yet.
    async fn fill(&mut self) -> io::Result<Option<Version>> {
        std::future::poll_fn(|cx| {
            let mut room = ReadBuf::new(&mut self.bytes[usize::from(self.read)..]);
            let polled = Pin::new(&mut self.stream).poll_read(cx, &mut room);
            let came = room.filled().len();
            polled.map_ok(|()| {
                self.read += came as u8; // there is room for 24
                let read = self.waiting();
                match PREFACE.starts_with(read) {
                    false => Some(Version::Http1),
                    true if read.len() == PREFACE.len() => Some(Version::Http2),
                    true => (came == 0).then_some(Version::Http1),
                }
            })
        })
        .await
    }

    async fn rest(&mut self) -> io::Result<Version> {
        loop {
            if let Some(version) = self.fill().await? {
                return Ok(version);
            }
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prefixed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let waiting = self.waiting();
        if waiting.is_empty() {
            return Pin::new(&mut self.stream).poll_read(cx, buffer);
        }
        let n = waiting.len().min(buffer.remaining());
        buffer.put_slice(&waiting[..n]);
        self.given += n as u8; // no more than was read
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prefixed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buffer)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    const HEAD: Duration = Duration::from_secs(10);

    async fn detected(pieces: &[&[u8]]) -> (Version, Vec<u8>) {
        let (mut caller, ours) = duplex(64);
        let tell = async {
            for piece in pieces {
                caller.write_all(piece).await.unwrap();
                tokio::task::yield_now().await;
            }
            drop(caller);
        };
        let read = async {
            let (mut stream, version) = detect(ours, HEAD).await.unwrap();
            let mut all = Vec::new();
            stream.read_to_end(&mut all).await.unwrap();
            (version, all)
        };
        tokio::join!(tell, read).1
    }

    #[tokio::test(start_paused = true)]
    async fn the_preface_is_http2_and_all_else_is_http1_and_no_byte_is_lost() {
        let preface = PREFACE.as_slice();
        for cut in 0..preface.len() {
            let pieces = [&preface[..cut], &preface[cut..], b"settings"];
            let told = detected(&pieces).await;
            assert_eq!(told, (Version::Http2, [preface, b"settings"].concat()), "cut at {cut}");
        }
        let requests: [&[u8]; 5] = [
            b"GET / HTTP/1.1\r\n\r\n",
            b"PUT / HTTP/1.1\r\n\r\n",
            b"PRI * HTTP/1.1\r\n\r\nSM\r\n\r\nand more",
            b"P",
            b"",
        ];
        for request in requests {
            assert_eq!(detected(&[request]).await, (Version::Http1, request.to_vec()));
            let bytes: Vec<_> = request.chunks(1).collect();
            assert_eq!(detected(&bytes).await, (Version::Http1, request.to_vec()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn half_a_preface_is_waited_for_as_long_as_a_head_and_silence_is_not_timed_here() {
        let (mut caller, ours) = duplex(64);
        let begun = Instant::now();
        let late = Duration::from_secs(3_600);
        let tell = async {
            tokio::time::sleep(late).await;
            caller.write_all(b"PRI").await.unwrap();
        };
        let error = tokio::join!(tell, detect(ours, HEAD)).1.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), late + HEAD);
    }
}
