//! The exact sliding window log: when the latest events happened, in a ring.
//!
//! # Word and ring
//!
//! ```text
//! word    bits 52..p+2 time of the latest event, its low bits | p+1..p lap | p-1..0 filled
//! ring    bit 53 set | bit 52 whether its round is odd | bits 51..0 time of an older event, by its place
//! birth   when this life of the ring began, as a word of the ring
//! note    cells that the first rate counted at the latest decision
//! ```
//!
//! The events fill the `L` places of the ring in order, round by round. `L` is the largest limit, so
//! the `L` latest events are stored, and no rate needs more. *Filled* is the number of places
//! that events of this round have; it is 0 only before the first event. *Lap* is 1 in the first
//! round, 2 in the second, then 3 and 0 in turn. Its parity shows whether a place holds an event of
//! this round or of the one before. A lap of 3 or 0 means that the current key has written every
//! place.
//!
//! Only the latest event's time is in the word. Before the word advances, a thread writes that time
//! to the place of every event that has it: one, or the `n` of a charge of `n` cells. Those places
//! still hold events of the round before, and so a thread finds them: a place that should hold an event
//! of this round, and does not, belongs to the latest charge, and its time is the word's. The oldest
//! is written first, since two threads may write at once. A thread that finds one of the places
//! written then finds all older ones written too.
//!
//! # Step
//!
//! A rate of `limit` in a window admits `n` cells iff the event `limit - n` before the latest has
//! left the window, or does not exist: one read, at any limit. An event leaves exactly one window
//! after it happened (`now - event >= window`). Several rates read several events of one log. A
//! minimum gap is the rate 1 in a window of that length.
//!
//! A brief decision by one rate reads that event, and no other if it denies. An admission also
//! reads the event before the latest, which is its neighbour, and in the first two rounds of a key
//! the birth.
//!
//! The number of events in a window (for `remaining`) is searched from the last known number: the
//! note.
//!
//! # Units
//!
//! A unit is an exact fraction of the windows' greatest common divisor. It is 5 microseconds, or longer if
//! the word's time would not span a year otherwise, as long as the shortest window has 10,000 units. In
//! every case it is long enough that the word can tell 1,024 of the longest windows apart. An event
//! counts as the end of its unit, `now` as the beginning of its unit. So no event leaves early, and none
//! is late by a unit or more. Times in cells have 52 bits, which outlast every tick at 5 microseconds.
//! They count from one longest window before the clock's origin, so that an event that counts at
//! the origin (of a restored log) has a time too.
//!
//! Source: the log of A. Xu, System Design Interview, ch. 4, and ClassDojo's rolling-rate-limiter
//! (minimum gap, denials counted), without their sorted sets.

mod events;
mod one_rate;
mod rates;
mod rebase;

pub use rates::SlidingLog;

use core::num::NonZeroU64;
use core::time::Duration;

use super::grid::{Back, Grid};
#[cfg(feature = "std")]
use super::oracle::EventLog;
use super::{Liveness, Ring, StateMachine, Step, sealed::Sealed};
use crate::decision::{DecisionParts, Denied, Measurements, NEVER, Permit, Scale};
use crate::time::Tick;
use crate::word::Field;
use events::{Entry, View};

/// The most rates, the quota's own included.
const RATES_MAX: usize = 4;

const LAP_BITS: u32 = 2;
const TIME: Field = Field::new(0, 52);
const ROUND: Field = TIME.above(LAP_BITS);

const FIRST: u64 = 1;
const SECOND: u64 = 2;

/// At most `limit` events in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    limit: u64,
    /// In nanoseconds at first, and in units once the grid is chosen.
    window: u64,
    /// The window, once the grid is chosen.
    back: Back,
}

/// The parameters of [`SlidingLog`] for a quota.
///
/// ```
/// use tollgate::algorithm::Algorithm;
/// use tollgate::internals::StateMachine;
/// use tollgate::{Quota, SlidingLog};
///
/// let params = SlidingLog::new().params(&Quota::per_minute(10), 0)?;
/// assert_eq!(params.ring_cells(), 12);
/// assert_eq!(params.grid().ratio(), (1, 5_000)); // a unit is 5 microseconds
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLogParams {
    grid: Grid,
    rates: [Rate; RATES_MAX],
    rate_count: usize,
    count_denials: bool,
    /// Whether there is one rate, and denials do not count.
    is_plain: bool,
    /// The largest limit: places in the ring.
    places: u64,
    limit_min: u64,
    window_max: u64,
    filled: Field,
    lap: Field,
    /// Both of them.
    round: Field,
    time: Field,
    /// Units up to which the word's time counts as ahead of a clock; beyond that it is behind.
    ahead_max: u64,
    /// Units up to which it counts as behind.
    behind_max: u64,
}

