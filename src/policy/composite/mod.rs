//! Several limits in one decision: all of them, or none.

mod answer;
mod builder;
mod foresee;
mod member;

use core::fmt;

pub use answer::{CompositeDenied, CompositePermit, CompositeShadow};
pub use builder::{CompositeBuilder, CompositeError};

use crate::charge::refund::Taken;
use crate::decision::{Denied, Permit};
use crate::limiter::ask::{Ask, sealed::Gate};
use crate::sync::{Fault, planted};
use crate::table::Tally;
use crate::time::Tick;
use member::{Member, Target};

/// Limits in a composite, at most.
const MEMBERS_MAX: usize = 8;

/// Several limits for one request: for example per second, per minute and per tenant.
///
/// A request goes ahead if every enforced limit admits it. A decision has three steps:
///
/// 1. It finds the keys of all limits and reads their clocks. A key function that panics leaves
///    nothing charged.
/// 2. It looks at all limits, in the order in which they were named. If one would deny, it denies the
///    request, and nothing is charged.
/// 3. It charges all limits, in the same order. If another request was faster and a limit denies after
///    all, the limits before it are refunded.
///
/// Each limit may have a key of its own, an algorithm of its own, and users beside the composite. A
/// *shadow* limit is asked and counted, and never denies.
///
/// `R` is the request as the limits' keys are found in it.
///
/// **Guarantee.** No limit grants more than it would by itself, under any interleaving of threads.
/// After a denial, every limit holds what it would hold if it had not been asked, to the time unit,
/// unless another request took the cells between the look and the charge (see below). A denial carries
/// the longest wait and the fewest cells left of all enforced limits, also of those after the one that
/// denied. A decision takes no lock, allocates nothing, and waits for no other thread.
///
/// **Not guaranteed.**
///
/// - If another request takes a limit's last cells between the look and the charge, the limits before it
///   are charged until the refund: for well under a microsecond, or as long as the system stops the thread.
///   A third request may be denied meanwhile that would have been admitted. Each of those limits may
///   lose what time restores meanwhile, at most the cells that were asked for. This happens at most once
///   for each request under way whenever the later limit grants cells, not whenever it denies. It also
///   happens whenever one bucket is named twice, or two keys of a request are one key of a limiter, and
///   it has cells for one of them only.
/// - The limits are not read at one instant: while other threads charge them, the tightest limit and the
///   longest wait may be of slightly different moments.
/// - In [compact slots](crate::limiter::SlotLayout), and where a key was forgotten to make room for another and
///   has come back meanwhile, a refund may reach the key's later life.
/// - If the clocks of two threads differ by `s`, or a thread is stopped for `s` after it has read its
///   clock, such a denial may refund `rate * s` cells too many, but no more than were asked for. So it
///   may where threads [ask at](Ask::at) times that differ by `s`.
/// - Where a [`DynamicGcra`](crate::dynamic::DynamicGcra) quota changes while a request is being denied, what was charged
///   before may not be refunded, or may be refunded although the change has restored it.
/// - A request that is denied in step 3 may have claimed a slot in the limiters before, and, with
///   [`EvictNearestIdle`](crate::OnFull::EvictNearestIdle), another key may have lost its own to it.
/// - Cells that threads hold by [`lease_hot_keys`](crate::Builder::lease_hot_keys) or in
///   [leases](crate::lease::LocalLease) are not spent here, except by the last enforced limit.
///
/// # Which algorithms
///
/// [`Gcra`](crate::Gcra), [`DynamicGcra`](crate::dynamic::DynamicGcra) and [`FixedWindow`](crate::FixedWindow) anywhere. The
/// others cannot refund a charge, so they may be the last enforced limit, or shadows; otherwise
/// [`build`] is an error.
///
/// # Time
///
/// [`check`](Self::check) has each limit read its own clock, so it does not matter which clocks they
/// have and when they were made. [`Ask::at`] asks all of them at one [`Tick`]: that
/// needs limits whose clocks have one origin (clones of one clock), if they are also used beside the
/// composite, or have windows aligned to the wall clock.
///
/// # Shadow limits
///
/// A shadow limit sees the requests that it would see if it were the last enforced limit: those that
/// all enforced ones admit. It is charged for those that it admits. What it answers is counted (see
/// [`shadows`](Self::shadows)) and reported by [`CompositePermit::would_deny`], and changes nothing else. Its effect
/// on the other limits is not seen: if it were enforced, they would be charged less. Several shadows do
/// not see each other. To compare two quotas on the same keys, see [`Shadow`](crate::shadow::Shadow).
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
    /// The enforced limits but the last, whose charges can be refunded.
    taken: Box<[Named<'a, R>]>,
    /// The last one, which is never refunded.
    last: Named<'a, R>,
    shadows: Box<[Shadowed<'a, R>]>,
}

struct Named<'a, R: ?Sized> {
    name: &'static str,
    member: Box<dyn Member<R> + 'a>,
}

