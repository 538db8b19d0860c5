//! Lines: never over the limit, whoever waits, leaves, or does not wait.

use std::future::{Future, Pending, pending};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::wait::{Wait, WaitError, WaitQueue, Waitable, Waited};
use tollgate::{Direct, Gcra, ManualClock, Quota, Tick};

use crate::bodies::span::worst_excess_of_bucket;

const SECOND: u64 = 1_000_000_000;
const RATE: u64 = 10;

/// What is done after so many nanoseconds.
#[derive(Clone, Debug)]
enum Act {
    /// Stands in line for so many cells, for so many tenths of a second at most.
    Join(u64, u64),
    /// Asks for so many cells without standing in line.
    Ask(u64),
    /// One of those in line leaves.
    Leave(prop::sample::Index),
}

fn acts() -> impl Strategy<Value = Vec<(u64, Act)>> {
    let gaps = prop_oneof![4 => Just(0), 4 => 0..SECOND / 4, 1 => 0..3 * SECOND];
    let act = prop_oneof![
        4 => (1_u64..5, 0_u64..30).prop_map(|(n, patience)| Act::Join(n, patience)),
        1 => (1_u64..5).prop_map(Act::Ask),
        1 => any::<prop::sample::Index>().prop_map(Act::Leave),
    ];
    prop::collection::vec((gaps, act), 1..80)
}

type Asleep = Pending<()>;
type Waiter<'a, S> = (u64, Wait<'a, S, fn(Duration) -> Asleep, Asleep>);

fn look<S: Waitable>((_, waiter): &mut Waiter<'_, S>) -> Poll<Result<Waited, WaitError>> {
    Pin::new(waiter).poll(&mut Context::from_waker(Waker::noop()))
}

/// All who wait look, in order of their arrival; those who are told go. Adds when how many cells were
/// spent.
fn all_look<S: Waitable>(
    waiters: &mut Vec<Waiter<'_, S>>,
    now: u64,
    spent: &mut Vec<(u64, u64)>,
) -> Result<(), TestCaseError> {
    let mut someone_waits = false;
    let mut left = Vec::new();
    for mut waiter in waiters.drain(..) {
        match look(&mut waiter) {
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

/// When how many cells were spent. Whoever waits looks whenever anything is done.
fn spent(burst: u64, acts: &[(u64, Act)]) -> Result<Vec<(u64, u64)>, TestCaseError> {
    let clock = ManualClock::new();
    let quota = Quota::per_second(RATE).burst(burst);
    let gate: Direct<Gcra, _> = Direct::builder(quota).clock(&clock).build().expect("in range");
    let line = WaitQueue::new(gate);
    let (mut now, mut spent, mut waiters) = (SECOND, Vec::new(), Vec::new());
    for (gap, act) in acts {
        now += gap;
        clock.set(Tick::from_nanos(now));
        all_look(&mut waiters, now, &mut spent)?;
        match act {
            Act::Join(n, patience) => {
                let (n, most) = ((*n).min(burst), Duration::from_millis(patience * 100));
                waiters.push((n, line.wait_async(&(), n, most, (|_| pending()) as fn(_) -> _)));
            }
            Act::Ask(n) if line.limiter().check_n(*n).is_ok() => spent.push((now, *n)),
            Act::Leave(who) if !waiters.is_empty() => {
                drop(waiters.remove(who.index(waiters.len())));
            }
            _ => {}
        }
        all_look(&mut waiters, now, &mut spent)?;
    }
    prop_assert_eq!(line.waiting(), waiters.len());
    Ok(spent)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_line_is_granted_the_quota_and_no_more(burst in 1_u64..5, acts in acts()) {
        let spent = spent(burst, &acts)?;
        prop_assert!(worst_excess_of_bucket(&spent, RATE, burst) <= 0.0, "{spent:?}");
    }
}

#[test]
fn the_test_would_notice_cells_that_are_granted_early() {
    assert!(worst_excess_of_bucket(&[(0, 1), (SECOND / 10 - 3_000, 1)], RATE, 1) > 0.0);
    assert!(worst_excess_of_bucket(&[(0, 1), (SECOND / 10, 1)], RATE, 1) <= 0.0);
}

/// Time does not move by itself, and each sleep moves it by what was asked for.
#[test]
fn a_sleep_lasts_until_the_turn_and_no_longer() {
    let clock = ManualClock::new();
    let quota = Quota::per_second(RATE).burst(1);
    let line = WaitQueue::new(Direct::builder(quota).clock(&clock).build().expect("in range"));
    let mut slept = Vec::new();
    for _ in 0..4 {
        let mut wait = line.wait_async(&(), 1, Duration::MAX, |span| {
            slept.push(span);
            clock.advance(span);
            std::future::ready(())
        });
        let told = Pin::new(&mut wait).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(told, Poll::Ready(Ok(_))), "{told:?}");
    }
    assert_eq!(slept, [Duration::from_millis(100); 3]);
}

#[test]
fn a_wait_may_move_between_threads() {
    fn assert_send<T: Send>(_: &T) {}
    let line = WaitQueue::new(Direct::new(Quota::per_second(1)).expect("in range"));
    assert_send(&line.wait_async(&(), 1, Duration::ZERO, |_| pending::<()>()));
    assert_send(&line);
}
