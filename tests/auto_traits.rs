//! Every public type is `Send` and `Sync` as far as its parts are.

use std::path::Path;
use std::rc::Rc;
use std::{fs, io};

use tollgate::algorithm::UnknownAlgorithm;
use tollgate::clock::{CoarseClock, QuantaClock, TieredClock};
use tollgate::composite::{
    Composite, CompositeBuilder, CompositeDenied, CompositeError, CompositePermit,
};
use tollgate::concurrency::adaptive::{
    AdaptiveBuilder, AdaptiveError, AdaptiveGuard, AdaptiveLimit, AdaptiveReading, Aimd,
    Controller, Gradient, MinLatency, OwnedAdaptiveGuard,
};
use tollgate::concurrency::{
    ConcurrencyBuilder, ConcurrencyDenied, ConcurrencyError, ConcurrencyLimiter, DirectConcurrency,
    DirectConcurrencyBuilder, Guard, OwnedGuard, WhenNoSlot,
};
use tollgate::decision::DecisionParts;
use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::internals::DynamicGcraParams;
use tollgate::internals::adaptive::{LimitRange, State, WindowWord};
use tollgate::internals::any::{AnyParams, AnyView};
use tollgate::internals::dynamic_gcra::GcraEpoch;
use tollgate::internals::fixed_window::FixedWindowParams;
use tollgate::internals::gcra::GcraParams;
use tollgate::internals::in_flight::{Counted, Holds, InFlight};
use tollgate::internals::leaky_queue::LeakyQueueParams;
use tollgate::internals::oracle::{
    AnyOracle, Entries, EventLog, Level, Queue, Ramp, SubWindowCounts, Verdict, Window,
};
use tollgate::internals::sliding_log::{SlidingLogParams, SlidingLogView};
use tollgate::internals::sub_windows::{SubWindowParams, SubWindowView};
use tollgate::internals::warm_up::WarmUpParams;
use tollgate::internals::{
    ClockChange, Grid, Liveness, Moment, NoRing, Receipt, Restart, Step, Still,
};
use tollgate::lease::{AskLease, LocalLease, OwnedLocalLease};
use tollgate::limiter::{AskEach, DirectBuilder, SlotLayout};
use tollgate::penalty::{Ban, Penalties, PenaltiesBuilder, PenaltyDenied, PenaltyStats};
use tollgate::plan::Plan;
use tollgate::reservation::{OwnedReservation, Reservation};
use tollgate::shadow::{Shadow, ShadowCounts};
use tollgate::snapshot::RestoreError;
use tollgate::stats::{DecisionCount, Occupancy, Stats};
use tollgate::top::{TopKey, TopKeys};
use tollgate::wait::{Sleep, Timer, Wait, WaitError, WaitQueue, Waited};
use tollgate::{
    AnyAlgorithm, Ask, BuildError, Builder, Denied, Direct, FixedWindow, Gcra, LeakyQueue, Limiter,
    ManualClock, OnFull, Permit, Quota, QuotaError, SlidingCounter, SlidingLog, SubWindows, Tick,
    WarmUp,
};

const fn shared<T: Send + Sync + Unpin + ?Sized>() {}

