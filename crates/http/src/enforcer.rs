//! The state that all clones of a layer share, and the path of a request through it.

use core::fmt;
use core::net::SocketAddr;
use core::pin::Pin;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::{Extensions, Method, Response, header, request};

use crate::denial::{Denial, Reason};
use crate::gate::{Charge, Gate, GateDecision, GatePermit, PendingVerdict, Verdict};
use crate::headers::{Fields, Report, Wanted};
use crate::jitter::Jitter;
use crate::key;
use crate::stats::{Counters, Event, Queue, QueueGuard};

type Write = dyn Fn(&Denial<'_>) -> Response<Bytes> + Send + Sync;
type Skip = dyn Fn(&request::Parts) -> bool + Send + Sync;
type FindPeer = dyn Fn(&Extensions) -> Option<SocketAddr> + Send + Sync;
type Inspect = dyn Fn(&request::Parts, &Report) + Send + Sync;
pub(crate) type Sleeping = Pin<Box<dyn Future<Output = ()> + Send>>;
type Sleep = dyn Fn(Duration) -> Sleeping + Send + Sync;

/// The gate, the settings and the counters of a layer.
pub(crate) struct Enforcer<G> {
    pub(crate) gate: G,
    pub(crate) wanted: Wanted,
    pub(crate) jitter: Jitter,
    pub(crate) write: Box<Write>,
    pub(crate) find_peer: Option<Box<FindPeer>>,
    pub(crate) skip: Option<Box<Skip>>,
    pub(crate) skip_preflight: bool,
    pub(crate) inspect: Option<Box<Inspect>>,
    pub(crate) sleep: Option<Box<Sleep>>,
    pub(crate) queue: Queue,
    pub(crate) max_waiting_per_key: u64,
    pub(crate) counters: Counters,
}

/// The service's action on a request.
pub(crate) enum Action {
    /// Forwards it without asking a limit.
    Skip,
    /// Forwards it, after a wait if there is one.
    Forward { wait: Option<Wait>, charge: Option<Box<dyn Charge>>, fields: Fields },
    /// Answers it without the inner service.
    Respond { response: Response<Bytes> },
}

/// An action, or the verdict that it depends on.
pub(crate) enum Handling {
    Now(Action),
    Pending { verdict: PendingVerdict, report: Report, max_waiting: u64 },
}

/// A wait for a turn.
pub(crate) struct Wait {
    pub(crate) sleeping: Sleeping,
    pub(crate) place: QueueGuard,
}

/// Whether the gate knew that the queue had a free place when it decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceInQueue {
    Promised,
    NotPromised,
}

impl<G: Gate> Enforcer<G> {
    /// Puts the peer's address where keys read it.
    pub(crate) fn place_peer(&self, request: &mut request::Parts) {
        let found = self.find_peer.as_ref().and_then(|find| find(&request.extensions));
        if let Some(address) = found {
            key::place_peer(&mut request.extensions, address);
        }
    }

    pub(crate) fn handle(&self, request: &request::Parts) -> Handling {
        if self.skips(request) {
            self.counters.count(Event::Skipped);
            return Handling::Now(Action::Skip);
        }
        let mut report = Report::default();
        let max_waiting = self.max_waiting();
        let decision = match self.gate.decide_queued(request, max_waiting, &mut report) {
            Verdict::Admit(permit) => Ok(permit),
            Verdict::Deny => Err(Reason::OverLimit),
            Verdict::QueueFull if max_waiting == 0 && self.sleep().is_some() => {
                Err(Reason::QueueFull)
            }
            // The queue of its key is full, or the layer lets no request wait.
            Verdict::QueueFull => Err(Reason::OverLimit),
            Verdict::NoKey(error) => Err(Reason::NoKey(error)),
            Verdict::Forbidden => Err(Reason::Forbidden),
            Verdict::Pending(verdict) => {
                self.counters.count(Event::Pending);
                return Handling::Pending { verdict, report, max_waiting };
            }
        };
        let place = match max_waiting {
            0 => PlaceInQueue::NotPromised,
            _ => PlaceInQueue::Promised,
        };
        Handling::Now(self.action(request, report, decision, place))
    }

    /// How a request waits; `None` if the layer lets no request wait.
    fn sleep(&self) -> Option<&Sleep> {
        self.sleep.as_deref().filter(|_| self.max_waiting_per_key > 0)
    }

