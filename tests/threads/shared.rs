//! The types that can be shared and sent between threads, and the settings that never change after the build.

use tollgate::clock::{CoarseClock, QuantaClock};
use tollgate::stats::Stats;
use tollgate::{
    BuildError, Denied, Direct, FixedWindow, Gcra, Limiter, ManualClock, OnFull, Permit, Quota,
    QuotaError, Tick,
};

use crate::together;

const fn send_and_sync<T: Send + Sync + ?Sized>() {}

const _: () = {
    send_and_sync::<Limiter<str>>();
    send_and_sync::<Limiter<[u8], FixedWindow, CoarseClock>>();
    send_and_sync::<Limiter<u64, Gcra, ManualClock>>();
    // A key is passed by reference and never kept, so the key type need not be `Sync`.
    send_and_sync::<Limiter<std::rc::Rc<str>>>();
    send_and_sync::<Direct>();
    send_and_sync::<Direct<FixedWindow, ManualClock>>();
    send_and_sync::<Permit>();
    send_and_sync::<Denied>();
    send_and_sync::<(Quota, QuotaError, BuildError, OnFull, Stats, Tick)>();
    send_and_sync::<(QuantaClock, CoarseClock, ManualClock)>();
};

#[test]
fn memory_stays_as_built_whatever_is_asked() {
    let gate: Limiter<u64> =
        Limiter::builder(Quota::per_hour(1)).capacity(1_000).build().expect("in range");
    let before = gate.memory_bytes();
    assert!((32_000..=128 << 10).contains(&before), "{before}");
    together(4, |index| {
        for key in 0..50_000 {
            let _ = gate.check(&(key * 4 + index));
        }
    });
    assert_eq!(gate.memory_bytes(), before);
    assert!(gate.len() <= before / 8);
}

/// The clock is read in real time, by threads that started together. They are never granted more
/// than the rate, whatever the counters of the cores show.
#[test]
fn real_time_grants_no_more_than_the_rate() {
    let quota = Quota::per_second(200_000).burst(100);
    let gate = Direct::new(quota).expect("in range");
    let begun = tollgate::Clock::now(gate.clock());
    let granted: u64 = together(2, |_| {
        // A busy machine may start a thread late, or stop it at once.
        let (own, mut granted, mut asked) = (tollgate::Clock::now(gate.clock()), 0, 0);
        while asked < 1_000 || tollgate::Clock::now(gate.clock()).since(own).as_millis() < 200 {
            granted += u64::from(gate.check().is_ok());
            asked += 1;
        }
        granted
    })
    .iter()
    .sum();
    let span = tollgate::Clock::now(gate.clock()).since(begun);
    let max = 100 + span.as_nanos() * 200_000 / 1_000_000_000 + 2;
    assert!(u128::from(granted) <= max, "{granted} of {max} in {span:?}");
    assert!(granted > 100);
}
