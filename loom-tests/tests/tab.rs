//! A tab of `tollgate-redis`: cells are admitted while others are on their way and land.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use loom::thread;
use loom_tests::{catch_two, each_of, explore_four, explore_three, explore_two};
use tollgate::Tick;
use tollgate_redis::{Found, Known, PlantedFault, Tab, plant_in_front};

const LIMIT: u64 = 3;
const NOW: Tick = Tick::from_nanos(1);

/// Asks for one cell so many times, and returns how many were admitted.
fn ask(tab: &Tab, times: u64) -> u64 {
    let admitted = |_: &u64| matches!(tab.ask(1, LIMIT, LIMIT, NOW), Found::Admitted { .. });
    (0..times).filter(admitted).count() as u64
}

/// Sends what there is, and lands it: the ledger counts for this process alone.
fn flush(tab: &Tab, used: u64) -> u64 {
    let used = used + tab.send();
    tab.land(Known { used, ends_after: Duration::from_secs(1) }, NOW);
    used
}

/// Somebody asks while two are on their way and land.
fn asked_while_it_lands() {
    let tab = Arc::new(Tab::of_model());
    assert_eq!(ask(&tab, 2), 2);
    let other = Arc::clone(&tab);
    let thread = thread::spawn(move || ask(&other, 2));
    let used = flush(&tab, 0);
    let admitted = 2 + thread.join().unwrap();
    assert_eq!(flush(&tab, used), admitted, "admitted is said");
    assert!(admitted <= LIMIT, "admitted {admitted}, over the limit");
}

#[test]
fn while_it_lands() {
    explore_two("tab: asked while it lands", asked_while_it_lands);
}

/// One of the threads sends and lands, the next asks twice, the others once.
fn several_ask_while_it_lands(threads: usize) {
    let tab = Arc::new(Tab::of_model());
    assert_eq!(ask(&tab, 1), 1);
    let told = each_of(threads, &tab, |tab, number| match number {
        0 => flush(tab, 0),
        1 => ask(tab, 2),
        _ => ask(tab, 1),
    });
    let (used, admitted) = (told[0], 1 + told[1..].iter().sum::<u64>());
    assert_eq!(flush(&tab, used), admitted, "admitted is said");
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

/// The mistake avoided: for a moment, what was on its way counts nowhere.
#[test]
#[should_panic(expected = "over the limit")]
fn taken_off_too_early_it_counts_nowhere() {
    plant_in_front(PlantedFault::LandedFirst);
    catch_two("tab: taken off before it is counted", asked_while_it_lands);
}
