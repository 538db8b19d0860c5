//! The exact sliding window log: when the latest events happened, in a ring.
//!
//! # Word and ring
//!
//! ```text
//! word    bits 52..p+2 time of the latest event, its low bits | p+1..p lap | p-1..0 place
//! cells   bits 53..52 lap | bits 51..0 time of an older event, by its place
//! birth   when this life of the ring began
//! note    cells that the first rate counted last
//! ```
//!
//! The events follow one another through the `L` places round by round, `L` being the largest
//! limit: so the `L` latest are at hand, and no rate asks for more. *Lap* is 0 before the first
//! event, 1 in the first round, then 2 and 3 in turn. It tells whether a place holds the event of
//! this round or still that of the one before.
//!
//! Only the latest event's time is in the word. Before the word moves on, that time is put in the
//! place of every event that has it: one, or the `n` of a charge of `n` cells, which are found by
//! their places still holding the round before. So a place that should hold an event and does
//! not holds one of the latest charge, and its time is the word's. They are put the oldest first,
//! for two threads may do it at once: whoever finds one in its place finds all before it there.
//!
//! # Step
//!
//! A rate of `limit` in a window admits `n` cells iff the event `limit - n` before the latest has
//! left the window, or never was: one look, at any limit. An event leaves exactly one window
//! after it happened (`now - event >= window`). Several rates look at several events of one log,
//! and a minimum gap is the rate 1 in a window of that length.
//!
//! How many events are in a window (for `remaining`) is searched from where it was last: the note.
//!
//! # Units
//!
//! An exact fraction of the windows' greatest common divisor: 5 microseconds, or what it takes for
//! the word's time to span a year, but at least 10,000 of them in the shortest window; and in
//! every case so coarse that the word tells 1,024 of the longest windows apart. An event counts
//! as the end of its unit, `now` as the beginning of its: so no event leaves early, and late by
//! less than a unit. Times in cells have 52 bits, which outlast every tick at 5 microseconds.
//!
//! Source: the log of A. Xu, System Design Interview, ch. 4, and ClassDojo's rolling-rate-limiter
//! (minimum gap, refusals counted), without their sorted sets.

use core::num::NonZeroU64;
use core::time::Duration;

use super::grid::{Grid, gcd};
#[cfg(feature = "std")]
use super::oracle::EventLog;
use super::{Algorithm, Machine, PAYLOAD_BITS, Ring, Standing, Step, sealed::Sealed};
use crate::decision::{Denied, NEVER, Permit, Reading};
use crate::quota::{Quota, QuotaError};
use crate::time::Tick;
use crate::word::Field;

/// The largest limit.
const LIMIT_MAX: u64 = 1 << 16;
/// The most rates, the quota's own included.
const RATES_MAX: usize = 4;
/// The finest unit that is wanted: 52 bits of it outlast every tick.
const UNIT_NANOS: u128 = 5_000;
/// What the word's time should span.
const YEAR_NANOS: u128 = 365 * 24 * 3_600 * 1_000_000_000;
const HOUR: Duration = Duration::from_secs(3_600);
/// Units in the shortest window: wanted, and at least.
const UNITS_IN_WINDOW: u128 = 10_000;
const UNITS_IN_WINDOW_MIN: u128 = 1_000;
/// Longest windows that the word's time tells apart.
const WINDOWS_APART: u128 = 1_024;

const LAP_BITS: u32 = 2;
const TIME: Field = Field::new(0, 52);
const LAP: Field = TIME.above(LAP_BITS);

