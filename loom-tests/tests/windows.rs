//! Sub-windows in a ring: a thread advances the head to the next sub-window while others charge.
//!
//! The protocol is in `src/cell/ring.rs`: publish, then advance.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use loom_tests::{
    Bucket, Preemptions, Story, at_millis, bucket, catch_two, explore_four, explore_three,
    explore_two, explore_two_to,
};
use tollgate::internals::{Fault, plant};
use tollgate::{Quota, SlidingCounter, SubWindows};

/// `limit` cells in any two successive seconds.
fn two_seconds(limit: u64) -> Arc<Bucket<SubWindows>> {
    bucket(SubWindows::new().count(2), Quota::new(limit, Duration::from_secs(2)))
}

/// `limit` cells a second, estimated.
fn weighed_second(limit: u64) -> Arc<Bucket<SlidingCounter>> {
    bucket(SlidingCounter::new(), Quota::per_second(limit))
}

#[test]
fn two_threads_that_first_use_a_bucket_are_granted_its_limit() {
    explore_two("windows: first use, 2 threads x 2", || {
        let story = Story {
            before: &[],
            threads: &[&[(1, 1_000), (1, 1_000)], &[(1, 1_000), (1, 1_000)]],
            after: &[(0, 1_000), (2, 2_000), (3, 3_000)],
        };
        assert_eq!(story.play(&two_seconds(3)), 3, "granted in all");
    });
}

/// A life 1,024 resets ago had the same generation, and left a count of the second that the new life
/// counts by.
#[test]
fn a_bucket_used_again_after_all_generations_ignores_old_counts() {
    explore_two("windows: use after 1,024 resets, 2 threads", || {
        let bucket = two_seconds(3);
        for millis in [1_000, 2_000] {
            assert!(bucket.ask().at(at_millis(millis)).check().is_ok());
        }
        (0..1_024).for_each(|_| bucket.reset());
        let story = Story {
            before: &[],
            threads: &[&[(2, 2_000)], &[(2, 2_000)]],
            after: &[(0, 2_000), (1, 3_000), (1, 3_000), (2, 4_000), (1, 5_000)],
        };
        assert_eq!(story.play(&bucket), 2, "granted in all");
    });
}

/// One thread advances to the next second, the other charges in the second that has begun.
const ROTATION: Story = Story {
    before: &[(1, 1_000)],
    threads: &[&[(1, 2_000)], &[(1, 1_000), (1, 1_000)]],
    after: &[(0, 2_000), (1, 3_000), (3, 3_000), (1, 4_000), (3, 5_000)],
};

#[test]
fn an_advance_against_two_charges_loses_no_count() {
    explore_two_to("windows: advance against 2 charges", 3, Preemptions::Any, || {
        assert_eq!(ROTATION.play(&two_seconds(3)), 2, "granted in all");
    });
}

/// The planted fault: a thread advances the head before its count is in the ring.
#[test]
#[should_panic(expected = "no order explains")]
fn without_the_publication_a_count_is_lost() {
    plant(Fault::PublishLeftOut);
    catch_two("windows: publication left out", || {
        let _ = ROTATION.play(&two_seconds(3));
    });
}

#[test]
fn two_advances_at_once_lose_no_count() {
    explore_two("windows: 2 advances, 2 threads x 2", || {
        let story = Story {
            before: &[(1, 1_000)],
            threads: &[&[(1, 2_000), (1, 2_000)], &[(1, 2_000), (1, 2_000)]],
            after: &[(0, 2_000), (1, 3_000), (1, 3_000), (1, 4_000), (2, 4_000)],
        };
        assert_eq!(story.play(&two_seconds(3)), 2, "granted in all");
    });
}

/// One thread advances by one second, the other by two: the longer advance discards the count that the
/// other would publish.
#[test]
fn two_advances_of_different_length_lose_no_count() {
    explore_two("windows: advances by 1 and 2, 2 threads x 2", || {
        let story = Story {
            before: &[(2, 1_000)],
            threads: &[&[(1, 2_000), (1, 2_000)], &[(1, 3_000), (1, 3_000)]],
            after: &[(0, 3_000), (1, 4_000), (1, 4_000), (1, 5_000), (2, 5_000)],
        };
        assert_eq!(story.play(&two_seconds(3)), 3, "granted in all");
    });
}

/// The ring holds two older counts, and the thread that advances by two keeps one of them.
#[test]
fn two_advances_with_two_older_counts_lose_no_count() {
    explore_two("windows: 3 sub-windows, advances by 1 and 2", || {
        let quota = Quota::new(4, Duration::from_secs(3));
        let story = Story {
            before: &[(1, 1_000), (1, 2_000)],
            threads: &[&[(1, 3_000), (1, 3_000)], &[(1, 2_000), (1, 4_000)]],
            after: &[(0, 4_000), (1, 5_000), (1, 5_000), (1, 6_000), (1, 6_000), (4, 8_000)],
        };
        let granted = story.play(&bucket(SubWindows::new().count(3), quota));
        // At 4 s the first cell has expired.
        assert!((2..=3).contains(&granted), "{granted} granted in all");
    });
}

#[test]
fn advances_by_three_threads_lose_no_count() {
    explore_three("windows: 2 advances and a charge, 3 threads", || {
        let story = Story {
            before: &[(1, 1_000)],
            threads: &[&[(1, 2_000)], &[(1, 1_000)], &[(1, 2_000)]],
            after: &[(0, 2_000), (1, 3_000), (1, 3_000), (3, 4_000), (3, 5_000)],
        };
        assert_eq!(story.play(&two_seconds(3)), 2, "granted in all");
    });
}