    /// How many requests of a key may wait: none if the queue of all keys is full.
    fn max_waiting(&self) -> u64 {
        let may_wait = self.sleep().is_some() && !self.queue.is_full();
        if may_wait { self.max_waiting_per_key } else { 0 }
    }

    /// Awaits a pending verdict.
    pub(crate) async fn resolve(
        self: Arc<Self>,
        request: request::Parts,
        verdict: PendingVerdict,
        mut report: Report,
        max_waiting: u64,
    ) -> (Action, request::Parts) {
        let (decision, added) = verdict.await;
        report.add(added);
        if decision.is_err() {
            report.keep_denials();
        }
        if let Err(Reason::OverLimit) = decision {
            let mut found = Report::default();
            self.gate.peek(&request, max_waiting, &mut found);
            report.add_denials(found);
        }
        (self.action(&request, report, decision, PlaceInQueue::NotPromised), request)
    }

    fn action(
        &self,
        request: &request::Parts,
        mut report: Report,
        decision: GateDecision,
        place: PlaceInQueue,
    ) -> Action {
        report.key_errors().for_each(|error| self.counters.count_key_error(error));
        report.shadow_denials().for_each(|_| self.counters.count(Event::ShadowDenied));
        let action = match decision {
            Ok(permit) if permit.delay.is_zero() => {
                let fields = Fields::new(&report, self.wanted);
                Action::Forward { wait: None, charge: permit.charge, fields }
            }
            Ok(permit) => self.wait(request, permit, &mut report, place),
            Err(reason) => self.deny(request, &report, reason),
        };
        if matches!(action, Action::Forward { .. }) {
            self.counters.count(Event::Admitted);
        }
        if let Some(inspect) = &self.inspect {
            inspect(request, &report);
        }
        action
    }

    fn skips(&self, request: &request::Parts) -> bool {
        (self.skip_preflight && is_preflight(request))
            || self.skip.as_ref().is_some_and(|skip| skip(request))
    }

    fn wait(
        &self,
        request: &request::Parts,
        permit: GatePermit,
        report: &mut Report,
        place: PlaceInQueue,
    ) -> Action {
        let enter = || match place {
            PlaceInQueue::Promised => Some(self.queue.enter_even_if_full()),
            PlaceInQueue::NotPromised => self.queue.enter(),
        };
        let place = self.sleep().map(|sleep| (sleep, enter()));
        let reason = match place {
            Some((sleep, Some(place))) => {
                self.counters.count(Event::Waited);
                let wait = Some(Wait { sleeping: sleep(permit.delay), place });
                let fields = Fields::new(report, self.wanted);
                return Action::Forward { wait, charge: permit.charge, fields };
            }
            Some((_, None)) => Reason::QueueFull,
            None => Reason::OverLimit,
        };
        if let Some(charge) = permit.charge {
            charge.refund();
        }
        report.deny_delayed();
        report.keep_denials();
        self.deny(request, report, reason)
    }

    fn deny(&self, request: &request::Parts, report: &Report, reason: Reason) -> Action {
        self.counters.count(match reason {
            Reason::OverLimit => Event::Denied,
            Reason::QueueFull => Event::QueueFull,
            Reason::NoKey(_) => Event::DeniedNoKey,
            Reason::Forbidden => Event::Forbidden,
            Reason::Unavailable => Event::Unavailable,
        });
        let denial = Denial::new(request, report, reason).with_jitter(self.jitter);
        let mut response = denial.respond(&self.write);
        Fields::new(report, self.wanted).add_to(response.headers_mut());
        Action::Respond { response }
    }
}

/// Whether a request is a CORS preflight.
fn is_preflight(request: &request::Parts) -> bool {
    request.method == Method::OPTIONS
        && request.headers.contains_key(header::ORIGIN)
        && request.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

impl<G: fmt::Debug> fmt::Debug for Enforcer<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Enforcer")
            .field("gate", &self.gate)
            .field("wanted", &self.wanted)
            .field("skip_preflight", &self.skip_preflight)
            .field("waits", &self.sleep.is_some())
            .field("queue", &self.queue)
            .field("max_waiting_per_key", &self.max_waiting_per_key)
            .finish_non_exhaustive()
    }
}
