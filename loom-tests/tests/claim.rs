//! Claim against claim: threads that find a key absent, or keys that want the same slots.
//!
//! The models run over both kinds of slot; the protocol is in `src/table/claim.rs`.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use loom_tests::{
    Gate, Make, ONE_BUCKET, ask, at, burst, each_of, left, several_ask_for_one_less, together,
};
use tollgate::OnFull;

const KEY: u64 = 7;
/// One of these takes the wide slot that the key prefers. Compact slots are not preferred.
const NEIGHBOURS: [u64; 2] = [1, 2];

/// A limiter with two slots for all keys, and one cell for each.
fn one_cell(make: Make) -> Arc<Gate> {
    make(burst(1), ONE_BUCKET, OnFull::Deny)
}

/// Two threads ask twice each for a key that is absent and has three cells.
fn both_claim(gate: &Arc<Gate>, now: u64) {
    let other = Arc::clone(gate);
    let thread = thread::spawn(move || ask(&other, KEY, at(now)) + ask(&other, KEY, at(now)));
    let mine = ask(gate, KEY, at(now)) + ask(gate, KEY, at(now));
    let granted = mine + thread.join().unwrap();
    assert_eq!(granted, 3, "granted in all");
    assert_eq!(left(gate, KEY, at(now)), 0, "no charge was lost");
}

fn both_claim_in_an_empty_bucket(make: Make) {
    both_claim(&make(burst(3), ONE_BUCKET, OnFull::Deny), 1);
}

fn both_claim_in_two_empty_buckets(make: Make) {
    both_claim(&make(burst(3), 2, OnFull::Deny), 1);
}

fn both_claim_beside_an_idle_key(make: Make) {
    let gate = make(burst(3), ONE_BUCKET, OnFull::Deny);
    assert_eq!(ask(&gate, 1, at(1)), 1);
    both_claim(&gate, 100);
}

fn both_claim_where_all_keys_are_idle(make: Make) {
    let gate = make(burst(3), ONE_BUCKET, OnFull::Deny);
    assert_eq!(ask(&gate, 1, at(1)) + ask(&gate, 3, at(2)), 2);
    both_claim(&gate, 100);
}

/// Several threads ask for a cell each, and there is one cell less.
fn several_claim(make: Make, threads: usize) {
    several_ask_for_one_less(&make(burst(threads as u64 - 1), ONE_BUCKET, OnFull::Deny), threads);
}

/// Two threads ask for a key, and one thread's clock is 4 us behind. Returns the cells that they were
/// granted, and the cells that a later request was granted.
fn both_claim_by_different_clocks(make: Make) -> [u64; 2] {
    let gate = one_cell(make);
    let other = Arc::clone(&gate);
    let stale = at(1).saturating_sub(Duration::from_micros(4));
    let thread = thread::spawn(move || ask(&other, KEY, stale));
    let mine = ask(&gate, KEY, at(1));
    [mine + thread.join().unwrap(), ask(&gate, KEY, at(1))]
}

/// Two threads claim two keys, and ask twice each.
fn two_keys(make: Make) {
    let gate = one_cell(make);
    let other = Arc::clone(&gate);
    let thread = thread::spawn(move || ask(&other, 1, at(1)) + ask(&other, 1, at(1)));
    let mine = ask(&gate, 2, at(1)) + ask(&gate, 2, at(1));
    assert_eq!((mine, thread.join().unwrap()), (1, 1), "each key has its own cell");
    assert_eq!(gate.len_at(at(1)), 2);
    assert_eq!(gate.stats().denied_full, 0);
}

fn two_keys_once_each(make: Make) {
    let gate = one_cell(make);
    let granted = each_of(2, &gate, |gate, number| ask(gate, 1 + number as u64, at(1)));
    assert_eq!(granted, [1, 1], "each key has its own cell");
    assert_eq!((gate.len_at(at(1)), gate.stats().denied_full), (2, 0));
}

/// Two threads ask for one key, two for another. Returns the cells granted to each key.
fn two_keys_by_two_threads_each(gate: &Arc<Gate>) -> [u64; 2] {
    let granted = each_of(4, gate, |gate, number| ask(gate, 1 + number as u64 % 2, at(1)));
    [granted[0] + granted[2], granted[1] + granted[3]]
}

/// More keys than slots: claims displace one another where nothing else is free. No key gains a cell by
/// that, and no thread hangs. The other keys find no place.
fn more_keys_than_slots(make: Make, keys: usize) {
    let gate = one_cell(make);
    let granted = each_of(keys, &gate, |gate, number| ask(gate, 1 + number as u64, at(1)));
    assert_eq!(granted.iter().sum::<u64>(), 2, "granted in all");
    assert_eq!(gate.stats().denied_full, keys as u64 - 2, "denied for lack of a place");
    assert_eq!(gate.len_at(at(1)), 2, "each in a slot of its own");
}

