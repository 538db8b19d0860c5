//! The limiters.

mod atomic_token_bucket;
mod crates;
mod direct;
mod dpdk;
mod locked;
mod maps;
mod ours;
mod rate_net;
mod throttle_kit;

pub use self::atomic_token_bucket::{AtomicTokenBucket, AtomicTokenBuckets};
pub use self::rate_net::{RateNet, RateNetDirect};
pub use self::throttle_kit::ThrottleKit;
pub use crates::{
    Aerorate, GovernorAhash, GovernorDefault, PingoraLimits, Throttlecrab, TokioRateLimit, Trypema,
};
pub use direct::{
    AerorateDirect, BucketDirect, GovernorDirect, LeakyBucket, Ratelimit, TollgateDirect,
};
pub use dpdk::DpdkMeter;
pub use locked::{LockedBucket, LockedMaps};
pub use maps::{InDashmap, InMoka, InPapaya, InScc};
pub use ours::{Tollgate, TollgateDenying, quota};

use crate::peer::{VisitDirect, Visitor};

/// Every keyed limiter, tollgate first.
pub fn each(visit: &mut impl Visitor) {
    visit.keyed::<Tollgate>();
    visit.given::<Tollgate>();
    visit.keyed::<GovernorDefault>();
    visit.keyed::<GovernorAhash>();
    visit.keyed::<RateNet>();
    visit.keyed::<Aerorate>();
    visit.keyed::<AtomicTokenBuckets>();
    visit.keyed::<Trypema>();
    visit.keyed::<TokioRateLimit>();
    visit.keyed::<ThrottleKit>();
    visit.keyed::<Throttlecrab>();
    visit.given::<Throttlecrab>();
    visit.keyed::<PingoraLimits>();
    visit.keyed::<InDashmap>();
    visit.given::<InDashmap>();
    visit.keyed::<InPapaya>();
    visit.given::<InPapaya>();
    visit.keyed::<InScc>();
    visit.given::<InScc>();
    visit.keyed::<InMoka>();
    visit.given::<InMoka>();
    visit.keyed::<LockedMaps>();
    visit.given::<LockedMaps>();
}

/// Every limiter with one bucket, tollgate first.
pub fn each_direct(visit: &mut impl VisitDirect) {
    visit.direct::<TollgateDirect>();
    visit.direct::<GovernorDirect>();
    visit.direct::<Ratelimit>();
    visit.direct::<LeakyBucket>();
    visit.direct::<RateNetDirect>();
    visit.direct::<AerorateDirect>();
    visit.direct::<AtomicTokenBucket>();
    visit.direct::<BucketDirect>();
    visit.direct::<LockedBucket>();
}

#[cfg(test)]
mod tests {
    use std::borrow::Borrow;

    use super::*;
    use crate::forms::Form;
    use crate::peer::{Direct, Keyed, TimeGiven};
    use crate::plan::Plan;

    struct GrantsItsBurst;

    impl Visitor for GrantsItsBurst {
        fn keyed<P: Keyed>(&mut self) {
            let gate = P::new(Plan::hourly(10), 100);
            for rank in 0..3 {
                let key = P::Key::own(rank);
                let granted = (0..30).filter(|_| gate.check(key.borrow())).count();
                assert_eq!(granted, 10, "{}", P::NAME);
            }
        }

        fn given<P: TimeGiven>(&mut self) {
            let gate = P::new(Plan::hourly(10), 100);
            let key = P::Key::own(0);
            let granted_at = |now| (0..30).filter(|_| gate.check_at(key.borrow(), now)).count();
            assert_eq!(granted_at(1_000_000_000), 10, "{}", P::NAME);
            assert_eq!(granted_at(3_602_000_000_000), 1, "{}, an hour later", P::NAME);
        }
    }

    impl VisitDirect for GrantsItsBurst {
        fn direct<P: Direct>(&mut self) {
            let gate = P::new(Plan::hourly(10));
            assert_eq!((0..30).filter(|_| gate.check()).count(), 10, "{}", P::NAME);
        }
    }

    #[test]
    fn every_limiter_grants_one_thread_its_burst() {
        each(&mut GrantsItsBurst);
        each_direct(&mut GrantsItsBurst);
    }
}