struct Shadowed<'a, R: ?Sized> {
    named: Named<'a, R>,
    tally: Tally,
}

impl<'a, R: ?Sized> Composite<'a, R> {
    /// Begins a composite; [`CompositeBuilder`] says what can be in it.
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
    /// The denial, with the limit that denied and the time to come back.
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

    /// Asks every limit for `n` cells, now.
    ///
    /// # Errors
    ///
    /// The denial, with the limit that denied and the time to come back.
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

    /// What the shadow limits would have decided so far, in the order in which they were named.
    ///
    /// ```
    /// # use tollgate::composite::Composite;
    /// # use tollgate::{Direct, Quota};
    /// let gate = Direct::new(Quota::per_hour(1))?;
    /// let one = Composite::<()>::builder().shared("all", gate).build()?;
    /// assert_eq!(one.shadows().count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shadows(&self) -> impl Iterator<Item = CompositeShadow> {
        self.shadows.iter().map(|Shadowed { named, tally }| CompositeShadow {
            name: named.name,
            admitted: tally.total(true),
            would_deny: tally.total(false),
        })
    }

    fn decide(
        &self,
        request: &R,
        n: u64,
        given: Option<Tick>,
    ) -> Result<CompositePermit, CompositeDenied> {
        // Nothing is charged yet when the caller's functions run, so that a panic leaves nothing behind.
        let targets = self.targets(request, given);
        if !planted(Fault::LaterNotLookedAt) {
            for (index, (Named { member, .. }, &target)) in
                self.enforced().zip(&targets).enumerate()
            {
                if let Err(denied) = member.foresee(target, n, index == self.taken.len()) {
                    return Err(self.deny(&targets, n, index, denied));
                }
            }
        }
        let mut charges = [Taken::Nothing; MEMBERS_MAX - 1];
        let mut tightest: Option<Tightest> = None;
        for (index, (Named { name, member }, &target)) in
            self.taken.iter().zip(&targets).enumerate()
        {
            match member.take(target, n) {
                Ok((taken, permit)) => {
                    charges[index] = taken;
                    tightest = Some(Tightest::of(tightest, name, permit));
                }
                Err(denied) => {
                    self.refund(&charges[..index], given);
                    return Err(self.deny(&targets, n, index, denied));
                }
            }
        }
        let index = self.taken.len();
        let permit = match self.last.member.check(targets[index], n, given) {
            Ok(permit) => permit,
            Err(denied) => {
                self.refund(&charges[..index], given);
                return Err(self.deny(&targets, n, index, denied));
            }
        };
        self.taken.iter().for_each(|named| named.member.count_admitted());
        let delay = permit.delay();
        let Tightest { name: tightest, permit, .. } =
            Tightest::of(tightest, self.last.name, permit);
        let would_deny = self.try_shadows(&targets, n, given);
        Ok(CompositePermit { tightest, permit, delay, would_deny })
    }

    /// The enforced limits, in order.
    fn enforced(&self) -> impl Iterator<Item = &Named<'a, R>> {
        self.taken.iter().chain([&self.last])
    }

    /// What each limit is asked about: the enforced ones, then the shadows.
    fn targets(&self, request: &R, given: Option<Tick>) -> [Target; MEMBERS_MAX] {
        let mut targets = [Target::default(); MEMBERS_MAX];
        let shadows = self.shadows.iter().map(|shadowed| &shadowed.named);
        for (target, named) in targets.iter_mut().zip(self.enforced().chain(shadows)) {
            *target = named.member.target(request, given);
        }
        targets
    }

    /// Gives back what the first limits were charged: a later one had room when it was looked at, and
    /// another request was faster.
    #[cold]
    #[inline(never)]
    fn refund(&self, charges: &[Taken], given: Option<Tick>) {
        let times = match () {
            () if planted(Fault::GiveBackLeftOut) => 0,
            () if planted(Fault::GivenBackTwice) => 2,
            () => 1,
        };
        for (Named { member, .. }, taken) in self.taken.iter().zip(charges) {
            (0..times).for_each(|_| member.refund(taken, given));
        }
    }

    /// The denial by the limit of this index, and what the others would have said.
    #[cold]
    #[inline(never)]
    fn deny(
        &self,
        targets: &[Target; MEMBERS_MAX],
        n: u64,
        index: usize,
        denied: Denied,
    ) -> CompositeDenied {
        let limit_name = self.enforced().nth(index).map_or(self.last.name, |named| named.name);
        let (mut retry_after, mut remaining) = (denied.retry_after(), denied.remaining());
        for (other, (Named { member, .. }, &target)) in self.enforced().zip(targets).enumerate() {
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
            remaining = remaining.min(left);
        }
        CompositeDenied { limit_name, denied, retry_after, remaining }
    }

    /// Asks the shadow limits, counts their answers, and names the first that would have denied.
    fn try_shadows(
        &self,
        targets: &[Target; MEMBERS_MAX],
        n: u64,
        given: Option<Tick>,
    ) -> Option<&'static str> {
        let mut would_deny = None;
        let targets = &targets[self.taken.len() + 1..];
        for (Shadowed { named, tally }, &target) in self.shadows.iter().zip(targets) {
            let admitted = named.member.check(target, n, given).is_ok();
            tally.count(admitted);
            if !admitted {
                would_deny = would_deny.or(Some(named.name));
            }
        }
        would_deny
    }
}

