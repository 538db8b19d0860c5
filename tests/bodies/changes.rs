//! A keyed limiter whose quota changes in use. Each key is decided like a limiter of its own that
//! saw the same changes, and is granted no more than what it inherits and the rate.

use std::time::Duration;

use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::internals::StateMachine;
use tollgate::{Limiter, ManualClock, Quota, Tick};

use super::choice::Cost;
use super::cursor::Cursor;
use super::grid::{horizon, nanos};
use super::mistake::{Mistake, planted};

const KEYS: u8 = 5;
const OPERATIONS_MAX: usize = 1_024;

type Gate = Limiter<u8, DynamicGcra, ManualClock>;

pub(crate) fn changes(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    let first = quota(&mut cursor);
    let (start, seed) = (cursor.tick().as_nanos(), cursor.byte());
    let algorithm = if seed & 1 > 0 { DynamicGcra::start_empty() } else { DynamicGcra::new() };
    let build = || {
        Limiter::builder(first)
            .algorithm(algorithm)
            .clock(ManualClock::new())
            .capacity(8)
            .hash_seed(seed.into())
            .build()
    };
    let Ok(gate) = build() else { return };
    let end = horizon(gate.params(), horizon(gate.params(), start).0).1;
    let tolerance = gate.params().skew_tolerance().expect("a ring") / 2;
    let key = |_| Key { alone: build().expect("as the other"), granted: 0, due: None };
    let mut both = Both {
        gate,
        keys: (0..KEYS).map(key).collect(),
        starts_empty: seed & 1 > 0,
        changed_by_old_time: false,
        quota: first,
        now: start,
        newest: start,
        skew: nanos(tolerance),
        end,
    };
    for _ in 0..OPERATIONS_MAX {
        if cursor.is_empty() {
            break;
        }
        both.apply(&mut cursor);
    }
}

/// Rates that differ by a factor of 32 and more, and bursts of one cell and of many.
fn quota(cursor: &mut Cursor<'_>) -> Quota {
    let kind = cursor.byte();
    let limit = [1, 3, 7, 10, 100, 1_000, 31_250, 1_000_000][usize::from(kind & 7)];
    let period = [1, 10, 60, 86_400][usize::from(kind >> 3 & 3)];
    let quota = Quota::new(limit, Duration::from_secs(period));
    match kind >> 5 {
        0 | 1 => quota,
        2 => quota.burst(cursor.scaled()),
        _ => quota.burst(cursor.byte().into()),
    }
}

struct Key {
    /// The same key in a limiter of its own.
    alone: Gate,
    /// Cells granted since the last change, less refunds.
    granted: u64,
    /// The cells that the key had when the quota changed, and the time of the change. `None` before
    /// the first request, and after charges beyond the limit, which are not counted here.
    due: Option<(u64, u64)>,
}

struct Both {
    gate: Gate,
    keys: Vec<Key>,
    starts_empty: bool,
    /// Whether a quota came into force at an instant before a charge by another quota: a fast rate
    /// may then have put the charge further ahead than a reset forgives.
    changed_by_old_time: bool,
    quota: Quota,
    now: u64,
    /// The latest instant so far, and the last instant at which states can be distinguished.
    newest: u64,
    skew: u64,
    end: u64,
}

impl Both {
    fn apply(&mut self, cursor: &mut Cursor<'_>) {
        let (kind, key) = (cursor.byte(), cursor.byte() % KEYS);
        match kind {
            0..=99 => self.check(key, cursor.cost()),
            100..=124 => self.charge(key, cursor),
            125..=154 => self.reserve(key, cursor),
            155..=189 => self.change(cursor),
            190..=209 => self.forward(cursor.scaled()),
            210..=234 => {
                let interval = nanos(self.quota.period()) / self.quota.limit();
                self.forward(interval.saturating_mul(cursor.byte().into()));
            }
            235..=244 => {
                let oldest = self.newest.saturating_sub(self.skew);
                self.now = self.now.saturating_sub(cursor.scaled()).max(oldest);
            }
            _ => {
                self.gate.reset(&key);
                self.keys[usize::from(key)].alone.reset(&key);
                self.keys[usize::from(key)].due = None;
            }
        }
        self.is_alike(key);
    }

