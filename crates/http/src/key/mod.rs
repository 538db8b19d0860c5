//! Extractors of keys. An extractor takes from a request the key by which a limiter counts it.
//!
//! | extractor | key | type |
//! |---|---|---|
//! | [`PeerIp`] | the address of the peer | `IpAddr` |
//! | [`ClientIp`] | the client's address behind trusted proxies | `IpAddr` |
//! | [`Header`] | a header's text | [`HeaderText`], for a `Limiter<str>` |
//! | [`Method`] | the method | `http::Method` |
//! | [`Templates`], `Matched` | the template that the path matches | `Arc<str>`, for a `Limiter<str>` |
//! | [`from_fn`] | the result of a closure | its own |
//! | `(a, b)`, `(a, b, c)` | all keys together | a tuple |
//! | [`otherwise`](Extractor::otherwise) | the first key, or else the second, of another kind | [`Either`] |
//! | [`or`](Extractor::or) | the first key, or else the second, of the same kind | that of both |

mod forwarded;
mod header;
mod node;
mod otherwise;
mod peer;
mod route;
mod text;

use core::fmt;
use core::hash::Hash;

use http::request::Parts;

pub use forwarded::{ClientIp, ParseNetworkError, Trust};
pub use header::Header;
pub use otherwise::{Either, Otherwise};
pub(crate) use peer::place_peer;
pub use peer::{IpPrefix, PeerIp};
#[cfg(feature = "axum")]
pub use route::Matched;
pub use route::{Method, TemplateError, Templates};
pub use text::HeaderText;

/// Finds the key of a request.
///
/// ```
/// use http::request::Parts;
/// use tollgate_http::{KeyError, key::Extractor};
///
/// /// The requested host.
/// struct Host;
/// impl Extractor for Host {
///     type Key = String;
///     fn extract(&self, request: &Parts) -> Result<String, KeyError> {
///         request.uri.host().map(str::to_ascii_lowercase).ok_or(KeyError::Missing)
///     }
/// }
/// let (request, ()) = http::Request::get("http://Example.com/").body(())?.into_parts();
/// assert_eq!(Host.extract(&request).as_deref(), Ok("example.com"));
/// # Ok::<(), http::Error>(())
/// ```
pub trait Extractor: Send + Sync {
    /// The key.
    type Key: Hash;

    /// Finds the key.
    ///
    /// # Errors
    ///
    /// The request has no key, for this reason.
    fn extract(&self, request: &Parts) -> Result<Self::Key, KeyError>;

    /// This key, or if it is [missing](KeyError::Missing) a key of another kind. If this one is
    /// malformed, there is no key.
    ///
    /// Keys of the two kinds are never equal, so a client that sends an address as its API key is not
    /// counted as that address: see [`Either`]. For keys of one kind, see [`or`](Self::or).
    ///
    /// **Not guaranteed.** The first key may not be genuine. If clients can invent it, each new one has
    /// a fresh quota, and an address is limited only if it sends none. Put the layer behind the check of
    /// the key, or add a limit by address with [`Several`](crate::Several).
    ///
    /// ```
    /// use tollgate::Quota;
    /// use tollgate_http::Limit;
    /// use tollgate_http::key::{Extractor, Header, PeerIp};
    ///
    /// // The API key, otherwise the address.
    /// let key = Header::new("x-api-key")?.otherwise(PeerIp::new());
    /// let limit = Limit::gcra("per-client", Quota::per_second(10), key)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn otherwise<E: Extractor>(self, other: E) -> Otherwise<Self, E>
    where
        Self: Sized,
    {
        Otherwise(self, other)
    }

    /// This key, or if it is [missing](KeyError::Missing) the other. If this one is malformed, there is
    /// no key. Both have one type, and equal values of both are one key. For keys of two kinds, see
    /// [`otherwise`](Self::otherwise).
    ///
    /// ```
    /// use tollgate_http::key::{Extractor, Header, HeaderText, from_fn};
    ///
    /// let anonymous = from_fn(|_| Some(HeaderText::from("anonymous")));
    /// let key = Header::new("x-api-key")?.or(anonymous);
    /// let (request, ()) = http::Request::new(()).into_parts();
    /// assert_eq!(key.extract(&request).as_deref(), Ok("anonymous"));
    /// # Ok::<(), http::Error>(())
    /// ```
    fn or<E: Extractor<Key = Self::Key>>(self, other: E) -> Or<Self, E>
    where
        Self: Sized,
    {
        Or(self, other)
    }
}

