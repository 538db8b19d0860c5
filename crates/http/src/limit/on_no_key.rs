//! The treatment of requests without a key.

use crate::gate::{GatePermit, Verdict};
use crate::key::KeyError;
use crate::report::Report;

/// The treatment of a request that has no key.
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
    /// The limit does not apply.
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
    /// assert_eq!(report.key_errors().count(), 1);
    /// ```
    pub fn decide(self, error: KeyError, report: &mut Report) -> Verdict {
        report.note_no_key(error);
        match self {
            Self::Deny => Verdict::NoKey(error),
            Self::Admit => Verdict::Admit(GatePermit::default()),
        }
    }
}
