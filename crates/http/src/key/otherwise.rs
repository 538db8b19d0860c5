//! A key of one kind, or else of another.

use core::fmt;

use http::request::Parts;

use super::{Extractor, KeyError};

/// The first key, or if it is missing the second: see [`Extractor::otherwise`].
///
/// ```
/// use tollgate_http::key::{Header, Otherwise, PeerIp};
/// let key: Otherwise<Header, PeerIp>;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Otherwise<A, B>(pub(super) A, pub(super) B);

impl<A: Extractor, B: Extractor> Extractor for Otherwise<A, B> {
    type Key = Either<A::Key, B::Key>;

    fn extract(&self, request: &Parts) -> Result<Self::Key, KeyError> {
        match self.0.extract(request) {
            Err(KeyError::Missing) => self.1.extract(request).map(Either::Second),
            found => found.map(Either::First),
        }
    }
}

/// A key of one of two kinds: the key of [`Otherwise`].
///
/// **Guarantee.** A key of the first kind never equals a key of the second, and never shares its bucket,
/// because the kind is hashed with the key. (As with all keys, two with equal hashes share a bucket:
/// see [`Limiter`](tollgate::Limiter).) As text, a key of the first kind begins with `1:`, and one of the
/// second with `2:`.
///
/// ```
/// use std::net::IpAddr;
/// use tollgate_http::key::Either;
///
/// let named: Either<String, IpAddr> = Either::First("192.0.2.7".to_owned());
/// let address: Either<String, IpAddr> = Either::Second("192.0.2.7".parse()?);
/// assert_ne!(named, address);
/// assert_eq!((named.to_string(), address.to_string()), ("1:192.0.2.7".into(), "2:192.0.2.7".into()));
/// # Ok::<(), std::net::AddrParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "there are two")]
pub enum Either<A, B> {
    /// Found by the first extractor.
    First(A),
    /// Found by the second, because the first was missing.
    Second(B),
}

impl<A: fmt::Display, B: fmt::Display> fmt::Display for Either<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First(key) => write!(f, "1:{key}"),
            Self::Second(key) => write!(f, "2:{key}"),
        }
    }
}