#[test]
#[ignore = "4 threads: in the full run"]
fn advances_by_four_threads_lose_no_count() {
    explore_four("windows: advances by 1 and 2, a charge and a peek, 4 threads", || {
        let story = Story {
            before: &[(1, 1_000)],
            threads: &[&[(1, 2_000)], &[(1, 1_000)], &[(1, 3_000)], &[(0, 2_000)]],
            after: &[(0, 3_000), (1, 4_000), (1, 4_000), (1, 5_000), (2, 5_000)],
        };
        // At 3 s the first cell has expired.
        let granted = story.play(&two_seconds(3));
        assert!((2..=3).contains(&granted), "{granted} granted in all");
    });
}

/// A thread reads the head before the other charges once more and advances: the count that it would
/// publish is out of date.
const LATE_PUBLISHER: Story = Story {
    before: &[(1, 1_000)],
    threads: &[&[(1, 2_000)], &[(1, 1_000), (1, 2_000)]],
    after: &[(0, 2_000), (1, 3_000), (3, 3_000), (2, 4_000)],
};

#[test]
fn a_late_publisher_writes_nothing() {
    explore_two("windows: late publisher, 1 against 2", || {
        assert_eq!(LATE_PUBLISHER.play(&two_seconds(5)), 3, "granted in all");
    });
}

/// The planted fault: a thread publishes a count for a head that has advanced.
#[test]
#[should_panic(expected = "no order explains")]
fn without_the_check_a_late_publisher_replaces_the_final_count() {
    plant(Fault::PublishUnchecked);
    catch_two("windows: publish unchecked", || {
        let _ = LATE_PUBLISHER.play(&two_seconds(5));
    });
}

/// Three of four cells expire as the third second begins. While one thread asks then, the other asks
/// then and a second later, which puts another count in place of those three.
const DENIAL: Story = Story {
    before: &[(3, 1_000), (1, 2_000)],
    threads: &[&[(1, 3_000)], &[(1, 3_000), (1, 4_000)]],
    after: &[(0, 4_000), (1, 4_000), (3, 5_000), (4, 6_000)],
};

#[test]
fn a_denial_is_by_the_counts_of_its_own_head() {
    explore_two("windows: denial, 1 against 2", || {
        assert_eq!(DENIAL.play(&two_seconds(4)), 3, "there is always room");
    });
}

/// The planted fault: counts of a later head are taken for those of the head that was read.
#[test]
#[should_panic(expected = "no order explains")]
fn without_the_second_load_a_denial_is_by_counts_of_two_heads() {
    plant(Fault::RecheckSkipped);
    catch_two("windows: recheck skipped", || {
        let _ = DENIAL.play(&two_seconds(4));
    });
}

/// The same, and the first thread only peeks.
const PEEK: Story = Story { threads: &[&[(0, 3_000)], &[(1, 3_000), (1, 4_000)]], ..DENIAL };

#[test]
fn a_peek_is_by_the_counts_of_its_own_head() {
    explore_two_to("windows: peek against 2 charges", 3, Preemptions::Any, || {
        assert_eq!(PEEK.play(&two_seconds(4)), 2, "there is always room");
    });
}

#[test]
#[should_panic(expected = "no order explains")]
fn without_the_second_load_a_peek_is_by_counts_of_two_heads() {
    plant(Fault::RecheckSkipped);
    catch_two("windows: peek, recheck skipped", || {
        let _ = PEEK.play(&two_seconds(4));
    });
}

/// The next second of a weighed count, half of which has passed.
const WEIGHED_ROTATION: Story = Story {
    before: &[(2, 1_000)],
    threads: &[&[(1, 2_500)], &[(1, 1_000), (1, 2_500)]],
    after: &[(0, 2_500), (1, 2_500), (1, 3_000), (1, 3_500), (4, 4_000)],
};

#[test]
fn a_weighed_advance_against_two_charges_loses_no_count() {
    explore_two("counter: advance against 2 charges", || {
        assert_eq!(WEIGHED_ROTATION.play(&weighed_second(4)), 3, "granted in all");
    });
}

#[test]
#[should_panic(expected = "no order explains")]
fn without_the_publication_a_weighed_count_is_lost() {
    plant(Fault::PublishLeftOut);
    catch_two("counter: publication left out", || {
        let _ = WEIGHED_ROTATION.play(&weighed_second(4));
    });
}

#[test]
#[should_panic(expected = "no order explains")]
fn without_the_check_a_late_publisher_replaces_the_final_weighed_count() {
    plant(Fault::PublishUnchecked);
    catch_two("counter: publish unchecked", || {
        let _ = WEIGHED_ROTATION.play(&weighed_second(4));
    });
}

#[test]
#[ignore = "4 threads: in the full run"]
fn weighed_advances_by_four_threads_lose_no_count() {
    explore_four("counter: 3 advances and a charge, 4 threads", || {
        let story = Story {
            before: &[(2, 1_000)],
            threads: &[&[(1, 2_500)], &[(1, 1_000)], &[(1, 2_500)], &[(1, 2_500)]],
            after: &[(0, 2_500), (1, 2_500), (1, 3_000), (1, 3_500), (4, 4_000)],
        };
        let granted = story.play(&weighed_second(4));
        assert!((3..=4).contains(&granted), "{granted} granted in all");
    });
}

#[test]
fn two_weighed_advances_at_once_lose_no_count() {
    explore_two("counter: 2 advances, 2 threads x 2", || {
        let story = Story {
            before: &[(3, 1_000)],
            threads: &[&[(1, 2_500), (1, 2_500)], &[(1, 2_500), (1, 2_500)]],
            after: &[(0, 2_500), (1, 3_000), (2, 3_000), (4, 4_500)],
        };
        assert_eq!(story.play(&weighed_second(4)), 3, "granted in all");
    });
}
