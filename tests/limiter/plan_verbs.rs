//! Plans in composites, batches and wait queues.

use std::cell::Cell;
use std::future::{Future, pending};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::algorithm::Algorithm;
use tollgate::composite::Composite;
use tollgate::internals::PerKey;
use tollgate::limiter::SlotLayout;
use tollgate::plan::Plan;
use tollgate::wait::{Wait, WaitError, WaitQueue, Waitable};
use tollgate::{Decision, Direct, FixedWindow, Gcra, Limiter, ManualClock, Quota, Tick};

type Keyed<A> = Limiter<u64, A, ManualClock>;

const MILLIS: u64 = 1_000_000;

fn gate<A: Algorithm>(algorithm: A, slots: SlotLayout, capacity: u64) -> Keyed<A> {
    let quota = Quota::per_second(6);
    let built = Limiter::<u64>::builder(quota).algorithm(algorithm).clock(ManualClock::new());
    built.slots(slots).capacity(capacity).hash_seed(7).build().expect("in range")
}

/// A plan for each number up to 2.
fn plans<A: Algorithm<Params: PerKey>>(gate: &Keyed<A>) -> [Plan<A>; 3] {
    [6, 3, 2].map(|limit| gate.plan(Quota::per_second(limit)).expect("slower"))
}

/// The time since the last request in milliseconds, the key, its plan, and the cells.
type Act = (u64, u64, usize, u64);

fn acts() -> impl Strategy<Value = Vec<Act>> {
    prop::collection::vec((0_u64..700, 0_u64..3, 0_usize..3, 0_u64..5), 1..60)
}

/// The decision of two limits one after the other: the first with a plan, and the other if that admits.
fn one_after_the_other<A: Algorithm<Params: PerKey>>(
    (planned, other): (&Keyed<A>, &Direct<Gcra, ManualClock>),
    (key, plan): (u64, &Plan<A>),
    n: u64,
    now: Tick,
) -> bool {
    let (planned, other) =
        (|| planned.ask(&key).plan(plan).cells(n).at(now), || other.ask().cells(n).at(now));
    let admitted = planned().peek().is_ok() && other().peek().is_ok();
    if admitted {
        assert!(planned().check().is_ok() && other().check().is_ok());
    }
    admitted
}

fn left(decision: Decision) -> u64 {
    decision.map_or_else(|denied| denied.remaining(), |permit| permit.remaining())
}

fn a_composite_agrees<A: Algorithm<Params: PerKey> + Copy>(
    algorithm: A,
    acts: &[Act],
    is_last: bool,
) {
    let two = || {
        let quota = Quota::per_second(9);
        let other = Direct::builder(quota).clock(ManualClock::new()).build().expect("in range");
        (gate(algorithm, SlotLayout::Auto, 20), other)
    };
    let ((planned, other), (alone, other_alone)) = (two(), two());
    let (its, alone_plans) = (plans(&planned), plans(&alone));
    let begun = Composite::<(u64, usize)>::builder();
    let begun = if is_last { begun.shared("other", &other) } else { begun };
    let begun = begun.keyed_planned_by(
        "planned",
        &planned,
        |&(key, _)| key,
        |&(_, plan)| its[plan].clone(),
    );
    let begun = if is_last { begun } else { begun.shared("other", &other) };
    let both = begun.build().expect("all can refund");
    let mut now = Tick::ZERO;
    for &(millis, key, plan, n) in acts {
        now = Tick::from_nanos(now.as_nanos() + millis * MILLIS);
        let limits = (&alone, &other_alone);
        let expected = one_after_the_other(limits, (key, &alone_plans[plan]), n, now);
        assert_eq!(both.ask(&(key, plan)).cells(n).at(now).check().is_ok(), expected);
        for (one, two) in its.iter().zip(&alone_plans) {
            let left_of =
                |gate: &Keyed<A>, plan: &_| left(gate.ask(&key).plan(plan).at(now).peek());
            assert_eq!(left_of(&planned, one), left_of(&alone, two));
        }
    }
}

/// A composite that names one bucket twice charges it, finds no cell for the second charge, and refunds.
fn a_denial_refunds_the_plans_cells<A: Algorithm<Params: PerKey>>(algorithm: A) {
    let gate = gate(algorithm, SlotLayout::Auto, 20);
    for (key, plan) in (0..).zip(plans(&gate)) {
        let twice = Composite::<u64>::builder()
            .keyed_planned("once", &gate, |key| key, |_| plan.clone())
            .keyed_planned("again", &gate, |key| key, |_| plan.clone())
            .build()
            .expect("it can refund");
        let all = left(gate.ask(&key).plan(&plan).cells(0).at(Tick::ZERO).peek());
        for cells in 1..=all {
            let admits = cells * 2 <= all;
            assert_eq!(twice.ask(&key).cells(cells).at(Tick::ZERO).check().is_ok(), admits);
            let left = left(gate.ask(&key).plan(&plan).cells(0).at(Tick::ZERO).peek());
            assert_eq!(left, all - if admits { cells * 2 } else { 0 }, "{cells} of {all}");
            gate.ask(&key).plan(&plan).cells(all - left).at(Tick::ZERO).refund();
        }
    }
}

