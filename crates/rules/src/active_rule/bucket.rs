//! The limiter of one limit. Only this file knows which limiter of the core it is.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::plan::{Plan, Plannable};
use tollgate::reservation::{Chargeable, OwnedReservation, Reservation};
use tollgate::stats::{Occupancy, Stats};
use tollgate::{
    AnyAlgorithm, BuildError, Clock, Decision, Denied, FixedWindow, Gcra, Limiter, OnFull, Quota,
    QuotaError, Tick,
};

use super::held::Held;
use crate::clock::RulesClock;
use crate::error::LimiterError;
use crate::rule::{Limiters, RuleLimit, SettleBy};
use crate::shared::{Place, build_at};

/// How often a change of a quota is tried. In shared memory, each attempt waits a while for the change that another
/// process has under way.
const CHANGE_TRIES: usize = 10;

/// The limiter of one limit.
///
/// The two algorithms that can refund have variants of their own. `gcra` uses [`DynamicGcra`], whose
/// quota can be replaced: it costs some nanoseconds more for each decision, and keys keep their
/// spent cells when the file is edited.
#[derive(Debug)]
pub(crate) enum Bucket<C: Clock> {
    /// And the file of its block, if processes share it.
    Gcra(Arc<Limiter<[u8], DynamicGcra, RulesClock<C>>>, Option<PathBuf>),
    Window(Arc<Limiter<[u8], FixedWindow, RulesClock<C>>>),
    Other(Box<Limiter<[u8], AnyAlgorithm, RulesClock<C>>>),
    GcraPlans(Planned<Gcra, C>),
    WindowPlans(Planned<FixedWindow, C>),
}

/// One limiter for keys of several plans. It is built with the fastest of their quotas.
#[derive(Debug)]
pub(crate) struct Planned<A: Algorithm, C> {
    gate: Arc<Limiter<[u8], A, RulesClock<C>>>,
    /// In the order of the rule's limits.
    plans: Vec<Plan<A>>,
}

impl<A: Plannable, C: Clock> Planned<A, C> {
    /// On an error, the index is that of the limit whose plan the limiter cannot have.
    fn new(
        gate: Arc<Limiter<[u8], A, RulesClock<C>>>,
        limits: &[RuleLimit],
    ) -> Result<Self, (usize, BuildError)> {
        let made = limits.iter().enumerate().map(|(at, limit)| {
            gate.plan(limit.quota).map_err(|error| (at, BuildError::Quota(error)))
        });
        let plans = made.collect::<Result<_, _>>()?;
        Ok(Self { gate, plans })
    }

    /// The same limiter with other plans.
    fn with(&self, limits: &[RuleLimit]) -> Option<Self> {
        Self::new(Arc::clone(&self.gate), limits).ok()
    }
}

/// The cost of a request, and how long it may wait for its turn; `None`: any time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    cells: u64,
    max_delay: Option<Duration>,
    /// The index of the request's plan, if the limiter has plans.
    plan: usize,
}

impl Cost {
    /// The cost of a request that waits until at most `max_waiting` cells are restored; `None`: any number.
    pub(crate) fn queued(cells: u64, max_waiting: Option<u64>, quota: &Quota) -> Self {
        let delay = |cells: u64| {
            let nanos = quota.period().as_nanos().saturating_mul(cells.into());
            let nanos = nanos.div_ceil(quota.limit().max(1).into());
            u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
        };
        Self { cells, max_delay: max_waiting.map(delay), plan: 0 }
    }

    /// The same by a plan.
    pub(crate) fn by_plan(self, plan: usize) -> Self {
        Self { plan, ..self }
    }
}

/// Evaluates an expression for the limiter of any variant.
macro_rules! dispatch {
    ($bucket:expr, $each:ident => $call:expr) => {
        match $bucket {
            Bucket::Gcra($each, _) => $call,
            Bucket::Window($each) => $call,
            Bucket::Other($each) => $call,
            Bucket::GcraPlans(Planned { gate: $each, .. }) => $call,
            Bucket::WindowPlans(Planned { gate: $each, .. }) => $call,
        }
    };
}

