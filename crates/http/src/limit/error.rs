//! Errors of building a limit.

use core::fmt;

use tollgate::BuildError;
use tollgate::concurrency::ConcurrencyError;

use crate::headers::PolicyError;

/// Why a [`Limit`](crate::Limit) or an [`InFlightLimit`](crate::InFlightLimit) cannot be built.
///
/// ```
/// # use {tollgate::Quota, tollgate_http::{Limit, LimitError, key::PeerIp}};
/// let error = Limit::gcra("a", Quota::per_second(0), PeerIp::new()).unwrap_err();
/// assert!(matches!(error, LimitError::Limiter(_)));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum LimitError {
    /// The name does not fit the `RateLimit` fields.
    Name(PolicyError),
    /// The limiter cannot be built.
    Limiter(BuildError),
    /// The limiter of requests in flight cannot be built.
    InFlight(ConcurrencyError),
}

impl fmt::Display for LimitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => error.fmt(f),
            Self::Limiter(error) => error.fmt(f),
            Self::InFlight(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for LimitError {}
