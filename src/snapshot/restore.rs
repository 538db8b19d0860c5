//! Builds a limiter from a snapshot.

use core::fmt;
use core::time::Duration;

use super::at_once;
use super::format::{Header, Rows, VERSION, damaged, open};
use super::shape::Shape;
use crate::algo::{Algorithm, ClockChange, Moment, PAYLOAD_BITS, Rebase, Restart, StateMachine};
use crate::limiter::builder::{BuildError, Builder};
use crate::limiter::{Limiter, WhenFull};
use crate::table::{Row, SavedSlot};
use crate::time::{Clock, Tick};

/// Why a snapshot cannot be restored; the text says what to do. Nothing was built.
///
/// ```
/// use tollgate::snapshot::RestoreError;
/// use tollgate::{Limiter, Quota};
///
/// let builder = || Limiter::<u64>::builder(Quota::per_second(5));
/// let mut bytes = builder().build()?.snapshot();
/// let other = Limiter::<u64>::builder(Quota::per_second(6)).restore(&bytes);
/// assert!(matches!(other.unwrap_err(), RestoreError::Different { .. }));
/// bytes[100] ^= 1;
/// assert!(matches!(builder().restore(&bytes).unwrap_err(), RestoreError::Damaged { .. }));
/// assert_eq!(builder().restore(b"elsewhere").unwrap_err(), RestoreError::NotASnapshot);
/// # Ok::<(), tollgate::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestoreError {
    /// The bytes do not begin like a snapshot.
    NotASnapshot,
    /// The format version is unknown to this version of the crate.
    Version(u32),
    /// The snapshot is cut off.
    TooShort,
    /// The content is not what was written.
    Damaged {
        /// The part that is wrong.
        what: &'static str,
    },
    /// The hash function differs from the one where the snapshot was written.
    OtherHash,
    /// The limiter that wrote it was built differently.
    Different {
        /// The parameter that differs.
        what: &'static str,
    },
    /// The limiter cannot be built, with or without the snapshot.
    Build(BuildError),
}

impl From<BuildError> for RestoreError {
    fn from(error: BuildError) -> Self {
        Self::Build(error)
    }
}

impl fmt::Display for RestoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotASnapshot => f.write_str(
                "this is not a snapshot of a limiter: pass the bytes that Limiter::snapshot returned",
            ),
            Self::Version(version) => write!(
                f,
                "the snapshot has format version {version}, and only {VERSION} is supported: restore \
                 it with the version of tollgate that wrote it, or start without it",
            ),
            Self::TooShort => f.write_str(
                "the snapshot is cut off, since it was not written or not read to its end: use \
                 another copy, or start without it",
            ),
            Self::Damaged { what } => {
                write!(f, "the snapshot is damaged, {what}: use another copy, or start without it")
            }
            Self::OtherHash => f.write_str(
                "the snapshot was written with another hash function (on another processor, or by \
                 another version of the hash), so its keys cannot be found: start without it",
            ),
            Self::Different { what } => write!(
                f,
                "the limiter that wrote the snapshot differs in {what}: build the same one, or \
                 start without the snapshot",
            ),
            Self::Build(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for RestoreError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Build(error) => Some(error),
            _ => None,
        }
    }
}

