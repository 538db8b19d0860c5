//! The builder of a composite.

use core::borrow::Borrow;
use core::fmt;
use core::hash::Hash;

use super::in_flight::{KeyedInFlight, SharedInFlight};
use super::member::{BorrowedKey, ComputedKey, Keyed, Member, OwnQuota, PlanOf, Unkeyed};
use super::{Composite, MEMBERS_MAX, NamedLimit};
use crate::algo::Algorithm;
use crate::concurrency::{ConcurrencyLimiter, DirectConcurrency};
use crate::limiter::Limiter;
use crate::limiter::direct::Direct;
use crate::limiter::plan::{Plan, Plannable};
use crate::table::Tally;
use crate::time::Clock;

/// Why a [`Composite`] cannot be built; the text says what to do instead.
///
/// ```
/// use tollgate::composite::{Composite, CompositeError};
/// assert_eq!(Composite::<()>::builder().build().unwrap_err(), CompositeError::NothingEnforced);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompositeError {
    /// There is no limit, or only shadow limits.
    NothingEnforced,
    /// There are more limits than a composite can hold.
    TooMany {
        /// The maximum, shadow limits included.
        max: usize,
    },
    /// Charges of this limit cannot be refunded, and an enforced limit comes after it.
    NotLast {
        /// The name of the limit.
        name: &'static str,
    },
    /// [`shadow`](CompositeBuilder::shadow) was called before any limit was added.
    ShadowOfNothing,
}

impl fmt::Display for CompositeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NothingEnforced => f.write_str(
                "there is no enforced limit: add one with keyed or shared (use Shadow to compare \
                 a quota with one limiter)",
            ),
            Self::TooMany { max } => {
                write!(f, "there are more than {max} limits: leave some out")
            }
            Self::NotLast { name } => write!(
                f,
                "charges of the limit {name:?} cannot be refunded when a later one denies: add it \
                 last of the enforced limits, or use Gcra, DynamicGcra or FixedWindow for it",
            ),
            Self::ShadowOfNothing => {
                f.write_str("shadow was called before a limit was added: call it after that limit")
            }
        }
    }
}

impl core::error::Error for CompositeError {}

/// Builds a [`Composite`]. Returned by [`Composite::builder`].
///
/// A limiter is given by value, by reference or in an `Arc`. Enforced limits are asked in the order
/// in which they are added. Add the limit that denies most often first, and the limit that most
/// requests share last.
///
/// The key functions of all limits are called once for each request, before anything is charged,
/// even if an earlier limit denies. If one of them panics, the panic reaches the caller and nothing
/// is charged.
#[must_use = "a builder does nothing until `build` is called"]
pub struct CompositeBuilder<'a, R: ?Sized> {
    members: Vec<(NamedLimit<'a, R>, bool)>,
    error: Option<CompositeError>,
}

impl<'a, R: ?Sized> CompositeBuilder<'a, R> {
    pub(super) fn new() -> Self {
        Self { members: Vec::new(), error: None }
    }