/// The limit with the fewest cells left so far.
#[derive(Clone, Copy)]
struct Tightest {
    name: &'static str,
    permit: Permit,
    /// Worked out once: it takes a division.
    remaining: u64,
}

impl<R: ?Sized> Gate for Composite<'_, R> {
    type Key = R;
    type Params = ();
}

impl<R: ?Sized> Ask<'_, '_, Composite<'_, R>> {
    /// Charges the cells to every limit if all enforced ones admit them: see [`Composite`].
    ///
    /// # Errors
    ///
    /// The denial, with the limit that denied and the time to come back.
    pub fn check(self) -> Result<CompositePermit, CompositeDenied> {
        self.gate.decide(self.key, self.cells, self.at)
    }
}

impl Tightest {
    fn of(others: Option<Self>, name: &'static str, permit: Permit) -> Self {
        let remaining = permit.remaining();
        match others {
            Some(tightest) if tightest.remaining <= remaining => tightest,
            _ => Self { name, permit, remaining },
        }
    }
}

impl<R: ?Sized> fmt::Debug for Composite<'_, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let enforced = self.enforced().map(|named| named.name);
        let shadows = self.shadows.iter().map(|shadowed| shadowed.named.name);
        f.debug_struct("Composite")
            .field("enforced", &enforced.collect::<Vec<_>>())
            .field("shadows", &shadows.collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
