//! The slot that an absent key is given, in two buckets that are filled by hand.

use core::time::Duration;

use super::*;
use crate::algo::{Algorithm, NoRing, Step};
use crate::cell::{InFull, Request, YesOrNo};
use crate::table::choice::Choice;
use crate::table::claim::RetryBudget;
use crate::table::memory::{HugePages, TableCounters};
use crate::table::ranking::Rank;
use crate::table::slot_kind::Candidate;
use crate::table::slot_table::{SlotTable, TakeOver};
use crate::table::source::Source;
use crate::table::{Charged, Full, KeyRequest};
use crate::time::Tick;
use crate::{Gcra, Quota};

type Table = SlotTable<WideSlots>;

const NOW: Tick = Tick::from_nanos(1_000_000_000_000);
/// A key of the first bucket, which prefers place 0 of both.
const KEY: u64 = 0xabc00;

fn bucket() -> impl StateMachine {
    Gcra::new().params(&Quota::per_second(1).burst(100), 0).expect("in range")
}

/// The state after `n` cells.
fn charged(n: u64) -> u64 {
    charged_at(NOW, n)
}

fn charged_at(now: Tick, n: u64) -> u64 {
    let machine = bucket();
    let view = machine.read(machine.fresh(now), NoRing, now, n);
    let Step::Admit { next } = machine.step(view, now, n) else { panic!("{n} cells are free") };
    next
}

/// The state of a key that has been idle for an hour.
fn idle() -> u64 {
    charged_at(NOW.saturating_sub(Duration::from_secs(3_600)), 1)
}

fn table() -> Table {
    let layout = RingLayout::of(&bucket());
    let source = Source::Own(HugePages(false));
    let slots = WideSlots::new(2, layout, &source).expect("memory");
    let counters = TableCounters::zeroed(&source).expect("memory");
    SlotTable::new(slots, TakeOver { skew: Duration::ZERO, may_evict: true }, counters)
}

fn probe() -> Probe {
    let probe = Probe::new(KEY);
    assert_eq!(probe.buckets(2).collect::<Vec<_>>(), [0, 1]);
    probe
}

/// Puts a head into an unused slot, and beside it an owner in the head's generation.
fn put(table: &Table, (bucket, place): (u32, usize), owner: u64, head: Head) {
    let slot = &table.slots.slots.bucket(bucket)[place];
    assert_eq!(slot.head.swap(Head::committed(0, 0), head), Ok(()));
    assert!(slot.hand_over(Owner::NONE, Owner::of(owner).in_generation(head.generation())));
}

/// Fills places of both buckets with other keys that owe `debts` cells; 0 leaves a place vacant.
fn filled(debts: [[u64; BUCKET]; 2]) -> Table {
    let table = table();
    for (bucket, debts) in (0..).zip(debts) {
        for (place, debt) in debts.into_iter().enumerate().filter(|(_, debt)| *debt > 0) {
            let another = 0x5000 + 16 * u64::from(bucket) + place as u64;
            put(&table, (bucket, place), another, Head::committed(1, charged(debt)));
        }
    }
    table
}

/// The result of [`SlotTable::choose`].
#[derive(Debug, PartialEq)]
enum Chosen {
    /// The slot's index, and whether a live key is evicted.
    Take(usize, bool),
    Rescan,
    Full(u64),
}

/// Where the key would be put.
fn choose(table: &Table, may_evict: bool, may_displace: bool) -> Chosen {
    let machine = bucket();
    match table.choose(&request(&machine, 1), may_displace, may_evict) {
        Choice::Take(candidate, evicts) => {
            Chosen::Take(table.slots.index_of(candidate.seen().cell), evicts)
        }
        Choice::Rescan => Chosen::Rescan,
        Choice::Full(Full { nearest_idle }) => Chosen::Full(nearest_idle),
    }
}

fn request<M>(machine: &M, cells: u64) -> KeyRequest<'_, M> {
    let request = Request { now: NOW, cells };
    KeyRequest { probe: probe(), machine, request }
}

/// The slot at a place of a bucket.
fn index((bucket, place): (usize, usize)) -> usize {
    bucket * BUCKET + place
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
        let taken = Chosen::Take(index(place), false);
        assert_eq!(choose(&filled(debts), false, true), taken, "{debts:?}");
    }
}

