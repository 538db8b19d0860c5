//! Lines by a clock that stands still until it is told to move.

use core::future::{Future, Pending, pending};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use proptest::prelude::*;

use super::{Wait, WaitError, WaitQueue, Waited};
use crate::limiter::SlotLayout;
use crate::{Direct, Gcra, Limiter, ManualClock, Quota, Tick};

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

fn wait<'a, 'b>(line: &'a WaitQueue<Gate<'b>>, n: u64, max_nanos: u64) -> Waiter<'a, 'b> {
    line.wait_async(&(), n, Duration::from_nanos(max_nanos), |_| pending())
}

/// Looks, as if it had been woken.
fn look(waiter: &mut Waiter<'_, '_>) -> Poll<Result<Waited, WaitError>> {
    Pin::new(waiter).poll(&mut Context::from_waker(Waker::noop()))
}

fn at(nanos: u64) -> Tick {
    Tick::from_nanos(nanos)
}

/// What is left, and until when it is not as if never used.
fn state(gate: &Gate<'_>, now: u64) -> (u64, Duration) {
    let permit = gate.ask().cells(0).at(at(now)).peek().expect("nothing is asked for");
    (permit.remaining(), permit.reset_after())
}

#[test]
fn the_second_is_booked_when_the_first_goes_ahead() {
    let clock = ManualClock::new();
    let line = WaitQueue::new(gate(&clock, 1));
    assert!(line.limiter().check().is_ok());
    let [mut first, mut second] = [(); 2].map(|()| wait(&line, 1, 10 * SECOND));
    assert!(look(&mut first).is_pending() && look(&mut second).is_pending());
    assert_eq!(state(line.limiter(), 0).1, Duration::from_nanos(2 * CELL), "only one is booked");
    clock.set(at(CELL - 1));
    assert!(look(&mut second).is_pending() && look(&mut first).is_pending());
    clock.set(at(CELL));
    let waited = Waited { waited: Duration::from_nanos(CELL) };
    assert_eq!(look(&mut first), Poll::Ready(Ok(waited)));
    assert!(line.limiter().check().is_err(), "the second is booked");
    clock.set(at(2 * CELL));
    assert!(matches!(look(&mut second), Poll::Ready(Ok(_))));
    assert_eq!(line.waiting(), 0);
}

#[test]
fn one_that_nobody_looks_at_does_not_hold_up_the_line() {
    let clock = ManualClock::new();
    let line = WaitQueue::new(gate(&clock, 1));
    assert!(line.limiter().check().is_ok());
    let [mut first, mut second] = [(); 2].map(|()| wait(&line, 1, 10 * SECOND));
    assert!(look(&mut first).is_pending() && look(&mut second).is_pending());
    clock.set(at(CELL));
    assert!(look(&mut second).is_pending(), "this books it");
    clock.set(at(2 * CELL));
    assert!(matches!(look(&mut second), Poll::Ready(Ok(_))));
    assert!(matches!(look(&mut first), Poll::Ready(Ok(_))));
}

#[test]
fn who_is_granted_late_is_charged_late() {
    let clock = ManualClock::new();
    let line = WaitQueue::new(gate(&clock, 1));
    assert!(line.limiter().check().is_ok());
    let mut first = wait(&line, 1, 10 * SECOND);
    assert!(look(&mut first).is_pending());
    clock.set(at(3 * CELL));
    assert!(matches!(look(&mut first), Poll::Ready(Ok(_))));
    clock.set(at(4 * CELL - 1));
    assert!(line.limiter().check().is_err());
    clock.set(at(4 * CELL));
    assert!(line.limiter().check().is_ok());
}

#[test]
fn those_behind_one_who_leaves_late_move_up() {
    let clock = ManualClock::new();
    let line = WaitQueue::new(gate(&clock, 2));
    assert!(line.limiter().check_n(2).is_ok());
    let [mut first, mut second, mut third] = [1, 2, 1].map(|n| wait(&line, n, 10 * SECOND));
    for waiter in [&mut first, &mut second, &mut third] {
        assert!(look(waiter).is_pending());
    }
    // The first is granted, and the second booked for two cells later.
    clock.set(at(CELL));
    assert!(look(&mut third).is_pending());
    drop(first);
    clock.set(at(2 * CELL - 1));
    assert!(look(&mut second).is_pending());
    clock.set(at(2 * CELL));
    assert!(matches!(look(&mut second), Poll::Ready(Ok(_))));
    clock.set(at(3 * CELL));
    assert!(matches!(look(&mut third), Poll::Ready(Ok(_))));
    assert_eq!(state(line.limiter(), 3 * CELL), (0, Duration::from_nanos(2 * CELL)));
}

