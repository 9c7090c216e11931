//! A client that can do no more than it takes to ask a gateway's admin side.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;

const CONNECT: Duration = Duration::from_secs(2);
/// A reload may look up names and read certificates.
const REPLY: Duration = Duration::from_secs(30);
const MOST_BODY: usize = 16 * 1024 * 1024;

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Client {
    authority: String,
    token: Option<HeaderValue>,
}

impl Client {
    pub(super) fn new(admin: &str, token: Option<String>) -> anyhow::Result<Self> {
        let fix = || {
            format!("--admin is {admin:?}: write http://host:port, such as http://127.0.0.1:9901")
        };
        let uri: Uri = admin.parse().with_context(fix)?;
        let authority = uri.authority().filter(|authority| authority.port().is_some());
        let (Some(authority), Some("http"), "/" | "") = (authority, uri.scheme_str(), uri.path())
        else {
            bail!(fix());
        };
        let token = token.map(|token| {
            let mut token = HeaderValue::try_from(format!("Bearer {token}"))
                .context("the admin token has characters that no header can carry")?;
            token.set_sensitive(true);
            anyhow::Ok(token)
        });
        Ok(Self { authority: authority.as_str().to_owned(), token: token.transpose()? })
    }

    pub(super) fn get(&self, path: &str) -> anyhow::Result<String> {
        self.ask(Method::GET, path, String::new())
    }

    pub(super) fn change(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> anyhow::Result<String> {
        ensure!(
            self.token.is_some(),
            "this changes something, so the gateway wants its admin token: name a file with --token-file or set QUELL_ADMIN_TOKEN"
        );
        self.ask(method, path, body.to_string())
    }

    fn ask(&self, method: Method, path: &str, body: String) -> anyhow::Result<String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (status, text) = runtime.block_on(async {
            timeout(REPLY, self.exchange(method, path, body))
                .await
                .with_context(|| format!("{} did not answer within {REPLY:?}", self.authority))?
        })?;
        ensure!(status.is_success(), "the gateway refuses ({status}): {}", text.trim_end());
        Ok(text)
    }

    async fn exchange(
        &self,
        method: Method,
        path: &str,
        body: String,
    ) -> anyhow::Result<(StatusCode, String)> {
        let unreachable = || format!("no gateway's admin side at http://{}", self.authority);
        let stream = timeout(CONNECT, TcpStream::connect(&self.authority)).await;
        let stream = stream.map_err(anyhow::Error::from).and_then(|stream| Ok(stream?));
        let stream = stream.with_context(unreachable)?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.with_context(unreachable)?;
        tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(path).header(HOST, &self.authority);
        if !body.is_empty() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, token);
        }
        let request = request.body(Full::new(Bytes::from(body)))?;
        let reply = sender.send_request(request).await.with_context(unreachable)?;
        let status = reply.status();
        let body = Limited::new(reply.into_body(), MOST_BODY).collect().await;
        let body =
            body.map_err(|error| anyhow::anyhow!("the reply broke off: {error}"))?.to_bytes();
        Ok((status, String::from_utf8_lossy(&body).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_none_is_told_with_what_to_write() {
        for admin in [
            "",
            "127.0.0.1",
            "127.0.0.1:9901",
            "https://127.0.0.1:9901",
            "http://localhost",
            "http://h:1/x",
            "http://[::1",
        ] {
            let error = format!("{:#}", Client::new(admin, None).unwrap_err());
            assert!(error.contains("write http://host:port"), "{admin}: {error}");
        }
        assert!(Client::new("http://127.0.0.1:9901/", None).is_ok());
    }

    #[test]
    fn a_token_is_never_shown() {
        let client = Client::new("http://127.0.0.1:9901", Some("hunter2".to_owned())).unwrap();
        assert!(!format!("{client:?}").contains("hunter2"));
        let error = Client::new("http://127.0.0.1:9901", Some("hun\nter2".to_owned())).unwrap_err();
        assert!(!format!("{error:#}").contains("ter2"), "{error:#}");
    }

    #[test]
    fn a_change_without_a_token_is_not_even_sent() {
        let client = Client::new("http://127.0.0.1:1", None).unwrap();
        let error = client.change(Method::POST, "/drain", &Value::Null).unwrap_err().to_string();
        assert!(error.contains("QUELL_ADMIN_TOKEN"), "{error}");
    }
}