    fn tick(&self) -> Tick {
        Tick::from_nanos(self.now)
    }

    fn forward(&mut self, span: u64) {
        self.now = self.now.saturating_add(span).min(self.end);
        self.newest = self.newest.max(self.now);
    }

    fn left(&self, key: u8) -> u64 {
        self.gate
            .ask(&key)
            .cells(0)
            .at(self.tick())
            .peek()
            .expect("a peek for no cells succeeds")
            .remaining()
    }

    fn cells(&self, key: u8, cost: Cost) -> u64 {
        cost.cells(self.quota.burst_cells(), self.left(key))
    }

    fn check(&mut self, key: u8, cost: Cost) {
        let (now, n) = (self.tick(), self.cells(key, cost));
        self.begins(key);
        let answer = self.gate.ask(&key).cells(n).at(now).check();
        let its = &mut self.keys[usize::from(key)];
        assert_eq!(answer, its.alone.ask(&key).cells(n).at(now).check(), "{n} of {key} at {now:?}");
        if answer.is_ok() {
            its.granted += n;
        }
        self.is_due(key);
    }

    /// The grants of a key are counted from its first request after a change.
    fn begins(&mut self, key: u8) {
        let (left, newest) = (self.left(key), self.newest);
        let its = &mut self.keys[usize::from(key)];
        match &mut its.due {
            None if self.now == newest => (its.due, its.granted) = (Some((left, newest)), 0),
            // By a clock that is behind, a key has had its cells for longer.
            Some((_, since)) => *since = self.now.min(*since),
            None => {}
        }
    }

    /// Since the change no more was granted than the cells that the key had then and the rate
    /// since; plus one cell for rounding, and one for the fraction of a cell that it had.
    fn is_due(&self, key: u8) {
        let its = &self.keys[usize::from(key)];
        let Some((left, since)) = its.due else { return };
        let span = u128::from(self.newest - since);
        let restored = span * u128::from(self.quota.limit()) / self.quota.period().as_nanos();
        let max = u128::from(left) + restored + 2;
        assert!(u128::from(its.granted) <= max, "{} of {max} granted to {key}", its.granted);
    }

    fn charge(&mut self, key: u8, cursor: &mut Cursor<'_>) {
        let (how, now) = (cursor.byte(), self.tick());
        let n = self.cells(key, cursor.cost());
        let its = &mut self.keys[usize::from(key)];
        its.due = None;
        match how % 3 {
            0 => assert_eq!(
                self.gate.ask(&key).cells(n).at(now).charge(),
                its.alone.ask(&key).cells(n).at(now).charge()
            ),
            1 => assert_eq!(
                self.gate.ask(&key).cells(n).at(now).charge_available(),
                its.alone.ask(&key).cells(n).at(now).charge_available()
            ),
            _ => {
                self.gate.ask(&key).cells(n).at(now).refund();
                its.alone.ask(&key).cells(n).at(now).refund();
            }
        }
    }

    /// Reserved now, and settled later, perhaps by another quota.
    fn reserve(&mut self, key: u8, cursor: &mut Cursor<'_>) {
        let n = self.cells(key, cursor.cost());
        let (how, actual, span) = (cursor.byte(), self.cells(key, cursor.cost()), cursor.scaled());
        let now = self.tick();
        self.forward(span);
        let change = (how & 3 == 0).then(|| (quota(cursor), inherit(how >> 2)));
        let later = self.tick();
        let its = &mut self.keys[usize::from(key)];
        its.due = None;
        let its = &self.keys[usize::from(key)];
        let held = self.gate.ask(&key).cells(n).at(now).reserve();
        let held_alone = its.alone.ask(&key).cells(n).at(now).reserve();
        assert_eq!(held.is_ok(), held_alone.is_ok(), "{n} of {key} at {now:?}");
        self.changed_by_old_time |= change.is_some() && self.now < self.newest;
        if let Some((quota, inherit)) = change {
            let changed = self.gate.set_quota_at(quota, inherit, later);
            for key in &self.keys {
                assert_eq!(changed, key.alone.set_quota_at(quota, inherit, later));
            }
        }
        if let (Ok(held), Ok(held_alone)) = (held, held_alone) {
            held.settle_at(actual, later);
            held_alone.settle_at(actual, later);
        }
        if change.is_some() {
            self.quota = self.gate.quota();
            self.keys.iter_mut().for_each(|key| key.due = None);
        }
    }

