//! A thread stops in a claim, or in a charge: `src/table/claim.rs`, `src/cell/state_cell.rs`.

use std::sync::Arc;

use loom::thread;
use loom_tests::stopped::{beside_a_doomed, doomed};
use loom_tests::{Gate, Make, ONE_BUCKET, ask, at, at_millis, burst, left};
use tollgate::{OnFull, Tick};

const KEY: u64 = 7;
const OTHER: u64 = 1;
const THIRD: u64 = 3;

/// A second, and 2 ms for each of `times`. Clocks may differ by 1 ms: within that time a claim in a wide slot
/// passes for a live key, and is displaced by no other.
fn later(times: u64) -> Tick {
    at_millis(1_000 + 2 * times)
}

fn make_gate(make: Make, cells: u64) -> Arc<Gate> {
    make(burst(cells), ONE_BUCKET, OnFull::Deny)
}

/// Asks for one cell until it is granted, at most twice: a request may find no place while claims displace
/// one another.
fn ask_again(gate: &Gate, key: u64, now: u64) -> u64 {
    let first = ask(gate, key, at(now));
    if first == 1 { first } else { ask(gate, key, at(now)) }
}

/// Asks for two cells of a key that has three, while another thread asks for two and may stop.
fn both_want_a_key(gate: &Arc<Gate>, steps: usize, now: u64) -> bool {
    let asks_twice = move |gate: &Gate, granted: &mut u64| {
        (0..2).for_each(|_| *granted += ask(gate, KEY, at(now)));
    };
    let (doomed, mine) = beside_a_doomed(gate, steps, asks_twice, move |gate| {
        ask(gate, KEY, at(now)) + ask(gate, KEY, at(now))
    });
    let after = (0..3).map(|_| ask(gate, KEY, at(now))).sum::<u64>();
    assert_eq!(doomed.counted + mine + after, 3, "granted in all");
    assert!(mine >= 1 && mine + doomed.counted >= 2, "each request is granted what is left");
    assert_eq!(gate.stats().denied_full, 0, "the key has a place");
    assert_eq!(ask(gate, KEY, at(now + 1)), 1, "the key goes on");
    doomed.has_stopped
}

fn a_claim_in_an_empty_bucket(make: Make, steps: usize) -> bool {
    both_want_a_key(&make_gate(make, 3), steps, 1)
}

fn a_claim_of_an_idle_keys_slot(make: Make, steps: usize) -> bool {
    let gate = make_gate(make, 3);
    assert_eq!(ask(&gate, OTHER, at(1)) + ask(&gate, THIRD, at(2)), 2);
    both_want_a_key(&gate, steps, 100)
}

fn a_charge_of_a_key_with_a_slot(make: Make, steps: usize) -> bool {
    let gate = make_gate(make, 3);
    assert_eq!(ask(&gate, KEY, at(1)), 1);
    both_want_a_key(&gate, steps, 2)
}

/// One slot is a live key's. A thread claims the other, and may stop; another key wants it a skew later.
fn another_key_wants_the_slot(make: Make, steps: usize) -> bool {
    let gate = make_gate(make, 1);
    assert_eq!(ask(&gate, OTHER, at(1)), 1);
    let (doomed, mine) = beside_a_doomed(
        &gate,
        steps,
        |gate, granted| *granted += ask(gate, KEY, at(1)),
        |gate| ask(gate, THIRD, later(1)),
    );
    let again = ask(&gate, THIRD, later(2));
    assert_eq!(doomed.counted + mine + again, 1, "one of them has the slot, and its cell");
    assert!(!doomed.has_stopped || mine + again == 1, "the claim is displaced");
    assert_eq!(left(&gate, OTHER, at(1)), 0, "the neighbour's charge is kept");
    assert_eq!(ask(&gate, KEY, at(100)), 1, "the key whose claimant may have died is served");
    doomed.has_stopped
}

/// All keys are idle. A thread takes the slot of one for another key, and may stop; the idle key asks again.
fn the_idle_key_returns(make: Make, steps: usize) -> bool {
    let gate = make_gate(make, 2);
    assert_eq!(ask(&gate, OTHER, at(1)) + ask(&gate, THIRD, at(2)), 2);
    let (doomed, mine) = beside_a_doomed(
        &gate,
        steps,
        |gate, granted| *granted += ask(gate, KEY, at(100)),
        |gate| ask_again(gate, OTHER, 100),
    );
    assert_eq!(mine, 1, "it is served");
    assert_eq!(left(&gate, OTHER, at(100)), 1, "and charged once");
    let served = doomed.counted + ask_again(&gate, KEY, 100);
    assert_eq!(
        left(&gate, KEY, at(100)),
        2 - served,
        "no charge of the other is lost, or was made twice"
    );
    assert!(served >= 1, "the key whose claimant may have died is served");
    doomed.has_stopped
}

