//! The layer and its service.

#![allow(
    clippy::disallowed_types,
    reason = "the lock is held for one look-up, never across an await"
)]

use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use http::header::HOST;
use http::{Request, Response};
use tollgate::Tick;
use tower_layer::Layer;
use tower_service::Service;

use crate::error::{PacerError, SettingsError};
use crate::pacer::{Pacer, Turn, widened};
use crate::settings::Settings;

/// Paces the requests of a client: each waits for its turn, and each response moves the rate.
///
/// Clones, and all services that it makes, share the pacers.
///
/// A response with 429 or 503 goes to the caller like any other. To send a request again, put a layer that
/// retries around this one: each attempt then waits for its own turn.
///
/// **Not guaranteed.**
///
/// - `poll_ready` does not wait for a turn, since the turn depends on the request. At most
///   [`max_waiting`](Settings::max_waiting) requests wait for a pacer; one more fails at once.
/// - After its turn, a request waits for the inner service for as long as that is not ready; no setting bounds that.
///   Then it waits for a second turn, for at most [`max_wait`](Settings::max_wait) again. So requests that the service
///   has held up go at the rate, too, and not all at once. One that the service holds up again waits for no third
///   turn.
/// - Requests that come later wait behind those that the service has held up. If they arrive at the full rate, each
///   waits longer, by the time for which the service held up others. This ends when fewer arrive or the rate has grown.
///   Requests that wait for a second turn count towards `max_waiting`, too.
/// - If a pause begins before a request is sent, the request waits for the end of the pause and another turn. That
///   and the wait for its first turn take at most `max_wait` together.
///
/// ```
/// use tollgate_client::{PaceLayer, Settings};
///
/// let layer = PaceLayer::by_host(Settings::new(10.0), 100)?;
/// assert!(layer.pacer(Some("api.example.com")).rate() > 9.0);
/// # Ok::<(), tollgate_client::SettingsError>(())
/// ```
#[derive(Clone, Debug)]
pub struct PaceLayer {
    pacers: Arc<Pacers>,
}

#[derive(Debug)]
enum Pacers {
    One(Arc<Pacer>),
    ByHost(Hosts),
}

/// A pacer for each host, and one for those that came when there were too many.
struct Hosts {
    settings: Settings,
    max_hosts: usize,
    others: Arc<Pacer>,
    known: Mutex<HashMap<String, Arc<Pacer>>>,
}

impl PaceLayer {
    /// One pacer for all requests: for a client of one server.
    #[must_use]
    pub fn new(pacer: Pacer) -> Self {
        Self { pacers: Arc::new(Pacers::One(Arc::new(pacer))) }
    }

    /// A pacer for each host (and port) that requests name, in their URI or in `Host`. From `max_hosts` on,
    /// all further hosts share one pacer, and so do requests that name none. A host is never forgotten.
    ///
    /// # Errors
    ///
    /// A setting is out of range; the error says what to do.
    pub fn by_host(settings: Settings, max_hosts: usize) -> Result<Self, SettingsError> {
        let others = Arc::new(Pacer::new(settings)?);
        let hosts = Hosts { settings, max_hosts, others, known: Mutex::default() };
        Ok(Self { pacers: Arc::new(Pacers::ByHost(hosts)) })
    }

    /// The pacer of a host, such as `api.example.com` or `127.0.0.1:3000`; the case of letters does not
    /// matter.
    #[must_use]
    pub fn pacer(&self, host: Option<&str>) -> Arc<Pacer> {
        self.pacers.of(host)
    }
}

impl Pacers {
    fn of(&self, host: Option<&str>) -> Arc<Pacer> {
        match (self, host) {
            (Self::One(pacer), _) => Arc::clone(pacer),
            (Self::ByHost(hosts), Some(host)) => hosts.of(host.to_ascii_lowercase()),
            (Self::ByHost(hosts), None) => Arc::clone(&hosts.others),
        }
    }
}

impl Hosts {
    fn of(&self, host: String) -> Arc<Pacer> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = known.len() >= self.max_hosts;
        match known.get(&host) {
            Some(pacer) => Arc::clone(pacer),
            None if is_full => Arc::clone(&self.others),
            None => {
                let pacer = Pacer::new(self.settings).map_or_else(
                    |_| Arc::clone(&self.others), // the settings were checked when built
                    Arc::new,
                );
                known.insert(host, Arc::clone(&pacer));
                pacer
            }
        }
    }
}

impl<S> Layer<S> for PaceLayer {
    type Service = PaceService<S>;

    fn layer(&self, inner: S) -> PaceService<S> {
        PaceService { inner, pacers: Arc::clone(&self.pacers) }
    }
}

/// A service whose requests wait for their turn: made by a [`PaceLayer`].
#[derive(Clone, Debug)]
pub struct PaceService<S> {
    inner: S,
    pacers: Arc<Pacers>,
}

impl<S, B, R> Service<Request<B>> for PaceService<S>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response<R>;
    type Error = PacerError<S::Error>;
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, PacerError<S::Error>>> + Send>>;

    /// Always ready: a request waits in its own future, and for the inner service only after its turn.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (pacer, mut inner) = (self.pacers.of(host(&request)), self.inner.clone());
        Box::pin(async move {
            let turn = pacer.counted(ready_turn(&pacer, &mut inner).await)?;
            let response = inner.call(request).await.map_err(PacerError::Service)?;
            let (head, body) = response.into_parts();
            turn.answered(&head);
            Ok(Response::from_parts(head, body))
        })
    }
}

/// Waits for a turn, and then until the service is ready.
async fn ready_turn<'a, S, Q>(
    pacer: &'a Pacer,
    service: &mut S,
) -> Result<Turn<'a>, PacerError<S::Error>>
where
    S: Service<Q> + Clone,
{
    let mut deadline = pacer.deadline();
    let mut waited_again = false;
    loop {
        let turn = pacer.turn_until(deadline).await.map_err(widened)?;
        let began = pacer.now();
        let is_held_up = had_to_wait(service).await? || pacer.holds_up();
        if is_held_up && pacer.wait_again(Tick::ZERO).await.is_err() {
            // A clone holds no place under a limit of the service while it waits.
            *service = service.clone();
            waited_again |= pacer.wait_again(pacer.deadline()).await.map_err(widened)?;
            had_to_wait(service).await?;
        }
        // A pause may have begun meanwhile. The turn is lost, and another one comes after the pause. Others have had
        // turns since, so a refund would let two go at once.
        if let Some(turn) = turn.sent_now(waited_again) {
            return Ok(turn);
        }
        // The time for which the service held the request up does not count.
        deadline = deadline.saturating_add(pacer.now().since(began));
        *service = service.clone();
    }
}

/// Waits until the service is ready. Returns whether it was not ready at once.
async fn had_to_wait<S: Service<Q>, Q>(service: &mut S) -> Result<bool, PacerError<S::Error>> {
    let mut had_to_wait = false;
    poll_fn(|context| {
        let polled = service.poll_ready(context);
        had_to_wait |= polled.is_pending();
        polled
    })
    .await
    .map_err(PacerError::Service)?;
    Ok(had_to_wait)
}

fn host<B>(request: &Request<B>) -> Option<&str> {
    let of_uri = request.uri().authority().map(|authority| {
        let text = authority.as_str();
        // Without user and password.
        text.rsplit_once('@').map_or(text, |(_, host)| host)
    });
    of_uri.or_else(|| request.headers().get(HOST)?.to_str().ok())
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hosts")
            .field("settings", &self.settings)
            .field("max_hosts", &self.max_hosts)
            .finish_non_exhaustive()
    }
}
