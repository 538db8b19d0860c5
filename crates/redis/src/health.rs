//! The health of a server: in use, or the reason why not.

use core::fmt;
use std::sync::Arc;

use crate::unavailable::Unavailable;

/// Whether the server of a [`Store`](crate::Store) is in use: see
/// [`Store::health`](crate::Store::health).
///
/// ```
/// use tollgate_redis::{Health, Store};
///
/// let store = Store::builder("redis://127.0.0.1:6379").build()?;
/// assert_eq!(store.health(), Health::Up);
/// # Ok::<(), tollgate_redis::StoreError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// The server is in use. A store that was never asked is up.
    Up,
    /// The server is only probed, because too many calls in a row had no answer.
    #[non_exhaustive]
    Down {
        /// How the last of those calls ended, or the last probe.
        reason: Unavailable,
        /// The client library's text for the error. Empty after a time-out.
        detail: String,
    },
}

/// `up`, or the reason and its detail.
impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Up => f.write_str("up"),
            // The reason's text already holds the detail.
            Self::Down { reason: reason @ Unavailable::Failed(_), .. } => reason.fmt(f),
            Self::Down { reason, detail } if detail.is_empty() => reason.fmt(f),
            Self::Down { reason, detail } => write!(f, "{reason} ({detail})"),
        }
    }
}

type Callback = dyn Fn(&Health) + Send + Sync;

/// The function that is called when the health changes.
#[derive(Clone, Default)]
pub(crate) struct OnChange(pub(crate) Option<Arc<Callback>>);

impl OnChange {
    pub(crate) fn call(&self, health: &Health) {
        if let Some(call) = &self.0 {
            call(health);
        }
    }
}

impl fmt::Debug for OnChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OnChange").field(&self.0.is_some()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_shown_once_with_its_detail() {
        let down =
            |reason, detail: &str| Health::Down { reason, detail: detail.into() }.to_string();
        assert_eq!(Health::Up.to_string(), "up");
        assert_eq!(down(Unavailable::TimedOut, ""), "the server did not answer in time");
        let denied = "Connection refused (os error 111)";
        assert_eq!(
            down(Unavailable::Disconnected, denied),
            format!("the server cannot be reached ({denied})")
        );
        let failed = Unavailable::Failed("NOAUTH".to_owned());
        assert_eq!(down(failed, "NOAUTH"), "the server failed: NOAUTH");
    }
}
