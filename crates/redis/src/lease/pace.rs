//! How fast a key's cells are spent, and so how many are asked for, when, and by how many calls.
//!
//! Calls that end together write here together, each figure for itself. A figure may so be of
//! another moment than its neighbour. Nothing but the sizes of calls depends on them: what may be
//! spent is in the purse.

use tollgate::Tick;

use super::key_state::Settings;
use super::lease_cell::CALLS_MAX;
use super::sizing::{self, LowWater, Spending};
use crate::sync::RelaxedCounter;

/// What is known of a key's pace.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    last_size: RelaxedCounter,
    pause_nanos: RelaxedCounter,
    round_trip_nanos: RelaxedCounter,
    lifetime_nanos: RelaxedCounter,
    /// Cells that were taken and not dropped; without those in the purse, they are spent.
    kept: RelaxedCounter,
    /// Since when cells are counted as spent, and how many had been by then.
    mark_nanos: RelaxedCounter,
    mark_spent: RelaxedCounter,
    low_cells: RelaxedCounter,
    low_ahead_nanos: RelaxedCounter,
    /// Calls that may be under way.
    max_calls: RelaxedCounter,
    /// Cells that calls under way have asked for, and that nobody has spoken for.
    asked: RelaxedCounter,
}

/// What a call is begun for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// Fewer cells are of no use.
    pub(crate) min: u64,
    /// Cells that are being waited for.
    pub(crate) waiting: u64,
    /// Cells in the purse.
    pub(crate) unspent: u64,
    /// Whether no other call is under way.
    pub(crate) alone: bool,
}

impl Pace {
    /// With fewer cells than these, of those that are left so long from now, the bank is asked.
    #[inline]
    pub(crate) fn low_water(&self) -> LowWater {
        let cells = self.low_cells.read();
        LowWater { cells, ahead_nanos: self.low_ahead_nanos.read() }
    }

    /// Calls that may be under way. As long as one brings what is needed, it is one.
    pub(crate) fn max_calls(&self) -> u64 {
        self.max_calls.read().max(1)
    }

    /// Whether it takes more cells than are alive and on their way, with so many waited for.
    pub(crate) fn is_low(&self, alive: u64, waiting: u64) -> bool {
        let there = alive.saturating_add(self.asked.read());
        there < self.low_cells.read().saturating_add(waiting)
    }

    pub(crate) fn lifetime_nanos(&self) -> u64 {
        self.lifetime_nanos.read()
    }

    /// How many cells the call that begins asks for.
    pub(crate) fn size_call(&self, demand: Demand, now: Tick, settings: &Settings) -> u64 {
        let over_nanos = now.as_nanos().saturating_sub(self.mark_nanos.read());
        let round_trip = self.round_trip_nanos.read();
        // Where several calls may be under way, the next one may begin as soon as one has ended: what
        // was spent in less than a round trip then says little, unless it was all that there was.
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

    /// A call has asked for so many cells that are not spoken for.
    pub(crate) fn call_sent(&self, cells: u64) {
        self.asked.add(cells);
    }

    fn size(&self, used: Spending, round_trip: u64, settings: &Settings) -> u64 {
        let lifetime = self.lifetime_nanos.read();
        let size = sizing::call_size(self.last_size.read(), used, lifetime, settings.max_lease);
        self.last_size.put(size);
        let max_calls = if size < settings.max_lease || self.was_short(settings) { 1 } else { CALLS_MAX };
        self.max_calls.put(max_calls);
        // A crowd that comes at once is no rate: it goes on for a round trip at most.
        let used = Spending { over_nanos: used.over_nanos.max(round_trip), ..used };
        let low = sizing::low_water(used, round_trip);
        let most_ahead = match max_calls {
            // Otherwise what is new would be asked for before the old is spent, and take its place.
            1 => size / 2,
            // So that they are spent in a quarter of their life, however long a call takes.
            _ => sizing::spent_in(used, lifetime / 4),
        };
        self.low_cells.put(low.cells.min(most_ahead));
        self.low_ahead_nanos.put(low.ahead_nanos);
        size
    }

    /// A call that had asked for so many cells took so long, or came to nothing.
    pub(crate) fn call_ended(&self, asked: u64, took_nanos: u64) {
        self.asked.subtract(asked);
        self.round_trip_nanos.put(sizing::round_trip(self.round_trip_nanos.read(), took_nanos));
    }

    /// So many cells will be put in the purse.
    pub(crate) fn deposited(&self, cells: u64) {
        self.kept.add(cells);
    }

    /// So many cells that were in the purse are dropped.
    pub(crate) fn dropped(&self, cells: u64) {
        self.kept.subtract(cells);
    }

    /// The purse has so many cells now, and so many were spent at once.
    pub(crate) fn call_completed(&self, spent: u64, unspent: u64, now: Tick) {
        let mark = self.mark_nanos.read();
        let age = now.as_nanos().saturating_sub(mark);
        let is_old = age >= self.round_trip_nanos.read().saturating_mul(2);
        if (self.max_calls() == 1 || is_old) && self.mark_nanos.exchange(mark, now.as_nanos()) {
            self.mark_spent.put(self.spent(unspent));
        }
        self.kept.add(spent);
    }

    /// Leases live so long.
    pub(crate) fn set_lifetime(&self, nanos: u64) {
        self.lifetime_nanos.put(nanos);
    }

    /// Whether the bank was short a few calls ago. Who gets all that a small lease has may have found
    /// just what came back in a pause.
    fn was_short(&self, settings: &Settings) -> bool {
        let pause = settings.pauses.min_nanos.min(self.lifetime_nanos.read() / 2);
        self.pause_nanos.read() > pause / 16
    }

    fn spent(&self, unspent: u64) -> u64 {
        self.kept.read().saturating_sub(unspent)
    }

    /// The bank is short, or does not answer: how long to make no call.
    pub(crate) fn pause(&self, cells: u64, lifetime_nanos: u64, settings: &Settings) -> u64 {
        let last = self.pause_nanos.read();
        let pause = sizing::pause(last, cells, lifetime_nanos, settings.pauses);
        self.pause_nanos.put(pause);
        self.max_calls.put(1);
        pause
    }

    /// The bank had what was asked for.
    pub(crate) fn shorten_pause(&self) {
        self.pause_nanos.put(self.pause_nanos.read() / 2);
    }
}
