//! Parts of a quota: the bound of each fault, and planted faults that must be found.

use lease_model::report::explore;
use lease_model::shares::{Fault, PlantedFault, Shares, lacks};
use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::{Direct, ManualClock, Quota};

/// Two nodes; a burst of 2, which comes back in a unit.
const SMALL: Shares = Shares {
    nodes: 2,
    rate: 2,
    burst: 2,
    interval: 1,
    faults: 0,
    kinds: &[],
    planted: PlantedFault::None,
};

fn keeps(name: &str, model: Shares) {
    assert!(!explore(name, model).is_beyond, "{name}");
}

const ALL: &[Fault] = &[
    Fault::Forget,
    Fault::FailOver,
    Fault::SplitBrain,
    Fault::ServerAhead,
    Fault::ServerBack,
    Fault::ClientBack,
    Fault::ClientAhead,
];

#[test]
fn nodes_that_come_and_go_add_their_part_of_the_burst() {
    keeps("shares, 2 nodes", SMALL);
    keeps("shares, 2 nodes, intervals of 2 units", Shares { interval: 2, ..SMALL });
    keeps("shares, 3 nodes", Shares { nodes: 3, rate: 6, burst: 6, ..SMALL });
}

#[test]
fn each_fault_adds_what_is_stated_and_no_more() {
    for kind in ALL {
        let kinds = core::slice::from_ref(kind);
        keeps(&format!("shares, {kind:?} once"), Shares { faults: 1, kinds, ..SMALL });
        if *kind != Fault::SplitBrain {
            keeps(&format!("shares, {kind:?} twice"), Shares { faults: 2, kinds, ..SMALL });
        }
    }
}

/// Clock steps of half an interval.
#[test]
fn smaller_clock_steps_add_proportionally_less() {
    for kind in [Fault::ServerAhead, Fault::ServerBack, Fault::ClientBack, Fault::ClientAhead] {
        let kinds: &'static [Fault] = Box::leak(Box::new([kind]));
        let name = format!("shares, intervals of 2 units, {kind:?} once");
        keeps(&name, Shares { faults: 1, kinds, interval: 2, ..SMALL });
    }
}

#[test]
#[ignore = "half a minute: ci/check.sh states full"]
fn two_faults_of_a_server_add_what_each_does() {
    let kinds = &[Fault::Forget, Fault::FailOver, Fault::ServerAhead, Fault::ServerBack];
    keeps("shares, any 2 faults of a server", Shares { faults: 2, kinds, ..SMALL });
}

#[test]
#[ignore = "minutes: ci/check.sh states full"]
fn any_two_faults_add_what_each_does() {
    let kinds = &[
        Fault::Forget,
        Fault::FailOver,
        Fault::ServerAhead,
        Fault::ServerBack,
        Fault::ClientBack,
        Fault::ClientAhead,
    ];
    keeps("shares, any 2 faults", Shares { faults: 2, kinds, ..SMALL });
    let kinds = &[Fault::SplitBrain];
    keeps("shares, SplitBrain twice", Shares { faults: 2, kinds, ..SMALL });
}

#[test]
fn planted_faults_are_found() {
    for planted in [
        PlantedFault::NewcomersDoNotWait,
        PlantedFault::GapUnseen,
        PlantedFault::CountedFromReply,
        PlantedFault::NeverEnds,
        PlantedFault::ForgottenTooSoon,
        PlantedFault::CellsForAChange,
        PlantedFault::LeavesFirst,
    ] {
        let name = format!("shares, {planted:?} planted");
        // With the shortest interval, a node that is dropped after one is never counted.
        let interval = if planted == PlantedFault::ForgottenTooSoon { 2 } else { 1 };
        assert!(explore(&name, Shares { interval, planted, ..SMALL }).is_beyond, "{name}");
    }
}

/// Each stated addition is needed, so no bound is larger than necessary.
#[test]
fn each_stated_addition_is_needed() {
    for (planted, name) in [
        (PlantedFault::ComingsAddNothing, "a node that comes"),
        (PlantedFault::GoingsAddNothing, "one that goes"),
    ] {
        let name = format!("shares, {name} said to add nothing");
        assert!(explore(&name, Shares { planted, ..SMALL }).is_beyond, "{name}");
    }
    let planted = PlantedFault::FaultsAddNothing;
    for kind in [
        Fault::FailOver,
        Fault::SplitBrain,
        Fault::ServerAhead,
        Fault::ClientBack,
        Fault::ClientAhead,
    ] {
        let kinds: &'static [Fault] = Box::leak(Box::new([kind]));
        let name = format!("shares, {kind:?} said to add nothing");
        assert!(explore(&name, Shares { faults: 1, kinds, planted, ..SMALL }).is_beyond, "{name}");
    }
}

/// Both parts of an addition are needed: what a part has at once, and what comes back to it in
/// time.
#[test]
fn what_a_fault_adds_is_burst_and_time() {
    let time = Shares { faults: 2, planted: PlantedFault::PartsAddNoTime, ..SMALL };
    let burst = Shares { faults: 1, burst: 4, planted: PlantedFault::PartsAddNoBurst, ..SMALL };
    for (kind, what, model) in [
        (Fault::FailOver, "time", time),
        (Fault::ServerAhead, "time", time),
        (Fault::FailOver, "burst", burst),
        (Fault::ServerAhead, "burst", burst),
        (Fault::ClientBack, "burst", burst),
    ] {
        let kinds: &'static [Fault] = Box::leak(Box::new([kind]));
        let name = format!("shares, {kind:?}, a part's {what} said to add nothing");
        assert!(explore(&name, Shares { kinds, ..model }).is_beyond, "{name}");
    }
}

/// The model's bucket changes its size like the one that ships.
#[test]
fn the_models_bucket_resizes_like_dynamic_gcra() {
    let quota = |burst: u8| Quota::per_day(6).burst(burst.into());
    for (old, new) in (1..=6).flat_map(|old| (1..=6).map(move |new| (old, new))) {
        for owed in 0..=old {
            let clock = ManualClock::new();
            let builder = Direct::builder(quota(old)).algorithm(DynamicGcra::new()).clock(&clock);
            let bucket = builder.build().expect("a bucket");
            assert!(bucket.check_n(owed.into()).is_ok());
            bucket.set_quota(quota(new), Inherit::AsIs).expect("in range");
            let left = bucket.check_n(0).expect("no cells").remaining();
            assert_eq!(left, u64::from(new - lacks(owed, old, new)), "{owed} of {old} to {new}");
        }
    }
}
