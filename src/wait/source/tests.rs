//! A key for which a booking finds no slot, and the request after it finds one.

use super::*;
use crate::wait::{WaitError, WaitQueue};
use crate::{ManualClock, Quota};

/// A limiter in which another key leaves a slot after each booking.
struct FreedAfterBooking(Limiter<u64, Gcra, ManualClock>);

impl Bookable for FreedAfterBooking {
    type Key = u64;

    fn probe(&self, key: &u64) -> KeyProbe {
        Bookable::probe(&self.0, key)
    }

    fn now(&self) -> Tick {
        Bookable::now(&self.0)
    }

    fn algo(&self) -> &GcraParams {
        self.0.algo()
    }

    fn state(&self, algo: &GcraParams, probe: KeyProbe, now: Tick) -> u64 {
        self.0.state(algo, probe, now)
    }

    fn book(
        &self,
        _: &GcraParams,
        _: KeyProbe,
        _: Request,
        _: Duration,
    ) -> Result<(ChargeReceipt, Duration), Option<Denied>> {
        Err(None)
    }

    fn revise(&self, probe: KeyProbe, paid: &ChargeReceipt, next: &dyn Fn(u64) -> u64) -> bool {
        self.0.revise(probe, paid, next)
    }

    fn ask(&self, algo: &GcraParams, probe: KeyProbe, request: Request) -> Decision {
        Bookable::ask(&self.0, algo, probe, request)
    }
}

impl sealed::Sealed for FreedAfterBooking {
    type Key = u64;
    type Ops = Self;

    fn ops(&self) -> &Self {
        self
    }
}

#[test]
fn a_key_that_finds_a_slot_after_its_booking_found_none_is_charged_by_its_plan() {
    let builder = Limiter::builder(Quota::per_second(10)).algorithm(Gcra::new().for_plans());
    let limiter = builder.clock(ManualClock::new()).build().expect("in range");
    let slow = limiter.plan(Quota::per_minute(1)).expect("slower than the limiter's own");
    let queue = WaitQueue::new(FreedAfterBooking(limiter));
    let ask = |key| queue.ask(key).max_delay(Duration::ZERO);
    assert!(ask(&7).plan(&slow).wait().is_ok());
    let minute = Some(Duration::from_secs(60));
    assert_eq!(ask(&7).plan(&slow).wait(), Err(WaitError::NoPlace { retry_after: minute }));
    // Without a plan, the limiter's own quota decides.
    assert!((0..10).all(|_| ask(&8).wait().is_ok()));
    let tenth = Some(Duration::from_millis(100));
    assert_eq!(ask(&8).wait(), Err(WaitError::NoPlace { retry_after: tenth }));
}