/// One thread frees the first slot, so the two threads claim different slots, and one of them gives its
/// claim up.
fn both_claim_different_slots(make: Make, neighbour: u64) {
    let gate = one_cell(make);
    assert_eq!(ask(&gate, neighbour, at(1)), 1);
    let other = Arc::clone(&gate);
    let thread = thread::spawn(move || {
        other.reset(&neighbour);
        ask(&other, KEY, at(1))
    });
    let mine = ask(&gate, KEY, at(1));
    assert_eq!(mine + thread.join().unwrap(), 1, "granted in all");
    assert_eq!(left(&gate, KEY, at(1)), 0, "no charge was lost");
    assert_eq!(gate.len_at(at(1)), 1, "the claim that was given up is vacant");
    assert_eq!(ask(&gate, neighbour, at(1)), 1, "the neighbour starts afresh");
}

/// A thread that has lost a race for the second slot reads the first, then sees a claim of its key in
/// the second. In between, the key may have been committed in the first.
fn a_claim_just_seen(make: Make, [neighbour, other]: [u64; 2], makes_room_first: bool) {
    let gate = one_cell(make);
    assert_eq!(ask(&gate, neighbour, at(1)), 1);
    let once = |gate: &Gate| ask(gate, KEY, at(1));
    let makes_room = move |gate: &Gate| {
        let _ = ask(gate, other, at(1));
        gate.reset(&neighbour);
        gate.reset(&other);
        ask(gate, KEY, at(1))
    };
    let granted = match makes_room_first {
        true => together(&gate, (makes_room, once, once)),
        false => together(&gate, (once, once, makes_room)),
    };
    assert!(granted <= 1, "{granted} granted");
}

mod wide {
    use super::*;
    use loom_tests::{
        Preemptions, catch_latest, catch_two, explore_four, explore_latest, explore_two,
        explore_two_to, gate as make,
    };
    use tollgate::internals::{Fault, plant};

    #[test]
    fn two_threads_that_claim_a_key_in_an_empty_bucket_share_its_cells() {
        explore_two("claim wide: same key, empty bucket, 2 threads x 2", || {
            both_claim_in_an_empty_bucket(make);
        });
    }

    #[test]
    fn two_threads_that_claim_a_key_in_two_empty_buckets_share_its_cells() {
        explore_two_to(
            "claim wide: same key, two buckets, 2 threads x 2",
            2,
            Preemptions::To(4),
            || both_claim_in_two_empty_buckets(make),
        );
    }

    #[test]
    fn two_threads_that_claim_a_key_beside_an_idle_key_share_its_cells() {
        explore_two("claim wide: same key, one idle neighbour, 2 threads x 2", || {
            both_claim_beside_an_idle_key(make);
        });
    }

    #[test]
    fn two_threads_that_claim_an_idle_keys_slot_share_its_cells() {
        explore_two_to(
            "claim wide: same key, only idle neighbours, 2 threads x 2",
            2,
            Preemptions::To(3),
            || both_claim_where_all_keys_are_idle(make),
        );
    }

    #[test]
    fn two_threads_that_ask_for_one_cell_are_granted_one() {
        explore_latest("claim wide: same key, 2 threads", 3, Preemptions::To(6), || {
            several_claim(make, 2);
        });
    }

    #[test]
    fn three_threads_that_ask_for_two_cells_are_granted_two() {
        explore_latest("claim wide: same key, 3 threads", 3, Preemptions::To(4), || {
            several_claim(make, 3);
        });
    }

    #[test]
    #[ignore = "4 threads: in the full run"]
    fn four_threads_that_ask_for_three_cells_are_granted_three() {
        explore_four("claim wide: same key, 4 threads", || several_claim(make, 4));
    }

    /// While the claims of one key are in both slots, the other key's claims displace them, and are
    /// displaced in turn. A request that then finds no place has charged nothing. When it is made
    /// again, it finds a place.
    #[test]
    #[ignore = "4 threads: in the full run"]
    fn two_keys_claimed_by_two_threads_each_have_their_cell_in_the_end() {
        explore_four("claim wide: two keys, 2 threads each, 4 threads", || {
            let gate = one_cell(make);
            let [first, second] = two_keys_by_two_threads_each(&gate);
            let granted = format!("granted: {first} and {second}");
            assert!(first <= 1 && second <= 1, "{granted}");
            assert!(first + second > 0, "one succeeds");
            assert!(first + second == 2 || gate.stats().denied_full > 0, "{granted}");
            assert_eq!(
                left(&gate, 1, at(1)),
                1 - first,
                "each charge is kept, and no other was made"
            );
            assert_eq!(
                left(&gate, 2, at(1)),
                1 - second,
                "each charge is kept, and no other was made"
            );
            let again = ask(&gate, 1, at(1)) + ask(&gate, 2, at(1));
            assert_eq!(first + second + again, 2, "each has its cell in the end");
        });
    }

