//! The clock of a set of rules.

use std::sync::Arc;

#[cfg(feature = "shared-memory")]
use tollgate::clock::MonotonicClock;
use tollgate::clock::QuantaClock;
use tollgate::{Clock, Tick};

/// The clock by which a set of rules decides. It is the clock that the set was given, or the system's if the rules
/// [share](crate::Rules::shared) their limits with other processes.
///
/// ```
/// use tollgate::Clock;
/// use tollgate_rules::{Request, Rules, RulesLimiter};
///
/// let text = r#"rule = [{ name = "a", key = "none", bytes = "10MB/s" }]"#;
/// let gate = RulesLimiter::new(Rules::parse("rules.toml", text)?)?;
/// let [pace] = &gate.decide(&Request::default()).take_paces()[..] else { panic!() };
/// let clock: &tollgate_rules::RulesClock = pace.limiter().clock();
/// assert!(clock.now() <= clock.now());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RulesClock<C = QuantaClock>(Kind<C>);

#[derive(Debug)]
enum Kind<C> {
    Given(Arc<C>),
    #[cfg(feature = "shared-memory")]
    System {
        given: Arc<C>,
        system: MonotonicClock,
    },
}

impl<C> RulesClock<C> {
    pub(crate) fn given(clock: Arc<C>) -> Self {
        Self(Kind::Given(clock))
    }

    /// The system's clock, which all processes have in common.
    #[cfg(feature = "shared-memory")]
    pub(crate) fn system(&self, system: MonotonicClock) -> Self {
        Self(Kind::System { given: self.as_given(), system })
    }

    /// The clock that the rules were given.
    pub(crate) fn as_given(&self) -> Arc<C> {
        match &self.0 {
            Kind::Given(given) => Arc::clone(given),
            #[cfg(feature = "shared-memory")]
            Kind::System { given, .. } => Arc::clone(given),
        }
    }
}

impl<C> Clone for RulesClock<C> {
    fn clone(&self) -> Self {
        Self(match &self.0 {
            Kind::Given(given) => Kind::Given(Arc::clone(given)),
            #[cfg(feature = "shared-memory")]
            Kind::System { given, system } => {
                Kind::System { given: Arc::clone(given), system: *system }
            }
        })
    }
}

impl<C: Clock> Clock for RulesClock<C> {
    #[inline]
    fn now(&self) -> Tick {
        match &self.0 {
            Kind::Given(given) => given.now(),
            #[cfg(feature = "shared-memory")]
            Kind::System { system, .. } => system.now(),
        }
    }

    #[inline]
    fn coarse(&self) -> Option<Tick> {
        match &self.0 {
            Kind::Given(given) => given.coarse(),
            #[cfg(feature = "shared-memory")]
            Kind::System { system, .. } => system.coarse(),
        }
    }

    fn unix_origin_nanos(&self) -> u64 {
        match &self.0 {
            Kind::Given(given) => given.unix_origin_nanos(),
            #[cfg(feature = "shared-memory")]
            Kind::System { system, .. } => system.unix_origin_nanos(),
        }
    }

    fn unix_now_nanos(&self) -> u64 {
        match &self.0 {
            Kind::Given(given) => given.unix_now_nanos(),
            #[cfg(feature = "shared-memory")]
            Kind::System { system, .. } => system.unix_now_nanos(),
        }
    }
}
