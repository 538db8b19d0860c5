//! Buckets whose cells are reserved and given back.
//!
//! All clocks stand, so that a bucket is a count: what was spent since it was last reset, of a burst.
//! What is not spent comes back to the life of the key that it was taken from, and to none other; a
//! cell beyond what was reserved is charged whatever the limit. A table of two slots always has a place
//! for the only key.

use std::sync::Arc;

use shuttle::thread;
use tollgate::reservation::Reservation;
use tollgate::{Decision, Gcra};

use crate::explore::{History, Played};
use crate::linear::{Spec, is_linearizable};
use crate::play::{Bare, Keyed};
use crate::record::{Call, Recorder, any_overlap};
use crate::script::{BEGIN, Draw, at};

/// A request to such a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deal {
    /// So many cells, for good.
    Check(u64),
    /// How many are left.
    Look,
    /// Forgets what was charged.
    Reset,
    /// So many cells, to be settled under this number.
    Take(u64, u64),
    /// Of what was taken under this number, so many were not spent.
    Refund(u64, u64),
    /// So many more were spent than were taken.
    Overdraw(u64),
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Whether it was granted, and how many cells are left.
    Said(bool, u64),
    /// Whether it was granted.
    Taken(bool),
    /// Nothing.
    Done,
}

/// The bucket as a count.
#[derive(Clone, Debug)]
struct Count {
    burst: u64,
    spent: u64,
    /// How often it was reset.
    life: u64,
    /// What was taken, by number: in which life.
    taken: Vec<(u64, u64)>,
}

impl Count {
    fn grants(&self, n: u64) -> bool {
        n == 0 || self.spent + n <= self.burst
    }

    fn left(&self) -> u64 {
        self.burst.saturating_sub(self.spent)
    }

    /// The only answer, and the state after it.
    fn answer(&self, deal: Deal) -> (Self, Reply) {
        let mut next = self.clone();
        let reply = match deal {
            Deal::Look => Reply::Said(true, self.left()),
            Deal::Check(n) => {
                let granted = self.grants(n);
                next.spent += if granted { n } else { 0 };
                Reply::Said(granted, next.left())
            }
            Deal::Take(n, number) => {
                let granted = self.grants(n);
                if granted {
                    next.spent += n;
                    next.taken.push((number, self.life));
                }
                Reply::Taken(granted)
            }
            Deal::Refund(n, number) => {
                if self.taken.contains(&(number, self.life)) {
                    next.spent -= n;
                }
                Reply::Done
            }
            Deal::Overdraw(n) => {
                next.spent += n;
                Reply::Done
            }
            Deal::Reset => {
                (next.spent, next.life) = (0, self.life + 1);
                Reply::Done
            }
        };
        (next, reply)
    }
}

impl Spec for Count {
    type Op = Deal;
    type Answer = Reply;

    fn after(&self, deal: &Deal, reply: &Reply) -> Vec<Self> {
        let (next, answer) = self.answer(*deal);
        if answer == *reply { vec![next] } else { vec![] }
    }

    fn mark(&self) -> String {
        format!("{self:?}")
    }
}

/// The bucket under test.
pub trait Lender: Send + Sync + 'static {
    /// Cells to be settled.
    type Held<'a>;

    /// Asks for cells.
    fn check(&self, n: u64) -> Decision;
    /// Looks what is left.
    fn read(&self) -> Decision;
    /// Forgets.
    fn reset(&self);
    /// Reserves cells.
    fn take(&self, n: u64) -> Option<Self::Held<'_>>;
    /// Settles for what was spent.
    fn settle(held: Self::Held<'_>, actual: u64);
}

impl Lender for Bare<Gcra> {
    type Held<'a> = Reservation<'a, Self>;

    fn check(&self, n: u64) -> Decision {
        self.ask().cells(n).at(at(BEGIN)).check()
    }

    fn read(&self) -> Decision {
        self.ask().cells(0).at(at(BEGIN)).peek()
    }

    fn reset(&self) {
        Self::reset(self);
    }

    fn take(&self, n: u64) -> Option<Self::Held<'_>> {
        self.ask().cells(n).at(at(BEGIN)).reserve().ok()
    }

    fn settle(held: Self::Held<'_>, actual: u64) {
        held.settle_at(actual, at(BEGIN));
    }
}

/// The key that all threads ask for.
const KEY: u64 = 7;

impl Lender for Keyed<Gcra> {
    type Held<'a> = Reservation<'a, Self>;

