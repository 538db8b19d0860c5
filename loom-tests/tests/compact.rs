//! Compact slots: claims, take-overs and charges are all a CAS on the one word.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use loom_tests::{
    Gate, ONE_BUCKET, Preemptions, ask, at, burst, catch_latest, catch_two, compact, each_of,
    explore_four, explore_latest, explore_two, explore_two_to, explore_two_whole, left,
    several_ask_for_one_less, together,
};
use tollgate::OnFull;
use tollgate::internals::{Fault, plant};

const KEY: u64 = 7;
const OTHER: u64 = 1;
const NEIGHBOUR: u64 = 3;

/// Two threads ask for a key that is not there.
fn both_claim(gate: &Arc<Gate>, now: u64, cells: u64) {
    let other = Arc::clone(gate);
    let thread = thread::spawn(move || ask(&other, KEY, at(now)) + ask(&other, KEY, at(now)));
    let mine = ask(gate, KEY, at(now)) + ask(gate, KEY, at(now));
    let granted = mine + thread.join().unwrap();
    assert_eq!(granted, cells, "granted in all");
    assert_eq!(left(gate, KEY, at(now)), 0, "no charge was lost");
}

#[test]
fn two_claims_of_one_key_in_an_empty_bucket() {
    explore_two("compact: same key, empty bucket, 2 threads x 2", || {
        both_claim(&compact(burst(3), ONE_BUCKET, OnFull::Deny), 1, 3);
    });
}

#[test]
fn two_claims_of_one_key_with_two_empty_buckets() {
    explore_two("compact: same key, two buckets, 2 threads x 2", || {
        both_claim(&compact(burst(3), 2, OnFull::Deny), 1, 3);
    });
}

#[test]
fn two_claims_of_one_key_with_only_idle_neighbours() {
    explore_two("compact: same key, only idle neighbours, 2 threads x 2", || {
        let gate = compact(burst(3), ONE_BUCKET, OnFull::Deny);
        assert_eq!(ask(&gate, OTHER, at(1)) + ask(&gate, NEIGHBOUR, at(2)), 2);
        both_claim(&gate, 100, 3);
    });
}

/// Several threads ask for a cell each, of which there is one less.
fn several_claim(threads: usize) {
    several_ask_for_one_less(
        &compact(burst(threads as u64 - 1), ONE_BUCKET, OnFull::Deny),
        threads,
    );
}

#[test]
fn three_claims_of_one_key() {
    explore_latest("compact: same key, 3 threads", 3, Preemptions::To(5), || several_claim(3));
}

#[test]
#[ignore = "4 threads: in the full run"]
fn four_claims_of_one_key() {
    explore_four("compact: same key, 4 threads", || several_claim(4));
}

/// Two keys, each claimed by two threads for the one cell that it has.
#[test]
#[ignore = "4 threads: in the full run"]
fn two_claims_of_each_of_two_keys() {
    explore_four("compact: two keys, 2 threads each, 4 threads", || {
        let gate = compact(burst(1), ONE_BUCKET, OnFull::Deny);
        let granted = each_of(4, &gate, |gate, number| ask(gate, 1 + number as u64 % 2, at(1)));
        assert_eq!(granted[0] + granted[2], 1, "granted to the first key: {granted:?}");
        assert_eq!(granted[1] + granted[3], 1, "granted to the second key: {granted:?}");
        assert_eq!(gate.len_at(at(1)), 2, "each in a slot of its own");
    });
}

#[test]
fn two_claims_with_clocks_that_differ() {
    explore_two_whole("compact: same key, clocks 4 us apart, 2 threads", || {
        let gate = compact(burst(1), ONE_BUCKET, OnFull::Deny);
        let other = Arc::clone(&gate);
        let stale = at(1).saturating_sub(Duration::from_micros(4));
        let thread = thread::spawn(move || ask(&other, KEY, stale));
        let mine = ask(&gate, KEY, at(1));
        assert_eq!(mine + thread.join().unwrap(), 1);
        assert_eq!(ask(&gate, KEY, at(1)), 0);
    });
}

#[test]
fn claims_of_two_keys() {
    explore_two_whole("compact: two keys, one bucket, 2 threads x 2", || {
        let gate = compact(burst(1), ONE_BUCKET, OnFull::Deny);
        let other = Arc::clone(&gate);
        let thread = thread::spawn(move || ask(&other, 1, at(1)) + ask(&other, 1, at(1)));
        let mine = ask(&gate, 2, at(1)) + ask(&gate, 2, at(1));
        assert_eq!((mine, thread.join().unwrap()), (1, 1), "each has its own bucket");
        assert_eq!(gate.len_at(at(1)), 2);
        assert_eq!(gate.stats().denied_full, 0);
    });
}

