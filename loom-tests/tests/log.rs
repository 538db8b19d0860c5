//! Logs in a ring: the next charge publishes the last event, and each round reuses the places of the ring.
//!
//! The protocol is in `src/cell/ring.rs`: publish, then advance.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use loom_tests::{
    Bucket, Preemptions, Story, bucket, catch_two, explore_four, explore_latest, explore_two,
    explore_two_to, explore_two_whole,
};
use tollgate::internals::{Fault, plant};
use tollgate::{Quota, SlidingLog};

/// `limit` cells in any ten seconds.
fn ten_seconds(limit: u64) -> Arc<Bucket<SlidingLog>> {
    bucket(SlidingLog::new(), Quota::new(limit, Duration::from_secs(10)))
}

/// The same, and denials are counted too.
fn ten_quiet_seconds(limit: u64) -> Arc<Bucket<SlidingLog>> {
    bucket(SlidingLog::new().count_denials(), Quota::new(limit, Duration::from_secs(10)))
}

#[test]
fn two_threads_that_first_use_a_bucket_are_granted_its_limit() {
    explore_two_to("log: first use, 2 threads x 2", 2, Preemptions::To(3), || {
        let story = Story {
            before: &[],
            threads: &[&[(1, 1_000), (1, 1_000)], &[(1, 1_000), (1, 1_000)]],
            after: &[(0, 1_000), (2, 11_000), (1, 11_000), (1, 11_000)],
        };
        assert_eq!(story.play(&ten_seconds(3)), 3, "granted in all");
    });
}

#[test]
fn two_threads_on_one_log_are_granted_its_limit() {
    explore_two("log: 2 threads x 2", || {
        let story = Story {
            before: &[(1, 1_000)],
            threads: &[&[(1, 2_000), (1, 2_000)], &[(1, 2_000), (1, 2_000)]],
            after: &[(0, 2_000), (1, 11_000), (1, 11_000), (2, 12_000)],
        };
        assert_eq!(story.play(&ten_seconds(3)), 2, "granted in all");
    });
}

/// Each event takes the only place of the ring from the last one.
#[test]
fn a_ring_of_one_place_is_used_again() {
    explore_two("log: 1 place, 2 threads x 2", || {
        let story = Story {
            before: &[(1, 1_000)],
            threads: &[&[(1, 11_000), (1, 21_000)], &[(1, 11_000), (1, 21_000)]],
            after: &[(0, 21_000), (1, 30_999), (1, 31_000)],
        };
        assert_eq!(story.play(&ten_seconds(1)), 2, "granted in all");
    });
}

#[test]
fn a_ring_of_two_places_is_used_again() {
    explore_two_to("log: 2 places, 1 against 2", 2, Preemptions::To(4), || {
        let story = Story {
            before: &[(2, 1_000)],
            threads: &[&[(1, 21_000)], &[(1, 11_000), (1, 21_000)]],
            after: &[(0, 21_000), (1, 30_999), (1, 31_000), (1, 31_000), (1, 31_000)],
        };
        // Time in a log never moves back: if 21 s comes first, the cell of 11 s counts from 21 s on,
        // and there is no room for the third.
        assert!((2..=3).contains(&story.play(&ten_seconds(2))), "granted in all");
    });
}

/// After a charge of three cells, the next charge publishes three places. Here two threads do so at once.
const BUNDLE: Story = Story {
    before: &[(3, 1_000)],
    threads: &[&[(1, 2_000)], &[(1, 2_000)]],
    after: &[(0, 2_000), (1, 11_000), (1, 11_000), (1, 11_000), (1, 11_000)],
};

#[test]
fn a_bundle_is_published_by_two_threads() {
    explore_two("log: bundle of 3 published by 2 threads", || {
        assert_eq!(BUNDLE.play(&ten_seconds(4)), 1, "granted in all");
    });
}

#[test]
fn a_bundle_is_published_by_three_threads() {
    explore_latest("log: bundle of 2 published by 3 threads", 3, Preemptions::To(4), || {
        let story = Story {
            before: &[(2, 1_000)],
            threads: &[&[(1, 2_000)], &[(1, 2_000)], &[(0, 2_000)]],
            after: &[(0, 2_000), (1, 11_000), (1, 11_000), (1, 11_000)],
        };
        assert_eq!(story.play(&ten_seconds(3)), 1, "granted in all");
    });
}

#[test]
#[ignore = "4 threads: in the full run"]
fn a_bundle_is_published_by_four_threads() {
    explore_four("log: bundle of 2 published by 4 threads", || {
        let story = Story {
            before: &[(2, 1_000)],
            threads: &[&[(1, 2_000)], &[(1, 2_000)], &[(0, 2_000)], &[(1, 2_000)]],
            after: &[(0, 2_000), (1, 11_000), (1, 11_000), (1, 11_000)],
        };
        assert_eq!(story.play(&ten_seconds(4)), 2, "granted in all");
    });
}