/// Every event of the window, exactly: at most `limit` cells in any span of one period.
///
/// **Guarantee.** No span of one period sees more than `limit` cells, wherever it begins, under
/// any interleaving of threads; nor does a span of any further rate's period see more than that
/// rate's limit. A decision looks at one event for each rate, whatever the limit.
///
/// **Not guaranteed.** An event leaves its window exactly one period after it happened where it
/// fell on the beginning of a unit of the [`Grid`] (5 microseconds in ordinary cases, never more
/// than a thousandth of the shortest window), else less than a unit later. See
/// [`Limiter`](crate::Limiter) for what happens to a key that loses its place, and
/// [`horizon`](Machine::horizon) for one that keeps it unused for months. The quota's burst is not
/// used.
///
/// It takes a ring of 8 bytes for each cell of the largest limit, and 16 more, for each key: at
/// most 65,536 cells, so half a megabyte.
///
/// ```
/// use std::time::Duration;
/// use tollgate::{Direct, Quota, SlidingLog, Tick};
///
/// // 10 a minute, and no more than 2 in 3 seconds.
/// let log = SlidingLog::new().and(Quota::new(2, Duration::from_secs(3)));
/// let gate = Direct::builder(Quota::per_minute(10)).algorithm(log).build()?;
/// let at = |millis| Tick::from_duration(Duration::from_millis(millis));
/// assert!(gate.check_at(1, at(0)).is_ok());
/// assert_eq!(gate.check_at(1, at(500))?.remaining(), 0);
/// let denied = gate.check_at(1, at(1_000)).unwrap_err();
/// assert_eq!(denied.retry_after(), Some(Duration::from_millis(2_000)));
/// assert_eq!(gate.check_at(1, at(3_000))?.remaining(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlidingLog {
    more: [Option<Quota>; RATES_MAX - 1],
    too_many: bool,
    count_refusals: bool,
}

impl SlidingLog {
    /// One rate, the quota's; refused requests are ignored.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, SlidingLog};
    /// let gate = Direct::builder(Quota::per_minute(10)).algorithm(SlidingLog::new()).build()?;
    /// assert!(gate.check_n(10).is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn new() -> Self {
        Self { more: [None; RATES_MAX - 1], too_many: false, count_refusals: false }
    }

    /// Holds every key to a further rate as well; up to three. What one of them refuses counts
    /// in none.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, Quota, SlidingLog};
    /// let log = SlidingLog::new().and(Quota::per_second(2)).and(Quota::per_hour(500));
    /// let gate = Direct::builder(Quota::per_minute(60)).algorithm(log).build()?;
    /// assert_eq!(gate.check().unwrap().remaining(), 1);
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn and(mut self, rate: Quota) -> Self {
        let mut index = 0;
        while index < self.more.len() {
            if self.more[index].is_none() {
                self.more[index] = Some(rate);
                return self;
            }
            index += 1;
        }
        self.too_many = true;
        self
    }

    /// Keeps events at least this far apart: a rate of one in a window of that length.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use tollgate::{Direct, Quota, SlidingLog, Tick};
    /// let log = SlidingLog::new().min_gap(Duration::from_millis(2));
    /// let gate = Direct::builder(Quota::per_second(4)).algorithm(log).build()?;
    /// assert!(gate.check_at(1, Tick::ZERO).is_ok());
    /// assert!(gate.check_at(1, Tick::from_nanos(1_999_999)).is_err());
    /// assert!(gate.check_at(1, Tick::from_nanos(2_000_000)).is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn min_gap(self, gap: Duration) -> Self {
        self.and(Quota::new(1, gap))
    }

    /// Lets refused requests count like admitted ones, so that who keeps asking keeps waiting.
    /// (A request for more cells than can ever fit still counts for nothing.)
    ///
    /// ```
    /// # use tollgate::{Direct, Quota, SlidingLog, Tick};
    /// let log = SlidingLog::new().count_refusals();
    /// let gate = Direct::builder(Quota::per_second(1)).algorithm(log).build()?;
    /// let at = |millis: u64| Tick::from_nanos(millis * 1_000_000);
    /// assert!(gate.check_at(1, at(0)).is_ok());
    /// assert!(gate.check_at(1, at(900)).is_err());
    /// assert!(gate.check_at(1, at(1_800)).is_err());
    /// assert!(gate.check_at(1, at(2_800)).is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    #[must_use]
    pub const fn count_refusals(self) -> Self {
        Self { count_refusals: true, ..self }
    }
}