/// A thread has claimed one slot, and stopped after `before` steps. A second claims the other, and may stop
/// too. A third key wants either a skew later.
fn both_slots_are_left_claimed(make: Make, before: usize, steps: usize) -> bool {
    let gate = make_gate(make, 1);
    let first = doomed(&*gate, before, |gate, granted| *granted += ask(gate, KEY, at(1)));
    let (second, mine) = beside_a_doomed(
        &gate,
        steps,
        |gate, granted| *granted += ask(gate, OTHER, at(1)),
        |gate| ask(gate, THIRD, later(1)),
    );
    let again = ask(&gate, THIRD, later(2));
    let has_room = first.counted + second.counted < 2;
    assert_eq!(mine + again, u64::from(has_room), "a claim is displaced, and no charge");
    for key in [KEY, OTHER] {
        assert_eq!(ask_again(&gate, key, 100), 1, "the key whose claimant may have died is served");
    }
    second.has_stopped
}

/// One slot is a live key's. A thread has claimed the other at 1 s, and stopped before it committed the claim.
/// Returns whether another key is served then, and a skew later.
fn beside_a_claim(make: Make, steps: usize) -> [u64; 2] {
    let gate = make_gate(make, 1);
    assert_eq!(ask(&gate, OTHER, at(1)), 1);
    let claimant = doomed(&*gate, steps, |gate, granted| *granted += ask(gate, KEY, at(1)));
    assert!(claimant.has_stopped && claimant.counted == 0);
    let served = [at(1), later(1)].map(|now| ask(&gate, THIRD, now));
    assert_eq!(gate.stats().denied_full, 1 - served[0], "or there was no place");
    served
}

/// Two threads ask for a cell each of a key that has three, while a third asks for two and may stop.
fn two_survivors(make: Make, steps: usize) -> bool {
    let gate = make_gate(make, 3);
    let other = Arc::clone(&gate);
    let second = thread::spawn(move || ask(&other, KEY, at(1)));
    let asks_twice = |gate: &Gate, granted: &mut u64| {
        (0..2).for_each(|_| *granted += ask(gate, KEY, at(1)));
    };
    let (doomed, mine) = beside_a_doomed(&gate, steps, asks_twice, |gate| ask(gate, KEY, at(1)));
    let survivors = mine + second.join().unwrap();
    let after = (0..3).map(|_| ask(&gate, KEY, at(1))).sum::<u64>();
    assert_eq!(doomed.counted + survivors + after, 3, "granted in all");
    assert!(doomed.counted == 2 || survivors == 2, "each request is granted what is left");
    doomed.has_stopped
}

mod wide {
    use super::*;
    use loom_tests::{
        Preemptions::To, catch_stops, explore_latest, explore_no_stop, explore_stops,
        explore_three_stops, gate as make,
    };
    use tollgate::internals::{Fault, plant};

    #[test]
    fn a_claim_in_an_empty_bucket_that_is_left_is_finished() {
        explore_stops("stopped: wide claim, same key", To(2), 7, |steps| {
            a_claim_in_an_empty_bucket(make, steps)
        });
    }

    #[test]
    fn a_claim_of_an_idle_keys_slot_that_is_left_is_finished() {
        explore_stops("stopped: wide claim of an idle slot, same key", To(2), 8, |steps| {
            a_claim_of_an_idle_keys_slot(make, steps)
        });
    }

    #[test]
    fn a_charge_that_is_left_has_charged_nothing() {
        explore_stops("stopped: wide charge", To(4), 3, |steps| {
            a_charge_of_a_key_with_a_slot(make, steps)
        });
    }

    #[test]
    fn a_claim_that_is_left_is_displaced_by_another_key() {
        explore_stops("stopped: wide claim, another key", To(2), 5, |steps| {
            another_key_wants_the_slot(make, steps)
        });
    }

    #[test]
    fn an_idle_key_whose_slot_is_taken_by_one_that_stops_is_served() {
        explore_stops("stopped: wide claim of an idle slot, its key", To(3), 7, |steps| {
            the_idle_key_returns(make, steps)
        });
    }

