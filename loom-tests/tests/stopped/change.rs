//! A thread stops while it replaces a quota: `src/sync/versioned.rs`, `src/policy/dynamic/in_force.rs`.

use std::sync::Arc;

use loom::thread;
use loom_tests::stopped::{beside_a_doomed, doomed};
use loom_tests::{
    ONE_BUCKET, Preemptions::To, ask, at, burst, catch_stops, catch_two, explore_stale_stops,
    explore_stops, keyed,
};
use tollgate::OnFull;
use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::internals::{Fault, VersionedCell, plant};

type Words = VersionedCell<2>;

const KEY: u64 = 7;

/// Replaces two equal words by two others that are equal.
fn replace(cell: &Words, version: u64) {
    let replaced = cell.replace(|_| Ok::<_, ()>([version; 2]));
    assert!(matches!(replaced, Ok(Ok(()))), "no other thread writes");
}

/// A writer replaces the words twice, and may stop. `succeed` then replaces them. A reader reads meanwhile.
fn replaced_after_a_death(steps: usize, succeed: impl FnOnce(&Words, u64) + 'static) -> bool {
    let cell = Arc::new(VersionedCell::new(&[1, 1]));
    let writers = Arc::clone(&cell);
    let thread = thread::spawn(move || {
        let writer = doomed(&*writers, steps, |cell, version| {
            *version = 1;
            for next in 2..=3 {
                replace(cell, next);
                *version = next;
            }
        });
        let published = writer.counted.max(1);
        assert_eq!(writers.read(), [published; 2], "a version counts when it is published");
        succeed(&writers, published);
        writer.has_stopped
    });
    let [first, second] = cell.read();
    assert_eq!(first, second, "both words are of one version");
    let has_stopped = thread.join().unwrap();
    let [first, second] = cell.read();
    assert_eq!(first, second, "both words are of one version");
    has_stopped
}

fn the_successor_replaces(steps: usize) -> bool {
    replaced_after_a_death(steps, |cell, published| {
        let replaced = cell.replace_after_death(|words| {
            assert_eq!(*words, [published; 2], "the version in force");
            Ok::<_, ()>([7; 2])
        });
        assert_eq!((replaced, cell.read()), (Ok(()), [7; 2]), "the change arrives");
        // From here on the turn is as any other.
        replace(cell, 8);
        assert_eq!(cell.read(), [8; 2], "and so do later ones");
    })
}

#[test]
fn the_successor_of_a_dead_writer_replaces_the_words() {
    let name = "stopped: versions, a successor replaces";
    explore_stale_stops(name, To(3), 10, the_successor_replaces);
}

/// The planted fault.
#[test]
#[should_panic(expected = "both words are of one version")]
fn a_turn_that_is_returned_hides_what_the_dead_writer_wrote() {
    plant(Fault::TurnReturned);
    catch_stops("stopped: turn given back", the_successor_replaces);
}

/// The new words are out of range, say.
#[test]
fn a_successor_that_has_nothing_to_write_leaves_the_words() {
    let name = "stopped: versions, a successor fails";
    explore_stops(name, To(3), 10, |steps| {
        replaced_after_a_death(steps, |cell, published| {
            assert_eq!(cell.replace_after_death(|_| Err("no")), Err("no"));
            assert_eq!(cell.read(), [published; 2], "the version in force");
            replace(cell, 8);
            assert_eq!(cell.read(), [8; 2], "later changes arrive");
        })
    });
}

/// The successor dies, too, after each number of steps, and has a successor.
#[test]
fn a_successor_may_die_too() {
    for second in 0..5 {
        let name = "stopped: versions, a successor dies";
        explore_stops(name, To(3), 10, move |steps| {
            replaced_after_a_death(steps, move |cell, published| {
                let next = doomed(cell, second, |cell, version| {
                    assert_eq!(cell.replace_after_death(|_| Ok::<_, ()>([6; 2])), Ok(()));
                    *version = 6;
                });
                let published = published.max(next.counted);
                assert_eq!(cell.read(), [published; 2], "a version counts when it is published");
                assert_eq!(cell.replace_after_death(|_| Ok::<_, ()>([7; 2])), Ok(()));
                assert_eq!(cell.read(), [7; 2], "the change arrives");
            })
        });
    }
}

/// The mistake that a caller may make: the writer is alive.
#[test]
#[should_panic(expected = "both words are of one version")]
fn a_living_writer_that_is_taken_over_tears_a_version() {
    catch_two("stopped: versions, a living writer", || {
        let cell = Arc::new(VersionedCell::new(&[1, 1]));
        let other = Arc::clone(&cell);
        let writer = thread::spawn(move || {
            let _ = other.replace(|_| Ok::<_, ()>([2; 2]));
        });
        assert_eq!(cell.replace_after_death(|_| Ok::<_, ()>([7; 2])), Ok(()));
        writer.join().unwrap();
        let [first, second] = cell.read();
        assert_eq!(first, second, "both words are of one version");
    });
}

/// The quota of a key changes from two cells to three. The thread that changes it may stop.
#[test]
fn a_change_that_is_left_leaves_the_quota_in_force() {
    let name = "stopped: quota, changed while charged";
    explore_stops(name, To(2), 19, |steps| {
        let gate = keyed(DynamicGcra::new(), burst(2), ONE_BUCKET, OnFull::Deny);
        assert_eq!(ask(&gate, KEY, at(1)), 1);
        let (setter, during) = beside_a_doomed(
            &gate,
            steps,
            |gate, changes| {
                assert_eq!(gate.set_quota_at(burst(3), Inherit::Additive, at(1)), Ok(()));
                *changes += 1;
            },
            |gate| ask(gate, KEY, at(1)),
        );
        let after: u64 = (0..3).map(|_| ask(&gate, KEY, at(1))).sum();
        assert_eq!(during, 1, "a decision waits for no change");
        assert_eq!(1 + during + after, 2 + setter.counted, "one quota or the other");
        setter.has_stopped
    });
}