/// A lease has one owner at a time, which may be another thread.
const _: () = {
    shared::<Direct>();
    shared::<Direct<SlidingLog, ManualClock>>();
    shared::<DirectBuilder>();
    shared::<Limiter<str>>();
    shared::<Limiter<[u8], AnyAlgorithm, TieredClock>>();
    // A key is passed by reference and never kept, so the key type need not be `Sync`.
    shared::<Limiter<Rc<str>>>();
    shared::<Builder<Rc<str>>>();
    shared::<LocalLease<'static, Limiter<Rc<str>>>>();
    shared::<LocalLease<'static, Direct>>();
    shared::<LocalLease<'static, Direct<SlidingLog>>>();
    shared::<Reservation<'static, Limiter<Rc<str>>>>();
    shared::<OwnedLocalLease<Direct>>();
    shared::<OwnedReservation<Limiter<Rc<str>>>>();
    // A request borrows its key.
    shared::<Ask<'static, 'static, Limiter<str>>>();
    shared::<Ask<'static, 'static, WaitQueue<Limiter<str>>>>();
    shared::<AskLease<'static, &'static Limiter<Rc<str>>>>();
    shared::<AskEach<'static, str, Gcra, QuantaClock, String, fn(&String) -> &str>>();
    shared::<(Plan<Gcra>, Inherit)>();

    shared::<(Composite<'static, str>, CompositeBuilder<'static, str>, CompositeError)>();
    shared::<(CompositePermit, CompositeDenied)>();
    shared::<(Penalties<Rc<str>>, PenaltiesBuilder<Rc<str>>, PenaltyDenied, Ban, PenaltyStats)>();
    shared::<(Shadow<Rc<str>>, ShadowCounts)>();
    shared::<(WaitQueue<Limiter<Rc<str>>>, WaitQueue<Direct>, Waited, WaitError, Timer, Sleep)>();

    shared::<(ConcurrencyLimiter<Rc<str>>, ConcurrencyBuilder<Rc<str>>)>();
    shared::<(DirectConcurrency, DirectConcurrencyBuilder, WhenNoSlot)>();
    shared::<(ConcurrencyDenied, ConcurrencyError, Holds, InFlight<'static>, Counted)>();
    shared::<Guard<'static, ConcurrencyLimiter<Rc<str>>>>();
    shared::<OwnedGuard<DirectConcurrency>>();

    shared::<(AdaptiveLimit, AdaptiveBuilder, AdaptiveError, AdaptiveReading)>();
    shared::<(AdaptiveGuard<'static>, OwnedAdaptiveGuard<ManualClock>)>();
    shared::<(Controller, Aimd, Gradient, MinLatency)>();
    shared::<(LimitRange, State, WindowWord)>();

    // Where keys are kept, they are shared.
    shared::<(TopKeys<String>, TopKey<String>)>();
    shared::<(Stats, Occupancy, DecisionCount)>();

    shared::<(Permit, Denied, DecisionParts, Quota, Tick, OnFull, SlotLayout)>();
    shared::<(BuildError, QuotaError, RestoreError, UnknownAlgorithm)>();
    shared::<(QuantaClock, CoarseClock, TieredClock, ManualClock)>();

    shared::<(AnyAlgorithm, FixedWindow, Gcra, LeakyQueue, WarmUp)>();
    shared::<(SlidingCounter, SlidingLog, SubWindows, DynamicGcra)>();
    shared::<(AnyParams, FixedWindowParams, GcraParams, LeakyQueueParams, WarmUpParams)>();
    shared::<(SlidingLogParams, SubWindowParams<false>, GcraEpoch, DynamicGcraParams)>();
    shared::<(AnyView, SlidingLogView, SubWindowView)>();
    shared::<(Grid, NoRing, Receipt, Liveness, Step)>();
    shared::<(Moment, ClockChange, Restart, Still<'_, u8>)>();
    shared::<(AnyOracle, Entries, EventLog, Level, Queue, Ramp, SubWindowCounts, Verdict, Window)>(
    );
};

#[cfg(feature = "shared-memory")]
const _: () = {
    use tollgate::clock::MonotonicClock;
    use tollgate::shared::{Description, Shared, SharedError};
    shared::<(Description, Shared, SharedError, MonotonicClock)>();
    shared::<Limiter<Rc<str>, SlidingLog, MonotonicClock>>();
};

/// A future is polled by one owner at a time.
const _: () = {
    const fn sent<T: Send>() {}
    sent::<Wait<'static, Direct, fn(core::time::Duration) -> Sleep, Sleep>>();
};

/// Types that the source declares public, and that no other crate can name.
const NOT_EXPORTED: [&str; 23] = [
    "AdaptiveCell",
    "AdaptivePlan",
    "Busy",
    "DerivedCell",
    "ChargeReceipt",
    "CompositeEntry",
    "Deadline",
    "Disciplined",
    "Entry",
    "Fault",
    "KeyProbe",
    "Lent",
    "Loads",
    "PaidAhead",
    "PlanParams",
    "Probe",
    "RefundableCharge",
    "Request",
    "Sample",
    "Target",
    "ThreadSlots",
    "VersionedCell",
    "WallClock",
];

/// Fails until a new public type is asserted above.
#[test]
fn every_public_type_is_asserted() {
    let mut files = Vec::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut files).expect("readable");
    // A type that a row of the table of algorithms names is a part of `AnyAlgorithm`, `AnyParams` or `AnyOracle`.
    let table = include_str!("../src/algo/any/mod.rs");
    let (_, rows) = table.split_once("    AnyOracle {\n").expect("the table");
    let (rows, _) = rows.split_once("\n    }\n}").expect("its end");
    let listed = [include_str!("auto_traits.rs"), rows];
    let words = listed.iter().flat_map(|text| text.split(|sign: char| !sign.is_alphanumeric()));
    let is_listed = |name: &str| words.clone().any(|word| word == name);
    let (mut found, mut missing) = (0, Vec::new());
    for text in &files {
        for line in text.lines() {
            let rest = line.strip_prefix("pub struct ").or(line.strip_prefix("pub enum "));
            let Some(rest) = rest else { continue };
            let name = rest.split(|sign: char| !sign.is_alphanumeric()).next().expect("a name");
            found += 1;
            if !is_listed(name) && !NOT_EXPORTED.contains(&name) {
                missing.push(name);
            }
        }
    }
    assert!(found >= 50, "too few public types were found: {found}");
    assert!(missing.is_empty(), "assert that these are Send and Sync: {missing:?}");
}

fn collect(folder: &Path, files: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(fs::read_to_string(&path)?);
        }
    }
    Ok(())
}
