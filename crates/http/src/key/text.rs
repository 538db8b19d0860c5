//! The text of a header, which shares the request's memory.

use core::borrow::Borrow;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::{Deref, Range};
use core::str;

use http::HeaderValue;

/// The text of a header as a key: the key of [`Header`](super::Header).
///
/// It compares and hashes as the `str` that it dereferences to, so it is a key of a `Limiter<str>`. If
/// the server's headers are shared slices of what it has read, as those of hyper are, the text shares
/// the request's memory. Then it allocates nothing, whatever its length. A clone has memory of its own, so that one
/// which is kept does not keep the whole head of its request.
///
/// ```
/// use tollgate_http::key::HeaderText;
/// let text = HeaderText::from("k1");
/// assert_eq!(text, "k1");
/// assert_eq!(text.len(), 2);
/// ```
pub struct HeaderText(Repr);

enum Repr {
    /// A range of the value's bytes, which is UTF-8.
    Shared(HeaderValue, Range<u16>),
    Own(Box<str>),
}

impl HeaderText {
    /// The value without the white space of HTTP (spaces and tabs) around it; `None` if it is not UTF-8 or is longer
    /// than 65,535 bytes.
    pub(super) fn new(value: &HeaderValue) -> Option<Self> {
        let whole = str::from_utf8(value.as_bytes()).ok()?;
        let is_space = |char| matches!(char, ' ' | '\t');
        let start = whole.len() - whole.trim_start_matches(is_space).len();
        let end = start + whole.trim_matches(is_space).len();
        let range = u16::try_from(start).ok()?..u16::try_from(end).ok()?;
        Some(Self(Repr::Shared(value.clone(), range)))
    }
}

impl Clone for HeaderText {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Repr::Own(text) => Repr::Own(text.clone()),
            Repr::Shared(value, range) => {
                let mut own = HeaderValue::from_bytes(self.as_bytes()).expect("a part of a value");
                own.set_sensitive(value.is_sensitive());
                Repr::Shared(own, 0..range.end - range.start)
            }
        })
    }
}

impl Deref for HeaderText {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Repr::Shared(value, range) => {
                let bytes = &value.as_bytes()[range.start.into()..range.end.into()];
                str::from_utf8(bytes).unwrap_or_default()
            }
            Repr::Own(text) => text,
        }
    }
}

impl From<&str> for HeaderText {
    fn from(text: &str) -> Self {
        Self(Repr::Own(text.into()))
    }
}

impl From<String> for HeaderText {
    fn from(text: String) -> Self {
        Self(Repr::Own(text.into()))
    }
}

impl Borrow<str> for HeaderText {
    fn borrow(&self) -> &str {
        self
    }
}

impl AsRef<str> for HeaderText {
    fn as_ref(&self) -> &str {
        self
    }
}

impl AsRef<[u8]> for HeaderText {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Hash for HeaderText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        str::hash(self, state);
    }
}

impl PartialEq for HeaderText {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for HeaderText {}

impl PartialEq<str> for HeaderText {
    fn eq(&self, other: &str) -> bool {
        **self == *other
    }
}

impl PartialEq<&str> for HeaderText {
    fn eq(&self, other: &&str) -> bool {
        **self == **other
    }
}

impl fmt::Display for HeaderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self)
    }
}

/// The text of a sensitive value is not shown.
impl fmt::Debug for HeaderText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Shared(value, _) if value.is_sensitive() => f.write_str("Sensitive"),
            _ => (**self).fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, RandomState};

    use super::*;

    #[test]
    fn it_hashes_and_compares_as_its_text() {
        let hasher = RandomState::new();
        for (bytes, text) in [("k1", "k1"), ("  k 1\t", "k 1"), (" ", ""), ("ä ", "ä")] {
            let value = HeaderValue::from_bytes(bytes.as_bytes()).expect("a value");
            let shared = HeaderText::new(&value).expect("UTF-8");
            assert_eq!(shared, text);
            assert_eq!(shared, HeaderText::from(text.to_owned()));
            assert_eq!(hasher.hash_one(&shared), hasher.hash_one(text));
            assert_eq!(format!("{shared} {shared:?}"), format!("{text} {text:?}"));
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_none_and_a_sensitive_value_is_not_shown() {
        assert!(HeaderText::new(&HeaderValue::from_bytes(b"\xff").expect("a value")).is_none());
        let long = HeaderValue::from_bytes(&[b'a'; 65_536]).expect("a value");
        assert!(HeaderText::new(&long).is_none());
        let mut secret = HeaderValue::from_static("secret");
        secret.set_sensitive(true);
        let text = HeaderText::new(&secret).expect("UTF-8");
        assert_eq!((format!("{text:?}").as_str(), &*text), ("Sensitive", "secret"));
        assert_eq!(format!("{:?}", text.clone()), "Sensitive");
    }

    #[test]
    fn a_clone_does_not_share_the_memory_of_the_request() {
        let value = HeaderValue::from_static("  k 1 ");
        let shared = HeaderText::new(&value).expect("UTF-8");
        let cloned = shared.clone();
        assert_eq!((&*shared, &*cloned), ("k 1", "k 1"));
        assert!(value.as_bytes().as_ptr_range().contains(&shared.as_ptr()));
        assert!(!value.as_bytes().as_ptr_range().contains(&cloned.as_ptr()));
    }
}
