//! Keys that find no slot: what a charge to the shared limiter takes.

use std::time::Duration;

use tollgate::algorithm::Algorithm;
use tollgate::dynamic::DynamicGcra;
use tollgate::internals::Refund;
use tollgate::limiter::SlotLayout;
use tollgate::{Direct, FixedWindow, Gcra, Limiter, ManualClock, OnFull, Quota};

const MINUTE: Duration = Duration::from_secs(60);

type Gate<A> = Limiter<u64, A, ManualClock>;

/// The key's own state could hold less. The shared limiter decides how much is charged, and counts it once.
#[test]
fn a_charge_to_the_shared_limiter_takes_all_that_it_can_hold() {
    fn check<A: Algorithm<Params: Refund> + Copy>(algorithm: A, slots: SlotLayout) {
        let (own, shared) = (Quota::new(1, 60 * MINUTE), Quota::new(100, 60 * MINUTE));
        for cells in [2, 5, 90, 120, 1_000, 1 << 41, u64::MAX] {
            let gate: Gate<A> = Limiter::builder(own)
                .algorithm(algorithm)
                .clock(ManualClock::new())
                .capacity(1)
                .slots(slots)
                .on_full(OnFull::SharedOverflow(shared))
                .build()
                .expect("in range");
            let bucket = Direct::builder(shared).algorithm(algorithm).clock(ManualClock::new());
            let bucket = bucket.build().expect("in range");
            let key =
                (0..1_000).find(|key| !gate.ask(key).finds_slot() || gate.check(key).is_err());
            let key = key.expect("few slots");
            let before = gate.stats().overflowed;
            let case = format!("{cells} cells, {slots:?}");
            (0..50).for_each(|_| assert_eq!(gate.check(&key).ok(), bucket.check().ok()));
            assert_eq!(
                gate.ask(&key).cells(cells).charge(),
                bucket.ask().cells(cells).charge(),
                "{case}"
            );
            assert_eq!(gate.stats().overflowed - before, 51, "{case}");
            assert_eq!(gate.check(&key), bucket.check(), "{case}");
        }
    }
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        check(Gcra::new(), slots);
        check(FixedWindow::anchored(), slots);
    }
    check(DynamicGcra::new(), SlotLayout::Wide);
}
