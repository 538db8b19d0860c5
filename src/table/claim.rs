//! The claim protocol: how a key without a slot gets one, and never two.
//!
//! It is written once, over [`SlotKind`]: wide slots, whose key is in a word beside the state, and
//! compact slots, which have both in one word. A *claim* is a slot that is the key's but has
//! nothing charged yet: its state word is provisional.
//!
//! # Protocol
//!
//! A charge is one compare-and-swap of the state word. That word names the slot's generation
//! (wide) or its key (compact), so the swap fails if the slot has changed hands. For a key without
//! a slot (the cold path), a thread
//!
//! 1. takes a slot: it swaps the state word of a vacant slot, of an idle key, or of another key's
//!    claim to a provisional word. Wide: the word has the next generation, and a fresh state. The
//!    last key has lost the slot from here on. The step is skipped if the slot is already taken and
//!    has no owner yet. Compact: the word has the key's fingerprint, and a nonce.
//! 2. writes the key. Wide: it swaps `owner` to (fingerprint, the state word's generation). Exactly
//!    one thread wins a generation, because the owner that it expects is used up. Compact: step 1
//!    has done it.
//! 3. scans: after a sequentially consistent fence it reads all candidates for the key. If the
//!    key has a committed slot, the thread gives up every claim of the key. If the key has several
//!    claims, the thread gives up all but the first in probing order. After any such step it
//!    scans again. To give a claim up is to swap its state word to a vacant one: the next
//!    generation, not provisional (wide); zero (compact).
//!    A thread that has just claimed a slot counts the candidates with the key's fingerprint first.
//!    If the count is one, the candidate is its claim, or its claim has lost the slot and the commit fails.
//! 4. commits: it swaps the state word from provisional to the charged state.
//!
//! Any thread that works for the key may do steps 3 and 4 for any claim of it, after its own
//! fence, if it had written the claim, or read it, *before* that fence. A claim that a thread first
//! sees in its scan is scanned for again. No step waits for another thread.
//!
//! # Why a key never has two live slots
//!
//! Assume that two claims of a key are committed in different slots, by two threads. Each thread
//! had written or read its claim before its fence. After its fence, it saw neither the other claim nor the
//! word that replaced it. One fence comes first in the total order of sequentially consistent
//! fences. The thread of the later fence then sees what the thread of the earlier fence had written
//! or read before it, or something newer in that slot:
//!
//! - If it sees the claim, it gives one of the two up, by a swap of the very word that the commit
//!   names. Only one of give-up and commit can succeed.
//! - If it sees the committed state, it gives its own claim up.
//! - If it sees what came after that, the first of the two slots is not live any more.
//!
//! In wide slots, the word of the claim that the two threads have written or read is its owner. A thread
//! that has read an owner sees a state word at least as new as that owner (see [`cell`](crate::cell)).
//!
//! Without the second scan, a thread that first sees a claim in its scan, and commits it, would have no such
//! guarantee. Its scan may already have passed a slot that another thread then claims and commits, and the
//! other thread need not have seen the first claim either.
//!
//! # Claims of other keys
//!
//! Another key's claim holds nothing that could be lost, so it may be displaced: its thread finds
//! that its commit fails, and claims again. A request displaces a claim only if nothing is vacant
//! or idle, and only once, so that two threads cannot displace each other for ever. After that it
//! evicts a live key, if it may, or finds no slot.
//!
//! # Recurrence (ABA)
//!
//! **Wide.** A state word recurs only if the slot changes hands a multiple of 1,024 times and ends
//! with the same state, to the unit of time, while a thread is between its load and its swap.
//! Taking an idle slot always moves its time forward, so only forced evictions can restore an old word.
//! The charge would then fall on the new owner. Likewise, a ring word of one life
//! is taken for that of the life 1,024 later only if both are of one unit of time. (The unit of
//! sub-windows is long, so their ring words are cleared when a claim is committed.)
//!
//! **Compact.** Vacant words and the words of idle keys recur, which does no harm: such a word holds
//! everything that makes the slot free to take. (If an idle word's time has come round since a thread
//! read it, the thread's time is beyond the clock skew that a limiter allows.) If a charged word recurs,
//! the charge is still right, since the word names the key. A claim must not recur: a thread that has
//! scanned for one and then sleeps would commit a later claim of the key in the same slot, although the
//! key has another slot by then. So each claim has a nonce: a count, striped over the threads, that
//! comes round after 2^34 claims by the threads of one stripe. A wrong commit takes all of those claims
//! between one thread's scan and its commit, and the claim with the same nonce must be of the same key
//! and in the same slot.
//!
//! # Guarded by
//!
//! `loom-tests/tests/claim.rs` (both kinds of slot), `take_over.rs` and `ring_take_over.rs`, run by
//! `ci/check.sh loom`, with models that fail without the scan, the fence, the second scan, the
//! generation and the nonce; and by the histories of `ci/check.sh shuttle`. In the models of
//! `loom-tests/tests/stopped/claim.rs` a thread stops for ever before each of its steps; they fail if a
//! thread waits for a claimant. Ordinary tests do not notice a mistake here: a wrong order of two loads
//! passes all of them.

