//! The decision of rules about a request.

mod deferred;
mod denial;
mod in_flight;
mod permit;

pub use deferred::Deferred;
pub use denial::{DenyReason, RuleDenial};
pub use in_flight::RuleInFlight;
pub use permit::RulePermit;

use tollgate::Clock;
use tollgate::clock::QuantaClock;

use crate::active_rule::{BytePace, Held};
use crate::rule::Rule;

/// The decision of rules about a request. It borrows from the rules, and has the data of response headers.
///
/// It also holds the request's places among the requests in flight, which end when it is dropped:
/// [`take_held`](Self::take_held) takes them out, for as long as the request is served.
///
/// ```
/// use tollgate_rules::{RulesLimiter, Request, Rules};
///
/// let text = r#"rule = [{ name = "a", key = "none", limits = ["1/min", "5/day"] }]"#;
/// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
/// let decision = gate.decide(&Request::default());
/// let permit = decision.permit().expect("the first within a minute");
/// assert_eq!((permit.limit().name(), permit.remaining()), ("1/min", 0));
///
/// let decision = gate.decide(&Request::default());
/// let denied = decision.denied().expect("the second within a minute");
/// let limit = denied.limit().expect("no ban");
/// assert_eq!((denied.rule().name(), limit.quota().period().as_secs()), ("a", 60));
/// assert!(denied.retry_after().unwrap().as_secs() < 60);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a decision says whether the request is admitted"]
pub struct RulesDecision<'g, C: Clock = QuantaClock> {
    pub(crate) outcome: Outcome<'g>,
    pub(crate) shadow_denials: Vec<RuleDenial<'g>>,
    pub(crate) deferred: Vec<Deferred<'g>>,
    pub(crate) exempted_by: Option<&'g Rule>,
    pub(crate) in_flight: Vec<RuleInFlight<'g>>,
    pub(crate) held: Held<C>,
    pub(crate) paces: Vec<BytePace<C>>,
}

/// Whether the limits of this process admit a request, and which limit is the tightest.
///
/// ```
/// use tollgate_rules::{RulesLimiter, Outcome, Request, Rules};
///
/// let text = r#"rule = [{ name = "a", match = { path = "/a" }, limits = "1/min" }]"#;
/// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
/// let other = Request { path: "/b", ..Request::default() };
/// assert!(matches!(gate.decide(&other).outcome(), Outcome::NoRule));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Outcome<'g> {
    /// No rule with a quota applies. The request is admitted, also by [rules that limit only the requests in
    /// flight](RulesDecision::in_flight).
    NoRule,
    /// The request is admitted. The permit is that of the limit with the fewest cells left.
    Admitted(RulePermit<'g>),
    /// The request is denied and charged nothing. The denial is the one that lasts longest.
    Denied(RuleDenial<'g>),
}

impl<'g, C: Clock> RulesDecision<'g, C> {
    /// A denial without shadow denials and deferred rules.
    pub(crate) fn denial(denial: RuleDenial<'g>) -> Self {
        Self::of(Outcome::Denied(denial))
    }

    /// An outcome without anything else.
    pub(crate) fn of(outcome: Outcome<'g>) -> Self {
        Self {
            outcome,
            shadow_denials: Vec::new(),
            deferred: Vec::new(),
            exempted_by: None,
            in_flight: Vec::new(),
            held: Held::default(),
            paces: Vec::new(),
        }
    }

    /// Whether the request is admitted. It is `false` as long as rules are
    /// [deferred](Self::deferred).
    #[must_use]
    pub fn is_admitted(&self) -> bool {
        !matches!(self.outcome, Outcome::Denied(_)) && self.deferred.is_empty()
    }

    /// The decision of the limits of this process.
    #[must_use]
    pub fn outcome(&self) -> &Outcome<'g> {
        &self.outcome
    }

    /// The permit of the limit with the fewest cells left, if a rule admits the request.
    #[must_use]
    pub fn permit(&self) -> Option<&RulePermit<'g>> {
        match &self.outcome {
            Outcome::Admitted(permit) => Some(permit),
            _ => None,
        }
    }

    /// The denial that lasts longest, if the request is denied.
    #[must_use]
    pub fn denied(&self) -> Option<&RuleDenial<'g>> {
        match &self.outcome {
            Outcome::Denied(denial) => Some(denial),
            _ => None,
        }
    }

    /// The rule that exempts the request from all rules after it: see
    /// [`Action::Exempt`](crate::Action::Exempt). `None` if none does, or the request is denied.
    #[must_use]
    pub fn exempted_by(&self) -> Option<&'g Rule> {
        self.exempted_by
    }

    /// The entries by rules with `concurrency`, in the order of the file, those in shadow left out.
    #[must_use]
    pub fn in_flight(&self) -> &[RuleInFlight<'g>] {
        &self.in_flight
    }

    /// Takes out the guards and charges that the request holds until its response has ended. If they are left in, the
    /// request ends when the decision is dropped.
    pub fn take_held(&mut self) -> Held<C> {
        std::mem::take(&mut self.held)
    }

    /// Takes out the buckets of the rules with `bytes`. Each byte of the response's body is charged to all of them.
    /// A server that does not pace the body by them ignores these rules.
    pub fn take_paces(&mut self) -> Vec<BytePace<C>> {
        std::mem::take(&mut self.paces)
    }

    /// The denials of the rules in shadow, in the order of the file. Rules in shadow are
    /// checked only for requests that the other rules admit.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// # let text = r#"rule = [{ name = "a", key = "none", limits = "5/h", shadow = true }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// let decision = gate.decide_n(&Request::default(), 6); // of at most 5
    /// assert!(decision.is_admitted());
    /// assert_eq!(decision.shadow_denials()[0].rule().name(), "a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn shadow_denials(&self) -> &[RuleDenial<'g>] {
        &self.shadow_denials
    }

    /// The rules that apply and have a [store](crate::Store), in the order of the file. The caller
    /// asks the stores. The request is admitted only if all of their limits admit it, except those
    /// of rules in shadow. If they deny, what the limits of this process charged stays charged, but for costs
    /// that a response settles: [`Held::refund`](crate::Held::refund) gives these back. The list is empty if this
    /// process denies the request.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// let text = r#"rule = [{ name = "a", key = "none", limits = "1/s", store = "redis://cache" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// let decision = gate.decide(&Request::default());
    /// assert!(!decision.is_admitted() && decision.denied().is_none()); // not decided yet
    /// assert_eq!(decision.deferred()[0].rule().name(), "a");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn deferred(&self) -> &[Deferred<'g>] {
        &self.deferred
    }
}
