//! What all clones of a layer share: the gate, the choices, the counts; and the way from a request
//! to its fate.

use core::fmt;
use core::pin::Pin;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, header, request};

use crate::ask::{Asking, Ruling};
use crate::gate::{Admission, Charge, Gate, Report, Verdict};
use crate::headers::{Fields, Wanted};
use crate::refusal::{Reason, Refusal};
use crate::stats::{Counters, Event, Place, Queue};

pub(crate) type Write = dyn Fn(&Refusal<'_>) -> Response<Bytes> + Send + Sync;
pub(crate) type Skip = dyn Fn(&request::Parts) -> bool + Send + Sync;
pub(crate) type Inspect = dyn Fn(&request::Parts, &Report) + Send + Sync;
pub(crate) type Sleeping = Pin<Box<dyn Future<Output = ()> + Send>>;
pub(crate) type Sleep = dyn Fn(Duration) -> Sleeping + Send + Sync;

pub(crate) struct Judge<G> {
    pub(crate) gate: G,
    pub(crate) wanted: Wanted,
    pub(crate) write: Box<Write>,
    pub(crate) skip: Option<Box<Skip>>,
    pub(crate) skip_preflight: bool,
    pub(crate) inspect: Option<Box<Inspect>>,
    pub(crate) sleep: Option<Box<Sleep>>,
    pub(crate) queue: Queue,
    pub(crate) counters: Counters,
}

/// What becomes of a request.
pub(crate) enum Fate {
    /// No limit was asked.
    Skip,
    Go {
        wait: Option<Wait>,
        charge: Option<Box<dyn Charge>>,
        fields: Fields,
    },
    Stop {
        response: Response<Bytes>,
    },
}

/// A fate, or the question that it hangs on.
pub(crate) enum Judged {
    Now(Fate),
    Ask { asking: Asking, report: Report },
}

/// A wait for a turn.
pub(crate) struct Wait {
    pub(crate) sleeping: Sleeping,
    pub(crate) place: Place,
}

impl<G: Gate> Judge<G> {
    pub(crate) fn judge(&self, request: &request::Parts) -> Judged {
        if self.skips(request) {
            self.counters.count(Event::Skipped);
            return Judged::Now(Fate::Skip);
        }
        let mut report = Report::default();
        let ruling = match self.gate.decide(request, &mut report) {
            Verdict::Admit(admission) => Ok(admission),
            Verdict::Refuse => Err(Reason::OverLimit),
            Verdict::WithoutKey(error) => Err(Reason::WithoutKey(error)),
            Verdict::Ask(asking) => {
                self.counters.count(Event::Asked);
                return Judged::Ask { asking, report };
            }
        };
        Judged::Now(self.carry_out(request, report, ruling))
    }

    /// Awaits the answer, and judges by it.
    pub(crate) async fn ask(
        self: Arc<Self>,
        request: request::Parts,
        asking: Asking,
        mut report: Report,
    ) -> (Fate, request::Parts) {
        let (ruling, said) = asking.await;
        report.add(said);
        if let Err(Reason::OverLimit) = ruling {
            report.keep_refusals();
        }
        (self.carry_out(&request, report, ruling), request)
    }

    fn carry_out(&self, request: &request::Parts, mut report: Report, ruling: Ruling) -> Fate {
        report.without_key().for_each(|error| self.counters.count_without_key(error));
        report.shadow_refusals().for_each(|_| self.counters.count(Event::ShadowRefused));
        let fate = match ruling {
            Ok(admission) if admission.delay.is_zero() => {
                let fields = Fields::new(&report, self.wanted);
                Fate::Go { wait: None, charge: admission.charge, fields }
            }
            Ok(admission) => self.wait(request, admission, &mut report),
            Err(reason) => self.stop(request, &report, reason),
        };
        if matches!(fate, Fate::Go { .. }) {
            self.counters.count(Event::Admitted);
        }
        if let Some(inspect) = &self.inspect {
            inspect(request, &report);
        }
        fate
    }

    fn skips(&self, request: &request::Parts) -> bool {
        (self.skip_preflight && is_preflight(request))
            || self.skip.as_ref().is_some_and(|skip| skip(request))
    }

    fn wait(&self, request: &request::Parts, admission: Admission, report: &mut Report) -> Fate {
        let place = self.sleep.as_ref().map(|sleep| (sleep, self.queue.enter()));
        let reason = match place {
            Some((sleep, Some(place))) => {
                self.counters.count(Event::Waited);
                let wait = Some(Wait { sleeping: sleep(admission.delay), place });
                let fields = Fields::new(report, self.wanted);
                return Fate::Go { wait, charge: admission.charge, fields };
            }
            Some((_, None)) => Reason::QueueFull,
            None => Reason::OverLimit,
        };
        if let Some(charge) = admission.charge {
            charge.cancel();
        }
        report.refuse_delayed();
        report.keep_refusals();
        self.stop(request, report, reason)
    }

    fn stop(&self, request: &request::Parts, report: &Report, reason: Reason) -> Fate {
        self.counters.count(match reason {
            Reason::OverLimit => Event::Refused,
            Reason::QueueFull => Event::QueueFull,
            Reason::WithoutKey(_) => Event::RefusedWithoutKey,
            Reason::Unavailable => Event::Unavailable,
        });
        let mut response = Refusal { request, report, reason }.respond(&self.write);
        Fields::new(report, self.wanted).add_to(response.headers_mut());
        Fate::Stop { response }
    }
}

/// Whether a browser asks what it may ask for.
fn is_preflight(request: &request::Parts) -> bool {
    request.method == Method::OPTIONS
        && request.headers.contains_key(header::ORIGIN)
        && request.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

impl<G: fmt::Debug> fmt::Debug for Judge<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Judge")
            .field("gate", &self.gate)
            .field("wanted", &self.wanted)
            .field("skip_preflight", &self.skip_preflight)
            .field("waits", &self.sleep.is_some())
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}