#[test]
fn a_denied_composite_refunds_by_the_plan_that_was_charged() {
    a_denial_refunds_the_plans_cells(Gcra::new().for_plans());
    a_denial_refunds_the_plans_cells(FixedWindow::anchored());
}

fn a_batch_agrees<A: Algorithm<Params: PerKey> + Copy>(algorithm: A, acts: &[Act], capacity: u64) {
    let [together, apart] = [(); 2].map(|()| gate(algorithm, SlotLayout::Auto, capacity));
    let (its, alone_plans) = (plans(&together), plans(&apart));
    for (batch, acts) in acts.chunks(20).enumerate() {
        let now = Tick::from_nanos(batch as u64 * 400 * MILLIS);
        let mut decisions = Vec::new();
        together
            .ask_each(acts, |(_, key, ..)| key)
            .plan(&|&(_, _, plan, _)| &its[plan])
            .at(now)
            .check(|_, decision| decisions.push(decision));
        let alone =
            |&(_, key, plan, _): &Act| apart.ask(&key).plan(&alone_plans[plan]).at(now).check();
        assert_eq!(decisions, acts.iter().map(alone).collect::<Vec<_>>());
    }
    assert_eq!(together.stats(), apart.stats());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_composite_with_plans_decides_like_its_limits_one_after_the_other(
        acts in acts(), is_last: bool,
    ) {
        a_composite_agrees(Gcra::new().for_plans(), &acts, is_last);
        a_composite_agrees(FixedWindow::anchored(), &acts, is_last);
    }

    /// In a table that fits the cache, and in a larger one, whose lookups are begun ahead.
    #[test]
    fn a_batch_with_plans_decides_like_single_requests(acts in acts()) {
        for capacity in [20, 100_000] {
            a_batch_agrees(Gcra::new().for_plans(), &acts, capacity);
            a_batch_agrees(FixedWindow::anchored(), &acts, capacity);
        }
    }
}

#[test]
fn a_plan_of_another_limiter_panics_before_a_composite_charges() {
    let (mine, other) = (gate(Gcra::new(), SlotLayout::Auto, 20), Quota::per_second(700));
    let other = Limiter::<u64>::builder(other).algorithm(Gcra::new().for_plans()).build();
    let other = other.expect("in range");
    let foreign = other.plan(Quota::per_second(300)).expect("slower");
    let shared = Direct::new(Quota::per_hour(5)).expect("in range");
    let both = Composite::<u64>::builder()
        .shared("shared", &shared)
        .keyed_planned("planned", &mine, |key| key, |_| foreign.clone())
        .build()
        .expect("token buckets can refund");
    let panicked = catch_unwind(AssertUnwindSafe(|| both.check(&1).is_ok()));
    let message = *panicked.unwrap_err().downcast::<&str>().expect("a text");
    assert_eq!(message, "a plan is for the limiter that made it");
    assert_eq!(left(shared.ask().cells(0).peek()), 5);
}

type Waiter<'a, S> =
    Wait<'a, S, fn(Duration) -> std::future::Pending<()>, std::future::Pending<()>>;

fn poll<S: Waitable>(waiter: &mut Waiter<'_, S>) -> Option<Result<Duration, WaitError>> {
    match Pin::new(waiter).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result.map(|waited| waited.waited())),
        Poll::Pending => None,
    }
}

/// When and how the waiters of a script end: each joins after some milliseconds, for some cells, and waits
/// at most three seconds; one of them may leave; they may be polled late.
fn waits<'q, S: Waitable>(
    queue: &'q WaitQueue<S>,
    clock: &ManualClock,
    acts: &[(u64, u64, bool, bool)],
    join: impl Fn(u64) -> Waiter<'q, S>,
) -> Vec<(usize, u64, Result<Duration, WaitError>)> {
    let (mut ended, mut waiters) = (Vec::new(), Vec::new());
    let now = Cell::new(0);
    let advance = |waiters: &mut Vec<(usize, Waiter<'q, S>)>, ended: &mut Vec<_>, millis, step| {
        for _ in 0..millis / step {
            now.set(now.get() + step);
            clock.set(Tick::from_nanos(now.get() * MILLIS));
            waiters.retain_mut(|(index, waiter)| {
                poll(waiter).map(|result| ended.push((*index, now.get(), result))).is_none()
            });
        }
    };
    for (index, &(fifties, cells, leaves, is_late)) in acts.iter().enumerate() {
        let millis = fifties * 50;
        advance(&mut waiters, &mut ended, millis, if is_late { millis.max(50) } else { 50 });
        let mut waiter = join(cells);
        match poll(&mut waiter) {
            Some(result) => ended.push((index, now.get(), result)),
            None => waiters.push((index, waiter)),
        }
        if leaves && !waiters.is_empty() {
            drop(waiters.remove(waiters.len() / 2));
        }
    }
    advance(&mut waiters, &mut ended, 10_000, 50);
    assert!(waiters.is_empty() && queue.waiting() == 0);
    ended
}

