//! A keyed limiter of sixteen slots, with refunds and with restores from snapshots at any time,
//! compared with an oracle of each key.
//!
//! Keys without a slot are denied, so no live key is evicted. All slots are candidates for each
//! key, so the model knows when that may happen.

use std::collections::HashMap;
use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::internals::{Rebase, Refund, StateMachine};
use tollgate::limiter::SlotLayout;
use tollgate::reservation::{Chargeable, Reservation};
use tollgate::{Builder, FixedWindow, Gcra, Limiter, ManualClock, OnFull, Quota, Tick};

use super::choice::Cost;
use super::cursor::Cursor;
use super::grid::{horizon, nanos};
use super::mistake::{Mistake, planted};
use super::refund_model::{Held, RefundModel, compact_level, level, window};

/// For a limiter with few enough keys.
const PLACES: usize = 16;
const KEYS: u8 = 20;
/// The maximum number of open reservations.
const HELD_MAX: usize = 12;
const OPERATIONS_MAX: usize = 2_048;
/// Quotas with long and short time rings, and bursts that take a cell's time or a month.
const WIDE: [&str; 6] =
    ["10/s", "7/s burst 3", "1000/min burst 50", "1/s burst 1", "1000000000/s burst 100", "40/30d"];
const COMPACT: [&str; 6] =
    ["10/s", "7/s burst 3", "100/s burst 20", "1/s burst 1", "1000/d", "40/30d"];
const WINDOWS: [&str; 6] = ["10/s", "7/min", "1000/h", "1/s", "1023/d", "6/s"];
const COMPACT_WINDOWS: [&str; 6] = ["20/min", "1000/h", "6/d", "7/h", "20/h", "1/d"];

pub(crate) fn accounts(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    let (kind, which) = (cursor.byte(), usize::from(cursor.byte()) % 6);
    let quota = |texts: [&str; 6]| -> Quota { texts[which].parse().expect("a quota") };
    let aligned = kind & 4 > 0;
    let windows = if aligned { FixedWindow::aligned() } else { FixedWindow::anchored() };
    match kind & 3 {
        0 => play(Gcra::new(), quota(WIDE), SlotLayout::Wide, &mut cursor, |params, quota| {
            level(params, quota, (0, false))
        }),
        1 => {
            play(Gcra::new(), quota(COMPACT), SlotLayout::Compact, &mut cursor, |params, quota| {
                compact_level(params, quota, false)
            })
        }
        2 => play(windows, quota(WINDOWS), SlotLayout::Wide, &mut cursor, |params, quota| {
            window(params, quota, aligned)
        }),
        _ => play(
            windows,
            quota(COMPACT_WINDOWS),
            SlotLayout::Compact,
            &mut cursor,
            |params, quota| window(params, quota, aligned),
        ),
    }
}

type Gate<A> = Limiter<u8, A, ManualClock>;

/// Runs the operations on a series of limiters: each is restored from the one before.
fn play<A, L>(
    algorithm: A,
    quota: Quota,
    slots: SlotLayout,
    cursor: &mut Cursor<'_>,
    model: impl Fn(&A::Params, &Quota) -> L,
) where
    A: Algorithm<Params: Rebase + Refund> + Copy,
    L: RefundModel + Clone,
{
    let start = cursor.tick().as_nanos();
    let (seed, skew) = (cursor.byte(), cursor.scaled());
    let build = |now: u64| -> Builder<u8, A, ManualClock> {
        let clock = ManualClock::new();
        clock.set(Tick::from_nanos(now));
        let builder = Limiter::builder(quota).algorithm(algorithm).clock(clock).slots(slots);
        let builder = builder.capacity(8).on_full(OnFull::Deny).hash_seed(seed.into());
        builder.max_clock_skew(Duration::from_nanos(skew))
    };
    let Ok(mut gate) = build(start).build() else { return };
    let params = gate.params().clone();
    let max = params.skew_tolerance().map_or(u64::MAX, |tolerance| nanos(tolerance) / 2);
    if skew > max {
        return;
    }
    // The first state may be stamped before the start.
    let end = horizon(&params, horizon(&params, start).0).1;
    let mut accounts = Accounts {
        fresh: model(&params, &quota),
        models: HashMap::new(),
        has_lives: matches!(slots, SlotLayout::Wide),
        quota,
        interval: nanos(quota.period()) / quota.limit(),
        time: Time { now: start, newest: start, oldest: 0, skew, end },
        left: OPERATIONS_MAX,
    };
    while accounts.run(&gate, cursor) {
        let now = accounts.time.newest;
        gate.clock().set(Tick::from_nanos(now));
        let bytes = gate.snapshot();
        gate = build(now).restore(&bytes).expect("what was saved a moment ago");
        if planted(Mistake::RowLost) {
            (0..KEYS).for_each(|key| gate.reset(&key));
        }
        accounts.restored(&gate);
    }
}

