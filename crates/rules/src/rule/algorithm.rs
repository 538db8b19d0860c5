//! The algorithms that a rules file can name. A new one is a row of [`ALGORITHMS`].

use std::fmt;

use tollgate::{
    AnyAlgorithm, FixedWindow, Gcra, LeakyQueue, Quota, SlidingCounter, SlidingLog, SubWindows,
};

use crate::words::span;

/// An algorithm, and what rules must know of it.
pub(crate) struct RuleAlgorithm {
    /// The name in rules files.
    pub(crate) name: &'static str,
    /// The limiters that count by it in this process.
    pub(crate) limiters: Limiters,
    /// How a store counts by it; `None`: a store cannot.
    pub(crate) in_stores: Option<InStores>,
    /// The most cells that a key can spend at once.
    pub(crate) at_once: fn(&Quota) -> u64,
    bound: fn(&Bound) -> String,
}

/// The limiters of the core that count by an algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Limiters {
    /// A token bucket. It can refund, settle and have plans, and its quota can be replaced.
    Gcra,
    /// Windows that can refund, settle and have plans, all of one period.
    Window(FixedWindow),
    /// Any algorithm that keeps one quota and takes nothing back.
    Other(AnyAlgorithm),
}

/// How a store counts by an algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InStores {
    /// Whether a process may lease cells ahead.
    pub(crate) may_lease: bool,
    /// Whether keys with another period are other keys of the store.
    pub(crate) by_period: bool,
    pub(crate) max: Option<CellsMax>,
}

/// The most cells of a limit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellsMax {
    pub(crate) cells: u64,
    /// The error of a larger limit.
    pub(crate) message: &'static str,
}

/// The most cells of a sliding log on a server, which is `Algorithm::MAX_LOG_LIMIT` of `tollgate-redis`.
const LOG_MAX: CellsMax = CellsMax {
    cells: 10_000,
    message: "a store keeps a \"sliding-log\" of 10,000 cells at most: lower the limit, or write \"sliding-counter\"",
};

/// The numbers and words for the sentence about the most that an algorithm admits.
struct Bound {
    quota: Quota,
    limit: u64,
    burst: u64,
    /// As in "5 an hour".
    rate: String,
    /// The period, as it is written after "any": "hour", or "15 minutes".
    any: String,
    burst_and_limit: u64,
    twice: u64,
    /// How many requests of a key a proxy lets wait.
    waiting_max: u64,
}

/// All algorithms, the default first.
pub(crate) static ALGORITHMS: [RuleAlgorithm; AnyAlgorithm::NAMES.len()] = [
    RuleAlgorithm {
        name: "gcra",
        limiters: Limiters::Gcra,
        in_stores: Some(InStores { may_lease: true, by_period: false, max: None }),
        at_once: Quota::burst_cells,
        bound: |Bound { burst, rate, any, burst_and_limit, .. }| {
            format!("at most {burst} at once and {rate}; in any {any} at most {burst_and_limit}")
        },
    },
    RuleAlgorithm {
        name: "fixed-window",
        limiters: Limiters::Window(FixedWindow::anchored()),
        in_stores: Some(InStores { may_lease: true, by_period: true, max: None }),
        at_once: Quota::limit,
        bound: |Bound { limit, any, twice, .. }| {
            format!(
                "at most {limit} in the {any} that begins with a key's first request; across the \
                 edge of two, {twice}"
            )
        },
    },
    RuleAlgorithm {
        name: "fixed-window-aligned",
        limiters: Limiters::Window(FixedWindow::aligned()),
        in_stores: Some(InStores { may_lease: true, by_period: true, max: None }),
        at_once: Quota::limit,
        bound: |Bound { limit, any, twice, .. }| {
            format!(
                "at most {limit} in each {any} of the wall clock (UTC); across the edge of two, \
                 {twice}"
            )
        },
    },
    RuleAlgorithm {
        name: "leaky-queue",
        limiters: Limiters::Other(AnyAlgorithm::LeakyQueue(LeakyQueue::new())),
        in_stores: None,
        at_once: Quota::burst_cells,
        bound: |Bound { quota, limit, burst, rate, waiting_max, .. }| {
            let last = quota.period().mul_f64((burst - 1) as f64 / *limit as f64);
            let last = span(last);
            // The first request of a burst does not wait.
            match burst - 1 {
                0 => format!("evenly {rate}; none waits for its turn"),
                1 => format!("evenly {rate}; one at a time waits for its turn, for {last}"),
                waiting => {
                    let in_proxy = match waiting > *waiting_max {
                        true => format!("; a proxy lets {waiting_max} of a key wait"),
                        false => String::new(),
                    };
                    format!(
                        "evenly {rate}; up to {waiting} wait for their turn, the last of them {last}{in_proxy}"
                    )
                }
            }
        },
    },
    RuleAlgorithm {
        name: "sub-windows",
        limiters: Limiters::Other(AnyAlgorithm::SubWindows(SubWindows::new())),
        in_stores: None,
        at_once: Quota::limit,
        bound: |Bound { limit, any, twice, .. }| {
            format!(
                "at most {limit} in the latest sub-windows of the {any}; in any {any} at most \
                 {twice}"
            )
        },
    },
    RuleAlgorithm {
        name: "sliding-counter",
        limiters: Limiters::Other(AnyAlgorithm::SlidingCounter(SlidingCounter::new())),
        in_stores: Some(InStores { may_lease: false, by_period: true, max: None }),
        at_once: Quota::limit,
        bound: |Bound { limit, any, twice, .. }| {
            format!("about {limit} in any {any}, by an estimate; at most {twice}")
        },
    },
    RuleAlgorithm {
        name: "sliding-log",
        limiters: Limiters::Other(AnyAlgorithm::SlidingLog(SlidingLog::new())),
        in_stores: Some(InStores { may_lease: false, by_period: false, max: Some(LOG_MAX) }),
        at_once: Quota::limit,
        bound: |Bound { limit, any, .. }| format!("at most {limit} in any {any}"),
    },
];

