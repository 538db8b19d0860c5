//! A slot with a ring changes hands: words of its last life read as empty in the next.
//!
//! The protocols are in `src/table/claim.rs` and `src/cell/ring.rs`.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use loom_tests::{
    Keyed, ONE_BUCKET, Preemptions, ask, at, catch_two, each_of, explore_four, explore_latest,
    explore_two, explore_two_to, keyed, left,
};
use tollgate::algorithm::Algorithm;
use tollgate::internals::{Fault, plant};
use tollgate::{OnFull, Quota, SlidingLog, SubWindows};

const OLD: u64 = 1;
const NEW: u64 = 2;
const NEIGHBOUR: u64 = 3;

/// `limit` cells in any two successive seconds.
fn two_seconds(limit: u64) -> Arc<Keyed<SubWindows>> {
    let quota = Quota::new(limit, Duration::from_secs(2));
    keyed(SubWindows::new().count(2), quota, ONE_BUCKET, OnFull::Deny)
}

/// `limit` cells in any ten seconds.
fn ten_seconds(limit: u64) -> Arc<Keyed<SlidingLog>> {
    let quota = Quota::new(limit, Duration::from_secs(10));
    keyed(SlidingLog::new(), quota, ONE_BUCKET, OnFull::Deny)
}

/// Both slots are taken: one by a live neighbour, one by a key that is idle when another key
/// needs a slot. The old key's charge publishes a word first. Returns what both were granted.
fn a_late_charge<A: Algorithm + 'static>(gate: &Arc<Keyed<A>>, late: u64) -> (u64, u64) {
    assert_eq!(ask(gate, OLD, at(1)), 1);
    assert_eq!(ask(gate, NEIGHBOUR, at(100)), 1);
    let other = Arc::clone(gate);
    let claims = thread::spawn(move || ask(&other, NEW, at(100)) + ask(&other, NEW, at(100)));
    let charged = ask(gate, OLD, at(late));
    let claimed = claims.join().unwrap();
    assert_eq!(charged + claimed + gate.stats().denied_full, 3, "granted, or no place");
    assert_eq!(left(gate, NEW, at(100)), 3 - claimed, "no charge fell on the new key");
    assert_eq!(left(gate, NEIGHBOUR, at(100)), 2);
    (charged, claimed)
}

/// The old key's clock is far behind: its thread advances to the next second.
fn a_late_advance() {
    let gate = two_seconds(3);
    let (_, claimed) = a_late_charge(&gate, 2);
    // If not both are granted, one request came while the old key was claiming a slot.
    if claimed > 0 {
        // The ring of the new key has its own counts only.
        let granted: u64 = (0..3).map(|_| ask(&gate, NEW, at(101))).sum();
        assert_eq!(granted, 3 - claimed, "granted to the new key");
        assert_eq!((left(&gate, NEW, at(102)), left(&gate, NEW, at(103))), (claimed, 3));
    }
}

#[test]
fn a_late_advance_of_windows_falls_on_its_own_key() {
    explore_two_to("ring take-over: windows, late advance", 2, Preemptions::To(3), a_late_advance);
}

#[test]
fn a_late_charge_of_a_log_falls_on_its_own_key() {
    explore_two_to("ring take-over: log, late charge", 2, Preemptions::To(3), || {
        let gate = ten_seconds(3);
        let (charged, claimed) = a_late_charge(&gate, 100);
        // One of the two has the slot, with all that it was granted. The other found no place.
        assert!(matches!((charged, claimed), (1, 0) | (0, 2)), "{charged} and {claimed}");
        assert_eq!(left(&gate, OLD, at(100)), 3 - charged, "no charge of the old key was lost");
        let holder = if charged == 1 { OLD } else { NEW };
        let granted: u64 = (0..3).map(|_| ask(&gate, holder, at(101))).sum();
        assert_eq!(granted, 3 - charged - claimed, "granted to the holder");
        assert_eq!(left(&gate, holder, at(110)), charged + claimed);
        assert_eq!(left(&gate, holder, at(111)), 3);
    });
}

/// The planted fault: a slot changes hands without a new generation.
#[test]
#[should_panic(expected = "no charge fell on the new key")]
fn without_the_generation_the_new_key_reads_an_old_word() {
    plant(Fault::GenerationKept);
    catch_two("ring take-over: generation kept", || {
        a_late_advance();
    });
}

