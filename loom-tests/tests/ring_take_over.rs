//! A slot with a ring changes hands: cells of its last life are nothing to the next.

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
/// needs a slot. The old key's charge has a cell to put first. Returns what both were granted.
fn a_late_charge<A: Algorithm + 'static>(gate: &Arc<Keyed<A>>, late: u64) -> (u64, u64) {
    assert_eq!(ask(gate, OLD, at(1)), 1);
    assert_eq!(ask(gate, NEIGHBOUR, at(100)), 1);
    let other = Arc::clone(gate);
    let claims = thread::spawn(move || ask(&other, NEW, at(100)) + ask(&other, NEW, at(100)));
    let charged = ask(gate, OLD, at(late));
    let claimed = claims.join().unwrap();
    assert_eq!(charged + claimed + gate.stats().denied_full, 3, "granted, or told that it is full");
    assert_eq!(left(gate, NEW, at(100)), 3 - claimed, "no charge fell on the new key");
    assert_eq!(left(gate, NEIGHBOUR, at(100)), 2);
    (charged, claimed)
}

/// The old key's clock is far behind: it moves on to the next second.
fn a_late_rotation() {
    let gate = two_seconds(3);
    let (_, claimed) = a_late_charge(&gate, 2);
    // If not both, then one was asked for while the old key was claiming a slot.
    if claimed > 0 {
        // The ring of the new key has its own counts only.
        let granted: u64 = (0..3).map(|_| ask(&gate, NEW, at(101))).sum();
        assert_eq!(granted, 3 - claimed, "granted to the new key");
        assert_eq!((left(&gate, NEW, at(102)), left(&gate, NEW, at(103))), (claimed, 3));
    }
}

#[test]
fn of_windows_against_a_late_rotation() {
    explore_two_to(
        "ring take-over: windows, late rotation",
        2,
        Preemptions::To(3),
        a_late_rotation,
    );
}

#[test]
fn of_a_log_against_a_late_charge() {
    explore_two_to("ring take-over: log, late charge", 2, Preemptions::To(3), || {
        let gate = ten_seconds(3);
        let (charged, claimed) = a_late_charge(&gate, 100);
        // One of the two has the slot, with all it was granted; the other was told so.
        assert!(matches!((charged, claimed), (1, 0) | (0, 2)), "{charged} and {claimed}");
        assert_eq!(left(&gate, OLD, at(100)), 3 - charged, "no charge of the old key was lost");
        let holder = if charged == 1 { OLD } else { NEW };
        let granted: u64 = (0..3).map(|_| ask(&gate, holder, at(101))).sum();
        assert_eq!(granted, 3 - charged - claimed, "granted to the holder");
        assert_eq!(left(&gate, holder, at(110)), charged + claimed);
        assert_eq!(left(&gate, holder, at(111)), 3);
    });
}

/// The mistake avoided: a slot changes hands without a new generation.
#[test]
#[should_panic]
fn without_the_generation_a_cell_is_read_by_the_new_key() {
    plant(Fault::GenerationKept);
    catch_two("ring take-over: generation kept", || {
        a_late_rotation();
    });
}

/// The slot is given up while the old key's charge puts the count of a second that the new key
/// counts by: only its generation tells that it is none of the new key's.
#[test]
fn within_one_window() {
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
        let told_full = gate.stats().denied_full;
        assert_eq!(charged + first / 2 + second + told_full, 3, "granted, or told it is full");
        assert_eq!(left(&gate, NEW, at(3)), 3 - first - second, "no charge was lost");
        assert_eq!(left(&gate, NEW, at(4)), 3 - second, "the first cells leave, and only they");
    });
}

/// Two threads find a key absent, and both commit what they find claimed.
fn both_claim<A: Algorithm + 'static>(gate: &Arc<Keyed<A>>) {
    let other = Arc::clone(gate);
    let thread = thread::spawn(move || ask(&other, NEW, at(1)) + ask(&other, NEW, at(1)));
    let mine = ask(gate, NEW, at(1));
    assert_eq!(mine + thread.join().unwrap(), 2, "granted in all");
    assert_eq!(left(gate, NEW, at(1)), 0, "no charge was lost");
}

#[test]
fn two_claims_of_windows() {
    explore_two("ring claim: windows, same key, 1 against 2", || {
        let gate = two_seconds(2);
        both_claim(&gate);
        assert_eq!((left(&gate, NEW, at(2)), left(&gate, NEW, at(3))), (0, 2));
    });
}

#[test]
fn two_claims_of_a_log() {
    explore_two_to("ring claim: log, same key, 1 against 2", 2, Preemptions::To(3), || {
        let gate = ten_seconds(2);
        both_claim(&gate);
        assert_eq!((left(&gate, NEW, at(10)), left(&gate, NEW, at(11))), (0, 2));
    });
}