/// Evaluates an expression for the request of a key, by its plan if there is one.
macro_rules! ask {
    ($bucket:expr, $key:expr, $plan:expr, $ask:ident => $call:expr) => {
        match $bucket {
            Bucket::Gcra(gate, _) => ask!(@ gate.ask($key), $ask => $call),
            Bucket::Window(gate) => ask!(@ gate.ask($key), $ask => $call),
            Bucket::Other(gate) => ask!(@ gate.ask($key), $ask => $call),
            Bucket::GcraPlans(Planned { gate, plans }) => {
                ask!(@ gate.ask($key).plan(&plans[$plan]), $ask => $call)
            }
            Bucket::WindowPlans(Planned { gate, plans }) => {
                ask!(@ gate.ask($key).plan(&plans[$plan]), $ask => $call)
            }
        }
    };
    (@ $request:expr, $ask:ident => $call:expr) => {{
        let $ask = $request;
        $call
    }};
}

impl<C: Clock> Bucket<C> {
    pub(crate) fn build(
        limit: &RuleLimit,
        capacity: u64,
        on_full: OnFull,
        place: &Place<'_, C>,
    ) -> Result<Self, LimiterError> {
        let builder = Limiter::<[u8]>::builder(limit.quota).capacity(capacity).on_full(on_full);
        Ok(match limit.algorithm.limiters {
            Limiters::Gcra => {
                let gate = build_at!(builder.algorithm(DynamicGcra::new()), place)?;
                Self::Gcra(Arc::new(gate), place.path.clone())
            }
            Limiters::Window(window) => {
                Self::Window(Arc::new(build_at!(builder.algorithm(window), place)?))
            }
            Limiters::Other(algorithm) => {
                Self::Other(Box::new(build_at!(builder.algorithm(algorithm), place)?))
            }
        })
    }

    /// A limiter for keys of several plans. The algorithm is that of the limits. On an error, the index is
    /// that of the limit that does not fit beside the others.
    pub(crate) fn build_plans(
        limits: &[RuleLimit],
        capacity: u64,
        on_full: OnFull,
        place: &Place<'_, C>,
    ) -> Result<Self, (usize, LimiterError)> {
        let fastest = fastest(limits);
        let quota = limits[fastest].quota;
        let builder = Limiter::<[u8]>::builder(quota).capacity(capacity).on_full(on_full);
        let failed = |error| (fastest, error);
        let of_plan = |(at, error): (usize, BuildError)| (at, error.into());
        Ok(match limits[fastest].algorithm.limiters {
            Limiters::Window(window) => {
                let gate = build_at!(builder.algorithm(window), place).map_err(failed)?;
                Self::WindowPlans(Planned::new(Arc::new(gate), limits).map_err(of_plan)?)
            }
            // The parser rejects plans by any other.
            Limiters::Gcra | Limiters::Other(_) => {
                let gate = build_at!(builder.algorithm(Gcra::new().for_plans()), place);
                let gate = gate.map_err(failed)?;
                Self::GcraPlans(Planned::new(Arc::new(gate), limits).map_err(of_plan)?)
            }
        })
    }

    /// The same limiter with other plans: each key keeps its state. `None` if it cannot keep one of them.
    pub(crate) fn with_plans(&self, limits: &[RuleLimit]) -> Option<Self> {
        match self {
            Self::GcraPlans(planned) => planned.with(limits).map(Self::GcraPlans),
            Self::WindowPlans(planned) => planned.with(limits).map(Self::WindowPlans),
            Self::Gcra(..) | Self::Window(_) | Self::Other(_) => None,
        }
    }

    /// Charges all of the cells, or none.
    pub(crate) fn check(&self, key: &[u8], cost: Cost, now: Tick) -> Decision {
        let Cost { cells, max_delay, plan } = cost;
        match max_delay {
            None => ask!(self, key, plan, ask => ask.cells(cells).at(now).check()),
            Some(max) => {
                ask!(self, key, plan, ask => ask.cells(cells).max_delay(max).at(now).check())
            }
        }
    }

    /// The result that [`check`](Self::check) would return.
    pub(crate) fn peek(&self, key: &[u8], cost: Cost, now: Tick) -> Decision {
        let Cost { cells, max_delay, plan } = cost;
        match max_delay {
            None => ask!(self, key, plan, ask => ask.cells(cells).at(now).peek()),
            Some(max) => {
                ask!(self, key, plan, ask => ask.cells(cells).max_delay(max).at(now).peek())
            }
        }
    }

