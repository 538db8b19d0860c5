//! Wait queues with a clock that the test sets.

use core::future::{Future, Pending, pending};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use proptest::prelude::*;

use super::{Wait, WaitError, WaitQueue, Waited};
use crate::limiter::SlotLayout;
use crate::{Direct, FixedWindow, Gcra, Limiter, ManualClock, Quota, Tick};

mod leaving;
mod refunds;

const SECOND: u64 = 1_000_000_000;
const RATE: u64 = 10;
const CELL: u64 = SECOND / RATE;

type Gate<'a> = Direct<Gcra, &'a ManualClock>;
type Asleep = Pending<()>;
type Waiter<'a, 'b> = Wait<'a, Gate<'b>, fn(Duration) -> Asleep, Asleep>;

fn gate(clock: &ManualClock, burst: u64) -> Gate<'_> {
    let quota = Quota::per_second(RATE).burst(burst);
    Direct::builder(quota).clock(clock).build().expect("in range")
}

fn wait<'a, 'b>(queue: &'a WaitQueue<Gate<'b>>, n: u64, max_nanos: u64) -> Waiter<'a, 'b> {
    queue.ask(&()).cells(n).max_delay(Duration::from_nanos(max_nanos)).wait_async(|_| pending())
}

/// Waiters for so many cells each, all of which wait.
fn waiters<'a, 'b, const N: usize>(
    queue: &'a WaitQueue<Gate<'b>>,
    cells: [u64; N],
) -> [Waiter<'a, 'b>; N] {
    let mut waiters = cells.map(|n| wait(queue, n, 10 * SECOND));
    for waiter in &mut waiters {
        assert!(poll_once(waiter).is_pending());
    }
    waiters
}

/// Polls, as if the waiter had been woken.
fn poll_once<W: Future<Output = Result<Waited, WaitError>> + Unpin>(
    waiter: &mut W,
) -> Poll<W::Output> {
    Pin::new(waiter).poll(&mut Context::from_waker(Waker::noop()))
}

fn at(nanos: u64) -> Tick {
    Tick::from_nanos(nanos)
}

/// The cells that are left, and the time until the key is as if never used.
fn state(gate: &Gate<'_>, now: u64) -> (u64, Duration) {
    let permit = gate.ask().cells(0).at(at(now)).peek().expect("a peek for no cells succeeds");
    (permit.remaining(), permit.reset_after())
}

