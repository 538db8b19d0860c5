//! Events in a ring: places are put by whoever comes next, and used again round by round.

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

/// The same, and denials count too.
fn ten_quiet_seconds(limit: u64) -> Arc<Bucket<SlidingLog>> {
    bucket(SlidingLog::new().count_denials(), Quota::new(limit, Duration::from_secs(10)))
}

#[test]
fn a_bucket_is_used_for_the_first_time() {
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
fn two_threads_on_one_log() {
    explore_two("log: 2 threads x 2", || {
        let story = Story {
            before: &[(1, 1_000)],
            threads: &[&[(1, 2_000), (1, 2_000)], &[(1, 2_000), (1, 2_000)]],
            after: &[(0, 2_000), (1, 11_000), (1, 11_000), (2, 12_000)],
        };
        assert_eq!(story.play(&ten_seconds(3)), 2, "granted in all");
    });
}

/// Each event takes the only place from the last one.
#[test]
fn one_place_is_used_again() {
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
fn two_places_are_used_again() {
    explore_two_to("log: 2 places, 1 against 2", 2, Preemptions::To(4), || {
        let story = Story {
            before: &[(2, 1_000)],
            threads: &[&[(1, 21_000)], &[(1, 11_000), (1, 21_000)]],
            after: &[(0, 21_000), (1, 30_999), (1, 31_000), (1, 31_000), (1, 31_000)],
        };
        // Time in a log never moves back: where 21 s comes first, the cell of 11 s counts from 21 s
        // on, and there is no room for the third.
        assert!((2..=3).contains(&story.play(&ten_seconds(2))), "granted in all");
    });
}

/// Three cells at once leave three places to be put by who comes next: two threads at once.
const BUNDLE: Story = Story {
    before: &[(3, 1_000)],
    threads: &[&[(1, 2_000)], &[(1, 2_000)]],
    after: &[(0, 2_000), (1, 11_000), (1, 11_000), (1, 11_000), (1, 11_000)],
};

#[test]
fn a_bundle_is_put_by_two_threads() {
    explore_two("log: bundle of 3 put by 2 threads", || {
        assert_eq!(BUNDLE.play(&ten_seconds(4)), 1, "granted in all");
    });
}

#[test]
fn a_bundle_is_put_by_three_threads() {
    explore_latest("log: bundle of 2 put by 3 threads", 3, Preemptions::To(4), || {
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
fn a_bundle_is_put_by_four_threads() {
    explore_four("log: bundle of 2 put by 4 threads", || {
        let story = Story {
            before: &[(2, 1_000)],
            threads: &[&[(1, 2_000)], &[(1, 2_000)], &[(0, 2_000)], &[(1, 2_000)]],
            after: &[(0, 2_000), (1, 11_000), (1, 11_000), (1, 11_000)],
        };
        assert_eq!(story.play(&ten_seconds(4)), 2, "granted in all");
    });
}

/// The mistake avoided: the head moves on before its own time is in the ring.
#[test]
#[should_panic(expected = "no order explains")]
fn without_the_put_a_bundle_becomes_younger() {
    plant(Fault::PutLeftOut);
    catch_two("log: put left out", || {
        let _ = BUNDLE.play(&ten_seconds(4));
    });
}

#[test]
fn a_bundle_against_two_single_cells() {
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
fn two_places_are_used_by_four_threads() {
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

/// Read before the other thread went once round the ring: its place has another event by now.
const LATE_PUBLISHER: Story = Story {
    before: &[(2, 1_000)],
    threads: &[&[(1, 12_000)], &[(1, 11_000), (1, 12_000)]],
    after: &[(0, 12_000), (1, 21_000), (1, 21_000), (1, 22_000)],
};

#[test]
fn a_late_publisher() {
    explore_two_to("log: late publisher, 1 against 2", 2, Preemptions::To(4), || {
        assert_eq!(LATE_PUBLISHER.play(&ten_seconds(2)), 2, "granted in all");
    });
}

/// The mistake avoided: an event is put for a head that has moved on.
#[test]
#[should_panic(expected = "no order explains")]
fn without_the_check_a_late_put_replaces_a_later_event() {
    plant(Fault::PutUnchecked);
    catch_two("log: put unchecked", || {
        let _ = LATE_PUBLISHER.play(&ten_seconds(2));
    });
}

/// Three of four cells have left by 12 s. While one thread asks then, the other takes two, which
/// puts an event of 12 s where the first of the three stood.
const DENIAL: Story = Story {
    before: &[(3, 1_000), (1, 5_000)],
    threads: &[&[(1, 12_000)], &[(1, 12_000), (1, 12_000)]],
    after: &[(0, 12_000), (1, 12_000), (1, 15_000), (1, 15_000)],
};

#[test]
fn a_denial_has_its_reason() {
    explore_two("log: denial, 1 against 2", || {
        assert_eq!(DENIAL.play(&ten_seconds(4)), 3, "there is always room");
    });
}

/// The mistake avoided: events of a later head are taken for those of the head that was read.
#[test]
#[should_panic(expected = "no order explains")]
fn without_the_second_look_there_is_a_denial_without_reason() {
    plant(Fault::RecheckSkipped);
    catch_two("log: recheck skipped", || {
        let _ = DENIAL.play(&ten_seconds(4));
    });
}

/// The same, and the first thread only looks.
#[test]
fn a_look_has_its_reason() {
    explore_two_whole("log: peek against 2 charges", || {
        let story = Story { threads: &[&[(0, 12_000)], &[(1, 12_000), (1, 12_000)]], ..DENIAL };
        assert_eq!(story.play(&ten_seconds(4)), 2, "there is always room");
    });
}

#[test]
fn denials_that_count() {
    explore_two("log: counted denials, 2 threads", || {
        let story = Story {
            before: &[(1, 1_000)],
            threads: &[&[(1, 2_000), (1, 3_000)], &[(1, 3_000)]],
            after: &[(0, 3_000), (1, 11_000), (1, 13_000), (1, 21_000), (1, 23_000)],
        };
        assert_eq!(story.play(&ten_quiet_seconds(2)), 1, "granted in all");
    });
}
