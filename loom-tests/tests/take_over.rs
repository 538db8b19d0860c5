//! A slot changes hands while its last key is being charged.
//!
//! The models run over both kinds of slot; the protocol is in `src/table/claim.rs`.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use loom_tests::{Gate, Make, ONE_BUCKET, ask, at, burst, each_of, left};
use tollgate::OnFull;

const OLD: u64 = 1;
const NEW: u64 = 2;
const NEIGHBOUR: u64 = 3;

/// Both slots are taken, one by a live neighbour and one by an idle key. The idle key is asked for again while a
/// new key needs a slot. Returns the limiter, and what the old key and the new key
/// were granted.
fn a_late_charge(make: Make) -> (Arc<Gate>, u64, u64) {
    let gate = make(burst(2), ONE_BUCKET, OnFull::Deny);
    assert_eq!(ask(&gate, OLD, at(1)), 1);
    assert_eq!(ask(&gate, NEIGHBOUR, at(100)), 1);
    let other = Arc::clone(&gate);
    let claims = thread::spawn(move || ask(&other, NEW, at(100)) + ask(&other, NEW, at(100)));
    let charged = ask(&gate, OLD, at(100)) + ask(&gate, OLD, at(100));
    let claimed = claims.join().unwrap();
    assert_eq!(left(&gate, OLD, at(100)), 2 - charged, "no charge of the old key was lost");
    assert_eq!(left(&gate, NEW, at(100)), 2 - claimed, "no charge fell on the new key");
    assert_eq!(left(&gate, NEIGHBOUR, at(100)), 1);
    (gate, charged, claimed)
}

/// The same with a vacant slot beside it, so that both keys find a place.
fn a_charge_with_room_for_both(make: Make) {
    let gate = make(burst(1), ONE_BUCKET, OnFull::Deny);
    assert_eq!(ask(&gate, OLD, at(1)), 1);
    let other = Arc::clone(&gate);
    let thread = thread::spawn(move || ask(&other, NEW, at(100)) + ask(&other, NEW, at(100)));
    let charged = ask(&gate, OLD, at(100)) + ask(&gate, OLD, at(100));
    assert_eq!((charged, thread.join().unwrap()), (1, 1));
    assert_eq!(left(&gate, OLD, at(100)) + left(&gate, NEW, at(100)), 0);
}

/// Two keys want the one slot that is idle.
fn two_keys_want_one_idle_slot(make: Make) {
    let gate = make(burst(1), ONE_BUCKET, OnFull::Deny);
    assert_eq!(ask(&gate, OLD, at(1)) + ask(&gate, NEIGHBOUR, at(100)), 2);
    let other = Arc::clone(&gate);
    let thread = thread::spawn(move || ask(&other, 4, at(100)));
    let granted = ask(&gate, 5, at(100)) + thread.join().unwrap();
    assert_eq!(granted, 1, "one slot, one cell");
    assert_eq!(gate.stats().denied_full, 1);
    assert_eq!(left(&gate, 4, at(100)) + left(&gate, 5, at(100)), 1);
}

/// The old key's clock is behind the claimant's, by less than the allowed skew. So the claimant does
/// not judge the key idle, and the old key's thread finds its state.
fn within_the_clock_skew(make: Make) {
    let gate = make(burst(1), ONE_BUCKET, OnFull::Deny);
    assert_eq!(ask(&gate, OLD, at(1)) + ask(&gate, NEIGHBOUR, at(2)), 2);
    let other = Arc::clone(&gate);
    // The old key is idle at 2 s exactly; the claimant's clock is 1 ms past that, less a bit.
    let claimant_now = at(2).saturating_add(Duration::from_micros(999));
    let stale = at(2).saturating_sub(Duration::from_micros(1));
    let thread = thread::spawn(move || ask(&other, NEW, claimant_now));
    let charged = ask(&gate, OLD, stale);
    assert_eq!((charged, thread.join().unwrap()), (0, 0), "no cell is left, and no slot is idle");
}

/// One thread evicts a live key, and the other charges the key that has the slot. With a burst of one cell, that key
/// is granted a second one only if it was evicted. With two, the threads displace each other's claims.
fn eviction(make: Make, cells: u64) {
    let gate = make(burst(cells), ONE_BUCKET, OnFull::EvictNearestIdle);
    assert_eq!(ask(&gate, OLD, at(1)), 1);
    (0..cells).for_each(|_| assert_eq!(ask(&gate, NEIGHBOUR, at(1)), 1));
    let other = Arc::clone(&gate);
    let thread = thread::spawn(move || ask(&other, NEW, at(1)));
    let charged = 1 + ask(&gate, OLD, at(1)) + ask(&gate, OLD, at(1));
    assert_eq!(thread.join().unwrap(), 1, "the new key is served");
    let evicted = gate.stats().evicted;
    assert!(evicted >= 1);
    assert!(charged <= cells * (1 + evicted), "{charged} granted, {evicted} evicted");
}

