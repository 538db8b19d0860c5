//! A thread stops while it publishes words of a ring, or before it advances the head: `src/cell/ring.rs`.

use std::sync::Arc;
use std::time::Duration;

use loom_tests::stopped::beside_a_doomed;
use loom_tests::{
    Bucket, Keyed, ONE_BUCKET, Preemptions::To, Story, ask, at, bucket, catch_stops,
    explore_no_stop, explore_stops, keyed, left,
};
use tollgate::algorithm::Algorithm;
use tollgate::internals::{Fault, plant};
use tollgate::{OnFull, Quota, SlidingLog, SubWindows};

/// `limit` cells in any two successive seconds.
fn two_seconds(limit: u64) -> Arc<Bucket<SubWindows>> {
    bucket(SubWindows::new().count(2), Quota::new(limit, Duration::from_secs(2)))
}

/// `limit` cells in any ten seconds.
fn ten_seconds(limit: u64) -> Arc<Bucket<SlidingLog>> {
    bucket(SlidingLog::new(), Quota::new(limit, Duration::from_secs(10)))
}

/// Both threads first use a bucket.
const FIRST_USE: Story = Story {
    before: &[],
    threads: &[&[(1, 1_000)], &[(1, 1_000), (1, 1_000)]],
    after: &[(0, 1_000), (3, 11_000), (1, 11_000)],
};

/// The second thread advances to the next second, the first charges before and after.
const ROTATION: Story = Story {
    before: &[(1, 1_000)],
    threads: &[&[(1, 1_000), (1, 2_000)], &[(1, 2_000), (1, 3_000)]],
    after: &[(0, 3_000), (1, 3_000), (3, 4_000), (1, 5_000), (4, 6_000)],
};

/// The next charge publishes three places. The second thread asks again at 3 s, and so publishes more.
const BUNDLE: Story = Story {
    before: &[(3, 1_000)],
    threads: &[&[(1, 2_000)], &[(1, 2_000), (1, 3_000)]],
    after: &[(0, 3_000), (1, 3_000), (3, 11_000), (1, 11_000), (1, 12_000), (5, 21_000)],
};

/// Each event takes one of two places from one of the last round.
const REUSE: Story = Story {
    before: &[(2, 1_000)],
    threads: &[&[(1, 11_000)], &[(1, 11_000), (1, 21_000)]],
    after: &[(0, 21_000), (1, 30_999), (1, 31_000), (1, 31_000), (1, 31_000)],
};

#[test]
fn windows_first_used_by_one_that_stops_grant_their_limit() {
    explore_stops("stopped: windows, first use", To(4), 4, |steps| {
        FIRST_USE.play_beside_a_doomed(&two_seconds(3), steps)
    });
}

#[test]
fn a_log_first_used_by_one_that_stops_grants_its_limit() {
    explore_stops("stopped: log, first use", To(3), 7, |steps| {
        FIRST_USE.play_beside_a_doomed(&ten_seconds(3), steps)
    });
}

#[test]
fn an_advance_of_windows_that_is_left_loses_no_count() {
    explore_stops("stopped: windows, advance", To(3), 6, rotation);
}

#[test]
fn a_bundle_that_is_published_in_part_loses_no_event() {
    explore_stops("stopped: log, bundle of 3", To(2), 6, bundle);
}

#[test]
fn a_place_that_is_used_again_by_one_that_stops_loses_no_event() {
    explore_stops("stopped: log, 2 places used again", To(3), 7, |steps| {
        REUSE.play_beside_a_doomed(&ten_seconds(2), steps)
    });
}

fn bundle(steps: usize) -> bool {
    BUNDLE.play_beside_a_doomed(&ten_seconds(5), steps)
}

fn rotation(steps: usize) -> bool {
    ROTATION.play_beside_a_doomed(&two_seconds(4), steps)
}

/// The planted fault: a thread waits until the one that has published advances the head. While all threads
/// live, that ends.
#[test]
fn a_thread_that_waits_for_a_living_publisher_is_served() {
    plant(Fault::PublisherAwaited);
    explore_no_stop("stopped: publisher awaited, log, all live", bundle);
    explore_no_stop("stopped: publisher awaited, windows, all live", rotation);
}

#[test]
#[should_panic(expected = "maximum number of branches")]
fn a_thread_that_waits_for_a_dead_publisher_of_a_log_waits_for_ever() {
    plant(Fault::PublisherAwaited);
    catch_stops("stopped: publisher awaited", bundle);
}

#[test]
#[should_panic(expected = "maximum number of branches")]
fn a_thread_that_waits_for_a_dead_publisher_of_windows_waits_for_ever() {
    plant(Fault::PublisherAwaited);
    catch_stops("stopped: publisher awaited", rotation);
}

const OLD: u64 = 1;
const NEW: u64 = 2;
const NEIGHBOUR: u64 = 3;

/// An idle key with three cells has the slot that another key wants. A thread charges `theirs` and may stop,
/// this one charges the other of the two.
fn a_take_over<A: Algorithm + 'static>(gate: &Arc<Keyed<A>>, theirs: u64, steps: usize) -> bool {
    let mine = OLD + NEW - theirs;
    assert_eq!(ask(gate, OLD, at(1)), 1);
    assert_eq!(ask(gate, NEIGHBOUR, at(100)), 1);
    let (doomed, granted) = beside_a_doomed(
        gate,
        steps,
        move |gate, granted| *granted += ask(gate, theirs, at(100)),
        move |gate| ask(gate, mine, at(100)) + ask(gate, mine, at(100)),
    );
    let again = ask(gate, mine, at(100));
    assert!(doomed.counted == 0 || granted + again == 0, "one slot, one key");
    assert!(doomed.counted == 1 || granted + again >= 2, "a key is served");
    assert_eq!(left(gate, mine, at(100)), 3 - granted - again, "exactly its own charges count");
    assert_eq!(left(gate, theirs, at(100)), 3 - doomed.counted, "a charge that was left is none");
    assert_eq!(left(gate, NEIGHBOUR, at(100)), 2);
    assert_eq!(ask(gate, theirs, at(300)), 1, "a key whose claimant may have died is served");
    assert_eq!(left(gate, theirs, at(300)), 2);
    doomed.has_stopped
}

fn windows() -> Arc<Keyed<SubWindows>> {
    let quota = Quota::new(3, Duration::from_secs(2));
    keyed(SubWindows::new().count(2), quota, ONE_BUCKET, OnFull::Deny)
}

fn log() -> Arc<Keyed<SlidingLog>> {
    keyed(SlidingLog::new(), Quota::new(3, Duration::from_secs(10)), ONE_BUCKET, OnFull::Deny)
}

#[test]
fn a_take_over_of_windows_that_is_left_is_finished_or_displaced() {
    explore_stops("stopped: windows, take-over", To(2), 6, |steps| {
        a_take_over(&windows(), NEW, steps)
    });
}

#[test]
fn a_take_over_of_a_log_that_is_left_is_finished_or_displaced() {
    explore_stops("stopped: log, take-over", To(2), 7, |steps| a_take_over(&log(), NEW, steps));
}

#[test]
fn a_charge_of_windows_that_is_left_does_not_reach_the_next_key() {
    explore_stops("stopped: windows, late charge", To(2), 8, |steps| {
        a_take_over(&windows(), OLD, steps)
    });
}

#[test]
fn a_charge_of_a_log_that_is_left_does_not_reach_the_next_key() {
    explore_stops("stopped: log, late charge", To(1), 6, |steps| a_take_over(&log(), OLD, steps));
}
