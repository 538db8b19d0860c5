//! The builder of a limiter without keys.

use core::fmt;

use crate::algo::Algorithm;
use crate::algo::gcra::Gcra;
use crate::limiter::builder::ClockSource;
use crate::limiter::direct::Direct;
use crate::quota::{Quota, QuotaError};
use crate::table::OneBucket;
use crate::time::Clock;
use crate::time::quanta_clock::QuantaClock;
#[cfg(feature = "shared-memory")]
use {crate::limiter::builder::BuildError, crate::table::Source};

/// Builds a [`Direct`]. Made by [`Direct::builder`].
///
/// ```
/// use tollgate::{Direct, FixedWindow, Quota};
/// let gate = Direct::builder(Quota::per_day(5)).algorithm(FixedWindow::anchored()).build()?;
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct DirectBuilder<A = Gcra, C = QuantaClock> {
    quota: Quota,
    algorithm: A,
    clock: ClockSource<C>,
}

impl<A, C> DirectBuilder<A, C> {
    pub(super) fn new(quota: Quota, algorithm: A, clock: ClockSource<C>) -> Self {
        Self { quota, algorithm, clock }
    }

    /// Chooses the algorithm. The default is [`Gcra`].
    ///
    /// ```
    /// # use tollgate::{Direct, FixedWindow, Quota};
    /// let gate = Direct::builder(Quota::per_day(5)).algorithm(FixedWindow::aligned()).build()?;
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn algorithm<B: Algorithm>(self, algorithm: B) -> DirectBuilder<B, C> {
        DirectBuilder { algorithm, quota: self.quota, clock: self.clock }
    }

    /// Chooses the clock. The default is [`QuantaClock`].
    ///
    /// ```
    /// # use tollgate::{Direct, ManualClock, Quota};
    /// let gate = Direct::builder(Quota::per_day(5)).clock(ManualClock::new()).build()?;
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn clock<D: Clock>(self, clock: D) -> DirectBuilder<A, D> {
        DirectBuilder {
            clock: ClockSource::Given(clock),
            quota: self.quota,
            algorithm: self.algorithm,
        }
    }
}

impl<A: Algorithm, C: Clock> DirectBuilder<A, C> {
    /// Checks the quota.
    ///
    /// # Errors
    ///
    /// The quota is out of range; the error says what to do.
    ///
    /// ```
    /// # use tollgate::{Direct, Quota};
    /// assert!(Direct::builder(Quota::per_second(0)).build().is_err());
    /// ```
    pub fn build(self) -> Result<Direct<A, C>, QuotaError> {
        let clock = self.clock.into_clock();
        let params = params(&self.algorithm, &self.quota, &clock)?;
        Ok(Direct::from_parts(OneBucket::own(&params), params, clock))
    }
}

/// The parameters of a valid quota.
fn params<A: Algorithm>(
    algorithm: &A,
    quota: &Quota,
    clock: &impl Clock,
) -> Result<A::Params, QuotaError> {
    quota.validate()?;
    algorithm.params(quota, clock.unix_origin_nanos())
}

#[cfg(feature = "shared-memory")]
impl<A: Algorithm> DirectBuilder<A> {
    /// Builds a limiter in the memory that `find` has. It may replace the parameters, too.
    pub(super) fn build_in<D: Clock, E: From<BuildError>>(
        &self,
        clock: D,
        find: impl FnOnce(&mut A::Params) -> Result<Source, E>,
    ) -> Result<Direct<A, D>, E> {
        let params = params(&self.algorithm, &self.quota, &clock);
        let mut params = params.map_err(BuildError::from)?;
        let source = find(&mut params)?;
        let bucket = OneBucket::new(&params, &source).map_err(|_| BuildError::OutOfMemory)?;
        Ok(Direct::from_parts(bucket, params, clock))
    }
}

impl<A: fmt::Debug, C> fmt::Debug for DirectBuilder<A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DirectBuilder")
            .field("quota", &self.quota)
            .field("algorithm", &self.algorithm)
            .finish_non_exhaustive()
    }
}
