//! Penalties against a model of one key at a time.

use std::collections::HashMap;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::penalty::{Penalties, PenaltyDenied};
use tollgate::{BuildError, Limiter, ManualClock, OnFull, Quota, Tick};

const SECOND: u64 = 1_000_000_000;
const STRIKES: u64 = 3;
const PERIOD: u64 = 10 * SECOND;
const BAN: u64 = 25 * SECOND;

type Gate = Penalties<u8, tollgate::Gcra, ManualClock>;

fn gate(prolonged: bool) -> Gate {
    let limiter = Limiter::builder(Quota::per_second(1).burst(2)).clock(ManualClock::new());
    let strikes = Quota::new(STRIKES, Duration::from_nanos(PERIOD));
    let limiter = limiter.build().expect("in range");
    let builder = Penalties::builder(limiter, strikes, Duration::from_nanos(BAN)).capacity(100);
    let builder = if prolonged { builder.prolonged() } else { builder };
    builder.build().expect("in range")
}

/// The model's state of a key: the end of its period, the strikes in it, and the end of its ban.
#[derive(Default)]
struct Record {
    period_ends: u64,
    strikes: u64,
    ban_ends: u64,
}

/// Half seconds since the last act, a key, and whether it asks or is pardoned. All times coincide with
/// units of the time that strikes and bans are kept in.
type Act = (u64, u8, bool);

