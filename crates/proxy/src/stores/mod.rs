//! Limits that several processes share: those of rules with a store.
//!
//! ```text
//! registry  all rules with a store, across a reload of the rules
//! build     the limits of one rule: store, algorithm, lease, fallback
//! limits    one rule's limits, and how each one is asked
//! ask       the store limits of one request, decided one after another
//! counters  outcomes of calls, across a reload of the rules
//! metrics   outcomes of all calls, for the metrics
//! watch     pings stores that are idle, and lists those that are down
//! ```

mod ask;
mod build;
mod counters;
mod limits;
mod metrics;
mod registry;
mod watch;

pub(crate) use self::ask::{LocalDecision, PendingDecision, PendingRule, ShadowDenial};
pub(crate) use self::metrics::write;
pub(crate) use self::registry::StoreLimits;
pub use self::registry::check_stores;
pub(crate) use self::watch::{StoreDown, watch};