/// Why a request has no key.
///
/// ```
/// use tollgate_http::KeyError;
/// assert_eq!(KeyError::Missing.to_string(), "the request carries no key");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The request does not have it, or a trusted proxy hides it.
    Missing,
    /// The request has something else in its place, or too much of it.
    Malformed,
    /// The server does not provide what the key is made of, such as the peer's address.
    Unavailable,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "the request carries no key",
            Self::Malformed => "the request's key is malformed",
            Self::Unavailable => {
                "the server does not provide what the key is made of; for the client's address, \
                 serve with `into_make_service_with_connect_info::<SocketAddr>()`, or put a \
                 `SocketAddr` into the request's extensions"
            }
        })
    }
}

impl core::error::Error for KeyError {}

/// The first key, or if it is missing the second: see [`Extractor::or`].
///
/// ```
/// use tollgate_http::key::{Header, Or};
/// let key: Or<Header, Header>;
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Or<A, B>(A, B);

impl<A: Extractor, B: Extractor<Key = A::Key>> Extractor for Or<A, B> {
    type Key = A::Key;

    fn extract(&self, request: &Parts) -> Result<A::Key, KeyError> {
        match self.0.extract(request) {
            Err(KeyError::Missing) => self.1.extract(request),
            found => found,
        }
    }
}

impl<A: Extractor, B: Extractor> Extractor for (A, B) {
    type Key = (A::Key, B::Key);

    fn extract(&self, request: &Parts) -> Result<Self::Key, KeyError> {
        Ok((self.0.extract(request)?, self.1.extract(request)?))
    }
}

impl<A: Extractor, B: Extractor, C: Extractor> Extractor for (A, B, C) {
    type Key = (A::Key, B::Key, C::Key);

    fn extract(&self, request: &Parts) -> Result<Self::Key, KeyError> {
        Ok((self.0.extract(request)?, self.1.extract(request)?, self.2.extract(request)?))
    }
}

/// A key that a closure finds; `None` if it is missing.
///
/// ```
/// use tollgate_http::key::{Extractor, from_fn};
///
/// let first_letter = from_fn(|request| request.uri.path().chars().nth(1));
/// let (request, ()) = http::Request::get("/alpha").body(())?.into_parts();
/// assert_eq!(first_letter.extract(&request), Ok('a'));
/// # Ok::<(), http::Error>(())
/// ```
pub fn from_fn<F, K>(find: F) -> FromFn<F>
where
    F: Fn(&Parts) -> Option<K> + Send + Sync,
    K: Hash,
{
    FromFn(find)
}

/// An extractor made by [`from_fn`].
///
/// ```
/// use tollgate_http::key::{FromFn, from_fn};
/// let one_for_all: FromFn<fn(&http::request::Parts) -> Option<()>> = from_fn(|_| Some(()));
/// ```
#[derive(Clone, Copy)]
pub struct FromFn<F>(F);

impl<F> fmt::Debug for FromFn<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FromFn")
    }
}

impl<F, K> Extractor for FromFn<F>
where
    F: Fn(&Parts) -> Option<K> + Send + Sync,
    K: Hash,
{
    type Key = K;

    fn extract(&self, request: &Parts) -> Result<K, KeyError> {
        (self.0)(request).ok_or(KeyError::Missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn always(found: Result<u8, KeyError>) -> impl Extractor<Key = u8> {
        struct Always(Result<u8, KeyError>);
        impl Extractor for Always {
            type Key = u8;
            fn extract(&self, _: &Parts) -> Result<u8, KeyError> {
                self.0
            }
        }
        Always(found)
    }

    #[test]
    fn the_debug_text_of_a_closure_is_its_type() {
        let function = from_fn(|_: &Parts| Some(()));
        assert_eq!(format!("{function:?}"), "FromFn");
    }

    #[test]
    fn or_replaces_a_key_only_if_it_is_missing() {
        let (request, ()) = http::Request::new(()).into_parts();
        for (first, expected) in [
            (Ok(1), Ok(1)),
            (Err(KeyError::Missing), Ok(2)),
            (Err(KeyError::Malformed), Err(KeyError::Malformed)),
            (Err(KeyError::Unavailable), Err(KeyError::Unavailable)),
        ] {
            assert_eq!(always(first).or(always(Ok(2))).extract(&request), expected);
        }
    }

    #[test]
    fn a_tuple_has_a_key_only_if_all_its_parts_have() {
        let (request, ()) = http::Request::new(()).into_parts();
        assert_eq!((always(Ok(1)), always(Ok(2)), always(Ok(3))).extract(&request), Ok((1, 2, 3)));
        let missing = || always(Err(KeyError::Missing));
        assert_eq!((always(Ok(1)), missing()).extract(&request), Err(KeyError::Missing));
        assert_eq!((missing(), always(Ok(1))).extract(&request), Err(KeyError::Missing));
    }
}
