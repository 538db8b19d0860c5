//! Plays a script on a limiter, and checks its history.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use shuttle::thread;
use tollgate::algorithm::Algorithm;
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::{Oracle, Verdict};
use tollgate::limiter::SlotLayout;
use tollgate::{Builder, Clock, Decision, Direct, Gcra, Limiter, OnFull, Quota, Tick};

use crate::bucket::Bucket;
use crate::explore::{History, Played};
use crate::linear::is_linearizable;
use crate::record::{Call, Recorder, any_overlap};
use crate::script::{BEFORE, BEGIN, Draw, Mix, Op, Request, at};

/// The clock of limiters whose callers pass the time.
#[derive(Debug)]
pub struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Tick {
        Tick::ZERO
    }
}

/// A limiter with keys, whose callers pass the time.
pub type Keyed<A> = Limiter<u64, A, NoClock>;
/// A limiter without keys, whose callers pass the time.
pub type Bare<A> = Direct<A, NoClock>;

/// One cell a second.
#[must_use]
pub fn burst(cells: u64) -> Quota {
    Quota::per_second(1).burst(cells)
}

/// Clocks differ by less than this in any history.
pub const SKEW: Duration = Duration::from_secs(30);

/// A table of two slots.
///
/// # Panics
///
/// The quota is out of range.
#[must_use]
pub fn two_slots<A: Algorithm>(
    algorithm: A,
    quota: Quota,
    slots: SlotLayout,
    on_full: OnFull,
) -> Keyed<A> {
    let begun: Builder<u64, Gcra, NoClock> = Limiter::builder(quota).clock(NoClock);
    // The keys 0 and 1 prefer one wide slot, 2 and 7 the other. All of them prefer the same compact slot.
    let seed = if slots == SlotLayout::Wide { 85 } else { 58 };
    let begun =
        begun.capacity(1).on_full(on_full).hash_seed(seed).max_clock_skew(SKEW).slots(slots);
    begun.algorithm(algorithm).build().expect("the quota fits the slots")
}

/// A limiter without keys.
///
/// # Panics
///
/// The quota is out of range.
#[must_use]
pub fn bare<A: Algorithm>(algorithm: A, quota: Quota) -> Bare<A> {
    Direct::builder(quota).algorithm(algorithm).clock(NoClock).build().expect("in range")
}

/// A limiter under test.
pub trait Gate: Send + Sync + 'static {
    /// The model of its algorithm.
    type Oracle: Oracle + core::fmt::Debug;

    /// The model, in the state of a key never seen.
    fn oracle(&self) -> Self::Oracle;
    /// Asks for cells.
    fn check(&self, key: u64, n: u64, now: Tick) -> Decision;
    /// Peeks.
    fn peek(&self, key: u64, n: u64, now: Tick) -> Decision;
    /// Resets the key.
    fn reset(&self, key: u64);
    /// How often a key was evicted, and how often a key found no place.
    fn evicted_and_denied_full(&self) -> (u64, u64);
}

impl<A: Algorithm + 'static> Gate for Keyed<A>
where
    <A::Params as StateMachine>::Oracle: core::fmt::Debug,
    A::Params: Send + Sync,
{
    type Oracle = <A::Params as StateMachine>::Oracle;

    fn oracle(&self) -> Self::Oracle {
        self.params().oracle()
    }

    fn check(&self, key: u64, n: u64, now: Tick) -> Decision {
        self.ask(&key).cells(n).at(now).check()
    }

    fn peek(&self, key: u64, n: u64, now: Tick) -> Decision {
        self.ask(&key).cells(n).at(now).peek()
    }

    fn reset(&self, key: u64) {
        Limiter::reset(self, &key);
    }

    fn evicted_and_denied_full(&self) -> (u64, u64) {
        let stats = self.stats();
        (stats.evicted, stats.denied_full)
    }
}

