//! tollgate.

use tollgate::{Limiter, OnFull, Quota, Tick};

use crate::peer::{Keyed, TimeGiven};
use crate::plan::Plan;

/// The plan as a tollgate quota.
#[must_use]
pub fn quota(plan: Plan) -> Quota {
    Quota::new(plan.rate.into(), plan.period).burst(plan.burst.into())
}

const CAPACITY: &str = "capacity of the expected keys";

/// With the number of expected keys as its capacity.
#[derive(Debug)]
pub struct Tollgate(pub Limiter<u64>);

impl Keyed for Tollgate {
    const NAME: &'static str = "tollgate";
    const EXACT: bool = true;
    const BOUNDED_BY: Option<&'static str> = Some(CAPACITY);
    type Key = u64;

    fn new(plan: Plan, keys: usize) -> Self {
        Self(Limiter::builder(quota(plan)).capacity(keys as u64).build().expect("in range"))
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        self.0.check(key).is_ok()
    }

    fn check_n(&self, key: &u64, n: u32) -> Option<bool> {
        Some(self.0.check_n(key, n.into()).is_ok())
    }
}

impl TimeGiven for Tollgate {
    #[inline]
    fn check_at(&self, key: &u64, now_nanos: u64) -> bool {
        self.0.ask(key).at(Tick::from_nanos(now_nanos)).check().is_ok()
    }
}

/// Like [`Tollgate`], but it denies a new key while there is no room for it, and forgets none.
#[derive(Debug)]
pub struct TollgateDenying(Limiter<u64>);

impl Keyed for TollgateDenying {
    const NAME: &'static str = "tollgate, OnFull::Deny";
    const EXACT: bool = true;
    const BOUNDED_BY: Option<&'static str> = Some(CAPACITY);
    type Key = u64;

    fn new(plan: Plan, keys: usize) -> Self {
        let builder = Limiter::builder(quota(plan)).capacity(keys as u64);
        Self(builder.on_full(OnFull::Deny).build().expect("in range"))
    }

    #[inline]
    fn check(&self, key: &u64) -> bool {
        self.0.check(key).is_ok()
    }
}