/// The data of a decision.
#[derive(Clone, Copy, Debug)]
pub struct SlidingLogView {
    step: Step,
    lap: u64,
    /// The round, as in a cell.
    round: u64,
    filled: u64,
    /// Events that are stored.
    known: u64,
    /// When the latest event happened, in units.
    last: u64,
    floor: u64,
    /// When the current key's life of the ring began, if that matters.
    birth: u64,
    remaining: u64,
    until_idle: u64,
    until_admitted: u64,
    /// The cells that the first rate counts now.
    noted: u64,
}

impl SlidingLogParams {
    fn rates(&self) -> &[Rate] {
        &self.rates[..self.rate_count]
    }

    /// The unit that has begun at or before `now`.
    #[inline(always)]
    fn floor(&self, now: Tick) -> u64 {
        self.grid.floor(now).wrapping_add(self.window_max)
    }

    /// How spans counted from `now`, whose [`floor`](Self::floor) is `floor`, become nanoseconds.
    #[inline(always)]
    fn scale(&self, now: Tick, floor: u64) -> Scale {
        self.grid.scale(now, floor.wrapping_sub(self.window_max))
    }

    /// The word after `n` more events (at most as many as there are places) at `time`.
    #[inline(always)]
    fn enter<R: Ring>(&self, view: &View<R>, n: u64, time: u64) -> u64 {
        let filled = view.filled + n;
        if filled <= self.places {
            // Nothing is carried over into the lap.
            let round = self.round.lowest_of(view.word) + n;
            return self.time.fill(round, time & self.time.max());
        }
        let lap = match view.lap {
            FIRST => SECOND,
            3 => 0,
            _ => 3,
        };
        self.time.set(0, time) | self.lap.set(0, lap) | self.filled.set(0, filled - self.places)
    }

    /// The word of a log without an event. Its time counts for nothing.
    #[inline]
    fn unused(&self, time: u64) -> u64 {
        self.time.set(self.lap.set(0, FIRST), time)
    }

    /// Whether the word knows of no event.
    #[inline]
    fn is_unused(&self, word: u64) -> bool {
        self.round.lowest_of(word) == self.unused(0)
    }

    /// Units for which the word's event counts after it happened: 0 if there was none.
    #[inline]
    fn counts_for(&self, word: u64) -> u64 {
        if self.is_unused(word) { 0 } else { self.window_max }
    }

    /// Until the latest event has left every window.
    fn until_idle<R: Ring>(&self, view: &View<R>) -> u64 {
        match view.known {
            0 => 0,
            _ => self.until_left(view.last, view.floor, self.window_max),
        }
    }

    /// The view of a request that enters no event.
    #[inline(always)]
    fn left_as_is<R: Ring>(
        &self,
        view: &View<R>,
        step: Step,
        until_admitted: u64,
        remaining: u64,
    ) -> SlidingLogView {
        SlidingLogView {
            step,
            lap: view.lap,
            round: view.round,
            filled: view.filled,
            known: view.known,
            last: view.last,
            floor: view.floor,
            birth: view.birth,
            remaining,
            until_idle: self.until_idle(view),
            until_admitted,
            noted: 0,
        }
    }

    /// The time of cells that are charged now, and its distance ahead of now: time in a log never
    /// moves back, and an event counts as the end of its unit.
    #[inline(always)]
    fn entered_at<R: Ring>(&self, view: &View<R>, now: Tick) -> (u64, u64) {
        let ahead = view.ahead.max(u64::from(!self.grid.begins_unit(now)));
        (view.floor.wrapping_add(ahead), ahead)
    }