impl Default for SlidingLog {
    fn default() -> Self {
        Self::new()
    }
}

impl Sealed for SlidingLog {}

impl Algorithm for SlidingLog {
    type Params = SlidingLogParams;

    fn params(&self, quota: &Quota, _unix_origin_nanos: u64) -> Result<Self::Params, QuotaError> {
        if self.too_many {
            return Err(QuotaError::TooManyRates);
        }
        let mut rates = [Rate { limit: 0, window: 0 }; RATES_MAX];
        let mut count = 0;
        for quota in [Some(*quota)].iter().chain(&self.more).flatten() {
            quota.validate()?;
            if quota.limit() > LIMIT_MAX {
                return Err(QuotaError::LogLimitTooLarge);
            }
            rates[count] = Rate { limit: quota.limit(), window: quota.period_nanos() };
            count += 1;
        }
        SlidingLogParams::new(rates, count, self.count_refusals)
    }
}

/// At most `limit` events in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    limit: u64,
    /// In units, once the grid is chosen.
    window: u64,
}

/// [`SlidingLog`] with a quota worked in.
///
/// ```
/// use tollgate::algo::{Algorithm, Machine};
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
    count_refusals: bool,
    /// The largest limit: places in the ring.
    places: u64,
    limit_min: u64,
    window_max: u64,
    place: Field,
    lap: Field,
    time: Field,
    /// Units up to which the word's time is ahead of a clock; beyond, it is behind.
    ahead_max: u64,
}

/// What a decision is judged by.
#[derive(Clone, Copy, Debug)]
pub struct SlidingLogSeen {
    step: Step,
    lap: u64,
    place: u64,
    /// When the latest event happened, in units.
    last: u64,
    floor: u64,
    remaining: u64,
    until_idle: u64,
    until_admitted: u64,
    /// What the first rate counts now.
    noted: u64,
}

/// A log, read from a word and its ring.
#[derive(Clone, Copy)]
struct View<R> {
    ring: R,
    lap: u64,
    place: u64,
    last: u64,
    floor: u64,
    /// Units from `floor` to the latest event, if it is later: by a clock ahead of ours, or by
    /// less than a unit.
    ahead: u64,
    /// When this life of the ring began, where that matters.
    birth: u64,
}

/// What the ring says of an event.
enum Entry {
    /// It is of the latest charge.
    Latest,
    Older {
        time: u64,
    },
}

impl SlidingLogParams {
    /// `rates` have their windows in nanoseconds.
    fn new(
        mut rates: [Rate; RATES_MAX],
        rate_count: usize,
        count_refusals: bool,
    ) -> Result<Self, QuotaError> {
        let given = &mut rates[..rate_count];
        let fold = |pick: fn(&Rate) -> u64, choose: fn(u64, u64) -> u64| {
            given.iter().map(pick).reduce(choose).expect("the quota is a rate")
        };
        let places = fold(|rate| rate.limit, u64::max);
        let limit_min = fold(|rate| rate.limit, u64::min);
        let shortest = fold(|rate| rate.window, u64::min);
        let longest = fold(|rate| rate.window, u64::max);
        let common = fold(|rate| rate.window, gcd);

        let place = Field::new(0, (u64::BITS - (places - 1).leading_zeros()).max(1));
        let lap = place.above(LAP_BITS);
        let time = lap.above(PAYLOAD_BITS - LAP_BITS - place.bits());
        let units = units_in(common, shortest, longest, time)?;
        for rate in given {
            // The windows are multiples of what the units divide.
            rate.window = rate.window / common * units;
        }
        let window_max = longest / common * units;
        let grid = Grid::new(units, common, TIME.max(), window_max);
        Ok(Self {
            ahead_max: (time.max() / 8_192).min(grid.units_in(HOUR)).max(2),
            grid,
            rates,
            rate_count,
            count_refusals,
            places,
            limit_min,
            window_max,
            place,
            lap,
            time,
        })
    }

