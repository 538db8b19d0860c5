//! A limit at work: the only file that knows which limiter of the core counts it.

use std::sync::Arc;
use std::time::Duration;

use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::reservation::{Chargeable, Reservation};
use tollgate::stats::{Occupancy, Stats};
use tollgate::{
    AnyAlgorithm, BuildError, Clock, Decision, Denied, FixedWindow, Limiter, OnFull, Quota, Tick,
};

use crate::rule::{Limit, Penalty};

/// The buckets of one limit.
///
/// The two algorithms that can give cells back have limiters of their own type. The token bucket is
/// the one whose quota can be replaced: that costs a decision some nanoseconds, and keeps what keys
/// have used when the file is edited.
#[derive(Debug)]
pub(crate) enum Bucket<C: Clock> {
    Gcra(Limiter<[u8], DynamicGcra, Arc<C>>),
    Window(Limiter<[u8], FixedWindow, Arc<C>>),
    Other(Limiter<[u8], AnyAlgorithm, Arc<C>>),
}

/// What a request costs, and how long it may wait for its turn; `None`: as long as it takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) n: u64,
    pub(crate) max_delay: Option<Duration>,
}

impl Cost {
    /// A request that waits behind so many of its key, at one cell each, itself included.
    pub(crate) fn queued(n: u64, max_waiting: Option<u64>, quota: &Quota) -> Self {
        let delay = |requests: u64| {
            let nanos = quota.period().as_nanos().saturating_mul(requests.into());
            let nanos = nanos.div_ceil(quota.limit().max(1).into());
            u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
        };
        Self { n, max_delay: max_waiting.map(delay) }
    }
}

/// Calls the same of whichever limiter it is.
macro_rules! whichever {
    ($bucket:expr, $each:ident => $call:expr) => {
        match $bucket {
            Bucket::Gcra($each) => $call,
            Bucket::Window($each) => $call,
            Bucket::Other($each) => $call,
        }
    };
}

impl<C: Clock> Bucket<C> {
    pub(crate) fn build(
        limit: &Limit,
        capacity: u64,
        on_full: OnFull,
        clock: &Arc<C>,
    ) -> Result<Self, BuildError> {
        let builder = Limiter::<[u8]>::builder(limit.quota)
            .clock(Arc::clone(clock))
            .capacity(capacity)
            .on_full(on_full);
        Ok(match limit.algorithm {
            AnyAlgorithm::Gcra(_) => Self::Gcra(builder.algorithm(DynamicGcra::new()).build()?),
            AnyAlgorithm::FixedWindow(window) => Self::Window(builder.algorithm(window).build()?),
            other => Self::Other(builder.algorithm(other).build()?),
        })
    }

    /// Charges the cells, or none.
    pub(crate) fn check(&self, key: &[u8], Cost { n, max_delay }: Cost, now: Tick) -> Decision {
        match max_delay {
            None => whichever!(self, gate => gate.ask(key).cells(n).at(now).check()),
            Some(max) => {
                whichever!(self, gate => gate.ask(key).cells(n).max_delay(max).at(now).check())
            }
        }
    }

    /// What [`check`](Self::check) would answer.
    pub(crate) fn peek(&self, key: &[u8], Cost { n, max_delay }: Cost, now: Tick) -> Decision {
        match max_delay {
            None => whichever!(self, gate => gate.ask(key).cells(n).at(now).peek()),
            Some(max) => {
                whichever!(self, gate => gate.ask(key).cells(n).max_delay(max).at(now).peek())
            }
        }
    }

    /// Whether the quota can be replaced, where that is not too far from the first.
    pub(crate) fn may_change(&self) -> bool {
        matches!(self, Self::Gcra(_))
    }

    /// Replaces the quota, and says whether it could. Each key keeps the cells that it has spent: see
    /// [`Inherit::Spent`].
    pub(crate) fn change(&self, quota: Quota) -> bool {
        match self {
            Self::Gcra(gate) => gate.set_quota(quota, Inherit::Spent).is_ok(),
            _ => false,
        }
    }

    /// Whether a charge can be taken back.
    pub(crate) fn gives_back(&self) -> bool {
        !matches!(self, Self::Other(_))
    }

    /// Charges `n` cells and does the rest; if that fails, gives back what time has not restored,
    /// where the algorithm can.
    pub(crate) fn charge_then<E: From<Denied>>(
        &self,
        key: &[u8],
        cost: Cost,
        now: Tick,
        rest: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        match self {
            Self::Gcra(gate) => hold(gate.ask(key).cells(cost.n).at(now).reserve()?, now, rest),
            Self::Window(gate) => hold(gate.ask(key).cells(cost.n).at(now).reserve()?, now, rest),
            Self::Other(_) => {
                let _ = self.check(key, cost, now)?;
                rest()
            }
        }
    }

    pub(crate) fn stats(&self) -> Stats {
        whichever!(self, gate => gate.stats())
    }

    pub(crate) fn occupancy(&self) -> Occupancy {
        whichever!(self, gate => gate.occupancy())
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        whichever!(self, gate => gate.memory_bytes())
    }
}

/// Keeps what is reserved if the rest succeeds. A reservation that is dropped gives back by the
/// limiter's clock, read at that moment.
fn hold<G: Chargeable, E>(
    held: Reservation<'_, G>,
    now: Tick,
    rest: impl FnOnce() -> Result<(), E>,
) -> Result<(), E> {
    rest()?;
    let cells = held.cells();
    held.settle_at(cells, now);
    Ok(())
}

/// Who is banned: a window of one cell that opens with the ban, and before it one that counts
/// denials.
#[derive(Debug)]
pub(crate) struct Ban<C: Clock> {
    banned: Limiter<[u8], FixedWindow, Arc<C>>,
    /// `None`: the first denial is enough.
    denied: Option<Limiter<[u8], FixedWindow, Arc<C>>>,
}

impl<C: Clock> Ban<C> {
    pub(crate) fn build(
        penalty: Penalty,
        capacity: u64,
        clock: &Arc<C>,
    ) -> Result<Self, BuildError> {
        let window = |cells, period| {
            Limiter::<[u8]>::builder(Quota::new(cells, period))
                .algorithm(FixedWindow::anchored())
                .clock(Arc::clone(clock))
                .capacity(capacity)
                .on_full(OnFull::EvictNearestIdle)
                .build()
        };
        let before = penalty.after - 1;
        Ok(Self {
            banned: window(1, penalty.ban)?,
            denied: (before > 0).then(|| window(before, penalty.within)).transpose()?,
        })
    }

    /// Whether the key is banned, and until when.
    pub(crate) fn of(&self, key: &[u8], now: Tick) -> Option<Denied> {
        self.banned.ask(key).at(now).peek().err()
    }

    /// Counts a denial.
    pub(crate) fn note(&self, key: &[u8], now: Tick) {
        let is_enough =
            self.denied.as_ref().is_none_or(|denied| denied.ask(key).at(now).check().is_err());
        if is_enough {
            // Where it fails, another thread has begun the ban.
            let _ = self.banned.ask(key).at(now).check();
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.banned.memory_bytes() + self.denied.as_ref().map_or(0, Limiter::memory_bytes)
    }
}
