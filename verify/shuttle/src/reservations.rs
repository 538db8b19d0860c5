//! Buckets whose cells are reserved and refunded.
//!
//! All clocks stand still, so a bucket is a count: the cells of its burst that were spent since its last
//! reset. Cells that are not spent are refunded to the life of the key that reserved them, and to no other
//! life. Cells beyond the reservation are charged whatever the limit. A table of two slots always has a
//! place for the only key.

use std::sync::Arc;

use shuttle::thread;
use tollgate::reservation::Reservation;
use tollgate::{Decision, Gcra};

use crate::explore::{History, Played};
use crate::linear::{Spec, is_linearizable, only_if_equal};
use crate::play::{Bare, Keyed};
use crate::record::{Call, Recorder, any_overlap, listing};
use crate::script::{BEGIN, Draw, at};

/// A request to such a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReservationOp {
    /// Asks for cells.
    Check(u64),
    /// Peeks at the cells that are left.
    Peek,
    /// Resets the bucket.
    Reset,
    /// Reserves cells, to be settled under this number.
    Reserve(u64, u64),
    /// Refunds cells of the reservation with this number.
    Refund(u64, u64),
    /// Charges cells beyond a reservation.
    Overdraw(u64),
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Whether it was granted, and how many cells are left.
    Decided(bool, u64),
    /// Whether cells were reserved.
    Reserved(bool),
    /// An operation without an answer.
    Done,
}

/// The bucket as a count.
#[derive(Clone, Debug)]
struct Count {
    burst: u64,
    spent: u64,
    /// How often it was reset.
    life: u64,
    /// The number of each reservation, and the life in which it was made.
    reserved: Vec<(u64, u64)>,
}

impl Count {
    fn grants(&self, n: u64) -> bool {
        n == 0 || self.spent + n <= self.burst
    }

    fn left(&self) -> u64 {
        self.burst.saturating_sub(self.spent)
    }

    /// The only answer, and the state after it.
    fn answer(&self, op: ReservationOp) -> (Self, Reply) {
        let mut next = self.clone();
        let reply = match op {
            ReservationOp::Peek => Reply::Decided(true, self.left()),
            ReservationOp::Check(n) => {
                let granted = self.grants(n);
                next.spent += if granted { n } else { 0 };
                Reply::Decided(granted, next.left())
            }
            ReservationOp::Reserve(n, number) => {
                let granted = self.grants(n);
                if granted {
                    next.spent += n;
                    next.reserved.push((number, self.life));
                }
                Reply::Reserved(granted)
            }
            ReservationOp::Refund(n, number) => {
                if self.reserved.contains(&(number, self.life)) {
                    next.spent -= n;
                }
                Reply::Done
            }
            ReservationOp::Overdraw(n) => {
                next.spent += n;
                Reply::Done
            }
            ReservationOp::Reset => {
                (next.spent, next.life) = (0, self.life + 1);
                Reply::Done
            }
        };
        (next, reply)
    }
}

impl Spec for Count {
    type Op = ReservationOp;
    type Answer = Reply;

    fn after(&self, op: &ReservationOp, reply: &Reply) -> Vec<Self> {
        only_if_equal(self.answer(*op), reply)
    }

    fn mark(&self) -> String {
        format!("{self:?}")
    }
}

/// The bucket under test.
pub trait Reservable: Send + Sync + 'static {
    /// Cells to be settled.
    type Held<'a>;

    /// Asks for cells.
    fn check(&self, n: u64) -> Decision;
    /// Peeks at the cells that are left.
    fn peek(&self) -> Decision;
    /// Resets the bucket.
    fn reset(&self);
    /// Reserves cells.
    fn reserve(&self, n: u64) -> Option<Self::Held<'_>>;
    /// Settles a reservation for the cells that were spent.
    fn settle(held: Self::Held<'_>, actual: u64);
}

impl Reservable for Bare<Gcra> {
    type Held<'a> = Reservation<'a, Self>;

    fn check(&self, n: u64) -> Decision {
        self.ask().cells(n).at(at(BEGIN)).check()
    }

    fn peek(&self) -> Decision {
        self.ask().cells(0).at(at(BEGIN)).peek()
    }

    fn reset(&self) {
        Self::reset(self);
    }

    fn reserve(&self, n: u64) -> Option<Self::Held<'_>> {
        self.ask().cells(n).at(at(BEGIN)).reserve().ok()
    }

    fn settle(held: Self::Held<'_>, actual: u64) {
        held.settle_at(actual, at(BEGIN));
    }
}

/// The key that all threads ask for.
const KEY: u64 = 7;

