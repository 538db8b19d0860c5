//! A keyed limiter of a few slots, compared with one oracle for each key.
//!
//! The model knows no table. It learns from the statistics when a key was denied a slot, or was
//! evicted. It checks everything else: a key with a slot is decided in every field like an oracle
//! of its own, and at most one key is evicted for each eviction counted.

use std::collections::HashMap;
use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::{Oracle, Verdict};
use tollgate::limiter::SlotLayout;
use tollgate::stats::Stats;
use tollgate::{Limiter, ManualClock, OnFull, Quota, Tick};

use super::choice::{Choice, Cost, ORIGIN_2025};
use super::grid::{horizon, nanos, ring_horizon};
use super::mistake::{Mistake, planted};

/// The parameters of a limiter.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) quota: Quota,
    pub(crate) on_full: OnFull,
    pub(crate) capacity: u64,
    /// Wide slots, or compact slots where the quota fits them.
    pub(crate) slots: SlotLayout,
    pub(crate) skew: Duration,
    pub(crate) seed: u64,
    pub(crate) start: Tick,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Check {
        key: u16,
        cost: Cost,
    },
    /// Asks with `allow`.
    Allow {
        key: u16,
        cost: Cost,
    },
    Peek {
        key: u16,
        cost: Cost,
    },
    Reset {
        key: u16,
    },
    Count,
    /// Advances to the end of the last denial's wait, plus or minus a nanosecond.
    ToRetry(u8),
    /// Advances to the end of the last answer's reset time, plus or minus a nanosecond.
    ToReset(u8),
    Forward(u64),
    ForwardIntervals(u8),
    /// Sets the clock back, by at most the skew that the limiter allows.
    Back(u64),
}

type OracleOf<A> = <<A as Algorithm>::Params as StateMachine>::Oracle;

pub(crate) struct Keyed<A: Algorithm> {
    gate: Limiter<u16, A, ManualClock>,
    fresh: OracleOf<A>,
    /// The keys that have, or may have, a slot, with their oracles.
    oracles: HashMap<u16, OracleOf<A>>,
    shared: Option<OracleOf<A>>,
    interval_nanos: u64,
    fits: u64,
    skew_nanos: u64,
    now: u64,
    /// The latest instant so far, and the last instant for which a wrapping grid promises anything.
    newest: u64,
    end: u64,
    last: Option<Verdict>,
    memory_bytes: usize,
}

/// The buckets of eight slots for a capacity at 55 % load; at least two.
fn lines(capacity: u64) -> usize {
    let slots = usize::try_from(capacity).expect("few") * 100 / 55 + 1;
    slots.div_ceil(8).max(2)
}

impl<A: Algorithm> Keyed<A> {
    pub(crate) fn new(algorithm: A, choice: Choice, setup: &Setup) -> Option<Self> {
        let overflow = match setup.on_full {
            OnFull::SharedOverflow(quota) => Some((quota, algorithm.params(&quota, ORIGIN_2025))),
            _ => None,
        };
        let compact = match setup.slots {
            SlotLayout::Wide => None,
            _ => algorithm.compact_params(&setup.quota, ORIGIN_2025).ok()?,
        };
        let is_compact = compact.is_some();
        let params = compact.or_else(|| algorithm.params(&setup.quota, ORIGIN_2025).ok())?;
        let start = setup.start.as_nanos();
        let mut skew_nanos = nanos(setup.skew);
        let mut end = u64::MAX;
        let mut bound = |params: &A::Params, quota: &Quota| {
            let (oldest, _) = horizon(params, start);
            if let Some(tolerance) = params.skew_tolerance() {
                // A clock that is behind may decide, and it ranks slots at an instant twice as far
                // back.
                skew_nanos = skew_nanos.min(nanos(tolerance) / 2);
            }
            // The first state may be stamped before the start.
            end = end.min(horizon(params, oldest).1);
            end = end.min(ring_horizon(params, choice, quota, oldest));
        };
        bound(&params, &setup.quota);
        let shared = match overflow {
            Some((quota, params)) => {
                let params = params.ok()?;
                bound(&params, &quota);
                Some(params.oracle())
            }
            None => None,
        };
        let interval_nanos = nanos(setup.quota.period()) / setup.quota.limit();
        // `lose` looks ahead by a cell.
        end = end.saturating_sub(interval_nanos + 1);
        if start > end {
            return None;
        }
        let gate = Limiter::builder(setup.quota)
            .algorithm(algorithm)
            .clock(ManualClock::starting_at_unix_nanos(ORIGIN_2025))
            .capacity(setup.capacity)
            .slots(if is_compact { SlotLayout::Compact } else { SlotLayout::Wide })
            .on_full(setup.on_full)
            .max_clock_skew(Duration::from_nanos(skew_nanos))
            .hash_seed(setup.seed)
            .build()
            .expect("the quotas are accepted, and the table is small");
        let memory_bytes = gate.memory_bytes();
        // A bucket of eight slots takes one cache line, or two and the rings.
        assert_eq!(is_compact, memory_bytes == 64 * lines(setup.capacity));
        Some(Self {
            fresh: gate.params().oracle(),
            gate,
            oracles: HashMap::new(),
            shared,
            interval_nanos,
            fits: choice.fits(&setup.quota),
            skew_nanos,
            now: start,
            newest: start,
            end,
            last: None,
            memory_bytes,
        })
    }

