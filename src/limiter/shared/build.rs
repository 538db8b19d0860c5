//! Builds a limiter, keyed or not, in a block that is found or created.

use super::header::{Form, Kind};
use super::site::{Site, build_at};
use super::{Shared, SharedError};
use crate::algo::{Algorithm, CONFIG_WORDS, Rebase, StateMachine};
use crate::limiter::Limiter;
use crate::limiter::builder::{Builder, TableShape};
use crate::limiter::direct::Direct;
use crate::limiter::direct_builder::DirectBuilder;
use crate::table::{OneBucket, Source, Table, Tally};
use crate::time::Clock;
use crate::time::monotonic_clock::MonotonicClock;

/// Parameters that a block is compared with.
pub(crate) trait Content<P> {
    /// Bytes of a block that they take themselves.
    const BLOCK_BYTES: usize = 0;

    /// The number of the algorithm.
    fn algorithm(params: &P) -> u64;

    /// The values that have to be the same in all processes.
    fn config(params: &P, origin: u64) -> [u64; CONFIG_WORDS];

    /// As [`config`](Self::config), for parameters of the shared overflow.
    fn overflow_config(params: &P, origin: u64) -> [u64; CONFIG_WORDS] {
        Self::config(params, origin)
    }

    /// The choice that cannot be shared, if there is one.
    fn unshared(params: &P) -> Option<&'static str>;

    /// Takes from the block what all processes have in common.
    fn place(_: &mut P, _: &Source) -> Result<(), SharedError> {
        Ok(())
    }
}

/// Parameters that never change.
pub(super) struct Fixed;

impl<P: Rebase> Content<P> for Fixed {
    fn algorithm(params: &P) -> u64 {
        params.algorithm()
    }

    fn config(params: &P, origin: u64) -> [u64; CONFIG_WORDS] {
        params.config_words(origin)
    }

    fn unshared(params: &P) -> Option<&'static str> {
        (!params.is_still()).then_some("FixedWindow::aligned")
    }
}

impl<K: ?Sized, A: Algorithm<Params: Rebase>> Builder<K, A> {
    /// Checks everything, and takes the memory from a block that other processes share: it is created, or
    /// attached if it is there. See [`shared`](crate::shared).
    ///
    /// The limiter decides by a [`MonotonicClock`], and a block that is there has its own seeds of the
    /// hash. The block has no huge pages.
    ///
    /// # Errors
    ///
    /// As for [`build`](Builder::build); and the system has no memory, or the block was made by another
    /// program or with other choices. The error names the first that differs.
    ///
    /// ```
    /// use tollgate::shared::Shared;
    /// use tollgate::{FixedWindow, Limiter, Quota};
    ///
    /// let gate = Limiter::<str>::builder(Quota::per_day(100))
    ///     .algorithm(FixedWindow::anchored())
    ///     .build_shared(&Shared::anonymous())?;
    /// assert!(gate.check("192.0.2.7").is_ok());
    /// # Ok::<(), tollgate::shared::SharedError>(())
    /// ```
    pub fn build_shared(
        self,
        shared: &Shared,
    ) -> Result<Limiter<K, A, MonotonicClock>, SharedError> {
        build_table::<K, A, Fixed>(&self, shared)
    }
}

/// Builds a limiter with keys.
pub(crate) fn build_table<K: ?Sized, A: Algorithm, T: Content<A::Params>>(
    builder: &Builder<K, A>,
    shared: &Shared,
) -> Result<Limiter<K, A, MonotonicClock>, SharedError> {
    build_at(shared, builder.seeds, |site| {
        let mut begun = builder.with_clock(site.clock());
        begun.seeds = Some(site.seeds());
        begun.build_in(|params, shape| {
            let source = site.source(table_form::<A::Params, T>(params, shape, site)?)?;
            T::place(params, &source)?;
            Ok(source)
        })
    })
}

fn table_form<P: StateMachine, T: Content<P>>(
    params: &P,
    shape: &TableShape<'_, P>,
    site: &Site<'_>,
) -> Result<Form, SharedError> {
    let &TableShape { is_compact, buckets, ring, counts_decisions, overflow } = shape;
    check_shared::<P, T>(params)?;
    let origin = site.clock().unix_origin_nanos();
    let parts = [
        T::BLOCK_BYTES,
        Table::block_bytes(is_compact, buckets, ring),
        overflow.map_or(0, OneBucket::block_bytes),
        if counts_decisions { Tally::BLOCK_BYTES } else { 0 },
    ];
    Ok(Form {
        kind: if is_compact { Kind::Compact } else { Kind::Wide },
        algorithm: T::algorithm(params),
        config: T::config(params, origin),
        ring_words: params.ring_cells(),
        buckets,
        counts_decisions,
        overflow: overflow.map_or([0; CONFIG_WORDS], |params| T::overflow_config(params, origin)),
        bytes: parts.into_iter().fold(0, usize::saturating_add),
    })
}

fn check_shared<P, T: Content<P>>(params: &P) -> Result<(), SharedError> {
    match T::unshared(params) {
        Some(choice) => Err(SharedError::NotShared { choice }),
        None => Ok(()),
    }
}

impl<A: Algorithm<Params: Rebase>> DirectBuilder<A> {
    /// Checks the quota, and takes the memory from a block that other processes share: it is created, or
    /// attached if it is there. See [`shared`](crate::shared).
    ///
    /// # Errors
    ///
    /// As for [`Builder::build_shared`].
    ///
    /// ```
    /// use tollgate::shared::Shared;
    /// use tollgate::{Direct, Quota};
    ///
    /// let upstream = Direct::builder(Quota::per_second(500)).build_shared(&Shared::anonymous())?;
    /// // Fork the workers here.
    /// assert!(upstream.check().is_ok());
    /// # Ok::<(), tollgate::shared::SharedError>(())
    /// ```
    pub fn build_shared(self, shared: &Shared) -> Result<Direct<A, MonotonicClock>, SharedError> {
        build_bucket::<A, Fixed>(&self, shared)
    }
}

/// Builds a limiter with one bucket.
pub(crate) fn build_bucket<A: Algorithm, T: Content<A::Params>>(
    builder: &DirectBuilder<A>,
    shared: &Shared,
) -> Result<Direct<A, MonotonicClock>, SharedError> {
    build_at(shared, None, |site| {
        let clock = site.clock();
        builder.build_in(clock, |params| {
            check_shared::<A::Params, T>(params)?;
            let bytes = OneBucket::block_bytes(params).saturating_add(T::BLOCK_BYTES);
            let source = site.source(Form {
                kind: Kind::Direct,
                algorithm: T::algorithm(params),
                config: T::config(params, clock.unix_origin_nanos()),
                ring_words: params.ring_cells(),
                buckets: 0,
                counts_decisions: false,
                overflow: [0; CONFIG_WORDS],
                bytes,
            })?;
            T::place(params, &source)?;
            Ok(source)
        })
    })
}