/// Claims displace one another where there is nothing else, but neither gains nor hangs by it.
fn more_keys_than_slots(keys: usize) {
    let gate = compact(burst(1), ONE_BUCKET, OnFull::Deny);
    let granted = each_of(keys, &gate, |gate, number| ask(gate, 1 + number as u64, at(1)));
    assert_eq!(granted.iter().sum::<u64>(), 2, "granted in all");
    assert_eq!(gate.stats().denied_full, keys as u64 - 2, "told that it is full");
    assert_eq!(gate.len_at(at(1)), 2, "each in a slot of its own");
}

#[test]
fn claims_of_more_keys_than_slots() {
    explore_latest("compact: 3 keys, 2 slots, 3 threads", 3, Preemptions::To(5), || {
        more_keys_than_slots(3)
    });
}

#[test]
#[ignore = "4 threads: in the full run"]
fn claims_of_twice_as_many_keys_as_slots() {
    explore_four("compact: 4 keys, 2 slots, 4 threads", || more_keys_than_slots(4));
}

/// Both slots are taken: one by a live neighbour, one by a key that is idle at the time when it
/// is asked for again, while another key needs a slot.
#[test]
fn a_take_over_against_a_late_charge() {
    explore_two("compact: late charge, 2 threads x 2", || {
        let gate = compact(burst(2), ONE_BUCKET, OnFull::Deny);
        assert_eq!(ask(&gate, OTHER, at(1)), 1);
        assert_eq!(ask(&gate, NEIGHBOUR, at(100)), 1);
        let other = Arc::clone(&gate);
        let claims = thread::spawn(move || ask(&other, KEY, at(100)) + ask(&other, KEY, at(100)));
        let charged = ask(&gate, OTHER, at(100)) + ask(&gate, OTHER, at(100));
        let claimed = claims.join().unwrap();
        assert_eq!(left(&gate, OTHER, at(100)), 2 - charged, "no charge of the old key was lost");
        assert_eq!(left(&gate, KEY, at(100)), 2 - claimed, "no charge fell on the new key");
        assert_eq!(left(&gate, NEIGHBOUR, at(100)), 1);
        let denied = gate.stats().denied_full;
        assert_eq!(charged + claimed + denied, 4, "who was denied was told why");
        // Each request may displace the other key's claim once. So three of them may be told that
        // there is no place, and only the last one has the slot.
        assert!(charged + claimed >= 1, "one of the two has the slot");
    });
}

#[test]
fn a_take_over_against_a_charge_with_room_for_both() {
    explore_two_to("compact: room for both, 2 threads x 2", 3, Preemptions::Any, || {
        let gate = compact(burst(1), ONE_BUCKET, OnFull::Deny);
        assert_eq!(ask(&gate, OTHER, at(1)), 1);
        let other = Arc::clone(&gate);
        let thread = thread::spawn(move || ask(&other, KEY, at(100)) + ask(&other, KEY, at(100)));
        let charged = ask(&gate, OTHER, at(100)) + ask(&gate, OTHER, at(100));
        assert_eq!((charged, thread.join().unwrap()), (1, 1));
        assert_eq!(left(&gate, OTHER, at(100)) + left(&gate, KEY, at(100)), 0);
    });
}

/// The idle key's own clock is behind, by less than what is allowed for.
#[test]
fn within_the_clock_skew_no_state_is_lost() {
    explore_two_to("compact: clocks 1 ms apart", 3, Preemptions::Any, || {
        let gate = compact(burst(1), ONE_BUCKET, OnFull::Deny);
        assert_eq!(ask(&gate, OTHER, at(1)) + ask(&gate, NEIGHBOUR, at(2)), 2);
        let other = Arc::clone(&gate);
        // Idle at 2 s exactly; the claimant's clock is 1 ms past that, less a bit.
        let claimant_now = at(2).saturating_add(Duration::from_micros(999));
        let stale = at(2).saturating_sub(Duration::from_micros(1));
        let thread = thread::spawn(move || ask(&other, KEY, claimant_now));
        let charged = ask(&gate, OTHER, stale);
        assert_eq!((charged, thread.join().unwrap()), (0, 0), "empty, and not idle");
    });
}

