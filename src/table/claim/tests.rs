//! Which slot an absent key is given, in two buckets that are filled by hand.

use super::*;
use crate::algo::Algorithm;
use crate::table::{HugePages, RingLayout};
use crate::{Gcra, Quota};

const NOW: Tick = Tick::from_nanos(1_000_000_000_000);
/// A key of the first bucket, which prefers place 0 of both.
const KEY: u64 = 0xabc00;

fn bucket() -> impl StateMachine {
    Gcra::new().params(&Quota::per_second(1).burst(100), 0).expect("in range")
}

/// The state after `n` cells.
fn charged(n: u64) -> u64 {
    let machine = bucket();
    let seen = machine.read(machine.fresh(NOW), NoRing, NOW, n);
    let Step::Admit { next } = machine.step(seen, NOW, n) else { panic!("{n} cells are free") };
    next
}

fn table() -> Wide {
    let layout = RingLayout::of(&bucket());
    Wide::new(2, layout, core::time::Duration::ZERO, HugePages(false)).expect("memory")
}

fn probe() -> Probe {
    let probe = Probe::new(KEY, 2);
    assert_eq!(probe.buckets().collect::<Vec<_>>(), [0, 1]);
    probe
}

/// Puts a head into an unused slot, and beside it an owner in the head's generation.
fn put(table: &Wide, (bucket, place): (u32, usize), owner: u64, head: Head) {
    let slot = &table.slots.bucket(bucket)[place];
    assert_eq!(slot.head.swap(Head::committed(0, 0), head), Ok(()));
    assert!(slot.hand_over(Owner::NOBODY, Owner::of(owner).in_generation(head.generation())));
}

/// Fills places of both buckets with other keys that owe `debts` cells; 0 leaves a place vacant.
fn filled(debts: [[u64; BUCKET]; 2]) -> Wide {
    let table = table();
    for (bucket, debts) in (0..).zip(debts) {
        for (place, debt) in debts.into_iter().enumerate().filter(|(_, debt)| *debt > 0) {
            let another = 0x5000 + 16 * u64::from(bucket) + place as u64;
            put(&table, (bucket, place), another, Head::committed(1, charged(debt)));
        }
    }
    table
}

/// Where the key would be put, and whether somebody is evicted for it; `None` if it would look again.
fn chosen(table: &Wide, evict: bool) -> Option<((u32, usize), bool)> {
    let chosen = table.choose(&probe(), &bucket(), NOW, evict, true);
    let (candidate, event) = chosen.expect("a place")?;
    let index = table.index_of(candidate.slot);
    let bucket = u32::try_from(index / BUCKET).expect("one of two");
    Some(((bucket, index % BUCKET), event.is_some()))
}

#[test]
fn the_first_bucket_is_taken_while_it_has_two_places_or_as_many_as_the_second() {
    let (none, full) = ([0; BUCKET], [9; BUCKET]);
    let two = [9, 9, 0, 9, 9, 0, 9, 9];
    let one = [9, 9, 9, 9, 9, 0, 9, 9];
    for (debts, place) in [
        ([none, none], (0, 0)),
        ([two, none], (0, 2)),
        ([one, none], (1, 0)),
        ([one, one], (0, 5)),
        ([one, full], (0, 5)),
        ([full, one], (1, 5)),
    ] {
        assert_eq!(chosen(&filled(debts), false), Some((place, false)), "{debts:?}");
    }
}

#[test]
fn where_nothing_is_free_the_least_debt_is_evicted_or_told() {
    for (least, place) in [([3, 5], (0, 6)), ([5, 3], (1, 6)), ([3, 3], (0, 6))] {
        // Of two that owe as much it is the one that is looked at first.
        let debts = least.map(|least| [9, 8, 9, 9, 7, 9, least, least]);
        let table = filled(debts);
        assert_eq!(chosen(&table, true), Some((place, true)));
        let full = table.choose(&probe(), &bucket(), NOW, false, true);
        assert_eq!(full.map(|_| ()), Err(charged(3)));
    }
}

#[test]
fn a_key_that_got_a_slot_since_it_was_looked_for_evicts_nobody() {
    for bucket in [0, 1] {
        let mut debts = [[9; BUCKET]; 2];
        debts[bucket as usize][3] = 0;
        let table = filled(debts);
        put(&table, (bucket, 3), KEY, Head::committed(1, charged(9)));
        assert_eq!(chosen(&table, true), None);
        assert_eq!(chosen(&table, false), None);
    }
}