#[test]
fn the_second_waiter_is_booked_when_the_first_goes_ahead() {
    let clock = ManualClock::new();
    let queue = WaitQueue::new(gate(&clock, 1));
    assert!(queue.limiter().check().is_ok());
    let [mut first, mut second] = [(); 2].map(|()| wait(&queue, 1, 10 * SECOND));
    assert!(poll_once(&mut first).is_pending() && poll_once(&mut second).is_pending());
    assert_eq!(state(queue.limiter(), 0).1, Duration::from_nanos(2 * CELL), "only one is booked");
    clock.set(at(CELL - 1));
    assert!(poll_once(&mut second).is_pending() && poll_once(&mut first).is_pending());
    clock.set(at(CELL));
    let waited = Waited { waited: Duration::from_nanos(CELL) };
    assert_eq!(poll_once(&mut first), Poll::Ready(Ok(waited)));
    assert!(queue.limiter().check().is_err(), "the second is booked");
    clock.set(at(2 * CELL));
    assert!(matches!(poll_once(&mut second), Poll::Ready(Ok(_))));
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn a_waiter_that_is_not_polled_does_not_hold_up_the_queue() {
    let clock = ManualClock::new();
    let queue = WaitQueue::new(gate(&clock, 1));
    assert!(queue.limiter().check().is_ok());
    let [mut first, mut second] = [(); 2].map(|()| wait(&queue, 1, 10 * SECOND));
    assert!(poll_once(&mut first).is_pending() && poll_once(&mut second).is_pending());
    clock.set(at(CELL));
    assert!(poll_once(&mut second).is_pending(), "this poll books it");
    clock.set(at(2 * CELL));
    assert!(matches!(poll_once(&mut second), Poll::Ready(Ok(_))));
    assert!(matches!(poll_once(&mut first), Poll::Ready(Ok(_))));
}

/// The end of a window grants all at once.
#[test]
fn waiters_that_are_granted_together_may_leave_in_any_order() {
    let clock = ManualClock::new();
    let quota = Quota::per_second(9);
    let builder = Direct::builder(quota).algorithm(FixedWindow::anchored()).clock(&clock);
    let queue = WaitQueue::new(builder.build().expect("in range"));
    assert!(queue.limiter().check_n(9).is_ok());
    let wait = |_| queue.ask(&()).wait_async(|_| pending::<()>());
    let mut waiters: Vec<_> = (0..9).map(wait).collect();
    for waiter in &mut waiters {
        assert!(poll_once(waiter).is_pending());
    }
    clock.set(at(SECOND + SECOND / 100));
    drop(waiters.swap_remove(4));
    for index in [7, 2, 5, 0, 3, 1, 1, 0] {
        let mut waiter = waiters.remove(index);
        assert!(poll_once(&mut waiter).is_ready());
    }
    assert_eq!(queue.waiting(), 0);
}

#[test]
fn a_waiter_that_is_granted_late_is_charged_at_that_time() {
    let clock = ManualClock::new();
    let queue = WaitQueue::new(gate(&clock, 1));
    assert!(queue.limiter().check().is_ok());
    let mut first = wait(&queue, 1, 10 * SECOND);
    assert!(poll_once(&mut first).is_pending());
    clock.set(at(3 * CELL));
    assert!(matches!(poll_once(&mut first), Poll::Ready(Ok(_))));
    clock.set(at(4 * CELL - 1));
    assert!(queue.limiter().check().is_err());
    clock.set(at(4 * CELL));
    assert!(queue.limiter().check().is_ok());
}

#[test]
fn waiters_behind_one_that_leaves_late_move_up() {
    let clock = ManualClock::new();
    let queue = WaitQueue::new(gate(&clock, 2));
    assert!(queue.limiter().check_n(2).is_ok());
    let [first, mut second, mut third] = waiters(&queue, [1, 2, 1]);
    // The first is granted. The second is booked for two cells later.
    clock.set(at(CELL));
    assert!(poll_once(&mut third).is_pending());
    drop(first);
    clock.set(at(2 * CELL - 1));
    assert!(poll_once(&mut second).is_pending());
    clock.set(at(2 * CELL));
    assert!(matches!(poll_once(&mut second), Poll::Ready(Ok(_))));
    clock.set(at(3 * CELL));
    assert!(matches!(poll_once(&mut third), Poll::Ready(Ok(_))));
    assert_eq!(state(queue.limiter(), 3 * CELL), (0, Duration::from_nanos(2 * CELL)));
}

/// Before the turn of a booking time restores nothing of it; after the turn, as much as time has
/// passed.
#[test]
fn a_waiter_that_leaves_refunds_what_time_has_not_restored_since_its_turn() {
    for (left_at, lost) in [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2), (5, 2)] {
        let clock = ManualClock::new();
        let (queue, twin) = (WaitQueue::new(gate(&clock, 9)), gate(&clock, 9));
        assert!(queue.limiter().check_n(9).is_ok() && twin.check_n(9).is_ok());
        let mut waiter = wait(&queue, 2, 10 * SECOND);
        assert!(poll_once(&mut waiter).is_pending());
        let now = left_at * CELL;
        clock.set(at(now));
        drop(waiter);
        let (left, whole) = (state(queue.limiter(), now).0, state(&twin, now).0);
        assert_eq!(left, whole - lost, "left at {left_at}");
    }
}