    /// If no cell is granted, the thread with the stale clock has met the other thread's claim.
    #[test]
    fn two_threads_with_different_clocks_are_granted_one_cell_at_most() {
        explore_two("claim wide: same key, clocks 4 us apart, 2 threads", || {
            let [granted, after] = both_claim_by_different_clocks(make);
            assert!(granted <= 1 && granted + after <= 1, "granted: {granted}, then {after}");
        });
    }

    #[test]
    fn two_keys_in_one_bucket_have_a_slot_each() {
        explore_two("claim wide: two keys, one bucket, 2 threads x 2", || two_keys(make));
    }

    #[test]
    fn two_keys_that_are_claimed_once_have_a_slot_each() {
        explore_latest("claim wide: two keys, one bucket, 2 threads", 3, Preemptions::Any, || {
            two_keys_once_each(make);
        });
    }

    #[test]
    fn of_three_keys_two_have_the_two_slots() {
        explore_latest("claim wide: 3 keys, 2 slots, 3 threads", 3, Preemptions::To(4), || {
            more_keys_than_slots(make, 3);
        });
    }

    #[test]
    #[ignore = "4 threads: in the full run"]
    fn of_four_keys_two_have_the_two_slots() {
        explore_four("claim wide: 4 keys, 2 slots, 4 threads", || more_keys_than_slots(make, 4));
    }

    #[test]
    fn of_two_claims_in_different_slots_one_is_given_up() {
        for neighbour in NEIGHBOURS {
            explore_two("claim wide: same key, different slots, 2 threads", move || {
                both_claim_different_slots(make, neighbour);
            });
        }
    }

    #[test]
    #[should_panic(expected = "the neighbour starts afresh")]
    fn without_the_scan_a_claim_is_left_behind() {
        plant(Fault::RescanSkipped);
        let [neighbour, _] = NEIGHBOURS;
        catch_two("claim wide: scan skipped, a claim left", move || {
            both_claim_different_slots(make, neighbour);
        });
    }

    #[test]
    #[should_panic(expected = "granted in all")]
    fn without_the_scan_a_key_has_two_slots() {
        plant(Fault::RescanSkipped);
        let [_, neighbour] = NEIGHBOURS;
        catch_two("claim wide: scan skipped", move || both_claim_different_slots(make, neighbour));
    }

    #[test]
    #[should_panic(expected = "granted in all")]
    fn without_the_fence_a_key_has_two_slots() {
        plant(Fault::FenceLeftOut);
        for neighbour in NEIGHBOURS {
            catch_two("claim wide: fence left out", move || {
                both_claim_different_slots(make, neighbour);
            });
        }
    }

    #[test]
    fn a_claim_that_is_first_seen_in_a_scan_is_scanned_for_again() {
        explore_latest("claim wide: just seen, 3 threads", 2, Preemptions::To(4), || {
            a_claim_just_seen(make, NEIGHBOURS, true);
        });
    }

    #[test]
    #[ignore = "takes minutes; compact slots show the same mistake in seconds"]
    #[should_panic(expected = "2 granted")]
    fn without_the_second_scan_a_key_has_two_slots() {
        plant(Fault::ClaimJustSeen);
        catch_latest("claim wide: just seen", 5, || a_claim_just_seen(make, NEIGHBOURS, true));
    }
}

mod compact {
    use super::*;
    use loom_tests::{
        Preemptions, catch_latest, catch_two, compact as make, explore_four, explore_latest,
        explore_two, explore_two_whole,
    };
    use tollgate::internals::{Fault, plant};

    const NEIGHBOUR: u64 = 3;

    #[test]
    fn two_threads_that_claim_a_key_in_an_empty_bucket_share_its_cells() {
        explore_two("claim compact: same key, empty bucket, 2 threads x 2", || {
            both_claim_in_an_empty_bucket(make);
        });
    }

    #[test]
    fn two_threads_that_claim_a_key_in_two_empty_buckets_share_its_cells() {
        explore_two("claim compact: same key, two buckets, 2 threads x 2", || {
            both_claim_in_two_empty_buckets(make);
        });
    }

    #[test]
    fn two_threads_that_claim_a_key_beside_an_idle_key_share_its_cells() {
        explore_two("claim compact: same key, one idle neighbour, 2 threads x 2", || {
            both_claim_beside_an_idle_key(make);
        });
    }

    #[test]
    fn two_threads_that_claim_an_idle_keys_slot_share_its_cells() {
        explore_two("claim compact: same key, only idle neighbours, 2 threads x 2", || {
            both_claim_where_all_keys_are_idle(make);
        });
    }

