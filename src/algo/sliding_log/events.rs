//! The events of a log: which exist, when they happened, and how many are in a window.

use super::{FIRST, Rate, SlidingLogParams, TIME, cell_at, has_unwritten, round_in_cell};
use crate::algo::Ring;
use crate::time::Tick;

/// A log, read from a word and its ring.
#[derive(Clone, Copy)]
pub(super) struct View<R> {
    pub(super) ring: R,
    pub(super) word: u64,
    pub(super) lap: u64,
    /// The round, as in a cell.
    pub(super) round: u64,
    /// Places that hold events of this round.
    pub(super) filled: u64,
    /// Events that are stored.
    pub(super) known: u64,
    pub(super) last: u64,
    pub(super) floor: u64,
    /// Units from `floor` to the latest event, if it is later: written by a clock ahead, or later
    /// by less than a unit.
    pub(super) ahead: u64,
    /// When the current life of the ring began, if that matters and was read.
    pub(super) birth: u64,
}

/// The ring's record of an event.
pub(super) enum Entry {
    /// An event of the latest charge.
    Latest,
    Older {
        time: u64,
    },
}

impl SlidingLogParams {
    /// A log whose birth has not been read.
    #[inline(always)]
    pub(super) fn view_unborn<R: Ring>(&self, word: u64, ring: R, now: Tick) -> View<R> {
        self.view_at(word, ring, self.floor(now))
    }

    /// The same for a known floor of `now`.
    #[inline(always)]
    fn view_at<R: Ring>(&self, word: u64, ring: R, floor: u64) -> View<R> {
        let (last, ahead) = self.last(word, floor);
        // Every word has a meaning, also one that fills more places than there are.
        let (lap, filled) = (self.lap.of(word), self.filled.lowest_of(word).min(self.places));
        let known = self.known(lap, filled);
        let round = round_in_cell(lap);
        View { ring, word, lap, round, filled, known, last, floor, ahead, birth: 0 }
    }

    #[inline(always)]
    pub(super) fn view<R: Ring>(&self, word: u64, ring: R, now: Tick) -> View<R> {
        self.born(self.view_unborn(word, ring, now))
    }

    /// The same log with its birth read.
    #[inline(always)]
    pub(super) fn born<R: Ring>(&self, view: View<R>) -> View<R> {
        View { birth: self.birth(view.lap, view.ring), ..view }
    }

    /// When the current life of the ring began, below other bits; read once for all cells that are compared with it.
    #[inline(always)]
    pub(super) fn birth<R: Ring>(&self, lap: u64, ring: R) -> u64 {
        if has_unwritten(lap) { ring.cell(cell_at(self.places)) } else { 0 }
    }

    /// When the word's event happened, and how far ahead of `floor` that is.
    #[inline(always)]
    pub(super) fn last(&self, word: u64, floor: u64) -> (u64, u64) {
        // The word has only the low bits of the time, so the event is `distance` ahead or `behind` behind.
        let behind = floor.wrapping_sub(self.time.highest_of(word)) & self.time.max();
        let distance = self.time.max() - behind + 1;
        if behind > self.behind_max {
            return (floor.wrapping_add(distance), distance);
        }
        match floor.checked_sub(behind) {
            Some(last) => (last, 0),
            None => self.last_before_origin(floor, behind, distance),
        }
    }

    /// The same if `floor` is less than `behind`.
    ///
    /// The grid says behind, but the origin may tell otherwise: no event happened before it, so within the skew
    /// tolerance the event is ahead. (Else it would count for nothing, however often it was charged.) Times
    /// count from one window before the origin: a `floor` below that has come round, since units of a nanosecond
    /// wrap around to 0 at the last tick.
    #[cold]
    #[inline(never)]
    fn last_before_origin(&self, floor: u64, behind: u64, distance: u64) -> (u64, u64) {
        if floor < self.window_max {
            (floor.wrapping_sub(behind), 0)
        } else if distance <= self.grid.tolerance_units() {
            (floor.wrapping_add(distance), distance)
        } else {
            (0, 0)
        }
    }