    fn rates(&self) -> &[Rate] {
        &self.rates[..self.rate_count]
    }

    #[inline(always)]
    fn view<R: Ring>(&self, word: u64, ring: R, now: Tick) -> View<R> {
        let floor = self.grid.floor(now);
        let (last, ahead) = self.last(word, floor);
        // Any word makes sense, also one with a place that does not exist.
        let (lap, place) = (self.lap.of(word), self.place.of(word).min(self.places - 1));
        let birth = self.birth(lap, ring);
        View { ring, lap, place, last, floor, ahead, birth }
    }

    /// When a life of the ring began; read once for all cells that are compared with it.
    #[inline(always)]
    fn birth<R: Ring>(&self, lap: u64, ring: R) -> u64 {
        // After two rounds all cells have been written in this life.
        if lap == 0 || lap == 3 { 0 } else { TIME.of(ring.cell(cell_at(self.places))) }
    }

    /// When the word's event happened, and how far ahead of `floor` that is.
    #[inline(always)]
    fn last(&self, word: u64, floor: u64) -> (u64, u64) {
        let distance = self.time.of(word).wrapping_sub(floor) & self.time.max();
        let behind = self.time.max() - distance + 1;
        // Nothing happened before the origin. (But what the grid does not see ahead would count for
        // nothing, however often it was charged.)
        let origin_tells = || behind > floor && distance <= self.grid.tolerance_units();
        if distance <= self.ahead_max || origin_tells() {
            (floor.wrapping_add(distance), distance)
        } else {
            (floor.saturating_sub(behind), 0)
        }
    }

    /// Units until an event has left a window; 0 if it has.
    #[inline(always)]
    fn until_left(&self, event: u64, floor: u64, window: u64) -> u64 {
        match self.grid.ahead(event, floor) {
            0 => window.saturating_sub(self.grid.behind(event, floor)),
            ahead => window.saturating_add(ahead),
        }
    }

    /// How many of the latest events are known.
    #[inline(always)]
    fn known<R: Ring>(&self, view: &View<R>) -> u64 {
        match view.lap {
            0 => 0,
            1 => view.place + 1,
            _ => self.places,
        }
    }

    /// Where the event `back` (below the number of known ones) before the latest is, or would be:
    /// its place and lap.
    #[inline(always)]
    fn position<R: Ring>(&self, view: &View<R>, back: u64) -> (u64, u64) {
        match view.place.checked_sub(back) {
            Some(place) => (place, view.lap),
            // The round before 2 was 3, or the first.
            None => ((view.place + self.places).wrapping_sub(back), view.lap ^ 1),
        }
    }

    /// The event `back` (below the number of known ones) before the latest.
    #[inline(always)]
    fn entry<R: Ring>(&self, view: &View<R>, back: u64) -> Entry {
        if back == 0 {
            return Entry::Latest;
        }
        let (place, lap) = self.position(view, back);
        let content = view.ring.cell(cell_at(place));
        let found = LAP.of(content);
        let first_round = found == 1 && lap == 3 && view.lap == 2;
        if (found != lap && !first_round) || self.before_birth(view, content) {
            return Entry::Latest;
        }
        Entry::Older { time: TIME.of(content) }
    }

    /// Whether a cell was written before this life of the ring, 1,024 lives ago.
    #[inline(always)]
    fn before_birth<R: Ring>(&self, view: &View<R>, content: u64) -> bool {
        let older = view.birth.wrapping_sub(TIME.of(content)) & TIME.max();
        view.lap != 3 && older > 0 && older <= TIME.max() / 2
    }

    /// When the event `back` (below the number of known ones) before the latest happened.
    #[inline(always)]
    fn event<R: Ring>(&self, view: &View<R>, back: u64) -> u64 {
        match self.entry(view, back) {
            Entry::Latest => view.last,
            Entry::Older { time } => time,
        }
    }

