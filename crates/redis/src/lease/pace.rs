//! Measures how fast a key's cells are spent. From that follow the size, the time and the number of calls.
//!
//! Calls that end at the same time update these measurements independently, so two of them may be of
//! different moments. Only the sizes of calls depend on them. The cells that may be spent are in the
//! lease cell.

use tollgate::Tick;

use super::key_state::Settings;
use super::lease_cell::CALLS_MAX;
use super::sizing::{self, LowWater, Spending};
use crate::sync::RelaxedCounter;

/// The measured pace of a key.
#[derive(Debug, Default)]
pub(super) struct Pace {
    last_size: RelaxedCounter,
    pause_nanos: RelaxedCounter,
    round_trip_nanos: RelaxedCounter,
    lifetime_nanos: RelaxedCounter,
    /// Cells that were taken and not dropped: the spent ones and those still held.
    kept: RelaxedCounter,
    /// When the count of spent cells was last marked, and the count at that moment.
    mark_nanos: RelaxedCounter,
    mark_spent: RelaxedCounter,
    low_cells: RelaxedCounter,
    low_ahead_nanos: RelaxedCounter,
    /// The largest number of calls in flight.
    max_calls: RelaxedCounter,
    /// Unreserved cells that calls in flight have asked for.
    requested: RelaxedCounter,
}

/// The demand that a new call must serve.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Fewer cells are useless.
    pub(super) min: u64,
    /// Cells that requests wait for.
    pub(super) waiting: u64,
    /// Cells held here.
    pub(super) unspent: u64,
    /// Whether no other call is in flight.
    pub(super) alone: bool,
}

impl Pace {
    /// When fewer cells than this will be left after the given time, more should be fetched.
    #[inline]
    pub(super) fn low_water(&self) -> LowWater {
        let cells = self.low_cells.read();
        LowWater { cells, ahead_nanos: self.low_ahead_nanos.read() }
    }

    /// The largest number of calls in flight. It is one as long as one call brings what is needed.
    pub(super) fn max_calls(&self) -> u64 {
        self.max_calls.read().max(1)
    }

    /// Whether spendable and requested cells are too few, with this many waited for.
    pub(super) fn is_low(&self, alive: u64, waiting: u64) -> bool {
        let there = alive.saturating_add(self.requested.read());
        there < self.low_cells.read().saturating_add(waiting)
    }

    pub(super) fn lifetime_nanos(&self) -> u64 {
        self.lifetime_nanos.read()
    }

    /// How many cells the new call asks for.
    pub(super) fn size_call(&self, demand: Demand, now: Tick, settings: &Settings) -> u64 {
        let over_nanos = now.as_nanos().saturating_sub(self.mark_nanos.read());
        let round_trip = self.round_trip_nanos.read();
        // If several calls may be in flight, the next one may begin as soon as one has ended. The
        // cells spent in less than a round trip then say little about the pace, unless all cells were spent.
        let says_much = self.max_calls() == 1 || demand.unspent == 0;
        let max = match over_nanos >= round_trip || (demand.alone && says_much) {
            true => {
                let spent = self.spent(demand.unspent).saturating_sub(self.mark_spent.read());
                let used = Spending { spent, over_nanos, waiting: demand.waiting };
                self.size(used, round_trip, settings)
            }
            false => self.last_size.read().max(demand.waiting).clamp(1, settings.max_lease),
        };
        max.max(demand.min)
    }

    /// A call has asked for this many unreserved cells.
    pub(super) fn call_sent(&self, cells: u64) {
        self.requested.add(cells);
    }

    fn size(&self, used: Spending, round_trip: u64, settings: &Settings) -> u64 {
        let lifetime = self.lifetime_nanos.read();
        let size = sizing::call_size(self.last_size.read(), used, lifetime, settings.max_lease);
        self.last_size.set(size);
        let max_calls =
            if size < settings.max_lease || self.was_short(settings) { 1 } else { CALLS_MAX };
        self.max_calls.set(max_calls);
        // A crowd that arrives at once is not a rate: it continues for a round trip at most.
        let used = Spending { over_nanos: used.over_nanos.max(round_trip), ..used };
        let low = sizing::low_water(used, round_trip);
        let max_ahead = match max_calls {
            // A larger value would fetch new cells before the old are spent, and replace those.
            1 => size / 2,
            // Cells are then spent in a quarter of their lifetime, however long a call takes.
            _ => sizing::spent_in(used, lifetime / 4),
        };
        self.low_cells.set(low.cells.min(max_ahead));
        self.low_ahead_nanos.set(low.ahead_nanos);
        size
    }

    /// A call that had asked for this many unreserved cells ended after this time.
    pub(super) fn call_ended(&self, asked: u64, took_nanos: u64) {
        self.requested.subtract(asked);
        self.round_trip_nanos.set(sizing::round_trip(self.round_trip_nanos.read(), took_nanos));
    }

    /// This many cells are about to be deposited.
    pub(super) fn deposited(&self, cells: u64) {
        self.kept.add(cells);
    }

    /// This many held cells were dropped.
    pub(super) fn dropped(&self, cells: u64) {
        self.kept.subtract(cells);
    }

    /// A call ended: this many cells are held now, and this many were spent by its caller.
    pub(super) fn call_completed(&self, spent: u64, unspent: u64, now: Tick) {
        let mark = self.mark_nanos.read();
        let age = now.as_nanos().saturating_sub(mark);
        let is_old = age >= self.round_trip_nanos.read().saturating_mul(2);
        if (self.max_calls() == 1 || is_old) && self.mark_nanos.exchange(mark, now.as_nanos()) {
            self.mark_spent.set(self.spent(unspent));
        }
        self.kept.add(spent);
    }

    /// Leases live this long.
    pub(super) fn set_lifetime(&self, nanos: u64) {
        self.lifetime_nanos.set(nanos);
    }

    /// Whether the source was short in one of the last calls. A call that gets all cells of a small
    /// lease may have found just what came back during a pause.
    fn was_short(&self, settings: &Settings) -> bool {
        let pause = settings.pauses.min_nanos.min(self.lifetime_nanos.read() / 2);
        self.pause_nanos.read() > pause / 16
    }

    fn spent(&self, unspent: u64) -> u64 {
        self.kept.read().saturating_sub(unspent)
    }

    /// The source is short, or does not answer: how long to make no call.
    pub(super) fn pause(&self, cells: u64, lifetime_nanos: u64, settings: &Settings) -> u64 {
        let last = self.pause_nanos.read();
        let pause = sizing::pause(last, cells, lifetime_nanos, settings.pauses);
        self.pause_nanos.set(pause);
        self.max_calls.set(1);
        pause
    }

    /// The source had what was asked for.
    pub(super) fn shorten_pause(&self) {
        self.pause_nanos.set(self.pause_nanos.read() / 2);
    }
}
