//! A limiter with the states of a snapshot.

use core::fmt;
use core::time::Duration;

use super::format::{Header, Rows, VERSION, damaged, open};
use super::shape::Shape;
use crate::algo::{Algorithm, Moment, PAYLOAD_BITS, Rebase, Restart, StateMachine};
use crate::limiter::builder::{BuildError, Builder};
use crate::limiter::{Limiter, WhenFull};
use crate::table::Row;
use crate::time::{Clock, Tick};

/// Why a snapshot is denied; its text says what to do. Nothing has been changed.
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
    /// It does not begin as a snapshot does.
    NotASnapshot,
    /// It is of a version of the format that this version of the crate does not know.
    Version(u32),
    /// It ends before its end.
    TooShort,
    /// It is not as it was written.
    Damaged {
        /// What shows it.
        what: &'static str,
    },
    /// Keys hash otherwise here than where it was written.
    OtherHash,
    /// The limiter that wrote it was built otherwise.
    Different {
        /// What is different.
        what: &'static str,
    },
    /// The limiter cannot be built at all.
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
                "this is no snapshot of a limiter: give the bytes that Limiter::snapshot returned",
            ),
            Self::Version(version) => write!(
                f,
                "the snapshot's format is version {version}, and only {VERSION} is known here: \
                 restore it by the version of tollgate that wrote it, or begin without",
            ),
            Self::TooShort => f.write_str(
                "the snapshot is cut off: it was not written, or not read, to its end; use \
                 another copy, or begin without",
            ),
            Self::Damaged { what } => {
                write!(f, "the snapshot is damaged, {what}: use another copy, or begin without",)
            }
            Self::OtherHash => f.write_str(
                "keys hash otherwise here than where the snapshot was written (another processor, \
                 or another version of the hash): its keys could not be found; begin without",
            ),
            Self::Different { what } => write!(
                f,
                "the limiter that wrote the snapshot differs in {what}: build the same, or begin \
                 without",
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
    /// Builds the limiter with the states of a [snapshot](Limiter::snapshot), as old as they are
    /// by now.
    ///
    /// Algorithm and options, quota, capacity, kind of slots, and the quota of a shared overflow
    /// must be those of the limiter that was saved; clock, skew and the other policies need not
    /// be.
    ///
    /// **Guarantee.** A key that was live is granted no more than if the first limiter had gone on
    /// for the time between, and is held to no more than one unit of the
    /// [grid](crate::algo::Grid) beyond it; where the clocks' origins are apart by whole units,
    /// every decision is the same. Windows and sub-windows aligned to the wall clock are the same
    /// ones, wherever the clocks' origins are.
    ///
    /// **Not guaranteed.**
    ///
    /// - The time between is what [the wall clock](Clock::unix_now_nanos) has moved on. If it was
    ///   set forward, keys are forgiven so much more; if it was set back, no time has passed.
    /// - Keys must hash as they did: `K` must be the same type (or hash alike, as `str` and
    ///   `String` do), by the same implementation of [`Hash`](core::hash::Hash). What can be told
    ///   of that, by some fixed values of standard types, is checked.
    /// - A snapshot may be restored more than once, and then grants more than once.
    ///
    /// # Errors
    ///
    /// What is wrong with the snapshot, or with the limiter; nothing is built then. A builder for
    /// beginning without can be made beforehand.
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

/// Puts everything into a limiter that nobody has yet.
fn fill<K: ?Sized, A: Algorithm<Params: Rebase>, C: Clock>(
    gate: &Limiter<K, A, C>,
    header: &Header,
    mut rows: Rows<'_>,
) -> Result<(), RestoreError> {
    let restart = restart(gate.clock(), header);
    let (params, table) = (gate.params(), gate.table());
    let passage = params.passage(&restart);
    let instant = params.instant(restart.now.tick);
    let (words_in_slot, ring_cells) = (table.words_in_slot(), params.kept_cells());
    let mut keys = 0;
    while let Some(mut row) = rows.next(words_in_slot, ring_cells)? {
        let mut rings = core::mem::take(&mut row.rings);
        let mut rest = rings.as_mut_slice();
        let places = Row::places_in(row.places);
        for (place, words) in places.zip(row.words().chunks_exact(words_in_slot)) {
            let (ring, others) = rest.split_at_mut(ring_cells);
            rest = others;
            let rebase = |word, ring: &mut [u64]| params.rebase(word, ring, &passage);
            table
                .put_back(row.bucket, place, (words, ring), params, instant, rebase)
                .map_err(|_| damaged("a key is where it cannot be"))?;
            keys += 1;
        }
    }
    if keys != header.keys {
        return Err(damaged("its keys are not as many as it says"));
    }
    match (gate.when_full(), &header.overflow) {
        (WhenFull::Share(shared), Some((state, ring))) => {
            let (params, cell) = &**shared;
            if *state >> PAYLOAD_BITS != 0 {
                return Err(damaged("its overflow state is none"));
            }
            let mut ring = ring.clone();
            if let Some(state) = params.rebase(*state, &mut ring, &params.passage(&restart)) {
                cell.put_back::<A::Params>(state, &ring);
            }
            Ok(())
        }
        (_, Some(_)) => Err(damaged("its overflow state is nobody's")),
        (_, None) => Ok(()),
    }
}

fn restart(clock: &impl Clock, header: &Header) -> Restart {
    // In this order: a pause in between makes states younger.
    let unix_nanos = clock.unix_now_nanos();
    let tick = clock.now();
    let elapsed = Duration::from_nanos(unix_nanos.saturating_sub(header.unix_nanos));
    let now = Moment { tick, unix_origin_nanos: clock.unix_origin_nanos() };
    let then =
        Moment { tick: Tick::from_nanos(header.tick), unix_origin_nanos: header.unix_origin_nanos };
    Restart { then, elapsed, now }
}
