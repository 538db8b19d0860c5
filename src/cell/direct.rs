//! The state of a limiter without keys.
//!
//! # Guarded by
//!
//! `loom-tests/tests/decide.rs` and `windows.rs`, run by `ci/check.sh loom`: these models share a bucket
//! without keys between threads.

use core::marker::PhantomData;

use super::backoff::Backoff;
use super::head::{Head, HeadCell};
use super::receipt::ChargeReceipt;
use super::ring::{Loaded, SlotRing};
use super::ruling::{Answer, OfOneState, Request, Ruling};
use super::state_cell::MaxAhead;
use super::state_word::{Seen, StateWord};
use crate::algo::{Refund, StateMachine, Step, Visitor};
use crate::decision::{Decision, Denied, Permit};
use crate::sync::AtomicU64;
use crate::time::Tick;

/// The state of a bucket without a key. Until first use its word is provisional, and has no stamp.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectCell<'a> {
    head: &'a HeadCell,
    ring: &'a [AtomicU64],
    /// Words of the ring that are part of the state: all but the note.
    kept_cells: usize,
}

impl DirectCell<'_> {
    /// The word of a bucket that was never used. The words of its ring are zeros.
    pub(crate) fn unused() -> HeadCell {
        HeadCell::new(Head::provisional(0, 0))
    }
}

impl<'a> DirectCell<'a> {
    #[inline(always)]
    pub(crate) fn new(head: &'a HeadCell, ring: &'a [AtomicU64], kept_cells: usize) -> Self {
        Self { head, ring, kept_cells }
    }

    #[inline(always)]
    fn ring<M: StateMachine>(self) -> SlotRing<'a> {
        if M::RINGED { SlotRing::new(self.ring) } else { SlotRing::NONE }
    }

    /// The word and its ring.
    #[inline(always)]
    fn load<M: StateMachine>(self) -> Loaded<'a, Head> {
        Loaded { word: self.head.load(), ring: self.ring::<M>() }
    }

    /// The word, if it is committed and the bucket was never reset. The bits above the state are then known: they
    /// are zeros, and have to be neither masked out nor put back.
    #[inline(always)]
    fn see(self) -> Option<Seen<Head>> {
        self.head.see_in(0)
    }

    /// Answers a request for `n` cells.
    pub(crate) fn answer<M: StateMachine, A: Answer>(
        self,
        machine: &M,
        now: Tick,
        n: u64,
    ) -> A::Out {
        machine.dispatch(Charge { cell: self, now, n, answer: PhantomData::<A> })
    }

    /// The same, by one try. `None`: nothing was decided, and the caller decides anew.
    #[cfg_attr(not(any(debug_assertions, tollgate_loom)), inline(always))]
    pub(crate) fn answer_at_once<M: StateMachine, A: Answer>(
        self,
        machine: &M,
        now: Tick,
        n: u64,
    ) -> Option<A::Out> {
        machine.dispatch(AtOnce(Charge { cell: self, now, n, answer: PhantomData::<A> }))
    }

    /// Admits `n` cells if a first try does; `None`: the caller decides anew.
    #[cfg_attr(not(any(debug_assertions, tollgate_loom)), inline(always))]
    pub(crate) fn admit<M: StateMachine>(self, machine: &M, now: Tick, n: u64) -> Option<Permit> {
        machine.dispatch(Admit { cell: self, now, n })
    }

    /// Charges `n` cells so that they can be refunded.
    pub(crate) fn charge<M: Refund>(
        self,
        machine: &M,
        now: Tick,
        n: u64,
    ) -> Result<ChargeReceipt, Denied> {
        let request = Request { now, cells: n };
        let (ruling, generation) = self.rule(machine, request);
        ruling.receipt(machine, request, generation, 0)
    }

    /// Charges more cells than the request's: see [`StateCell::charge_ahead`](super::StateCell::charge_ahead).
    /// `None` also if the bucket has not been used.
    pub(crate) fn charge_ahead<M: StateMachine>(
        self,
        machine: &M,
        request: Request,
        max: MaxAhead,
    ) -> Option<(u64, u64)> {
        let loaded = self.load::<M>();
        match loaded.word.is_provisional() {
            true => None,
            false => self.head.charge_ahead(loaded, machine, request, max),
        }
    }

    /// Adds `n` cells that were never charged.
    pub(crate) fn add<M: Refund>(self, machine: &M, now: Tick, n: u64) {
        self.revise_now(|word| machine.add(word, now, n));
    }

    /// Replaces the state, if there is one, by `next` of it.
    pub(crate) fn revise_now(self, next: impl Fn(u64) -> u64) {
        self.head.revise_in(self.head.load().generation(), next);
    }

    /// Refunds `n` cells of a charge.
    pub(crate) fn refund<M: Refund>(
        self,
        machine: &M,
        paid: &ChargeReceipt,
        now: impl Fn() -> Tick,
        n: u64,
    ) {
        self.revise_charged(paid, |word| machine.refund(word, &paid.charge, now(), n));
    }

    /// Replaces the state that was charged by `next` of it. `false`: the bucket was reset.
    pub(crate) fn revise_charged(self, paid: &ChargeReceipt, next: impl Fn(u64) -> u64) -> bool {
        self.head.revise_in(paid.generation, next)
    }

    /// The ruling, and the generation of the word that it was made on.
    fn rule<M: StateMachine>(self, machine: &M, request: Request) -> (Ruling<M::View>, u64) {
        loop {
            let loaded = self.load::<M>();
            let ruling = if !loaded.word.is_provisional() {
                self.head.charge(loaded, machine, request)
            } else if M::RINGED {
                self.stamp(loaded, machine, request)
            } else {
                self.head.commit(loaded, machine.fresh(request.now), machine, request)
            };
            if let Some(ruling) = ruling {
                return (ruling, loaded.word.generation());
            }
        }
    }

    /// Stamps an unused word with the time. `Some`: there is nothing to charge.
    ///
    /// A ring's words must be a function of the state word, so the state word is stamped before it is
    /// charged. Before that, the ring is cleared of what a life 1,024 resets ago has left there.
    fn stamp<M: StateMachine>(
        self,
        unused: Loaded<'_, Head>,
        machine: &M,
        request: Request,
    ) -> Option<Ruling<M::View>> {
        let Request { now, cells } = request;
        let fresh = machine.fresh(now);
        let view = request.read(machine, fresh);
        match machine.step(view, now, cells) {
            Step::Deny => return Some(Ruling::Denied(view)),
            Step::Admit { .. } if cells == 0 => return Some(Ruling::Admitted(view)),
            Step::Admit { .. } | Step::DenyCounted { .. } => {}
        }
        if self.head.clear(unused, self.kept_cells) {
            let stamped = Head::committed(unused.word.generation(), fresh);
            // If the swap fails, another thread has stamped the word.
            let _ = self.head.swap(unused.word, stamped);
        }
        None
    }

    pub(crate) fn peek<M: StateMachine>(self, machine: &M, now: Tick, n: u64) -> Decision {
        machine.answer(self.read(machine, now, n), now, n)
    }

    /// Reads the view by which a decision about `n` cells would be made.
    pub(crate) fn read<M: StateMachine>(self, machine: &M, now: Tick, n: u64) -> M::View {
        let request = Request { now, cells: n };
        let loaded = self.load::<M>();
        let view = match loaded.word.is_provisional() {
            true => None,
            false => self.head.peek(loaded, machine, request),
        };
        view.unwrap_or_else(|| request.read(machine, machine.fresh(now)))
    }

    /// The state, if there is one, and the contents of its ring. `None` also if it has changed
    /// during each of `tries` reads.
    pub(crate) fn state<M: StateMachine>(self, tries: usize) -> Option<(u64, Vec<u64>)> {
        let mut contents = Vec::new();
        for _ in 0..tries {
            let loaded = self.load::<M>();
            if loaded.word.is_provisional() {
                return None;
            }
            if self.head.copy_ring(loaded, self.kept_cells, &mut contents) {
                return Some((loaded.word.state(), contents));
            }
            core::hint::spin_loop();
        }
        None
    }

    /// Restores a state into a bucket that has not been used.
    pub(crate) fn restore<M: StateMachine>(self, state: u64, contents: &[u64]) {
        let unused = self.head.load();
        self.ring::<M>().fill(unused.generation(), contents);
        let put = self.head.swap(unused, Head::committed(unused.generation(), state));
        debug_assert!(unused.is_provisional() && put.is_ok(), "no other thread is here");
    }

    pub(crate) fn reset(self) {
        let mut seen = self.head.load();
        while let Err(actual) = self.head.swap(seen, Head::provisional(seen.next_generation(), 0)) {
            seen = actual;
        }
    }
}

