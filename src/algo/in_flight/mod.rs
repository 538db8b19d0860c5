//! Requests in flight: cells are taken when a request begins, and refunded when it ends.
//!
//! It is no [`Algorithm`](super::Algorithm): time restores nothing, so a limiter without guards would
//! deny for ever. [`concurrency`](crate::concurrency) gives every charge a guard.
//!
//! # Word
//!
//! ```text
//! without a longest hold
//!   bits 52..22  stamp: when the key took its slot, in units of 1,024 ns, modulo 2^31
//!   bits 21..0   cells in flight
//! with a longest hold
//!   bits 52..32  the latest period, a span of the longest hold, in which cells were taken
//!   bits 31..16  cells in flight that were taken in that period
//!   bits 15..0   cells in flight that were taken in the period before
//! ```
//!
//! # Step
//!
//! `n` cells are admitted iff `in flight + n <= limit`. The limit is a parameter of the call, so it may
//! change from one call to the next. Cells taken two periods ago or earlier count no more: their holder
//! has kept them for longer than the longest hold, so it is taken for lost. A clock that is behind the
//! word's period reads the word's period, and so expires nothing.
//!
//! # Refunds
//!
//! A holder refunds its cells to the period in which it took them. Once that period has expired,
//! nothing is left to refund. Without a longest hold, the stamp tells the holder's life of the key from
//! a later one in the same slot, beside the generation that the slot's head has.
//!
//! # Idle
//!
//! A word without cells in flight means the same as no word: another key may take the slot at once. So a
//! slot may change hands within one unit of time, which cannot happen with the other algorithms. The stamp
//! makes the words of two lives differ, unless 1,024 changes fall into one microsecond or an exact multiple
//! of 36 minutes lies between them. With a longest hold, the period makes words of different periods differ.
//! Within a period, a word recurs after a multiple of 1,024 changes of the slot between a thread's load and
//! its swap.
//!
//! Source: nginx `ngx_http_limit_conn_module`, which counts the same under a lock; a counting semaphore
//! (Dijkstra, 1965) without a queue.
//!
//! # Guarded by
//!
//! `loom-tests/tests/concurrency.rs`, run by `ci/check.sh loom`, and the histories of `ci/check.sh shuttle`, with
//! models of a refund to the next owner of a slot and of a request that was counted as lost.

#[cfg(test)]
mod tests;

use core::num::NonZeroU64;
use core::time::Duration;

use super::grid::Grid;
use super::oracle::Entries;
use super::sealed::Sealed;
use super::{Liveness, PAYLOAD_BITS, Receipt, Refund, Ring, StateMachine, Step};
use crate::decision::{Denied, Measurements, NEVER, Permit, Scale};
use crate::time::Tick;
use crate::word::Field;

const COUNT: Field = Field::new(0, 22);
const STAMP: Field = COUNT.above(PAYLOAD_BITS - 22);
const STAMP_NANOS: u64 = 1_024;

const OLDER: Field = Field::new(0, 16);
const RECENT: Field = OLDER.above(16);
const PERIOD: Field = RECENT.above(PAYLOAD_BITS - 32);

/// How a state counts: with or without a longest hold.
#[derive(Clone, Copy, Debug)]
pub struct Holds {
    /// The grid of the stamps, or of the periods.
    grid: Grid,
    expire: bool,
}

impl Holds {
    /// The shortest longest hold.
    pub(crate) const HOLD_MIN: Duration = Duration::from_secs(1);

    /// The longest: a century.
    pub(crate) const HOLD_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3_600);

    /// Cells count until they are refunded.
    #[must_use]
    pub fn unbounded() -> Self {
        Self { grid: Grid::wrapping(1, STAMP_NANOS, STAMP.max(), 0), expire: false }
    }

    /// Cells count until they are refunded, or for `hold`, within the range, and less than twice as long.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a century in nanoseconds fits")]
    pub fn at_most(hold: Duration) -> Self {
        let hold = hold.clamp(Self::HOLD_MIN, Self::HOLD_MAX);
        Self { grid: Grid::new(1, hold.as_nanos() as u64, PERIOD.max(), 0), expire: true }
    }

    /// The longest hold in nanoseconds, where there is one.
    #[cfg(feature = "shared-memory")]
    pub(crate) fn hold_nanos(&self) -> u64 {
        self.grid.ratio().1
    }

    /// Whether cells expire.
    #[inline]
    pub(crate) fn expire(&self) -> bool {
        self.expire
    }

    /// The largest limit that a state can count to.
    #[must_use]
    pub fn limit_max(&self) -> u64 {
        if self.expire { OLDER.max() } else { COUNT.max() }
    }
}

/// The count of a key's requests in flight, with a limit.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "tests make them")]
pub struct InFlight<'a> {
    /// How a state counts.
    pub holds: &'a Holds,
    /// The cells that may be in flight, at most [`Holds::limit_max`].
    pub limit: u64,
}

/// The cells in flight at an instant.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// The stamp, or the period of `recent`.
    since: u64,
    recent: u64,
    older: u64,
}

impl Counted {
    /// Cells in flight.
    #[must_use]
    pub fn all(self) -> u64 {
        self.recent + self.older
    }
}