    #[test]
    fn two_threads_that_ask_for_one_cell_are_granted_one() {
        explore_latest("claim compact: same key, 2 threads", 3, Preemptions::To(6), || {
            several_claim(make, 2);
        });
    }

    #[test]
    fn three_threads_that_ask_for_two_cells_are_granted_two() {
        explore_latest("claim compact: same key, 3 threads", 3, Preemptions::To(5), || {
            several_claim(make, 3);
        });
    }

    #[test]
    #[ignore = "4 threads: in the full run"]
    fn four_threads_that_ask_for_three_cells_are_granted_three() {
        explore_four("claim compact: same key, 4 threads", || several_claim(make, 4));
    }

    #[test]
    #[ignore = "4 threads: in the full run"]
    fn two_keys_claimed_by_two_threads_each_have_their_cell_at_once() {
        explore_four("claim compact: two keys, 2 threads each, 4 threads", || {
            let gate = one_cell(make);
            assert_eq!(two_keys_by_two_threads_each(&gate), [1, 1], "granted");
            assert_eq!(gate.len_at(at(1)), 2, "each in a slot of its own");
        });
    }

    #[test]
    fn two_threads_with_different_clocks_are_granted_one_cell() {
        explore_two_whole("claim compact: same key, clocks 4 us apart, 2 threads", || {
            assert_eq!(both_claim_by_different_clocks(make), [1, 0]);
        });
    }

    #[test]
    fn two_keys_in_one_bucket_have_a_slot_each() {
        explore_two_whole("claim compact: two keys, one bucket, 2 threads x 2", || {
            two_keys(make);
        });
    }

    #[test]
    fn two_keys_that_are_claimed_once_have_a_slot_each() {
        explore_latest(
            "claim compact: two keys, one bucket, 2 threads",
            3,
            Preemptions::Any,
            || {
                two_keys_once_each(make);
            },
        );
    }

    #[test]
    fn of_three_keys_two_have_the_two_slots() {
        explore_latest("claim compact: 3 keys, 2 slots, 3 threads", 3, Preemptions::To(5), || {
            more_keys_than_slots(make, 3);
        });
    }

    #[test]
    #[ignore = "4 threads: in the full run"]
    fn of_four_keys_two_have_the_two_slots() {
        explore_four("claim compact: 4 keys, 2 slots, 4 threads", || {
            more_keys_than_slots(make, 4);
        });
    }

    #[test]
    fn of_two_claims_in_different_slots_one_is_given_up() {
        explore_two_whole("claim compact: same key, different slots, 2 threads", || {
            both_claim_different_slots(make, NEIGHBOUR);
        });
    }

    #[test]
    #[should_panic(expected = "granted in all")]
    fn without_the_scan_a_key_has_two_slots() {
        plant(Fault::RescanSkipped);
        catch_two("claim compact: scan skipped", || both_claim_different_slots(make, NEIGHBOUR));
    }

    #[test]
    #[should_panic(expected = "granted in all")]
    fn without_the_fence_a_key_has_two_slots() {
        plant(Fault::FenceLeftOut);
        catch_two("claim compact: fence left out", || both_claim_different_slots(make, NEIGHBOUR));
    }

    #[test]
    fn a_claim_that_is_first_seen_in_a_scan_is_scanned_for_again() {
        explore_latest("claim compact: just seen, 3 threads", 2, Preemptions::To(4), || {
            a_claim_just_seen(make, [NEIGHBOUR, 1], false);
        });
    }

    #[test]
    #[should_panic(expected = "2 granted")]
    fn without_the_second_scan_a_key_has_two_slots() {
        plant(Fault::ClaimJustSeen);
        catch_latest("claim compact: just seen", 5, || {
            a_claim_just_seen(make, [NEIGHBOUR, 1], false);
        });
    }

    /// A thread has scanned for a claim, and commits it late. By then the claim was given up, and the
    /// key has a slot elsewhere and is being claimed again in the first slot.
    fn a_late_committer() {
        let gate = one_cell(make);
        let once = |gate: &Gate| ask(gate, KEY, at(1));
        let moves = |gate: &Gate| {
            let first = ask(gate, KEY, at(1));
            gate.reset(&KEY);
            let _ = ask(gate, 1, at(1));
            let second = ask(gate, KEY, at(1));
            gate.reset(&1);
            first + second
        };
        let granted = together(&gate, (once, moves, once));
        assert!((1..=2).contains(&granted), "{granted} granted, and 1 reset");
    }

    #[test]
    fn a_late_committer_commits_no_later_claim() {
        explore_latest("claim compact: late committer", 3, Preemptions::To(4), a_late_committer);
    }

    #[test]
    #[should_panic(expected = "3 granted")]
    fn without_the_nonce_a_late_committer_commits_a_later_claim() {
        plant(Fault::NonceKept);
        catch_latest("claim compact: nonce kept", 4, a_late_committer);
    }
}
