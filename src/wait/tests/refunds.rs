//! Waiters that leave or stay while others are refunded: the cells that they restore or take.

use super::*;

/// A plan of the bucket's own states, ten times as fast.
#[test]
fn a_planned_waiter_before_one_bucket_is_refunded_by_its_plan_when_it_leaves() {
    let clock = ManualClock::new();
    let quota = Quota::per_second(RATE);
    let keyed: Limiter<u64> =
        Limiter::builder(quota).slots(SlotLayout::Wide).build().expect("in range");
    let fast = keyed.plan(Quota::per_second(10 * RATE).burst(1)).expect("on the same grid");
    let queue = WaitQueue::new(gate(&clock, RATE));
    assert!(queue.limiter().check_n(RATE).is_ok());
    let before = state(queue.limiter(), 0);
    let mut waiter: Waiter<'_, '_> = queue.ask(&()).plan(&fast).wait_async(|_| pending());
    assert!(poll_once(&mut waiter).is_pending());
    drop(waiter);
    assert_eq!(state(queue.limiter(), 0), before);
}

/// A waiter is booked behind a reservation of four cells, which is then settled to `spent`. Another caller takes
/// `taken` cells at `taken_at`, and the waiter leaves at `left_at`, after a second waiter has polled. Times are in
/// tenths of a cell. Returns what the key owes then, in tenths of a cell.
fn owed_after(spent: u64, [taken, taken_at]: [u64; 2], left_at: u64, second_polls: bool) -> u128 {
    let clock = ManualClock::new();
    let queue = WaitQueue::new(gate(&clock, 4));
    let reserved = queue.limiter().ask().cells(4).reserve().expect("the bucket is full");
    let [mut first, mut second] = [(); 2].map(|()| wait(&queue, 4, 10 * SECOND));
    assert!(poll_once(&mut first).is_pending() && poll_once(&mut second).is_pending());
    reserved.settle(spent);
    clock.set(at(taken_at * CELL / 10));
    assert!(queue.limiter().check_n(taken).is_ok());
    let now = left_at * CELL / 10;
    clock.set(at(now));
    if second_polls {
        assert!(poll_once(&mut second).is_pending());
    }
    // The second is booked nowhere yet, unless the first has been granted.
    drop(second);
    drop(first);
    let (_, reset_after) = state(queue.limiter(), now);
    reset_after.as_nanos() * 10 / u128::from(CELL)
}

#[test]
fn a_waiter_that_leaves_after_another_was_refunded_restores_no_cells_that_time_has() {
    // Three cells were spent at 3, so 2.5 are owed at 3.5.
    let owed = owed_after(0, [3, 30], 35, false);
    assert!(owed >= 25, "{owed}");
    // It is granted at its turn, and leaves before it learns of that. The debt was less than its cells.
    let owed = owed_after(0, [3, 39], 40, true);
    assert!(owed >= 29, "{owed}");
}

/// While the key owes more than its burst, no other caller was charged behind the booking.
#[test]
fn a_waiter_that_leaves_before_others_can_be_charged_leaves_no_charge_behind() {
    assert_eq!(owed_after(3, [0, 20], 20, false), 10);
    assert_eq!(owed_after(4, [0, 20], 35, false), 5);
}

#[test]
fn a_waiter_of_one_queue_that_leaves_lets_one_of_another_restore_no_cells_that_time_has() {
    let clock = ManualClock::new();
    let limiter = gate(&clock, 4);
    let queues = [(); 2].map(|()| WaitQueue::new(&limiter));
    assert!(limiter.check_n(4).is_ok());
    let mut context = Context::from_waker(Waker::noop());
    let [mut first, mut second] = [0, 1]
        .map(|at| queues[at].ask(&()).cells(4 - 2 * at as u64).wait_async(|_| pending::<()>()));
    assert!(Pin::new(&mut first).poll(&mut context).is_pending());
    assert!(Pin::new(&mut second).poll(&mut context).is_pending());
    drop(first);
    clock.set(at(5 * CELL));
    assert!(limiter.check_n(3).is_ok());
    clock.set(at(11 * CELL / 2));
    drop(second);
    assert!(state(&limiter, 11 * CELL / 2).1 >= Duration::from_nanos(5 * CELL / 2));
}

/// Numbers that look random.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn index<T>(&mut self, all: &[T]) -> usize {
        let end = u64::try_from(all.len()).expect("few");
        usize::try_from(self.below(end)).expect("few")
    }
}

/// Ticks of the clock in which a cell is restored.
const TICKS: u64 = 20;