    /// Units until `n` cells (at most the least limit, and not 0) are within every rate.
    ///
    /// With `again`, as if the same request had just been entered at that time.
    #[inline(always)]
    fn until_admitted<R: Ring>(&self, view: &View<R>, n: u64, again: Option<u64>) -> u64 {
        let wait = self.until_within(view, &self.rates[0], n, again);
        if self.rate_count == 1 { wait } else { wait.max(self.until_others(*view, n, again)) }
    }

    /// The same, of the further rates.
    #[inline(never)]
    fn until_others<R: Ring>(&self, view: View<R>, n: u64, again: Option<u64>) -> u64 {
        let until = |rate| self.until_within(&view, rate, n, again);
        self.rates()[1..].iter().map(until).max().unwrap_or(0)
    }

    #[inline(always)]
    fn until_within<R: Ring>(
        &self,
        view: &View<R>,
        rate: &Rate,
        n: u64,
        again: Option<u64>,
    ) -> u64 {
        let mut back = rate.limit - n;
        if let Some(time) = again {
            if back < n {
                return self.until_left(time, view.floor, rate.window);
            }
            back -= n;
        }
        if back >= self.known(view) {
            return 0;
        }
        self.until_left(self.event(view, back), view.floor, rate.window)
    }

    /// How many of the latest events are in a rate's window, at most `most`.
    #[inline(always)]
    fn count_inside<R: Ring>(&self, view: &View<R>, rate: &Rate, most: u64, guess: u64) -> u64 {
        let inside = |event| self.grid.within(event, view.floor, rate.window);
        let most = most.min(self.known(view));
        if most == 0 || !inside(view.last) {
            return 0;
        }
        // Most often one event has left for the one that came.
        let guess = guess.clamp(1, most);
        if inside(self.event(view, guess - 1)) {
            if guess == most || !inside(self.event(view, guess)) {
                return guess;
            }
            return self.search_inside(*view, rate, [guess + 1, most + 1], guess + 3);
        }
        if inside(self.event(view, guess - 2)) {
            return guess - 1;
        }
        self.search_inside(*view, rate, [1, guess - 1], guess.saturating_sub(3))
    }

    /// The same: `low` are inside, `high` are not, and about `count` may be.
    #[inline(never)]
    fn search_inside<R: Ring>(
        &self,
        view: View<R>,
        rate: &Rate,
        [mut low, mut high]: [u64; 2],
        mut count: u64,
    ) -> u64 {
        // In ever longer strides, and by halves once both sides are known.
        let mut stride = 4;
        while high - low > 1 {
            if count <= low || count >= high {
                count = low + (high - low) / 2;
            }
            if self.grid.within(self.event(&view, count - 1), view.floor, rate.window) {
                low = count;
                count += stride;
            } else {
                high = count;
                count = count.saturating_sub(stride);
            }
            stride *= 2;
        }
        low
    }

    /// What is left of every rate after `n` more events, and what the first counts before them:
    /// each at most its limit less `spare`.
    #[inline(always)]
    fn remaining<R: Ring>(&self, view: &View<R>, n: u64, spare: u64) -> (u64, u64) {
        let rate = &self.rates[0];
        let first = self.count_inside(view, rate, rate.limit - spare, view.ring.note());
        let left = rate.limit.saturating_sub(first.saturating_add(n));
        if self.rate_count == 1 {
            return (left, first);
        }
        (left.min(self.remaining_of_others(*view, n, spare)), first)
    }

    /// What is left of the further rates.
    #[inline(never)]
    fn remaining_of_others<R: Ring>(&self, view: View<R>, n: u64, spare: u64) -> u64 {
        let left = |rate: &Rate| {
            let inside = self.count_inside(&view, rate, rate.limit - spare, 0);
            rate.limit.saturating_sub(inside.saturating_add(n))
        };
        self.rates()[1..].iter().map(left).min().unwrap_or(u64::MAX)
    }

    /// What is left of every rate as it is: seldom asked, so apart from the straight line.
    #[cold]
    #[inline(never)]
    fn remaining_now<R: Ring>(&self, view: View<R>) -> u64 {
        self.remaining(&view, 0, 0).0
    }

