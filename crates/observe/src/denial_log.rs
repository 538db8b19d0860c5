//! Denials as events, at a bounded rate.

use std::fmt::Display;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tollgate::stats::DecisionCount;
use tollgate::top::TopKeys;
use tollgate::{Decision, Denied, Direct, Quota, QuotaError};
use tracing::{Level, enabled, event};

/// How many characters of a key are logged.
const KEY_CHARS: usize = 200;

/// Logs denials at a bounded rate: a flood of denials makes few events.
///
/// A [`Direct`] limits the events. Denials over that limit are only counted, and the next event reports
/// their number.
///
/// Events have the target `tollgate`, the level WARN, and the fields `limiter`, `key`, `retry_after_ms`
/// (rounded up; absent if no wait helps) and `suppressed`. Control characters in a key are escaped, so
/// that no key can forge a line of a log.
///
/// **Not guaranteed.** The log does not choose which denials it logs: it takes the first ones. With
/// several threads, `suppressed` may report a denial one event late; each is reported once. No event
/// reports the denials after the last event: see [`suppressed`](Self::suppressed).
///
/// ```
/// use tollgate::{Limiter, Quota};
/// use tollgate_observe::DenialLog;
///
/// let gate: Limiter<str> = Limiter::builder(Quota::per_second(100)).build()?;
/// let log = DenialLog::new("api", Quota::per_second(1).burst(10))?;
/// let client = "192.0.2.7";
/// let decision = log.watch(client, gate.check(client));
/// # assert!(decision.is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DenialLog {
    limiter: String,
    gate: Direct,
    events: DecisionCount,
    /// Suppressed denials that events have reported.
    reported: AtomicU64,
}

impl DenialLog {
    /// A log for the limiter of this name, with the quota `events`.
    ///
    /// # Errors
    ///
    /// The quota is out of range. The error says what to do.
    ///
    /// ```
    /// use tollgate::Quota;
    /// let log = tollgate_observe::DenialLog::new("api", Quota::per_minute(10))?;
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn new(limiter: &str, events: Quota) -> Result<Self, QuotaError> {
        Ok(Self {
            limiter: limiter.to_owned(),
            gate: Direct::new(events)?,
            events: DecisionCount::new(),
            reported: AtomicU64::new(0),
        })
    }

    /// Logs `decision` if it is a denial and the quota of events allows it. Returns the decision.
    ///
    /// An admission costs nothing, and neither does a denial if no subscriber wants the event.
    ///
    /// ```
    /// # use tollgate::{Limiter, Quota};
    /// # let log = tollgate_observe::DenialLog::new("api", Quota::per_minute(10))?;
    /// let gate: Limiter<u64> = Limiter::builder(Quota::per_hour(1)).build()?;
    /// assert!(log.watch(&7, gate.check(&7)).is_ok());
    /// assert!(log.watch(&7, gate.check(&7)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn watch<K: Display + ?Sized>(&self, key: &K, decision: Decision) -> Decision {
        if let Err(denied) = &decision {
            self.denied(key, denied);
        }
        decision
    }

    /// Denials that were not logged, because there were too many.
    pub fn suppressed(&self) -> u64 {
        self.events.denied()
    }

    #[inline(never)]
    fn denied<K: Display + ?Sized>(&self, key: &K, denied: &Denied) {
        if !enabled!(target: "tollgate", Level::WARN) {
            return;
        }
        let passes = self.gate.allow();
        self.events.count(passes);
        if !passes {
            return;
        }
        // Relaxed: a counter of its own. Of two events at once, only one reports a suppressed denial.
        let suppressed = self.suppressed();
        let reported = self.reported.fetch_max(suppressed, Ordering::Relaxed);
        event!(
            target: "tollgate",
            Level::WARN,
            limiter = self.limiter,
            key = %one_line(key),
            retry_after_ms = denied.retry_after().map(whole_ms),
            suppressed = suppressed.saturating_sub(reported),
            "denied",
        );
    }
}

/// The first characters of a key, without control characters. A client may choose its key, and must neither begin a
/// new line in a log nor fill it.
fn one_line<K: Display + ?Sized>(key: &K) -> String {
    let key = key.to_string();
    let shown = &key[..key.char_indices().nth(KEY_CHARS).map_or(key.len(), |(end, _)| end)];
    let more = if shown.len() < key.len() { "..." } else { "" };
    format!("{}{more}", shown.escape_debug())
}

/// Rounded up, so that waiting this long is enough.
fn whole_ms(wait: Duration) -> u64 {
    u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Logs the `count` keys that were denied most, an event for each, most denied first.
///
/// Call it from a timer, or before the sketch is reset. Events have the target `tollgate`, the level INFO,
/// and the fields `limiter`, `rank` (from 1), `key`, `denied` and `error`.
///
/// ```
/// let top: tollgate::top::TopKeys<String> = tollgate::top::TopKeys::new(100);
/// top.note("192.0.2.7");
/// tollgate_observe::log_top(&top, "api", 10);
/// ```
pub fn log_top<K: Clone + Display + Eq + Hash>(top: &TopKeys<K>, limiter: &str, count: usize) {
    if !enabled!(target: "tollgate", Level::INFO) {
        return;
    }
    for (index, entry) in top.top(count).iter().enumerate() {
        event!(
            target: "tollgate",
            Level::INFO,
            limiter,
            rank = index + 1,
            key = %one_line(&entry.key),
            denied = entry.denied,
            error = entry.error,
            "denied most",
        );
    }
}
