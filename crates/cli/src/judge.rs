//! The real limiter, and the reference model beside it, behind one face for every algorithm.

use std::collections::HashMap;
use std::fmt;

use anyhow::{Context, Result, bail};
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::{Oracle, Verdict};
use tollgate::limiter::SlotLayout;
use tollgate::{BuildError, Limiter, ManualClock, OnFull, Quota, Tick};

use crate::algorithm::Algorithm;
use crate::report::words::counted;

/// So many differences are kept to be shown; all are counted.
const DIFFERENCES_SHOWN: usize = 5;
/// Where a key falls in the table is the same in every run, so that a replay can be repeated.
const HASH_SEED: u64 = 0x0007_0116_A7E5;
/// Keys that a limiter has room for unless told otherwise,
const CAPACITY_DEFAULT: u64 = 1_000_000;
/// if that takes no more memory than this.
const MEMORY_DEFAULT_BYTES: u64 = 1 << 30;

/// What is the same for all limiters of a replay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Keys that a limiter has room for; `None` is as many as fit in a memory of usual size.
    pub(crate) capacity: Option<u64>,
    pub(crate) on_full: OnFull,
    pub(crate) utc_offset_secs: i32,
    pub(crate) sub_windows: u32,
    /// Cells that a queue lets pass without delay.
    pub(crate) immediate_cells: u64,
    pub(crate) verify: bool,
}

/// How a limiter is built, but for its algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) quota: Quota,
    pub(crate) options: Options,
    /// The Unix time of the limiter's first tick, in nanoseconds.
    pub(crate) origin_unix_nanos: u64,
}

/// Decides about one request after another.
pub(crate) trait Judge {
    /// Charges `cost` to `key`. Time is Unix time in nanoseconds, not before the origin.
    fn judge(&mut self, key: &str, cost: u64, unix_nanos: u64) -> Verdict;

    /// Where the limiter and the reference model did not agree; `None` without a model.
    fn differences(&self) -> Option<&Differences>;

    /// Keys that the limiter has room for.
    fn capacity(&self) -> u64;

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
        A: tollgate::algorithm::Algorithm + Clone + 'static,
    {
        let Options { capacity, on_full, verify, .. } = self.options;
        let origin_unix_nanos = self.origin_unix_nanos;
        let key = KeySize::of(&algorithm.params(&self.quota, origin_unix_nanos)?);
        let capacity = capacity.unwrap_or_else(|| key.fitting(MEMORY_DEFAULT_BYTES));
        let built = Limiter::builder(self.quota)
            .algorithm(algorithm.clone())
            .clock(ManualClock::starting_at_unix_nanos(origin_unix_nanos))
            .capacity(capacity)
            .on_full(on_full)
            .slots(SlotLayout::Wide) // as fine as can be, and no two keys are taken for one
            .hash_seed(HASH_SEED)
            .build();
        if built.as_ref().err() == Some(&BuildError::OutOfMemory) {
            let keys = counted(capacity, "key", "keys");
            let bytes = counted(key.bytes(), "byte", "bytes");
            bail!("there is no memory for {keys} of {bytes} each: give a lower --capacity");
        }
        let model = verify.then(Model::default);
        Ok(Box::new(Bench::<A> { limiter: built?, capacity, model, origin_unix_nanos }))
    }

    /// The same by the algorithm's name.
    pub(crate) fn build_named(&self, algorithm: &Algorithm) -> Result<Box<dyn Judge>> {
        (algorithm.build)(self)
            .with_context(|| format!("rule \"{}\" with {}", self.quota, algorithm.name))
    }
}

/// What room for a key takes.
#[derive(Clone, Copy, Debug)]
struct KeySize {
    slot_bytes: u64,
}

impl KeySize {
    /// Of a slot, 55 in 100 hold a key.
    const LOAD_PERCENT: u64 = 55;

    /// A slot is two words, and what the algorithm keeps beside them.
    fn of(params: &impl StateMachine) -> Self {
        Self { slot_bytes: size_of::<u64>() as u64 * (2 + params.ring_cells() as u64) }
    }

    fn bytes(self) -> u64 {
        self.slot_bytes * 100 / Self::LOAD_PERCENT
    }

    /// So many fit in a memory, up to the usual number; at least 1.
    fn fitting(self, memory_bytes: u64) -> u64 {
        let fitting = memory_bytes * Self::LOAD_PERCENT / 100 / self.slot_bytes;
        fitting.clamp(1, CAPACITY_DEFAULT)
    }
}