    /// The word after `n` more events (at most as many as there are places) at `time`.
    #[inline(always)]
    fn enter<R: Ring>(&self, view: &View<R>, n: u64, time: u64) -> u64 {
        let (place, lap) = match (view.lap, view.place + n) {
            (0, _) => (n - 1, 1),
            (lap, place) if place < self.places => (place, lap),
            (1, place) => (place - self.places, 2),
            (lap, place) => (place - self.places, lap ^ 1),
        };
        self.time.set(0, time) | self.lap.set(0, lap) | self.place.set(0, place)
    }

    /// Until the latest event has left every window.
    fn until_idle<R: Ring>(&self, view: &View<R>) -> u64 {
        match view.lap {
            0 => 0,
            _ => self.until_left(view.last, view.floor, self.window_max),
        }
    }

    /// What is seen where nothing is entered.
    #[inline(always)]
    fn left_as_is<R: Ring>(
        &self,
        view: &View<R>,
        step: Step,
        until_admitted: u64,
        remaining: u64,
    ) -> SlidingLogSeen {
        SlidingLogSeen {
            step,
            lap: view.lap,
            place: view.place,
            last: view.last,
            floor: view.floor,
            remaining,
            until_idle: self.until_idle(view),
            until_admitted,
            noted: 0,
        }
    }
}

/// Units in the windows' greatest common divisor, chosen as the module says.
fn units_in(common: u64, shortest: u64, longest: u64, time: Field) -> Result<u64, QuotaError> {
    let spans = |nanos: u128| nanos.div_ceil(u128::from(time.max()) + 1);
    let fine_enough = (u128::from(shortest) / UNITS_IN_WINDOW_MIN).max(1);
    let wanted = UNIT_NANOS
        .max(spans(YEAR_NANOS))
        .min(u128::from(shortest) / UNITS_IN_WINDOW)
        .max(spans(u128::from(longest) * WINDOWS_APART))
        .max(1);
    let units = u128::from(common) / wanted;
    if units == 0 || u128::from(common) / units > fine_enough {
        return Err(QuotaError::LogWindowsTooFarApart);
    }
    Ok(u64::try_from(units).expect("at most the divisor"))
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "at most 65,536")]
fn cell_at(place: u64) -> usize {
    place as usize
}

impl Sealed for SlidingLogParams {}

impl Machine for SlidingLogParams {
    #[cfg(feature = "std")]
    type Oracle = EventLog;
    type Seen = SlidingLogSeen;
    const RINGED: bool = true;

    fn ring_cells(&self) -> usize {
        cell_at(self.places) + 2
    }

    fn has_note(&self) -> bool {
        true
    }

    #[inline]
    fn fresh(&self, now: Tick) -> u64 {
        self.time.set(0, self.grid.floor(now))
    }

    #[inline(always)]
    fn look<R: Ring>(&self, word: u64, ring: R, now: Tick, n: u64) -> SlidingLogSeen {
        let view = self.view(word, ring, now);
        if n == 0 {
            let next = word & (u64::MAX >> (u64::BITS - PAYLOAD_BITS));
            return self.left_as_is(&view, Step::Admit { next }, 0, self.remaining_now(view));
        }
        if n > self.limit_min {
            return self.left_as_is(&view, Step::Refuse, NEVER, self.remaining_now(view));
        }
        let wait = self.until_admitted(&view, n, None);
        // Time in a log never moves back, and an event counts as the end of its unit.
        let begun = self.grid.scale(now, view.floor).phase == 0;
        let ahead = view.ahead.max(u64::from(!begun));
        let time = view.floor.wrapping_add(ahead);
        // Where all places hold that time, one more would change nothing.
        let full = || {
            let oldest = self.places - 1;
            oldest < self.known(&view) && TIME.of(self.event(&view, oldest)) == TIME.of(time)
        };
        if wait > 0 && (!self.count_refusals || full()) {
            // If one more does not fit, none does.
            let remaining = if n == 1 { 0 } else { self.remaining_now(view) };
            return self.left_as_is(&view, Step::Refuse, wait, remaining);
        }
        let next = self.enter(&view, n, time);
        // What is admitted leaves room for itself.
        let spare = if wait == 0 { n } else { 0 };
        let (remaining, noted) = self.remaining(&view, n, spare);
        let (step, until_admitted) = match wait {
            0 => (Step::Admit { next }, 0),
            _ => (Step::RefuseCounted { next }, self.until_admitted(&view, n, Some(time))),
        };
        SlidingLogSeen {
            step,
            lap: view.lap,
            place: view.place,
            last: view.last,
            floor: view.floor,
            remaining,
            until_idle: ahead.saturating_add(self.window_max),
            until_admitted,
            noted,
        }
    }