struct Time {
    now: u64,
    newest: u64,
    /// No clock is behind this time: a key that was idle by then is not in a snapshot.
    oldest: u64,
    skew: u64,
    end: u64,
}

impl Time {
    fn tick(&self) -> Tick {
        Tick::from_nanos(self.now)
    }

    /// The time of the oldest clock that any thread may have.
    fn oldest(&self) -> Tick {
        Tick::from_nanos(self.newest.saturating_sub(self.skew).max(self.oldest))
    }

    fn forward(&mut self, span: u64) {
        self.now = self.now.saturating_add(span).min(self.end);
        self.newest = self.newest.max(self.now);
    }

    fn back(&mut self, span: u64) {
        self.now = self.now.saturating_sub(span).max(self.oldest().as_nanos());
    }
}

struct Accounts<L> {
    fresh: L,
    models: HashMap<u8, L>,
    /// Whether the limiter distinguishes a reservation from those of an earlier life of the key.
    has_lives: bool,
    quota: Quota,
    interval: u64,
    time: Time,
    /// The maximum number of further operations.
    left: usize,
}

/// A charge that can be refunded; `None` if the key has lost the life that was charged.
struct Reserved<'a, S: Chargeable> {
    key: u8,
    model: Option<Held>,
    reservation: Reservation<'a, S>,
}

/// The outcome of an operation.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    Granted(bool),
    Owed(Duration),
    Drained(u64),
    Nothing,
}

impl<L: RefundModel + Clone> Accounts<L> {
    fn model_of(&self, key: u8) -> &L {
        self.models.get(&key).unwrap_or(&self.fresh)
    }

    fn cells(&self, key: u8, cost: Cost) -> u64 {
        cost.cells(self.quota.burst_cells(), self.model_of(key).left(self.time.tick()).0)
    }

    /// Runs until a snapshot is due, or to the end.
    fn run<A>(&mut self, gate: &Gate<A>, cursor: &mut Cursor<'_>) -> bool
    where
        A: Algorithm<Params: Rebase + Refund>,
    {
        let mut held = Vec::new();
        while !cursor.is_empty() && self.left > 0 {
            self.left -= 1;
            gate.clock().set(self.time.tick());
            let kind = cursor.byte();
            let key = cursor.byte() % KEYS;
            match kind {
                0..=149 => {
                    let n = self.cells(key, cursor.cost());
                    let is_told = self.charges(gate, kind, key, n, &mut held);
                    self.check_left(gate, key, is_told);
                }
                150..=194 => self.settles(gate, cursor, &mut held),
                195..=204 => self.count(gate),
                205..=219 => self.time.forward(cursor.scaled()),
                220..=234 => {
                    self.time.forward(self.interval.saturating_mul(cursor.byte().into()));
                }
                235..=247 => self.time.back(cursor.scaled()),
                _ => {
                    held.into_iter().for_each(leak);
                    return true;
                }
            }
        }
        self.count(gate);
        held.into_iter().for_each(leak);
        false
    }

    /// Checks, reserves, charges, drains or adds. Returns whether the key has a slot, or needs
    /// none.
    fn charges<'a, A>(
        &mut self,
        gate: &'a Gate<A>,
        kind: u8,
        key: u8,
        n: u64,
        held: &mut Vec<Reserved<'a, Gate<A>>>,
    ) -> bool
    where
        A: Algorithm<Params: Rebase + Refund>,
    {
        let (now, before) = (self.time.tick(), gate.stats());
        let mut reserved = None;
        let outcome = match kind {
            0..=49 => Outcome::Granted(gate.ask(&key).cells(n).at(now).check().is_ok()),
            50..=99 if held.len() < HELD_MAX => {
                reserved = gate.ask(&key).cells(n).at(now).reserve().ok();
                Outcome::Granted(reserved.is_some())
            }
            50..=119 => Outcome::Owed(gate.ask(&key).cells(n).at(now).charge()),
            120..=134 => Outcome::Drained(gate.ask(&key).cells(n).at(now).charge_available()),
            _ => {
                gate.ask(&key).cells(n).at(now).refund();
                Outcome::Nothing
            }
        };
        self.claims_new_slot(gate, key, before.claimed, held);
        let mut model = self.model_of(key).clone();
        let left = model.left(now).0;
        let charged = match outcome {
            Outcome::Granted(_) => model.charge(now, n),
            Outcome::Drained(_) => model.charge(now, left.min(n)),
            _ => None,
        };
        let is_right = match outcome {
            Outcome::Granted(granted) => granted == charged.is_some(),
            Outcome::Drained(cells) => cells == left.min(n),
            Outcome::Owed(debt) => debt == model.charge_anyway(now, n),
            Outcome::Nothing => {
                model.add(now, n);
                true
            }
        };
        // A caller whose key finds no slot does not always learn it.
        let found_none = gate.stats().denied_full > before.denied_full
            || matches!(outcome, Outcome::Owed(_))
                && peeked_state(gate, key, now) == self.fresh.left(now);
        if found_none && self.may_be_full(key) {
            return false;
        }
        assert!(is_right, "{outcome:?} for {n} of {key} at {now:?}, which has {left}");
        if let Some(reservation) = reserved {
            assert_eq!(reservation.cells(), n);
            held.push(Reserved { key, model: charged, reservation });
        }
        self.models.insert(key, model);
        true
    }

