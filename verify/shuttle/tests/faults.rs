//! The detector is tested, too: mistakes are planted, and have to be caught.
//!
//! Not to be seen here is what takes a weaker order than one after the other: shuttle's histories are
//! sequentially consistent, so that a fence left out, or a word published without Release, changes
//! nothing. Those are loom's, in `loom-tests/`.

#![cfg(tollgate_shuttle)]

use shuttle_tests::explore::assert_caught;
use shuttle_tests::families as of;
use tollgate::internals::Fault;

/// Histories in which a fault must have shown.
const HISTORIES_MAX: usize = 100_000;

macro_rules! caught {
    ($($test:ident: $fault:ident by $($family:ident),+;)*) => {
        $(#[test]
        fn $test() {
            $(assert_caught(Fault::$fault, stringify!($family), HISTORIES_MAX, of::$family);)+
        })*
    };
}

caught! {
    generation_check_dropped: GenerationUnchecked by wide_claims, wide_evictions;
    generation_kept: GenerationKept by wide_claims, wide_evictions;
    rescan_skipped: RescanSkipped by wide_claims, compact_claims;
    claim_just_seen: ClaimJustSeen by claims_while_room_is_made;
    claim_hides_the_slot: ClaimHidesSlot by wide_claims, wide_evictions;
    own_slot_unseen: OwnSlotUnseen by wide_reservations;
    load_then_store: LoadThenStore by direct_bucket, direct_window, direct_log, wide_claims, compact_claims;
    cells_wrap: CellsWrap by direct_bucket, direct_window;
    life_unchecked: LifeUnchecked by direct_reservations, wide_reservations;
    revision_stale: RevisionStale by direct_reservations, wide_reservations;
    entry_of_another_life: LifeUnchecked by direct_in_flight, wide_in_flight;
    stale_exit: RevisionStale by direct_in_flight, wide_in_flight;
    entry_without_a_swap: LoadThenStore by direct_in_flight, wide_in_flight;
    entry_without_a_rescan: RescanSkipped by wide_in_flight;
    torn_quota: TornQuota by dynamic_quota;
    publish_left_out: PublishLeftOut by direct_sub_windows, direct_log, claimed_logs;
    publish_unchecked: PublishUnchecked by direct_sub_windows, direct_log;
    recheck_skipped: RecheckSkipped by direct_sub_windows, direct_log;
}