    #[inline(always)]
    fn step(&self, seen: SlidingLogSeen, _: Tick, _: u64) -> Step {
        seen.step
    }

    #[inline(always)]
    fn publish<R: Ring>(
        &self,
        seen: SlidingLogSeen,
        ring: R,
        mut put: impl FnMut(usize, u64) -> bool,
    ) -> bool {
        let SlidingLogSeen { lap, place, last, floor, .. } = seen;
        let content = |lap| LAP.set(TIME.of(last), lap);
        if lap == 0 {
            return put(cell_at(self.places), content(1));
        }
        let birth = self.birth(lap, ring);
        let view = View { ring, lap, place, last, floor, ahead: 0, birth };
        let known = self.known(&view);
        let is_latest = |back| matches!(self.entry(&view, back), Entry::Latest);
        let mut count = 1;
        while count < known && is_latest(count) {
            count += 1;
        }
        // The oldest first: where one of them is in its place, so are those before it.
        (0..count)
            .rev()
            .map(|back| self.position(&view, back))
            .all(|(place, lap)| put(cell_at(place), content(lap)))
    }

    #[inline(always)]
    fn note(&self, seen: SlidingLogSeen, n: u64) -> u64 {
        seen.noted + n
    }

    #[inline(always)]
    fn permit(&self, seen: SlidingLogSeen, now: Tick, _: u64) -> Permit {
        Permit::new(self.reading(&seen, now))
    }

    #[inline(always)]
    fn denied(&self, seen: SlidingLogSeen, now: Tick, _: u64) -> Denied {
        Denied::new(self.reading(&seen, now), seen.until_admitted)
    }

    #[inline]
    fn instant(&self, now: Tick) -> u64 {
        self.grid.floor(now)
    }

    #[inline]
    fn standing(&self, word: u64, instant: u64) -> Standing {
        let (last, _) = self.last(word, instant);
        let window = if self.lap.of(word) == 0 { 0 } else { self.window_max };
        match self.until_left(last, instant, window) {
            0 => Standing::Idle { units: self.grid.behind(last, instant) - window },
            _ if window == 0 => Standing::Idle { units: 0 },
            left => Standing::Live { debt: left },
        }
    }

    fn no_place(&self, word: u64, now: Tick, skew: Duration) -> Denied {
        let floor = self.grid.floor(now);
        let (last, _) = self.last(word, floor);
        let window = if self.lap.of(word) == 0 { 0 } else { self.window_max };
        let wait = self.grid.until_behind_by(self.grid.later(last, window), floor, skew);
        let scale = self.grid.scale(now, floor);
        let limit = self.limit_min;
        let reading = Reading { limit, room: 0, cell: NonZeroU64::MIN, until_idle: wait, scale };
        Denied::new(reading, wait)
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
        EventLog::new(self.grid.ratio(), rates, self.count_refusals)
    }
}

impl SlidingLogParams {
    #[inline(always)]
    fn reading(&self, seen: &SlidingLogSeen, now: Tick) -> Reading {
        Reading {
            limit: self.limit_min,
            room: seen.remaining,
            cell: NonZeroU64::MIN,
            until_idle: seen.until_idle,
            scale: self.grid.scale(now, seen.floor),
        }
    }
}