/// The slot is given up while the old key's charge publishes the count of a second that the new key
/// counts by: only the generation shows that the count is not the new key's.
#[test]
fn a_count_of_the_same_window_is_not_the_new_keys() {
    explore_two_to("ring take-over: within one window", 2, Preemptions::To(3), || {
        let gate = two_seconds(3);
        assert_eq!(ask(&gate, OLD, at(1)) + ask(&gate, NEIGHBOUR, at(1)), 2);
        let other = Arc::clone(&gate);
        let thread = thread::spawn(move || {
            other.reset(&OLD);
            let first = 2 * u64::from(other.ask(&NEW).cells(2).at(at(2)).check().is_ok());
            (first, ask(&other, NEW, at(3)))
        });
        let charged = ask(&gate, OLD, at(2));
        let (first, second) = thread.join().unwrap();
        let denied_full = gate.stats().denied_full;
        assert_eq!(charged + first / 2 + second + denied_full, 3, "granted, or no place");
        assert_eq!(left(&gate, NEW, at(3)), 3 - first - second, "no charge was lost");
        assert_eq!(left(&gate, NEW, at(4)), 3 - second, "the first cells expire, and only they");
    });
}

/// Two threads find a key absent, and both commit the claim that they see.
fn both_claim<A: Algorithm + 'static>(gate: &Arc<Keyed<A>>) {
    let other = Arc::clone(gate);
    let thread = thread::spawn(move || ask(&other, NEW, at(1)) + ask(&other, NEW, at(1)));
    let mine = ask(gate, NEW, at(1));
    assert_eq!(mine + thread.join().unwrap(), 2, "granted in all");
    assert_eq!(left(gate, NEW, at(1)), 0, "no charge was lost");
}

#[test]
fn two_threads_that_claim_windows_share_their_cells() {
    explore_two("ring claim: windows, same key, 1 against 2", || {
        let gate = two_seconds(2);
        both_claim(&gate);
        assert_eq!((left(&gate, NEW, at(2)), left(&gate, NEW, at(3))), (0, 2));
    });
}

#[test]
fn two_threads_that_claim_a_log_share_its_cells() {
    explore_two_to("ring claim: log, same key, 1 against 2", 2, Preemptions::To(3), || {
        let gate = ten_seconds(2);
        both_claim(&gate);
        assert_eq!((left(&gate, NEW, at(10)), left(&gate, NEW, at(11))), (0, 2));
    });
}

/// An idle key has a slot that another key wants. Each key asks once.
fn either_has_the_slot<A: Algorithm + 'static>(gate: &Arc<Keyed<A>>) {
    assert_eq!(ask(gate, OLD, at(1)), 1);
    assert_eq!(ask(gate, NEIGHBOUR, at(100)), 1);
    let granted = each_of(2, gate, |gate, number| ask(gate, [OLD, NEW][number], at(100)));
    assert_eq!(granted.iter().sum::<u64>(), 1, "granted in all");
    assert_eq!(left(gate, OLD, at(100)), 3 - granted[0], "no charge of the old key was lost");
}

#[test]
fn of_two_keys_that_want_one_slot_of_windows_one_is_granted() {
    explore_latest("ring take-over: windows, 1 against 1", 4, Preemptions::To(6), || {
        either_has_the_slot(&two_seconds(3));
    });
}

#[test]
fn of_two_keys_that_want_one_slot_of_a_log_one_is_granted() {
    explore_latest("ring take-over: log, 1 against 1", 4, Preemptions::To(6), || {
        either_has_the_slot(&ten_seconds(3));
    });
}

/// A life of the slot ends while a charge publishes its word. The charge belongs to that life or to the
/// next one.
fn a_life_ends<A: Algorithm + 'static>(gate: &Arc<Keyed<A>>) {
    assert_eq!(ask(gate, OLD, at(1)) + ask(gate, NEIGHBOUR, at(1)), 2);
    let other = Arc::clone(gate);
    let thread = thread::spawn(move || other.reset(&OLD));
    assert_eq!(ask(gate, OLD, at(1)), 1, "granted");
    thread.join().unwrap();
    let left_after = left(gate, OLD, at(1));
    assert!(matches!(left_after, 2 | 3), "{left_after} of 3 left");
    let granted: u64 = (0..4).map(|_| ask(gate, OLD, at(1))).sum();
    assert_eq!(granted, left_after, "nothing of the first life is left, nothing of the next lost");
    assert_eq!(left(gate, NEIGHBOUR, at(1)), 2);
}

#[test]
fn a_charge_of_windows_belongs_to_one_life() {
    explore_two_to("ring take-over: windows, a life ends", 3, Preemptions::Any, || {
        a_life_ends(&two_seconds(3));
    });
}

#[test]
fn a_charge_of_a_log_belongs_to_one_life() {
    explore_two_to("ring take-over: log, a life ends", 3, Preemptions::Any, || {
        a_life_ends(&ten_seconds(3));
    });
}

