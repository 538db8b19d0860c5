//! A state word that several threads change: the retry loop of a decision.
//!
//! A charge reads the word, computes the next state, and replaces the word by a compare-and-swap.
//! If another thread has replaced it first, the charge reads the new word and decides again.
//!
//! # Orderings
//!
//! Everything a decision depends on is in the one word that its compare-and-swap names, so no
//! other memory has to be seen with it, and the algorithms would be right with relaxed accesses.
//! The table adds one demand: a thread that has read a slot's owner must read a head at least as
//! new as the one that the owner was written after. Hence Release on every successful swap and
//! Acquire on every load, which costs nothing on x86-64 and little elsewhere. The words of a
//! [ring](super::ring) rely on the same two.
//!
//! # Guarded by
//!
//! `loom-tests/tests/decide.rs`, `settle.rs`, `windows.rs`, `hot_key_windows.rs` and `stopped/claim.rs`,
//! run by `ci/check.sh loom`, and the histories of `ci/check.sh shuttle`. Ordinary tests do not notice a
//! wrong ordering here.

use core::marker::PhantomData;

use super::backoff::Backoff;
use super::ring::{Loaded, SlotRing};
use super::ruling::{Answer, InFull, Request, Ruling};
use super::state_word::{Seen, StateWord};
use crate::algo::{NoRing, StateMachine, Step};
use crate::decision::{OutOfLine, Permit};
use crate::sync::{AtomicU64, Fault, Ordering, planted};

/// How many cells may be charged ahead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MaxAhead {
    pub(crate) cells: u64,
    /// Whether the request's cells alone may be charged, if no more can be.
    pub(crate) or_just_those: bool,
}

/// The next state of a word, and what it was computed from.
struct Transition<V> {
    view: V,
    /// `None`: the word stays as it is.
    next: Option<u64>,
    /// Cells to write into the ring's note, if it has one.
    note: Option<u64>,
}

/// A try whose compare-and-swap has failed.
#[derive(Clone, Copy)]
pub(crate) struct LostRace<W> {
    /// The word that it was tried on.
    pub(crate) first: W,
    /// The word that another thread has written.
    pub(crate) actual: W,
}

/// A [`StateWord`] that several threads change.
#[repr(transparent)]
pub(crate) struct StateCell<W>(AtomicU64, PhantomData<W>);

impl<W: StateWord> StateCell<W> {
    pub(crate) fn new(word: W) -> Self {
        Self(AtomicU64::new(word.bits()), PhantomData)
    }

    #[inline(always)]
    pub(crate) fn load(&self) -> W {
        W::from_bits(self.0.load(Ordering::Acquire))
    }

    /// The word, if its bits above the state are these.
    #[inline(always)]
    pub(crate) fn load_in_life(&self, life: u64) -> Option<Seen<W>> {
        let state = self.0.load(Ordering::Acquire) ^ life;
        if state > W::STATE.max() {
            return None;
        }
        Some(Seen::in_life(life, state))
    }

    /// Whether the word's bits above the state are these. The caller loads it again before it relies on it.
    #[inline(always)]
    pub(crate) fn seems_in_life(&self, life: u64) -> bool {
        self.0.load(Ordering::Relaxed) ^ life <= W::STATE.max()
    }

    /// Replaces `seen` by `next`; `Err` holds the word that is there instead.
    #[inline(always)]
    pub(crate) fn swap(&self, seen: W, next: W) -> Result<(), W> {
        let swapped =
            self.0.compare_exchange(seen.bits(), next.bits(), Ordering::AcqRel, Ordering::Acquire);
        match swapped {
            Ok(_) => Ok(()),
            Err(actual) => Err(W::from_bits(actual)),
        }
    }

