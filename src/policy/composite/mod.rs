//! Several limits in one decision: all of them are charged, or none.
//!
//! The protocol is in `decide.rs`, which names the model that guards it.

mod answer;
mod builder;
mod decide;
mod enter;
mod in_flight;
mod member;
mod precheck;
#[cfg(all(test, not(tollgate_loom)))]
mod tests;

use core::fmt;

pub use answer::{CompositeDenied, CompositePermit};
pub use builder::{CompositeBuilder, CompositeError};

use crate::concurrency::Guard;
use crate::limiter::ask::{Ask, sealed::Askable};
use crate::policy::shadow::ShadowCounts;
use crate::table::Tally;
use crate::time::Tick;
use member::Member;

/// The maximum number of limits in a composite.
const MEMBERS_MAX: usize = 8;

/// Several limits that decide together: for example per second, per minute and per tenant.
///
/// A request is admitted if every enforced limit admits it. A decision has three steps:
///
/// 1. Find the keys of all limits and read their clocks. If a key function panics, nothing is
///    charged.
/// 2. Pre-check all limits, in the order in which they were added. If one would deny, it denies the
///    request, and nothing is charged.
/// 3. Charge all limits, in the same order. If a limit denies after all, because another request was
///    faster, the charges of the limits before it are refunded.
///
/// Each limit has its own key and algorithm, and may also be used outside the composite. A *shadow*
/// limit decides and is counted, and never denies.
///
/// `R` is the type of request in which the keys are found.
///
/// **Guarantee.** No limit grants more than it would by itself, under any interleaving of threads.
/// After a denial, every limit holds what it would hold if it had not been asked, to the time unit,
/// unless another request took the cells between pre-check and charge (see below). (A limit that remembers its
/// denials, [as two kinds do](crate#guarantees), remembers this one. An enforced bucket that
/// [starts empty](crate::Gcra::start_empty) begins to fill even if a limit before it denied.) A denial reports
/// the longest wait and the fewest cells left of all enforced limits, including those after the one
/// that denied. A decision takes no lock, allocates nothing, and waits for no other thread.
///
/// **Not guaranteed.**
///
/// - If another request takes a limit's last cells between pre-check and charge, the limits before
///   it stay charged for a moment: well under a microsecond, or as long as the system stops the
///   thread. A third request may be denied meanwhile that would have been admitted. Each of those
///   limits may lose what time restores meanwhile, at most the cells that were asked for. Each
///   time that the later limit grants cells, this happens to a concurrent request at most once. It does not
///   happen at each denial. It also happens whenever one bucket is added twice, or two keys of a
///   request are one key of a limiter, and the bucket has cells for one of them only.
/// - If a key finds no slot, or only by an eviction, a bucket that [starts empty](crate::Gcra::start_empty) after the
///   limit that denied does not begin to fill: the request may be denied once more after the stated wait.
/// - The limits are not read at one instant. The reported tightest limit and longest wait may be of
///   slightly different moments while other threads charge the limits.
/// - In [compact slots](crate::limiter::SlotLayout), and if a key was evicted and has come back meanwhile, a
///   refund may reach the key's later life.
/// - If the clocks of two threads differ by `s`, or a thread is stopped for `s` after it has read
///   its clock, the refund after such a denial may be `rate * s` cells too large, but no larger
///   than the cells that were asked for. The same holds if threads pass
///   [times](Ask::at) that differ by `s`.
/// - If the quota of a [`DynamicGcra`](crate::dynamic::DynamicGcra) changes while a request is being denied,
///   its charges may not be refunded, or may be refunded although the change has restored them.
/// - A request that is denied in step 3 may have claimed a slot in the limiters before. With
///   [`EvictNearestIdle`](crate::OnFull::EvictNearestIdle) another key may have lost its slot to
///   it.
/// - Cells that threads hold by [`lease_hot_keys`](crate::Builder::lease_hot_keys) or in a
///   [`LocalLease`](crate::lease::LocalLease) are not spent here, except by the last enforced limit.
///
/// # Which algorithms
///
/// [`Gcra`](crate::Gcra), [`DynamicGcra`](crate::dynamic::DynamicGcra) and
/// [`FixedWindow`](crate::FixedWindow) can be used for any limit. The other algorithms cannot
/// refund a charge, so they can be the last enforced limit, or shadow limits; otherwise [`build`]
/// returns an error.
///
/// # Requests in flight
///
/// A limit of [requests in flight](crate::concurrency) counts the request as one, whatever its cells, and
/// can have any place. [`enter`](Self::enter) returns a guard, and the request is in flight until that is
/// dropped; a shadow limit counts it as well. After [`check`](Self::check) it is in flight no more. The
/// [tightest](CompositePermit::tightest) limit is one of these only if there is no other.
///
/// # Time
///
/// With [`check`](Self::check) each limit reads its own clock, so the limits may have different
/// clocks. [`Ask::at`] asks all of them at one [`Tick`]. If the limits are also
/// used outside the composite, or have windows aligned to the wall clock, that needs clocks with
/// one origin (clones of one clock).
///
/// # Shadow limits
///
/// A [shadow](crate::shadow) limit is asked about the requests that all enforced limits admit. It
/// charges a request if it admits it. [`shadows`](Self::shadows) has its counts, and
/// [`CompositePermit::would_deny`] names it. Its decisions have no other effect.
///
/// ```
/// use tollgate::composite::Composite;
/// use tollgate::{Direct, Limiter, Quota};
///
/// struct Request { ip: String, tenant: u32 }
///
/// let per_second: Limiter<str> = Limiter::builder(Quota::per_second(10)).build()?;
/// let per_tenant: Limiter<u32> = Limiter::builder(Quota::per_minute(1_000)).build()?;
/// let upstream = Direct::new(Quota::per_second(500))?;
/// let gate = Composite::<Request>::builder()
///     .keyed("per second", per_second, |request| request.ip.as_str())
///     .keyed("per tenant", per_tenant, |request| &request.tenant)
///     .shared("upstream", upstream)
///     .build()?;
///
/// match gate.check(&Request { ip: "192.0.2.7".into(), tenant: 3 }) {
///     Ok(granted) => println!("{} left of {}", granted.remaining(), granted.tightest()),
///     Err(denied) => println!("429: {}, {:?}", denied.limit_name(), denied.retry_after()),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// [`build`]: CompositeBuilder::build
pub struct Composite<'a, R: ?Sized> {
    /// The enforced limits except the last. Their charges can be refunded.
    refundable: Box<[NamedLimit<'a, R>]>,
    /// The last enforced limit. Its charges are final.
    last: NamedLimit<'a, R>,
    shadows: Box<[(NamedLimit<'a, R>, Tally)]>,
    /// Whether any limit counts requests in flight.
    counts_in_flight: bool,
    /// Whether any limit has plans.
    has_plans: bool,
}

struct NamedLimit<'a, R: ?Sized> {
    name: &'static str,
    member: Box<dyn Member<R> + 'a>,
}

impl<'a, R: ?Sized> Composite<'a, R> {
    /// Starts a composite; [`CompositeBuilder`] says what it can contain.
    ///
    /// ```
    /// use tollgate::composite::Composite;
    /// use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_second(5))?;
    /// let one = Composite::<str>::builder().shared("all", &gate).build()?;
    /// assert!(one.check("any request").is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn builder() -> CompositeBuilder<'a, R> {
        CompositeBuilder::new()
    }

    /// Begins a request: one cell of every limit, now, unless the [`Ask`] says otherwise.
    ///
    /// ```
    /// # use tollgate::composite::Composite;
    /// # use tollgate::{Direct, Quota, Tick};
    /// let gate = Direct::new(Quota::per_second(1))?;
    /// let one = Composite::<()>::builder().shared("all", gate).build()?;
    /// assert!(one.ask(&()).at(Tick::ZERO).check().is_ok());
    /// assert!(one.ask(&()).at(Tick::from_nanos(999_999_999)).check().is_err());
    /// assert!(one.ask(&()).at(Tick::from_nanos(1_000_000_000)).check().is_ok());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ask<'g, 'k>(&'g self, request: &'k R) -> Ask<'g, 'k, Self> {
        Ask::new(self, request)
    }

    /// Asks every limit for one cell, now.
    ///
    /// # Errors
    ///
    /// The denial: the limit that denied, and when to come back.
    ///
    /// ```
    /// # use tollgate::composite::Composite;
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(1))?;
    /// let one = Composite::<()>::builder().shared("all", gate).build()?;
    /// assert!(one.check(&()).is_ok());
    /// assert!(one.check(&()).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check(&self, request: &R) -> Result<CompositePermit, CompositeDenied> {
        self.ask(request).check()
    }

    /// As [`check`](Self::check), with a guard that keeps the request in flight. Without a limit of
    /// [requests in flight](crate::concurrency) it does the same.
    ///
    /// # Errors
    ///
    /// The denial: the limit that denied, and when to come back.
    ///
    /// ```
    /// # use tollgate::composite::Composite;
    /// # use tollgate::concurrency::DirectConcurrency;
    /// # use tollgate::{Direct, Quota};
    /// let gate = Composite::<()>::builder()
    ///     .shared("rate", Direct::new(Quota::per_hour(5))?)
    ///     .shared_in_flight("at once", DirectConcurrency::new(1)?)
    ///     .build()?;
    /// let guard = gate.enter(&())?;
    /// assert_eq!(guard.permit().remaining(), 4);
    /// assert!(gate.enter(&()).unwrap_err().by_requests_in_flight());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn enter<'g>(&'g self, request: &R) -> Result<Guard<'g, Self>, CompositeDenied> {
        self.ask(request).enter()
    }

    /// Asks every limit for `n` cells, now.
    ///
    /// # Errors
    ///
    /// The denial: the limit that denied, and when to come back.
    ///
    /// ```
    /// # use tollgate::composite::Composite;
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(10))?;
    /// let one = Composite::<()>::builder().shared("all", gate).build()?;
    /// assert!(one.check_n(&(), 7).is_ok());
    /// assert_eq!(one.check_n(&(), 7).unwrap_err().remaining(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_n(&self, request: &R, n: u64) -> Result<CompositePermit, CompositeDenied> {
        self.ask(request).cells(n).check()
    }

    /// The decisions of the shadow limits so far, each by the limit's name, in the order in which they
    /// were added.
    ///
    /// ```
    /// # use tollgate::composite::Composite;
    /// # use tollgate::{Direct, Quota};
    /// let gate = Composite::<()>::builder()
    ///     .shared("all", Direct::new(Quota::per_hour(9))?)
    ///     .shared("candidate", Direct::new(Quota::per_hour(2))?)
    ///     .shadow()
    ///     .build()?;
    /// while gate.check(&()).is_ok() {}
    /// let (name, counts) = gate.shadows().next().expect("one");
    /// assert_eq!((name, counts.would_admit, counts.would_deny), ("candidate", 2, 7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shadows(&self) -> impl Iterator<Item = (&'static str, ShadowCounts)> {
        self.shadows.iter().map(|(named, tally)| (named.name, ShadowCounts::read(tally)))
    }
}

impl<R: ?Sized> Askable for Composite<'_, R> {
    type Key = R;
    type Params = ();
    type Time = Option<Tick>;
}

impl<R: ?Sized> Ask<'_, '_, Composite<'_, R>> {
    /// Charges the cells to every limit if all enforced ones admit them: see [`Composite`].
    ///
    /// # Errors
    ///
    /// The denial, with the limit that denied and the time to come back.
    pub fn check(self) -> Result<CompositePermit, CompositeDenied> {
        let entry = self.gate.decide(self.key, self.cells, self.at)?;
        if self.gate.counts_in_flight {
            self.gate.leave_all(&entry);
        }
        Ok(entry.permit)
    }
}

impl<R: ?Sized> fmt::Debug for Composite<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let enforced = self.enforced().map(|named| named.name);
        let shadows = self.shadows.iter().map(|(named, _)| named.name);
        f.debug_struct("Composite")
            .field("enforced", &enforced.collect::<Vec<_>>())
            .field("shadows", &shadows.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