    #[test]
    fn with_all_slots_left_claimed_a_key_is_served() {
        // The first thread has taken a slot, or has also written its key there.
        for before in [1, 2] {
            explore_stops("stopped: wide claims in all slots", To(2), 5, move |steps| {
                both_slots_are_left_claimed(make, before, steps)
            });
        }
    }

    /// It passes for a live key as long as clocks may differ.
    #[test]
    fn a_claim_that_is_left_is_displaced_after_the_skew() {
        explore_latest("stopped: wide claim, displaced", 1, To(1), || {
            assert_eq!(beside_a_claim(make, 2), [0, 1]);
        });
    }

    #[test]
    #[ignore = "3 threads: in the full run"]
    fn of_two_survivors_each_is_granted_what_is_left() {
        explore_three_stops("stopped: wide claim, 2 survivors", 3, |steps| {
            two_survivors(make, steps)
        });
    }

    /// The planted fault: a thread waits for a claimant. While all threads live, that ends.
    #[test]
    fn a_thread_that_waits_for_a_living_claimant_is_served() {
        plant(Fault::ClaimAwaited);
        explore_no_stop("stopped: wide claim awaited, all live", |steps| {
            a_claim_in_an_empty_bucket(make, steps)
        });
    }

    #[test]
    #[should_panic(expected = "maximum number of branches")]
    fn a_thread_that_waits_for_a_dead_claimant_waits_for_ever() {
        plant(Fault::ClaimAwaited);
        catch_stops("stopped: wide claim awaited", |steps| a_claim_in_an_empty_bucket(make, steps));
    }
}

mod compact {
    use super::*;
    use loom_tests::{
        Preemptions::To, catch_stops, compact as make, explore_latest, explore_no_stop,
        explore_stops, explore_three_stops,
    };
    use tollgate::internals::{Fault, plant};

    #[test]
    fn a_claim_in_an_empty_bucket_that_is_left_is_finished() {
        explore_stops("stopped: compact claim, same key", To(3), 6, |steps| {
            a_claim_in_an_empty_bucket(make, steps)
        });
    }

    #[test]
    fn a_claim_of_an_idle_keys_slot_that_is_left_is_finished() {
        explore_stops("stopped: compact claim of an idle slot, same key", To(3), 6, |steps| {
            a_claim_of_an_idle_keys_slot(make, steps)
        });
    }

    #[test]
    fn a_charge_that_is_left_has_charged_nothing() {
        explore_stops("stopped: compact charge", To(4), 3, |steps| {
            a_charge_of_a_key_with_a_slot(make, steps)
        });
    }

    #[test]
    fn a_claim_that_is_left_is_displaced_by_another_key() {
        explore_stops("stopped: compact claim, another key", To(3), 6, |steps| {
            another_key_wants_the_slot(make, steps)
        });
    }

    #[test]
    fn an_idle_key_whose_slot_is_taken_by_one_that_stops_is_served() {
        explore_stops("stopped: compact claim of an idle slot, its key", To(3), 5, |steps| {
            the_idle_key_returns(make, steps)
        });
    }

    #[test]
    fn with_all_slots_left_claimed_a_key_is_served() {
        explore_stops("stopped: compact claims in all slots", To(3), 5, |steps| {
            both_slots_are_left_claimed(make, 1, steps)
        });
    }

    #[test]
    fn a_claim_that_is_left_is_displaced_at_once() {
        explore_latest("stopped: compact claim, displaced", 1, To(1), || {
            assert_eq!(beside_a_claim(make, 1), [1, 0]);
        });
    }

    #[test]
    #[ignore = "3 threads: in the full run"]
    fn of_two_survivors_each_is_granted_what_is_left() {
        explore_three_stops("stopped: compact claim, 2 survivors", 3, |steps| {
            two_survivors(make, steps)
        });
    }

    /// The planted fault: a thread waits for a claimant. While all threads live, that ends.
    #[test]
    fn a_thread_that_waits_for_a_living_claimant_is_served() {
        plant(Fault::ClaimAwaited);
        explore_no_stop("stopped: compact claim awaited, all live", |steps| {
            a_claim_in_an_empty_bucket(make, steps)
        });
    }

    #[test]
    #[should_panic(expected = "maximum number of branches")]
    fn a_thread_that_waits_for_a_dead_claimant_waits_for_ever() {
        plant(Fault::ClaimAwaited);
        catch_stops("stopped: compact claim awaited", |steps| {
            a_claim_in_an_empty_bucket(make, steps)
        });
    }
}
