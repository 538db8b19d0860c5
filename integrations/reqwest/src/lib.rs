#![doc = include_str!("../README.md")]

use std::sync::Arc;

use async_trait::async_trait;
use http::Extensions;
use reqwest::{Request, Response, Url};
use reqwest_middleware::{Error, Middleware, Next, Result};
pub use tollgate_client::{self, PaceLayer, Settings, SettingsError};

/// Paces the requests of a reqwest client: each waits for its turn, and each response moves the rate.
///
/// Each host has a rate of its own. Clones share the rates.
///
/// reqwest follows redirects below its middlewares: the requests that follow do not wait for a turn, and a response of
/// another host moves no rate. With [`redirect::Policy::none`](reqwest::redirect::Policy::none) each waits for its own.
///
/// Put a middleware that retries outside of this one: each attempt then waits for its own turn.
///
/// ```
/// use tollgate_reqwest::{PacedClient, Settings};
///
/// let pace = PacedClient::by_host(Settings::new(10.0), 100)?;
/// let client = reqwest_middleware::ClientBuilder::new(reqwest::Client::new()).with(pace).build();
/// # Ok::<(), tollgate_reqwest::SettingsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PacedClient(PaceLayer);

impl PacedClient {
    /// A rate for each of at most `max_hosts` hosts, and one that further hosts share.
    ///
    /// # Errors
    ///
    /// A setting is out of range; the error says what to do.
    pub fn by_host(
        settings: Settings,
        max_hosts: usize,
    ) -> core::result::Result<Self, SettingsError> {
        Ok(Self(PaceLayer::by_host(settings, max_hosts)?))
    }

    /// The pacers, for their rates and counts.
    pub fn layer(&self) -> &PaceLayer {
        &self.0
    }
}

/// Takes the pacers of a layer, which may be shared with clients of tower.
impl From<PaceLayer> for PacedClient {
    fn from(layer: PaceLayer) -> Self {
        Self(layer)
    }
}

#[async_trait]
impl Middleware for PacedClient {
    async fn handle(
        &self,
        request: Request,
        extensions: &mut Extensions,
        next: Next<'_>,
    ) -> Result<Response> {
        let asked = host(request.url());
        let pacer = self.0.pacer(asked.as_deref());
        let turn = pacer.turn().await.map_err(Error::middleware)?;
        let response = next.run(request, extensions).await?;
        // After a redirect, another host may have answered. Both may have the one pacer of all hosts, or of those that
        // have none of their own.
        let answered = host(response.url());
        let is_of = |host: Option<&str>| Arc::ptr_eq(&pacer, &self.0.pacer(host));
        if answered == asked || is_of(None) && is_of(answered.as_deref()) {
            let (mut head, ()) = http::Response::new(()).into_parts();
            head.status = response.status();
            head.headers = response.headers().clone();
            turn.answered(&head);
        }
        Ok(response)
    }
}

/// The host, and the port if it is not that of the scheme.
fn host(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    Some(match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_owned(),
    })
}
