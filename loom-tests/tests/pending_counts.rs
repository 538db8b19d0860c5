//! Pending counts of `tollgate-redis`: cells are admitted while others are in flight to the store and are
//! acknowledged.
//!
//! The protocol is in `crates/redis/src/batch/pending_counts.rs`.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use loom_tests::redis::{
    AskOutcome, PendingCounts, PlantedFault, WindowCount, pending_counts, plant,
};
use loom_tests::{catch_two, each_of, explore_four, explore_three, explore_two_whole};
use tollgate::Tick;

const LIMIT: u64 = 3;
const NOW: Tick = Tick::from_nanos(1);

/// Asks for one cell `times` times, and returns how many cells were admitted.
fn ask(counts: &PendingCounts, times: u64) -> u64 {
    let admitted =
        |_: &u64| matches!(counts.ask(1, LIMIT, LIMIT, NOW), AskOutcome::Admitted { .. });
    (0..times).filter(admitted).count() as u64
}

/// Sends the unsent cells, and has them acknowledged. The store counts for this process alone, and had
/// counted `used` cells before.
fn flush(counts: &PendingCounts, used: u64) -> u64 {
    let used = used + counts.take_unsent();
    counts.acknowledge(WindowCount { used, ends_after: Duration::from_secs(1) }, NOW);
    used
}

/// Checks that requests for more than the limit got the limit.
fn assert_limit_reached(admitted: u64) {
    assert!(admitted <= LIMIT, "admitted {admitted}, over the limit");
    assert_eq!(admitted, LIMIT, "a request was denied although a cell was free");
}

/// A thread asks while two cells are in flight and are acknowledged.
fn asked_during_acknowledgement() {
    let counts = Arc::new(pending_counts());
    assert_eq!(ask(&counts, 2), 2);
    let other = Arc::clone(&counts);
    let thread = thread::spawn(move || ask(&other, 2));
    let used = flush(&counts, 0);
    let admitted = 2 + thread.join().unwrap();
    assert_eq!(flush(&counts, used), admitted, "admitted cells are sent");
    assert_limit_reached(admitted);
}

#[test]
fn a_request_during_an_acknowledgement_counts_the_cells_in_flight() {
    explore_two_whole("pending counts: asked during acknowledgement", asked_during_acknowledgement);
}

/// A thread asks in an open window while two cells are sent and acknowledged, and then what it has
/// asked for.
fn asked_during_two_acknowledgements() {
    let counts = Arc::new(pending_counts());
    flush(&counts, 0);
    assert_eq!(ask(&counts, 2), 2);
    let other = Arc::clone(&counts);
    let thread = thread::spawn(move || ask(&other, 1));
    let used = flush(&counts, 0);
    let used = flush(&counts, used);
    let admitted = 2 + thread.join().unwrap();
    assert_eq!(flush(&counts, used), admitted, "admitted cells are sent");
    assert_limit_reached(admitted);
}

#[test]
fn a_request_during_two_acknowledgements_counts_no_cell_twice() {
    explore_two_whole(
        "pending counts: asked during 2 acknowledgements",
        asked_during_two_acknowledgements,
    );
}

/// The first thread sends and acknowledges, the second asks twice, the others once.
fn several_ask_during_acknowledgement(threads: usize) {
    let counts = Arc::new(pending_counts());
    assert_eq!(ask(&counts, 1), 1);
    let results = each_of(threads, &counts, |counts, number| match number {
        0 => flush(counts, 0),
        1 => ask(counts, 2),
        _ => ask(counts, 1),
    });
    let (used, admitted) = (results[0], 1 + results[1..].iter().sum::<u64>());
    assert_eq!(flush(&counts, used), admitted, "admitted cells are sent");
    assert_limit_reached(admitted);
}

#[test]
fn two_requests_during_an_acknowledgement_count_the_cells_in_flight() {
    explore_three("pending counts: 2 ask during acknowledgement, 3 threads", || {
        several_ask_during_acknowledgement(3)
    });
}

#[test]
#[ignore = "4 threads: in the full run"]
fn three_requests_during_an_acknowledgement_count_the_cells_in_flight() {
    explore_four("pending counts: 3 ask during acknowledgement, 4 threads", || {
        several_ask_during_acknowledgement(4)
    });
}

/// A thread asks while the first answer of a window arrives. The window before was full, and is over.
fn asked_as_a_window_begins() {
    let counts = Arc::new(pending_counts());
    counts.acknowledge(WindowCount { used: LIMIT, ends_after: Duration::ZERO }, NOW);
    let other = Arc::clone(&counts);
    let thread = thread::spawn(move || other.ask(1, LIMIT, LIMIT, NOW));
    flush(&counts, 0);
    let found = thread.join().unwrap();
    let is_admitted = matches!(found, AskOutcome::Admitted { .. });
    assert!(is_admitted, "denied by the counts of the window before: {found:?}");
}