impl<K: ?Sized, A: Algorithm<Params: Rebase>, C: Clock> Builder<K, A, C> {
    /// Builds the limiter with the states of a [snapshot](Limiter::snapshot), aged by the time
    /// since it was taken.
    ///
    /// The algorithm with its options, the quota, the capacity, the kind of slots, and the shared overflow
    /// with its quota must be those of the limiter that was saved, and there must be no shared overflow if that
    /// limiter had none. The clock, the skew and the other policies may differ. For another skew
    /// [`SlotLayout::Auto`](crate::limiter::SlotLayout::Auto) may choose another kind of slots: keep the skew,
    /// or name the slots in both.
    ///
    /// **Guarantee.** A key that was live is granted no more than if the first limiter had run on for
    /// the time between, and at most one time unit less. If the origins of the two clocks differ by
    /// whole units, every decision is the same. Windows and sub-windows aligned to the wall clock are
    /// the same ones, whatever the origins of the clocks.
    ///
    /// **Not guaranteed.**
    ///
    /// - The time between is measured by [the wall clock](Clock::unix_now_nanos). If that was set
    ///   forward, keys recover by so much more. If it was set back, no time has passed.
    /// - Keys must hash as they did: `K` must be the same type (or hash alike, as `str` and
    ///   `String` do), by the same implementation of [`Hash`](core::hash::Hash). The hashes of some
    ///   fixed values of standard types are compared to detect a difference.
    /// - If the wall clock was set, or the machine was suspended, while the first limiter ran, the sub-windows of
    ///   [`SubWindows`](crate::SubWindows) and [`SlidingCounter`](crate::SlidingCounter) begin at other times in
    ///   the restored one. Cells then count for up to a sub-window longer, and if it was set back, for as much
    ///   more. They may count for less by a thousandth of a sub-window, or by 1 ms if that is more.
    /// - A snapshot may be restored more than once, and then grants more than once.
    ///
    /// # Errors
    ///
    /// The snapshot is invalid or belongs to another limiter, or the limiter cannot be built;
    /// nothing is built then. To fall back to an empty limiter, make a second builder.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// let builder = || Limiter::<str>::builder(Quota::per_second(100)).capacity(10_000);
    /// # let read = || builder().build().map(|gate| gate.snapshot());
    /// let bytes = read()?;
    /// let gate = match builder().restore(&bytes) {
    ///     Ok(gate) => gate,
    ///     Err(error) => {
    ///         eprintln!("{error}");
    ///         builder().build()?
    ///     }
    /// };
    /// assert!(gate.is_empty());
    /// # Ok::<(), tollgate::BuildError>(())
    /// ```
    pub fn restore(mut self, snapshot: &[u8]) -> Result<Limiter<K, A, C>, RestoreError> {
        let (header, rows) = open(snapshot)?;
        if header.seeds.proof() != header.proof {
            return Err(RestoreError::OtherHash);
        }
        self.seeds = Some(header.seeds);
        let gate = self.build()?;
        if let Some(what) = header.shape.difference(&Shape::of(&gate)) {
            return Err(RestoreError::Different { what });
        }
        fill(&gate, &header, rows)?;
        Ok(gate)
    }
}

/// Writes all states into a new limiter that no other thread can use yet.
fn fill<K: ?Sized, A: Algorithm<Params: Rebase>, C: Clock>(
    gate: &Limiter<K, A, C>,
    header: &Header,
    mut rows: Rows<'_>,
) -> Result<(), RestoreError> {
    let restart = restart(gate.clock(), header);
    let (params, table) = (gate.params(), gate.table());
    let change = clock_change(gate, params, restart);
    let instant = gate.still(params, restart.now.tick).instant(restart.now.tick);
    let (words_in_slot, ring_cells) = (table.words_in_slot(), params.kept_cells());
    let mut keys = 0;
    while let Some(mut row) = rows.next(words_in_slot, ring_cells)? {
        let mut rings = core::mem::take(&mut row.rings);
        let mut rest = rings.as_mut_slice();
        let slots = Row::places_in(row.places);
        for (slot, words) in slots.zip(row.words().chunks_exact(words_in_slot)) {
            let (ring, others) = rest.split_at_mut(ring_cells);
            rest = others;
            let rebase = |word, ring: &mut [u64]| params.rebase(word, ring, &change);
            table
                .restore(
                    SavedSlot { bucket: row.bucket, place: slot, words, ring },
                    params,
                    instant,
                    rebase,
                )
                .map_err(|_| damaged("a key is in a slot where it cannot be"))?;
            keys += 1;
        }
    }
    if keys != header.keys {
        return Err(damaged("it has not as many keys as its header says"));
    }
    match (gate.when_full(), &header.overflow) {
        (WhenFull::Share(shared), Some((state, ring))) => {
            let (params, bucket) = &**shared;
            if *state >> PAYLOAD_BITS != 0 {
                return Err(damaged("its overflow state is invalid"));
            }
            let mut ring = ring.clone();
            if let Some(state) =
                params.rebase(*state, &mut ring, &clock_change(gate, params, restart))
            {
                bucket.cell().restore::<A::Params>(state, &ring);
            }
            Ok(())
        }
        (_, Some(_)) => {
            Err(damaged("it has an overflow state for a limiter without a shared overflow"))
        }
        (_, None) => Ok(()),
    }
}

fn clock_change<K: ?Sized, A: Algorithm<Params: Rebase>, C: Clock>(
    gate: &Limiter<K, A, C>,
    params: &A::Params,
    restart: Restart,
) -> ClockChange {
    let now = params.unstepped(&gate.still(params, restart.now.tick), restart.now);
    params.clock_change(&Restart { now, ..restart })
}

fn restart(clock: &impl Clock, header: &Header) -> Restart {
    // In this order: a pause between the two makes the states younger.
    let (unix_nanos, tick) = at_once(clock, || (clock.unix_now_nanos(), clock.now()));
    let elapsed = Duration::from_nanos(unix_nanos.saturating_sub(header.unix_nanos));
    let now = Moment { tick, unix_origin_nanos: clock.unix_origin_nanos() };
    let then =
        Moment { tick: Tick::from_nanos(header.tick), unix_origin_nanos: header.unix_origin_nanos };
    Restart { then, elapsed, now }
}
