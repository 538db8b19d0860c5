//! Requests in flight: entries, exits and resets.
//!
//! The specification is a count for each key, and the lives in which its cells were taken. A key with cells
//! in flight always has its slot; one without may find none, since three keys compete for two slots.
//!
//! Limits that change are left to loom: an entry obeys the limit that it has read, which may be in force no
//! more when the entry takes effect.

use std::sync::Arc;

use shuttle::thread;
use tollgate::concurrency::{ConcurrencyDenied, ConcurrencyLimiter, DirectConcurrency, Guard};
use tollgate::{Clock, Tick};

use crate::explore::{History, Played};
use crate::linear::{Spec, is_linearizable, only_if_equal};
use crate::record::{Call, Recorder, any_overlap, listing};
use crate::script::Draw;

/// A request to a concurrency limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InFlightOp {
    /// Enters with so many cells, to leave under this number.
    Enter(u64, u64),
    /// Leaves with the cells of this number.
    Leave(u64),
    /// Reads how many cells are in flight.
    Look,
    /// Forgets what is in flight.
    Reset,
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Entered, or denied; and the cells in flight after that.
    Entered(bool, u64),
    /// The key found no slot.
    NoSlot,
    /// The cells in flight.
    InFlight(u64),
    /// An operation without an answer.
    Done,
}

/// The cells of one key.
#[derive(Clone, Debug)]
struct Count {
    /// The number and the cells of each entry of this life.
    entered: Vec<(u64, u64)>,
}

impl Count {
    fn all(&self) -> u64 {
        self.entered.iter().map(|(_, cells)| cells).sum()
    }

    /// The only answer of a key that has a slot, and the state after it.
    fn answer(&self, op: InFlightOp) -> (Self, Reply) {
        let mut next = self.clone();
        let reply = match op {
            InFlightOp::Enter(cells, number) => {
                let admitted = self.all() + cells <= LIMIT;
                if admitted {
                    next.entered.push((number, cells));
                }
                Reply::Entered(admitted, next.all())
            }
            InFlightOp::Leave(number) => {
                next.entered.retain(|(entered, _)| *entered != number);
                Reply::Done
            }
            InFlightOp::Look => Reply::InFlight(self.all()),
            InFlightOp::Reset => {
                next.entered.clear();
                Reply::Done
            }
        };
        (next, reply)
    }
}

impl Spec for Count {
    type Op = InFlightOp;
    type Answer = Reply;

    fn after(&self, op: &InFlightOp, reply: &Reply) -> Vec<Self> {
        if *reply == Reply::NoSlot {
            return if self.all() == 0 { vec![self.clone()] } else { vec![] };
        }
        only_if_equal(self.answer(*op), reply)
    }

    fn mark(&self) -> String {
        format!("{self:?}")
    }
}

/// A clock that stands still.
#[derive(Debug)]
pub struct Still;

impl Clock for Still {
    fn now(&self) -> Tick {
        Tick::ZERO
    }
}

/// The limiter under test.
pub trait Gate: Send + Sync + 'static {
    /// A request in flight.
    type Held<'a>;

    /// Enters a key.
    fn enter(&self, key: u64, cells: u64) -> Result<(Self::Held<'_>, u64), ConcurrencyDenied>;
    /// Cells in flight.
    fn in_flight(&self, key: u64) -> u64;
    /// Forgets what is in flight.
    fn reset(&self, key: u64);
}

impl Gate for DirectConcurrency<Still> {
    type Held<'a> = Guard<'a, Self>;

    fn enter(&self, _: u64, cells: u64) -> Result<(Guard<'_, Self>, u64), ConcurrencyDenied> {
        self.enter_n(cells).map(|guard| {
            let in_flight = guard.in_flight();
            (guard, in_flight)
        })
    }

    fn in_flight(&self, _: u64) -> u64 {
        Self::in_flight(self)
    }

    fn reset(&self, _: u64) {
        Self::reset(self);
    }
}

impl Gate for ConcurrencyLimiter<u64, Still> {
    type Held<'a> = Guard<'a, Self>;

    fn enter(&self, key: u64, cells: u64) -> Result<(Guard<'_, Self>, u64), ConcurrencyDenied> {
        self.enter_n(&key, cells).map(|guard| {
            let in_flight = guard.in_flight();
            (guard, in_flight)
        })
    }

    fn in_flight(&self, key: u64) -> u64 {
        Self::in_flight(self, &key)
    }

    fn reset(&self, key: u64) {
        Self::reset(self, &key);
    }
}

const LIMIT: u64 = 3;

