//! The words of a lease cell: an instant and a count, and what a word of calls says.

use tollgate::Tick;

/// A unit of time is 2^16 ns, about 66 microseconds.
pub(super) const UNIT_BITS: u32 = 16;
/// bits 63..20: an instant, in units since the limiter was built (36 years) | bits 19..0: a count
pub(super) const COUNT_BITS: u32 = 20;
/// The largest number of cells of a lease, and of a remembered denial.
pub(crate) const CELLS_MAX: u64 = (1 << COUNT_BITS) - 1;
/// The last instant. In a denial it means never.
pub(super) const INSTANT_MAX: u64 = (1 << (64 - COUNT_BITS)) - 1;

/// An instant and a count in one word.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Word(pub(super) u64);

impl Word {
    pub(super) fn new(instant: u64, count: u64) -> Self {
        debug_assert!(instant <= INSTANT_MAX && count <= CELLS_MAX, "as laid out");
        Self(instant << COUNT_BITS | count)
    }

    pub(super) fn instant(self) -> u64 {
        self.0 >> COUNT_BITS
    }

    pub(super) fn count(self) -> u64 {
        self.0 & CELLS_MAX
    }
}

impl core::fmt::Debug for Word {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}@{}", self.count(), self.instant())
    }
}

/// The unit that contains this instant. It may be beyond the last instant of a word, which no
/// process reaches.
pub(super) fn begun(at: Tick) -> u64 {
    at.as_nanos() >> UNIT_BITS
}

/// The first unit that begins at or after this instant, at most the last instant.
pub(super) fn next(at: Tick) -> u64 {
    at.as_nanos().div_ceil(1 << UNIT_BITS).min(INSTANT_MAX)
}

pub(super) fn tick(instant: u64) -> Tick {
    Tick::from_nanos(instant << UNIT_BITS)
}

/// Whether cells of this lease can be spent.
pub(super) fn is_alive(lease: Word, now: Tick) -> bool {
    begun(now) < lease.instant() && lease.count() > 0
}

/// Whether the two leases expire so close together that both may expire at the earlier instant. At
/// least half of the new lease's lifetime must remain.
pub(super) fn is_near(old: Word, new: Word, now: Tick) -> bool {
    let life = new.instant().saturating_sub(begun(now));
    old.instant().abs_diff(new.instant()) <= life / 2
}

/// The cells of both leases with the earlier expiry, and the number of cells that do not fit.
pub(super) fn joined(old: Word, new: Word) -> (Word, u64) {
    let cells = old.count() + new.count();
    let kept = cells.min(CELLS_MAX);
    (Word::new(old.instant().min(new.instant()), kept), cells - kept)
}

/// How the last call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(unreachable_pub, reason = "the models use it")]
#[allow(clippy::exhaustive_enums, reason = "used by this crate only")]
pub enum CallEnd {
    /// Nothing forbids another call.
    Free,
    /// The source had fewer cells than were asked for.
    Short,
    /// No answer by the deadline.
    TimedOut,
    /// No connection.
    Disconnected,
    /// The source was not asked.
    CircuitOpen,
    /// An error.
    Failed,
}

impl CallEnd {
    pub(super) const ALL: [Self; 6] = [
        Self::Free,
        Self::Short,
        Self::TimedOut,
        Self::Disconnected,
        Self::CircuitOpen,
        Self::Failed,
    ];

    pub(super) fn code(self) -> u64 {
        match self {
            Self::Free => 0,
            Self::Short => 1,
            Self::TimedOut => 2,
            Self::Disconnected => 3,
            Self::CircuitOpen => 4,
            Self::Failed => 5,
        }
    }
}

/// A word of calls: bits 63..20 an instant, before which no call begins | bits 19..3 calls in flight |
/// bits 2..0 how the call ended that caused the pause
pub(super) const END_BITS: u32 = 3;

impl Word {
    pub(super) fn of_calls(instant: u64, in_flight: u64, end: u64) -> Self {
        Self::new(instant, in_flight << END_BITS | end)
    }

    pub(super) fn in_flight(self) -> u64 {
        self.count() >> END_BITS
    }

    pub(super) fn end(self) -> u64 {
        self.count() & ((1 << END_BITS) - 1)
    }
}

/// The largest number of calls in flight for one key.
pub(crate) const CALLS_MAX: u64 = 256;
const _: () = assert!(CALLS_MAX << END_BITS < CELLS_MAX, "they fit the word");

/// Whether the source may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(unreachable_pub, reason = "the models use it")]
#[allow(clippy::exhaustive_enums, reason = "used by this crate only")]
pub enum CallState {
    /// It may be called, and no call is in flight.
    Free,
    /// This many calls are in flight, and another may begin.
    InFlight(u64),
    /// This many calls are in flight, or none, and no other begins before the instant, because of
    /// how an earlier call ended.
    Paused(u64, Tick, CallEnd),
}
