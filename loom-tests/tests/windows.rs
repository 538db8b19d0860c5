//! Counts of sub-windows in a ring: the head moves on to the next while others charge.

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
fn a_bucket_is_used_for_the_first_time() {
    explore_two("windows: first use, 2 threads x 2", || {
        let story = Story {
            before: &[],
            threads: &[&[(1, 1_000), (1, 1_000)], &[(1, 1_000), (1, 1_000)]],
            after: &[(0, 1_000), (2, 2_000), (3, 3_000)],
        };
        assert_eq!(story.play(&two_seconds(3)), 3, "granted in all");
    });
}

/// A life that was reset 1,024 times ago had the same generation, and left a count of the second
/// that the new one counts by.
#[test]
fn a_bucket_is_used_again_after_all_generations() {
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

/// One thread moves on to the next second, the other charges in the one that has begun.
const ROTATION: Story = Story {
    before: &[(1, 1_000)],
    threads: &[&[(1, 2_000)], &[(1, 1_000), (1, 1_000)]],
    after: &[(0, 2_000), (1, 3_000), (3, 3_000), (1, 4_000), (3, 5_000)],
};

#[test]
fn a_rotation_against_two_charges() {
    explore_two_to("windows: rotation against 2 charges", 3, Preemptions::Any, || {
        assert_eq!(ROTATION.play(&two_seconds(3)), 2, "granted in all");
    });
}

/// The mistake avoided: the head moves on before its own count is in the ring.
#[test]
#[should_panic(expected = "no order explains")]
fn without_the_put_a_count_is_lost() {
    plant(Fault::PutLeftOut);
    catch_two("windows: put left out", || {
        let _ = ROTATION.play(&two_seconds(3));
    });
}

#[test]
fn two_rotations_at_once() {
    explore_two("windows: 2 rotations, 2 threads x 2", || {
        let story = Story {
            before: &[(1, 1_000)],
            threads: &[&[(1, 2_000), (1, 2_000)], &[(1, 2_000), (1, 2_000)]],
            after: &[(0, 2_000), (1, 3_000), (1, 3_000), (1, 4_000), (2, 4_000)],
        };
        assert_eq!(story.play(&two_seconds(3)), 2, "granted in all");
    });
}

/// By one second and by two: the second one forgets what the first would put.
#[test]
fn two_rotations_of_different_length() {
    explore_two("windows: rotations by 1 and 2, 2 threads x 2", || {
        let story = Story {
            before: &[(2, 1_000)],
            threads: &[&[(1, 2_000), (1, 2_000)], &[(1, 3_000), (1, 3_000)]],
            after: &[(0, 3_000), (1, 4_000), (1, 4_000), (1, 5_000), (2, 5_000)],
        };
        assert_eq!(story.play(&two_seconds(3)), 3, "granted in all");
    });
}

/// With two older counts, of which the one who moves on by two keeps one.
#[test]
fn two_rotations_with_two_older_counts() {
    explore_two("windows: 3 sub-windows, rotations by 1 and 2", || {
        let quota = Quota::new(4, Duration::from_secs(3));
        let story = Story {
            before: &[(1, 1_000), (1, 2_000)],
            threads: &[&[(1, 3_000), (1, 3_000)], &[(1, 2_000), (1, 4_000)]],
            after: &[(0, 4_000), (1, 5_000), (1, 5_000), (1, 6_000), (1, 6_000), (4, 8_000)],
        };
        let granted = story.play(&bucket(SubWindows::new().count(3), quota));
        // At 4 s the first cell has left.
        assert!((2..=3).contains(&granted), "{granted} granted in all");
    });
}

#[test]
fn rotations_by_three_threads() {
    explore_three("windows: 2 rotations and a charge, 3 threads", || {
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
fn rotations_by_four_threads() {
    explore_four("windows: rotations by 1 and 2, a charge and a peek, 4 threads", || {
        let story = Story {
            before: &[(1, 1_000)],
            threads: &[&[(1, 2_000)], &[(1, 1_000)], &[(1, 3_000)], &[(0, 2_000)]],
            after: &[(0, 3_000), (1, 4_000), (1, 4_000), (1, 5_000), (2, 5_000)],
        };
        // At 3 s the first cell has left.
        let granted = story.play(&two_seconds(3));
        assert!((2..=3).contains(&granted), "{granted} granted in all");
    });
}

/// Read before the other thread charged once more and moved on: its count of the first second
/// is no longer the right one.
const LATE_PUBLISHER: Story = Story {
    before: &[(1, 1_000)],
    threads: &[&[(1, 2_000)], &[(1, 1_000), (1, 2_000)]],
    after: &[(0, 2_000), (1, 3_000), (3, 3_000), (2, 4_000)],
};

#[test]
fn a_late_publisher() {
    explore_two("windows: late publisher, 1 against 2", || {
        assert_eq!(LATE_PUBLISHER.play(&two_seconds(5)), 3, "granted in all");
    });
}

/// The mistake avoided: a count is put for a head that has moved on.
#[test]
#[should_panic(expected = "no order explains")]
fn without_the_check_a_late_put_replaces_the_final_count() {
    plant(Fault::PutUnchecked);
    catch_two("windows: put unchecked", || {
        let _ = LATE_PUBLISHER.play(&two_seconds(5));
    });
}

/// Three of four cells leave as the third second begins. While one thread asks then, the other
/// asks then and a second later, which puts another count where those three stood.
const DENIAL: Story = Story {
    before: &[(3, 1_000), (1, 2_000)],
    threads: &[&[(1, 3_000)], &[(1, 3_000), (1, 4_000)]],
    after: &[(0, 4_000), (1, 4_000), (3, 5_000), (4, 6_000)],
};

#[test]
fn a_denial_has_its_reason() {
    explore_two("windows: denial, 1 against 2", || {
        assert_eq!(DENIAL.play(&two_seconds(4)), 3, "there is always room");
    });
}

/// The mistake avoided: counts of a later head are taken for those of the head that was read.
#[test]
#[should_panic(expected = "no order explains")]
fn without_the_second_look_there_is_a_denial_without_reason() {
    plant(Fault::RecheckSkipped);
    catch_two("windows: recheck skipped", || {
        let _ = DENIAL.play(&two_seconds(4));
    });
}

/// The same, and the first thread only looks.
const LOOK: Story = Story { threads: &[&[(0, 3_000)], &[(1, 3_000), (1, 4_000)]], ..DENIAL };

#[test]
fn a_look_has_its_reason() {
    explore_two_to("windows: peek against 2 charges", 3, Preemptions::Any, || {
        assert_eq!(LOOK.play(&two_seconds(4)), 2, "there is always room");
    });
}

#[test]
#[should_panic(expected = "no order explains")]
fn without_the_second_look_a_look_sees_what_never_was() {
    plant(Fault::RecheckSkipped);
    catch_two("windows: peek, recheck skipped", || {
        let _ = LOOK.play(&two_seconds(4));
    });
}

/// The other second of a weighed count, half of which has passed.
const WEIGHED_ROTATION: Story = Story {
    before: &[(2, 1_000)],
    threads: &[&[(1, 2_500)], &[(1, 1_000), (1, 2_500)]],
    after: &[(0, 2_500), (1, 2_500), (1, 3_000), (1, 3_500), (4, 4_000)],
};

#[test]
fn a_weighed_rotation_against_two_charges() {
    explore_two("counter: rotation against 2 charges", || {
        assert_eq!(WEIGHED_ROTATION.play(&weighed_second(4)), 3, "granted in all");
    });
}

#[test]
#[should_panic(expected = "no order explains")]
fn without_the_put_a_weighed_count_is_lost() {
    plant(Fault::PutLeftOut);
    catch_two("counter: put left out", || {
        let _ = WEIGHED_ROTATION.play(&weighed_second(4));
    });
}

#[test]
#[should_panic(expected = "no order explains")]
fn without_the_check_a_late_put_replaces_the_final_weighed_count() {
    plant(Fault::PutUnchecked);
    catch_two("counter: put unchecked", || {
        let _ = WEIGHED_ROTATION.play(&weighed_second(4));
    });
}

#[test]
#[ignore = "4 threads: in the full run"]
fn weighed_rotations_by_four_threads() {
    explore_four("counter: 3 rotations and a charge, 4 threads", || {
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
fn two_weighed_rotations_at_once() {
    explore_two("counter: 2 rotations, 2 threads x 2", || {
        let story = Story {
            before: &[(3, 1_000)],
            threads: &[&[(1, 2_500), (1, 2_500)], &[(1, 2_500), (1, 2_500)]],
            after: &[(0, 2_500), (1, 3_000), (2, 3_000), (4, 4_500)],
        };
        assert_eq!(story.play(&weighed_second(4)), 3, "granted in all");
    });
}
