//! Wait queues never exceed the limit, whichever requests wait, leave, or do not wait.

use std::cell::{Cell, RefCell};
use std::future::{Future, Pending, pending};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::wait::{Wait, WaitError, WaitQueue, Waitable, Waited};
use tollgate::{Clock, Direct, Gcra, Limiter, ManualClock, Quota, Tick};

use crate::bodies::span::worst_excess_of_bucket;

const SECOND: u64 = 1_000_000_000;
const RATE: u64 = 10;

/// An action after a number of nanoseconds.
#[derive(Clone, Debug)]
enum Act {
    /// Joins the queue for a number of cells, for at most a number of tenths of a second.
    Join(u64, u64),
    /// Asks for a number of cells without waiting.
    Ask(u64),
    /// One of the waiters leaves.
    Leave(prop::sample::Index),
}

fn acts() -> impl Strategy<Value = Vec<(u64, Act)>> {
    let gaps = prop_oneof![4 => Just(0), 4 => 0..SECOND / 4, 1 => 0..3 * SECOND];
    let act = prop_oneof![
        4 => (1_u64..5, 0_u64..30).prop_map(|(n, max_tenths)| Act::Join(n, max_tenths)),
        1 => (1_u64..5).prop_map(Act::Ask),
        1 => any::<prop::sample::Index>().prop_map(Act::Leave),
    ];
    prop::collection::vec((gaps, act), 1..80)
}

type Asleep = Pending<()>;
type Waiter<'a, S> = (u64, Wait<'a, S, fn(Duration) -> Asleep, Asleep>);

fn poll_once<S: Waitable>((_, waiter): &mut Waiter<'_, S>) -> Poll<Result<Waited, WaitError>> {
    Pin::new(waiter).poll(&mut Context::from_waker(Waker::noop()))
}

/// Polls all waiters in the order of their arrival, and removes those that are done. Appends the
/// time and the cells of each grant to `spent`.
fn poll_all<S: Waitable>(
    waiters: &mut Vec<Waiter<'_, S>>,
    now: u64,
    spent: &mut Vec<(u64, u64)>,
) -> Result<(), TestCaseError> {
    let mut someone_waits = false;
    let mut left = Vec::new();
    for mut waiter in waiters.drain(..) {
        match poll_once(&mut waiter) {
            Poll::Ready(Ok(_)) => {
                prop_assert!(!someone_waits, "first come, first served");
                spent.push((now, waiter.0));
            }
            Poll::Ready(Err(_)) => {}
            Poll::Pending => {
                someone_waits = true;
                left.push(waiter);
            }
        }
    }
    *waiters = left;
    Ok(())
}

/// The time and the cells of every grant. All waiters poll before and after every action.
fn spent(burst: u64, acts: &[(u64, Act)]) -> Result<Vec<(u64, u64)>, TestCaseError> {
    let clock = ManualClock::new();
    let quota = Quota::per_second(RATE).burst(burst);
    let gate: Direct<Gcra, _> = Direct::builder(quota).clock(&clock).build().expect("in range");
    let queue = WaitQueue::new(gate);
    let (mut now, mut spent, mut waiters) = (SECOND, Vec::new(), Vec::new());
    for (gap, act) in acts {
        now += gap;
        clock.set(Tick::from_nanos(now));
        poll_all(&mut waiters, now, &mut spent)?;
        match act {
            Act::Join(n, max_tenths) => {
                let (n, max) = ((*n).min(burst), Duration::from_millis(max_tenths * 100));
                let ask = queue.ask(&()).cells(n).max_delay(max);
                waiters.push((n, ask.wait_async((|_| pending()) as fn(_) -> _)));
            }
            Act::Ask(n) if queue.limiter().check_n(*n).is_ok() => spent.push((now, *n)),
            Act::Leave(index) if !waiters.is_empty() => {
                drop(waiters.remove(index.index(waiters.len())));
            }
            _ => {}
        }
        poll_all(&mut waiters, now, &mut spent)?;
    }
    prop_assert_eq!(queue.waiting(), waiters.len());
    Ok(spent)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_wait_queue_is_granted_no_more_than_the_quota(burst in 1_u64..5, acts in acts()) {
        let spent = spent(burst, &acts)?;
        prop_assert!(worst_excess_of_bucket(&spent, RATE, burst) <= 0.0, "{spent:?}");
    }
}

#[test]
fn the_check_detects_cells_that_are_granted_early() {
    assert!(worst_excess_of_bucket(&[(0, 1), (SECOND / 10 - 3_000, 1)], RATE, 1) > 0.0);
    assert!(worst_excess_of_bucket(&[(0, 1), (SECOND / 10, 1)], RATE, 1) <= 0.0);
}

/// The clock moves only in a sleep, and by the length of that sleep.
#[test]
fn a_sleep_ends_at_the_turn() {
    let clock = ManualClock::new();
    let quota = Quota::per_second(RATE).burst(1);
    let queue = WaitQueue::new(Direct::builder(quota).clock(&clock).build().expect("in range"));
    let mut slept = Vec::new();
    for _ in 0..4 {
        let mut wait = queue.ask(&()).wait_async(|span| {
            slept.push(span);
            clock.advance(span);
            std::future::ready(())
        });
        let result = Pin::new(&mut wait).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(result, Poll::Ready(Ok(_))), "{result:?}");
    }
    assert_eq!(slept, [Duration::from_millis(100); 3]);
}

