//! RequestBuilder: a request under way to be sent through the policies.

use std::{fmt, time::Duration};

use ::http::{Error as HttpError, HeaderMap, HeaderName, HeaderValue, Version};
use ::reqwest::{Body, Request, Response};

use super::{Client, Error};
use crate::{error::Parts, http::IDEMPOTENCY_KEY, key::idempotency_key};

/// A request to be sent through the policies: reqwest's own builder, whose `send` goes through them.
///
/// ```
/// use std::time::Duration;
/// use quell::{Quell, reqwest::Client};
///
/// # async fn order() -> Result<(), Box<dyn std::error::Error>> {
/// let stock = Client::new(Quell::upstream("stock").build()?)?;
/// let reply = stock
///     .post("http://stock.internal/orders")
///     .bearer_auth("token")
///     .map(|request| request.json(&serde_json::json!({ "pens": 7 })))
///     .keyed()
///     .timeout(Duration::from_secs(2)) // for all attempts together
///     .operation("order pens")
///     .send()
///     .await?;
/// # let _ = reply;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is sent before `send`"]
#[derive(Debug)]
pub struct RequestBuilder {
    client: Client,
    request: ::reqwest::RequestBuilder,
    operation: Option<String>,
}

impl RequestBuilder {
    pub(super) fn new(client: Client, request: ::reqwest::RequestBuilder) -> Self {
        Self { client, request, operation: None }
    }

    /// Anything that reqwest's builder can do and this one cannot, because it takes a feature of reqwest: `json`, `form`,
    /// `query`, `multipart`.
    pub fn map(
        self,
        change: impl FnOnce(::reqwest::RequestBuilder) -> ::reqwest::RequestBuilder,
    ) -> Self {
        Self { request: change(self.request), ..self }
    }

    /// Adds a header.
    pub fn header<K, V>(self, name: K, value: V) -> Self
    where
        HeaderName: TryFrom<K>,
        <HeaderName as TryFrom<K>>::Error: Into<HttpError>,
        HeaderValue: TryFrom<V>,
        <HeaderValue as TryFrom<V>>::Error: Into<HttpError>,
    {
        self.map(|request| request.header(name, value))
    }

    /// Sets headers, in place of others with these names.
    pub fn headers(self, headers: HeaderMap) -> Self {
        self.map(|request| request.headers(headers))
    }

    /// Sets `Authorization` for a user.
    pub fn basic_auth(self, user: impl fmt::Display, password: Option<impl fmt::Display>) -> Self {
        self.map(|request| request.basic_auth(user, password))
    }

    /// Sets `Authorization` for whoever has the token.
    pub fn bearer_auth(self, token: impl fmt::Display) -> Self {
        self.map(|request| request.bearer_auth(token))
    }

    /// Sets the body. One that streams is kept for a retry while it is sent, up to 64 KiB; a longer one is sent once.
    pub fn body(self, body: impl Into<Body>) -> Self {
        self.map(|request| request.body(body))
    }

    /// Sets the version of HTTP.
    pub fn version(self, version: Version) -> Self {
        self.map(|request| request.version(version))
    }

    /// How long all of it may take: waits, every attempt, and the reply's body. It can only shorten the policy's timeout.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.map(|request| request.timeout(timeout))
    }

    /// The key by which the upstream knows this request again, the same on every attempt: an order's number, say. With it
    /// a `POST` may be repeated, so the upstream has to honour it.
    pub fn idempotency_key<V>(self, key: V) -> Self
    where
        HeaderValue: TryFrom<V>,
        <HeaderValue as TryFrom<V>>::Error: Into<HttpError>,
    {
        self.header(IDEMPOTENCY_KEY, key)
    }

    /// The same with a key that is made for this request: 32 hexadecimal digits that nobody has seen before.
    pub fn keyed(self) -> Self {
        self.idempotency_key(idempotency_key())
    }

    /// What the call is named in its error, instead of the upstream's name.
    pub fn operation(self, name: impl Into<String>) -> Self {
        Self { operation: Some(name.into()), ..self }
    }

    /// The request, to be looked at or sent by [`Client::execute`].
    pub fn build(self) -> Result<Request, ::reqwest::Error> {
        self.request.build()
    }

    /// Sends it, as often as the policies allow. The last reply is returned as it is, whatever its status.
    pub async fn send(self) -> Result<Response, Error> {
        let Self { client, request, operation } = self;
        let result = match request.build() {
            Ok(request) => client.execute(request).await,
            Err(error) => Err(Error::not_ready(client.quell().name(), error)),
        };
        result.map_err(|error| match operation {
            Some(operation) => Error::new(Parts { operation, ..error.into_parts() }),
            None => error,
        })
    }
}