/// One limiter at work.
struct Bench<A: tollgate::algorithm::Algorithm> {
    limiter: Limiter<str, A, ManualClock>,
    capacity: u64,
    model: Option<Model<<A::Params as StateMachine>::Oracle>>,
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

impl<A: tollgate::algorithm::Algorithm> Judge for Bench<A> {
    fn judge(&mut self, key: &str, cost: u64, unix_nanos: u64) -> Verdict {
        let now = Tick::from_nanos(unix_nanos.saturating_sub(self.origin_unix_nanos));
        let verdict = Verdict::from(&self.limiter.ask(key).cells(cost).at(now).check());
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

    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn full(&self) -> u64 {
        let stats = self.limiter.stats();
        stats.evicted + stats.denied_full + stats.admitted_full
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

    use tollgate::{AnyAlgorithm, Gcra, LeakyQueue, SlidingCounter, SlidingLog, SubWindows};

    use super::*;
    use crate::algorithm::ALGORITHMS;

    const ORIGIN: u64 = 807_256_800_000_000_000;
    const SECOND: u64 = 1_000_000_000;

    fn setup(rule: &str, capacity: impl Into<Option<u64>>) -> Setup {
        let options = Options {
            capacity: capacity.into(),
            on_full: OnFull::EvictNearestIdle,
            utc_offset_secs: 0,
            sub_windows: 6,
            immediate_cells: 1,
            verify: true,
        };
        Setup { quota: rule.parse().unwrap(), options, origin_unix_nanos: ORIGIN }
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
        let denied = judge.judge("a", 1, quarter_past + SECOND);
        assert_eq!(denied.retry_after, Some(Duration::from_secs(45 * 60 - 1)));
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
    fn unless_told_a_limiter_has_room_for_what_fits_in_a_gibibyte() {
        let capacity = |rule, name: &str| {
            setup(rule, None).build_named(&name.parse().unwrap()).unwrap().capacity()
        };
        for (rule, name, keys) in [
            ("65536/d", "gcra", 1_000_000),
            ("1/s", "sliding-log", 1_000_000),
            ("10/min", "sub-windows", 1_000_000),
            ("100/min", "sliding-log", 709_805),
            ("65536/d", "sliding-log", 1_126),
        ] {
            assert_eq!(capacity(rule, name), keys, "{rule} {name}");
        }
        assert_eq!(KeySize { slot_bytes: 1 << 40 }.fitting(1), 1);
    }

    /// Reckoned here, and in the library: buckets of eight, of which there are at least two.
    #[test]
    fn the_size_of_a_key_is_what_the_library_takes() {
        for (limit, count) in [(1, 2), (10, 6), (65_536, 256)] {
            let quota = Quota::per_minute(limit);
            for any in [
                AnyAlgorithm::from(Gcra::new()),
                LeakyQueue::new().into(),
                SubWindows::new().count(count).into(),
                SlidingCounter::new().into(),
                SlidingLog::new().into(),
            ] {
                let limiter: Limiter<str, _> = Limiter::builder(quota)
                    .algorithm(any)
                    .slots(SlotLayout::Wide)
                    .capacity(100)
                    .build()
                    .unwrap();
                let bytes = KeySize::of(limiter.params()).bytes();
                let taken = limiter.memory_bytes() as u64 / 100;
                assert!((bytes..bytes + bytes / 10).contains(&taken), "{any:?}: {bytes} {taken}");
            }
        }
    }

    #[test]
    fn without_memory_the_error_says_what_to_do() {
        let setup = setup("60000/min", 1_000_000_000);
        let error = setup.build_named(&"sliding-log".parse().unwrap()).err().unwrap();
        let error = format!("{error:#}");
        let advice = "there is no memory for 1,000,000,000 keys of 872,785 bytes each: give a \
                      lower --capacity";
        assert!(error.ends_with(advice), "{error}");
    }

    #[test]
    fn what_cannot_be_built_names_rule_and_algorithm() {
        let setup = setup("2000000000 per 10 s", 10);
        let error = setup.build_named(&"fixed-window".parse().unwrap()).err().unwrap();
        let start = "rule \"2000000000/10s\" with fixed-window: a fixed window counts at most";
        assert!(format!("{error:#}").starts_with(start), "{error:#}");
    }
}