/// Cells that are added to the key, or its reset, leave the first waiter its turn. No other spins until then.
#[test]
fn those_behind_a_booked_waiter_sleep_until_its_turn_whatever_is_added_to_the_key() {
    type Keyed = Limiter<u64, Gcra, ManualClock>;
    let gifts: [fn(&Keyed); 3] = [
        |gate| gate.reset(&7),
        |gate| gate.ask(&7).refund(),
        |gate| gate.ask(&7).cells(99).refund(),
    ];
    for (index, give) in gifts.into_iter().enumerate() {
        let clock = ManualClock::new();
        let quota = Quota::per_minute(6).burst(1);
        let gate: Keyed = Limiter::builder(quota).clock(clock.clone()).build().expect("in range");
        let (queue, naps) = (WaitQueue::new(&gate), RefCell::new(vec![]));
        let sleep = |span: Duration| -> Asleep {
            naps.borrow_mut().push(span);
            pending()
        };
        assert!(gate.check(&7).is_ok());
        let [mut first, mut second] = [(); 2].map(|()| queue.ask(&7).wait_async(sleep));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut first).poll(context).is_pending());
        clock.advance(Duration::from_secs(1));
        give(&gate);
        assert!(Pin::new(&mut second).poll(context).is_pending());
        assert_eq!(*naps.borrow(), [10, 9].map(Duration::from_secs), "gift {index}");
        clock.advance(Duration::from_secs(9));
        assert!(matches!(Pin::new(&mut first).poll(context), Poll::Ready(Ok(_))));
        if Pin::new(&mut second).poll(context).is_pending() {
            clock.advance(Duration::from_secs(10));
            assert!(matches!(Pin::new(&mut second).poll(context), Poll::Ready(Ok(_))));
        }
        assert!(naps.borrow().iter().all(|nap| nap.as_secs() >= 9), "{naps:?}");
        assert_eq!(queue.waiting(), 0, "gift {index}");
    }
}

#[test]
fn a_wait_can_move_between_threads() {
    fn assert_send<T: Send>(_: &T) {}
    let queue = WaitQueue::new(Direct::new(Quota::per_second(1)).expect("in range"));
    assert_send(&queue.ask(&()).wait_async(|_| pending::<()>()));
    assert_send(&queue);
}

/// A clock whose reader is interrupted once, right after it has read: meanwhile another thread decides.
#[derive(Clone, Default)]
struct Interrupted {
    clock: ManualClock,
    meanwhile: Rc<Cell<Option<Meanwhile>>>,
}

type Meanwhile = Box<dyn FnOnce()>;

impl Clock for Interrupted {
    fn now(&self) -> Tick {
        let now = self.clock.now();
        self.meanwhile.take().into_iter().for_each(|meanwhile| meanwhile());
        now
    }
}

/// A waiter is granted ten cells and leaves late. Between its clock and its refund another caller takes the ten cells
/// that time has restored. `check` asks for ten cells at an instant.
fn leave_interrupted<S: Waitable>(
    queue: &WaitQueue<S>,
    key: &S::Key,
    clock: &Interrupted,
    check: impl Fn(u64) -> bool + Copy + 'static,
) {
    const MILLI: u64 = SECOND / 1_000;
    let set = |nanos| clock.clock.set(Tick::from_nanos(nanos));
    assert!(check(SECOND - 10 * MILLI));
    set(SECOND - 10 * MILLI);
    let join = |n| (n, queue.ask(key).cells(n).wait_async((|_| pending()) as fn(_) -> Asleep));
    let (mut first, mut second) = (join(10), join(1));
    assert!(poll_once(&mut first).is_pending());
    set(SECOND);
    assert!(poll_once(&mut second).is_pending(), "this poll grants the first its cells");
    drop(second);
    let late = clock.clone();
    clock.meanwhile.set(Some(Box::new(move || {
        late.clock.set(Tick::from_nanos(SECOND + 10 * MILLI));
        assert!(check(SECOND + 10 * MILLI), "time has restored all cells");
    })));
    drop(first);
    assert!(!check(SECOND + 10 * MILLI), "ten cells were taken at this instant");
    assert!(!check(SECOND + 20 * MILLI - 1) && check(SECOND + 20 * MILLI));
}

#[test]
fn a_waiter_that_leaves_refunds_no_cells_that_time_has_restored_since_it_read_the_clock() {
    let quota = Quota::per_second(1_000).burst(10);
    let clock = Interrupted::default();
    let direct = Direct::builder(quota).clock(clock.clone()).build().expect("in range");
    let direct: &'static _ = Box::leak(Box::new(direct));
    let queue = WaitQueue::new(direct);
    let check = move |now| direct.ask().cells(10).at(Tick::from_nanos(now)).check().is_ok();
    leave_interrupted(&queue, &(), &clock, check);

    let clock = Interrupted::default();
    let gate: Limiter<u64, Gcra, _> =
        Limiter::builder(quota).clock(clock.clone()).build().expect("in range");
    let gate: &'static _ = Box::leak(Box::new(gate));
    let queue = WaitQueue::new(gate);
    let check = move |now| gate.ask(&7).cells(10).at(Tick::from_nanos(now)).check().is_ok();
    leave_interrupted(&queue, &7, &clock, check);
}