    /// Evaluates a request. `detailed` asks for what a permit or a denial reports as well.
    #[inline(always)]
    fn evaluate<R: Ring>(
        &self,
        word: u64,
        ring: R,
        now: Tick,
        n: u64,
        detailed: bool,
    ) -> SlidingLogView {
        let remaining_now = |view| if detailed { self.remaining_now(view) } else { 0 };
        let view = self.view(word, ring, now);
        if n == 0 {
            return self.left_as_is(&view, Step::Admit { next: word }, 0, remaining_now(view));
        }
        if n > self.limit_min {
            return self.left_as_is(&view, Step::Deny, NEVER, remaining_now(view));
        }
        let wait = self.until_admitted(&view, n, None);
        let (time, ahead) = self.entered_at(&view, now);
        // If all places hold that time, one more event changes nothing.
        let full = || {
            let oldest = self.places - 1;
            oldest < view.known && TIME.of(self.event(&view, oldest)) == TIME.of(time)
        };
        if wait > 0 && (!self.count_denials || full()) {
            // If one cell does not fit, none are left.
            let remaining = if n == 1 { 0 } else { remaining_now(view) };
            return self.left_as_is(&view, Step::Deny, wait, remaining);
        }
        let next = self.enter(&view, n, time);
        // An admission leaves room for its own cells.
        let spare = if wait == 0 { n } else { 0 };
        let (remaining, noted) =
            if detailed { self.remaining(&view, n, spare) } else { (0, view.ring.note()) };
        let (step, until_admitted) = match wait {
            0 => (Step::Admit { next }, 0),
            _ if detailed => {
                (Step::DenyCounted { next }, self.until_admitted(&view, n, Some(time)))
            }
            _ => (Step::DenyCounted { next }, wait),
        };
        SlidingLogView {
            step,
            lap: view.lap,
            round: view.round,
            filled: view.filled,
            known: view.known,
            last: view.last,
            floor: view.floor,
            birth: view.birth,
            remaining,
            until_idle: ahead.saturating_add(self.window_max),
            until_admitted,
            noted,
        }
    }
}

/// The content of a cell for an event of the round `lap`.
#[inline(always)]
const fn cell(time: u64, lap: u64) -> u64 {
    TIME.of(time) | round_in_cell(lap)
}

/// Whether a life in this lap may not have written every cell yet: before its third round.
#[inline(always)]
const fn has_unwritten(lap: u64) -> bool {
    matches!(lap, FIRST | SECOND)
}

/// How a cell encodes its round, by its lap.
///
/// Looked up, since the compiler would work the round out anew for each event that is read.
const ROUNDS: [u64; 4] = [ROUND.set(0, 2), ROUND.set(0, 3), ROUND.set(0, 2), ROUND.set(0, 3)];

#[inline(always)]
const fn round_in_cell(lap: u64) -> u64 {
    ROUNDS[(lap & 3) as usize]
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "at most 65,536")]
fn cell_at(place: u64) -> usize {
    place as usize
}

impl Sealed for SlidingLogParams {}

impl StateMachine for SlidingLogParams {
    #[cfg(feature = "std")]
    type Oracle = EventLog;
    type View = SlidingLogView;
    const RINGED: bool = true;
    const OWED_BY_RING: bool = true;

    fn ring_cells(&self) -> usize {
        cell_at(self.places) + 2
    }

    fn has_note(&self) -> bool {
        true
    }

    #[inline]
    fn fresh(&self, now: Tick) -> u64 {
        self.unused(self.floor(now))
    }

    fn remembers_denials(&self) -> bool {
        self.count_denials
    }

    #[inline(always)]
    fn read<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> SlidingLogView {
        self.evaluate(word, ring, now, n, true)
    }

    #[inline(always)]
    fn read_brief<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> SlidingLogView {
        self.evaluate(word, ring, now, n, false)
    }

    /// Where there is one rate, and denials do not count.
    #[inline(always)]
    fn read_at_once<R: Ring>(
        &self,
        word: u64,
        ring: impl FnOnce() -> R,
        now: Tick,
        n: u64,
        brief: bool,
    ) -> Option<SlidingLogView> {
        if !self.is_plain || n == 0 || n > self.limit_min {
            return None;
        }
        let view = self.view_unborn(word, ring(), now);
        if brief {
            Some(self.evaluate_briefly(view, now, n))
        } else {
            self.evaluate_one_rate(view, now, n)
        }
    }

    #[inline(always)]
    fn step(&self, view: SlidingLogView, _: Tick, _: u64) -> Step {
        view.step
    }