    /// A key that was given a slot had none before, so it is idle for every clock. Earlier charges
    /// of it are refunded to no other life.
    fn claims_new_slot<A, S>(
        &mut self,
        gate: &Gate<A>,
        key: u8,
        claimed: u64,
        held: &mut Vec<Reserved<'_, S>>,
    ) where
        A: Algorithm,
        S: Chargeable,
    {
        if gate.stats().claimed == claimed {
            return;
        }
        let owed = self.model_of(key).left(self.time.oldest()).1;
        assert!(owed.is_zero(), "{key} was live, and was given another slot");
        self.models.remove(&key);
        let has_lives = self.has_lives;
        for its in held.extract_if(.., |its| its.key == key && !has_lives) {
            leak(its);
        }
        held.iter_mut().filter(|its| its.key == key).for_each(|its| its.model = None);
    }

    /// Whether a key may find no slot: all slots belong to keys that are live for the deciding
    /// thread. Its clock may be behind, and it allows for other clocks behind it.
    fn may_be_full(&self, key: u8) -> bool {
        let judged = Tick::from_nanos(self.time.now.saturating_sub(self.time.skew));
        let live = |model: &&L| !model.left(judged).1.is_zero();
        let oldest = self.time.oldest();
        let has_slot = !self.model_of(key).left(oldest).1.is_zero();
        !has_slot && self.models.values().filter(live).count() >= PLACES
    }

    fn settles<A, S>(
        &mut self,
        gate: &Gate<A>,
        cursor: &mut Cursor<'_>,
        held: &mut Vec<Reserved<'_, S>>,
    ) where
        A: Algorithm<Params: Refund>,
        S: Chargeable,
    {
        let (index, cost, how) = (usize::from(cursor.byte()), cursor.cost(), cursor.byte());
        if held.is_empty() {
            return;
        }
        let Reserved { key, model: charged, reservation } = held.swap_remove(index % held.len());
        let (now, n) = (self.time.tick(), reservation.cells());
        let actual = self.cells(key, cost);
        // Dropped, settled for at most what was reserved, or settled for any cost.
        let actual = match how % 3 {
            0 => 0,
            1 => actual.min(n),
            _ => actual,
        };
        let claimed = gate.stats().claimed;
        match how % 3 {
            0 => drop(reservation),
            _ => reservation.settle_at(actual, now),
        }
        if planted(Mistake::RefundedTwice) {
            gate.ask(&key).cells(n.saturating_sub(actual)).at(now).refund();
        }
        self.claims_new_slot(gate, key, claimed, held);
        let mut model = self.model_of(key).clone();
        if actual > n {
            model.charge_anyway(now, actual - n);
        } else if let Some(charge) = charged {
            model.refund(now, charge, n - actual);
        }
        let has_slot = !self.may_be_full(key) || peeked_state(gate, key, now) == model.left(now);
        if has_slot {
            self.models.insert(key, model);
        }
        self.check_left(gate, key, has_slot);
    }

    /// Checks that the limiter reports what the model of the key does.
    fn check_left<A: Algorithm>(&self, gate: &Gate<A>, key: u8, has_slot: bool) {
        let now = self.time.tick();
        let model = if has_slot { self.model_of(key) } else { &self.fresh };
        assert_eq!(peeked_state(gate, key, now), model.left(now), "of {key} at {now:?}");
    }

    fn count<A: Algorithm>(&self, gate: &Gate<A>) {
        let now = self.time.tick();
        let live = |model: &&L| !model.left(now).1.is_zero();
        assert_eq!(gate.len_at(now), self.models.values().filter(live).count());
    }

    /// Idle keys are left out of a snapshot; all others continue.
    fn restored<A: Algorithm>(&mut self, gate: &Gate<A>) {
        (self.time.now, self.time.oldest) = (self.time.newest, self.time.newest);
        let now = self.time.tick();
        self.models.retain(|_, model| !model.left(now).1.is_zero());
        self.count(gate);
        for key in 0..KEYS {
            self.check_left(gate, key, true);
        }
    }
}

fn peeked_state<A: Algorithm>(gate: &Gate<A>, key: u8, now: Tick) -> (u64, Duration) {
    let permit = gate.ask(&key).cells(0).at(now).peek().expect("a peek for no cells succeeds");
    (permit.remaining(), permit.reset_after())
}

/// Drops the reservation without a refund.
fn leak<S: Chargeable>(reserved: Reserved<'_, S>) {
    std::mem::forget(reserved.reservation);
}
