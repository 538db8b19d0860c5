//! The bandwidth of a key's response bodies: `bytes` in a rules file.

use std::sync::Arc;

use tollgate::clock::QuantaClock;
use tollgate::{Clock, Gcra, Limiter, OnFull, Quota};

use crate::clock::RulesClock;
use crate::error::LimiterError;
use crate::shared::{Place, build_at};

/// The bandwidth of each key of a rule: a token bucket in which a cell is a byte.
pub(crate) struct Bandwidth<C: Clock>(Arc<Limiter<[u8], Gcra, RulesClock<C>>>);

impl<C: Clock> Clone for Bandwidth<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Clock> std::fmt::Debug for Bandwidth<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bandwidth").finish_non_exhaustive()
    }
}

impl<C: Clock> Bandwidth<C> {
    pub(crate) fn build(
        rate: Quota,
        capacity: u64,
        on_full: OnFull,
        place: &Place<'_, C>,
    ) -> Result<Self, LimiterError> {
        let builder = Limiter::<[u8]>::builder(rate).capacity(capacity);
        let on_full = match on_full {
            // A quota of requests says nothing about bytes.
            OnFull::SharedOverflow(_) => OnFull::default(),
            other => other,
        };
        Ok(Self(Arc::new(build_at!(builder.on_full(on_full), place)?)))
    }

    pub(crate) fn pace(&self, key: &[u8]) -> BytePace<C> {
        BytePace { limiter: Arc::clone(&self.0), key: key.into() }
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.0.memory_bytes()
    }
}

/// A bucket that the bytes of a response are charged to: a key of a limiter in which a cell is a byte.
///
/// [`RulesDecision::take_paces`](crate::RulesDecision::take_paces) returns it. Pass the limiter and the key to
/// `tollgate_paced::Pace::keyed`, and the body to `tollgate_paced::PacedBody`.
///
/// ```
/// use tollgate_rules::{Request, Rules, RulesLimiter};
///
/// let text = r#"rule = [{ name = "a", key = "none", bytes = "10MB/s" }]"#;
/// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
/// let [pace] = &gate.decide(&Request::default()).take_paces()[..] else { panic!() };
/// assert!(pace.limiter().ask(pace.key()).cells(10_000_000).check().is_ok());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BytePace<C: Clock = QuantaClock> {
    limiter: Arc<Limiter<[u8], Gcra, RulesClock<C>>>,
    key: Box<[u8]>,
}

impl<C: Clock> BytePace<C> {
    /// The limiter.
    #[must_use]
    pub fn limiter(&self) -> &Arc<Limiter<[u8], Gcra, RulesClock<C>>> {
        &self.limiter
    }

    /// The key: any bytes.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.key
    }
}

impl<C: Clock> std::fmt::Debug for BytePace<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BytePace").field("key", &self.key).finish_non_exhaustive()
    }
}