#[test]
fn the_first_of_two_vacant_slots_is_what_ranking_chooses() {
    let (machine, mut found) = (bucket(), 0);
    for vacant in 0..1_u32 << BUCKET {
        let debts = core::array::from_fn(|place| if vacant >> place & 1 == 1 { 0 } else { 9 });
        let table = filled([debts, [0; BUCKET]]);
        let index = |slot: WideCandidate<'_>| table.slots.index_of(slot.seen().cell);
        let Some(first) = table.first_of_two_vacant(probe()) else { continue };
        let instant = machine.instant(NOW);
        let ranking = Ranking { probe: probe(), instant, claims: Rank::CLAIMED };
        let best = table.rank(0, &machine, &ranking);
        assert!(best.reusable >= 2, "the second bucket is not looked at");
        let best = best.slot.map(|slot| table.slots.index_of(&slot.head));
        assert_eq!(Some(index(first)), best, "{debts:?}");
        found += 1;
    }
    // Two or more of the four slots of the preferred line.
    assert_eq!(found, (16 - 5) * 16);
}

#[test]
fn where_nothing_is_free_the_least_debt_is_evicted_or_reported() {
    for (least, place) in [([3, 5], (0, 6)), ([5, 3], (1, 6)), ([3, 3], (0, 6))] {
        // Of two equal debts, it is the one that comes first in probing order.
        let debts = least.map(|least| [9, 8, 9, 9, 7, 9, least, least]);
        let table = filled(debts);
        assert_eq!(choose(&table, true, true), Chosen::Take(index(place), true));
        assert_eq!(choose(&table, false, true), Chosen::Full(charged(3)));
    }
}

#[test]
fn a_key_that_got_a_slot_after_its_lookup_evicts_no_other_key() {
    for bucket in [0, 1] {
        let mut debts = [[9; BUCKET]; 2];
        debts[bucket as usize][3] = 0;
        let table = filled(debts);
        put(&table, (bucket, 3), KEY, Head::committed(1, charged(9)));
        assert_eq!(choose(&table, true, true), Chosen::Rescan);
        assert_eq!(choose(&table, false, true), Chosen::Rescan);
    }
}

#[test]
fn a_slot_without_an_owner_yet_is_taken_as_it_is() {
    let table = table();
    let claim = Head::provisional(1, bucket().fresh(NOW));
    for index in 0..2 * BUCKET {
        let slot = &table.slots.slots.bucket(u32::from(index >= BUCKET))[index % BUCKET];
        assert_eq!(slot.head.swap(Head::committed(0, 0), claim), Ok(()));
    }
    let (mut budget, machine) = (RetryBudget::new(), bucket());
    let taken = table.claim(&request(&machine, 1), machine.fresh(NOW), &mut budget);
    let Ok(Some(SlotRef { cell, word })) = taken else { panic!("no other slot can be taken") };
    assert_eq!((table.slots.index_of(cell), word), (0, claim));
    assert_eq!(words_at(&table, 0), (claim, owner(1)));
    assert!(budget.may_displace, "no claim was displaced");
}

/// All slots but one are live keys', and that one holds `head` of another key, in generation 1.
fn beside_live_keys(head: Head) -> Table {
    let mut debts = [[9; BUCKET]; 2];
    debts[1][4] = 0;
    let table = filled(debts);
    put(&table, (1, 4), 0x7777, head);
    table
}

/// The head and the owner of a slot.
fn words_at(table: &Table, index: usize) -> (Head, Owner) {
    let bucket = u32::try_from(index / BUCKET).expect("one of two");
    let slot = &table.slots.slots.bucket(bucket)[index % BUCKET];
    (slot.head.load(), slot.owner())
}

fn owner(generation: u64) -> Owner {
    Owner::of(KEY).in_generation(generation)
}

/// Claims that one slot, in the next generation. Returns whether a claim may still be displaced.
fn claim_it(table: &Table) -> bool {
    let (mut budget, machine) = (RetryBudget::new(), bucket());
    let taken = table.claim(&request(&machine, 1), machine.fresh(NOW), &mut budget);
    let Ok(Some(SlotRef { cell, word })) = taken else { panic!("it may be taken") };
    let index = table.slots.index_of(cell);
    assert_eq!(index, BUCKET + 4);
    assert_eq!(word, Head::provisional(2, bucket().fresh(NOW)));
    assert_eq!(words_at(table, index), (word, owner(2)));
    budget.may_displace
}

#[test]
fn another_keys_claim_is_taken_before_a_live_key_and_in_the_next_generation() {
    let table = beside_live_keys(Head::provisional(1, bucket().fresh(NOW)));
    assert_eq!(choose(&table, true, true), Chosen::Take(index((1, 4)), false));
    assert!(!claim_it(&table));
}