#[test]
fn a_slot_whose_claimant_sleeps_is_taken_as_it_is() {
    let table = table();
    let claim = Head::provisional(1, bucket().fresh(NOW));
    for index in 0..2 * BUCKET {
        let slot = &table.slots.bucket(u32::from(index >= BUCKET))[index % BUCKET];
        assert_eq!(slot.head.swap(Head::committed(0, 0), claim), Ok(()));
    }
    let mut may_displace = true;
    let taken = table.claim(&probe(), &bucket(), NOW, 1, false, &mut may_displace);
    let Ok(Some(SlotRef { slot, head })) = taken else { panic!("nothing else is there to be had") };
    assert_eq!((table.index_of(slot), head), (0, claim));
    assert_eq!((slot.head.load(), slot.owner()), (claim, probe().owner(1)));
    assert!(may_displace, "nobody was displaced");
}

/// All slots but one are live keys', and that one holds `head` of another key, in generation 1.
fn beside_live_keys(head: Head) -> Wide {
    let mut debts = [[9; BUCKET]; 2];
    debts[1][4] = 0;
    let table = filled(debts);
    put(&table, (1, 4), 0x7777, head);
    table
}

/// Claims that one slot, in a generation of its own. Whether a claim may still be displaced then.
fn claim_it(table: &Wide, evict: bool) -> bool {
    let mut may_displace = true;
    let taken = table.claim(&probe(), &bucket(), NOW, 1, evict, &mut may_displace);
    let Ok(Some(SlotRef { slot, head })) = taken else { panic!("it may be taken") };
    assert_eq!(table.index_of(slot), BUCKET + 4);
    assert_eq!(head, Head::provisional(2, bucket().fresh(NOW)));
    assert_eq!((slot.head.load(), slot.owner()), (head, probe().owner(2)));
    may_displace
}

#[test]
fn anothers_claim_is_taken_before_a_live_key_and_in_a_generation_of_its_own() {
    let table = beside_live_keys(Head::provisional(1, bucket().fresh(NOW)));
    assert_eq!(chosen(&table, true), Some(((1, 4), false)));
    assert!(!claim_it(&table, true));
}

#[test]
fn who_takes_an_idle_keys_slot_has_displaced_no_claim() {
    let table = beside_live_keys(Head::committed(1, bucket().fresh(NOW)));
    assert!(claim_it(&table, false));
}

/// Whoever has displaced a claim takes a live key's slot, if it may, or finds no place.
#[test]
fn a_request_displaces_one_claim_and_no_more() {
    let claim = Head::provisional(1, bucket().fresh(NOW));
    let mut debts = [[9; BUCKET]; 2];
    (debts[1][4], debts[0][2]) = (0, 5);
    let table = filled(debts);
    put(&table, (1, 4), 0x7777, claim);
    let again = |table: &Wide, evict| {
        let chosen = table.choose(&probe(), &bucket(), NOW, evict, false);
        chosen.map(|chosen| chosen.map(|(candidate, _)| table.index_of(candidate.slot)))
    };
    assert_eq!(again(&table, true), Ok(Some(2)), "the least debt");
    assert_eq!(again(&table, false), Err(charged(5)));

    let all_claimed = |its: Option<usize>| {
        let table = self::table();
        for index in 0..2 * BUCKET {
            let place = (u32::from(index >= BUCKET), index % BUCKET);
            put(&table, place, if its == Some(index) { KEY } else { 0x7777 }, claim);
        }
        table
    };
    for evict in [false, true] {
        let fresh = bucket().fresh(NOW);
        assert_eq!(again(&all_claimed(None), evict), Err(fresh), "nothing but claims");
        for index in [0, 6, 13] {
            assert_eq!(again(&all_claimed(Some(index)), evict), Ok(None), "one of them is its own");
        }
    }
}

#[test]
fn a_claim_that_its_thread_left_is_committed_by_the_next_request() {
    let claim = Head::provisional(1, bucket().fresh(NOW));
    let after = Head::committed(1, charged(2));
    let machine = Gcra::new().params(&Quota::per_second(1).burst(100), 0).expect("in range");
    type Ask<'a> = &'a dyn Fn(&Wide) -> bool;
    let asks: [Ask<'_>; 3] = [
        &|table| table.decide(probe(), None, &machine, NOW, 2, false).expect("a place").is_ok(),
        &|table| table.allow(probe(), None, &machine, NOW, 2, false).expect("a place"),
        &|table| table.charge(probe(), &machine, NOW, 2, false).expect("a place").is_ok(),
    ];
    for place in [(0, 0), (1, 5)] {
        for ask in asks {
            let table = table();
            put(&table, place, KEY, claim);
            assert!(ask(&table));
            assert_eq!(table.slots.bucket(place.0)[place.1].head.load(), after);
        }
    }
}