impl RuleAlgorithm {
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        ALGORITHMS.iter().find(|known| known.name == name)
    }

    pub(crate) fn algorithm(&self) -> AnyAlgorithm {
        match self.limiters {
            Limiters::Gcra => Gcra::new().into(),
            Limiters::Window(windows) => windows.into(),
            Limiters::Other(algorithm) => algorithm,
        }
    }

    /// Whether a charge can be settled by the response, and refunded.
    pub(crate) fn can_settle(&self) -> bool {
        match self.limiters {
            Limiters::Gcra | Limiters::Window(_) => true,
            Limiters::Other(_) => false,
        }
    }

    /// Whether one limiter can keep several quotas. These are the algorithms that can settle.
    pub(crate) fn can_plan(&self) -> bool {
        self.can_settle()
    }

    /// Whether the quota of a limiter can be replaced while keys keep their spent cells.
    pub(crate) fn can_replace_quota(&self) -> bool {
        match self.limiters {
            Limiters::Gcra => true,
            Limiters::Window(_) | Limiters::Other(_) => false,
        }
    }

    /// The most that the algorithm admits to a key, in plain words. A proxy lets `waiting_max` requests of a key wait.
    pub(crate) fn bound(&self, quota: Quota, waiting_max: u64) -> String {
        let (limit, burst, period) = (quota.limit(), quota.burst_cells(), span(quota.period()));
        let rate = match period.strip_prefix("1 ") {
            Some("hour") => format!("{limit} an hour"),
            Some(unit) => format!("{limit} a {unit}"),
            None => format!("{limit} every {period}"),
        };
        (self.bound)(&Bound {
            quota,
            limit,
            burst,
            rate,
            any: period.strip_prefix("1 ").unwrap_or(&period).to_owned(),
            burst_and_limit: burst.saturating_add(limit),
            twice: limit.saturating_mul(2),
            waiting_max,
        })
    }
}

impl PartialEq for RuleAlgorithm {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for RuleAlgorithm {}

impl fmt::Debug for RuleAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_algorithm_has_a_bound_in_plain_words() {
        let quota: Quota = "10 per hour burst 3".parse().unwrap();
        for (algorithm, said) in [
            ("gcra", "at most 3 at once and 10 an hour; in any hour at most 13"),
            (
                "fixed-window",
                "at most 10 in the hour that begins with a key's first request; across the edge of \
                 two, 20",
            ),
            (
                "fixed-window-aligned",
                "at most 10 in each hour of the wall clock (UTC); across the edge of two, 20",
            ),
            (
                "leaky-queue",
                "evenly 10 an hour; up to 2 wait for their turn, the last of them 12 minutes",
            ),
            (
                "sub-windows",
                "at most 10 in the latest sub-windows of the hour; in any hour at most 20",
            ),
            ("sliding-counter", "about 10 in any hour, by an estimate; at most 20"),
            ("sliding-log", "at most 10 in any hour"),
        ] {
            assert_eq!(RuleAlgorithm::named(algorithm).unwrap().bound(quota, 128), said);
        }
    }

    #[test]
    fn the_names_and_algorithms_are_those_of_the_library() {
        assert_eq!(ALGORITHMS.each_ref().map(|known| known.name), AnyAlgorithm::NAMES);
        for known in &ALGORITHMS {
            assert_eq!(known.name.parse(), Ok(known.algorithm()));
        }
    }
}
