//! A header as a key.

use http::HeaderName;
use http::request::Parts;

use super::{Extractor, HeaderText, KeyError};

/// The longest key, in bytes.
const BYTES_MAX: usize = 1_024;

/// A header's text, such as an API key.
///
/// A header that is given twice, longer than 1,024 bytes, or not UTF-8 is
/// [malformed](KeyError::Malformed); an empty one is [missing](KeyError::Missing).
///
/// **Not guaranteed.** The text may not be genuine: it does not limit a client that can invent a new
/// one for each request. Put the layer behind the check of the text, or combine it with an address.
///
/// ```
/// use tollgate_http::key::{Extractor, Header};
///
/// let (request, ()) = http::Request::builder().header("X-Api-Key", "k1").body(())?.into_parts();
/// assert_eq!(Header::new("x-api-key")?.extract(&request)?, "k1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Header(HeaderName);

impl Header {
    /// The header of that name, in any case of letters.
    ///
    /// # Errors
    ///
    /// No header can have that name.
    ///
    /// ```
    /// use tollgate_http::key::Header;
    /// assert!(Header::new("X-Api-Key").is_ok());
    /// assert!(Header::new("two words").is_err());
    /// ```
    pub fn new(name: &str) -> Result<Self, http::Error> {
        Ok(Self(HeaderName::try_from(name)?))
    }
}

impl From<HeaderName> for Header {
    fn from(name: HeaderName) -> Self {
        Self(name)
    }
}

impl Extractor for Header {
    type Key = HeaderText;

    fn extract(&self, request: &Parts) -> Result<HeaderText, KeyError> {
        let mut values = request.headers.get_all(&self.0).iter();
        let value = values.next().ok_or(KeyError::Missing)?;
        if values.next().is_some() || value.len() > BYTES_MAX {
            return Err(KeyError::Malformed);
        }
        let text = HeaderText::new(value).ok_or(KeyError::Malformed)?;
        if text.is_empty() { Err(KeyError::Missing) } else { Ok(text) }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn extract(values: &[&[u8]]) -> Result<HeaderText, KeyError> {
        let (mut request, ()) = http::Request::new(()).into_parts();
        for value in values {
            request.headers.append("x-key", HeaderValue::from_bytes(value).expect("a value"));
        }
        Header::new("X-Key").expect("a name").extract(&request)
    }

    #[test]
    fn an_empty_header_is_missing_and_a_double_or_long_one_is_malformed() {
        assert_eq!(extract(&[b" a b "]).as_deref(), Ok("a b"));
        assert_eq!(extract(&["ä".as_bytes()]).as_deref(), Ok("ä"));
        assert_eq!(extract(&[]), Err(KeyError::Missing));
        assert_eq!(extract(&[b"  "]), Err(KeyError::Missing));
        assert_eq!(extract(&[b"a", b"b"]), Err(KeyError::Malformed));
        assert_eq!(extract(&[b"\xff"]), Err(KeyError::Malformed));
        assert!(extract(&[&[b'a'; BYTES_MAX]]).is_ok());
        assert_eq!(extract(&[&[b'a'; BYTES_MAX + 1]]), Err(KeyError::Malformed));
    }

    /// They are part of the value. As white space, they would let one client spend another's cells.
    #[test]
    fn spaces_that_http_does_not_trim_make_another_key() {
        assert_eq!(extract(&[b"\t ada \t"]).as_deref(), Ok("ada"));
        for text in ["ada\u{a0}", "ada\u{3000}", "\u{2003}ada", "\u{85}"] {
            assert_eq!(extract(&[text.as_bytes()]).as_deref(), Ok(text));
        }
    }
}