impl<A: Algorithm + 'static> Gate for Bare<A>
where
    <A::Params as StateMachine>::Oracle: core::fmt::Debug,
    A::Params: Send + Sync,
{
    type Oracle = <A::Params as StateMachine>::Oracle;

    fn oracle(&self) -> Self::Oracle {
        self.params().oracle()
    }

    fn check(&self, _: u64, n: u64, now: Tick) -> Decision {
        self.ask().cells(n).at(now).check()
    }

    fn peek(&self, _: u64, n: u64, now: Tick) -> Decision {
        self.ask().cells(n).at(now).peek()
    }

    fn reset(&self, _: u64) {
        Direct::reset(self);
    }

    fn evicted_and_denied_full(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// A family of histories.
#[derive(Clone, Copy, Debug)]
pub struct Family<O> {
    /// The requests of the threads.
    pub mix: Mix,
    /// Cells that a fresh bucket grants.
    pub burst: u64,
    /// Keys that one thread charges before the others begin. It does so long before, so that they are idle
    /// by then.
    pub before: u64,
    /// Whether it charges them just before instead, so that they keep their slots.
    pub before_is_live: bool,
    /// The state of a key that was claimed at a time and not charged, if answers depend on that time.
    pub claimed_state: Option<fn(&O, Tick) -> O>,
}

/// A request and its answer. A reset has none.
type Answered = Call<Op, Option<Verdict>>;

impl<O: Oracle + core::fmt::Debug> Family<O> {
    /// Plays a new script on the limiter, and checks the answers.
    ///
    /// # Errors
    ///
    /// The history, if no order of its calls explains it.
    pub fn play(&self, gate: impl Gate<Oracle = O>) -> Played {
        let mut draw = Draw::of_this_history();
        let script = self.mix.script(&mut draw);
        let gate = Arc::new(gate);
        let recorder = Recorder::default();
        let before = if self.before_is_live { at(BEGIN - 1) } else { at(BEFORE) };
        let first =
            (0..self.before).map(|key| Request { key, op: Op::Check { n: 1, now: before } });
        let mut calls = ask(&*gate, &recorder, 0, first);
        let threads: Vec<_> = (1..)
            .zip(script)
            .map(|(thread, requests)| {
                let (gate, recorder) = (Arc::clone(&gate), recorder.clone());
                thread::spawn(move || ask(&*gate, &recorder, thread, requests.into_iter()))
            })
            .collect();
        for thread in threads {
            calls.extend(thread.join().expect("a thread of the history panicked"));
        }
        let spans: Vec<_> = calls.iter().map(|(_, call)| call.span()).collect();
        let overlaps = any_overlap(&spans);
        // A later request shows what was charged.
        let last = at(BEGIN + 1);
        let peeks = (0..self.mix.keys).map(|key| Request { key, op: Op::Peek { n: 0, now: last } });
        calls.extend(ask(&*gate, &recorder, 0, peeks));
        self.explain(&*gate, &calls)?;
        Ok(History { overlaps })
    }

    fn explain(
        &self,
        gate: &impl Gate<Oracle = O>,
        calls: &[(u64, Answered)],
    ) -> Result<(), String> {
        let fresh = gate.oracle();
        let claimed = self.claimed(&fresh, calls);
        let (evicted, found_full) = gate.evicted_and_denied_full();
        let keys: Vec<Vec<&Answered>> = (0..self.mix.keys).map(|key| of_key(calls, key)).collect();
        let spec = |allowed: Allowed| Bucket {
            fresh: &fresh,
            claimed: &claimed,
            burst: self.burst,
            state: None,
            evictions: allowed.evictions,
            denied_full: allowed.denied_full,
        };
        let is_explained = |key: usize, allowed| is_linearizable(&spec(allowed), &keys[key]);
        let counted = Allowed { evictions: evicted, denied_full: found_full };
        if can_share(0..keys.len(), counted, &is_explained) {
            return Ok(());
        }
        let unexplained = (0..keys.len()).find(|key| !is_explained(*key, counted));
        let what = match unexplained {
            Some(key) => format!("no order explains key {key}"),
            None => "orders explain each key, but need more evictions or denials than the limiter counted".to_owned(),
        };
        Err(format!(
            "{what}: {evicted} were evicted, {found_full} found no place:\n{}",
            shown(calls)
        ))
    }

    fn claimed(&self, fresh: &O, calls: &[(u64, Answered)]) -> Vec<(Tick, O)> {
        let Some(claimed_state) = self.claimed_state else { return Vec::new() };
        let mut times: Vec<Tick> = calls.iter().filter_map(|(_, call)| call.op.now()).collect();
        times.sort_unstable();
        times.dedup();
        times.into_iter().map(|time| (time, claimed_state(fresh, time))).collect()
    }
}

fn of_key(calls: &[(u64, Answered)], key: u64) -> Vec<&Answered> {
    calls.iter().filter(|(of, _)| *of == key).map(|(_, call)| call).collect()
}

/// The deviations of a table, by its own counts.
#[derive(Clone, Copy)]
struct Allowed {
    /// Keys that it evicted.
    evictions: u64,
    /// Requests that found no place.
    denied_full: u64,
}

/// Whether these keys can be explained if they share the allowed deviations. A key that gets more of one
/// count may need less of the other.
fn can_share(
    mut keys: Range<usize>,
    allowed: Allowed,
    is_explained: &impl Fn(usize, Allowed) -> bool,
) -> bool {
    let Some(key) = keys.next() else { return true };
    (0..=allowed.evictions).any(|evictions| {
        // A larger number explains the key too, so the smallest leaves the most for the other keys.
        let least = (0..=allowed.denied_full).find(|denied_full| {
            is_explained(key, Allowed { evictions, denied_full: *denied_full })
        });
        least.is_some_and(|denied_full| {
            let left = Allowed {
                evictions: allowed.evictions - evictions,
                denied_full: allowed.denied_full - denied_full,
            };
            can_share(keys.clone(), left, is_explained)
        })
    })
}

/// Makes requests and records them, with their keys.
fn ask(
    gate: &impl Gate,
    recorder: &Recorder,
    thread: usize,
    requests: impl Iterator<Item = Request>,
) -> Vec<(u64, Answered)> {
    let make = |Request { key, op }| {
        let call = recorder.call(thread, op, |op| match *op {
            Op::Check { n, now } => Some(Verdict::from(&gate.check(key, n, now))),
            Op::Peek { n, now } => Some(Verdict::from(&gate.peek(key, n, now))),
            Op::Reset => {
                gate.reset(key);
                None
            }
        });
        (key, call)
    };
    requests.map(make).collect()
}

/// A history as text, in the order in which its calls began.
fn shown(calls: &[(u64, Answered)]) -> String {
    let mut calls: Vec<_> = calls.iter().collect();
    calls.sort_by_key(|(_, call)| call.begun);
    let row = |(key, call): &&(u64, Answered)| {
        let answer = match &call.answer {
            None => String::new(),
            Some(verdict) => format!(
                "{} {} left, back in {:?}, retry {:?}",
                if verdict.admitted { "granted" } else { "denied" },
                verdict.remaining,
                verdict.reset_after,
                verdict.retry_after
            ),
        };
        let Call { thread, op, begun, returned, .. } = call;
        format!("{begun:>3}..{returned:<3} thread {thread} key {key} {op:?} -> {answer}\n")
    };
    calls.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_share_the_allowed_deviations_in_any_way_that_explains_them() {
        let share = |evictions, denied_full, needs: &[&[(u64, u64)]]| {
            let is_explained = |key: usize, allowed: Allowed| {
                let is_enough = |need: &(u64, u64)| {
                    need.0 <= allowed.evictions && need.1 <= allowed.denied_full
                };
                needs[key].iter().any(is_enough)
            };
            can_share(0..needs.len(), Allowed { evictions, denied_full }, &is_explained)
        };
        // One full denial explains the first key, and so do two evictions. The other key needs the denial.
        let needs: [&[(u64, u64)]; 2] = [&[(0, 1), (2, 0)], &[(0, 1)]];
        assert!(share(2, 1, &needs));
        assert!(!share(1, 1, &needs));
        assert!(!share(2, 0, &needs));
        assert!(share(0, 2, &needs));
        assert!(share(0, 0, &[]));
        assert!(!share(0, 0, &[&[(0, 0)], &[(1, 0)]]));
    }
}