    /// Whether the key has a slot, or would find one without an eviction.
    pub(crate) fn finds_slot(&self, key: &[u8], plan: usize, now: Tick) -> bool {
        ask!(self, key, plan, ask => ask.at(now).finds_slot())
    }

    /// Whether [`set_quota`](Self::set_quota) may succeed.
    pub(crate) fn may_change(&self) -> bool {
        matches!(self, Self::Gcra(..))
    }

    /// The quota in force, if it can be replaced. It may be that of another process.
    pub(crate) fn quota(&self) -> Option<Quota> {
        match self {
            Self::Gcra(gate, _) => Some(gate.quota()),
            _ => None,
        }
    }

    /// Whether this is a limiter whose quota can be replaced, and its block is not at `place`.
    pub(crate) fn is_elsewhere(&self, place: &Place<'_, C>) -> bool {
        matches!(self, Self::Gcra(_, path) if *path != place.path)
    }

    /// Replaces the quota. Returns `false` if the limiter cannot, or the new quota is too far from the
    /// one that it was built with. Each key keeps its spent cells: see [`Inherit::Spent`].
    ///
    /// It fails if other processes were changing the quota at every attempt.
    pub(crate) fn set_quota(&self, quota: Quota) -> Result<bool, LimiterError> {
        let Self::Gcra(gate, _) = self else { return Ok(false) };
        for _ in 0..CHANGE_TRIES {
            match gate.set_quota(quota, Inherit::Spent) {
                Ok(()) => return Ok(true),
                Err(QuotaError::ChangeUnderWay) => {}
                Err(_) => return Ok(false),
            }
        }
        Err(BuildError::Quota(QuotaError::ChangeUnderWay).into())
    }

    /// Waits as [`set_quota`](Self::set_quota) does, and fails as it does, but changes nothing.
    pub(crate) fn wait_for_change(&self) -> Result<(), LimiterError> {
        // No limiter takes a quota without cells. One in a block checks the quota after the wait.
        self.set_quota(Quota::per_second(0)).map(drop)
    }

    /// Whether a charge can be refunded.
    pub(crate) fn can_refund(&self) -> bool {
        !matches!(self, Self::Other(_))
    }

    /// Charges the cells until it is known whether the other limits admit the request too.
    ///
    /// The algorithms that can refund never delay, so a bound on the delay makes no difference to
    /// them.
    pub(crate) fn charge(
        &self,
        key: &[u8],
        cost: Cost,
        now: Tick,
    ) -> Result<Charged<'_, C>, Denied> {
        let Cost { cells, plan, .. } = cost;
        Ok(match self {
            Self::Gcra(gate, _) => Charged::Gcra(gate.ask(key).cells(cells).at(now).reserve()?),
            Self::Window(gate) => Charged::Window(gate.ask(key).cells(cells).at(now).reserve()?),
            Self::GcraPlans(Planned { gate, plans }) => {
                let ask = gate.ask(key).plan(&plans[plan]);
                Charged::GcraPlan(ask.cells(cells).at(now).reserve()?)
            }
            Self::WindowPlans(Planned { gate, plans }) => {
                let ask = gate.ask(key).plan(&plans[plan]);
                Charged::Window(ask.cells(cells).at(now).reserve()?)
            }
            Self::Other(_) => Charged::ForGood(self.check(key, cost, now)?.delay()),
        })
    }

    /// Charges the cells until the response settles them. `None` if the algorithm cannot settle, which the
    /// parser rejects.
    pub(crate) fn reserve(
        &self,
        key: &[u8],
        Cost { cells, plan, .. }: Cost,
        now: Tick,
    ) -> Option<Result<Reserved<C>, Denied>> {
        Some(match self {
            Self::Gcra(gate, _) => {
                gate.ask(key).cells(cells).at(now).reserve_owned(gate).map(Reserved::Gcra)
            }
            Self::Window(gate) => {
                gate.ask(key).cells(cells).at(now).reserve_owned(gate).map(Reserved::Window)
            }
            Self::GcraPlans(Planned { gate, plans }) => {
                let ask = gate.ask(key).plan(&plans[plan]).cells(cells).at(now);
                ask.reserve_owned(gate).map(Reserved::GcraPlan)
            }
            Self::WindowPlans(Planned { gate, plans }) => {
                let ask = gate.ask(key).plan(&plans[plan]).cells(cells).at(now);
                ask.reserve_owned(gate).map(Reserved::Window)
            }
            Self::Other(_) => return None,
        })
    }

    pub(crate) fn stats(&self) -> Stats {
        dispatch!(self, gate => gate.stats())
    }

    pub(crate) fn occupancy(&self) -> Occupancy {
        dispatch!(self, gate => gate.occupancy())
    }

    pub(super) fn memory_bytes(&self) -> usize {
        dispatch!(self, gate => gate.memory_bytes())
    }
}

