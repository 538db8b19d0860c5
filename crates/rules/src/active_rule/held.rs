//! The guards and charges that a request holds until its response has ended.

use tollgate::Clock;
use tollgate::clock::QuantaClock;

use super::bucket::Reserved;
use super::in_flight::Guard;
use crate::rule::SettleBy;

/// The guards and charges that a request holds from its admission until its response has ended.
/// [`RulesDecision::take_held`](crate::RulesDecision::take_held) returns it.
///
/// - The request is in flight, for rules with `concurrency`, until this is dropped. Drop it when the body of the
///   response has been sent, has failed, or the client has left.
/// - The response settles the `cost` of rules that say so: call [`answered`](Self::answered) with its head, and
///   [`sent`](Self::sent) or [`cut_short`](Self::cut_short) with the bytes of its body. A cost that is not settled
///   when this is dropped stays charged by the estimate.
///
/// It outlives a reload of the rules.
///
/// ```
/// use tollgate_rules::{Request, Rules, RulesLimiter};
///
/// let text = r#"rule = [
///     { name = "a", key = "none", concurrency = 1 },
///     { name = "b", key = "none", limits = "100/h",
///       cost = { response_header = "x-tokens", estimate = 60 } },
/// ]"#;
/// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
/// let mut held = gate.decide(&Request::default()).take_held();
/// assert!(!gate.decide(&Request::default()).is_admitted()); // one is in flight
/// held.answered(|name| (name == "x-tokens").then_some(b"15"));
/// drop(held); // the response has ended
/// let decision = gate.decide(&Request::default());
/// assert_eq!(decision.permit().expect("60 of 85").remaining(), 25);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a request is in flight until this is dropped"]
pub struct Held<C: Clock = QuantaClock> {
    guards: Vec<Guard<C>>,
    charges: Vec<Charge<C>>,
}

/// Cells that the response settles. If the charge is dropped, they stay charged by the estimate.
struct Charge<C: Clock> {
    reserved: Option<Reserved<C>>,
    by: SettleBy,
    /// How many times the response's cost the request costs.
    times: u64,
}

impl<C: Clock> Charge<C> {
    fn settle(&mut self, actual: u64) {
        if let Some(reserved) = self.reserved.take() {
            reserved.settle(actual);
        }
    }

    fn by_header<'h>(&self, header: impl Fn(&str) -> Option<&'h [u8]>) -> Option<u64> {
        Some(self.by.by_header(header)?.saturating_mul(self.times))
    }

    fn by_bytes(&self, body_bytes: u64) -> Option<u64> {
        Some(self.by.by_bytes(body_bytes)?.saturating_mul(self.times))
    }

    fn estimate(&self) -> u64 {
        self.reserved.as_ref().map_or(0, Reserved::cells)
    }
}

impl<C: Clock> Drop for Charge<C> {
    fn drop(&mut self) {
        self.settle(self.estimate());
    }
}

impl<C: Clock> Held<C> {
    /// Whether the request holds nothing: no rule with `concurrency`, or with a `cost` that the response settles,
    /// applies to it.
    ///
    /// ```
    /// # use tollgate_rules::{RulesLimiter, Request, Rules};
    /// let text = r#"rule = [{ name = "a", key = "none", limits = "1/s" }]"#;
    /// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
    /// assert!(gate.decide(&Request::default()).take_held().is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.guards.is_empty() && self.charges.is_empty()
    }

    /// Settles costs by the head of the response. `header` returns the first value of a header by its name in
    /// lower case. A cost whose header is missing, or no number, stays charged by its estimate.
    pub fn answered<'h>(&mut self, header: impl Fn(&str) -> Option<&'h [u8]>) {
        for charge in &mut self.charges {
            if let Some(actual) = charge.by_header(&header) {
                charge.settle(actual);
            }
        }
    }

    /// Settles costs by the body of the response, which was sent as a whole and has `body_bytes`.
    pub fn sent(&mut self, body_bytes: u64) {
        for charge in &mut self.charges {
            if let Some(actual) = charge.by_bytes(body_bytes) {
                charge.settle(actual);
            }
        }
    }

    /// Settles costs by a body of which `body_bytes` were sent before it failed or its client left. Such a
    /// request costs at least its estimate.
    pub fn cut_short(&mut self, body_bytes: u64) {
        for charge in &mut self.charges {
            if let Some(actual) = charge.by_bytes(body_bytes) {
                charge.settle(actual.max(charge.estimate()));
            }
        }
    }

    /// Refunds the costs that a response would settle, and ends the request. Call it for a request that is not served.
    pub fn refund(mut self) {
        self.charges.iter_mut().for_each(|charge| charge.settle(0));
    }

    pub(crate) fn push(&mut self, guard: Guard<C>) {
        self.guards.push(guard);
    }

    pub(super) fn push_charge(&mut self, reserved: Reserved<C>, by: SettleBy, times: u64) {
        self.charges.push(Charge { reserved: Some(reserved), by, times });
    }

    /// How many guards there are, for [`truncate`](Self::truncate).
    pub(crate) fn count(&self) -> usize {
        self.guards.len()
    }

    /// Ends what was entered since there were `count` guards.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.guards.truncate(count);
    }
}

impl<C: Clock> Default for Held<C> {
    fn default() -> Self {
        Self { guards: Vec::new(), charges: Vec::new() }
    }
}

impl<C: Clock> std::fmt::Debug for Held<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Held")
            .field("in_flight", &self.guards.len())
            .field("charges", &self.charges.len())
            .finish()
    }
}
