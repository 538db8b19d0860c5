//! The reports of a table about slots that are filled by hand.

use core::time::Duration;

use super::snapshot::debt_of;
use super::{
    Attempt, Event, Full, HugePages, KeyRequest, Misplaced, Probe, RingLayout, Row, SavedSlot,
    Source, Table, TakeOver,
};
use crate::algo::{Algorithm, NoRing, PAYLOAD_BITS, StateMachine, Step};
use crate::cell::tests::Interrupted;
use crate::cell::{CompactWord, InFull, Request, StateWord};
use crate::decision::Decision;
use crate::time::Tick;
use crate::{Gcra, Quota, SlidingLog};

const NOW: Tick = Tick::from_nanos(1_000_000_000_000);
const DENY: TakeOver = TakeOver { skew: Duration::ZERO, may_evict: false };

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
    let view = machine.read(machine.fresh(now), NoRing, now, n);
    let Step::Admit { next } = machine.step(view, now, n) else { panic!("{n} cells are free") };
    next
}

fn wide(machine: &impl StateMachine) -> Table {
    Table::wide(2, RingLayout::of(machine), DENY, &Source::Own(HugePages(false))).expect("memory")
}

/// A request of the key with that probe.
fn request<M>(probe: Probe, machine: &M, cells: u64) -> KeyRequest<'_, M> {
    KeyRequest { probe, machine, request: Request { now: NOW, cells } }
}

#[test]
fn the_words_of_rings_count_as_memory() {
    assert_eq!(wide(&wide_bucket()).memory_bytes(), 2 * 8 * 16);
    let log = SlidingLog::new().params(&Quota::per_minute(10), 0).expect("in range");
    assert_eq!(log.ring_cells(), 12);
    assert_eq!(wide(&log).memory_bytes(), 2 * 8 * (16 + 12 * 8));
}

#[test]
fn an_attempt_distinguishes_a_lost_race_from_a_denial() {
    let machine = wide_bucket();
    let table = wide(&machine);
    let probe = Probe::new(0xabc);
    assert!(matches!(table.attempt(probe, &machine, NOW, 1), Attempt::Undecided), "no slot yet");
    let decide =
        |n: u64| table.find_at_once(probe).answer::<_, InFull>(request(probe, &machine, n));
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
    let pages = Source::Own(HugePages(false));
    let layout = RingLayout::of(&wide);
    admits_at_once(&Table::wide(2, layout, DENY, &pages).expect("memory"), &wide);
    admits_at_once(&Table::compact(2, DENY, &pages).expect("memory"), &narrow);
}

fn admits_at_once(table: &Table, machine: &impl StateMachine) {
    let probe = Probe::new(0xabc);
    assert!(table.find_at_once(probe).admit(machine, NOW, 1).is_none(), "no slot yet");
    let decided = table.find_at_once(probe).answer::<_, InFull>(request(probe, machine, 40));
    assert!(decided.expect("a place").is_ok());
    let permit = table.find_at_once(probe).admit(machine, NOW, 10).expect("it fits");
    assert_eq!(permit.remaining(), 50);
    assert!(table.find_at_once(probe).admit(machine, NOW, 51).is_none());
    let permit = table.find_at_once(probe).admit(machine, NOW, 0).expect("it was charged once");
    assert_eq!(permit.remaining(), 50);
}

/// Zero stands for a slot that was never used, so such a key has another fingerprint.
#[test]
fn a_key_with_a_fingerprint_of_zero_has_one_slot() {
    let (machine, narrow) = (wide_bucket(), compact_bucket());
    let has_one_slot = |table: &Table, charge: &dyn Fn(u64) -> Option<u64>| {
        let charges = [40, 10, 51, 50, 1].map(charge);
        assert_eq!(charges, [Some(60), Some(50), None, Some(0), None]);
        assert_eq!(table.counters().total(Event::Claimed), 1);
    };
    for hash in [0, 1 << 26, 1 << 54, 1 << 63] {
        let probe = Probe::new(hash);
        let table = wide(&machine);
        has_one_slot(&table, &|n| {
            left(table.find_at_once(probe).answer::<_, InFull>(request(probe, &machine, n)))
        });
        assert!(table.peek(probe, &machine, NOW, 1).is_some());
        table.forget(probe);
        assert!(table.peek(probe, &machine, NOW, 1).is_none());
        let table = Table::compact(2, DENY, &Source::Own(HugePages(false))).expect("memory");
        has_one_slot(&table, &|n| {
            left(table.find_at_once(probe).answer::<_, InFull>(request(probe, &narrow, n)))
        });
    }
}

fn left(decided: Result<Decision, Full>) -> Option<u64> {
    Some(decided.expect("a place").ok()?.remaining())
}

