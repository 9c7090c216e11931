//! Post: sends spans to a collector, one request at a time on the thread that exports them.
//!
//! That thread has no runtime and nothing else to do, so this blocks; it is bounded in time and in what it reads.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use opentelemetry_http::{HttpClient, HttpError};

/// How long connecting, writing and reading may each take.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// The longest reply that is read.
const LONGEST: u64 = 64 * 1024;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Post;

#[async_trait]
impl HttpClient for Post {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        Ok(post(&request)?)
    }
}

fn post(request: &Request<Bytes>) -> io::Result<Response<Bytes>> {
    let invalid = || io::Error::new(io::ErrorKind::InvalidInput, "no host in the collector's URL");
    let (uri, body) = (request.uri(), request.body());
    let authority = uri.authority().ok_or_else(invalid)?;
    let host = authority.host().trim_matches(['[', ']']);
    let mut found = (host, authority.port_u16().unwrap_or(80)).to_socket_addrs()?;
    let mut stream = TcpStream::connect_timeout(&found.next().ok_or_else(invalid)?, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let mut head = format!(
        "POST {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\ncontent-length: {}\r\n",
        body.len()
    )
    .into_bytes();
    for (name, value) in request.headers() {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    stream.write_all(&head)?;
    stream.write_all(body)?;
    status(stream)
}

/// What the collector says. Its words are not of interest, only whether it took the spans.
fn status(stream: TcpStream) -> io::Result<Response<Bytes>> {
    let mut line = String::new();
    BufReader::new(stream.take(LONGEST)).read_line(&mut line)?;
    let code = line.split(' ').nth(1).and_then(|code| code.parse::<u16>().ok());
    let reply = code.and_then(|code| Response::builder().status(code).body(Bytes::new()).ok());
    reply.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no HTTP reply"))
}