#[test]
fn taking_an_idle_keys_slot_displaces_no_claim() {
    let table = beside_live_keys(Head::committed(1, bucket().fresh(NOW)));
    assert!(claim_it(&table));
}

/// A request that has displaced a claim takes a live key's slot, if it may, or finds no slot.
#[test]
fn a_request_displaces_one_claim_and_no_more() {
    let claim = Head::provisional(1, bucket().fresh(NOW));
    let mut debts = [[9; BUCKET]; 2];
    (debts[1][4], debts[0][2]) = (0, 5);
    let table = filled(debts);
    put(&table, (1, 4), 0x7777, claim);
    let again = |table: &Table, may_evict| choose(table, may_evict, false);
    assert_eq!(again(&table, true), Chosen::Take(2, true), "the least debt");
    assert_eq!(again(&table, false), Chosen::Full(charged(5)));

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
        assert_eq!(again(&all_claimed(None), evict), Chosen::Full(fresh), "nothing but claims");
        for index in [0, 6, 13] {
            assert_eq!(
                again(&all_claimed(Some(index)), evict),
                Chosen::Rescan,
                "one of them is its own"
            );
        }
    }
}

#[test]
fn a_claim_that_its_thread_left_is_committed_by_the_next_request() {
    let claim = Head::provisional(1, bucket().fresh(NOW));
    let after = Head::committed(1, charged(2));
    let machine = Gcra::new().params(&Quota::per_second(1).burst(100), 0).expect("in range");
    type Ask<'a> = &'a dyn Fn(&Table) -> bool;
    let asks: [Ask<'_>; 3] = [
        &|table| table.answer::<_, InFull>(None, request(&machine, 2)).expect("a place").is_ok(),
        &|table| table.answer::<_, YesOrNo>(None, request(&machine, 2)).expect("a place"),
        &|table| matches!(table.charge(&request(&machine, 2)), Charged::Admitted(_)),
    ];
    for place in [(0, 0), (1, 5)] {
        for ask in asks {
            let table = table();
            put(&table, place, KEY, claim);
            assert!(ask(&table));
            assert_eq!(table.slots.slots.bucket(place.0)[place.1].head.load(), after);
        }
    }
}

#[test]
fn a_slot_is_the_same_only_with_the_same_word() {
    let table = table();
    let bucket = table.slots.slots.bucket(0);
    let (word, another) = (Head::committed(1, 5), Head::committed(1, 6));
    let slot = SlotRef { cell: &bucket[0].head, word };
    assert!(slot.is(&SlotRef { cell: &bucket[0].head, word }));
    assert!(!slot.is(&SlotRef { cell: &bucket[1].head, word }));
    assert!(!slot.is(&SlotRef { cell: &bucket[0].head, word: another }));
}

#[test]
fn a_row_has_the_slots_that_owe_something_and_no_others() {
    let (machine, table, live) = (bucket(), table(), charged(5));
    // A claim, and a slot that was given up, have an owner too, and may hold a debt.
    for (place, head) in [
        (1, Head::committed(1, live)),
        (2, Head::committed(1, idle())),
        (4, Head::provisional(1, live)),
        (6, Head::committed(2, live)),
    ] {
        let slot = &table.slots.slots.bucket(0)[place];
        assert_eq!(slot.head.swap(Head::committed(0, 0), head), Ok(()));
        assert!(slot.hand_over(Owner::NONE, Owner::of(0x77).in_generation(1)));
    }
    let row = table.slots.row(0, &machine, machine.instant(NOW));
    assert_eq!(crate::table::Row::places_in(row.places).collect::<Vec<_>>(), [1]);
    assert_eq!(row.words(), [0x77, live]);
}

#[test]
fn all_slots_of_a_bucket_can_be_live() {
    let (machine, table, live) = (bucket(), table(), charged(5));
    for (place, slot) in table.slots.slots.bucket(0).iter().enumerate() {
        assert_eq!(slot.head.swap(Head::committed(0, 0), Head::committed(1, live)), Ok(()));
        let owner = Owner::of(0x70 + place as u64).in_generation(1);
        assert!(slot.hand_over(Owner::NONE, owner));
    }
    let row = table.slots.row(0, &machine, machine.instant(NOW));
    assert_eq!((row.places, row.words().len()), (u8::MAX, 2 * BUCKET));
}