#[test]
fn slots_that_were_never_used_are_in_no_row_at_any_time() {
    // The quota is so fast that its time comes round: a state of zero is ahead of some instants.
    let machine = Gcra::new().params(&Quota::per_second(1_000_000_000), 0).expect("in range");
    let table = wide(&machine);
    let ahead = |now: &Tick| debt_of(0, &machine, machine.instant(*now)) > 0;
    let tolerance = machine.skew_tolerance().expect("it comes round");
    let round = Tick::from_duration(machine.horizon().expect("it comes round"));
    let times = (0..200).map(|step| round.saturating_add(tolerance * step / 100));
    let times: Vec<Tick> = times.filter(ahead).collect();
    assert!(!times.is_empty(), "a state of zero is never ahead");
    for now in times {
        let rows = table.rows(&machine, machine.instant(now));
        assert!(rows.into_iter().all(|row| row.places == 0), "{now:?}");
    }
}

/// Restores a key's words into places of the first bucket, one after the other. Returns which of them
/// is there in the end, and with how much debt.
fn restore(table: &Table, machine: &impl StateMachine, words: &[&[u64]]) -> Option<(usize, u64)> {
    let instant = machine.instant(NOW);
    for (place, words) in words.iter().enumerate() {
        let rebase = |state: u64, _: &mut [u64]| Some(state);
        let saved = SavedSlot { bucket: 0, place, words, ring: &mut [] };
        table.restore(saved, machine, instant, rebase).expect("its place");
    }
    let row = table.rows(machine, instant).next().expect("two buckets");
    let place = Row::places_in(row.places).next()?;
    assert_eq!(row.places.count_ones(), 1);
    let state = *row.words().last()? & ((1 << crate::algo::COMPACT_BITS) - 1);
    Some((place, debt_of(state, machine, instant)))
}

#[test]
fn a_key_that_is_restored_twice_keeps_the_larger_debt() {
    let (narrow, pages) = (compact_bucket(), Source::Own(HugePages(false)));
    let owes = |n: u64| charged(&narrow, n, NOW);
    let debt = |n: u64| debt_of(owes(n), &narrow, narrow.instant(NOW));
    for (first, second, kept) in [(5, 9, 1), (9, 5, 0), (7, 7, 0)] {
        let table = Table::compact(2, DENY, &pages).expect("memory");
        let word = |n: u64| {
            let fingerprint = crate::cell::Fingerprint::of(0x77);
            [CompactWord::committed(fingerprint, owes(n)).bits()]
        };
        let found = restore(&table, &narrow, &[&word(first), &word(second)]);
        assert_eq!(found, Some((kept, debt(first.max(second)))));
        let layout = RingLayout::of(&narrow);
        let table = Table::wide(2, layout, DENY, &pages).expect("memory");
        let found = restore(&table, &narrow, &[&[0x77, owes(first)], &[0x77, owes(second)]]);
        assert_eq!(found, Some((kept, debt(first.max(second)))));
    }
}

#[test]
fn words_with_bits_outside_their_fields_are_not_restored() {
    let machine = wide_bucket();
    let live = charged(&machine, 5, NOW);
    for words in [[1 << 54 | 0x77, live], [0x77, 1 << PAYLOAD_BITS | live], [0, live]] {
        let table = wide(&machine);
        let rebase = |state: u64, _: &mut [u64]| Some(state);
        let ring: &mut [u64] = &mut [];
        let saved = SavedSlot { bucket: 0, place: 0, words: &words, ring };
        let put = table.restore(saved, &machine, machine.instant(NOW), rebase);
        assert!(matches!(put, Err(Misplaced)), "{words:x?}");
    }
}

#[test]
fn a_key_is_put_where_its_hash_prefers() {
    // The topmost bit chooses one of two buckets, the next ones the place.
    for place in 0..8 {
        let table = wide(&wide_bucket());
        let (probe, machine) = (Probe::new(1 << 63 | place << 60 | 0xabc), wide_bucket());
        let decided = table.find_at_once(probe).answer::<_, InFull>(request(probe, &machine, 1));
        assert!(decided.expect("a place").is_ok());
        let row = table.rows(&machine, machine.instant(NOW)).nth(1).expect("two buckets");
        assert_eq!(u64::from(row.places), 1 << place);
    }
}

#[test]
fn a_table_is_far_if_it_is_more_than_a_megabyte() {
    let (machine, pages) = (wide_bucket(), Source::Own(HugePages(false)));
    let layout = RingLayout::of(&machine);
    for (buckets, is_far) in [(2, false), (8_192, false), (8_193, true), (20_000, true)] {
        let table = Table::wide(buckets, layout, DENY, &pages).expect("memory");
        assert_eq!(table.is_far(), is_far, "{buckets}");
    }
    for (buckets, is_far) in [(2, false), (16_384, false), (16_385, true), (20_000, true)] {
        let table = Table::compact(buckets, DENY, &pages).expect("memory");
        assert_eq!(table.is_far(), is_far, "{buckets}");
    }
}

#[test]
fn a_table_prints_its_kind_and_size() {
    let (machine, pages) = (wide_bucket(), Source::Own(HugePages(false)));
    let layout = RingLayout::of(&machine);
    let table = Table::wide(3, layout, DENY, &pages).expect("memory");
    assert_eq!(format!("{table:?}"), "Table { kind: wide, slots: 24, .. }");
    let table = Table::compact(3, DENY, &pages).expect("memory");
    assert_eq!(format!("{table:?}"), "Table { kind: compact, slots: 24, .. }");
}

#[test]
fn no_two_claims_have_the_same_nonce() {
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