/// A limiter without keys.
#[must_use]
pub fn one_count() -> DirectConcurrency<Still> {
    DirectConcurrency::builder(LIMIT).clock(Still).build().expect("in range")
}

/// A limiter with two slots.
#[must_use]
pub fn two_slots() -> ConcurrencyLimiter<u64, Still> {
    let begun = ConcurrencyLimiter::builder(LIMIT).clock(Still).capacity(1).hash_seed(1);
    begun.build().expect("in range")
}

type InFlightCall = Call<InFlightOp, Reply>;
/// A call, and its key.
type KeyCall = (u64, InFlightCall);

/// Three or four threads enter, leave and reset keys below `keys`.
///
/// # Errors
///
/// The history, if no order of its calls explains it.
pub fn play_in_flight<G: Gate>(gate: G, keys: u64) -> Played {
    let mut draw = Draw::of_this_history();
    let threads = 3 + draw.below(2);
    let recorder = Recorder::default();
    let gate = Arc::new(gate);
    let mut begin = |thread: u64| {
        let (gate, recorder, draw) = (Arc::clone(&gate), recorder.clone(), draw.split());
        thread::spawn(move || Caller { gate: &*gate, recorder, thread, keys, draw }.calls())
    };
    let threads: Vec<_> = (1..=threads).map(&mut begin).collect();
    let joined = threads.into_iter().flat_map(|thread| thread.join().expect("no panic"));
    let mut calls: Vec<KeyCall> = joined.collect();
    let spans: Vec<_> = calls.iter().map(|(_, call)| call.span()).collect();
    let look = |key| {
        let reply = |_: &_| Reply::InFlight(gate.in_flight(key));
        (key, recorder.call(0, InFlightOp::Look, reply))
    };
    calls.extend((0..keys).map(look));
    (0..keys).try_for_each(|key| explain(key, &calls))?;
    Ok(History { overlaps: any_overlap(&spans) })
}

/// One thread.
struct Caller<'a, G> {
    gate: &'a G,
    recorder: Recorder,
    thread: u64,
    keys: u64,
    draw: Draw,
}

impl<'a, G: Gate> Caller<'a, G> {
    fn calls(mut self) -> Vec<KeyCall> {
        let gate = self.gate;
        let (mut calls, mut held) = (Vec::new(), Vec::new());
        for turn in 0..3 + self.draw.below(3) {
            let (key, cells) = (self.draw.below(self.keys), 1 + self.draw.below(2));
            let call = match self.draw.below(10) {
                0 => self.done(InFlightOp::Reset, || gate.reset(key)),
                1 | 2 => self.call(InFlightOp::Look, || Reply::InFlight(gate.in_flight(key))),
                3..=5 if !held.is_empty() => {
                    calls.push(self.leave(&mut held));
                    continue;
                }
                _ => self.enter(key, cells, self.thread * 10 + turn, &mut held),
            };
            calls.push((key, call));
        }
        while !held.is_empty() {
            calls.push(self.leave(&mut held));
        }
        calls
    }

    fn call(&self, op: InFlightOp, make: impl FnOnce() -> Reply) -> InFlightCall {
        let thread = usize::try_from(self.thread).expect("a few");
        self.recorder.call(thread, op, |_| make())
    }

    fn done(&self, op: InFlightOp, make: impl FnOnce()) -> InFlightCall {
        self.call(op, || {
            make();
            Reply::Done
        })
    }

    fn enter(
        &self,
        key: u64,
        cells: u64,
        number: u64,
        held: &mut Vec<(u64, u64, G::Held<'a>)>,
    ) -> InFlightCall {
        self.call(InFlightOp::Enter(cells, number), || match self.gate.enter(key, cells) {
            Ok((guard, in_flight)) => {
                held.push((key, number, guard));
                Reply::Entered(true, in_flight)
            }
            Err(denied) if denied.found_no_slot() => Reply::NoSlot,
            Err(denied) => Reply::Entered(false, denied.in_flight()),
        })
    }

    fn leave(&self, held: &mut Vec<(u64, u64, G::Held<'a>)>) -> KeyCall {
        let (key, number, guard) = held.pop().expect("something is held");
        (key, self.done(InFlightOp::Leave(number), || drop(guard)))
    }
}

fn explain(key: u64, calls: &[KeyCall]) -> Result<(), String> {
    let of_key: Vec<_> = calls.iter().filter(|(of, _)| *of == key).map(|(_, c)| c).collect();
    if is_linearizable(&Count { entered: Vec::new() }, &of_key) {
        return Ok(());
    }
    Err(format!("no order explains key {key}\n{}", listing(of_key)))
}
