//! Reservations settled by many threads: exact totals, and no debt except for spent cells.

use std::time::Duration;

use tollgate::limiter::SlotLayout;
use tollgate::reservation::Reservation;
use tollgate::{Clock, Gcra, Limiter, ManualClock, Quota, Tick};

use crate::{Random, drain, together};

const THREADS: u64 = 4;
const ROUNDS: u64 = 4_000;
const BURST: u64 = 50_000;
/// Far from the origin, so that clocks can be behind.
const START: Tick = Tick::from_nanos(3_600_000_000_000);

type Gate<C> = Limiter<u64, Gcra, C>;

fn gate<C: Clock>(quota: Quota, clock: C, slots: SlotLayout) -> Gate<C> {
    Limiter::builder(quota).clock(clock).slots(slots).build().expect("in range")
}

fn left<C: Clock>(gate: &Gate<C>, key: u64, now: Tick) -> u64 {
    gate.ask(&key).cells(0).at(now).peek().expect("a peek for no cells succeeds").remaining()
}

/// An open reservation: the key, the cells that it will spend, and the reservation.
type Open<'a, C> = Vec<(u64, u64, Reservation<'a, Gate<C>>)>;

/// Reserves and settles at random, with up to eight open at a time. Returns the cells spent by each
/// of the two keys.
fn settles<'a, C: Clock>(
    gate: &'a Gate<C>,
    open: &mut Open<'a, C>,
    (now, seed, more): (Tick, u64, bool),
) -> [u64; 2] {
    let mut random = Random::new(seed);
    let mut spent = [0; 2];
    for _ in 0..ROUNDS {
        let key = random.below(2);
        match random.below(4) {
            0 if gate.ask(&key).at(now).check().is_ok() => spent[usize::from(key == 1)] += 1,
            1 | 2 if open.len() < 8 => {
                let estimate = random.below(40);
                let actual = random.below(if more { 60 } else { estimate + 1 });
                let reserved = gate.ask(&key).cells(estimate).at(now).reserve();
                open.extend(reserved.map(|reserved| (key, actual, reserved)));
            }
            _ if !open.is_empty() => {
                let index = usize::try_from(random.below(open.len() as u64)).expect("a few");
                let (key, actual, reserved) = open.swap_remove(index);
                if random.below(3) == 0 {
                    drop(reserved);
                } else {
                    reserved.settle_at(actual, now);
                    spent[usize::from(key == 1)] += actual;
                }
            }
            _ => {}
        }
    }
    spent
}

/// While no time passes, spent and remaining cells sum to the burst, and cells spent beyond it are
/// a debt.
#[test]
fn settled_reservations_charge_exactly_what_was_spent() {
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        for (round, more) in [(0, false), (1, false), (2, true), (3, true)] {
            let clock = ManualClock::new();
            clock.set(START);
            let gate = gate(Quota::per_hour(1_000).burst(BURST), &clock, slots);
            let spent = together(THREADS, |index| {
                settles(&gate, &mut Vec::new(), (START, 1 + index + round * 100, more))
            });
            for key in [0, 1] {
                let spent: u64 = spent.iter().map(|spent| spent[usize::from(key == 1)]).sum();
                assert!(spent > 0);
                assert_eq!(left(&gate, key, START), BURST.saturating_sub(spent), "{slots:?}");
                let owed = (spent + 1).saturating_sub(BURST);
                let wait = gate.ask(&key).at(START).charge();
                assert_eq!(wait, Duration::from_millis(3_600 * owed), "{slots:?}, {spent} spent");
            }
        }
    }
}

/// Time passes between the rounds, and some reservations stay open from round to round.
#[test]
fn reservations_never_spend_more_than_the_burst_and_the_rate() {
    const RATE: u64 = 100_000;
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        let clock = ManualClock::new();
        clock.set(START);
        let gate = gate(Quota::per_second(RATE).burst(2_000), &clock, slots);
        let mut open: [Open<'_, _>; 4] = Default::default();
        let mut spent = 0;
        for turn in 0..30_u32 {
            let now = START.saturating_add(Duration::from_micros(3_000) * turn);
            clock.set(now);
            let gate = &gate;
            spent += std::thread::scope(|scope| {
                let begin = |(seed, open)| {
                    let seed = seed + u64::from(turn) * 100;
                    scope.spawn(move || settles(gate, open, (now, seed, false))[0])
                };
                let threads: Vec<_> = (7..).zip(&mut open).map(begin).collect();
                threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<u64>()
            });
        }
        open.iter_mut().for_each(Vec::clear);
        let spent = spent + drain(|| gate.ask(&0).at(clock.now()).check().is_ok());
        // A time unit is at most 20 microseconds, a thousandth of the burst. It counts once.
        let max = 2_000 + 3 * RATE * 29 / 1_000 + RATE * 20 / 1_000_000;
        assert!(spent <= max, "{slots:?}: {spent} of {max}");
        assert!(spent > 4_000, "more than the burst was there to be spent: {spent}");
    }
}

/// One thread makes the reservations, and another ends them.
#[test]
fn a_reservation_can_be_settled_by_another_thread() {
    let clock = ManualClock::new();
    clock.set(START);
    let gate = gate(Quota::per_hour(1_000).burst(BURST), &clock, SlotLayout::Wide);
    let (sender, receiver) = std::sync::mpsc::channel::<(u64, Reservation<_>)>();
    let spent: u64 = std::thread::scope(|scope| {
        for index in 0..3 {
            let (gate, sender) = (&gate, sender.clone());
            scope.spawn(move || {
                let mut random = Random::new(index + 1);
                for _ in 0..2_000 {
                    let estimate = random.below(10);
                    if let Ok(reserved) = gate.ask(&0).cells(estimate).reserve() {
                        sender.send((random.below(estimate + 1), reserved)).expect("settled");
                    }
                }
            });
        }
        drop(sender);
        receiver
            .into_iter()
            .map(|(actual, reserved)| {
                reserved.settle(actual);
                actual
            })
            .sum()
    });
    assert_eq!(left(&gate, 0, START), BURST - spent);
}