    /// Adds a limit with a bucket for each key. The function `key` borrows the key from a request.
    ///
    /// ```
    /// use tollgate::composite::Composite;
    /// use tollgate::{Limiter, Quota};
    ///
    /// struct Request { user: String }
    /// let per_user: Limiter<str> = Limiter::builder(Quota::per_second(5)).build()?;
    /// let gate = Composite::<Request>::builder()
    ///     .keyed("per user", &per_user, |request| request.user.as_str())
    ///     .build()?;
    /// assert!(gate.check(&Request { user: "a".into() }).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keyed<K, A, C, G, F>(self, name: &'static str, limiter: G, key: F) -> Self
    where
        K: Hash + ?Sized + 'a,
        A: Algorithm + 'a,
        C: Clock + 'a,
        G: Borrow<Limiter<K, A, C>> + Send + Sync + 'a,
        F: for<'r> Fn(&'r R) -> &'r K + Send + Sync + 'a,
    {
        self.with(name, Keyed::new(limiter, BorrowedKey(key), OwnQuota))
    }

    /// Like [`keyed`](Self::keyed), for a key that is computed from the request.
    ///
    /// ```
    /// use tollgate::composite::Composite;
    /// use tollgate::{Limiter, Quota};
    ///
    /// struct Request { tenant: u32, route: u32 }
    /// let per_route: Limiter<(u32, u32)> = Limiter::builder(Quota::per_second(5)).build()?;
    /// let gate = Composite::<Request>::builder()
    ///     .keyed_by("per route", &per_route, |request| (request.tenant, request.route))
    ///     .build()?;
    /// assert!(gate.check(&Request { tenant: 1, route: 7 }).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keyed_by<K, A, C, G, F>(self, name: &'static str, limiter: G, key: F) -> Self
    where
        K: Hash + 'a,
        A: Algorithm + 'a,
        C: Clock + 'a,
        G: Borrow<Limiter<K, A, C>> + Send + Sync + 'a,
        F: Fn(&R) -> K + Send + Sync + 'a,
    {
        self.with(name, Keyed::new(limiter, ComputedKey(key), OwnQuota))
    }

    /// Like [`keyed`](Self::keyed), with a [`Plan`] of the limiter for each request, which the function
    /// `plan` finds. It is called once for each request, as `key` is.
    ///
    /// [`check`](Composite::check) panics, and charges nothing, if the plan is of a limiter whose
    /// states mean something else.
    ///
    /// ```
    /// use tollgate::composite::Composite;
    /// use tollgate::{Direct, Gcra, Limiter, Quota};
    ///
    /// struct Request { tenant: u32, is_gold: bool }
    /// let per_tenant: Limiter<u32> =
    ///     Limiter::builder(Quota::per_second(100)).algorithm(Gcra::new().for_plans()).build()?;
    /// let (gold, free) = (per_tenant.plan(Quota::per_hour(3))?, per_tenant.plan(Quota::per_hour(1))?);
    /// let gate = Composite::<Request>::builder()
    ///     .keyed_planned("per tenant", &per_tenant, |request| &request.tenant, |request| {
    ///         if request.is_gold { gold.clone() } else { free.clone() }
    ///     })
    ///     .shared("upstream", Direct::new(Quota::per_second(500))?)
    ///     .build()?;
    /// let granted = |request| (0..9).filter(|_| gate.check(&request).is_ok()).count();
    /// assert_eq!(granted(Request { tenant: 1, is_gold: true }), 3);
    /// assert_eq!(granted(Request { tenant: 2, is_gold: false }), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keyed_planned<K, A, C, G, F, P>(
        self,
        name: &'static str,
        limiter: G,
        key: F,
        plan: P,
    ) -> Self
    where
        K: Hash + ?Sized + 'a,
        A: Plannable + 'a,
        C: Clock + 'a,
        G: Borrow<Limiter<K, A, C>> + Send + Sync + 'a,
        F: for<'r> Fn(&'r R) -> &'r K + Send + Sync + 'a,
        P: Fn(&R) -> Plan<A> + Send + Sync + 'a,
    {
        self.with(name, Keyed::new(limiter, BorrowedKey(key), PlanOf(plan)))
    }

    /// Like [`keyed_planned`](Self::keyed_planned), for a key that is computed from the request.
    pub fn keyed_planned_by<K, A, C, G, F, P>(
        self,
        name: &'static str,
        limiter: G,
        key: F,
        plan: P,
    ) -> Self
    where
        K: Hash + 'a,
        A: Plannable + 'a,
        C: Clock + 'a,
        G: Borrow<Limiter<K, A, C>> + Send + Sync + 'a,
        F: Fn(&R) -> K + Send + Sync + 'a,
        P: Fn(&R) -> Plan<A> + Send + Sync + 'a,
    {
        self.with(name, Keyed::new(limiter, ComputedKey(key), PlanOf(plan)))
    }

    /// Adds a limit with one bucket that all requests share.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tollgate::composite::Composite;
    /// use tollgate::{Direct, Quota};
    ///
    /// let upstream = Arc::new(Direct::new(Quota::per_second(500))?);
    /// let gate =
    ///     Composite::<str>::builder().shared("upstream", Arc::clone(&upstream)).build()?;
    /// assert!(gate.check("any").is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shared<A, C, G>(self, name: &'static str, limiter: G) -> Self
    where
        A: Algorithm + 'a,
        C: Clock + 'a,
        G: Borrow<Direct<A, C>> + Send + Sync + 'a,
    {
        self.with(name, Unkeyed::new(limiter))
    }

    /// Adds a limit of requests in flight for each key. The function `key` borrows the key from a request.
    /// A request counts as one, whatever its cells. [`Ask::enter`](crate::Ask::enter) keeps it counted.
    ///
    /// ```
    /// use tollgate::composite::Composite;
    /// use tollgate::concurrency::ConcurrencyLimiter;
    /// use tollgate::{Direct, Quota};
    ///
    /// struct Request { user: String }
    /// let at_once: ConcurrencyLimiter<str> = ConcurrencyLimiter::builder(2).build()?;
    /// let gate = Composite::<Request>::builder()
    ///     .keyed_in_flight("at once", at_once, |request| request.user.as_str())
    ///     .shared("in all", Direct::new(Quota::per_second(100))?)
    ///     .build()?;
    /// let request = Request { user: "a".into() };
    /// let guards = [gate.enter(&request)?, gate.enter(&request)?];
    /// assert_eq!(gate.enter(&request).unwrap_err().limit_name(), "at once");
    /// drop(guards);
    /// assert!(gate.enter(&request).is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn keyed_in_flight<K, C, G, F>(self, name: &'static str, limiter: G, key: F) -> Self
    where
        K: Hash + ?Sized + 'a,
        C: Clock + 'a,
        G: Borrow<ConcurrencyLimiter<K, C>> + Send + Sync + 'a,
        F: for<'r> Fn(&'r R) -> &'r K + Send + Sync + 'a,
    {
        self.with(name, KeyedInFlight::new(limiter, BorrowedKey(key)))
    }

    /// Like [`keyed_in_flight`](Self::keyed_in_flight), for a key that is computed from the request.
    pub fn keyed_in_flight_by<K, C, G, F>(self, name: &'static str, limiter: G, key: F) -> Self
    where
        K: Hash + 'a,
        C: Clock + 'a,
        G: Borrow<ConcurrencyLimiter<K, C>> + Send + Sync + 'a,
        F: Fn(&R) -> K + Send + Sync + 'a,
    {
        self.with(name, KeyedInFlight::new(limiter, ComputedKey(key)))
    }

    /// Adds a limit of requests in flight with one count that all requests share.
    ///
    /// ```
    /// use tollgate::composite::Composite;
    /// use tollgate::concurrency::DirectConcurrency;
    ///
    /// let upstream = DirectConcurrency::new(1)?;
    /// let gate = Composite::<str>::builder().shared_in_flight("upstream", &upstream).build()?;
    /// let guard = gate.enter("any")?;
    /// assert_eq!(upstream.in_flight(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shared_in_flight<C, G>(self, name: &'static str, limiter: G) -> Self
    where
        C: Clock + 'a,
        G: Borrow<DirectConcurrency<C>> + Send + Sync + 'a,
    {
        self.with(name, SharedInFlight::new(limiter))
    }

    /// Makes the limit added last a [shadow](crate::shadow) limit: it decides and is counted, and never
    /// denies.
    ///
    /// ```
    /// use tollgate::composite::Composite;
    /// use tollgate::{Direct, Quota};
    ///
    /// let gate = Composite::<()>::builder()
    ///     .shared("now", Direct::new(Quota::per_hour(9))?)
    ///     .shared("shadow", Direct::new(Quota::per_hour(1))?)
    ///     .shadow()
    ///     .build()?;
    /// assert!(gate.check(&()).is_ok() && gate.check(&()).is_ok());
    /// assert_eq!(gate.shadows().next().expect("one").1.would_deny, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shadow(mut self) -> Self {
        match self.members.last_mut() {
            Some((_, is_shadow)) => *is_shadow = true,
            None => self.error = Some(CompositeError::ShadowOfNothing),
        }
        self
    }

    fn with(mut self, name: &'static str, member: impl Member<R> + 'a) -> Self {
        self.members.push((NamedLimit { name, member: Box::new(member) }, false));
        self
    }

    /// Checks that every request can be charged to all limits or to none, and builds the composite.
    ///
    /// # Errors
    ///
    /// There is no enforced limit, or there are too many limits. Or the charges of an enforced
    /// limit that is not the last one cannot be refunded: that is so with all algorithms but
    /// [`Gcra`](crate::Gcra), [`DynamicGcra`](crate::dynamic::DynamicGcra) and
    /// [`FixedWindow`](crate::FixedWindow).
    ///
    /// ```
    /// use tollgate::composite::{Composite, CompositeError};
    /// use tollgate::{Direct, Quota, SlidingLog};
    ///
    /// let log = || Direct::builder(Quota::per_hour(5)).algorithm(SlidingLog::new()).build();
    /// let bucket = || Direct::new(Quota::per_second(9));
    /// let built = Composite::<()>::builder().shared("log", log()?).shared("b", bucket()?).build();
    /// assert_eq!(built.unwrap_err(), CompositeError::NotLast { name: "log" });
    /// let built = Composite::<()>::builder().shared("b", bucket()?).shared("log", log()?).build();
    /// assert!(built.is_ok());
    /// # Ok::<(), tollgate::QuotaError>(())
    /// ```
    pub fn build(self) -> Result<Composite<'a, R>, CompositeError> {
        if let Some(error) = self.error {
            return Err(error);
        }
        if self.members.len() > MEMBERS_MAX {
            return Err(CompositeError::TooMany { max: MEMBERS_MAX });
        }
        let (shadows, mut enforced): (Vec<_>, Vec<_>) =
            self.members.into_iter().partition(|(_, is_shadow)| *is_shadow);
        let (last, _) = enforced.pop().ok_or(CompositeError::NothingEnforced)?;
        let refundable: Box<[_]> = enforced.into_iter().map(|(named, _)| named).collect();
        if let Some(named) = refundable.iter().find(|named| !named.member.is_refundable()) {
            return Err(CompositeError::NotLast { name: named.name });
        }
        let shadows: Box<[_]> =
            shadows.into_iter().map(|(named, _)| (named, Tally::new())).collect();
        let built =
            Composite { refundable, last, shadows, counts_in_flight: false, has_plans: false };
        let counts_in_flight = built.all().any(|named| named.member.counts_in_flight());
        let has_plans = built.all().any(|named| named.member.has_plans());
        Ok(Composite { counts_in_flight, has_plans, ..built })
    }
}

impl<R: ?Sized> fmt::Debug for CompositeBuilder<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.members.iter().map(|(named, _)| named.name);
        f.debug_list().entries(names).finish()
    }
}
