//! The real limiter, and the reference model beside it, behind one face for every algorithm.

use std::collections::HashMap;
use std::fmt;

use anyhow::{Context, Result};
use tollgate::algo::Machine;
use tollgate::algo::oracle::{Oracle, Verdict};
use tollgate::{Limiter, ManualClock, OnFull, Quota, Tick};

use crate::algorithm::Algorithm;

/// So many differences are kept to be shown; all are counted.
const DIFFERENCES_SHOWN: usize = 5;
/// Where a key falls in the table is the same in every run, so that a replay can be repeated.
const HASH_SEED: u64 = 0x0007_0116_A7E5;

/// How a limiter is built, but for its algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) quota: Quota,
    pub(crate) capacity: u64,
    pub(crate) on_full: OnFull,
    pub(crate) utc_offset_secs: i32,
    pub(crate) verify: bool,
    /// The Unix time of the limiter's first tick, in nanoseconds.
    pub(crate) origin_unix_nanos: u64,
}

/// Decides about one request after another.
pub(crate) trait Judge {
    /// Charges `cost` to `key`. Time is Unix time in nanoseconds, not before the origin.
    fn judge(&mut self, key: &str, cost: u64, unix_nanos: u64) -> Verdict;

    /// Where the limiter and the reference model did not agree; `None` without a model.
    fn differences(&self) -> Option<&Differences>;

    /// Times that the limiter could not keep a key, because the table was full.
    fn full(&self) -> u64;
}

/// Disagreements between the limiter and the reference model.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    pub(crate) count: u64,
    /// The first few.
    pub(crate) first: Vec<Difference>,
}

/// One request about which they disagree.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) key: String,
    pub(crate) cost: u64,
    pub(crate) unix_nanos: u64,
    pub(crate) limiter: Verdict,
    pub(crate) model: Verdict,
}

impl Setup {
    /// A limiter of `algorithm`, with its model where that is asked for.
    pub(crate) fn build<A>(&self, algorithm: &A) -> Result<Box<dyn Judge>>
    where
        A: tollgate::algo::Algorithm + Clone + 'static,
    {
        let limiter = Limiter::builder(self.quota)
            .algorithm(algorithm.clone())
            .clock(ManualClock::starting_at_unix_nanos(self.origin_unix_nanos))
            .capacity(self.capacity)
            .on_full(self.on_full)
            .hash_seed(HASH_SEED)
            .build()?;
        let model = self.verify.then(Model::default);
        Ok(Box::new(Bench::<A> { limiter, model, origin_unix_nanos: self.origin_unix_nanos }))
    }

    /// The same by the algorithm's name.
    pub(crate) fn build_named(&self, algorithm: &Algorithm) -> Result<Box<dyn Judge>> {
        (algorithm.build)(self)
            .with_context(|| format!("rule \"{}\" with {}", self.quota, algorithm.name))
    }
}

/// One limiter at work.
struct Bench<A: tollgate::algo::Algorithm> {
    limiter: Limiter<str, A, ManualClock>,
    model: Option<Model<<A::Params as Machine>::Oracle>>,
    origin_unix_nanos: u64,
}

/// One model for each key.
struct Model<O> {
    oracles: HashMap<Box<str>, O>,
    differences: Differences,
}

impl<O> Default for Model<O> {
    fn default() -> Self {
        Self { oracles: HashMap::new(), differences: Differences::default() }
    }
}

impl<A: tollgate::algo::Algorithm> Judge for Bench<A> {
    fn judge(&mut self, key: &str, cost: u64, unix_nanos: u64) -> Verdict {
        let now = Tick::from_nanos(unix_nanos.saturating_sub(self.origin_unix_nanos));
        let verdict = Verdict::from(&self.limiter.check_at(key, cost, now));
        if let Some(model) = &mut self.model {
            let expected = model.decide(key, cost, now, || self.limiter.params().oracle());
            if verdict != expected {
                model.differences.add(Difference {
                    key: key.to_owned(),
                    cost,
                    unix_nanos,
                    limiter: verdict,
                    model: expected,
                });
            }
        }
        verdict
    }

    fn differences(&self) -> Option<&Differences> {
        self.model.as_ref().map(|model| &model.differences)
    }

    fn full(&self) -> u64 {
        let stats = self.limiter.stats();
        stats.evicted + stats.refused_full + stats.admitted_full
    }
}

impl<O: Oracle> Model<O> {
    fn decide(&mut self, key: &str, cost: u64, now: Tick, fresh: impl FnOnce() -> O) -> Verdict {
        if let Some(oracle) = self.oracles.get_mut(key) {
            return oracle.decide(now, cost);
        }
        self.oracles.entry(key.into()).or_insert_with(fresh).decide(now, cost)
    }
}

impl Differences {
    fn add(&mut self, difference: Difference) {
        self.count += 1;
        if self.first.len() < DIFFERENCES_SHOWN {
            self.first.push(difference);
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = crate::charge::readable(&self.key);
        write!(f, "key {key}, cost {}, at {} ns since 1970: ", self.cost, self.unix_nanos)?;
        write!(f, "limiter {:?}, model {:?}", self.limiter, self.model)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::algorithm::ALGORITHMS;

    const ORIGIN: u64 = 807_256_800_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    fn setup(rule: &str, capacity: u64) -> Setup {
        Setup {
            quota: rule.parse().unwrap(),
            capacity,
            on_full: OnFull::EvictNearestIdle,
            utc_offset_secs: 0,
            verify: true,
            origin_unix_nanos: ORIGIN,
        }
    }

    #[test]
    fn every_algorithm_agrees_with_its_model() {
        for algorithm in ALGORITHMS {
            let mut judge = setup("2 per 10 s", 100).build_named(algorithm).unwrap();
            for step in 0..200_u64 {
                let key = ["a", "b", ""][usize::try_from(step % 3).unwrap()];
                let at = ORIGIN + step * step * 7_000_001;
                let _ = judge.judge(key, step % 4, at);
            }
            let differences = judge.differences().unwrap();
            assert_eq!(differences.count, 0, "{}: {:?}", algorithm.name, differences.first);
            assert_eq!(judge.full(), 0);
        }
    }

    #[test]
    fn aligned_windows_begin_at_the_wall_clocks_edges() {
        let quarter_past = ORIGIN + 900 * SECOND;
        let setup = Setup { origin_unix_nanos: quarter_past, ..setup("1/h", 10) };
        let mut judge = setup.build_named(&"fixed-window-aligned".parse().unwrap()).unwrap();
        assert!(judge.judge("a", 1, quarter_past).admitted);
        let refused = judge.judge("a", 1, quarter_past + SECOND);
        assert_eq!(refused.retry_after, Some(Duration::from_secs(45 * 60 - 1)));
    }

    #[test]
    fn a_full_table_is_told_and_seen_by_the_model() {
        let mut judge = setup("1/h", 1).build_named(&ALGORITHMS[0]).unwrap();
        for _ in 0..2 {
            for key in 0..1_000 {
                let _ = judge.judge(&key.to_string(), 1, ORIGIN);
            }
        }
        assert!(judge.full() > 0);
        let differences = judge.differences().unwrap();
        assert!(differences.count > 0);
        assert_eq!(differences.first.len(), DIFFERENCES_SHOWN);
    }

    #[test]
    fn what_cannot_be_built_names_rule_and_algorithm() {
        let setup = setup("2000000000 per 10 s", 10);
        let error = setup.build_named(&"fixed-window".parse().unwrap()).err().unwrap();
        let error = format!("{error:#}");
        assert!(error.contains("2000000000/10s") || error.contains("fixed-window"), "{error}");
    }
}
