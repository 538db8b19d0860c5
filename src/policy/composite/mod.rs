//! Several limits in one decision: all of them are charged, or none.
//!
//! The model `loom-tests/tests/composite.rs` guards this protocol:
//! `RUSTFLAGS='--cfg tollgate_loom' cargo test -p loom-tests --release --test composite`.

mod answer;
mod builder;
mod in_flight;
mod member;
mod precheck;

use core::fmt;

pub use answer::{CompositeDenied, CompositePermit};
pub use builder::{CompositeBuilder, CompositeError};

use crate::algo::PlanParams;
use crate::charge::refund::RefundableCharge;
use crate::concurrency::{Guard, OwnedGuard, sealed};
use crate::decision::{Denied, Permit};
use crate::limiter::ask::{Ask, sealed::Gate};
use crate::policy::shadow::ShadowCounts;
use crate::sync::{Fault, planted};
use crate::table::Tally;
use crate::time::Tick;
use member::{Member, Target};

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
/// unless another request took the cells between pre-check and charge (see below). A denial reports
/// the longest wait and the fewest cells left of all enforced limits, including those after the one
/// that denied. A decision takes no lock, allocates nothing, and waits for no other thread.
///
/// **Not guaranteed.**
///
/// - If another request takes a limit's last cells between pre-check and charge, the limits before
///   it stay charged for a moment: well under a microsecond, or as long as the system stops the
///   thread. A third request may be denied meanwhile that would have been admitted. Each of those
///   limits may lose what time restores meanwhile, at most the cells that were asked for. This
///   happens at most once for each concurrent request whenever the later limit grants cells, not
///   whenever it denies. It also happens whenever one bucket is added twice, or two keys of a
///   request are one key of a limiter, and the bucket has cells for one of them only.
/// - The limits are not read at one instant. The reported tightest limit and longest wait may be of
///   slightly different moments while other threads charge the limits.
/// - In [compact slots](crate::limiter::SlotLayout), and if a key was evicted and has come back meanwhile, a
///   refund may reach the key's later life.
/// - If the clocks of two threads differ by `s`, or a thread is stopped for `s` after it has read
///   its clock, the refund after such a denial may be `rate * s` cells too large, but no larger
///   than the cells that were asked for. The same holds if threads call
///   [ask at](Ask::at) times that differ by `s`.
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
/// A [shadow](crate::shadow) limit is asked about the requests that all enforced limits admit, and
/// charges for those that it admits. [`shadows`](Self::shadows) has its counts, and
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

    fn decide(
        &self,
        request: &R,
        n: u64,
        given: Option<Tick>,
    ) -> Result<CompositeEntry, CompositeDenied> {
        // Call the caller's functions before anything is charged: a panic then leaves no charge.
        if self.has_plans {
            let plans = self.plans(request);
            return self.decide_by(self.targets(request, &plans, given), n, given);
        }
        self.decide_by(self.targets(request, &[], given), n, given)
    }

    fn decide_by(
        &self,
        targets: [Target<'_>; MEMBERS_MAX],
        n: u64,
        given: Option<Tick>,
    ) -> Result<CompositeEntry, CompositeDenied> {
        if !planted(Fault::LaterNotPeeked) {
            for (index, (NamedLimit { member, .. }, &target)) in
                self.enforced().zip(&targets).enumerate()
            {
                if let Err(denied) = member.precheck(target, n, index == self.refundable.len()) {
                    return Err(self.deny(&targets, n, index, denied));
                }
            }
        }
        let mut charges = [RefundableCharge::Nothing; MEMBERS_MAX];
        let mut tightest: Option<Tightest> = None;
        for (index, (NamedLimit { name, member }, &target)) in
            self.refundable.iter().zip(&targets).enumerate()
        {
            match member.take(target, n) {
                Ok((taken, permit)) => {
                    charges[index] = taken;
                    tightest = Some(Tightest::of(tightest, name, permit, &**member));
                }
                Err(denied) => {
                    self.refund(&targets, &charges[..index], given);
                    return Err(self.deny(&targets, n, index, denied));
                }
            }
        }
        let index = self.refundable.len();
        let permit = match self.last.member.take_last(targets[index], n, given) {
            Ok((taken, permit)) => {
                charges[index] = taken;
                permit
            }
            Err(denied) => {
                self.refund(&targets, &charges[..index], given);
                return Err(self.deny(&targets, n, index, denied));
            }
        };
        self.refundable.iter().for_each(|named| named.member.count_admitted());
        let delay = permit.delay();
        let Tightest { name: tightest, permit, .. } =
            Tightest::of(tightest, self.last.name, permit, &*self.last.member);
        let would_deny = self.try_shadows(&targets, n, given, &mut charges[index + 1..]);
        let permit = CompositePermit { tightest, permit, delay, would_deny };
        Ok(CompositeEntry { permit, charges })
    }

    /// Gives back what is in flight of an entry.
    fn leave_all(&self, entry: &CompositeEntry) {
        for (named, taken) in self.all().zip(&entry.charges) {
            if named.member.counts_in_flight() {
                named.member.refund(None, taken, None);
            }
        }
    }

    /// The enforced limits, in order.
    fn enforced(&self) -> impl Iterator<Item = &NamedLimit<'a, R>> {
        self.refundable.iter().chain([&self.last])
    }

    /// All limits, in the order of the targets.
    fn all(&self) -> impl Iterator<Item = &NamedLimit<'a, R>> {
        self.enforced().chain(self.shadows.iter().map(|(named, _)| named))
    }

    /// The plan for each limit.
    fn plans(&self, request: &R) -> [Option<PlanParams>; MEMBERS_MAX] {
        let mut plans = [const { None }; MEMBERS_MAX];
        for (plan, named) in plans.iter_mut().zip(self.all()) {
            *plan = named.member.plan(request);
        }
        plans
    }

    /// The key, the time and the plan for each limit: the enforced ones, then the shadows.
    fn targets<'p>(
        &self,
        request: &R,
        plans: &'p [Option<PlanParams>],
        given: Option<Tick>,
    ) -> [Target<'p>; MEMBERS_MAX] {
        let mut targets = [Target::default(); MEMBERS_MAX];
        for (target, named) in targets.iter_mut().zip(self.all()) {
            *target = named.member.target(request, given);
        }
        for (target, plan) in targets.iter_mut().zip(plans) {
            target.plan = plan.as_ref();
        }
        targets
    }

    /// Refunds the charges of the first limits. A later limit had room at the pre-check, and
    /// another request was faster.
    #[cold]
    #[inline(never)]
    fn refund(&self, targets: &[Target<'_>], charges: &[RefundableCharge], given: Option<Tick>) {
        let times = match () {
            () if planted(Fault::RefundLeftOut) => 0,
            () if planted(Fault::RefundedTwice) => 2,
            () => 1,
        };
        for ((NamedLimit { member, .. }, target), taken) in
            self.refundable.iter().zip(targets).zip(charges)
        {
            (0..times).for_each(|_| member.refund(target.plan, taken, given));
        }
    }

    /// The denial by the limit at `index`, with the wait and the remainder over all enforced
    /// limits.
    #[cold]
    #[inline(never)]
    fn deny(
        &self,
        targets: &[Target<'_>; MEMBERS_MAX],
        n: u64,
        index: usize,
        denied: Denied,
    ) -> CompositeDenied {
        let NamedLimit { name: limit_name, member } =
            self.enforced().nth(index).unwrap_or(&self.last);
        let by_requests_in_flight = member.counts_in_flight();
        let (mut retry_after, mut remaining) = (denied.retry_after(), denied.remaining());
        for (other, (NamedLimit { member, .. }, &target)) in
            self.enforced().zip(targets).enumerate()
        {
            if other == index {
                continue;
            }
            if let Err(denied) = member.peek(target, n) {
                let wait = denied.retry_after();
                retry_after = retry_after.and_then(|longest| Some(wait?.max(longest)));
            }
            let left = match member.peek(target, 0) {
                Ok(permit) => permit.remaining(),
                Err(denied) => denied.remaining(),
            };
            // Room for one more request in flight is room for any number of cells.
            let is_room = member.counts_in_flight() && left > 0;
            remaining = if is_room { remaining } else { remaining.min(left) };
        }
        CompositeDenied { limit_name, denied, retry_after, remaining, by_requests_in_flight }
    }

    /// Asks the shadow limits, counts their decisions, and returns the name of the first that would
    /// have denied.
    fn try_shadows(
        &self,
        targets: &[Target<'_>; MEMBERS_MAX],
        n: u64,
        given: Option<Tick>,
        charges: &mut [RefundableCharge],
    ) -> Option<&'static str> {
        let mut would_deny = None;
        let targets = &targets[self.refundable.len() + 1..];
        for (((named, tally), &target), charge) in self.shadows.iter().zip(targets).zip(charges) {
            let taken = named.member.take_last(target, n, given);
            let admitted = taken.is_ok();
            if let Ok((taken, _)) = taken {
                *charge = taken;
            }
            tally.count(admitted);
            if !admitted {
                would_deny = would_deny.or(Some(named.name));
            }
        }
        would_deny
    }
}

/// The limit with the fewest cells left so far, of those asked.
#[derive(Clone, Copy)]
struct Tightest {
    name: &'static str,
    permit: Permit,
    /// Whether it counts requests in flight, and the cells left: computed once, since it takes a division.
    rank: (bool, u64),
}

impl<R: ?Sized> Gate for Composite<'_, R> {
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

impl Tightest {
    /// Cells in flight are not compared with cells of quotas, and come after those.
    fn of<R: ?Sized>(
        others: Option<Self>,
        name: &'static str,
        permit: Permit,
        member: &dyn Member<R>,
    ) -> Self {
        let rank = (member.counts_in_flight(), permit.remaining());
        match others {
            Some(tightest) if tightest.rank <= rank => tightest,
            _ => Self { name, permit, rank },
        }
    }
}

/// What a request was granted, and the charges that a guard gives back.
#[derive(Clone, Copy, Debug)]
pub struct CompositeEntry {
    permit: CompositePermit,
    charges: [RefundableCharge; MEMBERS_MAX],
}

impl<R: ?Sized> sealed::Enter for Composite<'_, R> {
    type Entry = CompositeEntry;
    type Denied = CompositeDenied;

    fn enter_cells(
        &self,
        request: &R,
        cells: u64,
        at: Option<Tick>,
    ) -> Result<CompositeEntry, CompositeDenied> {
        self.decide(request, cells, at)
    }

    fn leave(&self, entry: &CompositeEntry) {
        if self.counts_in_flight {
            self.leave_all(entry);
        }
    }
}

impl<R: ?Sized> Guard<'_, Composite<'_, R>> {
    /// What the request was granted.
    pub fn permit(&self) -> &CompositePermit {
        &self.entry().permit
    }
}

impl<R: ?Sized> OwnedGuard<Composite<'_, R>> {
    /// What the request was granted.
    pub fn permit(&self) -> &CompositePermit {
        &self.entry().permit
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
