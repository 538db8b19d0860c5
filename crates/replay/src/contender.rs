//! A limiter that decides the requests of a log, with an optional reference model beside it.

use std::collections::HashMap;
use std::fmt;

use anyhow::{Result, bail};
use tollgate::algorithm::Algorithm;
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::{Oracle, Verdict};
use tollgate::limiter::SlotLayout;
use tollgate::{AnyAlgorithm, BuildError, Limiter, ManualClock, OnFull, Quota, Tick};

use crate::words::counted;

/// Differences that are kept for the report; all are counted.
const DIFFERENCES_SHOWN: usize = 5;
/// A fixed seed puts each key in the same slot in every run, so that a replay is repeatable.
pub(crate) const HASH_SEED: u64 = 0x0007_0116_A7E5;
/// The default capacity in keys, unless that exceeds [`MEMORY_DEFAULT_BYTES`].
const CAPACITY_DEFAULT: u64 = 1_000_000;
const MEMORY_DEFAULT_BYTES: u64 = 1 << 30;

/// The options that all limiters of a replay share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    /// Keys that a limiter has room for; `None` means the default.
    pub(crate) capacity: Option<u64>,
    pub(crate) on_full: OnFull,
    pub(crate) utc_offset_secs: i32,
    pub(crate) sub_windows: u32,
    /// Cells that a queue admits without delay.
    pub(crate) immediate_cells: u64,
    pub(crate) verify: bool,
}

/// How to build a limiter, except for its algorithm.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    pub(crate) quota: Quota,
    pub(crate) options: Options,
    /// The Unix time of the limiter's tick 0, in nanoseconds.
    pub(crate) origin_unix_nanos: u64,
}

/// Disagreements between the limiter and the reference model.
#[derive(Debug, Default)]
pub(crate) struct Differences {
    pub(crate) count: u64,
    /// The first [`DIFFERENCES_SHOWN`].
    pub(crate) first: Vec<Difference>,
}

/// One request on which the limiter and the model disagree.
#[derive(Debug)]
pub(crate) struct Difference {
    key: String,
    cost: u64,
    unix_nanos: u64,
    limiter: Verdict,
    model: Verdict,
}

impl Setup {
    /// Builds a limiter of `algorithm`, with its model if `verify` is set.
    pub(crate) fn build(&self, algorithm: AnyAlgorithm) -> Result<Contender> {
        let Options { capacity, on_full, verify, .. } = self.options;
        let origin_unix_nanos = self.origin_unix_nanos;
        let key = KeySize::of(&algorithm.params(&self.quota, origin_unix_nanos)?);
        let capacity = capacity.unwrap_or_else(|| key.fitting(MEMORY_DEFAULT_BYTES));
        let built = Limiter::builder(self.quota)
            .algorithm(algorithm)
            .clock(ManualClock::starting_at_unix_nanos(origin_unix_nanos))
            .capacity(capacity)
            .on_full(on_full)
            .slots(SlotLayout::Wide) // the finest time unit, and no two keys share a slot
            .hash_seed(HASH_SEED)
            .build();
        if built.as_ref().err() == Some(&BuildError::OutOfMemory) {
            let keys = counted(capacity, "key", "keys");
            let bytes = counted(key.bytes(), "byte", "bytes");
            bail!("there is no memory for {keys} of {bytes} each: lower --capacity");
        }
        let model = verify.then(Model::default);
        Ok(Contender { limiter: built?, capacity, model, origin_unix_nanos })
    }
}

/// The memory that room for one key takes.
#[derive(Clone, Copy, Debug)]
struct KeySize {
    slot_bytes: u64,
}

impl KeySize {
    /// A table is sized so that this share of its slots holds a key.
    const LOAD_PERCENT: u64 = 55;

    /// A slot is two words plus the ring of the algorithm.
    fn of(params: &impl StateMachine) -> Self {
        Self { slot_bytes: size_of::<u64>() as u64 * (2 + params.ring_cells() as u64) }
    }

    fn bytes(self) -> u64 {
        self.slot_bytes * 100 / Self::LOAD_PERCENT
    }

    /// Keys that fit in a memory: at least 1, at most the default capacity.
    fn fitting(self, memory_bytes: u64) -> u64 {
        let fitting = memory_bytes * Self::LOAD_PERCENT / 100 / self.slot_bytes;
        fitting.clamp(1, CAPACITY_DEFAULT)
    }
}

/// A limiter, and its model if `--verify` is given.
pub(crate) struct Contender {
    limiter: Limiter<str, AnyAlgorithm, ManualClock>,
    capacity: u64,
    model: Option<Model>,
    origin_unix_nanos: u64,
}

type KeyOracle = <<AnyAlgorithm as Algorithm>::Params as StateMachine>::Oracle;

/// The reference model: one exact oracle per key.
#[derive(Default)]
struct Model {
    oracles: HashMap<Box<str>, KeyOracle>,
    differences: Differences,
}

impl Contender {
    /// Charges `cost` to `key`. Time is Unix time in nanoseconds, not before the origin.
    pub(crate) fn decide(&mut self, key: &str, cost: u64, unix_nanos: u64) -> Verdict {
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

    /// Where the limiter and the reference model disagreed; `None` without a model.
    pub(crate) fn differences(&self) -> Option<&Differences> {
        self.model.as_ref().map(|model| &model.differences)
    }

    /// Keys that the limiter has room for.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// How often the limiter could not keep a key because its table was full.
    pub(crate) fn times_full(&self) -> u64 {
        let stats = self.limiter.stats();
        stats.evicted + stats.denied_full + stats.admitted_full
    }
}

impl Model {
    fn decide(
        &mut self,
        key: &str,
        cost: u64,
        now: Tick,
        fresh: impl FnOnce() -> KeyOracle,
    ) -> Verdict {
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
        let key = crate::log::charge::readable(&self.key);
        write!(f, "key {key}, cost {}, at {} ns since 1970: ", self.cost, self.unix_nanos)?;
        write!(f, "limiter {:?}, model {:?}", self.limiter, self.model)
    }
}

#[cfg(test)]
mod tests {
    use tollgate::{Gcra, LeakyQueue, SlidingCounter, SlidingLog, SubWindows};

    use super::*;

    #[test]
    fn a_key_of_any_size_has_room() {
        assert_eq!(KeySize { slot_bytes: 1 << 40 }.fitting(1), 1);
    }

    /// The library allocates buckets of eight slots, at least two of them; more for few keys.
    #[test]
    fn the_computed_size_of_a_key_is_what_the_library_allocates() {
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
                    .capacity(10_000)
                    .build()
                    .unwrap();
                let bytes = KeySize::of(limiter.params()).bytes();
                let taken = limiter.memory_bytes() as u64 / 10_000;
                assert!((bytes..bytes + bytes / 10).contains(&taken), "{any:?}: {bytes} {taken}");
            }
        }
    }
}