#[test]
fn a_waiter_that_cannot_meet_its_deadline_fails_at_once_with_the_exact_wait() {
    let clock = ManualClock::new();
    let queue = WaitQueue::new(gate(&clock, 2)).max_waiters(2);
    assert!(queue.limiter().check_n(2).is_ok());
    let mut first = wait(&queue, 2, 10 * SECOND);
    assert!(poll_once(&mut first).is_pending());
    let late = |wait| Poll::Ready(Err(WaitError::TooLate { wait: Duration::from_nanos(wait) }));
    assert_eq!(poll_once(&mut wait(&queue, 1, 3 * CELL - 1)), late(3 * CELL));
    let mut second = wait(&queue, 1, 3 * CELL);
    assert!(poll_once(&mut second).is_pending());
    assert_eq!(poll_once(&mut wait(&queue, 2, CELL)), late(5 * CELL));
    let crowded = poll_once(&mut wait(&queue, 2, SECOND));
    assert_eq!(crowded, Poll::Ready(Err(WaitError::Crowded { waiters: 2 })));
    let never = poll_once(&mut wait(&queue, 3, SECOND));
    assert_eq!(never, Poll::Ready(Err(WaitError::NeverFits { burst: 2 })));
    assert!(
        matches!(poll_once(&mut wait(&queue, 0, 0)), Poll::Ready(Ok(_))),
        "a request for no cells never waits"
    );
}

/// The time of a bound on the delay starts at the first poll; a deadline is an instant.
#[test]
fn a_deadline_and_a_bound_on_the_delay_both_hold() {
    let clock = ManualClock::new();
    let queue = WaitQueue::new(gate(&clock, 1));
    clock.set(at(CELL));
    assert!(queue.limiter().check().is_ok());
    let late = Poll::Ready(Err(WaitError::TooLate { wait: Duration::from_nanos(CELL) }));
    let (delay, deadline) = (Duration::from_nanos, at);
    let cases = [
        (delay(CELL - 1), deadline(2 * CELL), false),
        (delay(CELL), deadline(2 * CELL - 1), false),
        (delay(CELL), deadline(2 * CELL), true),
        (Duration::MAX, Tick::MAX, true),
        (Duration::MAX, deadline(0), false),
    ];
    for (max_delay, deadline, waits) in cases {
        let ask = queue.ask(&()).max_delay(max_delay).deadline(deadline);
        let mut waiter: Waiter<'_, '_> = ask.wait_async(|_| pending());
        let polled = poll_once(&mut waiter);
        assert_eq!(polled, if waits { Poll::Pending } else { late }, "{max_delay:?} {deadline:?}");
    }
    let ask = || queue.ask(&()).deadline(deadline(2 * CELL));
    let mut first: Waiter<'_, '_> = ask().wait_async(|_| pending());
    let mut bounded = wait(&queue, 1, 2 * CELL);
    clock.set(at(CELL + 1));
    assert!(poll_once(&mut first).is_pending(), "its turn is at the deadline");
    assert!(poll_once(&mut bounded).is_pending(), "its time starts now");
    assert!(matches!(ask().wait(), Err(WaitError::TooLate { .. })), "its turn is the third");
}

#[test]
fn a_waiter_overtaken_by_requests_outside_the_queue_gets_the_error_overtaken() {
    let clock = ManualClock::new();
    let queue = WaitQueue::new(gate(&clock, 1));
    assert!(queue.limiter().check().is_ok());
    let mut first = wait(&queue, 1, CELL);
    let mut second = wait(&queue, 1, 2 * CELL);
    assert!(poll_once(&mut first).is_pending() && poll_once(&mut second).is_pending());
    // No waiter polls at the first one's turn, nor at the second one's.
    clock.set(at(5 * CELL / 2));
    assert!(queue.limiter().check().is_ok());
    assert!(matches!(poll_once(&mut first), Poll::Ready(Ok(_))));
    let overtaken = WaitError::Overtaken { wait: Duration::from_nanos(CELL) };
    assert_eq!(poll_once(&mut second), Poll::Ready(Err(overtaken)));
}

