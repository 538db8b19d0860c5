//! The events of a log: which exist, when they happened, and how many are in a window.

use super::{FIRST, Rate, SlidingLogParams, TIME, cell_at, has_unwritten, round_of};
use crate::algo::Ring;
use crate::time::Tick;

/// A log, read from a word and its ring.
#[derive(Clone, Copy)]
pub(super) struct View<R> {
    pub(super) ring: R,
    pub(super) word: u64,
    pub(super) lap: u64,
    /// Places that hold events of this round.
    pub(super) filled: u64,
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
        View { ring, word, lap, filled, last, floor, ahead, birth: 0 }
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

    /// When the current life of the ring began; read once for all cells that are compared with it.
    #[inline(always)]
    pub(super) fn birth<R: Ring>(&self, lap: u64, ring: R) -> u64 {
        if has_unwritten(lap) { TIME.of(ring.cell(cell_at(self.places))) } else { 0 }
    }

    /// When the word's event happened, and how far ahead of `floor` that is.
    #[inline(always)]
    pub(super) fn last(&self, word: u64, floor: u64) -> (u64, u64) {
        let distance = self.time.highest_of(word).wrapping_sub(floor) & self.time.max();
        let behind = self.time.max() - distance + 1;
        // The word has only the low bits of the time, so the event is `distance` ahead or `behind` behind.
        // Where the grid would say behind, the origin may tell otherwise: no event happened before it, so
        // within the skew tolerance the event is ahead. (Else it would count for nothing, however often it
        // was charged.) Times count from one window before the origin: a `floor` below that has come round,
        // since units of a nanosecond wrap around to 0 at the last tick.
        let come_round = || floor < self.window_max;
        let origin_tells =
            || behind > floor && !come_round() && distance <= self.grid.tolerance_units();
        if distance <= self.ahead_max || origin_tells() {
            (floor.wrapping_add(distance), distance)
        } else {
            let round = || if come_round() { floor.wrapping_sub(behind) } else { 0 };
            (floor.checked_sub(behind).unwrap_or_else(round), 0)
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
    pub(super) fn known<R: Ring>(&self, view: &View<R>) -> u64 {
        if view.lap == FIRST { view.filled } else { self.places }
    }

    /// The place of the event `back` (below the number of stored ones) before the latest, written
    /// or not, and a lap with the parity of its own.
    #[inline(always)]
    pub(super) fn position<R: Ring>(&self, view: &View<R>, back: u64) -> (u64, u64) {
        let after = back + 1;
        match view.filled.checked_sub(after) {
            Some(place) => (place, view.lap),
            None => ((view.filled + self.places).wrapping_sub(after), view.lap ^ 1),
        }
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
        let (place, lap) = self.position(view, back);
        let content = view.ring.xor(cell_at(place), round_of(lap) << TIME.bits());
        if content > TIME.max() { Entry::Latest } else { Entry::Older { time: content } }
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
        if back >= self.known(view) {
            return 0;
        }
        self.until_left(self.event(view, back), view.floor, rate.window)
    }

    /// The number of events in the longest window, for a word that has some.
    ///
    /// A log of one event needs only its word; any other reads about three places of its ring.
    pub(super) fn count_live<R: Ring>(&self, word: u64, ring: R, floor: u64) -> u64 {
        let view = self.view_at(word, ring, floor);
        if self.known(&view) == 1 {
            return 1;
        }
        let longest = Rate { limit: self.places, window: self.window_max };
        self.count_inside(&self.born(view), &longest, self.places, ring.note())
    }

    /// The number of events in a rate's window, at most `max`.
    #[inline(always)]
    pub(super) fn count_inside<R: Ring>(
        &self,
        view: &View<R>,
        rate: &Rate,
        max: u64,
        guess: u64,
    ) -> u64 {
        let inside = |event| self.grid.within(event, view.floor, rate.window);
        let max = max.min(self.known(view));
        if max == 0 || !inside(view.last) {
            return 0;
        }
        // In most cases one event has left for the one that came.
        let guess = guess.clamp(1, max);
        if inside(self.event(view, guess - 1)) {
            if guess == max || !inside(self.event(view, guess)) {
                return guess;
            }
            return self.search_inside(*view, rate, [guess + 1, max + 1], guess + 3);
        }
        if inside(self.event(view, guess - 2)) {
            return guess - 1;
        }
        self.search_inside(*view, rate, [1, guess - 1], guess.saturating_sub(3))
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

    /// The remaining cells of all rates after `n` more events, and the count of the first rate
    /// before them: each count at most its limit less `spare`.
    #[inline(always)]
    pub(super) fn remaining<R: Ring>(&self, view: &View<R>, n: u64, spare: u64) -> (u64, u64) {
        let rate = &self.rates[0];
        let first = self.count_inside(view, rate, rate.limit - spare, view.ring.note());
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
            let inside = self.count_inside(&view, rate, rate.limit - spare, 0);
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
