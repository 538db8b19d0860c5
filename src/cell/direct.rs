//! A state that stands alone: the bucket of a limiter without keys.

use super::receipt::Paid;
use super::ring::Cells;
use super::state_cell::{Charge, Head, HeadCell, Ruling};
use crate::algo::{NoRing, Refund, StateMachine, Step, Visitor};
use crate::decision::{Decision, Denied, OutOfLine, Permit};
use crate::sync::AtomicU64;
use crate::time::Tick;

/// The state of a bucket without a key. Its word is provisional, and then without a stamp, until
/// first used.
#[derive(Debug)]
pub(crate) struct DirectCell {
    head: HeadCell,
    ring: Box<[AtomicU64]>,
    /// Cells of the ring that are part of the state: all but the note.
    kept_cells: usize,
}

impl DirectCell {
    pub(crate) fn new<A: StateMachine>(algo: &A) -> Self {
        Self {
            head: HeadCell::new(Head::provisional(0, 0)),
            ring: (0..algo.ring_cells()).map(|_| AtomicU64::default()).collect(),
            kept_cells: algo.ring_cells() - usize::from(algo.has_note()),
        }
    }

    #[inline(always)]
    fn cells<A: StateMachine>(&self) -> Cells<'_> {
        if A::RINGED { Cells::new(&self.ring) } else { Cells::NONE }
    }

    #[inline(always)]
    pub(crate) fn check<A: StateMachine>(&self, algo: &A, now: Tick, n: u64) -> Decision {
        algo.dispatch(Ask { cell: self, now, n })
    }

    #[inline(always)]
    fn check_by<A: StateMachine>(&self, algo: &A, now: Tick, n: u64) -> Decision {
        let seen = self.head.load();
        if !seen.is_provisional()
            && let Some(decision) = self.head.decide(seen, self.cells::<A>(), algo, now, n)
        {
            return decision;
        }
        let OutOfLine(ruling) = self.decide_unused(algo, now, n);
        ruling.explain(algo, now, n)
    }

    /// Admits `n` cells if a first try does; `None` leaves all else to be decided anew.
    #[inline(always)]
    pub(crate) fn admit<A: StateMachine>(&self, algo: &A, now: Tick, n: u64) -> Option<Permit> {
        algo.dispatch(Admit(Ask { cell: self, now, n }))
    }

    /// As [`check`](Self::check), where nobody asks for more than yes or no.
    #[inline(always)]
    pub(crate) fn allow<A: StateMachine>(&self, algo: &A, now: Tick, n: u64) -> bool {
        algo.dispatch(Allow(Ask { cell: self, now, n }))
    }

    #[inline(always)]
    fn allow_by<A: StateMachine>(&self, algo: &A, now: Tick, n: u64) -> bool {
        let seen = self.head.load();
        if !seen.is_provisional()
            && let Some(allowed) = self.head.allow(seen, self.cells::<A>(), algo, now, n)
        {
            return allowed;
        }
        let OutOfLine(ruling) = self.decide_unused(algo, now, n);
        ruling.is_admitted()
    }

    /// Charges `n` cells in such a way that they may be given back.
    pub(crate) fn charge<A: Refund>(&self, algo: &A, now: Tick, n: u64) -> Result<Paid, Denied> {
        let (ruling, generation) = self.rule(algo, now, n);
        ruling.receipt(algo, now, n, generation, 0)
    }

    /// Gives `n` cells that nobody has paid for.
    pub(crate) fn add<A: Refund>(&self, algo: &A, now: Tick, n: u64) {
        self.revise_now(|word| algo.add(word, now, n));
    }

    /// Replaces the state, if there is one, by what `next` makes of it.
    pub(crate) fn revise_now(&self, next: impl Fn(u64) -> u64) {
        self.head.revise(self.head.load().generation(), next);
    }

    /// Gives back `n` cells of a charge.
    pub(crate) fn refund<A: Refund>(&self, algo: &A, paid: &Paid, now: impl Fn() -> Tick, n: u64) {
        self.revise_charged(paid, |word| algo.refund(word, &paid.receipt, now(), n));
    }

    /// Replaces the state that was charged, if the bucket was not reset, by what `next` makes of it.
    pub(crate) fn revise_charged(&self, paid: &Paid, next: impl Fn(u64) -> u64) {
        self.head.revise(paid.generation, next);
    }

    /// The bucket was not used yet, or was reset a moment ago.
    #[cold]
    #[inline(never)]
    fn decide_unused<A: StateMachine>(
        &self,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> OutOfLine<Ruling<A::View>> {
        OutOfLine(self.rule(algo, now, n).0)
    }

    /// The ruling, and the generation of the word it was made by.
    fn rule<A: StateMachine>(&self, algo: &A, now: Tick, n: u64) -> (Ruling<A::View>, u64) {
        loop {
            let seen = self.head.load();
            let cells = self.cells::<A>();
            let charge = if !seen.is_provisional() {
                self.head.charge(seen, cells, algo, now, n)
            } else if A::RINGED {
                match self.stamp(seen, algo, now, n) {
                    Some(ruling) => return (ruling, seen.generation()),
                    None => continue,
                }
            } else {
                self.head.commit(seen, cells, algo.fresh(now), algo, now, n)
            };
            if let Charge::Decided(ruling) = charge {
                return (ruling, seen.generation());
            }
        }
    }

    /// What goes into a ring must follow from the word, so the word is stamped before it is
    /// charged, and before that the ring is cleared of what a life 1,024 resets ago left there;
    /// `Some` if there is nothing to charge.
    fn stamp<A: StateMachine>(
        &self,
        unused: Head,
        algo: &A,
        now: Tick,
        n: u64,
    ) -> Option<Ruling<A::View>> {
        let fresh = algo.fresh(now);
        let seen = algo.read(fresh, NoRing, now, n);
        match algo.step(seen, now, n) {
            Step::Deny => return Some(Ruling::Denied(seen)),
            Step::Admit { .. } if n == 0 => return Some(Ruling::Admitted(seen)),
            Step::Admit { .. } | Step::DenyCounted { .. } => {}
        }
        if self.head.clear(unused, self.cells::<A>(), self.kept_cells) {
            // Lost: another thread has stamped it.
            let _ = self.head.swap(unused, Head::committed(unused.generation(), fresh));
        }
        None
    }

    pub(crate) fn peek<A: StateMachine>(&self, algo: &A, now: Tick, n: u64) -> Decision {
        algo.answer(self.read(algo, now, n), now, n)
    }

    /// What a decision about `n` cells would be judged by.
    pub(crate) fn read<A: StateMachine>(&self, algo: &A, now: Tick, n: u64) -> A::View {
        let head = self.head.load();
        let seen = self.head.peek(head, self.cells::<A>(), algo, now, n);
        seen.unwrap_or_else(|| algo.read(algo.fresh(now), NoRing, now, n))
    }

    /// The state, if there is one, and what stands in its ring; `None` also if it has changed at
    /// every one of `tries`.
    pub(crate) fn state<A: StateMachine>(&self, tries: usize) -> Option<(u64, Vec<u64>)> {
        let mut ring = Vec::new();
        for _ in 0..tries {
            let head = self.head.load();
            if head.is_provisional() {
                return None;
            }
            if self.head.copy_ring(head, self.cells::<A>(), self.kept_cells, &mut ring) {
                return Some((head.payload(), ring));
            }
            core::hint::spin_loop();
        }
        None
    }

    /// Puts a state into a bucket that was not used yet.
    pub(crate) fn put_back<A: StateMachine>(&self, state: u64, ring: &[u64]) {
        let unused = self.head.load();
        self.cells::<A>().fill(unused.generation(), ring);
        let put = self.head.swap(unused, Head::committed(unused.generation(), state));
        debug_assert!(unused.is_provisional() && put.is_ok(), "nobody else is here");
    }

    pub(crate) fn reset(&self) {
        let mut seen = self.head.load();
        while let Err(actual) = self.head.swap(seen, Head::provisional(seen.next_generation(), 0)) {
            seen = actual;
        }
    }
}

/// A request for cells, to be decided by an algorithm.
struct Ask<'a> {
    cell: &'a DirectCell,
    now: Tick,
    n: u64,
}

impl Visitor for Ask<'_> {
    type Out = Decision;

    #[inline(always)]
    fn by<M: StateMachine>(self, algo: &M) -> Decision {
        self.cell.check_by(algo, self.now, self.n)
    }
}

/// The same, with yes or no for an answer.
struct Allow<'a>(Ask<'a>);

impl Visitor for Allow<'_> {
    type Out = bool;

    #[inline(always)]
    fn by<M: StateMachine>(self, algo: &M) -> bool {
        let Ask { cell, now, n } = self.0;
        cell.allow_by(algo, now, n)
    }
}

/// The same, to be admitted at once or not at all.
struct Admit<'a>(Ask<'a>);

impl Visitor for Admit<'_> {
    type Out = Option<Permit>;

    #[inline(always)]
    fn by<M: StateMachine>(self, algo: &M) -> Option<Permit> {
        let Ask { cell, now, n } = self.0;
        let seen = cell.head.load();
        match seen.is_provisional() {
            true => None,
            false => cell.head.admit(seen, cell.cells::<M>(), algo, now, n),
        }
    }
}