/// Each waiter waits until its turn and no longer, and each is woken late: by a little, as wakers
/// are, or by several turns, as after a suspension of the machine.
#[test]
fn waiters_that_are_woken_late_are_not_overtaken_if_all_requests_wait() {
    const WAITERS: u64 = 200;
    for (burst, max_late) in
        [(1, CELL / 50), (1, CELL), (1, 5 * CELL), (3, CELL / 50), (3, 7 * CELL)]
    {
        let clock = ManualClock::new();
        let queue = WaitQueue::new(gate(&clock, burst));
        assert!(queue.limiter().check_n(burst).is_ok());
        let waiters = (1..=WAITERS).map(|turn| wait(&queue, 1, turn * CELL));
        let mut waiters: Vec<_> = waiters.collect();
        assert!(waiters.iter_mut().all(|waiter| poll_once(waiter).is_pending()));
        let mut granted = Vec::new();
        let mut now = 0;
        while !waiters.is_empty() {
            let turns = granted.len() as u64;
            now += CELL + (7 * turns + 3) % 11 * max_late / 10;
            clock.set(at(now));
            // The last ones are woken first.
            for index in (0..waiters.len()).rev() {
                if let Poll::Ready(result) = poll_once(&mut waiters[index]) {
                    assert!(result.is_ok(), "{result:?}, burst {burst}, late by up to {max_late}");
                    drop(waiters.remove(index));
                    granted.push(now);
                }
            }
        }
        assert_eq!(queue.waiting(), 0);
        // No span has more grants than the burst and what was restored in it.
        for (index, first) in granted.iter().enumerate() {
            for (cells, last) in (1..).zip(&granted[index..]) {
                let due = burst + (last - first) / CELL;
                assert!(cells <= due, "{cells} granted where {due} were due");
            }
        }
    }
}

/// Lateness moves a deadline only by itself: cells that outsiders take still cause `Overtaken`.
#[test]
fn a_waiter_that_is_both_late_and_overtaken_gets_the_error_overtaken() {
    let clock = ManualClock::new();
    let queue = WaitQueue::new(gate(&clock, 1));
    assert!(queue.limiter().check().is_ok());
    let [mut first, mut second, mut third] = [1, 2, 3].map(|turn| wait(&queue, 1, turn * CELL));
    for waiter in [&mut first, &mut second, &mut third] {
        assert!(poll_once(waiter).is_pending());
    }
    clock.set(at(CELL + CELL / 10));
    assert!(matches!(poll_once(&mut first), Poll::Ready(Ok(_))));
    // The turn of the second is at 2.1. No waiter polls before 4, and an outsider takes what was
    // restored.
    clock.set(at(4 * CELL));
    assert!(queue.limiter().check().is_ok());
    assert!(matches!(poll_once(&mut second), Poll::Ready(Ok(_))));
    let result = poll_once(&mut third);
    assert!(matches!(result, Poll::Ready(Err(WaitError::Overtaken { .. }))), "{result:?}");
}

