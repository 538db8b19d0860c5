//! The word that an absent key is given, in two buckets that are filled by hand.

use core::time::Duration;

use super::*;
use crate::algo::{Algorithm, NoRing, Step};
use crate::cell::Request;
use crate::table::choice::Choice;
use crate::table::claim::RetryBudget;
use crate::table::memory::{HugePages, TableCounters};
use crate::table::ranking::{Rank, Ranking};
use crate::table::slot_table::{SlotTable, TakeOver};
use crate::table::source::Source;
use crate::table::{Full, KeyRequest};
use crate::time::Tick;
use crate::{Gcra, Quota};

type Table = SlotTable<CompactSlots>;

const NOW: Tick = Tick::from_nanos(1_000_000_000_000);
/// A key of the first bucket.
const KEY: u64 = 0xabc00;

/// A hundred at once, one of them back in each second.
fn bucket() -> impl StateMachine {
    let quota = Quota::per_second(1).burst(100);
    Gcra::new().compact_params(&quota, 0).expect("in range").expect("narrow")
}

/// The state after `n` cells at `now`.
fn charged(n: u64, now: Tick) -> u64 {
    let machine = bucket();
    let view = machine.read(machine.fresh(now), NoRing, now, n);
    let Step::Admit { next } = machine.step(view, now, n) else { panic!("{n} cells are free") };
    next
}

fn live(debt: u64) -> CompactWord {
    CompactWord::committed(Fingerprint::of(0), charged(debt, NOW))
}

/// A key that has been idle for `seconds`.
fn idle(seconds: u64) -> CompactWord {
    let then = Tick::from_nanos(NOW.as_nanos() - (seconds + 1) * 1_000_000_000);
    CompactWord::committed(Fingerprint::of(0), charged(1, then))
}

fn claim() -> CompactWord {
    CompactWord::provisional(Fingerprint::of(0), 77)
}

/// A table with these words, each of another key.
fn filled(words: [[CompactWord; BUCKET]; 2]) -> Table {
    let source = Source::Own(HugePages(false));
    let slots = CompactSlots::new(2, &source).expect("memory");
    let counters = TableCounters::zeroed(&source).expect("memory");
    let table = SlotTable::new(slots, TakeOver { skew: Duration::ZERO, may_evict: true }, counters);
    for (bucket, words) in (0..).zip(words) {
        for (place, word) in words.into_iter().enumerate().filter(|(_, word)| !word.is_vacant()) {
            let other = Fingerprint::of(0x5000 + 16 * u64::from(bucket) + place as u64);
            let word = match word.is_provisional() {
                true => CompactWord::provisional(other, word.state()),
                false => CompactWord::committed(other, word.state()),
            };
            assert_eq!(
                table.slots.lines.bucket(bucket)[place].swap(CompactWord::VACANT, word),
                Ok(())
            );
        }
    }
    table
}

fn request<M>(machine: &M) -> KeyRequest<'_, M> {
    let request = Request { now: NOW, cells: 1 };
    KeyRequest { probe: Probe::new(KEY), machine, request }
}

/// Where the key would be put, and whether a live key is evicted for it.
fn chosen(table: &Table) -> ((u32, usize), bool) {
    let machine = bucket();
    let Choice::Take(slot, evicts) = table.choose(&request(&machine), true, true) else {
        panic!("a place")
    };
    let mut places = (0..2).flat_map(|bucket| (0..BUCKET).map(move |place| (bucket, place)));
    let is_it = |(bucket, place): &(u32, usize)| {
        core::ptr::eq(&table.slots.lines.bucket(*bucket)[*place], slot.cell)
    };
    (places.find(is_it).expect("one of them"), evicts)
}

#[test]
fn a_vacant_word_is_taken_before_an_idle_one_and_that_before_a_claim() {
    let full = [live(9); BUCKET];
    let with = |place: usize, word: CompactWord| {
        let mut words = full;
        words[place] = word;
        words
    };
    let mut both = with(2, idle(5));
    both[4] = CompactWord::VACANT;
    for (words, place) in [
        ([[CompactWord::VACANT; BUCKET]; 2], (0, 0)),
        ([both, full], (0, 4)),
        ([with(3, idle(5)), full], (0, 3)),
        ([full, with(3, idle(5))], (1, 3)),
        ([with(3, idle(5)), with(6, idle(9))], (0, 3)),
        ([full, with(3, claim())], (1, 3)),
        ([with(6, claim()), with(3, claim())], (0, 6)),
    ] {
        assert_eq!(chosen(&filled(words)), (place, false), "{words:?}");
    }
}

