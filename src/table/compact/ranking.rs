//! Ranking: which slot of a bucket an absent key takes.

use super::CompactSlots;
use crate::algo::{Liveness, StateMachine};
use crate::cell::{CompactWord, Fingerprint, StateWord};
use crate::table::slot_kind::{BestSlots, Ranking, SlotRef};

impl CompactSlots {
    /// Ranks the slots of a bucket until the key's own slot comes up.
    ///
    /// Of equal slots, the first in probing order is offered. So keys have the slots they prefer, and of
    /// keys with equal debts any is as likely to be forgotten as any other, whenever it arrived.
    #[inline]
    pub(super) fn rank_bucket<M: StateMachine>(
        &self,
        bucket: u32,
        machine: &M,
        ranking: &Ranking,
    ) -> BestSlots<SlotRef<'_, CompactWord>> {
        let &Ranking { probe, instant, may_displace } = ranking;
        let fingerprint = Fingerprint::of(probe.hash());
        let order = probe.order(self.lines.bucket_count());
        let (mut reusable, mut has_own, mut live) = (0, false, None);
        let (mut vacant, mut claimed) = (None, None);
        let mut idle: Option<(u64, SlotRef<'_, CompactWord>)> = None;
        let mut least = u64::MAX;
        for cell in order.slots(self.lines.bucket(bucket)) {
            let word = cell.load();
            let slot = SlotRef { cell, word };
            if word.is_of(fingerprint) {
                has_own = true;
                break;
            }
            if word.is_vacant() {
                reusable += 1;
                vacant = vacant.or(Some(slot));
                continue;
            }
            if word.is_provisional() {
                claimed = claimed.or(Some(slot));
                continue;
            }
            match machine.liveness(word.state(), instant) {
                Liveness::Idle { units } => {
                    reusable += 1;
                    if idle.is_none_or(|(longest, _)| units > longest) {
                        idle = Some((units, slot));
                    }
                }
                Liveness::Live { debt } => {
                    if debt < least {
                        least = debt;
                        live = Some((debt, slot));
                    }
                }
            }
        }
        let displaced = claimed.filter(|_| may_displace);
        let free = vacant.or(idle.map(|(_, slot)| slot)).or(displaced);
        BestSlots { reusable, free, live, has_own, has_claims: claimed.is_some() }
    }
}
