//! Which part of `results/causes.md` explains a loss.

use super::losses::{Loss, is_for_one_thread};

/// The headings of `results/causes.md`.
const GIVEN: &str = "Several times the fastest peer with the time given";
const DENIED: &str = "Several times the fastest peer's denials";
const ONE_BY_ONE: &str = "One key at a time among many";
const NEW: &str = "A new key";
const BYTES: &str = "Bytes a key";
const LOCK: &str = "A lock without contention";
const RINGS: &str = "Rings, many keys";
const RING_DENIALS: &str = "Rings beside one-word denials, time given";
const TOLD: &str = "Reading the time to wait";
const HOT: &str = "One hot key";
const SLOWEST: &str = "Slowest calls";
const COUNTING: &str = "Counting decisions";
const ONE_THREAD: &str = "A meter for one thread";
const COUNTER: &str = "A counter that a thread resets";

/// The heading that explains a loss, if one does.
pub(super) fn cause(bench: &str, loss: &Loss) -> Option<&'static str> {
    let Loss { title, ours, theirs, unit, .. } = loss;
    let is_denied = title.contains("denied") || title.contains("deny") || title.contains("Denials");
    let is_ring = ["log", "Log", "sub-windows", "SubWindows", "Counter"]
        .iter()
        .any(|name| ours.contains(name) || title.contains(name));
    let is_locked =
        ["Mutex", "locked", "RwLock", "parking_lot"].iter().any(|name| theirs.contains(name));
    let is_hot =
        title.contains("one hot key") || title.contains("hot-key") || title.contains("one key");
    let is_given = ours.contains("time given");
    Some(match () {
        () if unit.contains("byte") || unit == "MB" => BYTES,
        () if bench == "latency" || unit.contains("max") || unit.contains("p99") => SLOWEST,
        () if title.contains("p99.99") || title.contains("slowest") => SLOWEST,
        () if theirs.contains("thread resets") => COUNTER,
        () if is_for_one_thread(theirs) => ONE_THREAD,
        () if ours.contains("count_decisions") => COUNTING,
        () if title.starts_with("flood") => NEW,
        () if ours.contains("reads retry_after") => TOLD,
        () if title.starts_with("isolated")
            || title.starts_with("cold")
            || title.starts_with("10m") =>
        {
            ONE_BY_ONE
        }
        () if is_ring && is_denied && is_given => RING_DENIALS,
        () if is_ring && title.contains("keys") => RINGS,
        () if is_ring || (is_locked && !is_hot) => LOCK,
        () if is_denied => DENIED,
        () if is_hot => HOT,
        () if is_given => GIVEN,
        () => return None,
    })
}

/// The anchor of a heading, as GitHub makes it.
pub(super) fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_a_heading_of_the_page() {
        let page = include_str!("../../results/causes.md");
        let headings = [
            GIVEN,
            DENIED,
            ONE_BY_ONE,
            NEW,
            BYTES,
            LOCK,
            RINGS,
            RING_DENIALS,
            TOLD,
            HOT,
            SLOWEST,
            COUNTER,
            COUNTING,
            ONE_THREAD,
        ];
        for heading in headings {
            let line = format!("## {heading}");
            assert!(page.lines().any(|other| other == line), "no {line:?}");
        }
    }

    #[test]
    fn a_loss_has_the_cause_of_its_rows() {
        let loss = |title: &str, ours: &str, theirs: &str, unit: &str| Loss {
            title: title.to_owned(),
            threads: Some(1),
            ours: ours.to_owned(),
            theirs: theirs.to_owned(),
            our_figure: 2.0,
            their_figure: 1.0,
            unit: unit.to_owned(),
        };
        let lock =
            loss("log, one bucket, admitted", "log: tollgate, own clock", "log: std Mutex", "ns");
        assert_eq!(cause("versus_mutex", &lock), Some(LOCK));
        let meter = "DPDK meter for one thread, time given";
        let one_thread = loss("direct-deny-1: one bucket", "tollgate, time given", meter, "ns");
        assert_eq!(cause("versus_crates", &one_thread), Some(ONE_THREAD));
        let bytes = loss("memory, resident", "tollgate", "governor", "bytes a key");
        assert_eq!(cause("memory", &bytes), Some(BYTES));
        let flood = |what: &str| {
            cause("versus_crates", &loss(what, "tollgate", "pingora-limits (approximate)", "ns"))
        };
        assert_eq!(["flood, p99", "flood, p50"].map(flood), [Some(NEW); 2]);
        assert_eq!(["flood, p99.99", "flood, slowest"].map(flood), [Some(SLOWEST); 2]);
        let odd = loss("something new", "tollgate, own clock", "another", "ns");
        assert_eq!(cause("keyed", &odd), None);
    }

    #[test]
    fn anchors_are_made_of_letters_and_hyphens() {
        assert_eq!(anchor(DENIED), "several-times-the-fastest-peers-denials");
        assert_eq!(anchor(RINGS), "rings-many-keys");
    }
}
