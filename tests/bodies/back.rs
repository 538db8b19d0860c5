//! Refunds, added cells and overdrafts are total, and never favour the caller.

use std::time::Duration;

use tollgate::Tick;
use tollgate::internals::{Ahead, Liveness, NoRing, PAYLOAD_BITS, Receipt, Refund, Step};

use super::grid::nanos;
use super::total::STATE;

const YEAR_NANOS: u64 = 365 * 24 * 3_600 * 1_000_000_000;

fn debt<P: Refund>(params: &P, word: u64, now: Tick) -> u64 {
    match params.liveness(word, params.instant(now)) {
        Liveness::Idle { .. } => 0,
        Liveness::Live { debt } => debt,
    }
}

fn left<P: Refund>(params: &P, word: u64, now: Tick) -> u64 {
    let seen = params.read(word, NoRing, now, 0);
    params.answer(seen, now, 0).expect("a peek for no cells succeeds").remaining()
}

fn stepped<P: Refund>(params: &P, word: u64, now: Tick, n: u64) -> Option<u64> {
    match params.step(params.read(word, NoRing, now, n), now, n) {
        Step::Admit { next } => Some(next),
        Step::Deny | Step::DenyCounted { .. } => None,
    }
}

/// For any word, receipt, cost and instant. Waits are tried only up to `latest`.
pub(crate) fn refunds_are_total<P: Refund>(
    params: &P,
    word: u64,
    receipt: &Receipt,
    (now, fits, latest): (Tick, u64, u64),
    n: u64,
) {
    let word = word & STATE;
    let (before, room) = (debt(params, word, now), left(params, word, now));

    let given = params.refund(word, receipt, now, n);
    assert_eq!(given >> PAYLOAD_BITS, 0, "no bit above the payload");
    let cells = left(params, given, now) - room;
    assert!(debt(params, given, now) <= before, "a refund does not add to the debt");
    assert!(cells <= n.min(receipt.cells), "{cells} of {n} that were charged");
    if now < receipt.at || receipt.cells == 0 || n == 0 {
        assert!(n.min(receipt.cells) > 0 || debt(params, given, now) == before);
    }

    let added = params.add(word, now, n);
    assert_eq!(added >> PAYLOAD_BITS, 0, "no bit above the payload");
    assert!(debt(params, added, now) <= before, "added cells do not add to the debt");
    let all = fits.min(room.saturating_add(n));
    assert!(left(params, added, now) <= all, "more was added than the burst or the gift");
    if room > 0 {
        assert_eq!(left(params, added, now), all, "the whole gift was added");
    }

    is_overdrawn(params, word, (now, latest), n);
    turn_is_right(params, word, (now, latest));
}

/// An admitted request is admitted when overdrawing, with the same state; a denied one is charged
/// as far as there is room.
fn is_overdrawn<P: Refund>(params: &P, word: u64, (now, latest): (Tick, u64), n: u64) {
    let overdrawn = params.overdrawn();
    assert_eq!(overdrawn.fresh(now), params.fresh(now), "a life begins the same");
    let charged = stepped(&overdrawn, word, now, n);
    if let Some(next) = stepped(params, word, now, n) {
        assert_eq!(charged, Some(next));
    }
    let (charged, n) = charged.map_or_else(
        || {
            let room = left(&overdrawn, word, now);
            assert!(room < n, "what there is room for was denied");
            (stepped(&overdrawn, word, now, room).expect("there is room"), room)
        },
        |charged| (charged, n),
    );
    assert_eq!(charged >> PAYLOAD_BITS, 0, "no bit above the payload");
    let (was, is) = (debt(params, word, now), debt(params, charged, now));
    assert!(if n > 0 { is > was } else { is == was }, "moved back: {was} to {is} by {n}");
    turn_is_right(params, charged, (now, latest));
}

/// The turn is the shortest time after which no more than a burst is owed.
fn turn_is_right<P: Refund>(params: &P, word: u64, (now, latest): (Tick, u64)) {
    let turn = params.turn(word, now);
    let Some(then) = now.as_nanos().checked_add(nanos(turn)) else { return };
    if turn.is_zero() || then >= latest {
        return;
    }
    assert_eq!(left(params, word, now), 0, "a key with cells left has had its turn");
    assert_eq!(params.turn(word, Tick::from_nanos(then)), Duration::ZERO, "{turn:?} too early");
    assert!(!params.turn(word, Tick::from_nanos(then - 1)).is_zero(), "{turn:?} is too much");
}

/// A charge ahead succeeds if the request would be admitted within the wait, and its turn is no
/// later.
pub(crate) fn charges_ahead_are_total<P: Ahead>(
    params: &P,
    word: u64,
    (now, fits): (Tick, u64),
    n: u64,
    wait_nanos: u64,
) {
    let wait = Duration::from_nanos(wait_nanos);
    let within = params.within(now, wait);
    assert_eq!(within.fresh(now), params.fresh(now), "a life begins the same");
    let charged = stepped(&within, word, now, n);
    if let Some(next) = charged {
        assert_eq!(next >> PAYLOAD_BITS, 0, "no bit above the payload");
        assert!(n == 0 || params.turn(next, now) <= wait, "a turn after {wait:?}");
    }
    let Some(then) = now.as_nanos().checked_add(wait_nanos) else { return };
    if params.grid().ring().is_none() && wait_nanos <= YEAR_NANOS && n <= fits {
        let admitted = stepped(params, word, Tick::from_nanos(then), n).is_some();
        assert_eq!(charged.is_some(), admitted, "{n} within {wait:?}");
    }
}