    /// Units until an event has left a window; 0 if it has.
    #[inline(always)]
    pub(super) fn until_left(&self, event: u64, floor: u64, window: u64) -> u64 {
        match self.grid.ahead(event, floor) {
            0 => window.saturating_sub(self.grid.behind(event, floor)),
            ahead => window.saturating_add(ahead),
        }
    }

    /// The number of events that are stored.
    #[inline(always)]
    pub(super) fn known(&self, lap: u64, filled: u64) -> u64 {
        if lap == FIRST { filled } else { self.places }
    }

    /// The place of the event `back` (below the number of stored ones) before the latest, written
    /// or not, and a lap with the parity of its own.
    #[inline(always)]
    pub(super) fn position<R: Ring>(&self, view: &View<R>, back: u64) -> (u64, u64) {
        let (place, before) = self.place(view, back);
        (place, view.lap ^ u64::from(before))
    }

    /// The place, and whether its event is of the round before.
    #[inline(always)]
    fn place<R: Ring>(&self, view: &View<R>, back: u64) -> (u64, bool) {
        let (place, before) = view.filled.overflowing_sub(back + 1);
        (place.wrapping_add(if before { self.places } else { 0 }), before)
    }

    /// The event `back` (below the number of stored ones) before the latest.
    #[inline(always)]
    pub(super) fn entry<R: Ring>(&self, view: &View<R>, back: u64) -> Entry {
        match self.found(view, back) {
            Entry::Older { time } if self.before_birth(view, time) => Entry::Latest,
            found => found,
        }
    }

    /// The same, without comparing the cell with the birth.
    #[inline(always)]
    pub(super) fn found<R: Ring>(&self, view: &View<R>, back: u64) -> Entry {
        if back == 0 {
            return Entry::Latest;
        }
        let (place, before) = self.place(view, back);
        let content = view.ring.xor(cell_at(place), view.round);
        // In the round before, the lowest bit of the round is the other one.
        let time = content.wrapping_sub(u64::from(before) << TIME.bits());
        if time > TIME.max() { Entry::Latest } else { Entry::Older { time } }
    }

    /// Whether a cell was written before the current life of the ring: in a life of the same generation, 1,024
    /// lives ago.
    #[inline(always)]
    pub(super) fn before_birth<R: Ring>(&self, view: &View<R>, time: u64) -> bool {
        // The shift moves the sign to the top bit of the time.
        let older = view.birth.wrapping_sub(time) << (u64::BITS - TIME.bits());
        has_unwritten(view.lap) && older.cast_signed() > 0
    }

    /// When the event `back` (below the number of stored ones) before the latest happened.
    #[inline(always)]
    pub(super) fn event<R: Ring>(&self, view: &View<R>, back: u64) -> u64 {
        match self.entry(view, back) {
            Entry::Latest => view.last,
            Entry::Older { time } => time,
        }
    }

    /// Units until `n` cells (at most the smallest limit, and not 0) are within every rate.
    ///
    /// With `again`, as if the same request had just been entered at that time.
    #[inline(always)]
    pub(super) fn until_admitted<R: Ring>(
        &self,
        view: &View<R>,
        n: u64,
        again: Option<u64>,
    ) -> u64 {
        let wait = self.until_within(view, &self.rates[0], n, again);
        if self.rate_count == 1 { wait } else { wait.max(self.until_others(*view, n, again)) }
    }

    /// The same, of the further rates.
    #[inline(never)]
    pub(super) fn until_others<R: Ring>(&self, view: View<R>, n: u64, again: Option<u64>) -> u64 {
        let until = |rate| self.until_within(&view, rate, n, again);
        self.rates()[1..].iter().map(until).max().unwrap_or(0)
    }

