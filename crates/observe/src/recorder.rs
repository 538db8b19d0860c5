//! Counts and occupancy of limiters, as counters and gauges.

use std::hash::Hash;

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use tollgate::algorithm::Algorithm;
use tollgate::stats::DecisionCount;
use tollgate::{Clock, Limiter};

pub(crate) const DECISIONS: &str = "tollgate_limiter_decisions_total";
const CLAIMS: &str = "tollgate_claims_total";
const EVICTIONS: &str = "tollgate_evictions_total";
const TABLE_FULL: &str = "tollgate_table_full_total";
const LEASES: &str = "tollgate_leases_total";
const LIVE_KEYS: &str = "tollgate_live_keys";
const CAPACITY_KEYS: &str = "tollgate_capacity_keys";
const LOAD_RATIO: &str = "tollgate_load_ratio";
const MEMORY_BYTES: &str = "tollgate_memory_bytes";
pub(crate) const TOP_DENIED: &str = "tollgate_top_denied";
pub(crate) const TOP_DROPPED: &str = "tollgate_top_dropped";

/// Describes each metric to the recorder. Call it once, after the recorder is installed.
///
/// ```
/// tollgate_observe::describe();
/// ```
pub fn describe() {
    let counts = [
        (DECISIONS, "Decisions, by outcome, if the limiter counts them"),
        (CLAIMS, "Keys that were given a slot"),
        (EVICTIONS, "Live keys that were forgotten to make room"),
        (TABLE_FULL, "Requests whose key found no slot, by outcome"),
        (LEASES, "Leases of cells of a hot key by a thread"),
    ];
    for (name, text) in counts {
        describe_counter!(name, Unit::Count, text);
    }
    let levels = [
        (LIVE_KEYS, Unit::Count, "Live keys, approximately"),
        (CAPACITY_KEYS, Unit::Count, "Live keys that fit"),
        (LOAD_RATIO, Unit::Count, "Share of the slots that hold live keys, 0 to 1"),
        (MEMORY_BYTES, Unit::Bytes, "Memory of the slots; it is fixed"),
        (TOP_DENIED, Unit::Count, "Denials of a key, for the keys that are denied most"),
        (TOP_DROPPED, Unit::Count, "Denials that are in no key's count"),
    ];
    for (name, unit, text) in levels {
        describe_gauge!(name, unit, text);
    }
}

/// Records the counts and the occupancy of a limiter, under the label `limiter`.
///
/// Call it from the handler of a scrape or from a timer; nothing is recorded in between. It only reads,
/// and blocks no decision. It makes one series per metric and outcome, twelve in all, whatever the keys
/// are.
///
/// **Not guaranteed.** While threads decide, the values are of slightly different moments. The live keys
/// of a large table are an estimate: see [`Limiter::len`]. Two limiters of one name share the series: a counter shows
/// the larger count, and a gauge the last. So a limiter that takes the place of another under its name seems to count
/// nothing until it has counted more than the other.
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
        [(CLAIMS, stats.claimed), (EVICTIONS, stats.evicted), (LEASES, stats.leased)]
    {
        counter!(name, "limiter" => limiter()).absolute(count);
    }
    let table_full = [
        ("denied", stats.denied_full),
        ("admitted", stats.admitted_full),
        ("shared", stats.overflowed),
    ];
    for (outcome, count) in table_full {
        counter!(TABLE_FULL, "limiter" => limiter(), "outcome" => outcome).absolute(count);
    }
    let occupancy = gate.occupancy();
    gauge!(LIVE_KEYS, "limiter" => limiter()).set(occupancy.live as f64);
    gauge!(CAPACITY_KEYS, "limiter" => limiter()).set(occupancy.capacity as f64);
    gauge!(LOAD_RATIO, "limiter" => limiter()).set(occupancy.load());
    gauge!(MEMORY_BYTES, "limiter" => limiter()).set(gate.memory_bytes() as f64);
}

/// Records decisions that were counted outside a limiter, for example those of a `Direct`.
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
