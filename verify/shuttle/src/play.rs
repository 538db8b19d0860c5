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

/// Time is given with every call.
#[derive(Debug)]
pub struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Tick {
        Tick::ZERO
    }
}

/// A limiter with keys, whose time is given.
pub type Keyed<A> = Limiter<u64, A, NoClock>;
/// A limiter without keys, whose time is given.
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
    let begun = begun.capacity(1).on_full(on_full).hash_seed(1).max_clock_skew(SKEW).slots(slots);
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

/// What is tested.
pub trait Gate: Send + Sync + 'static {
    /// The model of its algorithm.
    type Oracle: Oracle + core::fmt::Debug;

    /// The model, in the state of a key never seen.
    fn oracle(&self) -> Self::Oracle;
    /// Asks for cells.
    fn check(&self, key: u64, n: u64, now: Tick) -> Decision;
    /// Looks.
    fn peek(&self, key: u64, n: u64, now: Tick) -> Decision;
    /// Forgets.
    fn reset(&self, key: u64);
    /// How often a key was evicted, and how often one found no place.
    fn forgotten_and_full(&self) -> (u64, u64);
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

    fn forgotten_and_full(&self) -> (u64, u64) {
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

    fn forgotten_and_full(&self) -> (u64, u64) {
        (0, 0)
    }
}

/// A family of histories.
#[derive(Clone, Copy, Debug)]
pub struct Family<O> {
    /// What the threads ask for.
    pub mix: Mix,
    /// Cells that a fresh bucket grants.
    pub burst: u64,
    /// Keys that one thread charges before the others begin: long before, so that they are idle by
    /// then.
    pub before: u64,
    /// Whether it is just before, so that they keep their places.
    pub before_is_live: bool,
    /// The state of a key that was claimed at a time and not charged, where a claim shows it.
    pub stamped: Option<fn(&O, Tick) -> O>,
}

/// A request and its answer; a reset has none.
type Said = Call<Op, Option<Verdict>>;

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
        let looks = (0..self.mix.keys).map(|key| Request { key, op: Op::Peek { n: 0, now: last } });
        calls.extend(ask(&*gate, &recorder, 0, looks));
        self.explain(&*gate, &calls)?;
        Ok(History { overlaps })
    }

    fn explain(&self, gate: &impl Gate<Oracle = O>, calls: &[(u64, Said)]) -> Result<(), String> {
        let fresh = gate.oracle();
        let stamps = self.stamps(&fresh, calls);
        let (evicted, found_full) = gate.forgotten_and_full();
        let keys: Vec<Vec<&Said>> = (0..self.mix.keys).map(|key| of_key(calls, key)).collect();
        let spec = |allowed: Allowed| Bucket {
            fresh: &fresh,
            stamps: &stamps,
            burst: self.burst,
            state: None,
            forgets: allowed.forgets,
            fulls: allowed.fulls,
        };
        let is_explained = |key: usize, allowed| is_linearizable(&spec(allowed), &keys[key]);
        let counted = Allowed { forgets: evicted, fulls: found_full };
        if can_share(0..keys.len(), counted, &is_explained) {
            return Ok(());
        }
        let unexplained = (0..keys.len()).find(|key| !is_explained(*key, counted));
        let what = match unexplained {
            Some(key) => format!("no order explains key {key}"),
            None => "orders explain each key, but not with so few for all together".to_owned(),
        };
        Err(format!(
            "{what}: {evicted} were evicted, {found_full} found no place:\n{}",
            shown(calls)
        ))
    }

    fn stamps(&self, fresh: &O, calls: &[(u64, Said)]) -> Vec<(Tick, O)> {
        let Some(stamped) = self.stamped else { return Vec::new() };
        let mut times: Vec<Tick> = calls.iter().filter_map(|(_, call)| call.op.now()).collect();
        times.sort_unstable();
        times.dedup();
        times.into_iter().map(|time| (time, stamped(fresh, time))).collect()
    }
}

fn of_key(calls: &[(u64, Said)], key: u64) -> Vec<&Said> {
    calls.iter().filter(|(of, _)| *of == key).map(|(_, call)| call).collect()
}

/// What a table has done to the keys besides, by its own counts.
#[derive(Clone, Copy)]
struct Allowed {
    /// States that it forgot.
    forgets: u64,
    /// Requests that found no place.
    fulls: u64,
}

/// Whether these keys can be explained if they share what is allowed: a key that gets more of one count
/// may need less of the other.
fn can_share(
    mut keys: Range<usize>,
    allowed: Allowed,
    is_explained: &impl Fn(usize, Allowed) -> bool,
) -> bool {
    let Some(key) = keys.next() else { return true };
    (0..=allowed.forgets).any(|forgets| {
        // More of them explain a key as well, so the least number leaves most for the other keys.
        let least =
            (0..=allowed.fulls).find(|fulls| is_explained(key, Allowed { forgets, fulls: *fulls }));
        least.is_some_and(|fulls| {
            let left = Allowed { forgets: allowed.forgets - forgets, fulls: allowed.fulls - fulls };
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
) -> Vec<(u64, Said)> {
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

/// A history to read: by the beginnings of its calls.
fn shown(calls: &[(u64, Said)]) -> String {
    let mut calls: Vec<_> = calls.iter().collect();
    calls.sort_by_key(|(_, call)| call.begun);
    let row = |(key, call): &&(u64, Said)| {
        let said = match &call.answer {
            None => String::new(),
            Some(said) => format!(
                "{} {} left, back in {:?}, retry {:?}",
                if said.admitted { "granted" } else { "denied" },
                said.remaining,
                said.reset_after,
                said.retry_after
            ),
        };
        let Call { thread, op, begun, returned, .. } = call;
        format!("{begun:>3}..{returned:<3} thread {thread} key {key} {op:?} -> {said}\n")
    };
    calls.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_share_what_is_allowed_in_any_way_that_explains_them() {
        let share = |forgets, fulls, needs: &[&[(u64, u64)]]| {
            let is_explained = |key: usize, allowed: Allowed| {
                let is_enough =
                    |need: &(u64, u64)| need.0 <= allowed.forgets && need.1 <= allowed.fulls;
                needs[key].iter().any(is_enough)
            };
            can_share(0..needs.len(), Allowed { forgets, fulls }, &is_explained)
        };
        // One request without a place explains the first key as two forgotten states do; the other key
        // needs that one.
        let needs: [&[(u64, u64)]; 2] = [&[(0, 1), (2, 0)], &[(0, 1)]];
        assert!(share(2, 1, &needs));
        assert!(!share(1, 1, &needs));
        assert!(!share(2, 0, &needs));
        assert!(share(0, 2, &needs));
        assert!(share(0, 0, &[]));
        assert!(!share(0, 0, &[&[(0, 0)], &[(1, 0)]]));
    }
}
