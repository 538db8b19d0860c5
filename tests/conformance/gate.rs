//! One interface to a bucket without a key and to a bucket of a keyed limiter.

use std::time::Duration;

use serde_json::Value;
use tollgate::algorithm::Algorithm;
use tollgate::internals::Refund;
use tollgate::internals::oracle::Verdict;
use tollgate::limiter::SlotLayout;
use tollgate::{Decision, Direct, Limiter, ManualClock, Quota, Tick};

/// A limiter that a vector is replayed on.
pub(crate) trait Gate: Sync {
    fn check_at(&self, n: u64, now: Tick) -> Decision;
    fn peek_at(&self, n: u64, now: Tick) -> Decision;
}

/// A limiter that can also charge beyond its balance, and add cells.
pub(crate) trait Account: Gate {
    fn charge_at(&self, n: u64, now: Tick) -> Duration;
    fn add_at(&self, n: u64, now: Tick);
}

impl<A: Algorithm<Params: Refund> + Sync> Account for Direct<A, ManualClock> {
    fn charge_at(&self, n: u64, now: Tick) -> Duration {
        self.ask().cells(n).at(now).charge()
    }

    fn add_at(&self, n: u64, now: Tick) {
        self.ask().cells(n).at(now).refund();
    }
}

impl<A: Algorithm<Params: Refund> + Sync> Account for Limiter<str, A, ManualClock> {
    fn charge_at(&self, n: u64, now: Tick) -> Duration {
        self.ask("neighbour").cells(n).at(now).charge();
        self.ask(KEY).cells(n).at(now).charge()
    }

    fn add_at(&self, n: u64, now: Tick) {
        self.ask(KEY).cells(n).at(now).refund();
    }
}

impl<A: Algorithm + Sync> Gate for Direct<A, ManualClock> {
    fn check_at(&self, n: u64, now: Tick) -> Decision {
        self.ask().cells(n).at(now).check()
    }

    fn peek_at(&self, n: u64, now: Tick) -> Decision {
        self.ask().cells(n).at(now).peek()
    }
}

const KEY: &str = "vector";

impl<A: Algorithm + Sync> Gate for Limiter<str, A, ManualClock> {
    fn check_at(&self, n: u64, now: Tick) -> Decision {
        // A second key spends all it can, and must not affect the first.
        let _ = self.ask("neighbour").cells(n).at(now).check();
        self.ask(KEY).cells(n).at(now).check()
    }

    fn peek_at(&self, n: u64, now: Tick) -> Decision {
        self.ask(KEY).cells(n).at(now).peek()
    }
}

/// Limiters without a key, with one, and with one in compact slots if the parameters fit.
pub(crate) fn gates<A>(quota: Quota, algorithm: A) -> [Box<dyn Gate>; 3]
where
    A: Algorithm + Copy + Sync + 'static,
{
    let (direct, wide, auto) = built(quota, algorithm);
    [Box::new(direct), Box::new(wide), Box::new(auto)]
}

/// The same for vectors that charge beyond the balance, or add cells.
pub(crate) fn accounts<A>(quota: Quota, algorithm: A) -> [Box<dyn Account>; 3]
where
    A: Algorithm<Params: Refund> + Copy + Sync + 'static,
{
    let (direct, wide, auto) = built(quota, algorithm);
    [Box::new(direct), Box::new(wide), Box::new(auto)]
}

type Keyed<A> = Limiter<str, A, ManualClock>;

fn built<A: Algorithm + Copy>(
    quota: Quota,
    algorithm: A,
) -> (Direct<A, ManualClock>, Keyed<A>, Keyed<A>) {
    let direct = Direct::builder(quota)
        .algorithm(algorithm)
        .clock(ManualClock::new())
        .build()
        .expect("a vector's quota is in range");
    let keyed = |slots, capacity| {
        Limiter::builder(quota)
            .algorithm(algorithm)
            .clock(ManualClock::new())
            .capacity(capacity)
            .slots(slots)
            .build()
            .expect("a vector's quota is in range")
    };
    (direct, keyed(SlotLayout::Wide, 10), keyed(SlotLayout::Auto, 30_000))
}

/// Takes as many cells as there are, up to `n`.
pub(crate) fn take_up_to(gate: &dyn Gate, n: u64, now: Tick) -> u64 {
    let there = Verdict::from(&gate.peek_at(0, now)).remaining.min(n);
    assert!(gate.check_at(there, now).is_ok(), "what is there can be taken");
    there
}

pub(crate) fn steps(vector: &Value) -> &[Value] {
    vector["steps"].as_array().expect("a vector has steps")
}

pub(crate) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is not a whole number"))
}

/// The number, if the step has one.
pub(crate) fn number_if_said(value: &Value) -> Option<u64> {
    (!value.is_null()).then(|| number(value))
}

/// The spans of a verdict in nanoseconds.
pub(crate) fn retry_nanos(verdict: &Verdict) -> Option<u128> {
    verdict.retry_after.map(|wait| wait.as_nanos())
}