/// A request for `n` cells, to be answered by the machine that is visited.
struct Charge<'a, A> {
    cell: DirectCell<'a>,
    now: Tick,
    n: u64,
    answer: PhantomData<A>,
}

impl<A: Answer> Visitor for Charge<'_, A> {
    type Out = A::Out;

    #[inline(always)]
    fn visit<M: StateMachine>(self, machine: &M) -> A::Out {
        let request = Request { now: self.now, cells: self.n };
        let (ruling, _) = self.cell.rule(machine, request);
        A::of(ruling, machine, request)
    }
}

/// The same, answered by a first try or not at all.
struct AtOnce<'a, A>(Charge<'a, A>);

impl<A: Answer> Visitor for AtOnce<'_, A> {
    type Out = Option<A::Out>;

    #[inline(always)]
    fn visit<M: StateMachine>(self, machine: &M) -> Option<A::Out> {
        let Charge { cell, now, n, .. } = self.0;
        let (seen, ring) = (cell.see()?, || cell.ring::<M>());
        let request = Request { now, cells: n };
        let answer = cell.head.try_answer::<M, OfOneState<A>>(seen, ring, machine, request);
        if answer.is_err() {
            // Another thread has written the word.
            let mut backoff = Backoff::FIRST;
            backoff.pause();
        }
        answer.ok()?
    }
}

/// A request for `n` cells, to be admitted by a first try or not at all.
struct Admit<'a> {
    cell: DirectCell<'a>,
    now: Tick,
    n: u64,
}

impl Visitor for Admit<'_> {
    type Out = Option<Permit>;

    #[inline(always)]
    fn visit<M: StateMachine>(self, machine: &M) -> Option<Permit> {
        let Self { cell, now, n } = self;
        let loaded = cell.load::<M>();
        match loaded.word.is_provisional() {
            true => None,
            false => cell.head.admit(loaded, machine, Request { now, cells: n }),
        }
    }
}
