//! The interface that the benchmarks need of a limiter.

use crate::forms::Form;
use crate::plan::Plan;

/// A limiter with a bucket for every key. Its calls read its default clock.
pub trait Keyed: Send + Sync + Sized + 'static {
    /// The name in tables.
    const NAME: &'static str;
    /// Whether it never granted more than the quota to a key that it kept, over all threads; the
    /// table of over-grants shows what was measured.
    const EXACT: bool;
    /// How its memory is bounded if that is wanted; `None` if that is impossible.
    const BOUNDED_BY: Option<&'static str>;
    /// The type of its keys.
    type Key: Form + ?Sized;

    /// With one plan for all keys, of which `keys` are expected.
    fn new(plan: Plan, keys: usize) -> Self;

    /// Like [`new`](Self::new), with the crate's mechanism that forgets idle keys.
    fn bounded(plan: Plan, keys: usize) -> Self {
        Self::new(plan, keys)
    }

    /// Whether one cell was granted.
    fn check(&self, key: &Self::Key) -> bool;

    /// Whether `n` cells at once were granted; `None` if the crate has no such call.
    fn check_n(&self, _key: &Self::Key, _n: u32) -> Option<bool> {
        None
    }

    /// Forgets idle keys, if the user has to do that.
    fn sweep(&self) {}
}

/// A limiter whose calls accept the time.
pub trait TimeGiven: Keyed {
    /// Whether one cell was granted at `now_nanos`.
    fn check_at(&self, key: &Self::Key, now_nanos: u64) -> bool;
}

/// A limiter with one bucket.
pub trait Direct: Send + Sync + Sized + 'static {
    /// The name in tables.
    const NAME: &'static str;
    /// Whether it never grants more than the quota, over all threads.
    const EXACT: bool = true;

    /// A full bucket.
    fn new(plan: Plan) -> Self;

    /// Whether one cell was granted.
    fn check(&self) -> bool;

    /// Whether `n` cells at once were granted; `None` if the crate has no such call.
    fn check_n(&self, n: u32) -> Option<bool>;
}

/// An action for every keyed limiter.
pub trait Visitor {
    /// For a limiter with its own clock.
    fn keyed<P: Keyed>(&mut self);

    /// For a limiter that accepts the time, after [`keyed`](Self::keyed).
    fn given<P: TimeGiven>(&mut self) {}
}

/// An action for every limiter with one bucket.
pub trait VisitDirect {
    /// For one limiter.
    fn direct<P: Direct>(&mut self);
}