impl InFlight<'_> {
    /// Reads a state at `floor`, an instant of the grid.
    #[inline(always)]
    fn counted(&self, word: u64, floor: u64) -> Counted {
        if !self.holds.expire {
            return Counted { since: STAMP.of(word), recent: COUNT.of(word), older: 0 };
        }
        let grid = &self.holds.grid;
        let (since, recent, older) = (PERIOD.of(word), RECENT.of(word), OLDER.of(word));
        if grid.ahead(since, floor) > 0 {
            return Counted { since, recent, older };
        }
        let now = grid.later(floor, 0);
        match grid.behind(since, floor) {
            0 => Counted { since, recent, older },
            1 => Counted { since: now, recent: 0, older: recent },
            _ => Counted { since: now, recent: 0, older: 0 },
        }
    }

    #[inline(always)]
    fn word(&self, Counted { since, recent, older }: Counted) -> u64 {
        if self.holds.expire {
            PERIOD.set(RECENT.set(OLDER.of(older), recent), since)
        } else {
            STAMP.set(COUNT.of(recent), since)
        }
    }

    /// The instant on the grid; where nothing expires, no decision depends on it.
    #[inline(always)]
    fn floor(&self, now: Tick) -> u64 {
        if self.holds.expire { self.holds.grid.floor(now) } else { 0 }
    }

    /// The cells in flight in the state that an entry has left, at its time.
    pub(crate) fn in_word(&self, word: u64) -> u64 {
        if self.holds.expire { RECENT.of(word) + OLDER.of(word) } else { COUNT.of(word) }
    }

    /// The count of a key that was never seen.
    pub(crate) fn unseen(&self) -> Counted {
        Counted { since: 0, recent: 0, older: 0 }
    }

    /// The permit after which `in_flight` cells are in flight.
    pub(crate) fn permit_of(&self, in_flight: u64) -> Permit {
        Permit::new(self.measured(in_flight))
    }

    /// The denial while `in_flight` cells are in flight. The time until the key is idle is not known, so that
    /// field holds the cells in flight.
    pub(crate) fn denied_at(&self, in_flight: u64) -> Denied {
        Denied::new(self.measured(in_flight), 1)
    }

    fn measured(&self, in_flight: u64) -> Measurements {
        Measurements {
            limit: self.limit,
            room: self.limit.saturating_sub(in_flight),
            cell: NonZeroU64::MIN,
            until_idle: in_flight,
            scale: Scale::NANOS,
        }
    }
}

impl Sealed for InFlight<'_> {}

impl StateMachine for InFlight<'_> {
    type Oracle = Entries;
    type View = Counted;

    fn fresh(&self, now: Tick) -> u64 {
        let since = self.holds.grid.later(self.holds.grid.floor(now), 0);
        self.word(Counted { since, recent: 0, older: 0 })
    }

    #[inline(always)]
    fn read<R: Ring>(&self, word: u64, _: R, now: Tick, _: u64) -> Counted {
        self.counted(word, self.floor(now))
    }

    #[inline(always)]
    fn step(&self, view: Counted, _: Tick, n: u64) -> Step {
        match view.all().checked_add(n) {
            Some(all) if all <= self.limit => {
                Step::Admit { next: self.word(Counted { recent: view.recent + n, ..view }) }
            }
            _ => Step::Deny,
        }
    }

    fn permit(&self, view: Counted, _: Tick, n: u64) -> Permit {
        self.permit_of(view.all().saturating_add(n))
    }

    fn denied(&self, view: Counted, _: Tick, n: u64) -> Denied {
        match n > self.limit {
            true => Denied::new(self.measured(view.all()), NEVER),
            false => self.denied_at(view.all()),
        }
    }

    #[inline]
    fn instant(&self, now: Tick) -> u64 {
        self.floor(now)
    }

    #[inline]
    fn liveness(&self, word: u64, instant: u64) -> Liveness {
        match self.counted(word, instant).all() {
            0 => Liveness::Idle { units: 0 },
            debt => Liveness::Live { debt },
        }
    }

    fn no_slot(&self, word: u64, now: Tick, _: Duration) -> Denied {
        self.denied(self.counted(word, self.floor(now)), now, 1)
    }

    fn grid(&self) -> &Grid {
        &self.holds.grid
    }

    fn skew_tolerance(&self) -> Option<Duration> {
        if self.holds.expire { self.holds.grid.skew_tolerance() } else { None }
    }

    fn horizon(&self) -> Option<Duration> {
        if self.holds.expire { self.holds.grid.horizon() } else { None }
    }

    fn oracle(&self) -> Entries {
        let period = self.holds.expire.then(|| self.holds.grid.ratio().1);
        Entries::new(self.limit, period)
    }
}

impl Refund for InFlight<'_> {
    /// Does not depend on the time: cells that have expired are known by their period.
    #[inline(always)]
    fn refund(&self, word: u64, receipt: &Receipt, _: Tick, n: u64) -> u64 {
        if !self.holds.expire {
            let (count, stamp) = (COUNT.of(word), STAMP.of(word));
            let is_same_life = stamp == STAMP.of(receipt.next);
            return if is_same_life { COUNT.set(word, count.saturating_sub(n)) } else { word };
        }
        let passed = PERIOD.of(word).wrapping_sub(PERIOD.of(receipt.next)) & PERIOD.max();
        match passed {
            0 => RECENT.set(word, RECENT.of(word).saturating_sub(n)),
            1 => OLDER.set(word, OLDER.of(word).saturating_sub(n)),
            _ => word,
        }
    }

    fn add(&self, word: u64, _: Tick, _: u64) -> u64 {
        word
    }

    fn overdrawn(&self) -> Self {
        Self { limit: self.holds.limit_max(), ..*self }
    }

    fn turn(&self, _: u64, _: Tick) -> Duration {
        Duration::ZERO
    }
}
