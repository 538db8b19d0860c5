//! What all clones of a layer share: the gate, the choices, the counts; and the way from a request
//! to its fate.

use core::fmt;
use core::pin::Pin;
use core::time::Duration;
use std::sync::Arc;

use bytes::Bytes;
use http::{Method, Response, header, request};

use crate::pending::{Asking, Ruling};
use crate::denial::{Denial, Reason};
use crate::gate::{Admission, Charge, Gate, Report, Verdict};
use crate::headers::{Fields, Wanted};
use crate::stats::{Counters, Event, Place, Queue};

pub(crate) type Write = dyn Fn(&Denial<'_>) -> Response<Bytes> + Send + Sync;
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
    pub(crate) max_waiting_per_key: u64,
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
    Ask { asking: Asking, report: Report, max_waiting: u64 },
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
        let max_waiting = self.max_waiting();
        let ruling = match self.gate.decide_queued(request, max_waiting, &mut report) {
            Verdict::Admit(admission) => Ok(admission),
            Verdict::Deny => Err(Reason::OverLimit),
            Verdict::QueueFull if max_waiting == 0 && self.sleep.is_some() => {
                Err(Reason::QueueFull)
            }
            // Its own key has too many, or nobody may wait.
            Verdict::QueueFull => Err(Reason::OverLimit),
            Verdict::WithoutKey(error) => Err(Reason::WithoutKey(error)),
            Verdict::Ask(asking) => {
                self.counters.count(Event::Asked);
                return Judged::Ask { asking, report, max_waiting };
            }
        };
        let was_promised = max_waiting > 0;
        Judged::Now(self.carry_out(request, report, ruling, was_promised))
    }

    /// How many requests of a key may wait, as far as there are places for any.
    fn max_waiting(&self) -> u64 {
        let may_wait = self.sleep.is_some() && !self.queue.is_full();
        if may_wait { self.max_waiting_per_key } else { 0 }
    }

    /// Awaits the answer, and judges by it.
    pub(crate) async fn ask(
        self: Arc<Self>,
        request: request::Parts,
        asking: Asking,
        mut report: Report,
        max_waiting: u64,
    ) -> (Fate, request::Parts) {
        let (ruling, said) = asking.await;
        report.add(said);
        if let Err(Reason::OverLimit) = ruling {
            report.keep_denials();
            let mut found = Report::default();
            self.gate.peek(&request, max_waiting, &mut found);
            report.add_denials(found);
        }
        (self.carry_out(&request, report, ruling, false), request)
    }

    /// `was_promised`: the gate decided by a queue with a place in it.
    fn carry_out(
        &self,
        request: &request::Parts,
        mut report: Report,
        ruling: Ruling,
        was_promised: bool,
    ) -> Fate {
        report.without_key().for_each(|error| self.counters.count_without_key(error));
        report.shadow_denials().for_each(|_| self.counters.count(Event::ShadowDenied));
        let fate = match ruling {
            Ok(admission) if admission.delay.is_zero() => {
                let fields = Fields::new(&report, self.wanted);
                Fate::Go { wait: None, charge: admission.charge, fields }
            }
            Ok(admission) => self.wait(request, admission, &mut report, was_promised),
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

    fn wait(
        &self,
        request: &request::Parts,
        admission: Admission,
        report: &mut Report,
        was_promised: bool,
    ) -> Fate {
        let enter = || match was_promised {
            true => Some(self.queue.enter_promised()),
            false => self.queue.enter(),
        };
        let place = self.sleep.as_ref().map(|sleep| (sleep, enter()));
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
        report.deny_delayed();
        report.keep_denials();
        self.stop(request, report, reason)
    }

    fn stop(&self, request: &request::Parts, report: &Report, reason: Reason) -> Fate {
        self.counters.count(match reason {
            Reason::OverLimit => Event::Denied,
            Reason::QueueFull => Event::QueueFull,
            Reason::WithoutKey(_) => Event::DeniedWithoutKey,
            Reason::Unavailable => Event::Unavailable,
        });
        let mut response = Denial { request, report, reason }.respond(&self.write);
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
            .field("max_waiting_per_key", &self.max_waiting_per_key)
            .finish_non_exhaustive()
    }
}