/// Outsiders take cells whenever they can, and waiters are woken late by up to the time of eight
/// cells. In no span of time are more cells granted than the burst, the rate, and one booking.
#[test]
fn late_waiters_beside_outsiders_exceed_a_span_by_at_most_one_booking() {
    let (mut worst, mut seed) = (0, 1_u64);
    let mut draw = |end: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % end
    };
    for episode in 0..200 {
        let (burst, booked) = [(1, 1), (3, 1), (3, 3), (5, 2)][episode % 4];
        let clock = ManualClock::new();
        let queue = WaitQueue::new(gate(&clock, burst));
        let (mut gone_ahead, mut now) = (Vec::new(), 0);
        let mut waiters: Vec<_> = (0..20).map(|_| wait(&queue, booked, 1_000 * SECOND)).collect();
        while !waiters.is_empty() {
            let outsiders = (0..burst).filter(|_| queue.limiter().check().is_ok()).count() as u64;
            gone_ahead.push((now, outsiders));
            waiters.retain_mut(|waiter| match poll_once(waiter) {
                Poll::Ready(ended) => {
                    assert!(ended.is_ok(), "{ended:?}");
                    gone_ahead.push((now, booked));
                    false
                }
                Poll::Pending => true,
            });
            now += draw(8 * CELL);
            clock.set(at(now));
        }
        for (index, (first, _)) in gone_ahead.iter().enumerate() {
            let mut cells = 0;
            for (last, more) in &gone_ahead[index..] {
                cells += more;
                let due = burst + (last - first) / CELL;
                assert!(cells <= due + booked, "{cells} of {due}, a booking is {booked}");
                worst = worst.max(cells.saturating_sub(due));
            }
        }
    }
    assert!(worst > 0, "no waiter was late enough to reach the bound");
}

/// A waiter that is never polled and never dropped holds up the others no longer than until its
/// turn. It counts as a waiter for as long as the queue exists.
#[test]
fn a_leaked_wait_costs_one_waiter_and_its_cells() {
    let clock = ManualClock::new();
    let queue = WaitQueue::new(gate(&clock, 1)).max_waiters(2);
    assert!(queue.limiter().check().is_ok());
    let mut leaked = wait(&queue, 1, 10 * SECOND);
    assert!(poll_once(&mut leaked).is_pending());
    std::mem::forget(leaked);
    let mut next = wait(&queue, 1, 10 * SECOND);
    assert!(poll_once(&mut next).is_pending());
    let crowded = Poll::Ready(Err(WaitError::Crowded { waiters: 2 }));
    assert_eq!(poll_once(&mut wait(&queue, 1, 10 * SECOND)), crowded, "the leaked waiter counts");
    clock.set(at(CELL));
    assert!(
        poll_once(&mut next).is_pending(),
        "the leaked waiter is granted, and this one is booked"
    );
    clock.set(at(2 * CELL));
    assert!(
        matches!(poll_once(&mut next), Poll::Ready(Ok(_))),
        "the leaked waiter does not hold up the queue"
    );
    assert_eq!(queue.waiting(), 1, "the leaked waiter stays");
    clock.set(at(3 * CELL));
    assert!(queue.limiter().check().is_ok(), "the leak cost one cell");
}

/// A fast key can owe sixteen times its burst, here 32 milliseconds. If a caller's clock is behind
/// that of an earlier charge, its turn may be further away than that.
#[test]
fn a_turn_beyond_the_range_of_a_state_is_waited_for() {
    const MILLI: u64 = SECOND / 1_000;
    let clock = ManualClock::new();
    let quota = Quota::per_second(1_000).burst(2);
    let queue = WaitQueue::new(Direct::builder(quota).clock(&clock).build().expect("in range"));
    assert!(queue.limiter().ask().cells(2).at(at(SECOND)).check().is_ok());
    let [mut first, mut second] = [(); 2].map(|()| wait(&queue, 1, 10 * SECOND));
    assert!(poll_once(&mut first).is_pending() && poll_once(&mut second).is_pending());
    let late = WaitError::TooLate { wait: Duration::from_nanos(SECOND + 3 * MILLI) };
    assert_eq!(poll_once(&mut wait(&queue, 1, SECOND + 3 * MILLI - 1)), Poll::Ready(Err(late)));

    let [before, after] = [SECOND - 40 * MILLI, SECOND - 20 * MILLI].map(|now| {
        clock.set(at(now));
        assert!(poll_once(&mut second).is_pending() && poll_once(&mut first).is_pending());
        queue
            .limiter()
            .ask()
            .cells(0)
            .at(at(now))
            .peek()
            .expect("a peek for no cells succeeds")
            .reset_after()
    });
    let charged = after + Duration::from_millis(20) - before;
    assert_eq!(charged, Duration::from_millis(1), "booked as soon as a state can owe that much");

    clock.set(at(SECOND + MILLI - 1));
    assert!(poll_once(&mut first).is_pending());
    clock.set(at(SECOND + MILLI));
    assert!(matches!(poll_once(&mut first), Poll::Ready(Ok(_))));
    assert!(poll_once(&mut second).is_pending());
    clock.set(at(SECOND + 2 * MILLI));
    assert!(matches!(poll_once(&mut second), Poll::Ready(Ok(_))));
    assert_eq!(queue.waiting(), 0);
}