const PATIENCE: Duration = Duration::from_secs(3);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A plan's waiters wait as long as before a limiter of that quota, and go in the same order.
    #[test]
    fn a_wait_queue_with_a_plan_waits_like_one_before_a_limiter_of_that_quota(
        rate in prop::sample::select(vec![5_u64, 10]), burst in 1_u64..5,
        acts in prop::collection::vec((0_u64..12, 0_u64..5, prop::bool::weighted(0.2), any::<bool>()), 1..40),
    ) {
        let quota = Quota::per_second(rate).burst(burst);
        let clocks = [(); 2].map(|()| ManualClock::new());
        let built = Direct::builder(quota).clock(&clocks[0]).build().expect("in range");
        let own = WaitQueue::new(built);
        let expected = waits(&own, &clocks[0], &acts, |cells| {
            own.ask(&()).cells(cells).max_delay(PATIENCE).wait_async(|_| pending())
        });
        let built = Limiter::<u64>::builder(Quota::per_second(20)).algorithm(Gcra::new().for_plans());
        let planned = WaitQueue::new(built.clock(&clocks[1]).build().expect("in range"));
        let plan = planned.limiter().plan(quota).expect("slower");
        let ended = waits(&planned, &clocks[1], &acts, |cells| {
            planned.ask(&1).plan(&plan).cells(cells).max_delay(PATIENCE).wait_async(|_| pending())
        });
        prop_assert_eq!(ended, expected);
    }
}

/// A waiter whose plan has a larger burst does not go ahead of one that came before it, and does not ask for
/// a turn that is due already.
#[test]
fn waiters_of_two_plans_go_in_the_order_of_their_arrival() {
    let clock = ManualClock::new();
    let built = Limiter::<u64>::builder(Quota::per_second(10)).algorithm(Gcra::new().for_plans());
    let queue = WaitQueue::new(built.clock(&clock).build().expect("in range"));
    let plan = |burst| queue.limiter().plan(Quota::per_second(10).burst(burst)).expect("in range");
    let (small, large) = (plan(1), plan(9));
    let begin = |plan| -> Waiter<'_, _> { queue.ask(&1).plan(plan).wait_async(|_| pending()) };
    assert_eq!(poll(&mut begin(&small)), Some(Ok(Duration::ZERO)));
    let (mut first, mut second) = (begin(&small), begin(&large));
    assert_eq!((poll(&mut first), poll(&mut second)), (None, None));
    clock.set(Tick::from_nanos(99 * MILLIS));
    assert_eq!((poll(&mut second), poll(&mut first)), (None, None));
    clock.set(Tick::from_nanos(100 * MILLIS));
    assert_eq!(poll(&mut second), Some(Ok(Duration::from_millis(100))));
    assert_eq!(poll(&mut first), Some(Ok(Duration::from_millis(100))));
}

/// A queue sleeps until the turn of the waiter before, where the plan of the one behind is due by then.
#[test]
fn a_waiter_behind_one_of_a_smaller_plan_sleeps_until_its_turn() {
    let clock = ManualClock::new();
    let built = Limiter::<u64>::builder(Quota::per_second(10)).algorithm(Gcra::new().for_plans());
    let queue = WaitQueue::new(built.clock(&clock).build().expect("in range"));
    let plan = |burst| queue.limiter().plan(Quota::per_second(10).burst(burst)).expect("in range");
    let (small, large) = (plan(1), plan(9));
    assert!(queue.limiter().ask(&1).plan(&small).check().is_ok());
    let mut first: Waiter<'_, _> = queue.ask(&1).plan(&small).wait_async(|_| pending());
    assert_eq!(poll(&mut first), None);
    let mut slept = Vec::new();
    let mut second = queue.ask(&1).plan(&large).wait_async(|span| {
        slept.push(span);
        pending::<()>()
    });
    let pending = Pin::new(&mut second).poll(&mut Context::from_waker(Waker::noop()));
    assert!(pending.is_pending());
    drop(second);
    assert_eq!(slept, [Duration::from_millis(100)]);
}