#[test]
fn a_request_as_a_window_begins_is_not_denied_by_the_one_before() {
    explore_two_whole("pending counts: asked as a window begins", asked_as_a_window_begins);
}

/// A key's counts, and the counts that it gets when the first are retired.
struct Key([PendingCounts; 2]);

impl Key {
    fn of_model() -> Arc<Self> {
        Arc::new(Self([pending_counts(), pending_counts()]))
    }

    /// Asks `times` times, beginning with the first counts each time. Returns what each counts admitted.
    fn ask(&self, times: u64) -> [u64; 2] {
        let mut admitted = [0; 2];
        for _ in 0..times {
            for (counts, admitted) in self.0.iter().zip(&mut admitted) {
                let found = counts.ask(1, LIMIT, LIMIT, NOW);
                *admitted += u64::from(matches!(found, AskOutcome::Admitted { .. }));
                if found != AskOutcome::Retired {
                    break;
                }
            }
        }
        admitted
    }

    /// Retires the first counts if that is allowed, and asks the counts that the key then has.
    fn retire_and_ask(&self, times: u64) -> [u64; 2] {
        match self.0[0].retire(NOW) {
            true => [0, ask(&self.0[1], times)],
            false => [ask(&self.0[0], times), 0],
        }
    }
}

/// A thread asks while another retires the counts and asks, too.
fn asked_during_retirement() {
    let key = Key::of_model();
    let other = Arc::clone(&key);
    let thread = thread::spawn(move || other.ask(2));
    let mine = key.retire_and_ask(2);
    let admitted: u64 = mine.into_iter().chain(thread.join().unwrap()).sum();
    assert!(admitted <= LIMIT, "admitted {admitted}, over the limit");
    assert_eq!(admitted, LIMIT, "the two ask for more than the limit");
}

#[test]
fn a_request_during_a_retirement_is_counted_once() {
    explore_two_whole("pending counts: asked during retirement", asked_during_retirement);
}

/// One thread acknowledges at the end of a window, another retires the counts as soon as it may, a third
/// asks.
fn asked_during_acknowledgement_and_retirement() {
    let key = Key::of_model();
    assert_eq!(ask(&key.0[0], 1), 1);
    let results = each_of(3, &key, |key, number| {
        let [first, second] = match number {
            0 => {
                let used = key.0[0].take_unsent();
                key.0[0].acknowledge(WindowCount { used, ends_after: Duration::ZERO }, NOW);
                [used, 0]
            }
            1 => key.retire_and_ask(2),
            _ => key.ask(2),
        };
        first << 8 | second
    });
    let sum = |shift: u32| results[1..].iter().map(|result| result >> shift & 0xff).sum::<u64>();
    let (sent, admitted, admitted_anew) = (results[0] >> 8, 1 + sum(8), sum(0));
    let is_retired = key.0[0].retire(NOW);
    let unsent = if is_retired { 0 } else { key.0[0].take_unsent() };
    assert_eq!(sent + unsent, admitted, "admitted cells are sent, and none on retired counts");
    assert!(
        admitted_anew <= LIMIT && (admitted_anew == 0 || is_retired),
        "admitted {admitted_anew}, over the limit"
    );
}

#[test]
fn a_request_during_acknowledgement_and_retirement_is_counted_once() {
    explore_three(
        "pending counts: acknowledged and retired, 3 threads",
        asked_during_acknowledgement_and_retirement,
    );
}

/// The planted fault: counts are retired without a mark. A thread then admits on them cells of which the
/// key's next counts know nothing.
#[test]
#[should_panic(expected = "over the limit")]
fn without_the_mark_retired_counts_admit_beside_the_next() {
    plant(PlantedFault::RetiredUnmarked);
    catch_two("pending counts: retired unmarked", asked_during_retirement);
}

/// The planted fault: cells are subtracted from those in flight before `used` counts them.
#[test]
#[should_panic(expected = "over the limit")]
fn acknowledged_before_they_are_counted_cells_count_nowhere() {
    plant(PlantedFault::AcknowledgedFirst);
    catch_two("pending counts: acknowledged first", asked_during_acknowledgement);
}

/// The planted fault: cells in flight are added to a count that includes them.
#[test]
#[should_panic(expected = "although a cell was free")]
fn counted_while_they_are_in_flight_cells_count_twice() {
    plant(PlantedFault::InFlightCountedTwice);
    catch_two("pending counts: in flight counted twice", asked_during_acknowledgement);
}

/// The planted fault: a request is denied by a word that was loaded before its cells were sent and counted.
#[test]
#[should_panic(expected = "although a cell was free")]
fn denied_without_a_check_cells_count_as_unsent_after_they_are_counted() {
    plant(PlantedFault::DenialUnchecked);
    catch_two("pending counts: denial unchecked", asked_during_two_acknowledgements);
}
