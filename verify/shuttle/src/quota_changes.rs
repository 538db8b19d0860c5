//! A quota that changes while threads ask.
//!
//! A call is decided by one quota that is in force at some moment of the call, as [`DynamicGcra`] says.
//! Which quota it is does not follow from the call's place in the order: a call may read the old quota,
//! and charge after another call that was decided by the new one. So changes are not calls of the
//! search. Each request has a range of quotas that may decide it: from the last one whose change had
//! returned when the request began, to the last one whose change had begun when it returned. The
//! requests must have an order.
//!
//! The quota shrinks, and all clocks stand still. [`Inherit::AsIs`] leaves a key the cells that it had, at
//! most the new burst. So one number is the state under all quotas: the cells spent of the first burst. A
//! burst that is smaller by `k` cells is the first burst with at least `k` cells spent.

use std::ops::RangeInclusive;
use std::sync::Arc;

use shuttle::thread;
use tollgate::Quota;
use tollgate::dynamic::{DynamicGcra, Inherit};

use crate::explore::{History, Played};
use crate::linear::{Spec, is_linearizable};
use crate::play::{Bare, burst};
use crate::record::{Call, Recorder, any_overlap};
use crate::script::{BEGIN, Draw, at};

/// The bursts, in order. There are more changes than copies that the versioned cell keeps.
const BURSTS: [u64; 6] = [7, 6, 5, 4, 3, 2];

/// A request for cells, or a peek, and the quotas that may decide it, by index.
#[derive(Clone, Debug)]
struct Ask {
    /// `None`: a peek.
    cells: Option<u64>,
    quotas: RangeInclusive<usize>,
}

/// Whether the request was granted, and how many cells are left.
type Answer = (bool, u64);

/// The cells spent of the first burst.
#[derive(Clone, Copy, Debug)]
struct Spent(u64);

impl Spent {
    /// The answer under a quota, and the state after it.
    fn decide(self, quota: usize, cells: Option<u64>) -> (Self, Answer) {
        let least = BURSTS[0] - BURSTS[quota];
        let spent = self.0.max(least);
        match cells {
            Some(n) if spent + n <= BURSTS[0] => (Self(spent + n), (true, BURSTS[0] - spent - n)),
            _ => (self, (cells.is_none(), BURSTS[0] - spent)),
        }
    }
}

impl Spec for Spent {
    type Op = Ask;
    type Answer = Answer;

    fn after(&self, ask: &Ask, given: &Answer) -> Vec<Self> {
        let possible = ask.quotas.clone().map(|quota| self.decide(quota, ask.cells));
        possible.filter(|(_, answer)| answer == given).map(|(next, _)| next).collect()
    }

    fn mark(&self) -> String {
        self.0.to_string()
    }
}

/// One thread changes the quota while three others ask and peek.
///
/// # Errors
///
/// The history, if no order of its calls explains it.
pub fn play_changes(gate_of: impl Fn(Quota) -> Bare<DynamicGcra>) -> Played {
    let mut draw = Draw::of_this_history();
    let recorder = Recorder::default();
    let gate = Arc::new(gate_of(burst(BURSTS[0])));
    let changer = {
        let (gate, recorder) = (Arc::clone(&gate), recorder.clone());
        thread::spawn(move || changes(&gate, &recorder))
    };
    let mut begin = |thread: usize| {
        let (gate, recorder, draw) = (Arc::clone(&gate), recorder.clone(), draw.split());
        thread::spawn(move || asks(&gate, &recorder, thread, draw))
    };
    let threads: Vec<_> = (2..5).map(&mut begin).collect();
    let changes = changer.join().expect("no panic");
    let joined = threads.into_iter().flat_map(|thread| thread.join().expect("no panic"));
    let mut calls: Vec<_> = joined.collect();
    let spans = calls.iter().map(Call::span).chain(changes.iter().map(Call::span));
    let overlaps = any_overlap(&spans.collect::<Vec<_>>());
    calls.push(ask(&gate, &recorder, 0, None));
    explain(&changes, calls)?;
    Ok(History { overlaps })
}

fn changes(gate: &Bare<DynamicGcra>, recorder: &Recorder) -> Vec<Call<u64, ()>> {
    let change = |cells: &u64| {
        recorder.call(1, *cells, |cells| {
            let changed = gate.set_quota_at(burst(*cells), Inherit::AsIs, at(BEGIN));
            changed.expect("no other thread changes it");
        })
    };
    BURSTS[1..].iter().map(change).collect()
}

fn asks(
    gate: &Bare<DynamicGcra>,
    recorder: &Recorder,
    thread: usize,
    mut draw: Draw,
) -> Vec<Call<Option<u64>, Answer>> {
    let cells = |draw: &mut Draw| match draw.below(4) {
        0 => None,
        _ => Some(1 + draw.below(2)),
    };
    (0..3).map(|_| ask(gate, recorder, thread, cells(&mut draw))).collect()
}

fn ask(
    gate: &Bare<DynamicGcra>,
    recorder: &Recorder,
    thread: usize,
    cells: Option<u64>,
) -> Call<Option<u64>, Answer> {
    recorder.call(thread, cells, |cells| {
        let decision = match *cells {
            Some(n) => gate.ask().cells(n).at(at(BEGIN)).check(),
            None => gate.ask().cells(0).at(at(BEGIN)).peek(),
        };
        match decision {
            Ok(permit) => (true, permit.remaining()),
            Err(denied) => (false, denied.remaining()),
        }
    })
}

fn explain(changes: &[Call<u64, ()>], calls: Vec<Call<Option<u64>, Answer>>) -> Result<(), String> {
    let with_quotas = |call: Call<Option<u64>, Answer>| {
        let Call { thread, op: cells, answer, begun, returned } = call;
        let first = changes.iter().filter(|change| change.returned < begun).count();
        let last = changes.iter().filter(|change| change.begun < returned).count();
        Call { thread, op: Ask { cells, quotas: first..=last }, answer, begun, returned }
    };
    let mut calls: Vec<_> = calls.into_iter().map(with_quotas).collect();
    if is_linearizable(&Spent(0), &calls.iter().collect::<Vec<_>>()) {
        return Ok(());
    }
    calls.sort_by_key(|call| call.begun);
    let row = |call: &Call<Ask, Answer>| {
        let Call { thread, op, answer: (granted, left), begun, returned } = call;
        format!("{begun:>3}..{returned:<3} thread {thread} {op:?} -> {granted}, {left} left\n")
    };
    Err(format!("no order explains\n{}", calls.iter().map(row).collect::<String>()))
}
