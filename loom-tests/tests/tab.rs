//! A tab of `tollgate-redis`: cells are admitted while others are on their way and land.

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

/// Asks for one cell so many times, and returns how many were admitted.
fn ask(counts: &PendingCounts, times: u64) -> u64 {
    let admitted =
        |_: &u64| matches!(counts.ask(1, LIMIT, LIMIT, NOW), AskOutcome::Admitted { .. });
    (0..times).filter(admitted).count() as u64
}

/// Sends what there is, and lands it: the ledger counts for this process alone.
fn flush(counts: &PendingCounts, used: u64) -> u64 {
    let used = used + counts.take_unsent();
    counts.acknowledge(WindowCount { used, ends_after: Duration::from_secs(1) }, NOW);
    used
}

/// Somebody asks while two are on their way and land.
fn asked_while_it_lands() {
    let counts = Arc::new(pending_counts());
    assert_eq!(ask(&counts, 2), 2);
    let other = Arc::clone(&counts);
    let thread = thread::spawn(move || ask(&other, 2));
    let used = flush(&counts, 0);
    let admitted = 2 + thread.join().unwrap();
    assert_eq!(flush(&counts, used), admitted, "admitted is said");
    assert!(admitted <= LIMIT, "admitted {admitted}, over the limit");
}

#[test]
fn while_it_lands() {
    explore_two_whole("tab: asked while it lands", asked_while_it_lands);
}

/// One of the threads sends and lands, the next asks twice, the others once.
fn several_ask_while_it_lands(threads: usize) {
    let counts = Arc::new(pending_counts());
    assert_eq!(ask(&counts, 1), 1);
    let told = each_of(threads, &counts, |counts, number| match number {
        0 => flush(counts, 0),
        1 => ask(counts, 2),
        _ => ask(counts, 1),
    });
    let (used, admitted) = (told[0], 1 + told[1..].iter().sum::<u64>());
    assert_eq!(flush(&counts, used), admitted, "admitted is said");
    assert!(admitted <= LIMIT, "admitted {admitted}, over the limit");
}

#[test]
fn two_ask_while_it_lands() {
    explore_three("tab: 2 ask while it lands, 3 threads", || several_ask_while_it_lands(3));
}

#[test]
#[ignore = "4 threads: in the full run"]
fn three_ask_while_it_lands() {
    explore_four("tab: 3 ask while it lands, 4 threads", || several_ask_while_it_lands(4));
}

/// A key's tab, and the one that it has once the first is given up.
struct Key([PendingCounts; 2]);

impl Key {
    fn of_model() -> Arc<Self> {
        Arc::new(Self([pending_counts(), pending_counts()]))
    }

    /// Asks so many times, as one who has the first tab in hand; what each has admitted.
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

    /// Gives the first tab up, if that may be, and asks the one that the key then has.
    fn give_up_and_ask(&self, times: u64) -> [u64; 2] {
        match self.0[0].retire(NOW) {
            true => [0, ask(&self.0[1], times)],
            false => [ask(&self.0[0], times), 0],
        }
    }
}

/// Somebody asks while another thread gives the tab up, and asks as well.
fn asked_while_it_is_given_up() {
    let key = Key::of_model();
    let other = Arc::clone(&key);
    let thread = thread::spawn(move || other.ask(2));
    let mine = key.give_up_and_ask(2);
    let admitted: u64 = mine.into_iter().chain(thread.join().unwrap()).sum();
    assert!(admitted <= LIMIT, "admitted {admitted}, over the limit");
    assert_eq!(admitted, LIMIT, "one asks for more than is left");
}

#[test]
fn while_it_is_given_up() {
    explore_two_whole("tab: asked while it is given up", asked_while_it_is_given_up);
}

/// One thread lands the end of a window, another gives the tab up as soon as it may, a third asks.
fn asked_while_it_lands_and_is_given_up() {
    let key = Key::of_model();
    assert_eq!(ask(&key.0[0], 1), 1);
    let told = each_of(3, &key, |key, number| {
        let [first, second] = match number {
            0 => {
                let used = key.0[0].take_unsent();
                key.0[0].acknowledge(WindowCount { used, ends_after: Duration::ZERO }, NOW);
                [used, 0]
            }
            1 => key.give_up_and_ask(2),
            _ => key.ask(2),
        };
        first << 8 | second
    });
    let sum = |shift: u32| told[1..].iter().map(|told| told >> shift & 0xff).sum::<u64>();
    let (said, admitted, anew) = (told[0] >> 8, 1 + sum(8), sum(0));
    let given_up = key.0[0].retire(NOW);
    let unsaid = if given_up { 0 } else { key.0[0].take_unsent() };
    assert_eq!(said + unsaid, admitted, "admitted is said, and nothing on a tab that is given up");
    assert!(anew <= LIMIT && (anew == 0 || given_up), "admitted {anew}, over the limit");
}

#[test]
fn while_it_lands_and_is_given_up() {
    explore_three("tab: lands and is given up, 3 threads", asked_while_it_lands_and_is_given_up);
}

/// The mistake avoided: what is admitted on a tab that is given up, the key's next tab knows nothing of.
#[test]
#[should_panic(expected = "over the limit")]
fn given_up_unmarked_it_admits_beside_the_next() {
    plant(PlantedFault::RetiredUnmarked);
    catch_two("tab: given up unmarked", asked_while_it_is_given_up);
}

/// The mistake avoided: for a moment, what was on its way counts nowhere.
#[test]
#[should_panic(expected = "over the limit")]
fn taken_off_too_early_it_counts_nowhere() {
    plant(PlantedFault::AcknowledgedFirst);
    catch_two("tab: taken off before it is counted", asked_while_it_lands);
}
