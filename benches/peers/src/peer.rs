//! What the benchmarks ask of a limiter.

use crate::forms::Form;
use crate::plan::Plan;

/// A limiter with a bucket for every key. Its calls read the clock that it has by default.
pub trait Keyed: Send + Sync + Sized + 'static {
    /// The name for tables.
    const NAME: &'static str;
    /// Whether it never granted more than the quota, over all threads, to a key that it kept; the
    /// table of over-grants has what was seen.
    const EXACT: bool;
    /// How it is kept from growing where that is wanted; `None` if it cannot be.
    const TENDED: Option<&'static str>;
    /// What its keys are.
    type Key: Form + ?Sized;

    /// With one plan for all keys, of which `keys` are expected.
    fn new(plan: Plan, keys: usize) -> Self;

    /// As [`new`](Self::new), with what the crate has for forgetting keys that are idle.
    fn tended(plan: Plan, keys: usize) -> Self {
        Self::new(plan, keys)
    }

    /// Whether one cell was granted.
    fn check(&self, key: &Self::Key) -> bool;

    /// Whether `n` cells at once were; `None` where the crate has no such call.
    fn check_n(&self, _key: &Self::Key, _n: u32) -> Option<bool> {
        None
    }

    /// Forgets idle keys, where its user has to see to that.
    fn sweep(&self) {}
}

/// A limiter that can be told the time with a call.
pub trait TimeGiven: Keyed {
    /// Whether one cell was granted at `now_nanos`.
    fn check_at(&self, key: &Self::Key, now_nanos: u64) -> bool;
}

/// A limiter with one bucket.
pub trait Direct: Send + Sync + Sized + 'static {
    /// The name for tables.
    const NAME: &'static str;

    /// A full bucket.
    fn new(plan: Plan) -> Self;

    /// Whether one cell was granted.
    fn check(&self) -> bool;

    /// Whether `n` cells at once were; `None` where the crate has no such call.
    fn check_n(&self, n: u32) -> Option<bool>;
}

/// Something to be done with every keyed limiter.
pub trait Visitor {
    /// For one with its own clock.
    fn keyed<P: Keyed>(&mut self);

    /// For one that is told the time, after [`keyed`](Self::keyed).
    fn given<P: TimeGiven>(&mut self) {}
}

/// Something to be done with every limiter that has one bucket.
pub trait VisitDirect {
    /// For one of them.
    fn direct<P: Direct>(&mut self);
}