/// The waiter behind moves up if the first, which is not booked yet, leaves.
#[test]
fn a_waiter_that_leaves_before_it_is_booked_refunds_nothing() {
    let clock = ManualClock::new();
    let quota = Quota::per_second(1_000).burst(2);
    let queue = WaitQueue::new(Direct::builder(quota).clock(&clock).build().expect("in range"));
    assert!(queue.limiter().ask().cells(2).at(at(SECOND)).check().is_ok());
    let [mut first, mut second] = [2, 1].map(|n| wait(&queue, n, 10 * SECOND));
    assert!(poll_once(&mut first).is_pending() && poll_once(&mut second).is_pending());
    drop(first);
    clock.set(at(SECOND + SECOND / 1_000));
    assert!(matches!(poll_once(&mut second), Poll::Ready(Ok(_))));
}

#[test]
fn each_key_has_its_own_queue() {
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        let clock = ManualClock::new();
        let quota = Quota::per_second(RATE).burst(1);
        let gate: Limiter<str, Gcra, _> =
            Limiter::builder(quota).clock(&clock).slots(slots).build().expect("in range");
        let queue = WaitQueue::new(gate);
        let wait = |key| queue.ask(key).wait_async(|_| pending::<()>());
        for key in ["a", "b"] {
            assert!(poll_once(&mut wait(key)).is_ready());
        }
        let [mut a, mut b] = ["a", "b"].map(wait);
        assert!(poll_once(&mut a).is_pending());
        assert!(poll_once(&mut b).is_pending());
        drop(a);
        clock.set(at(CELL));
        assert!(queue.limiter().check("a").is_ok(), "the booking was refunded: {slots:?}");
        assert!(queue.limiter().check("b").is_err(), "booked: {slots:?}");
        assert!(poll_once(&mut b).is_ready());
        assert_eq!(queue.waiting(), 0);
    }
}

#[test]
fn jitter_lengthens_a_sleep_but_not_past_the_deadline() {
    let clock = ManualClock::new();
    let queue = WaitQueue::new(gate(&clock, 1)).jitter_percent(50);
    let spans: Vec<u64> = (0..100)
        .map(|number| {
            let nap = queue.nap(number, at(1_000), at(0), at(1_400));
            nap.end.as_nanos()
        })
        .collect();
    assert!(spans.iter().all(|span| (1_000..=1_400).contains(span)));
    assert!(spans.contains(&1_400) && spans.iter().any(|&span| span < 1_200));
}

/// The oracle: one queue of all cells that were granted.
struct Naive {
    burst: u64,
    /// The time at which all granted cells have drained.
    empty: u64,
}

impl Naive {
    fn turn(&self, now: u64, n: u64) -> u64 {
        let empty = self.empty.max(now) + n * CELL;
        empty.saturating_sub(self.burst * CELL).max(now)
    }

    fn grant(&mut self, now: u64, n: u64) {
        self.empty = self.empty.max(now) + n * CELL;
    }
}

/// Whether `left` has no more cells than `otherwise`, and recovers no earlier.
fn has_no_more(left: (u64, Duration), otherwise: (u64, Duration)) -> bool {
    left.0 <= otherwise.0 && left.1 >= otherwise.1
}

