//! Several limits for one request.

use core::fmt;
use core::time::Duration;

use http::{request, response};

use crate::gate::{Charge, Gate, GateDecision, GatePermit, PendingVerdict, Verdict};
use crate::headers::Report;

/// Several limits, all of which must admit a request.
///
/// `Several` first peeks at all limits. A limit that would deny is asked first, so that its denial costs
/// the others nothing; a limit that finds no key comes before one that is over. Then the limits are asked in
/// their order, and the first denial decides. Limits with a [pending](Verdict::Pending) verdict are awaited
/// after the others.
///
/// **Guarantee.** A request that is admitted was charged by each limit. No limit grants more than its
/// quota. A denial reports the longest wait of all limits that would deny the request now. After that
/// wait none of them denies it, if nothing else was charged meanwhile.
///
/// **Not guaranteed.**
///
/// - Another request may take the cells between the peek and the charge. A gate without
///   [`peek`](Gate::peek), or with a pending verdict, is not peeked at. If such a limit denies, the
///   limits before it have been charged. They refund only if they are
///   [`refundable`](crate::Limit::refundable) or settled. Until then they may deny another request, and
///   what time restored meanwhile may be lost. Put limits that cannot refund last.
/// - Limits that are not peeked at do not count for the longest wait.
///
/// ```
/// use tollgate::Quota;
/// use tollgate_http::{Limit, Several, key::PeerIp};
///
/// let gate = Several::new()
///     .and(Limit::gcra("second", Quota::per_second(5), PeerIp::new())?.refundable())
///     .and(Limit::gcra("hour", Quota::per_hour(1_000), PeerIp::new())?);
/// # Ok::<(), tollgate_http::LimitError>(())
/// ```
#[derive(Default)]
pub struct Several(Vec<Box<dyn Gate>>);

impl Several {
    /// No limit yet: it admits all requests.
    ///
    /// ```
    /// let gate = tollgate_http::Several::new();
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a limit, which is asked last.
    ///
    /// ```
    /// # use {tollgate::Quota, tollgate_http::{Limit, Several, key::PeerIp}};
    /// let gate = Several::new().and(Limit::gcra("a", Quota::per_second(5), PeerIp::new())?);
    /// # Ok::<(), tollgate_http::LimitError>(())
    /// ```
    #[must_use]
    pub fn and(mut self, gate: impl Gate + 'static) -> Self {
        self.0.push(Box::new(gate));
        self
    }
}

impl Several {
    /// The limits in the order in which they are asked.
    fn in_order(
        &self,
        request: &request::Parts,
        max_waiting: u64,
    ) -> impl Iterator<Item = &dyn Gate> {
        let denies = self.first_to_deny(request, max_waiting);
        let others = self.0.iter().enumerate().filter(move |(index, _)| Some(*index) != denies);
        let first = denies.map(|index| &self.0[index]);
        first.into_iter().chain(others.map(|(_, gate)| gate)).map(|gate| &**gate)
    }

    /// The index of a limit that would deny. A limit that finds no key comes before one that is over: no wait gives
    /// the request a key.
    fn first_to_deny(&self, request: &request::Parts, max_waiting: u64) -> Option<usize> {
        // A denial by the only limit costs no other.
        if self.0.len() < 2 {
            return None;
        }
        let mut over = None;
        for (index, gate) in self.0.iter().enumerate() {
            let mut found = Report::default();
            gate.peek(request, max_waiting, &mut found);
            if found.key_errors().next().is_some() {
                return Some(index);
            }
            if found.readings().next().is_some() {
                over = over.or(Some(index));
            }
        }
        over
    }
}

impl Gate for Several {
    fn decide(&self, request: &request::Parts, report: &mut Report) -> Verdict {
        self.decide_queued(request, u64::MAX, report)
    }

    fn decide_queued(
        &self,
        request: &request::Parts,
        max_waiting: u64,
        report: &mut Report,
    ) -> Verdict {
        let mut all = All::default();
        let mut pending = Vec::new();
        for gate in self.in_order(request, max_waiting) {
            match gate.decide_queued(request, max_waiting, report) {
                Verdict::Admit(permit) => all.add(permit),
                Verdict::Pending(verdict) => pending.push(verdict),
                denial => {
                    all.refund();
                    report.keep_denials();
                    if !matches!(denial, Verdict::NoKey(_) | Verdict::Forbidden) {
                        let mut found = Report::default();
                        self.peek(request, max_waiting, &mut found);
                        report.add_denials(found);
                    }
                    return denial;
                }
            }
        }
        match pending.is_empty() {
            true => Verdict::Admit(all.permit()),
            false => {
                let verdict = await_in_order(Unawaited(Some(all)), pending);
                Verdict::Pending(PendingVerdict::new(verdict))
            }
        }
    }

    fn peek(&self, request: &request::Parts, max_waiting: u64, report: &mut Report) {
        self.0.iter().for_each(|gate| gate.peek(request, max_waiting, report));
    }
}

/// Awaits one verdict after the other, so that an early denial costs the later limits nothing.
async fn await_in_order(
    mut first: Unawaited,
    pending: Vec<PendingVerdict>,
) -> (GateDecision, Report) {
    let mut all = first.0.take().unwrap_or_default();
    let mut report = Report::default();
    for verdict in pending {
        let (decision, added) = verdict.await;
        report.add(added);
        match decision {
            Ok(permit) => all.add(permit),
            Err(reason) => {
                all.refund();
                return (Err(reason), report);
            }
        }
    }
    (Ok(all.permit()), report)
}

/// The permits so far, as one.
#[derive(Default)]
struct All {
    delay: Duration,
    charges: Vec<Box<dyn Charge>>,
}

impl All {
    fn add(&mut self, GatePermit { delay, charge }: GatePermit) {
        self.delay = self.delay.max(delay);
        self.charges.extend(charge);
    }

    fn refund(self) {
        Box::new(Charges(self.charges)).refund();
    }

    fn permit(self) -> GatePermit {
        let charges = Charges(self.charges);
        let charge = (!charges.0.is_empty()).then(|| Box::new(charges) as Box<dyn Charge>);
        GatePermit { delay: self.delay, charge }
    }
}

/// Permits of a pending verdict, until it is awaited. If it never is, since another limit denies the request, they are
/// refunded.
struct Unawaited(Option<All>);

impl Drop for Unawaited {
    fn drop(&mut self) {
        if let Some(all) = self.0.take() {
            all.refund();
        }
    }
}

impl fmt::Debug for Several {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Several").field("gates", &self.0.len()).finish()
    }
}

#[derive(Debug)]
struct Charges(Vec<Box<dyn Charge>>);

impl Charge for Charges {
    fn refund(self: Box<Self>) {
        self.0.into_iter().for_each(Charge::refund);
    }

    fn forwarded(&mut self) {
        self.0.iter_mut().for_each(|charge| charge.forwarded());
    }

    fn answered(self: Box<Self>, response: &response::Parts) -> Option<Box<dyn Charge>> {
        let left: Vec<_> =
            self.0.into_iter().filter_map(|charge| charge.answered(response)).collect();
        if left.is_empty() { None } else { Some(Box::new(Self(left))) }
    }

    fn sent(self: Box<Self>, body_bytes: u64) {
        self.0.into_iter().for_each(|charge| charge.sent(body_bytes));
    }

    fn cut_short(self: Box<Self>, body_bytes: u64) {
        self.0.into_iter().for_each(|charge| charge.cut_short(body_bytes));
    }
}