/// Waiters of some cells each before a bucket, beside requests and reservations.
struct Waiters {
    burst: u64,
    cells: u64,
    queues: usize,
    /// One waits at a time, and leaves before its turn.
    leave_early: bool,
}

impl Waiters {
    /// The cells that a random sequence of acts spends, each with its tick.
    fn spend(&self, draw: &mut Draw) -> Vec<(u64, u64)> {
        let Self { burst, cells, leave_early, .. } = *self;
        let clock = ManualClock::new();
        let limiter = gate(&clock, burst);
        let queues: Vec<_> = (0..self.queues).map(|_| WaitQueue::new(&limiter)).collect();
        let mut context = Context::from_waker(Waker::noop());
        let (mut spent, mut waiters, mut reserved) = (Vec::new(), Vec::new(), Vec::new());
        let (mut now, mut turn) = (0, u64::MAX);
        for _ in 0..80 {
            match draw.below(8) {
                0 if waiters.len() < if leave_early { 1 } else { 4 } => {
                    let ask = queues[draw.index(&queues)].ask(&()).cells(cells);
                    let mut waiter = ask.wait_async(|_| pending::<()>());
                    if Pin::new(&mut waiter).poll(&mut context).is_ready() {
                        spent.push((now, cells));
                        continue;
                    }
                    waiters.push(waiter);
                    let owed = state(&limiter, now * CELL / TICKS).1.as_nanos();
                    let owed = u64::try_from(owed).expect("little") * TICKS / CELL;
                    turn = now + owed - burst * TICKS;
                }
                1 if !waiters.is_empty() => drop(waiters.swap_remove(draw.index(&waiters))),
                2 => {
                    if let Ok(charged) = limiter.ask().cells(1 + draw.below(burst)).reserve() {
                        reserved.push((spent.len(), charged));
                        spent.push((now, 0));
                    }
                }
                3 if !reserved.is_empty() => {
                    let (index, charged) = reserved.swap_remove(draw.index(&reserved));
                    spent[index].1 = draw.below(charged.cells() + 1);
                    charged.settle(spent[index].1);
                }
                4 | 5 => {
                    let asked = 1 + draw.below(burst);
                    let admitted = (0..asked).filter(|_| limiter.check().is_ok()).count();
                    spent.push((now, u64::try_from(admitted).expect("few")));
                }
                _ => {
                    now += draw.below(30);
                    if leave_early && now >= turn {
                        now = turn - 1;
                        clock.set(at(now * CELL / TICKS));
                        waiters.clear();
                        turn = u64::MAX;
                    }
                    clock.set(at(now * CELL / TICKS));
                    // They are woken late now and then.
                    if draw.below(2) == 0 {
                        continue;
                    }
                }
            }
            waiters.retain_mut(|waiter| match Pin::new(waiter).poll(&mut context) {
                Poll::Ready(ended) => {
                    assert!(ended.is_ok() && !leave_early, "{ended:?}");
                    spent.push((now, cells));
                    false
                }
                Poll::Pending => true,
            });
        }
        spent
    }

    /// By how many cells a span exceeds the burst and the rate, at most.
    fn worst_excess(&self, draw: &mut Draw) -> u64 {
        let mut spent = self.spend(draw);
        // The cells that a reservation spends count from its charge.
        spent.sort_unstable();
        let mut worst = 0;
        for (index, (first, _)) in spent.iter().enumerate() {
            let mut cells = 0;
            for (last, more) in &spent[index..] {
                cells += more;
                worst = worst.max(cells.saturating_sub(self.burst + (last - first) / TICKS));
            }
        }
        worst
    }
}

#[test]
fn whatever_is_refunded_a_span_exceeds_its_bound_by_at_most_one_booking_of_each_queue() {
    let mut draw = Draw(1);
    for queues in [1, 2] {
        let mut worst = 0;
        for _ in 0..2_000 {
            let burst = 1 + draw.below(4);
            let cells = 1 + draw.below(burst);
            let waiters = Waiters { burst, cells, queues, leave_early: false };
            let excess = waiters.worst_excess(&mut draw);
            assert!(excess <= cells * queues as u64, "{excess} of {queues} times {cells}");
            worst = worst.max(excess);
        }
        assert!(worst > 0, "no sequence came near the bound");
    }
}

#[test]
fn waiters_that_leave_before_their_turns_leave_the_bound_of_every_span_whatever_is_refunded() {
    let mut draw = Draw(1);
    for _ in 0..5_000 {
        let burst = 1 + draw.below(4);
        let cells = 1 + draw.below(burst);
        let waiters = Waiters { burst, cells, queues: 1, leave_early: true };
        assert_eq!(waiters.worst_excess(&mut draw), 0, "burst {burst}, {cells} cells each");
    }
}
