//! Counts that are sent together: what a window sees, and planted faults that must be found.

use lease_model::batches::{Batches, PlantedFault};
use lease_model::report::explore;

const SMALL: Batches = Batches {
    processes: 2,
    limit: 3,
    unsent: 1,
    period: 2,
    faults: 0,
    planted: PlantedFault::None,
};

fn keeps(name: &str, model: Batches) {
    assert!(!explore(name, model).is_beyond, "{name}");
}

#[test]
fn without_a_fault_no_window_sees_more_than_limit_and_what_is_unsent() {
    keeps("batches, 2 processes", SMALL);
    keeps("batches, 2 processes, 2 unsent", Batches { unsent: 2, ..SMALL });
    keeps("batches, 3 processes", Batches { processes: 3, limit: 2, period: 1, ..SMALL });
}

#[test]
#[ignore = "half a minute: ci/check.sh states full"]
fn a_death_or_a_fail_over_adds_what_is_stated_and_no_more() {
    keeps("batches, a death or fail-over", Batches { faults: 1, ..SMALL });
}

#[test]
fn deaths_and_fail_overs_add_what_is_stated_and_no_more() {
    keeps("batches, 2 deaths or fail-overs", Batches { faults: 2, limit: 2, period: 1, ..SMALL });
}

#[test]
fn planted_faults_are_found() {
    for planted in [PlantedFault::SentIsForgotten, PlantedFault::FailedIsForgotten] {
        let name = format!("batches, {planted:?} planted");
        assert!(explore(&name, Batches { planted, ..SMALL }).is_beyond, "{name}");
    }
    let planted = PlantedFault::FaultsAddNothing;
    let name = "batches, faults said to add nothing";
    assert!(explore(name, Batches { planted, faults: 1, ..SMALL }).is_beyond);
}
