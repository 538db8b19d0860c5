//! A rule with its limiters: one for each limit, for its bans, for its requests in flight and for its bytes.

mod ban;
mod bandwidth;
mod bucket;
mod held;
mod in_flight;

use std::sync::Arc;

use tollgate::Clock;
use tollgate::stats::DecisionCount;

use crate::rule::Rule;
pub(crate) use ban::Ban;
pub(crate) use bandwidth::Bandwidth;
pub use bandwidth::BytePace;
pub(crate) use bucket::{Bucket, Charged, Cost, fastest};
pub use held::Held;
pub(crate) use in_flight::InFlight;

/// A rule with its limiters.
#[derive(Debug)]
pub(crate) struct ActiveRule<C: Clock> {
    pub(crate) rule: Rule,
    /// One for each limit, or one for all plans; empty if a store keeps the limits.
    pub(crate) buckets: Vec<Arc<Bucket<C>>>,
    pub(crate) in_flight: Option<InFlight<C>>,
    pub(crate) bandwidth: Option<Bandwidth<C>>,
    pub(crate) ban: Option<Arc<Ban<C>>>,
    /// Requests that the rule has admitted. It is carried over reloads, by the rule's name.
    pub(crate) admitted: Arc<DecisionCount>,
}

impl<C: Clock> ActiveRule<C> {
    pub(crate) fn memory_bytes(&self) -> usize {
        let buckets: usize = self.buckets.iter().map(|bucket| bucket.memory_bytes()).sum();
        let in_flight = self.in_flight.as_ref().map_or(0, InFlight::memory_bytes);
        let bandwidth = self.bandwidth.as_ref().map_or(0, Bandwidth::memory_bytes);
        buckets + in_flight + bandwidth + self.ban.as_ref().map_or(0, |ban| ban.memory_bytes())
    }
}
