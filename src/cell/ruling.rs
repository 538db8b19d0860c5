//! A request to a cell, the ruling, and the answer that is made of it.

use core::marker::PhantomData;

use crate::algo::{NoRing, StateMachine, Step};
use crate::decision::Decision;
use crate::sync::{Fault, planted};
use crate::time::Tick;

/// A request to a state: cells, at an instant.
///
/// It fits two registers, so that calls of cold functions do not spill it to memory on the hot path.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub(crate) now: Tick,
    pub(crate) cells: u64,
}

impl Request {
    /// Reads a state that has no ring, or none yet.
    #[inline(always)]
    pub(crate) fn read<M: StateMachine>(self, machine: &M, state: u64) -> M::View {
        machine.read(state, NoRing, self.now, self.cells)
    }

    /// The request as it is, unless a model plants the mistake of deciding about 32 bits of it.
    #[inline(always)]
    pub(super) fn or_planted(self) -> Self {
        match planted(Fault::CellsWrap) {
            true => Self { cells: self.cells & u64::from(u32::MAX), ..self },
            false => self,
        }
    }

    /// The next state of a word with the state `state`, and the ruling. `None`: nothing is to be written.
    ///
    /// An admission that costs something is written even if it leaves the same state, which may happen after a
    /// whole ring of time. The swap is harmless, and a comparison would slow every decision.
    #[inline(always)]
    pub(super) fn rule<M: StateMachine>(
        self,
        machine: &M,
        state: u64,
        view: M::View,
    ) -> (Option<u64>, Ruling<M::View>) {
        self.rule_by(machine.step(view, self.now, self.cells), state, view)
    }

    /// Like `rule`, with a step that the caller has worked out from the view.
    #[inline(always)]
    pub(super) fn rule_by<V>(self, step: Step, state: u64, view: V) -> (Option<u64>, Ruling<V>) {
        let written = |next| (next != state).then_some(next);
        match step {
            Step::Admit { next } if self.cells > 0 => (Some(next), Ruling::Admitted(view)),
            Step::Admit { next } => (written(next), Ruling::Admitted(view)),
            Step::DenyCounted { next } => (written(next), Ruling::Denied(view)),
            Step::Deny => (None, Ruling::Denied(view)),
        }
    }
}

/// Admitted or denied, with the view that the step decided by.
///
/// If the view is one word, this fits in two registers. The caller builds the 64 bytes of a [`Decision`] from
/// it, in its own frame: returned through memory they cost more than deciding.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ruling<V> {
    Admitted(V),
    Denied(V),
}

impl<V> Ruling<V> {
    #[inline(always)]
    pub(crate) fn is_admitted(&self) -> bool {
        matches!(self, Self::Admitted(_))
    }

    /// The full decision.
    #[inline(always)]
    pub(crate) fn explain<M: StateMachine<View = V>>(
        self,
        machine: &M,
        request: Request,
    ) -> Decision {
        let Request { now, cells } = request;
        match self {
            Self::Admitted(view) => Ok(machine.permit(view, now, cells)),
            Self::Denied(view) => Err(machine.denied(view, now, cells)),
        }
    }
}

/// How a request is answered: by a [whole decision](InFull), or by [yes or no](YesOrNo).
pub(crate) trait Answer {
    /// Whether a first try reads only the data that decides, and not what a whole decision reports.
    const BRIEF: bool;
    /// Whether all requests ask for one state: then branches on it are predicted.
    const OF_ONE_STATE: bool = false;
    type Out;

    fn of<M: StateMachine>(ruling: Ruling<M::View>, machine: &M, request: Request) -> Self::Out;

    fn of_decision(decision: Decision) -> Self::Out;

    fn is_admitted(answer: &Self::Out) -> bool;
}

/// The whole decision.
pub(crate) struct InFull;

impl Answer for InFull {
    const BRIEF: bool = false;
    type Out = Decision;

    #[inline(always)]
    fn of<M: StateMachine>(ruling: Ruling<M::View>, machine: &M, request: Request) -> Decision {
        ruling.explain(machine, request)
    }

    #[inline(always)]
    fn of_decision(decision: Decision) -> Decision {
        decision
    }

    #[inline(always)]
    fn is_admitted(answer: &Decision) -> bool {
        answer.is_ok()
    }
}

/// Whether it is admitted.
pub(crate) struct YesOrNo;

impl Answer for YesOrNo {
    const BRIEF: bool = true;
    type Out = bool;

    #[inline(always)]
    fn of<M: StateMachine>(ruling: Ruling<M::View>, _: &M, _: Request) -> bool {
        ruling.is_admitted()
    }

    #[inline(always)]
    fn of_decision(decision: Decision) -> bool {
        decision.is_ok()
    }

    #[inline(always)]
    fn is_admitted(answer: &bool) -> bool {
        *answer
    }
}

/// An answer about the only state that there is.
pub(super) struct OfOneState<A>(PhantomData<A>);

impl<A: Answer> Answer for OfOneState<A> {
    const BRIEF: bool = A::BRIEF;
    const OF_ONE_STATE: bool = true;
    type Out = A::Out;

    #[inline(always)]
    fn of<M: StateMachine>(ruling: Ruling<M::View>, machine: &M, request: Request) -> A::Out {
        A::of(ruling, machine, request)
    }

    #[inline(always)]
    fn of_decision(decision: Decision) -> A::Out {
        A::of_decision(decision)
    }

    #[inline(always)]
    fn is_admitted(answer: &A::Out) -> bool {
        A::is_admitted(answer)
    }
}