    fn change(&mut self, cursor: &mut Cursor<'_>) {
        let (quota, kind) = (quota(cursor), cursor.byte());
        let inherit = inherit(kind);
        // Slow quotas would wrap around after some sixty resets.
        let times = if kind >> 2 & 7 == 7 { 80 } else { 1 };
        let (now, before) = (Tick::from_nanos(self.newest), self.gate.quota());
        let lefts: Vec<u64> = (0..KEYS).map(|key| self.left(key)).collect();
        let changed = self.gate.set_quota_at(quota, inherit, now);
        for _ in 1..times {
            assert_eq!(self.gate.set_quota_at(quota, inherit, now), changed);
        }
        for key in &mut self.keys {
            if planted(Mistake::ChangeMissed) {
                continue;
            }
            for _ in 0..times {
                assert_eq!(changed, key.alone.set_quota_at(quota, inherit, now));
            }
            if changed.is_ok() {
                key.due = None;
            }
        }
        if let Err(error) = changed {
            assert!(!error.to_string().is_empty());
            assert_eq!(self.gate.quota(), before, "a rejected change changes nothing");
            (0..KEYS).for_each(|key| assert_eq!(self.left(key), lefts[usize::from(key)]));
        } else {
            let new = self.gate.quota();
            assert_eq!((new.limit(), new.period()), (quota.limit(), quota.period()));
            assert_eq!(new.burst_cells(), quota.burst_cells());
            self.quota = new;
            if inherit == Inherit::Reset && !self.starts_empty && !self.changed_by_old_time {
                let all = self.quota.burst_cells();
                (0..KEYS)
                    .for_each(|key| assert_eq!(self.left(key), all, "{key} is as if never seen"));
            }
        }
    }

    fn is_alike(&self, key: u8) {
        let (now, its) = (self.tick(), &self.keys[usize::from(key)]);
        for n in [0, 1, self.quota.burst_cells()] {
            let peeked = self.gate.ask(&key).cells(n).at(now).peek();
            assert_eq!(
                peeked,
                its.alone.ask(&key).cells(n).at(now).peek(),
                "{n} of {key} at {now:?}"
            );
        }
        let permit =
            its.alone.ask(&key).cells(0).at(now).peek().expect("a peek for no cells succeeds");
        assert!(permit.remaining() <= permit.limit());
        assert_eq!(permit.limit(), self.quota.burst_cells());
        // A clock from before a change reads as the time of the change, and a key that starts empty
        // does so when it is first seen.
        let full = now.as_nanos().checked_add(nanos(permit.reset_after()));
        if let Some(full) =
            full.filter(|full| *full <= self.end && self.now == self.newest && !self.starts_empty)
        {
            let later =
                its.alone.ask(&key).cells(0).at(Tick::from_nanos(full)).peek().expect("as before");
            assert_eq!(
                later.remaining(),
                permit.limit(),
                "all cells are restored at the stated time"
            );
        }
    }
}

fn inherit(kind: u8) -> Inherit {
    // Chosen by another bit, so that the kept corpus keeps its meaning.
    match kind % 4 {
        0 => Inherit::AsIs,
        1 if kind & 4 > 0 => Inherit::Spent,
        1 => Inherit::Additive,
        2 => Inherit::Proportional,
        _ => Inherit::Reset,
    }
}