/// Before its turn nothing is restored of what is booked; after it, as much as time has passed.
#[test]
fn who_leaves_gives_back_what_time_has_not_restored_since_its_turn() {
    for (left_at, lost) in [(0, 0), (1, 0), (2, 0), (3, 1), (4, 2), (5, 2)] {
        let clock = ManualClock::new();
        let (line, twin) = (WaitQueue::new(gate(&clock, 9)), gate(&clock, 9));
        assert!(line.limiter().check_n(9).is_ok() && twin.check_n(9).is_ok());
        let mut waiter = wait(&line, 2, 10 * SECOND);
        assert!(look(&mut waiter).is_pending());
        let now = left_at * CELL;
        clock.set(at(now));
        drop(waiter);
        let (left, whole) = (state(line.limiter(), now).0, state(&twin, now).0);
        assert_eq!(left, whole - lost, "left at {left_at}");
    }
}

#[test]
fn who_comes_too_late_is_told_the_wait_at_once() {
    let clock = ManualClock::new();
    let line = WaitQueue::new(gate(&clock, 2)).max_waiters(2);
    assert!(line.limiter().check_n(2).is_ok());
    let mut first = wait(&line, 2, 10 * SECOND);
    assert!(look(&mut first).is_pending());
    let late = |wait| Poll::Ready(Err(WaitError::TooLate { wait: Duration::from_nanos(wait) }));
    assert_eq!(look(&mut wait(&line, 1, 3 * CELL - 1)), late(3 * CELL));
    let mut second = wait(&line, 1, 3 * CELL);
    assert!(look(&mut second).is_pending());
    assert_eq!(look(&mut wait(&line, 2, CELL)), late(5 * CELL));
    let crowded = look(&mut wait(&line, 2, SECOND));
    assert_eq!(crowded, Poll::Ready(Err(WaitError::Crowded { waiters: 2 })));
    let never = look(&mut wait(&line, 3, SECOND));
    assert_eq!(never, Poll::Ready(Err(WaitError::NeverFits { burst: 2 })));
    assert!(matches!(look(&mut wait(&line, 0, 0)), Poll::Ready(Ok(_))), "nothing to wait for");
}

#[test]
fn who_was_overtaken_by_requests_outside_the_line_is_told_so() {
    let clock = ManualClock::new();
    let line = WaitQueue::new(gate(&clock, 1));
    assert!(line.limiter().check().is_ok());
    let mut first = wait(&line, 1, CELL);
    let mut second = wait(&line, 1, 2 * CELL);
    assert!(look(&mut first).is_pending() && look(&mut second).is_pending());
    // Nobody looks when the first has its turn, nor when the second should have had it.
    clock.set(at(5 * CELL / 2));
    assert!(line.limiter().check().is_ok());
    assert!(matches!(look(&mut first), Poll::Ready(Ok(_))));
    let overtaken = WaitError::Overtaken { wait: Duration::from_nanos(CELL) };
    assert_eq!(look(&mut second), Poll::Ready(Err(overtaken)));
}

/// Those in line are willing to wait until their turn, and no longer. Each is woken late: by a little, as
/// wakers are, or by several turns, as when the machine stood still.
#[test]
fn in_a_line_in_which_everybody_waits_nobody_is_overtaken_by_being_woken_late() {
    const WAITERS: u64 = 200;
    for (burst, late_max) in
        [(1, CELL / 50), (1, CELL), (1, 5 * CELL), (3, CELL / 50), (3, 7 * CELL)]
    {
        let clock = ManualClock::new();
        let line = WaitQueue::new(gate(&clock, burst));
        assert!(line.limiter().check_n(burst).is_ok());
        let waiters = (1..=WAITERS).map(|turn| wait(&line, 1, turn * CELL));
        let mut waiters: Vec<_> = waiters.collect();
        assert!(waiters.iter_mut().all(|waiter| look(waiter).is_pending()));
        let mut granted = Vec::new();
        let mut now = 0;
        while !waiters.is_empty() {
            let turns = granted.len() as u64;
            now += CELL + (7 * turns + 3) % 11 * late_max / 10;
            clock.set(at(now));
            // The last ones are woken first.
            for index in (0..waiters.len()).rev() {
                if let Poll::Ready(told) = look(&mut waiters[index]) {
                    assert!(told.is_ok(), "{told:?}, burst {burst}, late by up to {late_max}");
                    drop(waiters.remove(index));
                    granted.push(now);
                }
            }
        }
        assert_eq!(line.waiting(), 0);
        // In no span more than the burst, and what came back in it.
        for (index, first) in granted.iter().enumerate() {
            for (cells, last) in (1..).zip(&granted[index..]) {
                let due = burst + (last - first) / CELL;
                assert!(cells <= due, "{cells} granted where {due} were due");
            }
        }
    }
}