/// A slot is wanted by the key that has it, and is idle, and by another: each asks once.
fn either_has_the_slot<A: Algorithm + 'static>(gate: &Arc<Keyed<A>>) {
    assert_eq!(ask(gate, OLD, at(1)), 1);
    assert_eq!(ask(gate, NEIGHBOUR, at(100)), 1);
    let told = each_of(2, gate, |gate, number| ask(gate, [OLD, NEW][number], at(100)));
    assert_eq!(told.iter().sum::<u64>(), 1, "granted in all");
    assert_eq!(left(gate, OLD, at(100)), 3 - told[0], "no charge of the old key was lost");
}

#[test]
fn of_windows_against_one_charge() {
    explore_latest("ring take-over: windows, 1 against 1", 4, Preemptions::To(6), || {
        either_has_the_slot(&two_seconds(3));
    });
}

#[test]
fn of_a_log_against_one_charge() {
    explore_latest("ring take-over: log, 1 against 1", 4, Preemptions::To(6), || {
        either_has_the_slot(&ten_seconds(3));
    });
}

/// A life of the slot ends while a charge puts its cell: it is in the one life, or in the next.
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
fn of_windows_whose_life_ends() {
    explore_two_to("ring take-over: windows, a life ends", 3, Preemptions::Any, || {
        a_life_ends(&two_seconds(3));
    });
}

#[test]
fn of_a_log_whose_life_ends() {
    explore_two_to("ring take-over: log, a life ends", 3, Preemptions::Any, || {
        a_life_ends(&ten_seconds(3));
    });
}

/// One thread charges the old key, so that it has a cell to put; two or three want another key in
/// its slot, which has a cell for each of them.
fn by_several<A: Algorithm + 'static>(threads: usize, gate: &Arc<Keyed<A>>) {
    let cells = left(gate, OLD, at(1));
    assert_eq!(ask(gate, OLD, at(1)), 1);
    assert_eq!(ask(gate, NEIGHBOUR, at(100)), 1);
    let granted = each_of(threads, gate, |gate, number| {
        ask(gate, if number == 0 { OLD } else { NEW }, at(100))
    });
    let (charged, claimed) = (granted[0], granted[1..].iter().sum::<u64>());
    let told_full = gate.stats().denied_full;
    assert_eq!(charged + claimed + told_full, threads as u64, "granted, or told that it is full");
    assert!(charged == 0 || claimed == 0, "{charged} and {claimed} in one slot");
    assert_eq!(left(gate, OLD, at(100)), cells - charged, "no charge of the old key was lost");
    assert_eq!(left(gate, NEW, at(100)), cells - claimed, "no charge fell on the new key");
}

#[test]
#[ignore = "3 threads: in the full run"]
fn of_windows_by_three_threads() {
    explore_latest("ring take-over: windows, 3 threads", 4, Preemptions::To(4), || {
        by_several(3, &two_seconds(3))
    });
}

#[test]
#[ignore = "3 threads: in the full run"]
fn of_a_log_by_three_threads() {
    explore_latest("ring take-over: log, 3 threads", 4, Preemptions::To(4), || {
        by_several(3, &ten_seconds(3))
    });
}

#[test]
#[ignore = "4 threads: in the full run"]
fn of_windows_by_four_threads() {
    explore_four("ring take-over: windows, 4 threads", || by_several(4, &two_seconds(3)));
}

#[test]
#[ignore = "4 threads: in the full run"]
fn of_a_log_by_four_threads() {
    explore_four("ring take-over: log, 4 threads", || by_several(4, &ten_seconds(3)));
}

/// Both slots are taken by live keys of two cells each, and two threads want a new key in: each
/// ranks the slots by their rings, while the other may already have put the key into one of them.
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

/// The mistake avoided: the slot that the key has got by now is ranked as if it were another's.
#[test]
#[should_panic(expected = "no charge of the new key was lost")]
fn without_a_look_for_its_own_slot_a_key_evicts_itself() {
    plant(Fault::OwnSlotUnseen);
    catch_two("ring take-over: own slot unseen", both_evict_for_one_key);
}

/// Several threads find a key absent, which has a cell for all of them but one.
fn several_claim<A: Algorithm + 'static>(threads: usize, gate: &Arc<Keyed<A>>) {
    let granted = each_of(threads, gate, |gate, _| ask(gate, NEW, at(1)));
    assert_eq!(granted.iter().sum::<u64>(), threads as u64 - 1, "granted in all");
    assert_eq!(left(gate, NEW, at(1)), 0, "no charge was lost");
}

#[test]
#[ignore = "4 threads: in the full run"]
fn four_claims_of_windows() {
    explore_four("ring claim: windows, same key, 4 threads", || {
        let gate = two_seconds(3);
        several_claim(4, &gate);
        assert_eq!((left(&gate, NEW, at(2)), left(&gate, NEW, at(3))), (0, 3));
    });
}

#[test]
#[ignore = "4 threads: in the full run"]
fn four_claims_of_a_log() {
    explore_four("ring claim: log, same key, 4 threads", || {
        let gate = ten_seconds(3);
        several_claim(4, &gate);
        assert_eq!((left(&gate, NEW, at(10)), left(&gate, NEW, at(11))), (0, 3));
    });
}