impl Reservable for Keyed<Gcra> {
    type Held<'a> = Reservation<'a, Self>;

    fn check(&self, n: u64) -> Decision {
        self.ask(&KEY).cells(n).at(at(BEGIN)).check()
    }

    fn peek(&self) -> Decision {
        self.ask(&KEY).cells(0).at(at(BEGIN)).peek()
    }

    fn reset(&self) {
        Self::reset(self, &KEY);
    }

    fn reserve(&self, n: u64) -> Option<Self::Held<'_>> {
        self.ask(&KEY).cells(n).at(at(BEGIN)).reserve().ok()
    }

    fn settle(held: Self::Held<'_>, actual: u64) {
        held.settle_at(actual, at(BEGIN));
    }
}

fn decided(decision: &Decision) -> Reply {
    match decision {
        Ok(permit) => Reply::Decided(true, permit.remaining()),
        Err(denied) => Reply::Decided(false, denied.remaining()),
    }
}

type ReservationCall = Call<ReservationOp, Reply>;

/// Three or four threads reserve cells of one bucket of `cells`, settle, ask and reset.
///
/// # Errors
///
/// The history, if no order of its calls explains it.
pub fn play_reservations<L: Reservable>(gate: L, cells: u64) -> Played {
    let mut draw = Draw::of_this_history();
    let threads = 3 + draw.below(2);
    let recorder = Recorder::default();
    let gate = Arc::new(gate);
    let mut begin = |thread: u64| {
        let (gate, recorder, draw) = (Arc::clone(&gate), recorder.clone(), draw.split());
        thread::spawn(move || calls_of(&*gate, &recorder, thread, draw))
    };
    let threads: Vec<_> = (1..=threads).map(&mut begin).collect();
    let joined = threads.into_iter().flat_map(|thread| thread.join().expect("no panic"));
    let calls: Vec<_> = joined.collect();
    let last = recorder.call(0, ReservationOp::Peek, |_| decided(&gate.peek()));
    explain(cells, calls, last)
}

/// The calls of one thread.
fn calls_of<L: Reservable>(
    gate: &L,
    recorder: &Recorder,
    thread: u64,
    mut draw: Draw,
) -> Vec<ReservationCall> {
    let place = usize::try_from(thread).expect("a few");
    let mut calls = Vec::new();
    let mut held: Vec<(L::Held<'_>, u64, u64)> = Vec::new();
    for turn in 0..3 + draw.below(3) {
        let (n, number) = (1 + draw.below(2), thread * 10 + turn);
        calls.push(match draw.below(8) {
            0 => recorder.call(place, ReservationOp::Reset, |_| {
                gate.reset();
                Reply::Done
            }),
            1 => recorder.call(place, ReservationOp::Peek, |_| decided(&gate.peek())),
            2 | 3 => recorder.call(place, ReservationOp::Check(n), |_| decided(&gate.check(n))),
            4 | 5 if !held.is_empty() => settle::<L>(recorder, place, &mut held, &mut draw),
            _ => recorder.call(place, ReservationOp::Reserve(n, number), |_| {
                let reserved = gate.reserve(n);
                let is_granted = reserved.is_some();
                held.extend(reserved.map(|reserved| (reserved, n, number)));
                Reply::Reserved(is_granted)
            }),
        });
    }
    // A reservation that is dropped is a call as well.
    while !held.is_empty() {
        calls.push(settle::<L>(recorder, place, &mut held, &mut draw));
    }
    calls
}

fn settle<L: Reservable>(
    recorder: &Recorder,
    place: usize,
    held: &mut Vec<(L::Held<'_>, u64, u64)>,
    draw: &mut Draw,
) -> ReservationCall {
    let (reserved, n, number) = held.pop().expect("something is held");
    let actual = draw.below(n + 2);
    let op = match actual > n {
        true => ReservationOp::Overdraw(actual - n),
        false => ReservationOp::Refund(n - actual, number),
    };
    recorder.call(place, op, |_| {
        L::settle(reserved, actual);
        Reply::Done
    })
}

fn explain(cells: u64, mut calls: Vec<ReservationCall>, last: ReservationCall) -> Played {
    let overlaps = any_overlap(&calls.iter().map(Call::span).collect::<Vec<_>>());
    calls.push(last);
    let spec = Count { burst: cells, spent: 0, life: 0, reserved: Vec::new() };
    if is_linearizable(&spec, &calls.iter().collect::<Vec<_>>()) {
        return Ok(History { overlaps });
    }
    Err(format!("no order explains\n{}", listing(&calls)))
}