/// Lateness excuses nothing but itself: what others take is told as ever.
#[test]
fn who_is_late_and_overtaken_is_told_so() {
    let clock = ManualClock::new();
    let line = WaitQueue::new(gate(&clock, 1));
    assert!(line.limiter().check().is_ok());
    let [mut first, mut second, mut third] = [1, 2, 3].map(|turn| wait(&line, 1, turn * CELL));
    for waiter in [&mut first, &mut second, &mut third] {
        assert!(look(waiter).is_pending());
    }
    clock.set(at(CELL + CELL / 10));
    assert!(matches!(look(&mut first), Poll::Ready(Ok(_))));
    // The second has its turn at 2.1, and by 4 nobody has looked: another takes what came back.
    clock.set(at(4 * CELL));
    assert!(line.limiter().check().is_ok());
    assert!(matches!(look(&mut second), Poll::Ready(Ok(_))));
    let told = look(&mut third);
    assert!(matches!(told, Poll::Ready(Err(WaitError::Overtaken { .. }))), "{told:?}");
}

/// Requests outside the line take cells whenever they can, and those in line are woken late by up to eight
/// cells' time. In no span of time do more cells go ahead than the burst, the rate, and one booking.
#[test]
fn late_wakers_beside_outsiders_exceed_a_span_by_one_booking_at_most() {
    let (mut worst, mut seed) = (0, 1_u64);
    let mut draw = |end: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % end
    };
    for episode in 0..200 {
        let (burst, booked) = [(1, 1), (3, 1), (3, 3), (5, 2)][episode % 4];
        let clock = ManualClock::new();
        let line = WaitQueue::new(gate(&clock, burst));
        let (mut gone_ahead, mut now) = (Vec::new(), 0);
        let mut waiters: Vec<_> = (0..20).map(|_| wait(&line, booked, 1_000 * SECOND)).collect();
        while !waiters.is_empty() {
            let outsiders = (0..burst).filter(|_| line.limiter().check().is_ok()).count() as u64;
            gone_ahead.push((now, outsiders));
            waiters.retain_mut(|waiter| match look(waiter) {
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
    assert!(worst > 0, "nobody was late enough for the bound to matter");
}

/// A place that is never polled and never dropped is kept: others wait no longer for it than until its
/// turn, and it counts among those who wait for as long as the line lasts.
#[test]
fn a_wait_that_is_leaked_costs_one_place_and_its_cells() {
    let clock = ManualClock::new();
    let line = WaitQueue::new(gate(&clock, 1)).max_waiters(2);
    assert!(line.limiter().check().is_ok());
    let mut leaked = wait(&line, 1, 10 * SECOND);
    assert!(look(&mut leaked).is_pending());
    std::mem::forget(leaked);
    let mut next = wait(&line, 1, 10 * SECOND);
    assert!(look(&mut next).is_pending());
    let crowded = Poll::Ready(Err(WaitError::Crowded { waiters: 2 }));
    assert_eq!(look(&mut wait(&line, 1, 10 * SECOND)), crowded, "its place is taken");
    clock.set(at(CELL));
    assert!(look(&mut next).is_pending(), "what was leaked is granted, and this one booked");
    clock.set(at(2 * CELL));
    assert!(matches!(look(&mut next), Poll::Ready(Ok(_))), "it does not hold up the line");
    assert_eq!(line.waiting(), 1, "for good");
    clock.set(at(3 * CELL));
    assert!(line.limiter().check().is_ok(), "one cell was lost to it, no more");
}

/// A fast key can owe sixteen times its burst, here 32 milliseconds. Whoever asks by a clock that has not
/// seen what another one charged may be further from its turn than that.
#[test]
fn a_turn_further_away_than_a_state_can_tell_is_waited_for() {
    const MILLI: u64 = SECOND / 1_000;
    let clock = ManualClock::new();
    let quota = Quota::per_second(1_000).burst(2);
    let line = WaitQueue::new(Direct::builder(quota).clock(&clock).build().expect("in range"));
    assert!(line.limiter().ask().cells(2).at(at(SECOND)).check().is_ok());
    let [mut first, mut second] = [(); 2].map(|()| wait(&line, 1, 10 * SECOND));
    assert!(look(&mut first).is_pending() && look(&mut second).is_pending());
    let late = WaitError::TooLate { wait: Duration::from_nanos(SECOND + 3 * MILLI) };
    assert_eq!(look(&mut wait(&line, 1, SECOND + 3 * MILLI - 1)), Poll::Ready(Err(late)));

    let [before, after] = [SECOND - 40 * MILLI, SECOND - 20 * MILLI].map(|now| {
        clock.set(at(now));
        assert!(look(&mut second).is_pending() && look(&mut first).is_pending());
        line.limiter()
            .ask()
            .cells(0)
            .at(at(now))
            .peek()
            .expect("nothing is asked for")
            .reset_after()
    });
    let charged = after + Duration::from_millis(20) - before;
    assert_eq!(charged, Duration::from_millis(1), "booked as soon as that can be told");

    clock.set(at(SECOND + MILLI - 1));
    assert!(look(&mut first).is_pending());
    clock.set(at(SECOND + MILLI));
    assert!(matches!(look(&mut first), Poll::Ready(Ok(_))));
    assert!(look(&mut second).is_pending());
    clock.set(at(SECOND + 2 * MILLI));
    assert!(matches!(look(&mut second), Poll::Ready(Ok(_))));
    assert_eq!(line.waiting(), 0);
}

/// The one behind moves up where the first, for whom nothing is charged yet, goes away.
#[test]
fn who_leaves_before_it_could_be_booked_leaves_for_nothing() {
    let clock = ManualClock::new();
    let quota = Quota::per_second(1_000).burst(2);
    let line = WaitQueue::new(Direct::builder(quota).clock(&clock).build().expect("in range"));
    assert!(line.limiter().ask().cells(2).at(at(SECOND)).check().is_ok());
    let [mut first, mut second] = [2, 1].map(|n| wait(&line, n, 10 * SECOND));
    assert!(look(&mut first).is_pending() && look(&mut second).is_pending());
    drop(first);
    clock.set(at(SECOND + SECOND / 1_000));
    assert!(matches!(look(&mut second), Poll::Ready(Ok(_))));
}

#[test]
fn each_key_has_a_line_of_its_own() {
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        let clock = ManualClock::new();
        let quota = Quota::per_second(RATE).burst(1);
        let gate: Limiter<str, Gcra, _> =
            Limiter::builder(quota).clock(&clock).slots(slots).build().expect("in range");
        let line = WaitQueue::new(gate);
        let nap = Duration::from_secs(1);
        let wait = |key| line.wait_async(key, 1, nap, |_| pending::<()>());
        let mut context = Context::from_waker(Waker::noop());
        for key in ["a", "b"] {
            assert!(Pin::new(&mut wait(key)).poll(&mut context).is_ready());
        }
        let [mut a, mut b] = ["a", "b"].map(wait);
        assert!(Pin::new(&mut a).poll(&mut context).is_pending());
        assert!(Pin::new(&mut b).poll(&mut context).is_pending());
        drop(a);
        clock.set(at(CELL));
        assert!(line.limiter().check("a").is_ok(), "its booking was taken back: {slots:?}");
        assert!(line.limiter().check("b").is_err(), "booked: {slots:?}");
        assert!(Pin::new(&mut b).poll(&mut context).is_ready());
        assert_eq!(line.waiting(), 0);
    }
}

#[test]
fn jitter_makes_it_later_but_not_past_the_deadline() {
    let clock = ManualClock::new();
    let line = WaitQueue::new(gate(&clock, 1)).jitter_percent(50);
    let spans: Vec<u64> = (0..100)
        .map(|number| {
            let nap = line.nap(number, at(1_000), at(0), at(1_400));
            nap.end.as_nanos()
        })
        .collect();
    assert!(spans.iter().all(|span| (1_000..=1_400).contains(span)));
    assert!(spans.contains(&1_400) && spans.iter().any(|&span| span < 1_200));
}

/// When one more that asks for so many cells has its turn, by a queue of all that were granted.
struct Naive {
    burst: u64,
    /// When all that was granted will have drained.
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

/// Whether no more is left than otherwise, for no shorter a time.
fn is_no_better(left: (u64, Duration), otherwise: (u64, Duration)) -> bool {
    left.0 <= otherwise.0 && left.1 >= otherwise.1
}

/// Gaps in tenths of a cell, so that turns and deadlines coincide now and then.
fn gap() -> impl Strategy<Value = u64> {
    prop_oneof![3 => Just(0), 3 => 1_u64..15, 1 => 0_u64..100].prop_map(|tenths| tenths * CELL / 10)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_line_is_served_as_a_queue_is(
        burst in 1_u64..5,
        joins in prop::collection::vec((gap(), 1_u64..5, 0_u64..40), 1..30),
    ) {
        let clock = ManualClock::new();
        let line = WaitQueue::new(gate(&clock, burst));
        let mut naive = Naive { burst, empty: 0 };
        let mut waiters: Vec<(u64, Waiter<'_, '_>)> = Vec::new();
        let mut now = 0;
        // The last who joins moves time past everybody's turn.
        for (gap, n, patience) in joins.into_iter().chain([(1_000 * SECOND, 1, 0)]) {
            let (next, n) = (now + gap, n.min(burst));
            while waiters.first().is_some_and(|(turn, _)| *turn <= next) {
                let turn = waiters[0].0;
                clock.set(at(turn - 1));
                prop_assert!(waiters.iter_mut().all(|(_, waiter)| look(waiter).is_pending()));
                clock.set(at(turn));
                let (_, mut first) = waiters.remove(0);
                prop_assert!(matches!(look(&mut first), Poll::Ready(Ok(_))));
            }
            now = next;
            clock.set(at(now));
            let turn = naive.turn(now, n);
            let mut waiter = wait(&line, n, patience * CELL / 4);
            let told = look(&mut waiter);
            if turn > now + patience * CELL / 4 {
                let wait = Duration::from_nanos(turn - now);
                prop_assert_eq!(told, Poll::Ready(Err(WaitError::TooLate { wait })));
                continue;
            }
            naive.grant(now, n);
            prop_assert_eq!(told.is_ready(), turn == now);
            if told.is_pending() {
                waiters.push((turn, waiter));
            }
        }
        prop_assert_eq!(line.waiting(), waiters.len());
    }

    /// Those who join also move the line on, so that some who leave had their turn.
    #[test]
    fn who_leaves_without_having_been_told_leaves_nothing_behind(
        burst in 1_u64..5,
        spent in 1_u64..5,
        acts in prop::collection::vec((gap(), prop::option::of(1_u64..5), any::<prop::sample::Index>()), 1..30),
        passes in 0_u64..2,
    ) {
        let clock = ManualClock::new();
        let (line, twin) = (WaitQueue::new(gate(&clock, burst)), gate(&clock, burst));
        let mut waiters = Vec::new();
        let mut now = 0;
        for cells in [spent.min(burst), 1] {
            prop_assert_eq!(line.limiter().check_n(cells).is_ok(), twin.check_n(cells).is_ok());
        }
        for (gap, join, leave) in acts {
            now += gap * passes;
            clock.set(at(now));
            match join {
                Some(n) => {
                    let mut waiter = wait(&line, n.min(burst), 1_000 * SECOND);
                    match look(&mut waiter).is_ready() {
                        false => waiters.push(waiter),
                        true if waiters.is_empty() => {
                            prop_assert!(twin.check_n(n.min(burst)).is_ok());
                        }
                        // Who went ahead keeps what was charged before it from being taken back.
                        true => return Ok(()),
                    }
                }
                None if !waiters.is_empty() => drop(waiters.remove(leave.index(waiters.len()))),
                None => {}
            }
            if waiters.is_empty() {
                prop_assert!(is_no_better(state(line.limiter(), now), state(&twin, now)));
            }
        }
        drop(waiters);
        let (left, without) = (state(line.limiter(), now), state(&twin, now));
        prop_assert!(is_no_better(left, without));
        if now == 0 {
            prop_assert_eq!(left, without, "nobody left late");
        }
        prop_assert_eq!(line.waiting(), 0);
    }
}