/// Cells that are charged until it is known whether the other limits admit the request too. Dropping it refunds them
/// by the limiter's clock, as far as time has not restored them and the algorithm can refund.
pub(crate) enum Charged<'g, C: Clock> {
    Gcra(Reservation<'g, Limiter<[u8], DynamicGcra, RulesClock<C>>>),
    GcraPlan(Reservation<'g, Limiter<[u8], Gcra, RulesClock<C>>>),
    Window(Reservation<'g, Limiter<[u8], FixedWindow, RulesClock<C>>>),
    /// The response settles them, by this, and for this many times its cost.
    Unsettled(Reserved<C>, &'g SettleBy, u64),
    /// The algorithm cannot refund. The delay is how long the request waits for its turn.
    ForGood(Duration),
}

impl<C: Clock> Charged<'_, C> {
    /// Keeps the charge. Returns how long the request waits for its turn.
    pub(crate) fn keep(self, now: Tick, held: &mut Held<C>) -> Duration {
        match self {
            Self::Gcra(reserved) => keep(reserved, now),
            Self::GcraPlan(reserved) => keep(reserved, now),
            Self::Window(reserved) => keep(reserved, now),
            Self::Unsettled(reserved, by, times) => held.push_charge(reserved, by.clone(), times),
            Self::ForGood(delay) => return delay,
        }
        Duration::ZERO
    }
}

/// Settles a reservation for all of its cells.
fn keep<G: Chargeable>(reserved: Reservation<'_, G>, now: Tick) {
    let cells = reserved.cells();
    reserved.settle_at(cells, now);
}

/// Cells that are charged until the response settles them. Dropping it refunds them.
pub(crate) enum Reserved<C: Clock> {
    Gcra(OwnedReservation<Limiter<[u8], DynamicGcra, RulesClock<C>>>),
    GcraPlan(OwnedReservation<Limiter<[u8], Gcra, RulesClock<C>>>),
    Window(OwnedReservation<Limiter<[u8], FixedWindow, RulesClock<C>>>),
}

impl<C: Clock> Reserved<C> {
    pub(super) fn cells(&self) -> u64 {
        match self {
            Self::Gcra(held) => held.cells(),
            Self::GcraPlan(held) => held.cells(),
            Self::Window(held) => held.cells(),
        }
    }

    /// Charges more, even over the limit, or refunds the difference.
    pub(super) fn settle(self, actual: u64) {
        match self {
            Self::Gcra(held) => held.settle(actual),
            Self::GcraPlan(held) => held.settle(actual),
            Self::Window(held) => held.settle(actual),
        }
    }
}

/// The index of the quota that restores the most cells a second.
pub(crate) fn fastest(limits: &[RuleLimit]) -> usize {
    // a / b against c / d, without a rounding: cells and nanoseconds are below 2^64 each.
    let is_faster = |one: &Quota, other: &Quota| {
        u128::from(one.limit()) * u128::from(nanos(other))
            > u128::from(other.limit()) * u128::from(nanos(one))
    };
    let indexes = 1..limits.len();
    indexes.fold(0, |best, at| match is_faster(&limits[at].quota, &limits[best].quota) {
        true => at,
        false => best,
    })
}

fn nanos(quota: &Quota) -> u64 {
    u64::try_from(quota.period().as_nanos()).unwrap_or(u64::MAX)
}
