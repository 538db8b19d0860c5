//! What a table tells of slots that are filled by hand.

use core::time::Duration;

use super::layout::{BUCKET, Owner};
use super::snapshot::debt_of;
use super::{Attempt, HugePages, Misplaced, Probe, RingLayout, Row, Table, Wide};
use crate::algo::{Algorithm, NoRing, PAYLOAD_BITS, StateMachine, Step};
use crate::cell::Head;
use crate::cell::tests::Interrupted;
use crate::time::Tick;
use crate::{Gcra, Quota, SlidingLog};

const NOW: Tick = Tick::from_nanos(1_000_000_000_000);

/// A hundred at once, one of them back in each second.
fn quota() -> Quota {
    Quota::per_second(1).burst(100)
}

fn wide_bucket() -> impl StateMachine {
    Gcra::new().params(&quota(), 0).expect("in range")
}

fn compact_bucket() -> impl StateMachine {
    Gcra::new().compact_params(&quota(), 0).expect("in range").expect("narrow")
}

/// The state after `n` cells at `now`.
fn charged(machine: &impl StateMachine, n: u64, now: Tick) -> u64 {
    let seen = machine.read(machine.fresh(now), NoRing, now, n);
    let Step::Admit { next } = machine.step(seen, now, n) else { panic!("{n} cells are free") };
    next
}

/// The state of a key that has been idle for an hour.
fn idle(machine: &impl StateMachine) -> u64 {
    charged(machine, 1, NOW.saturating_sub(Duration::from_secs(3_600)))
}

fn wide(machine: &impl StateMachine) -> Wide {
    Wide::new(2, RingLayout::of(machine), Duration::ZERO, HugePages(false)).expect("memory")
}

#[test]
fn a_ring_s_cells_are_counted_as_memory() {
    assert_eq!(wide(&wide_bucket()).memory_bytes(), 2 * 8 * 16);
    let log = SlidingLog::new().params(&Quota::per_minute(10), 0).expect("in range");
    assert_eq!(log.ring_cells(), 12);
    assert_eq!(wide(&log).memory_bytes(), 2 * 8 * (16 + 12 * 8));
}

#[test]
fn an_attempt_tells_a_lost_race_from_a_denial() {
    let machine = wide_bucket();
    let layout = RingLayout::of(&machine);
    let table = Table::wide(2, layout, Duration::ZERO, HugePages(false)).expect("memory");
    let probe = table.probe(0xabc);
    assert!(matches!(table.attempt(probe, &machine, NOW, 1), Attempt::Undecided), "no slot yet");
    let decide = |n: u64| table.find_at_once(probe).decide(probe, &machine, NOW, n, false);
    assert!(decide(40).expect("a place").is_ok());
    assert!(matches!(table.attempt(probe, &machine, NOW, 61), Attempt::Undecided));
    let Attempt::Admitted(permit) = table.attempt(probe, &machine, NOW, 10) else {
        panic!("it fits")
    };
    assert_eq!(permit.remaining(), 50);
    let meanwhile = || assert!(decide(1).expect("a place").is_ok());
    let raced = Interrupted { machine: wide_bucket(), meanwhile: &meanwhile };
    assert!(matches!(table.attempt(probe, &raced, NOW, 10), Attempt::Raced));
    assert!(matches!(table.attempt(probe, &raced, NOW, 61), Attempt::Raced), "it may fit by now");
    assert_eq!(decide(0).expect("a place").expect("nothing is asked for").remaining(), 48);
}

#[test]
fn a_first_try_of_a_key_that_was_found_admits() {
    let (wide, narrow) = (wide_bucket(), compact_bucket());
    let (skew, pages) = (Duration::ZERO, HugePages(false));
    let layout = RingLayout::of(&wide);
    admits_at_once(&Table::wide(2, layout, skew, pages).expect("memory"), &wide);
    admits_at_once(&Table::compact(2, skew, pages).expect("memory"), &narrow);
}

