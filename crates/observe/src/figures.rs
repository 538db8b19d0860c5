//! Counts and occupancy, as counters and gauges.

use std::hash::Hash;

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use tollgate::algorithm::Algorithm;
use tollgate::stats::DecisionCount;
use tollgate::{Clock, Limiter};

pub(crate) const DECISIONS: &str = "tollgate_limiter_decisions_total";
const CLAIMS: &str = "tollgate_claims_total";
const EVICTIONS: &str = "tollgate_evictions_total";
const NO_PLACE: &str = "tollgate_no_place_total";
const SHARES: &str = "tollgate_shares_total";
const LIVE_KEYS: &str = "tollgate_live_keys";
const CAPACITY_KEYS: &str = "tollgate_capacity_keys";
const LOAD_RATIO: &str = "tollgate_load_ratio";
const MEMORY_BYTES: &str = "tollgate_memory_bytes";
pub(crate) const TOP_DENIED: &str = "tollgate_top_denied";
pub(crate) const TOP_DROPPED: &str = "tollgate_top_dropped";

/// Tells the recorder what each figure is, once, after the recorder is installed.
///
/// ```
/// tollgate_observe::describe();
/// ```
pub fn describe() {
    let counts = [
        (DECISIONS, "Decisions, by outcome (where they are counted)"),
        (CLAIMS, "Times that a key was given a slot"),
        (EVICTIONS, "Times that a live key was forgotten to make room"),
        (NO_PLACE, "Requests whose key found no place, by what was done"),
        (SHARES, "Times that a thread took cells of a hot key ahead"),
    ];
    for (name, text) in counts {
        describe_counter!(name, Unit::Count, text);
    }
    let levels = [
        (LIVE_KEYS, Unit::Count, "Keys that are live, about"),
        (CAPACITY_KEYS, Unit::Count, "Live keys that there is room for"),
        (LOAD_RATIO, Unit::Count, "Share of the slots that hold live keys, 0 to 1"),
        (MEMORY_BYTES, Unit::Bytes, "Memory of the slots, fixed"),
        (TOP_DENIED, Unit::Count, "Denials of the keys that are denied most"),
        (TOP_DROPPED, Unit::Count, "Denials that no key's count has"),
    ];
    for (name, unit, text) in levels {
        describe_gauge!(name, unit, text);
    }
}

/// Records what a limiter has counted, and how full it is, under the label `limiter`.
///
/// For the handler of a scrape, or a timer; nothing is recorded in between. It reads, and stops
/// nobody. It makes one series per figure and outcome, twelve in all, whatever the keys are.
///
/// **Not guaranteed.** Figures are of slightly different moments while others decide, and the live
/// keys of a large table are an estimate: see [`Limiter::len`].
///
/// ```
/// use tollgate::{Limiter, Quota};
///
/// let gate: Limiter<str> =
///     Limiter::builder(Quota::per_second(10)).count_decisions().build()?;
/// tollgate_observe::record(&gate, "api");
/// # Ok::<(), tollgate::BuildError>(())
/// ```
pub fn record<K, A, C>(gate: &Limiter<K, A, C>, limiter: &str)
where
    K: Hash + ?Sized,
    A: Algorithm,
    C: Clock,
{
    let limiter = || limiter.to_owned();
    let stats = gate.stats();
    for (outcome, count) in [("admitted", stats.admitted), ("denied", stats.denied)] {
        if let Some(count) = count {
            counter!(DECISIONS, "limiter" => limiter(), "outcome" => outcome).absolute(count);
        }
    }
    for (name, count) in
        [(CLAIMS, stats.claimed), (EVICTIONS, stats.evicted), (SHARES, stats.leased)]
    {
        counter!(name, "limiter" => limiter()).absolute(count);
    }
    let no_place = [
        ("denied", stats.denied_full),
        ("admitted", stats.admitted_full),
        ("shared", stats.overflowed),
    ];
    for (outcome, count) in no_place {
        counter!(NO_PLACE, "limiter" => limiter(), "outcome" => outcome).absolute(count);
    }
    let occupancy = gate.occupancy();
    gauge!(LIVE_KEYS, "limiter" => limiter()).set(occupancy.live as f64);
    gauge!(CAPACITY_KEYS, "limiter" => limiter()).set(occupancy.capacity as f64);
    gauge!(LOAD_RATIO, "limiter" => limiter()).set(occupancy.load());
    gauge!(MEMORY_BYTES, "limiter" => limiter()).set(gate.memory_bytes() as f64);
}

/// Records the decisions that were counted beside a limiter, for example a `Direct`'s.
///
/// ```
/// use tollgate::stats::DecisionCount;
/// use tollgate::{Direct, Quota};
///
/// let (gate, count) = (Direct::new(Quota::per_second(10))?, DecisionCount::new());
/// assert!(count.watch(gate.check()).is_ok());
/// tollgate_observe::record_count(&count, "upstream");
/// # Ok::<(), tollgate::QuotaError>(())
/// ```
pub fn record_count(count: &DecisionCount, limiter: &str) {
    for (outcome, count) in [("admitted", count.admitted()), ("denied", count.denied())] {
        counter!(DECISIONS, "limiter" => limiter.to_owned(), "outcome" => outcome).absolute(count);
    }
}