use core::ops::ControlFlow;

use super::choice::Choice;
use super::counters::Event;
use super::probe::Probe;
use super::request::{Full, KeyRequest};
use super::slot_kind::{Candidate, SlotKind, SlotRef};
use super::slot_table::SlotTable;
use crate::algo::{StateMachine, Step};
use crate::cell::{Request, Ruling, StateWord};
use crate::sync::{Fault, Ordering, fence, planted, wait_for_others};

/// The most rescans of a request, each because other threads were changing its candidates. Threads that keep to
/// the protocol do not cause so many. A process that has spoilt a shared block can: a log's claim with a live
/// state, which no thread writes, is neither displaced nor evicted, and would be scanned for without end.
const RESCANS_MAX: u16 = 1_000;

/// The retries that a request has left.
pub(super) struct RetryBudget {
    /// Whether it may displace another key's claim: it has displaced none so far.
    pub(super) may_displace: bool,
    pub(super) rescans_left: u16,
}

impl RetryBudget {
    pub(super) const fn new() -> Self {
        Self { may_displace: true, rescans_left: RESCANS_MAX }
    }
}

/// The ruling about a request, unless the key finds no slot.
pub(super) type Outcome<V> = Result<Ruling<V>, Full>;

/// The result of a scan.
enum Scan<'a, W> {
    Absent,
    /// One claim, and nothing committed.
    Claimed(SlotRef<'a, W>),
    /// A committed slot, and no claim beside it.
    Committed(SlotRef<'a, W>),
    /// A claim to give up, since the key has something better: `kept`, if that is a claim.
    Surplus {
        claim: SlotRef<'a, W>,
        kept: Option<SlotRef<'a, W>>,
    },
}

/// An outcome, and the slot that was charged.
type SlotOutcome<'a, W, V> = (Outcome<V>, Option<SlotRef<'a, W>>);

/// The outcome, or the claim that is to be scanned for, if there is one.
type ClaimFlow<'a, W, V> = ControlFlow<SlotOutcome<'a, W, V>, Option<SlotRef<'a, W>>>;

