//! Several limits for one request.

use core::fmt;
use core::time::Duration;

use http::{request, response};

use crate::pending::{Asking, Ruling};
use crate::gate::{Admission, Charge, Gate, Report, Verdict};

/// Several limits, all of which must admit a request. All are looked at first: one that would deny is
/// asked before the others, so that its denial costs them nothing. Otherwise they are asked in order,
/// and the first that denies decides; those that [ask elsewhere](Verdict::Ask) come after the others.
///
/// **Guarantee.** A request that is admitted was charged in each. No limit ever grants more than
/// its quota. Of a request that is denied, clients are told the longest wait of all limits that would
/// deny it then, so that none of them denies it at that time if nothing else was charged meanwhile.
///
/// **Not guaranteed.** Another request may take the cells between the look and the charge; gates of your
/// own without [`peek`](Gate::peek), and limits that ask elsewhere, are not looked at. Where such a limit
/// denies, the limits before it have been charged. They give back only where they are
/// [`returnable`](crate::Limit::returnable) or settled, and what time restored meanwhile may be lost; in
/// between, another request may be denied that would have fitted. So put limits that cannot give back
/// last. When one limit denies, those that are not looked at do not count for the longest wait.
///
/// ```
/// use tollgate::Quota;
/// use tollgate_http::{Limit, Several, key::PeerIp};
///
/// let gate = Several::new()
///     .and(Limit::gcra("second", Quota::per_second(5), PeerIp::new())?.returnable())
///     .and(Limit::gcra("hour", Quota::per_hour(1_000), PeerIp::new())?);
/// # Ok::<(), tollgate_http::LimitError>(())
/// ```
#[derive(Default)]
pub struct Several(Vec<Box<dyn Gate>>);

impl Several {
    /// None yet: admits all.
    ///
    /// ```
    /// let gate = tollgate_http::Several::new();
    /// ```
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// And this one, to be asked last.
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
        let would_deny = |gate: &dyn Gate| {
            let mut found = Report::default();
            gate.peek(request, max_waiting, &mut found);
            found.readings().next().is_some()
        };
        // The denial of a single limit costs no other.
        let looks = self.0.len() > 1;
        let denies = self.0.iter().position(|gate| looks && would_deny(&**gate));
        let others = self.0.iter().enumerate().filter(move |(index, _)| Some(*index) != denies);
        let first = denies.map(|index| &self.0[index]);
        first.into_iter().chain(others.map(|(_, gate)| gate)).map(|gate| &**gate)
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
        let mut questions = Vec::new();
        for gate in self.in_order(request, max_waiting) {
            match gate.decide_queued(request, max_waiting, report) {
                Verdict::Admit(admission) => all.add(admission),
                Verdict::Ask(asking) => questions.push(asking),
                denial => {
                    all.cancel();
                    report.keep_denials();
                    if !matches!(denial, Verdict::WithoutKey(_)) {
                        let mut found = Report::default();
                        self.peek(request, max_waiting, &mut found);
                        report.add_denials(found);
                    }
                    return denial;
                }
            }
        }
        match questions.is_empty() {
            true => Verdict::Admit(all.admission()),
            false => Verdict::Ask(Asking::new(ask_in_turn(all, questions))),
        }
    }

    fn peek(&self, request: &request::Parts, max_waiting: u64, report: &mut Report) {
        self.0.iter().for_each(|gate| gate.peek(request, max_waiting, report));
    }
}

/// Asks one after the other, so that what denies early costs the later ones nothing.
async fn ask_in_turn(mut all: All, questions: Vec<Asking>) -> (Ruling, Report) {
    let mut report = Report::default();
    for asking in questions {
        let (ruling, said) = asking.await;
        report.add(said);
        match ruling {
            Ok(admission) => all.add(admission),
            Err(reason) => {
                all.cancel();
                return (Err(reason), report);
            }
        }
    }
    (Ok(all.admission()), report)
}

/// The admissions so far, as one.
#[derive(Default)]
struct All {
    delay: Duration,
    charges: Vec<Box<dyn Charge>>,
}

impl All {
    fn add(&mut self, Admission { delay, charge }: Admission) {
        self.delay = self.delay.max(delay);
        self.charges.extend(charge);
    }

    fn cancel(self) {
        Box::new(Charges(self.charges)).cancel();
    }

    fn admission(self) -> Admission {
        let charges = Charges(self.charges);
        let charge = (!charges.0.is_empty()).then(|| Box::new(charges) as Box<dyn Charge>);
        Admission { delay: self.delay, charge }
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
    fn cancel(self: Box<Self>) {
        self.0.into_iter().for_each(Charge::cancel);
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