#[test]
fn the_first_of_two_vacant_words_is_what_ranking_chooses() {
    let (machine, probe, mut found) = (bucket(), Probe::new(KEY), 0);
    for vacant in 0..1_u32 << BUCKET {
        let word = |place| if vacant >> place & 1 == 1 { CompactWord::VACANT } else { live(9) };
        let table = filled([core::array::from_fn(word), [CompactWord::VACANT; BUCKET]]);
        let Some(first) = table.first_of_two_vacant(probe) else { continue };
        let ranking = Ranking { probe, instant: machine.instant(NOW), claims: Rank::CLAIMED };
        let best = table.rank(0, &machine, &ranking);
        assert!(best.reusable >= 2, "the second bucket is not looked at");
        assert!(best.slot.is_some_and(|best| core::ptr::eq(best, first.cell)), "{vacant:b}");
        found += 1;
    }
    // Two or more of the four words of the preferred half.
    assert_eq!(found, (16 - 5) * 16);
}

#[test]
fn of_idle_words_the_one_that_has_been_idle_longest_is_taken() {
    let mut words = [live(9); BUCKET];
    (words[1], words[3], words[5], words[6]) = (idle(20), idle(50), idle(50), idle(10));
    assert_eq!(chosen(&filled([words, [live(9); BUCKET]])), ((0, 3), false));
}

#[test]
fn where_nothing_is_free_the_least_debt_is_evicted() {
    for (least, place) in [([3, 5], (0, 6)), ([5, 3], (1, 6)), ([3, 3], (0, 6))] {
        // Of two equal debts, it is the one that comes first.
        let words = least.map(|least| [9, 8, 9, 9, 7, 9, least, least].map(live));
        assert_eq!(chosen(&filled(words)), (place, true));
    }
}

#[test]
fn a_request_displaces_one_claim_and_no_more() {
    let mut words = [[claim(); BUCKET]; 2];
    let (machine, mut budget) = (bucket(), RetryBudget::new());
    let table = filled(words);
    let taken = table.claim(&request(&machine), machine.fresh(NOW), &mut budget);
    assert!(matches!(taken, Ok(Some(_))) && !budget.may_displace);
    assert!(matches!(table.choose(&request(&machine), false, true), Choice::Rescan));
    // A vacant slot is no claim.
    words[1][5] = CompactWord::VACANT;
    let (table, mut budget) = (filled(words), RetryBudget::new());
    assert!(matches!(
        table.claim(&request(&machine), machine.fresh(NOW), &mut budget),
        Ok(Some(_))
    ));
    assert!(budget.may_displace);
    let full = filled([[claim(); BUCKET]; 2]);
    budget.may_displace = false;
    assert!(matches!(
        full.claim(&request(&machine), machine.fresh(NOW), &mut budget),
        Err(Full { .. })
    ));
}

#[test]
fn a_request_that_may_not_rescan_again_finds_no_place() {
    let machine = bucket();
    let table = filled([[claim(); BUCKET]; 2]);
    assert!(matches!(
        table.claim(&request(&machine), machine.fresh(NOW), &mut RetryBudget::new()),
        Ok(Some(_))
    ));
    // The key's own claim is there, so each choice asks for a scan.
    let mut budget = RetryBudget { rescans_left: 2, ..RetryBudget::new() };
    for _ in 0..2 {
        assert!(matches!(
            table.claim(&request(&machine), machine.fresh(NOW), &mut budget),
            Ok(None)
        ));
    }
    assert!(matches!(
        table.claim(&request(&machine), machine.fresh(NOW), &mut budget),
        Err(Full { .. })
    ));
}

#[test]
fn a_row_has_the_words_that_owe_something_and_no_others() {
    let mut words = [CompactWord::VACANT; BUCKET];
    // A claim's nonce looks like a debt.
    let looks_live = CompactWord::provisional(Fingerprint::of(0), charged(5, NOW));
    (words[1], words[2], words[4]) = (live(5), idle(20), looks_live);
    let table = filled([words, [CompactWord::VACANT; BUCKET]]);
    let row = table.slots.row(0, &bucket(), bucket().instant(NOW));
    assert_eq!(row.places, 1 << 1);
    assert_eq!(row.words(), [table.slots.lines.bucket(0)[1].load().bits()]);
}

#[test]
fn a_slot_is_the_same_only_with_the_same_word() {
    let table = filled([[claim(); BUCKET]; 2]);
    let cells = table.slots.lines.bucket(0);
    let slot = SlotRef { cell: &cells[0], word: live(1) };
    assert!(slot.is(&SlotRef { cell: &cells[0], word: live(1) }));
    assert!(!slot.is(&SlotRef { cell: &cells[1], word: live(1) }));
    assert!(!slot.is(&SlotRef { cell: &cells[0], word: live(2) }));
}