    fn check(&self, n: u64) -> Decision {
        self.ask(&KEY).cells(n).at(at(BEGIN)).check()
    }

    fn read(&self) -> Decision {
        self.ask(&KEY).cells(0).at(at(BEGIN)).peek()
    }

    fn reset(&self) {
        Self::reset(self, &KEY);
    }

    fn take(&self, n: u64) -> Option<Self::Held<'_>> {
        self.ask(&KEY).cells(n).at(at(BEGIN)).reserve().ok()
    }

    fn settle(held: Self::Held<'_>, actual: u64) {
        held.settle_at(actual, at(BEGIN));
    }
}

fn said(decision: &Decision) -> Reply {
    match decision {
        Ok(permit) => Reply::Said(true, permit.remaining()),
        Err(denied) => Reply::Said(false, denied.remaining()),
    }
}

type Dealt = Call<Deal, Reply>;

/// Three or four threads reserve cells of one bucket of `cells`, settle, ask and reset.
///
/// # Errors
///
/// The history, if no order of its calls explains it.
pub fn play_reservations<L: Lender>(lender: L, cells: u64) -> Played {
    let mut draw = Draw::of_this_history();
    let threads = 3 + draw.below(2);
    let recorder = Recorder::default();
    let lender = Arc::new(lender);
    let mut begin = |thread: u64| {
        let (lender, recorder, draw) = (Arc::clone(&lender), recorder.clone(), draw.split());
        thread::spawn(move || deals(&*lender, &recorder, thread, draw))
    };
    let threads: Vec<_> = (1..=threads).map(&mut begin).collect();
    let joined = threads.into_iter().flat_map(|thread| thread.join().expect("no panic"));
    let calls: Vec<_> = joined.collect();
    let last = recorder.call(0, Deal::Look, |_| said(&lender.read()));
    explain(cells, calls, last)
}

/// The calls of one thread.
fn deals<L: Lender>(lender: &L, recorder: &Recorder, thread: u64, mut draw: Draw) -> Vec<Dealt> {
    let place = usize::try_from(thread).expect("a few");
    let mut calls = Vec::new();
    let mut held: Vec<(L::Held<'_>, u64, u64)> = Vec::new();
    for turn in 0..3 + draw.below(3) {
        let (n, number) = (1 + draw.below(2), thread * 10 + turn);
        calls.push(match draw.below(8) {
            0 => recorder.call(place, Deal::Reset, |_| {
                lender.reset();
                Reply::Done
            }),
            1 => recorder.call(place, Deal::Look, |_| said(&lender.read())),
            2 | 3 => recorder.call(place, Deal::Check(n), |_| said(&lender.check(n))),
            4 | 5 if !held.is_empty() => settle::<L>(recorder, place, &mut held, &mut draw),
            _ => recorder.call(place, Deal::Take(n, number), |_| {
                let reserved = lender.take(n);
                let is_granted = reserved.is_some();
                held.extend(reserved.map(|reserved| (reserved, n, number)));
                Reply::Taken(is_granted)
            }),
        });
    }
    // A reservation that is dropped is a call as well.
    while !held.is_empty() {
        calls.push(settle::<L>(recorder, place, &mut held, &mut draw));
    }
    calls
}

fn settle<L: Lender>(
    recorder: &Recorder,
    place: usize,
    held: &mut Vec<(L::Held<'_>, u64, u64)>,
    draw: &mut Draw,
) -> Dealt {
    let (reserved, n, number) = held.pop().expect("something is held");
    let actual = draw.below(n + 2);
    let deal = match actual > n {
        true => Deal::Overdraw(actual - n),
        false => Deal::Refund(n - actual, number),
    };
    recorder.call(place, deal, |_| {
        L::settle(reserved, actual);
        Reply::Done
    })
}

fn explain(cells: u64, mut calls: Vec<Dealt>, last: Dealt) -> Played {
    let overlaps = any_overlap(&calls.iter().map(Call::span).collect::<Vec<_>>());
    calls.push(last);
    let spec = Count { burst: cells, spent: 0, life: 0, taken: Vec::new() };
    if is_linearizable(&spec, &calls.iter().collect::<Vec<_>>()) {
        return Ok(History { overlaps });
    }
    calls.sort_by_key(|call| call.begun);
    let row = |call: &Dealt| {
        let Call { thread, op, answer, begun, returned } = call;
        format!("{begun:>3}..{returned:<3} thread {thread} {op:?} -> {answer:?}\n")
    };
    Err(format!("no order explains\n{}", calls.iter().map(row).collect::<String>()))
}