/// One thread charges the old key, and has a word to publish. Two or three threads want its slot for
/// another key, which has a cell for each of them.
fn by_several<A: Algorithm + 'static>(threads: usize, gate: &Arc<Keyed<A>>) {
    let cells = left(gate, OLD, at(1));
    assert_eq!(ask(gate, OLD, at(1)), 1);
    assert_eq!(ask(gate, NEIGHBOUR, at(100)), 1);
    let granted = each_of(threads, gate, |gate, number| {
        ask(gate, if number == 0 { OLD } else { NEW }, at(100))
    });
    let (charged, claimed) = (granted[0], granted[1..].iter().sum::<u64>());
    let denied_full = gate.stats().denied_full;
    assert_eq!(charged + claimed + denied_full, threads as u64, "granted, or no place");
    assert!(charged == 0 || claimed == 0, "{charged} and {claimed} in one slot");
    assert_eq!(left(gate, OLD, at(100)), cells - charged, "no charge of the old key was lost");
    assert_eq!(left(gate, NEW, at(100)), cells - claimed, "no charge fell on the new key");
}

#[test]
#[ignore = "3 threads: in the full run"]
fn three_threads_grant_windows_no_cell_twice() {
    explore_latest("ring take-over: windows, 3 threads", 4, Preemptions::To(4), || {
        by_several(3, &two_seconds(3))
    });
}

#[test]
#[ignore = "3 threads: in the full run"]
fn three_threads_grant_a_log_no_cell_twice() {
    explore_latest("ring take-over: log, 3 threads", 4, Preemptions::To(4), || {
        by_several(3, &ten_seconds(3))
    });
}

#[test]
#[ignore = "4 threads: in the full run"]
fn four_threads_grant_windows_no_cell_twice() {
    explore_four("ring take-over: windows, 4 threads", || by_several(4, &two_seconds(3)));
}

#[test]
#[ignore = "4 threads: in the full run"]
fn four_threads_grant_a_log_no_cell_twice() {
    explore_four("ring take-over: log, 4 threads", || by_several(4, &ten_seconds(3)));
}

/// Live keys of two cells each have both slots, and two threads want a slot for a new key. Each ranks
/// the slots by their rings, while the other may already have put the key into one of them.
fn both_evict_for_one_key() {
    let quota = Quota::new(3, Duration::from_secs(10));
    let gate = keyed(SlidingLog::new(), quota, ONE_BUCKET, OnFull::EvictNearestIdle);
    for key in [OLD, NEIGHBOUR] {
        assert!(gate.ask(&key).cells(2).at(at(1)).check().is_ok());
    }
    let granted = each_of(2, &gate, |gate, _| ask(gate, NEW, at(2)));
    assert_eq!(granted, [1, 1], "a new key is served");
    assert_eq!(left(&gate, NEW, at(2)), 1, "no charge of the new key was lost");
}

#[test]
fn a_key_that_gets_a_slot_while_logs_are_ranked_keeps_it() {
    let name = "ring take-over: 2 threads evict for one key";
    explore_two_to(name, 2, Preemptions::To(3), both_evict_for_one_key);
}

/// The planted fault: a thread ranks the slot that the key has got by now as another key's.
#[test]
#[should_panic(expected = "no charge of the new key was lost")]
fn without_the_search_for_its_own_slot_a_key_evicts_itself() {
    plant(Fault::OwnSlotUnseen);
    catch_two("ring take-over: own slot unseen", both_evict_for_one_key);
}

/// Several threads find a key absent. The key has a cell for each thread but one.
fn several_claim<A: Algorithm + 'static>(threads: usize, gate: &Arc<Keyed<A>>) {
    let granted = each_of(threads, gate, |gate, _| ask(gate, NEW, at(1)));
    assert_eq!(granted.iter().sum::<u64>(), threads as u64 - 1, "granted in all");
    assert_eq!(left(gate, NEW, at(1)), 0, "no charge was lost");
}

#[test]
#[ignore = "4 threads: in the full run"]
fn four_threads_that_claim_windows_share_their_cells() {
    explore_four("ring claim: windows, same key, 4 threads", || {
        let gate = two_seconds(3);
        several_claim(4, &gate);
        assert_eq!((left(&gate, NEW, at(2)), left(&gate, NEW, at(3))), (0, 3));
    });
}

#[test]
#[ignore = "4 threads: in the full run"]
fn four_threads_that_claim_a_log_share_its_cells() {
    explore_four("ring claim: log, same key, 4 threads", || {
        let gate = ten_seconds(3);
        several_claim(4, &gate);
        assert_eq!((left(&gate, NEW, at(10)), left(&gate, NEW, at(11))), (0, 3));
    });
}