    #[inline(always)]
    pub(super) fn until_within<R: Ring>(
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
        if back >= view.known {
            return 0;
        }
        self.until_left(self.event(view, back), view.floor, rate.window)
    }

    /// The number of events in the longest window, for a word that has some.
    ///
    /// A log of one event needs only its word; any other reads about three places of its ring.
    pub(super) fn count_live<R: Ring>(&self, word: u64, ring: R, floor: u64) -> u64 {
        let view = self.view_at(word, ring, floor);
        if view.known == 1 {
            return 1;
        }
        let (limit, window) = (self.places, self.window_max);
        let longest = Rate { limit, window, back: self.grid.back(window) };
        self.count_inside(&self.born(view), &longest, view.known, ring.note())
    }

    /// The number of events in a rate's window, at most `max`, of which all are stored.
    #[inline(always)]
    pub(super) fn count_inside<R: Ring>(
        &self,
        view: &View<R>,
        rate: &Rate,
        max: u64,
        guess: u64,
    ) -> u64 {
        let inside = |event| self.grid.within(event, view.floor, rate.back);
        let Some(last) = max.checked_sub(1) else { return 0 };
        // In most cases one event has left for the one that came.
        let oldest = guess.wrapping_sub(1).min(last);
        if inside(self.event(view, oldest)) {
            let count = oldest + 1;
            if count == max || !inside(self.event(view, count)) {
                return count;
            }
            return self.search_inside(*view, rate, [count + 1, max + 1], count + 3);
        }
        if oldest == 0 || inside(self.event(view, oldest - 1)) {
            return oldest;
        }
        self.search_below(*view, rate, oldest)
    }

    /// The same where fewer than `high` are inside.
    #[inline(never)]
    fn search_below<R: Ring>(&self, view: View<R>, rate: &Rate, high: u64) -> u64 {
        match self.grid.within(view.last, view.floor, rate.back) {
            true => self.search_inside(view, rate, [1, high], high.saturating_sub(2)),
            false => 0,
        }
    }

    /// The same by search: `low` are inside, `high` are not, and `count` is a guess.
    #[inline(never)]
    pub(super) fn search_inside<R: Ring>(
        &self,
        view: View<R>,
        rate: &Rate,
        [mut low, mut high]: [u64; 2],
        mut count: u64,
    ) -> u64 {
        // In doubling strides, and by halves once both sides are known.
        let mut stride = 4;
        while high - low > 1 {
            if count <= low || count >= high {
                count = low + (high - low) / 2;
            }
            if self.grid.within(self.event(&view, count - 1), view.floor, rate.back) {
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

    /// The remaining cells of all rates after `n` more events, and the count of the first rate
    /// before them: each count at most its limit less `spare`.
    #[inline(always)]
    pub(super) fn remaining<R: Ring>(&self, view: &View<R>, n: u64, spare: u64) -> (u64, u64) {
        let rate = &self.rates[0];
        let max = view.known.min(rate.limit - spare);
        let first = self.count_inside(view, rate, max, view.ring.note());
        let left = rate.limit.saturating_sub(first.saturating_add(n));
        if self.rate_count == 1 {
            return (left, first);
        }
        (left.min(self.remaining_of_others(*view, n, spare)), first)
    }

    /// The remaining cells of the further rates.
    #[inline(never)]
    pub(super) fn remaining_of_others<R: Ring>(&self, view: View<R>, n: u64, spare: u64) -> u64 {
        let left = |rate: &Rate| {
            let max = view.known.min(rate.limit - spare);
            let inside = self.count_inside(&view, rate, max, 1);
            rate.limit.saturating_sub(inside.saturating_add(n))
        };
        self.rates()[1..].iter().map(left).min().unwrap_or(u64::MAX)
    }

    /// The remaining cells of all rates without a charge: a rare question, so out of line.
    #[cold]
    #[inline(never)]
    pub(super) fn remaining_now<R: Ring>(&self, view: View<R>) -> u64 {
        self.remaining(&view, 0, 0).0
    }
}