/// One thread charges the old key, the others a new key, which has one cell.
fn several_threads(make: Make, threads: usize) {
    let gate = make(burst(1), ONE_BUCKET, OnFull::Deny);
    assert_eq!(ask(&gate, OLD, at(1)) + ask(&gate, NEIGHBOUR, at(1)), 2);
    let granted = each_of(threads, &gate, |gate, number| {
        ask(gate, if number == 1 { OLD } else { NEW }, at(100))
    });
    let (old, new) = (granted[1], granted[0] + granted[2..].iter().sum::<u64>());
    // For a moment both slots can be claimed by the new key. The old key finds no place then.
    let denied_full = gate.stats().denied_full;
    assert!(old == 1 || denied_full == 1, "the old key finds its slot or another");
    assert_eq!(new, 1, "the new key is granted one cell");
    assert_eq!(left(&gate, OLD, at(100)), 1 - old);
    assert_eq!(left(&gate, NEW, at(100)), 0);
}

mod wide {
    use super::*;
    use loom_tests::{
        Preemptions, catch_two, catch_two_to, explore_four, explore_latest, explore_two,
        explore_two_to, gate as make,
    };
    use tollgate::internals::{Fault, plant};

    /// One of the two keys has the slot, with all that it was granted. The other finds no place.
    fn late_charge() {
        let (_, charged, claimed) = a_late_charge(make);
        assert_eq!(charged + claimed, 2, "granted in all");
    }

    #[test]
    fn a_late_charge_falls_on_its_own_key() {
        explore_two("take-over wide: late charge, 2 threads x 2", late_charge);
    }

    #[test]
    #[should_panic(expected = "no charge of the old key was lost")]
    fn without_the_generation_a_late_charge_falls_on_the_new_key() {
        plant(Fault::GenerationKept);
        catch_two("take-over wide: generation kept", late_charge);
    }

    #[test]
    fn with_room_for_both_keys_each_has_its_cell() {
        explore_two_to("take-over wide: room for both, 2 threads", 3, Preemptions::Any, || {
            a_charge_with_room_for_both(make);
        });
    }

    #[test]
    fn of_two_keys_that_want_one_idle_slot_one_is_granted() {
        explore_two("take-over wide: two claimants, one idle slot", || {
            two_keys_want_one_idle_slot(make);
        });
    }

    #[test]
    fn within_the_clock_skew_no_state_is_lost() {
        explore_two_to("take-over wide: clocks 1 ms apart", 3, Preemptions::Any, || {
            within_the_clock_skew(make);
        });
    }

    #[test]
    fn an_evicted_key_starts_afresh_once_for_each_eviction() {
        explore_two_to("take-over wide: eviction against 2 charges", 3, Preemptions::To(4), || {
            eviction(make, 1)
        });
    }

    #[test]
    fn the_claims_of_two_keys_displace_each_other_once() {
        explore_two_to(
            "take-over wide: claims displaced, 2 charges",
            3,
            Preemptions::To(4),
            || eviction(make, 2),
        );
    }

    #[test]
    #[should_panic(expected = "exceeded maximum number of branches")]
    fn without_a_limit_two_keys_displace_each_other_for_ever() {
        plant(Fault::DisplacesAgain);
        catch_two_to(Preemptions::Any, "take-over wide: displaces again", || eviction(make, 2));
    }

    #[test]
    fn three_threads_grant_a_cell_of_each_key_at_most() {
        explore_latest("take-over wide: 3 threads", 3, Preemptions::To(5), || {
            several_threads(make, 3);
        });
    }

    #[test]
    #[ignore = "4 threads: in the full run"]
    fn four_threads_grant_a_cell_of_each_key_at_most() {
        explore_four("take-over wide: 4 threads", || several_threads(make, 4));
    }
}

mod compact {
    use super::*;
    use loom_tests::{Preemptions, compact as make, explore_two, explore_two_to};

    /// Each request may displace the other key's claim once. So three of them may find no place, and
    /// only the last one has the slot.
    #[test]
    fn a_late_charge_falls_on_its_own_key() {
        explore_two("take-over compact: late charge, 2 threads x 2", || {
            let (gate, charged, claimed) = a_late_charge(make);
            let denied = gate.stats().denied_full;
            assert_eq!(charged + claimed + denied, 4, "a request is granted or finds no place");
            assert!(charged + claimed >= 1, "one of the two has the slot");
        });
    }

    #[test]
    fn with_room_for_both_keys_each_has_its_cell() {
        explore_two_to("take-over compact: room for both, 2 threads", 3, Preemptions::Any, || {
            a_charge_with_room_for_both(make);
        });
    }

    #[test]
    fn within_the_clock_skew_no_state_is_lost() {
        explore_two_to("take-over compact: clocks 1 ms apart", 3, Preemptions::Any, || {
            within_the_clock_skew(make);
        });
    }

    #[test]
    fn an_evicted_key_starts_afresh_once_for_each_eviction() {
        explore_two("take-over compact: eviction against 2 charges", || eviction(make, 1));
    }

    #[test]
    fn the_claims_of_two_keys_displace_each_other_once() {
        explore_two("take-over compact: claims displaced, 2 charges", || eviction(make, 2));
    }
}
