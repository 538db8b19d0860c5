//! Builds a limiter, keyed or not, in a block that is found or created.

use core::marker::PhantomData;

use super::header::{Form, Kind};
use super::site::{Site, build_at};
use super::{Shared, SharedError};
use crate::algo::{Algorithm, CONFIG_WORDS, Rebase, StateMachine};
use crate::limiter::Limiter;
use crate::limiter::builder::{BuildError, Builder, Memory, TableShape};
use crate::limiter::direct::Direct;
use crate::limiter::direct_builder::DirectBuilder;
use crate::table::{OneBucket, Placed, Source, Table, Tally};
use crate::time::Clock;
use crate::time::monotonic_clock::MonotonicClock;
use crate::time::wall::WallWords;

/// Parameters that a block is compared with.
pub(crate) trait Content<P> {
    /// The number of the algorithm.
    fn algorithm(params: &P) -> u64;

    /// The values that have to be the same in all processes.
    fn config(params: &P, origin: u64) -> [u64; CONFIG_WORDS];

    /// As [`config`](Self::config), for parameters of the shared overflow.
    fn overflow_config(params: &P, origin: u64) -> [u64; CONFIG_WORDS] {
        Self::config(params, origin)
    }

    /// Bytes of a block that they take themselves.
    fn block_bytes(params: &mut P) -> usize;

    /// Takes from the block what comes before the table: a quota that all processes have in common.
    fn place(_: &mut P, _: &Source) -> Result<(), SharedError> {
        Ok(())
    }

    /// Moves into the block, after the table, the words that change while windows follow the wall clock.
    fn move_in(_: &mut P, _: &Source) -> Result<(), SharedError> {
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

    fn block_bytes(params: &mut P) -> usize {
        params.wall_clock_mut().map_or(0, |_| Placed::<WallWords>::BLOCK_BYTES)
    }

    fn move_in(params: &mut P, source: &Source) -> Result<(), SharedError> {
        if let Some(wall) = params.wall_clock_mut() {
            let words = Placed::new(source, wall.unread_words());
            wall.move_to(Box::new(words.map_err(|_| BuildError::OutOfMemory)?));
        }
        Ok(())
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
        begun.build_in(&mut SharedMemory::<T>(site, PhantomData))
    })
}

/// The memory of a site, for parameters that `T` knows.
struct SharedMemory<'a, 's, T>(&'a mut Site<'s>, PhantomData<T>);

impl<P: StateMachine, T: Content<P>> Memory<P> for SharedMemory<'_, '_, T> {
    type Error = SharedError;

    fn find(&mut self, params: &mut P, shape: &TableShape<'_, P>) -> Result<Source, SharedError> {
        let form = table_form::<P, T>(params, shape, self.0.clock().unix_origin_nanos());
        let source = self.0.source(form)?;
        T::place(params, &source)?;
        Ok(source)
    }

    fn move_in(&self, params: &mut P, source: &Source) -> Result<(), SharedError> {
        T::move_in(params, source)
    }
}

fn table_form<P: StateMachine, T: Content<P>>(
    params: &mut P,
    shape: &TableShape<'_, P>,
    origin: u64,
) -> Form {
    let &TableShape { is_compact, buckets, ring, counts_decisions, overflow } = shape;
    let own = T::block_bytes(params);
    let parts = [
        own,
        Table::block_bytes(is_compact, buckets, ring),
        // Windows of the overflow follow the wall clock if the others do.
        overflow.map_or(0, |params| OneBucket::block_bytes(params).saturating_add(own)),
        if counts_decisions { Tally::BLOCK_BYTES } else { 0 },
    ];
    Form {
        kind: if is_compact { Kind::Compact } else { Kind::Wide },
        algorithm: T::algorithm(params),
        config: T::config(params, origin),
        ring_words: params.ring_cells(),
        buckets,
        counts_decisions,
        overflow: overflow.map_or([0; CONFIG_WORDS], |params| T::overflow_config(params, origin)),
        bytes: parts.into_iter().fold(0, usize::saturating_add),
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
            let bytes = T::block_bytes(params).saturating_add(OneBucket::block_bytes(params));
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
            T::move_in(params, &source)?;
            Ok(source)
        })
    })
}