impl<K: SlotKind> SlotTable<K> {
    /// Charges a key that has no committed slot where it was looked for. Returns the ruling, and
    /// the slot that was charged. `found` is what the lookup found of the key, a claim perhaps.
    #[cold]
    #[inline(never)]
    pub(super) fn claim_and_charge<'a, M: StateMachine>(
        &'a self,
        asked: &KeyRequest<'_, M>,
        mut found: Option<SlotRef<'a, K::Word>>,
    ) -> SlotOutcome<'a, K::Word, M::View> {
        let mut budget = RetryBudget::new();
        loop {
            // A lookup that found nothing serves as a first scan: whatever it missed, the scan
            // after the claim sees.
            let known = match found {
                Some(_) => found.filter(|_| !planted(Fault::ClaimAwaited)),
                None => match self.claim_and_commit(asked, &mut budget) {
                    ControlFlow::Break(answer) => return answer,
                    ControlFlow::Continue(known) => known,
                },
            };
            if let Some(answer) = self.scan_and_charge(asked, known) {
                return answer;
            }
            found = None;
        }
    }

    /// Claims a slot for an absent key, and commits the claim if no other candidate has the key's fingerprint
    /// by then. Otherwise the caller scans, with the claim if there is one.
    #[inline(always)]
    fn claim_and_commit<'a, M: StateMachine>(
        &'a self,
        asked: &KeyRequest<'_, M>,
        budget: &mut RetryBudget,
    ) -> ClaimFlow<'a, K::Word, M::View> {
        let &KeyRequest { probe, machine, request } = asked;
        let Request { now, cells } = request;
        let fresh = machine.fresh(now);
        let view = request.read(machine, fresh);
        let (next, ruling) = match machine.step(view, now, cells) {
            // A bucket that starts in debt has to be remembered, unless waiting is no use.
            Step::Deny
                if !machine.starts_in_debt() || machine.denied(view, now, cells).is_final() =>
            {
                return ControlFlow::Break((Ok(Ruling::Denied(view)), None));
            }
            Step::Admit { .. } if cells == 0 => {
                return ControlFlow::Break((Ok(Ruling::Admitted(view)), None));
            }
            Step::Admit { next } => (next, Ruling::Admitted(view)),
            Step::DenyCounted { next } => (next, Ruling::Denied(view)),
            Step::Deny => (fresh, Ruling::Denied(view)),
        };
        let claim = match self.claim(asked, fresh, budget) {
            Ok(Some(claim)) => claim,
            Ok(None) => return ControlFlow::Continue(None),
            Err(full) => return ControlFlow::Break((Err(full), None)),
        };
        fence_of_scan();
        let is_alone = self.slots.count_alike(probe) == 1;
        // Another thread's time may be in the claim.
        if !is_alone || K::state_of_claim(claim.word, fresh) != fresh {
            return ControlFlow::Continue(Some(claim));
        }
        match claim.cell.commit_as(self.slots.loaded::<M>(claim), machine, view, next) {
            true => ControlFlow::Break((Ok(ruling), Some(claim))),
            false => ControlFlow::Continue(None),
        }
    }

    /// Scans, and gives up claims, until the request is charged. `None`: the key is absent.
    #[cold]
    #[inline(never)]
    fn scan_and_charge<'a, M: StateMachine>(
        &'a self,
        asked: &KeyRequest<'_, M>,
        // A claim that this thread has written or read by now.
        mut known: Option<SlotRef<'a, K::Word>>,
    ) -> Option<SlotOutcome<'a, K::Word, M::View>> {
        let &KeyRequest { machine, request, .. } = asked;
        loop {
            known = match self.rescan(asked, known) {
                Scan::Surplus { claim, kept } => {
                    // If the swap fails, the claim was committed or given up. The next scan sees.
                    let _ = claim.cell.swap(claim.word, K::vacated(claim.word));
                    kept
                }
                Scan::Committed(slot) => {
                    let loaded = self.slots.loaded::<M>(slot);
                    if let Some(ruling) = slot.cell.charge(loaded, machine, request) {
                        return Some((Ok(ruling), Some(slot)));
                    }
                    None
                }
                Scan::Claimed(slot) => {
                    let loaded = self.slots.loaded::<M>(slot);
                    let fresh = K::state_of_claim(slot.word, machine.fresh(request.now));
                    if let Some(ruling) = slot.cell.commit(loaded, fresh, machine, request) {
                        return Some((Ok(ruling), Some(slot)));
                    }
                    None
                }
                Scan::Absent => return None,
            };
        }
    }

    /// Reads all candidates for the key. `known` is a claim of it that this thread had written or
    /// read before. A claim that it sees now for the first time is scanned for again.
    fn rescan<'a, M>(
        &'a self,
        asked: &KeyRequest<'_, M>,
        mut known: Option<SlotRef<'a, K::Word>>,
    ) -> Scan<'a, K::Word> {
        loop {
            match self.scan_once(asked.probe) {
                Scan::Claimed(claim)
                    if known.is_none_or(|known| !known.is(&claim))
                        && !planted(Fault::ClaimJustSeen)
                        && !planted(Fault::RescanSkipped) =>
                {
                    match planted(Fault::ClaimAwaited) {
                        true => wait_for_others(),
                        false => known = Some(claim),
                    }
                }
                scan => return scan,
            }
        }
    }

    fn scan_once(&self, probe: Probe) -> Scan<'_, K::Word> {
        fence_of_scan();
        let mut claimed: Option<SlotRef<'_, K::Word>> = None;
        let mut committed: Option<SlotRef<'_, K::Word>> = None;
        for slot in self.slots.matching(probe) {
            if planted(Fault::RescanSkipped) {
                return match slot.word.is_provisional() {
                    true => Scan::Claimed(slot),
                    false => Scan::Committed(slot),
                };
            }
            match (slot.word.is_provisional(), claimed) {
                (true, Some(kept)) => return Scan::Surplus { claim: slot, kept: Some(kept) },
                (true, None) => claimed = Some(slot),
                (false, _) => committed = committed.or(Some(slot)),
            }
        }
        match (committed, claimed) {
            (Some(_), Some(claim)) => Scan::Surplus { claim, kept: None },
            (Some(slot), None) => Scan::Committed(slot),
            (None, Some(claim)) => Scan::Claimed(claim),
            (None, None) => Scan::Absent,
        }
    }

    /// Steps 1 and 2 for an absent key. `None`: another thread was faster.
    pub(super) fn claim<M: StateMachine>(
        &self,
        asked: &KeyRequest<'_, M>,
        fresh: u64,
        budget: &mut RetryBudget,
    ) -> Result<Option<SlotRef<'_, K::Word>>, Full> {
        let probe = asked.probe;
        let may_evict = self.take_over.may_evict;
        let (candidate, evicts) = match self.choose(asked, budget.may_displace, may_evict) {
            Choice::Take(candidate, evicts) => (candidate, evicts),
            Choice::Rescan if budget.rescans_left == 0 => {
                return Err(Full { nearest_idle: fresh });
            }
            Choice::Rescan => {
                budget.rescans_left -= 1;
                return Ok(None);
            }
            Choice::Full(full) => return Err(full),
        };
        let Some(claim) = self.slots.take(candidate, probe, fresh, &self.counters) else {
            return Ok(None);
        };
        budget.may_displace &= !candidate.is_claim() || planted(Fault::DisplacesAgain);
        if evicts {
            self.counters.count(Event::Evicted);
        }
        if !self.slots.hand_over(candidate, claim.word, probe) {
            return Ok(None);
        }
        self.counters.count(Event::Claimed);
        Ok(Some(claim))
    }
}

/// Orders the claim that this thread has written or read before the loads of all other candidates. See the
/// argument at the head of this file.
#[inline(always)]
fn fence_of_scan() {
    if !planted(Fault::FenceLeftOut) {
        fence(Ordering::SeqCst);
    }
}