#[test]
fn an_eviction_against_charges() {
    explore_two("compact: eviction against 2 charges", || {
        let gate = compact(burst(2), ONE_BUCKET, OnFull::EvictNearestIdle);
        assert_eq!(ask(&gate, OTHER, at(1)), 1);
        assert_eq!(ask(&gate, NEIGHBOUR, at(1)) + ask(&gate, NEIGHBOUR, at(1)), 2);
        let other = Arc::clone(&gate);
        let thread = thread::spawn(move || ask(&other, KEY, at(1)));
        let charged = 1 + ask(&gate, OTHER, at(1)) + ask(&gate, OTHER, at(1));
        assert_eq!(thread.join().unwrap(), 1, "the new key is served");
        let evicted = gate.stats().evicted;
        assert!(evicted >= 1);
        assert!(charged <= 2 * (1 + evicted), "{charged} granted, {evicted} evicted");
    });
}

/// One thread frees a slot before the one that the other has chosen, so that they claim different
/// slots, and one of the claims is given up.
fn both_claim_different_slots(neighbour: u64) {
    let gate = compact(burst(1), ONE_BUCKET, OnFull::Deny);
    assert_eq!(ask(&gate, neighbour, at(1)), 1);
    let other = Arc::clone(&gate);
    let thread = thread::spawn(move || {
        other.reset(&neighbour);
        ask(&other, KEY, at(1))
    });
    let mine = ask(&gate, KEY, at(1));
    assert_eq!(mine + thread.join().unwrap(), 1, "granted in all");
    assert_eq!(left(&gate, KEY, at(1)), 0, "no charge was lost");
    assert_eq!(gate.len_at(at(1)), 1, "what was given up is vacant");
    assert_eq!(ask(&gate, neighbour, at(1)), 1, "the neighbour starts afresh");
}

#[test]
fn two_claims_of_one_key_in_different_slots() {
    explore_two_whole("compact: same key, different slots, 2 threads", || {
        both_claim_different_slots(NEIGHBOUR);
    });
}

/// The mistake avoided: a claim is committed without looking for another.
#[test]
#[should_panic(expected = "granted in all")]
fn without_the_survey_a_key_has_two_slots() {
    plant(Fault::SurveySkipped);
    catch_two("compact: survey skipped", || both_claim_different_slots(NEIGHBOUR));
}

/// The mistake avoided: the survey may have happened before the claim, as others see it.
#[test]
#[should_panic(expected = "granted in all")]
fn without_the_fence_a_key_has_two_slots() {
    plant(Fault::FenceLeftOut);
    catch_two("compact: fence left out", || both_claim_different_slots(NEIGHBOUR));
}

/// A thread has surveyed for a claim, and is late to commit it. By then the key has been given up
/// there, has a slot elsewhere, and is just being claimed again in the first.
fn a_late_committer() {
    let gate = compact(burst(1), ONE_BUCKET, OnFull::Deny);
    let once = |gate: &Gate| ask(gate, KEY, at(1));
    let moves = |gate: &Gate| {
        let first = ask(gate, KEY, at(1));
        gate.reset(&KEY);
        let _ = ask(gate, OTHER, at(1));
        let second = ask(gate, KEY, at(1));
        gate.reset(&OTHER);
        first + second
    };
    let granted = together(&gate, (once, moves, once));
    assert!((1..=2).contains(&granted), "{granted} granted, and 1 reset");
}

#[test]
fn a_late_committer_commits_no_later_claim() {
    explore_latest("compact: late committer", 3, Preemptions::To(4), a_late_committer);
}

/// The mistake avoided: claims of one key look alike.
#[test]
#[should_panic(expected = "3 granted")]
fn without_the_nonce_a_late_committer_commits_a_later_claim() {
    plant(Fault::NonceKept);
    catch_latest("compact: nonce kept", 4, a_late_committer);
}

/// A thread that lost a race for the second slot looks at the first, then sees a claim of its key
/// in the second. The key may have been seated in the first in between.
fn a_claim_just_seen() {
    let gate = compact(burst(1), ONE_BUCKET, OnFull::Deny);
    assert_eq!(ask(&gate, NEIGHBOUR, at(1)), 1);
    let once = |gate: &Gate| ask(gate, KEY, at(1));
    let makes_room = |gate: &Gate| {
        let _ = ask(gate, OTHER, at(1));
        gate.reset(&NEIGHBOUR);
        gate.reset(&OTHER);
        ask(gate, KEY, at(1))
    };
    let granted = together(&gate, (once, once, makes_room));
    assert!(granted <= 1, "{granted} granted");
}

#[test]
fn a_claim_just_seen_is_surveyed_for_again() {
    explore_latest("compact: claim just seen", 2, Preemptions::To(4), a_claim_just_seen);
}

/// The mistake avoided: a claim is committed that this thread knew nothing of before its fence.
#[test]
#[should_panic(expected = "2 granted")]
fn a_claim_just_seen_is_not_yet_surveyed_for() {
    plant(Fault::ClaimJustSeen);
    catch_latest("compact: claim just seen", 5, a_claim_just_seen);
}