    /// Answers a request on a committed word, as last seen, and its ring, by a first try. `Ok(None)`: the word
    /// has changed hands. `Err` holds the word that another thread has written, for
    /// [`charge_again`](Self::charge_again).
    ///
    /// A denial, and a charge of nothing, write nothing. Lock-free, not wait-free: a lost race
    /// means that another thread's charge succeeded.
    ///
    /// Each path makes its answer by itself, so that the view of a first try stays in registers.
    #[inline(always)]
    pub(crate) fn try_answer<'r, M: StateMachine, A: Answer>(
        &self,
        seen: Seen<W>,
        ring: impl Fn() -> SlotRing<'r>,
        machine: &M,
        request: Request,
    ) -> Result<Option<A::Out>, W> {
        let ruling = match M::RINGED {
            false => Some(self.try_ringless::<M, A>(seen, machine, request)?),
            true => self.try_at_once::<M, A>(seen, &ring, machine, request).transpose()?,
        };
        if let Some(ruling) = ruling {
            return Ok(Some(A::of(ruling, machine, request)));
        }
        let OutOfLine(answer) =
            self.answer_out_of_line::<M, A>(seen.word(), ring(), machine, request);
        Ok(answer)
    }

    /// Answers from all of the ring that counts. It is out of line, so that the usual decisions have the
    /// registers to themselves. Registers hold the word and the ring, but a [`Loaded`] would go through memory.
    #[inline(never)]
    fn answer_out_of_line<M: StateMachine, A: Answer>(
        &self,
        word: W,
        ring: SlotRing<'_>,
        machine: &M,
        request: Request,
    ) -> OutOfLine<Option<A::Out>> {
        OutOfLine(match self.try_charge::<M, A>(Loaded { word, ring }, machine, request) {
            Ok(ruling) => Some(A::of(ruling, machine, request)),
            Err(actual) => {
                let race = LostRace { first: word, actual };
                let OutOfLine(ruling) = self.charge_again(race, ring, machine, request);
                ruling.map(|ruling| A::of(ruling, machine, request))
            }
        })
    }

    /// Decides a request on a committed word, as last seen, and its ring. `None`: the word has changed hands.
    #[inline(always)]
    pub(crate) fn charge<M: StateMachine>(
        &self,
        loaded: Loaded<'_, W>,
        machine: &M,
        request: Request,
    ) -> Option<Ruling<M::View>> {
        match self.try_charge::<M, InFull>(loaded, machine, request) {
            Ok(ruling) => Some(ruling),
            Err(actual) => {
                let race = LostRace { first: loaded.word, actual };
                let OutOfLine(ruling) = self.charge_again(race, loaded.ring, machine, request);
                ruling
            }
        }
    }

    /// One try to charge cells, where there is no ring. Returns the state that it has left, or the view of a
    /// denial. `None`: another thread has written the word, or there is nothing to charge.
    #[inline(always)]
    pub(crate) fn charge_once<M: StateMachine>(
        &self,
        seen: Seen<W>,
        machine: &M,
        request: Request,
    ) -> Option<Result<u64, M::View>> {
        debug_assert!(!M::RINGED);
        let view = request.read(machine, seen.state);
        match machine.step(view, request.now, request.cells) {
            Step::Admit { .. } if request.cells == 0 => None,
            Step::Admit { next } => {
                self.swap(seen.word(), seen.with_state(next)).ok()?;
                Some(Ok(next))
            }
            Step::Deny | Step::DenyCounted { .. } => Some(Err(view)),
        }
    }

    /// One try, where there is no ring. `Err` holds the word that another thread has written.
    #[inline(always)]
    fn try_ringless<M: StateMachine, A: Answer>(
        &self,
        seen: Seen<W>,
        machine: &M,
        request: Request,
    ) -> Result<Ruling<M::View>, W> {
        let request = request.or_planted();
        let view = request.read(machine, seen.state);
        self.try_view::<M, A>(seen, machine, request, view)
    }

    /// One try to decide from the word and little or nothing of the ring, which suffices for most requests.
    /// `None`: it does not suffice here.
    #[inline(always)]
    fn try_at_once<'r, M: StateMachine, A: Answer>(
        &self,
        seen: Seen<W>,
        ring: impl Fn() -> SlotRing<'r>,
        machine: &M,
        request: Request,
    ) -> Option<Result<Ruling<M::View>, W>> {
        let Request { now, cells } = request;
        let (word, mut ring_read) = (seen.word(), None);
        let live = || ring_read.insert(ring()).of_generation(word.generation());
        let view = machine.read_at_once(seen.state, live, now, cells, A::BRIEF)?;
        let Some(ring) = ring_read else {
            return Some(self.try_view::<M, A>(seen, machine, request, view));
        };
        let (next, ruling) = request.rule(machine, seen.state, view);
        let note = (!A::BRIEF).then_some(cells);
        let loaded = Loaded { word, ring };
        let advanced = self.advance(loaded, machine, Transition { view, next, note });
        Some(advanced.map(|()| ruling))
    }

    /// Rules by a view that needed no ring, and writes the next state.
    #[inline(always)]
    fn try_view<M: StateMachine, A: Answer>(
        &self,
        seen: Seen<W>,
        machine: &M,
        request: Request,
        view: M::View,
    ) -> Result<Ruling<M::View>, W> {
        let Request { now, cells } = request;
        let step = match A::OF_ONE_STATE {
            true => machine.step_by_branch(view, now, cells),
            false => machine.step(view, now, cells),
        };
        let (next, ruling) = request.rule_by(step, seen.state, view);
        if let Some(next) = next {
            self.swap(seen.word(), seen.with_state(next))?;
        }
        Ok(ruling)
    }

    /// One try; `Err` holds the word that another thread has written.
    #[inline(always)]
    fn try_charge<M: StateMachine, A: Answer>(
        &self,
        loaded: Loaded<'_, W>,
        machine: &M,
        request: Request,
    ) -> Result<Ruling<M::View>, W> {
        debug_assert!(!loaded.word.is_provisional());
        let request = request.or_planted();
        let Request { now, cells } = request;
        let (state, live) = (loaded.word.state(), loaded.live());
        let view = match A::BRIEF {
            false => machine.read(state, live, now, cells),
            true => machine.read_brief(state, live, now, cells),
        };
        let (next, ruling) = request.rule(machine, state, view);
        let note = (!A::BRIEF).then_some(cells);
        self.advance(loaded, machine, Transition { view, next, note })?;
        Ok(ruling)
    }

    /// Admits a request if a first try does. `None` has written nothing that counts, and the
    /// caller decides anew.
    #[inline(always)]
    pub(crate) fn admit<M: StateMachine>(
        &self,
        loaded: Loaded<'_, W>,
        machine: &M,
        request: Request,
    ) -> Option<Permit> {
        let (Request { now, cells }, state) = (request, loaded.word.state());
        let view = machine.read(state, loaded.live(), now, cells);
        let (next, Ruling::Admitted(view)) = request.rule(machine, state, view) else {
            return None;
        };
        self.advance(loaded, machine, Transition { view, next, note: Some(cells) }).ok()?;
        Some(machine.permit(view, now, cells))
    }

    /// Charges more cells than the request's on a committed word, as last seen: up to `max`, but no more
    /// than a quarter of those that are left. Returns how many cells it has charged, and the state after
    /// that; `None` has written nothing that counts.
    pub(crate) fn charge_ahead<M: StateMachine>(
        &self,
        first: Loaded<'_, W>,
        machine: &M,
        request: Request,
        max: MaxAhead,
    ) -> Option<(u64, u64)> {
        let Request { now, cells } = request;
        debug_assert!(cells > 0);
        let (mut loaded, mut backoff) = (first, Backoff::FIRST);
        while loaded.word.is_same_life(first.word) {
            let (state, live) = (loaded.word.state(), loaded.live());
            let seen = machine.read(state, live, now, 0);
            let left = machine.permit(seen, now, 0).remaining();
            let taken = max.cells.min(left / 4).max(cells);
            if taken == cells && !max.or_just_those {
                return None;
            }
            let view = machine.read(state, live, now, taken);
            let Step::Admit { next } = machine.step(view, now, taken) else { return None };
            let transition = Transition { view, next: Some(next), note: Some(taken) };
            match self.advance(loaded, machine, transition) {
                Ok(()) => return Some((taken, next)),
                Err(actual) => loaded.word = actual,
            }
            backoff.pause();
        }
        None
    }

    /// Publishes in the ring what only the word records, then advances the word to its next state.
    /// `Err` holds the word that another thread has written.
    #[inline(always)]
    fn advance<M: StateMachine>(
        &self,
        loaded: Loaded<'_, W>,
        machine: &M,
        transition: Transition<M::View>,
    ) -> Result<(), W> {
        let Loaded { word, ring } = loaded;
        let Transition { view, next, note } = transition;
        let has_ring = M::RINGED && !ring.is_none();
        let Some(next) = next else {
            // The ring's words belonged to `word` only if it is still there.
            if has_ring && !planted(Fault::RecheckSkipped) {
                self.expect(word)?;
            }
            return Ok(());
        };
        if has_ring {
            let write = move |place, content| self.publish_cell(word, ring, place, content);
            if !machine.publish(view, loaded.live(), write) {
                return Err(self.load());
            }
        }
        self.swap(word, word.with_state(next))?;
        if let Some(cells) = note
            && has_ring
            && machine.has_note()
        {
            ring.write_note(machine.note(view, cells));
        }
        Ok(())
    }

    /// Replaces the state of a committed word, as last seen, by `next` of it, while the word is of
    /// the same life. `false`: it is no longer, and nothing was replaced.
    pub(crate) fn revise(&self, first: W, next: impl Fn(u64) -> u64) -> bool {
        let mut word = first;
        while word.is_same_life(first) || (planted(Fault::LifeUnchecked) && !word.is_provisional())
        {
            let from = if planted(Fault::RevisionStale) { first } else { word };
            let next = next(from.state());
            if next == word.state() {
                return true;
            }
            match self.swap(word, word.with_state(next)) {
                Ok(()) => return true,
                Err(actual) => word = actual,
            }
        }
        false
    }

    /// Whether `word` is still there; `Err` holds the word that is there instead.
    #[inline(always)]
    fn expect(&self, word: W) -> Result<(), W> {
        let actual = self.load();
        if actual == word { Ok(()) } else { Err(actual) }
    }

    /// The retry loop, after a first try that has lost a race.
    #[cold]
    #[inline(never)]
    pub(crate) fn charge_again<M: StateMachine>(
        &self,
        race: LostRace<W>,
        ring: SlotRing<'_>,
        machine: &M,
        request: Request,
    ) -> OutOfLine<Option<Ruling<M::View>>> {
        let LostRace { first, actual: mut word } = race;
        let mut backoff = Backoff::FIRST;
        while word.is_same_life(first) {
            // The other thread's cache line is here now. A pause lets that thread win several times in a row,
            // which costs less than a line that changes hands each time.
            backoff.pause();
            match self.try_charge::<M, InFull>(Loaded { word, ring }, machine, request) {
                Ok(ruling) => return OutOfLine(Some(ruling)),
                Err(actual) => word = actual,
            }
        }
        OutOfLine(None)
    }

    /// Reads the view by which the request would be decided, on a committed word as last seen and
    /// its ring. `None`: the word has changed hands.
    #[inline]
    pub(crate) fn peek<M: StateMachine>(
        &self,
        first: Loaded<'_, W>,
        machine: &M,
        request: Request,
    ) -> Option<M::View> {
        let Request { now, cells } = request;
        let mut word = first.word;
        while word.is_same_life(first.word) {
            let view = machine.read(word.state(), first.live(), now, cells);
            if M::RINGED
                && !planted(Fault::RecheckSkipped)
                && let Err(actual) = self.expect(word)
            {
                word = actual;
                continue;
            }
            return Some(view);
        }
        None
    }

    /// Decides a request on a claim, from the state `fresh`, and commits the claim. `None`: the
    /// word has changed hands.
    ///
    /// A denial leaves the claim as it is, unless the algorithm starts in debt: a debt has to be
    /// remembered.
    pub(crate) fn commit<M: StateMachine>(
        &self,
        claim: Loaded<'_, W>,
        fresh: u64,
        machine: &M,
        request: Request,
    ) -> Option<Ruling<M::View>> {
        debug_assert!(claim.word.is_provisional());
        let view = request.read(machine, fresh);
        let (next, ruling) = request.rule(machine, fresh, view);
        if next.is_none() && !machine.starts_in_debt() {
            return Some(ruling);
        }
        let is_committed = self.commit_as(claim, machine, view, next.unwrap_or(fresh));
        is_committed.then_some(ruling)
    }

    /// Commits a claim with the state `next`, which follows from `view`. False: the word has changed hands.
    #[inline(always)]
    pub(crate) fn commit_as<M: StateMachine>(
        &self,
        claim: Loaded<'_, W>,
        machine: &M,
        view: M::View,
        next: u64,
    ) -> bool {
        let Loaded { word, ring } = claim;
        if M::RINGED {
            let write = move |place, content| self.publish_cell(word, ring, place, content);
            if !self.clear(claim, machine.cells_to_clear()) || !machine.publish(view, NoRing, write)
            {
                return false;
            }
        }
        self.swap(word, word.commit(next)).is_ok()
    }
}

impl<W: StateWord> core::fmt::Debug for StateCell<W> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.load().fmt(f)
    }
}