fn agrees_with_the_model(prolonged: bool, acts: &[Act]) {
    let gate = gate(prolonged);
    // The limiter alone, to compare its own decisions.
    let alone = Limiter::builder(Quota::per_second(1).burst(2)).clock(ManualClock::new());
    let alone: Limiter<u8, _, _> = alone.build().expect("in range");
    let mut records: HashMap<u8, Record> = HashMap::new();
    let (mut now, mut bans, mut denied_banned) = (SECOND, 0, 0);
    for &(halves, key, pardon) in acts {
        now += halves * SECOND / 2;
        let tick = Tick::from_nanos(now);
        let record = records.entry(key).or_default();
        if pardon {
            gate.pardon(&key);
            *record = Record::default();
            continue;
        }
        let answer = gate.ask(&key).at(tick).check();
        if now < record.ban_ends {
            denied_banned += 1;
            if prolonged {
                record.ban_ends = now + BAN;
            }
            let Err(PenaltyDenied::Banned(ban)) = answer else {
                panic!("{answer:?}, but is banned")
            };
            assert!(!ban.begins());
            assert_eq!(ban.ends_in(), Duration::from_nanos(record.ban_ends - now));
            assert_eq!(gate.ask(&key).at(tick).banned(), Some(ban.ends_in()));
            continue;
        }
        match alone.ask(&key).at(tick).check() {
            Ok(permit) => assert_eq!(answer, Ok(permit)),
            Err(denied) => {
                if now >= record.period_ends {
                    (record.period_ends, record.strikes) = (now + PERIOD, 0);
                }
                record.strikes += 1;
                if record.strikes < STRIKES {
                    assert_eq!(answer, Err(PenaltyDenied::Limited(denied)));
                    assert_eq!(gate.ask(&key).at(tick).banned(), None);
                    continue;
                }
                bans += 1;
                *record = Record { ban_ends: now + BAN, ..Record::default() };
                let Err(PenaltyDenied::Banned(ban)) = answer else {
                    panic!("{answer:?}, not banned")
                };
                assert!(ban.begins());
                assert_eq!(ban.ends_in(), Duration::from_nanos(BAN));
            }
        }
    }
    let stats = gate.stats_at(Tick::from_nanos(now));
    assert_eq!((stats.bans, stats.denied_banned), (bans, denied_banned));
    assert_eq!(stats.banned_now, records.values().filter(|key| now < key.ban_ends).count());
    assert_eq!(stats.forgotten, 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn strikes_bans_and_pardons_agree_with_the_model(
        prolonged in any::<bool>(),
        acts in prop::collection::vec(
            (
                prop_oneof![6 => Just(0_u64), 3 => 0_u64..6, 1 => 0_u64..80],
                0_u8..3,
                prop::bool::weighted(0.02),
            ),
            1..200,
        ),
    ) {
        agrees_with_the_model(prolonged, &acts);
    }
}

/// There are 16 slots for bans. The bans that end first are evicted.
#[test]
fn in_a_full_table_the_ban_that_ends_first_is_evicted() {
    let limiter: Limiter<u32, _, _> = Limiter::builder(Quota::per_hour(1))
        .clock(ManualClock::new())
        .on_full(OnFull::EvictNearestIdle)
        .build()
        .expect("in range");
    let strikes = Quota::per_hour(1);
    let gate = Penalties::builder(limiter, strikes, Duration::from_secs(3_600));
    let gate = gate.capacity(1).build().expect("in range");
    let at = |key: u32| Tick::from_duration(Duration::from_secs(key.into()));
    for key in 0..20 {
        assert!(gate.ask(&key).cells(2).at(at(key)).check().is_err(), "more than fit");
    }
    let stats = gate.stats_at(at(20));
    assert_eq!((stats.bans, stats.banned_now, stats.forgotten), (20, 16, 4));
    for key in 0..20 {
        assert_eq!(gate.ask(&key).at(at(20)).banned().is_some(), key >= 4, "{key}");
    }
}

#[test]
fn with_failures_only_reported_failures_ban_and_denials_do_not() {
    let limiter = Limiter::builder(Quota::per_hour(4)).clock(ManualClock::new());
    let limiter: Limiter<u8, _, _> = limiter.build().expect("in range");
    let strikes = Quota::per_minute(3);
    let gate = Penalties::builder(limiter, strikes, Duration::from_secs(600)).failures_only();
    let gate = gate.build().expect("in range");
    let at = |seconds| Tick::from_duration(Duration::from_secs(seconds));
    for _ in 0..100 {
        assert!(matches!(gate.ask(&1).cells(5).at(at(0)).check(), Err(PenaltyDenied::Limited(_))));
    }
    // Two failures, which are forgotten after a minute.
    assert_eq!([gate.ask(&1).at(at(0)).strike(), gate.ask(&1).at(at(30)).strike()], [None; 2]);
    assert_eq!([gate.ask(&1).at(at(60)).strike(), gate.ask(&1).at(at(61)).strike()], [None; 2]);
    assert!(gate.ask(&1).at(at(61)).check().is_ok());
    let ban = gate.ask(&1).at(at(62)).strike().expect("the third in a minute");
    assert_eq!((ban.begins(), ban.ends_in()), (true, Duration::from_secs(600)));
    assert!(matches!(gate.ask(&1).at(at(63)).check(), Err(PenaltyDenied::Banned(_))));
    assert!(gate.ask(&2).at(at(63)).check().is_ok());
    // Failures of concurrent requests do not prolong the ban.
    let late = gate.ask(&1).at(at(70)).strike().expect("banned");
    assert_eq!((late.begins(), late.ends_in()), (false, Duration::from_secs(592)));
    assert!(gate.ask(&1).at(at(661)).check().is_err());
    assert!(gate.ask(&1).at(at(662)).check().is_ok());
    let stats = gate.stats_at(at(662));
    assert_eq!((stats.bans, stats.denied_banned, stats.banned_now), (1, 2, 0));
}

#[test]
fn concurrently_reported_failures_begin_exactly_one_ban() {
    let limiter: Limiter<u8> = Limiter::builder(Quota::per_hour(9)).build().expect("in range");
    let strikes = Quota::per_hour(5);
    let gate = Penalties::builder(limiter, strikes, Duration::from_secs(3_600));
    let gate = gate.build().expect("in range");
    for key in 0..50 {
        let begun: usize = std::thread::scope(|scope| {
            let reports = (0..2).map(|_| {
                scope.spawn(|| {
                    let bans = (0..4).filter_map(|_| gate.strike(&key));
                    bans.filter(|ban| ban.begins()).count()
                })
            });
            let reports: Vec<_> = reports.collect();
            reports.into_iter().map(|report| report.join().expect("no panic")).sum()
        });
        assert_eq!(begun, 1, "key {key}");
        assert!(gate.banned(&key).is_some());
    }
    assert_eq!(gate.stats().bans, 50);
}

#[test]
fn an_error_of_building_penalties_says_whether_it_is_of_the_strikes_or_of_the_ban() {
    let error = |strikes, ban_days: u64| {
        let limiter = Limiter::<u64>::builder(Quota::per_second(10)).build().expect("in range");
        let ban = Duration::from_secs(ban_days * 24 * 3_600);
        Penalties::builder(limiter, strikes, ban).build().expect_err("out of range").to_string()
    };
    assert!(error(Quota::per_hour(0), 1).starts_with("strikes: the limit is 0"));
    let too_long = error(Quota::per_hour(3), 400);
    assert_eq!(too_long, "the ban lasts 34560000s: let it last between 1 ns and 366 days");
    assert!(error(Quota::per_hour(3), 0).starts_with("the ban lasts 0ns"));
}

#[test]
fn an_error_of_the_clock_skew_says_whether_the_strikes_or_the_ban_bound_it() {
    let error = |strikes, ban| {
        let limiter = Limiter::<u64>::builder(Quota::per_second(1));
        let limiter = limiter.max_clock_skew(Duration::from_secs(3_600)).build().expect("in range");
        Penalties::builder(limiter, strikes, ban).build().expect_err("too much")
    };
    let (second, micro) = (Duration::from_secs(1), Duration::from_micros(1));
    let strikes = error(Quota::new(1_000, micro), second);
    let ban = error(Quota::new(5, second), Duration::from_nanos(1));
    assert!(matches!(strikes, BuildError::StrikesSkewTooLarge { .. }), "{strikes:?}");
    assert!(strikes.to_string().contains("the strikes"), "{strikes}");
    assert!(matches!(ban, BuildError::BanSkewTooLarge { .. }), "{ban:?}");
    assert!(ban.to_string().contains("the ban"), "{ban}");
}
