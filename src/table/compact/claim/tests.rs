//! Which word an absent key is given, in two buckets that are filled by hand.

use super::*;
use crate::algo::Algorithm;
use crate::table::HugePages;
use crate::table::layout::BUCKET;
use crate::{Gcra, Quota};

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
    let seen = machine.read(machine.fresh(now), NoRing, now, n);
    let Step::Admit { next } = machine.step(seen, now, n) else { panic!("{n} cells are free") };
    next
}

fn live(debt: u64) -> Word {
    Word::committed(Fingerprint::of(0), charged(debt, NOW))
}

/// Idle for so many seconds.
fn idle(seconds: u64) -> Word {
    let then = Tick::from_nanos(NOW.as_nanos() - (seconds + 1) * 1_000_000_000);
    Word::committed(Fingerprint::of(0), charged(1, then))
}

fn claim() -> Word {
    Word::provisional(Fingerprint::of(0), 77)
}

/// A table with these words, each of another key.
fn filled(words: [[Word; BUCKET]; 2]) -> Compact {
    let table = Compact::new(2, core::time::Duration::ZERO, HugePages(false)).expect("memory");
    for (bucket, words) in (0..).zip(words) {
        for (place, word) in words.into_iter().enumerate().filter(|(_, word)| !word.is_vacant()) {
            let other = Fingerprint::of(0x5000 + 16 * u64::from(bucket) + place as u64);
            let word = match word.is_provisional() {
                true => Word::provisional(other, word.state()),
                false => Word::committed(other, word.state()),
            };
            assert_eq!(table.lines.bucket(bucket)[place].swap(Word::VACANT, word), Ok(()));
        }
    }
    table
}

fn request<A>(algo: &A) -> Request<'_, A> {
    Request { probe: Probe::new(KEY, 2), algo, now: NOW, n: 1, evict: true }
}

/// Where the key would be put, and whether somebody is evicted for it.
fn chosen(table: &Compact) -> ((u32, usize), bool) {
    let Place::Take(seat, event) = table.choose(&request(&bucket()), true) else {
        panic!("a place")
    };
    let mut places = (0..2).flat_map(|bucket| (0..BUCKET).map(move |place| (bucket, place)));
    let is_it = |(bucket, place): &(u32, usize)| {
        core::ptr::eq(&table.lines.bucket(*bucket)[*place], seat.cell)
    };
    (places.find(is_it).expect("one of them"), event.is_some())
}

#[test]
fn a_vacant_word_is_taken_before_an_idle_one_and_that_before_a_claim() {
    let full = [live(9); BUCKET];
    let with = |place: usize, word: Word| {
        let mut words = full;
        words[place] = word;
        words
    };
    let mut both = with(2, idle(5));
    both[4] = Word::VACANT;
    for (words, place) in [
        ([[Word::VACANT; BUCKET]; 2], (0, 0)),
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
fn of_idle_words_the_one_that_has_been_for_longest_is_taken() {
    let mut words = [live(9); BUCKET];
    (words[1], words[3], words[5], words[6]) = (idle(20), idle(50), idle(50), idle(10));
    assert_eq!(chosen(&filled([words, [live(9); BUCKET]])), ((0, 3), false));
}

#[test]
fn where_nothing_is_free_the_least_debt_is_evicted() {
    for (least, place) in [([3, 5], (0, 6)), ([5, 3], (1, 6)), ([3, 3], (0, 6))] {
        // Of two that owe as much it is the one that is looked at first.
        let words = least.map(|least| [9, 8, 9, 9, 7, 9, least, least].map(live));
        assert_eq!(chosen(&filled(words)), (place, true));
    }
}

#[test]
fn a_request_displaces_one_claim_and_no_more() {
    let mut words = [[claim(); BUCKET]; 2];
    let (machine, mut may_displace) = (bucket(), true);
    let table = filled(words);
    let taken = table.claim(&request(&machine), &mut may_displace);
    assert!(matches!(taken, Ok(Some(_))) && !may_displace);
    assert!(matches!(table.choose(&request(&machine), may_displace), Place::Its(_)));
    // What was nobody's is nobody's claim.
    words[1][5] = Word::VACANT;
    let (table, mut may_displace) = (filled(words), true);
    assert!(matches!(table.claim(&request(&machine), &mut may_displace), Ok(Some(_))));
    assert!(may_displace);
    let full = filled([[claim(); BUCKET]; 2]);
    assert!(matches!(full.claim(&request(&machine), &mut false), Err(Outcome::Full { .. })));
}

#[test]
fn words_that_owe_something_are_told_and_no_others() {
    let mut words = [Word::VACANT; BUCKET];
    // A claim's number looks like what somebody owes.
    let looks_live = Word::provisional(Fingerprint::of(0), charged(5, NOW));
    (words[1], words[2], words[4]) = (live(5), idle(20), looks_live);
    let table = filled([words, [Word::VACANT; BUCKET]]);
    let row = table.row(0, &bucket(), bucket().instant(NOW));
    assert_eq!(row.places, 1 << 1);
    assert_eq!(row.words(), [table.lines.bucket(0)[1].load().bits()]);
}

#[test]
fn a_seat_is_another_if_its_cell_or_its_word_is() {
    let table = filled([[claim(); BUCKET]; 2]);
    let cells = table.lines.bucket(0);
    let seat = SlotRef { cell: &cells[0], word: live(1) };
    assert!(seat.is(&SlotRef { cell: &cells[0], word: live(1) }));
    assert!(!seat.is(&SlotRef { cell: &cells[1], word: live(1) }));
    assert!(!seat.is(&SlotRef { cell: &cells[0], word: live(2) }));
}