fn admits_at_once(table: &Table, machine: &impl StateMachine) {
    let probe = table.probe(0xabc);
    assert!(table.find_at_once(probe).admit(machine, NOW, 1).is_none(), "no slot yet");
    let decided = table.find_at_once(probe).decide(probe, machine, NOW, 40, false);
    assert!(decided.expect("a place").is_ok());
    let permit = table.find_at_once(probe).admit(machine, NOW, 10).expect("it fits");
    assert_eq!(permit.remaining(), 50);
    assert!(table.find_at_once(probe).admit(machine, NOW, 51).is_none());
    let permit = table.find_at_once(probe).admit(machine, NOW, 0).expect("it was charged once");
    assert_eq!(permit.remaining(), 50);
}

#[test]
fn of_wide_slots_those_that_owe_something_are_told() {
    let machine = wide_bucket();
    let table = wide(&machine);
    let live = charged(&machine, 5, NOW);
    // A claim, and a slot that was given up, have an owner too, and may hold what somebody owed.
    for (place, head) in [
        (1, Head::committed(1, live)),
        (2, Head::committed(1, idle(&machine))),
        (4, Head::provisional(1, live)),
        (6, Head::committed(2, live)),
    ] {
        let slot = &table.slots.bucket(0)[place];
        assert_eq!(slot.head.swap(Head::committed(0, 0), head), Ok(()));
        assert!(slot.hand_over(Owner::NOBODY, Owner::of(0x77).in_generation(1)));
    }
    let row = table.row(0, &machine, machine.instant(NOW));
    assert_eq!(Row::places_in(row.places).collect::<Vec<_>>(), [1]);
    assert_eq!(row.words(), [0x77, live]);
}

#[test]
fn of_slots_nobody_has_used_nothing_is_told_whatever_the_time() {
    // So fast that its time comes round: a state of zero is ahead of some instants.
    let machine = Gcra::new().params(&Quota::per_second(1_000_000_000), 0).expect("in range");
    let table = wide(&machine);
    let ahead = |now: &Tick| debt_of(0, &machine, machine.instant(*now)) > 0;
    let tolerance = machine.skew_tolerance().expect("it comes round");
    let round = Tick::from_duration(machine.horizon().expect("it comes round"));
    let times = (0..200).map(|step| round.saturating_add(tolerance * step / 100));
    let times: Vec<Tick> = times.filter(ahead).collect();
    assert!(!times.is_empty(), "a state of zero is never ahead");
    for now in times {
        assert_eq!(table.row(0, &machine, machine.instant(now)).places, 0, "{now:?}");
    }
}

/// Puts a key's words back into places of the first bucket, one after the other, and tells which of them
/// is there in the end, and with how much debt.
fn put_back(table: &Table, machine: &impl StateMachine, words: &[&[u64]]) -> Option<(usize, u64)> {
    let instant = machine.instant(NOW);
    for (place, words) in words.iter().enumerate() {
        let rebase = |state: u64, _: &mut [u64]| Some(state);
        table.put_back(0, place, (words, &mut []), machine, instant, rebase).expect("its place");
    }
    let row = table.rows(machine, instant).next().expect("two buckets");
    let place = Row::places_in(row.places).next()?;
    assert_eq!(row.places.count_ones(), 1);
    let state = *row.words().last()? & ((1 << crate::algo::COMPACT_BITS) - 1);
    Some((place, debt_of(state, machine, instant)))
}

#[test]
fn of_a_key_that_is_put_back_twice_the_larger_debt_is_kept() {
    let (narrow, skew, pages) = (compact_bucket(), Duration::ZERO, HugePages(false));
    let owes = |n: u64| charged(&narrow, n, NOW);
    let debt = |n: u64| debt_of(owes(n), &narrow, narrow.instant(NOW));
    for (first, second, kept) in [(5, 9, 1), (9, 5, 0), (7, 7, 0)] {
        let table = Table::compact(2, skew, pages).expect("memory");
        let word = |n: u64| {
            let fingerprint = crate::cell::Fingerprint::of(0x77);
            [crate::cell::Word::committed(fingerprint, owes(n)).bits()]
        };
        let found = put_back(&table, &narrow, &[&word(first), &word(second)]);
        assert_eq!(found, Some((kept, debt(first.max(second)))));
        let layout = RingLayout::of(&narrow);
        let table = Table::wide(2, layout, skew, pages).expect("memory");
        let found = put_back(&table, &narrow, &[&[0x77, owes(first)], &[0x77, owes(second)]]);
        assert_eq!(found, Some((kept, debt(first.max(second)))));
    }
}