/// The planted fault: a thread advances the head before it has published the head's time in the ring.
#[test]
#[should_panic(expected = "no order explains")]
fn without_the_publication_a_bundle_becomes_younger() {
    plant(Fault::PublishLeftOut);
    catch_two("log: publication left out", || {
        let _ = BUNDLE.play(&ten_seconds(4));
    });
}

#[test]
fn a_bundle_against_two_single_cells_loses_no_event() {
    explore_two_whole("log: bundle of 2 against 2 charges", || {
        let story = Story {
            before: &[(1, 1_000)],
            threads: &[&[(2, 2_000)], &[(1, 2_000), (1, 2_000)]],
            after: &[(0, 2_000), (1, 11_000), (1, 11_000), (2, 12_000)],
        };
        assert_eq!(story.play(&ten_seconds(3)), 2, "granted in all");
    });
}

/// Each of four events wants one of the two places.
#[test]
#[ignore = "4 threads: in the full run"]
fn a_ring_of_two_places_is_used_by_four_threads() {
    explore_four("log: 2 places, 4 threads", || {
        let story = Story {
            before: &[(2, 1_000)],
            threads: &[&[(1, 11_000)], &[(1, 11_000)], &[(1, 21_000)], &[(1, 21_000)]],
            after: &[(0, 21_000), (1, 30_999), (1, 31_000), (1, 31_000)],
        };
        let granted = story.play(&ten_seconds(2));
        assert!((2..=4).contains(&granted), "{granted} granted in all");
    });
}

/// A thread reads the head, and the other then goes once round the ring, so that the place holds another
/// event.
const LATE_PUBLISHER: Story = Story {
    before: &[(2, 1_000)],
    threads: &[&[(1, 12_000)], &[(1, 11_000), (1, 12_000)]],
    after: &[(0, 12_000), (1, 21_000), (1, 21_000), (1, 22_000)],
};

#[test]
fn a_late_publisher_writes_nothing() {
    explore_two_to("log: late publisher, 1 against 2", 2, Preemptions::To(4), || {
        assert_eq!(LATE_PUBLISHER.play(&ten_seconds(2)), 2, "granted in all");
    });
}

/// The planted fault: a thread publishes an event for a head that has advanced.
#[test]
#[should_panic(expected = "no order explains")]
fn without_the_check_a_late_publisher_replaces_a_later_event() {
    plant(Fault::PublishUnchecked);
    catch_two("log: publish unchecked", || {
        let _ = LATE_PUBLISHER.play(&ten_seconds(2));
    });
}

/// Three of four cells have expired by 12 s. While one thread asks then, the other takes two, which
/// puts an event of 12 s in place of the first of the three.
const DENIAL: Story = Story {
    before: &[(3, 1_000), (1, 5_000)],
    threads: &[&[(1, 12_000)], &[(1, 12_000), (1, 12_000)]],
    after: &[(0, 12_000), (1, 12_000), (1, 15_000), (1, 15_000)],
};

#[test]
fn a_denial_is_by_the_events_of_its_own_head() {
    explore_two("log: denial, 1 against 2", || {
        assert_eq!(DENIAL.play(&ten_seconds(4)), 3, "there is always room");
    });
}

/// The planted fault: events of a later head are taken for those of the head that was read.
#[test]
#[should_panic(expected = "no order explains")]
fn without_the_second_load_a_denial_is_by_events_of_two_heads() {
    plant(Fault::RecheckSkipped);
    catch_two("log: recheck skipped", || {
        let _ = DENIAL.play(&ten_seconds(4));
    });
}

/// The same, and the first thread only peeks.
#[test]
fn a_peek_is_by_the_events_of_its_own_head() {
    explore_two_whole("log: peek against 2 charges", || {
        let story = Story { threads: &[&[(0, 12_000)], &[(1, 12_000), (1, 12_000)]], ..DENIAL };
        assert_eq!(story.play(&ten_seconds(4)), 2, "there is always room");
    });
}

#[test]
fn denials_that_are_counted_take_places() {
    explore_two("log: counted denials, 2 threads", || {
        let story = Story {
            before: &[(1, 1_000)],
            threads: &[&[(1, 2_000), (1, 3_000)], &[(1, 3_000)]],
            after: &[(0, 3_000), (1, 11_000), (1, 13_000), (1, 21_000), (1, 23_000)],
        };
        assert_eq!(story.play(&ten_quiet_seconds(2)), 1, "granted in all");
    });
}