    pub(crate) fn stats(&self) -> Stats {
        self.gate.stats()
    }

    pub(crate) fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Check { key, cost } => self.check(key, cost, Self::checked),
            // The answer of the shared bucket is not known before it is asked.
            Operation::Allow { key, cost } if self.shared.is_none() => {
                self.check(key, cost, Self::allowed);
            }
            Operation::Allow { key, cost } => self.check(key, cost, Self::checked),
            Operation::Peek { key, cost } => {
                let n = self.cells(key, cost);
                self.peek(key, n);
            }
            Operation::Reset { key } => {
                if !planted(Mistake::ResetLeftOut) {
                    self.gate.reset(&key);
                }
                self.oracles.remove(&key);
            }
            Operation::Count => self.count(),
            Operation::ToRetry(off) => {
                let wait = self.last.and_then(|last| last.retry_after).unwrap_or_default();
                self.forward(nanos(wait).saturating_add(off.into()).saturating_sub(1));
            }
            Operation::ToReset(off) => {
                let wait = self.last.map(|last| last.reset_after).unwrap_or_default();
                self.forward(nanos(wait).saturating_add(off.into()).saturating_sub(1));
            }
            Operation::Forward(span) => self.forward(span),
            Operation::ForwardIntervals(count) => {
                self.forward(self.interval_nanos.saturating_mul(count.into()));
            }
            Operation::Back(span) => {
                self.now = self.now.saturating_sub(span).max(self.oldest().as_nanos());
            }
        }
    }

    pub(crate) fn finish(&mut self) {
        self.lose(0);
        self.count();
        assert_eq!(self.gate.memory_bytes(), self.memory_bytes);
    }

    fn tick(&self) -> Tick {
        Tick::from_nanos(self.now)
    }

    /// The time of the oldest clock that any thread may have.
    fn oldest(&self) -> Tick {
        Tick::from_nanos(self.newest.saturating_sub(self.skew_nanos))
    }

    fn forward(&mut self, span: u64) {
        self.now = self.now.saturating_add(span).min(self.end);
        self.newest = self.newest.max(self.now);
    }

    fn oracle(&self, key: u16) -> OracleOf<A> {
        self.oracles.get(&key).unwrap_or(&self.fresh).clone()
    }

    fn cells(&self, key: u16, cost: Cost) -> u64 {
        let rest = self.oracle(key).decide(self.tick(), 0).remaining;
        cost.cells(self.fits, rest)
    }

    /// Peeks twice, to check that a peek changes nothing.
    fn peek(&self, key: u16, n: u64) -> Verdict {
        let before = self.gate.stats();
        let peeked = Verdict::from(&self.gate.ask(&key).cells(n).at(self.tick()).peek());
        assert_eq!(peeked, Verdict::from(&self.gate.ask(&key).cells(n).at(self.tick()).peek()));
        assert_eq!(self.gate.stats(), before, "a peek is counted nowhere");
        assert_eq!(peeked, self.oracle(key).decide(self.tick(), n), "peek {n} of {key}");
        peeked
    }

    fn checked(&self, key: u16, n: u64, _: Verdict) -> Verdict {
        let n = if planted(Mistake::CostCut) { n & 0xff } else { n };
        Verdict::from(&self.gate.ask(&key).cells(n).at(self.tick()).check())
    }

    /// The answer of a peek, if `allow` agrees with it; otherwise the answer to a key without a
    /// slot.
    fn allowed(&self, key: u16, n: u64, peeked: Verdict) -> Verdict {
        let allowed = self.gate.ask(&key).cells(n).at(self.tick()).allow();
        match (allowed, peeked.admitted) {
            (true, false) => Verdict { admitted: true, retry_after: None, ..peeked },
            (false, true) => {
                let retry_after = Some(Duration::from_nanos(1));
                Verdict { admitted: false, remaining: 0, retry_after, ..peeked }
            }
            _ => peeked,
        }
    }

    fn check(&mut self, key: u16, cost: Cost, ask: fn(&Self, u16, u64, Verdict) -> Verdict) {
        let n = self.cells(key, cost);
        let peeked = self.peek(key, n);
        let before = self.gate.stats();
        let answer = ask(self, key, n, peeked);
        let after = self.gate.stats();
        let claimed = after.claimed - before.claimed;
        let evicted = after.evicted - before.evicted;
        let full = [
            after.denied_full - before.denied_full,
            after.admitted_full - before.admitted_full,
            after.overflowed - before.overflowed,
        ];
        assert!(claimed <= 1 && evicted <= claimed, "{before:?} then {after:?}");
        if full == [0; 3] {
            self.decided(key, n, answer, claimed > 0);
        } else {
            assert_eq!(claimed, 0, "a key that found no slot was given one");
            self.without_slot(key, full, n, (answer, peeked));
        }
        if claimed > 0 {
            self.lose(evicted);
        }
        self.last = Some(answer);
    }

    /// Checks an answer to a key that has a slot, or needs none.
    fn decided(&mut self, key: u16, n: u64, answer: Verdict, claimed: bool) {
        let mut oracle = self.oracle(key);
        let known = self.oracles.contains_key(&key);
        if claimed && known {
            let owed = oracle.clone().decide(self.oldest(), 0).reset_after;
            assert!(owed.is_zero(), "{key} was live, and was given another slot");
        }
        assert_eq!(answer, oracle.decide(self.tick(), n), "{n} of {key} at {}", self.now);
        if claimed || known {
            self.oracles.insert(key, oracle);
        }
    }

    fn without_slot(
        &mut self,
        key: u16,
        full: [u64; 3],
        n: u64,
        (answer, peeked): (Verdict, Verdict),
    ) {
        let live = self.oracle(key).decide(self.oldest(), 0).reset_after > Duration::ZERO;
        assert!(!live || !self.oracles.contains_key(&key), "{key} is live, so it has a slot");
        match full {
            [1, 0, 0] => {
                assert!(!answer.admitted && answer.remaining == 0);
                assert_eq!(answer.retry_after.is_none(), n > self.fits);
                assert_ne!(answer.retry_after, Some(Duration::ZERO), "denied with a wait of zero");
            }
            [0, 1, 0] => {
                assert!(answer.admitted, "counted as admitted");
                assert_eq!(
                    (answer.remaining, answer.reset_after),
                    (peeked.remaining, peeked.reset_after)
                );
            }
            [0, 0, 1] => {
                let now = self.tick();
                let shared = self.shared.as_mut().expect("the policy has a shared limiter");
                assert_eq!(answer, shared.decide(now, n), "{n} of the shared bucket");
            }
            _ => panic!("one request was counted twice: {full:?}"),
        }
    }

    /// After a claim, finds the keys that lost their slots: one for each eviction, and any that are
    /// idle for every clock.
    fn lose(&mut self, evicted: u64) {
        let oldest = self.oldest();
        // A key that starts empty and one that has spent all cells look alike, but not a cell
        // later.
        let later = Tick::from_nanos(self.newest.saturating_add(self.interval_nanos + 1));
        let mut lost: Vec<u16> = Vec::new();
        let mut live_lost = 0;
        for (key, oracle) in &self.oracles {
            let mut kept = true;
            // A weighted count may leave less than a cell: only its end shows it.
            for (now, n) in [(oldest, 1), (oldest, 0), (later, 1)] {
                let peeked = Verdict::from(&self.gate.ask(key).cells(n).at(now).peek());
                if peeked != oracle.clone().decide(now, n) {
                    assert_eq!(
                        peeked,
                        self.fresh.clone().decide(now, n),
                        "the state of {key} was changed"
                    );
                    kept = false;
                }
            }
            if !kept {
                let idle = oracle.clone().decide(oldest, 0).reset_after.is_zero();
                live_lost += u64::from(!idle);
                lost.push(*key);
            }
        }
        assert!(live_lost <= evicted, "{live_lost} live keys lost, {evicted} evictions counted");
        for key in lost {
            self.oracles.remove(&key);
        }
    }

    fn count(&self) {
        let now = self.tick();
        let live = |oracle: &OracleOf<A>| !oracle.clone().decide(now, 0).reset_after.is_zero();
        let count = self.oracles.values().filter(|oracle| live(oracle)).count();
        assert_eq!(self.gate.len_at(now), count);
    }
}