#[test]
fn words_with_bits_where_none_can_be_are_not_put_back() {
    let machine = wide_bucket();
    let live = charged(&machine, 5, NOW);
    for words in [[1 << 54 | 0x77, live], [0x77, 1 << PAYLOAD_BITS | live], [0, live]] {
        let table = wide(&machine);
        let rebase = |state: u64, _: &mut [u64]| Some(state);
        let ring: &mut [u64] = &mut [];
        let put = table.put_back(0, 0, (words, ring), &machine, machine.instant(NOW), rebase);
        assert!(matches!(put, Err(Misplaced)), "{words:x?}");
    }
}

#[test]
fn a_probe_is_for_a_bucket_and_a_place_of_it() {
    // The topmost bits choose the bucket, the lowest the place.
    for place in 0..BUCKET as u64 {
        let table = wide(&wide_bucket());
        let (probe, machine) = (Probe::new(1 << 63 | 0xabc0 | place, 2), wide_bucket());
        assert!(table.decide(probe, None, &machine, NOW, 1, false).expect("a place").is_ok());
        let row = table.row(1, &machine, machine.instant(NOW));
        assert_eq!(u64::from(row.places), 1 << place);
    }
}

#[test]
fn a_table_is_far_if_it_is_more_than_a_megabyte() {
    let (machine, skew, pages) = (wide_bucket(), Duration::ZERO, HugePages(false));
    let layout = RingLayout::of(&machine);
    for (buckets, is_far) in [(2, false), (8_192, false), (8_193, true), (20_000, true)] {
        let table = Table::wide(buckets, layout, skew, pages).expect("memory");
        assert_eq!(table.is_far(), is_far, "{buckets}");
    }
    for (buckets, is_far) in [(2, false), (16_384, false), (16_385, true), (20_000, true)] {
        let table = Table::compact(buckets, skew, pages).expect("memory");
        assert_eq!(table.is_far(), is_far, "{buckets}");
    }
}

#[test]
fn a_table_tells_its_kind_and_size_where_it_is_printed() {
    let (machine, skew, pages) = (wide_bucket(), Duration::ZERO, HugePages(false));
    let layout = RingLayout::of(&machine);
    let table = Table::wide(3, layout, skew, pages).expect("memory");
    assert_eq!(format!("{table:?}"), "Wide(Wide { slots: 24, .. })");
    let table = Table::compact(3, skew, pages).expect("memory");
    assert_eq!(format!("{table:?}"), "Compact(Compact { slots: 24, .. })");
}

#[test]
fn all_places_of_a_bucket_may_be_live() {
    let machine = wide_bucket();
    let table = wide(&machine);
    let live = charged(&machine, 5, NOW);
    for (place, slot) in table.slots.bucket(0).iter().enumerate() {
        assert_eq!(slot.head.swap(Head::committed(0, 0), Head::committed(1, live)), Ok(()));
        let owner = Owner::of(0x70 + place as u64).in_generation(1);
        assert!(slot.hand_over(Owner::NOBODY, owner));
    }
    let row = table.row(0, &machine, machine.instant(NOW));
    assert_eq!((row.places, row.words().len()), (u8::MAX, 2 * BUCKET));
}

#[test]
fn no_two_claims_bear_one_number() {
    let (counters, all_are_there) = (super::Counters::default(), std::sync::Barrier::new(16));
    let numbers = || {
        all_are_there.wait();
        let numbers = [(); 4].map(|()| counters.nonce());
        all_are_there.wait();
        numbers
    };
    let mut all: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..16).map(|_| scope.spawn(numbers)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("it ends")).collect()
    });
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 64);
}