    #[inline(always)]
    fn publish<R: Ring>(
        &self,
        view: SlidingLogView,
        ring: R,
        mut write: impl FnMut(usize, u64) -> bool,
    ) -> bool {
        let SlidingLogView { lap, round, filled, known, last, floor, birth, .. } = view;
        let view = View { ring, word: 0, lap, round, filled, known, last, floor, ahead: 0, birth };
        if known > 1 {
            if matches!(self.entry(&view, 1), Entry::Latest) {
                return self.publish_all(view, write);
            }
        } else if known == 0 {
            return write(cell_at(self.places), cell(last, FIRST));
        }
        let (place, lap) = self.position(&view, 0);
        write(cell_at(place), cell(last, lap))
    }

    #[inline(always)]
    fn note(&self, view: SlidingLogView, n: u64) -> u64 {
        view.noted + n
    }

    #[inline(always)]
    fn permit(&self, view: SlidingLogView, now: Tick, _: u64) -> Permit {
        Permit::new(self.measured(&view, now))
    }

    #[inline(always)]
    fn denied(&self, view: SlidingLogView, now: Tick, _: u64) -> Denied {
        Denied::new(self.measured(&view, now), view.until_admitted)
    }

    #[inline]
    fn instant(&self, now: Tick) -> u64 {
        self.floor(now)
    }

    #[inline]
    fn liveness(&self, word: u64, instant: u64) -> Liveness {
        let (last, _) = self.last(word, instant);
        let window = self.counts_for(word);
        match self.until_left(last, instant, window) {
            0 => Liveness::Idle { units: self.grid.behind(last, instant) - window },
            _ if window == 0 => Liveness::Idle { units: 0 },
            left => Liveness::Live { debt: left },
        }
    }

    /// The events that still count in the longest window, times the units until the latest has
    /// left: about what a token bucket would owe.
    fn owed<R: Ring>(&self, word: u64, ring: R, instant: u64) -> u64 {
        match self.liveness(word, instant) {
            Liveness::Idle { .. } => 0,
            Liveness::Live { debt } => debt.saturating_mul(self.count_live(word, ring, instant)),
        }
    }

    fn no_slot(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        let wait =
            self.grid.wait_behind(skew, now, |then| (then, self.idle_in(word, self.instant(then))));
        DecisionParts { limit: self.limit_min, remaining: 0, reset_after: wait }.denied(Some(wait))
    }

    fn grid(&self) -> &Grid {
        &self.grid
    }

    fn skew_tolerance(&self) -> Option<Duration> {
        // An event may be ahead by a unit to begin with.
        let own = self.grid.span(self.ahead_max - 1);
        Some(self.grid.skew_tolerance().map_or(own, |tolerance| tolerance.min(own)))
    }

    fn horizon(&self) -> Option<Duration> {
        let own = self.grid.span(self.time.max() - self.ahead_max - 1);
        Some(self.grid.horizon().map_or(own, |horizon| horizon.min(own)))
    }

    #[cfg(feature = "std")]
    fn oracle(&self) -> EventLog {
        let rates = self.rates().iter().map(|rate| (rate.limit, rate.window)).collect();
        EventLog::new(self.grid.ratio(), rates, self.count_denials)
    }
}

impl SlidingLogParams {
    /// Publishes the events of a charge of several cells.
    #[cold]
    #[inline(never)]
    fn publish_all<R: Ring>(
        &self,
        view: View<R>,
        mut write: impl FnMut(usize, u64) -> bool,
    ) -> bool {
        let known = view.known;
        let is_latest = |back| matches!(self.entry(&view, back), Entry::Latest);
        let mut count = 1;
        while count < known && is_latest(count) {
            count += 1;
        }
        // The oldest first: a place that holds its event then implies that all older events are in their places.
        (0..count)
            .rev()
            .map(|back| self.position(&view, back))
            .all(|(place, lap)| write(cell_at(place), cell(view.last, lap)))
    }

    #[inline(always)]
    fn measured(&self, view: &SlidingLogView, now: Tick) -> Measurements {
        Measurements {
            limit: self.limit_min,
            room: view.remaining,
            cell: NonZeroU64::MIN,
            until_idle: view.until_idle,
            scale: self.scale(now, view.floor),
        }
    }
}

#[cfg(test)]
mod tests;
