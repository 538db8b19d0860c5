//! Requests in flight in all processes of a machine.

use crate::algo::in_flight::InFlight;
use crate::algo::{CONFIG_WORDS, StateMachine};
use crate::concurrency::builder::{ConcurrencyBuilder, DirectConcurrencyBuilder};
use crate::concurrency::{ConcurrencyError, ConcurrencyLimiter, DirectConcurrency};
use crate::limiter::shared::{Form, IN_FLIGHT, Kind, Shared, SharedError, Site, build_at};
use crate::sync::SharedValue;
use crate::table::{OneBucket, Placed, RingLayout, Source, Table, Tally};
use crate::time::monotonic_clock::MonotonicClock;

impl<K: ?Sized> ConcurrencyBuilder<K> {
    /// Checks everything, and takes the memory from a block that other processes share: it is created, or
    /// attached if it is there. See [`shared`](crate::shared).
    ///
    /// It needs a [longest hold](Self::max_hold): a process that is killed leaves its requests in the
    /// counts, and after the longest hold they are taken for lost. The limit is part of what is shared: a process that
    /// attaches takes the limit in force, and a [change](ConcurrencyLimiter::set_limit) is seen by all.
    ///
    /// # Errors
    ///
    /// As for [`build`](Self::build); there is no longest hold; the system has no memory, or the block was
    /// made by another program or with other choices. The error names the first that differs.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::concurrency::ConcurrencyLimiter;
    /// use tollgate::shared::Shared;
    ///
    /// let gate = ConcurrencyLimiter::<str>::builder(10)
    ///     .max_hold(Duration::from_secs(60))
    ///     .build_shared(&Shared::anonymous())?;
    /// // Fork the workers here.
    /// let guard = gate.enter("192.0.2.7")?;
    /// # drop(guard);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build_shared(
        self,
        shared: &Shared,
    ) -> Result<ConcurrencyLimiter<K, MonotonicClock>, SharedError> {
        build_at(shared, self.seeds, |site| {
            let (clock, seeds) = (site.clock(), site.seeds());
            self.build_in(clock, seeds, |machine, buckets, overflow| {
                let ring = RingLayout::of(machine);
                let parts = [
                    Table::block_bytes(false, buckets, ring),
                    overflow.map_or(0, |_| OneBucket::block_bytes(machine)),
                    if self.count_decisions { Tally::BLOCK_BYTES } else { 0 },
                ];
                let form = Form {
                    kind: Kind::Concurrency,
                    buckets,
                    counts_decisions: self.count_decisions,
                    overflow: words([overflow.unwrap_or(0)]),
                    ..form(machine, parts.into_iter().fold(0, usize::saturating_add))
                };
                place(site, form, machine)
            })
        })
    }
}

impl From<ConcurrencyError> for SharedError {
    fn from(error: ConcurrencyError) -> Self {
        match error {
            ConcurrencyError::Table(error) => Self::Build(error),
            error => Self::Choice(Box::new(error)),
        }
    }
}

impl DirectConcurrencyBuilder {
    /// As [`ConcurrencyBuilder::build_shared`].
    ///
    /// # Errors
    ///
    /// Those of that method.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::concurrency::DirectConcurrency;
    /// use tollgate::shared::Shared;
    ///
    /// let upstream = DirectConcurrency::builder(8)
    ///     .max_hold(Duration::from_secs(60))
    ///     .build_shared(&Shared::anonymous())?;
    /// let guard = upstream.enter()?;
    /// # drop(guard);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn build_shared(
        self,
        shared: &Shared,
    ) -> Result<DirectConcurrency<MonotonicClock>, SharedError> {
        build_at(shared, None, |site| {
            self.build_in(site.clock(), |machine| {
                place(site, form(machine, OneBucket::block_bytes(machine)), machine)
            })
        })
    }
}

/// The form of one count, beside pieces of `bytes` bytes.
fn form(machine: &InFlight<'_>, bytes: usize) -> Form {
    Form {
        kind: Kind::DirectConcurrency,
        algorithm: IN_FLIGHT,
        config: words([machine.holds.hold_nanos()]),
        ring_words: machine.ring_cells(),
        buckets: 0,
        counts_decisions: false,
        overflow: words([]),
        bytes: bytes.saturating_add(Placed::<SharedValue>::BLOCK_BYTES),
    }
}

fn place(site: &mut Site<'_>, form: Form, machine: &InFlight<'_>) -> Result<Source, SharedError> {
    match machine.holds.expire() {
        true => site.source(form),
        false => Err(SharedError::NoMaxHold),
    }
}

fn words<const N: usize>(first: [u64; N]) -> [u64; CONFIG_WORDS] {
    core::array::from_fn(|index| first.get(index).copied().unwrap_or(0))
}

#[cfg(all(test, target_os = "linux", not(any(tollgate_loom, tollgate_shuttle))))]
mod tests {
    use core::time::Duration;
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::concurrency::WhenNoSlot;
    use crate::limiter::Limiter;
    use crate::limiter::shared::tests::{Place, choices, pieces_of};
    use crate::quota::Quota;

    const HOLD: Duration = Duration::from_secs(60);

    fn each() -> ConcurrencyBuilder<u64> {
        ConcurrencyLimiter::builder(10).max_hold(HOLD).capacity(100)
    }

    fn all() -> DirectConcurrencyBuilder {
        DirectConcurrency::builder(10).max_hold(HOLD)
    }

    /// Other versions of the crate find the same words at the same places.
    #[test]
    fn a_header_has_zeros_for_what_a_limit_does_not_have() {
        let (of_each, of_all) = (Place::new(), Place::new());
        each().build_shared(&of_each.shared()).expect("created");
        all().build_shared(&of_all.shared()).expect("created");
        let first = |kind| vec![kind, 9, 60_000_000_000, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(choices(&of_each), (first(3), vec![23, 0, 0, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(choices(&of_all), (first(4), vec![0; 10]));
    }

    /// A count and its limit are a piece each, of 128 bytes; the overflow of a table is another count.
    #[test]
    fn a_block_is_as_long_as_its_pieces() {
        let keyed = Limiter::<u64>::builder(Quota::per_day(100)).capacity(100);
        let table = pieces_of(|shared| keyed.build_shared(shared));
        assert_eq!(pieces_of(|shared| all().build_shared(shared)), 256);
        assert_eq!(pieces_of(|shared| each().build_shared(shared)), table + 128);
        let sharing = each().when_no_slot(WhenNoSlot::SharedOverflow(3));
        assert_eq!(pieces_of(|shared| sharing.build_shared(shared)), table + 256);
    }

    #[test]
    fn a_description_shows_the_limit_in_force() {
        let place = Place::new();
        let gate = each().build_shared(&place.shared()).expect("created");
        gate.set_limit(7).expect("in range");
        let quota = || place.describe().quota.expect("an algorithm");
        assert_eq!(quota(), "7 in flight, each lost after 60s");
        // The header states a length that has no place for the limit, or one that no file has.
        for bytes in [9, 128, 4_096, u64::MAX] {
            place.file().write_all_at(&bytes.to_ne_bytes(), 2 * 8).expect("written");
            assert_eq!(quota(), "spoilt");
        }
    }
}