/// Gaps in tenths of a cell, so that turns and deadlines coincide sometimes.
fn gap() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 3 => 1_u64..15, 1 => 0_u64..100].prop_map(|tenths| tenths * CELL / 10)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn waiters_get_the_turns_that_the_exact_model_computes(
        burst in 1_u64..5,
        joins in prop::collection::vec((gap(), 1_u64..5, 0_u64..40), 1..30),
    ) {
        let clock = ManualClock::new();
        let queue = WaitQueue::new(gate(&clock, burst));
        let mut naive = Naive { burst, empty: 0 };
        let mut waiters: Vec<(u64, Waiter<'_, '_>)> = Vec::new();
        let mut now = 0;
        // The last one to join moves time past all turns.
        for (gap, n, max_tenths) in joins.into_iter().chain([(1_000 * SECOND, 1, 0)]) {
            let (next, n) = (now + gap, n.min(burst));
            while waiters.first().is_some_and(|(turn, _)| *turn <= next) {
                let turn = waiters[0].0;
                clock.set(at(turn - 1));
                prop_assert!(waiters.iter_mut().all(|(_, waiter)| poll_once(waiter).is_pending()));
                clock.set(at(turn));
                let (_, mut first) = waiters.remove(0);
                prop_assert!(matches!(poll_once(&mut first), Poll::Ready(Ok(_))));
            }
            now = next;
            clock.set(at(now));
            let turn = naive.turn(now, n);
            let mut waiter = wait(&queue, n, max_tenths * CELL / 4);
            let result = poll_once(&mut waiter);
            if turn > now + max_tenths * CELL / 4 {
                let wait = Duration::from_nanos(turn - now);
                prop_assert_eq!(result, Poll::Ready(Err(WaitError::TooLate { wait })));
                continue;
            }
            naive.grant(now, n);
            prop_assert_eq!(result.is_ready(), turn == now);
            if result.is_pending() {
                waiters.push((turn, waiter));
            }
        }
        prop_assert_eq!(queue.waiting(), waiters.len());
    }

    /// A waiter that joins also advances the queue, so some of the waiters that leave have been
    /// granted.
    #[test]
    fn a_waiter_that_leaves_before_it_is_done_leaves_no_charge_behind(
        burst in 1_u64..5,
        spent in 1_u64..5,
        acts in prop::collection::vec((gap(), prop::option::of(1_u64..5), any::<prop::sample::Index>()), 1..30),
        passes in 0_u64..2,
    ) {
        let clock = ManualClock::new();
        let (queue, twin) = (WaitQueue::new(gate(&clock, burst)), gate(&clock, burst));
        let mut waiters = Vec::new();
        let mut now = 0;
        for cells in [spent.min(burst), 1] {
            prop_assert_eq!(queue.limiter().check_n(cells).is_ok(), twin.check_n(cells).is_ok());
        }
        for (gap, join, leave) in acts {
            now += gap * passes;
            clock.set(at(now));
            match join {
                Some(n) => {
                    let mut waiter = wait(&queue, n.min(burst), 1_000 * SECOND);
                    match poll_once(&mut waiter).is_ready() {
                        false => waiters.push(waiter),
                        true if waiters.is_empty() => {
                            prop_assert!(twin.check_n(n.min(burst)).is_ok());
                        }
                        // A request that went ahead meanwhile limits what a refund before it can
                        // restore.
                        true => return Ok(()),
                    }
                }
                None if !waiters.is_empty() => drop(waiters.remove(leave.index(waiters.len()))),
                None => {}
            }
            if waiters.is_empty() {
                prop_assert!(has_no_more(state(queue.limiter(), now), state(&twin, now)));
            }
        }
        drop(waiters);
        let (left, without) = (state(queue.limiter(), now), state(&twin, now));
        prop_assert!(has_no_more(left, without));
        if now == 0 {
            prop_assert_eq!(left, without, "no waiter left late");
        }
        prop_assert_eq!(queue.waiting(), 0);
    }
}
