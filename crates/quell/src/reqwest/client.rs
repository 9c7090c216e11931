//! Client: reqwest's, with the policies around it.

use ::reqwest::{ClientBuilder, IntoUrl, Method, Request, Response};
use tower_service::Service as _;

use super::{Error, RequestBuilder, Reqwest};
use crate::{
    Quell,
    context::Context,
    tower::{QuellLayer, QuellService},
};

/// See the [module](super). Cheap to clone; clones share the connections, and with them the upstream's budget, breaker
/// and limit.
///
/// ```
/// use std::time::Duration;
/// use quell::{Quell, reqwest::Client};
///
/// # async fn count() -> Result<(), Box<dyn std::error::Error>> {
/// let connects = reqwest::Client::builder().connect_timeout(Duration::from_secs(1));
/// let stock = Client::with(connects, Quell::upstream("stock").build()?)?;
/// let pens = stock.get("http://stock.internal/pens").send().await?.text().await?;
/// # let _ = pens;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    client: ::reqwest::Client,
    service: QuellService<::reqwest::Client, Reqwest>,
}

impl Client {
    /// A client of this upstream, with reqwest's defaults. It fails where reqwest's would panic.
    pub fn new(quell: Quell) -> Result<Self, ::reqwest::Error> {
        Self::with(::reqwest::Client::builder(), quell)
    }

    /// A client of this upstream with connections, proxies and TLS as the builder says. Its own retries are switched off,
    /// for no budget would see them.
    pub fn with(builder: ClientBuilder, quell: Quell) -> Result<Self, ::reqwest::Error> {
        let client = builder.retry(::reqwest::retry::never()).build()?;
        Ok(Self::around(client, quell, Reqwest::new()))
    }

    fn around(client: ::reqwest::Client, quell: Quell, protocol: Reqwest) -> Self {
        let service = tower_layer::Layer::layer(&QuellLayer::with(quell, protocol), client.clone());
        Self { client, service }
    }

    /// The same connections for another upstream: whatever protects the one knows nothing of the other.
    ///
    /// ```
    /// use quell::{Quell, reqwest::Client};
    ///
    /// let stock = Client::new(Quell::upstream("stock").build()?)?;
    /// let prices = stock.for_upstream(Quell::upstream("prices").build()?);
    /// assert_eq!(prices.quell().name(), "prices");
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_upstream(&self, quell: Quell) -> Self {
        Self::around(self.client.clone(), quell, Reqwest::new())
    }

    /// The same client without headers of ours on its requests: for upstreams that are not ours.
    ///
    /// ```
    /// use quell::{Quell, reqwest::Client};
    ///
    /// let model = Client::new(Quell::upstream("model").build()?)?.unmarked();
    /// # let _ = model;
    /// # Ok::<_, Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn unmarked(self) -> Self {
        Self::around(self.client, self.service.quell().clone(), Reqwest::unmarked())
    }

    /// The upstream that it calls.
    pub fn quell(&self) -> &Quell {
        self.service.quell()
    }

    /// A `GET` request.
    pub fn get(&self, url: impl IntoUrl) -> RequestBuilder {
        self.request(Method::GET, url)
    }

    /// A `POST` request. It is repeated only with a [key](RequestBuilder::idempotency_key), or if it was never sent.
    pub fn post(&self, url: impl IntoUrl) -> RequestBuilder {
        self.request(Method::POST, url)
    }

    /// A `PUT` request.
    pub fn put(&self, url: impl IntoUrl) -> RequestBuilder {
        self.request(Method::PUT, url)
    }

    /// A `PATCH` request. It is repeated only with a [key](RequestBuilder::idempotency_key), or if it was never sent.
    pub fn patch(&self, url: impl IntoUrl) -> RequestBuilder {
        self.request(Method::PATCH, url)
    }

    /// A `DELETE` request.
    pub fn delete(&self, url: impl IntoUrl) -> RequestBuilder {
        self.request(Method::DELETE, url)
    }

    /// A `HEAD` request.
    pub fn head(&self, url: impl IntoUrl) -> RequestBuilder {
        self.request(Method::HEAD, url)
    }

    /// A request with this method. Like reqwest's, it keeps a mistake to itself until it is sent.
    pub fn request(&self, method: Method, url: impl IntoUrl) -> RequestBuilder {
        RequestBuilder::new(self.clone(), self.client.request(method, url))
    }

    /// Sends a request that is already built. The timeout that it has is that of the whole call, retries and the reply's
    /// body included; it can only shorten the policy's.
    pub async fn execute(&self, request: Request) -> Result<Response, Error> {
        let mut service = self.service.clone(); // always ready, like the client within
        let calling = match request.timeout() {
            None => service.call(request),
            Some(within) => {
                let by = self.quell().shared().clock().now() + *within;
                let context = Context::current().unwrap_or_default().with_deadline(by);
                context.enter(|| service.call(request))
            }
        };
        calling.await
    }
}
