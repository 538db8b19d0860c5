//! The time units of token buckets, and the slots of the limiters that the pages show.

use std::net::IpAddr;
use std::time::Duration;

use tollgate::limiter::SlotLayout;
use tollgate::{Limiter, Quota};

use crate::traces::{Draw, SLOTS, TRACES, time_unit};

/// The rule of `docs/guide/capacity.md`: a unit is the interval between two cells, divided into as many units of
/// 2.5 or 250 µs as it has room for. So it is longer than that by what is left, and less than twice as long.
#[test]
fn a_unit_is_less_than_twice_its_usual_length_and_at_most_a_thousandth_of_the_burst() {
    let mut draw = Draw::new(16);
    for (slots, usual_nanos) in SLOTS.into_iter().zip([2_500, 250_000]) {
        let usual = usual_nanos as f64;
        let mut longest: f64 = 0.0;
        for _ in 0..TRACES {
            let limit = draw.between(1, 1_000_000_000 / usual_nanos);
            let quota = Quota::per_second(limit).burst(draw.between(10, 4_000));
            let (units, nanos) = time_unit(quota, slots);
            let unit = nanos as f64 / units as f64;
            let interval = 1e9 / limit as f64;
            let thousandth = interval * quota.burst_cells() as f64 / 1_000.0;
            // Floating-point numbers round.
            let most = thousandth * (1.0 + 1e-12);
            assert!(unit < 2.0 * usual && unit <= most, "{quota}, {slots:?}: {unit} ns");
            if interval >= 100.0 * usual && thousandth >= 2.0 * usual {
                assert!((usual..1.02 * usual).contains(&unit), "{quota}, {slots:?}: {unit} ns");
            }
            longest = longest.max(unit);
        }
        assert!(longest > 1.9 * usual, "{slots:?}: {longest} ns");
    }
}

#[test]
fn a_unit_of_compact_slots_is_longer_if_the_burst_takes_weeks() {
    let month = Quota::new(1_000, Duration::from_secs(30 * 86_400));
    let (units, nanos) = time_unit(month, SlotLayout::Compact);
    assert!((1_200_000..1_210_000).contains(&(nanos / units)), "{nanos} / {units}");
}

#[test]
fn the_keyed_limiters_of_the_pages_have_compact_slots() {
    let quotas = [
        ("governor", Quota::per_second(100).burst(20)),
        ("nginx", Quota::per_second(10).burst(21)),
        ("Bucket4j", Quota::per_second(10).burst(20)),
        ("Bucket4j", Quota::per_hour(1_000)),
    ];
    for (page, quota) in quotas {
        let bytes = |slots: Option<SlotLayout>| {
            let builder = Limiter::<IpAddr>::builder(quota);
            let builder = slots.into_iter().fold(builder, |builder, slots| builder.slots(slots));
            builder.build().expect("in range").memory_bytes()
        };
        let [wide, compact] = SLOTS.map(|slots| bytes(Some(slots)));
        assert!(wide > compact);
        assert_eq!(bytes(None), compact, "{page}: {quota}");
    }
}
