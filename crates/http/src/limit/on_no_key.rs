//! The treatment of requests without a key.

use crate::gate::{GatePermit, Verdict};
use crate::headers::Report;
use crate::key::KeyError;

/// The treatment of a request that has no key.
///
/// A [malformed](KeyError::Malformed) key is denied by either choice. A client decides whether its key is malformed,
/// for example by sending a header twice, and a back end may still read one of the two.
///
/// ```
/// use tollgate_http::OnNoKey;
/// assert_eq!(OnNoKey::default(), OnNoKey::Deny);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnNoKey {
    /// The limit denies the request. The response is 400, or 500 if the server does not provide what
    /// the key is made of.
    #[default]
    Deny,
    /// The limit does not apply if the key is [missing](KeyError::Missing), or [the server does not provide
    /// it](KeyError::Unavailable).
    Admit,
}

impl OnNoKey {
    /// The verdict about a request without a key, for a [`Gate`](crate::Gate) of your own.
    ///
    /// ```
    /// use tollgate_http::{KeyError, Report, Verdict, OnNoKey};
    ///
    /// let mut report = Report::default();
    /// let verdict = OnNoKey::Admit.decide(KeyError::Missing, &mut report);
    /// assert!(matches!(verdict, Verdict::Admit(_)));
    /// let verdict = OnNoKey::Admit.decide(KeyError::Malformed, &mut report);
    /// assert!(matches!(verdict, Verdict::NoKey(_)));
    /// assert_eq!(report.key_errors().count(), 2);
    /// ```
    pub fn decide(self, error: KeyError, report: &mut Report) -> Verdict {
        report.note_no_key(error);
        match self.denies(error) {
            true => Verdict::NoKey(error),
            false => Verdict::Admit(GatePermit::default()),
        }
    }

    /// The key, if there is one. Notes the error if the request is denied for it.
    pub(crate) fn peek<K>(self, key: Result<K, KeyError>, report: &mut Report) -> Option<K> {
        if let Err(error) = &key
            && self.denies(*error)
        {
            report.note_no_key(*error);
        }
        key.ok()
    }

    fn denies(self, error: KeyError) -> bool {
        match (self, error) {
            (Self::Deny, _) | (_, KeyError::Malformed) => true,
            (Self::Admit, KeyError::Missing | KeyError::Unavailable) => false,
        }
    }
}
