//! A quota that changes, and processes with different quotas at the same time, as during a
//! roll-out.

use std::cell::Cell;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tollgate::Quota;
use tollgate_redis::{Algorithm, Batched, RedisLimiter, Store, Windows};

use crate::harness::{Server, block_on};
use crate::quota_model::of_counting;

/// A moment in 2026, as a server's clock shows it.
const BEGINNING_MICROS: u64 = 1_780_000_000_000_000;
const SECOND_MICROS: u64 = 1_000_000;
const YEAR_MICROS: u64 = 365 * 86_400 * SECOND_MICROS;
const YEAR: Duration = Duration::from_micros(YEAR_MICROS);

fn all_countings() -> Vec<Algorithm> {
    let mut all: Vec<_> = Algorithm::NAMES.iter().map(|name| name.parse().expect("it")).collect();
    all.push(Algorithm::SlidingCounter { older: 6, utc_offset_secs: 3_600 });
    all.push(Algorithm::sliding_log().counting_denials());
    all
}

fn gate(store: &Store, algorithm: &Algorithm, quota: Quota) -> RedisLimiter {
    let gate = RedisLimiter::builder(store, "changes", quota).algorithm(algorithm.clone());
    gate.build().expect("a limiter")
}

/// Asks at a given time. `None` if the request was admitted, otherwise how long to wait.
fn wait_of(gate: &RedisLimiter, key: &str, now: u64, n: u64) -> Option<u64> {
    let decision = block_on(gate.at_micros(now).check_n(key, n)).expect("an answer");
    let wait = decision.err()?.retry_after().expect("no more than the limit");
    Some(u64::try_from(wait.as_micros()).expect("in range"))
}

/// Granted: 10 by the old quota. By the new one 1,000 minus those, immediately, by every algorithm.
#[test]
fn a_quota_that_is_raised_admits_at_once() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    for algorithm in all_countings() {
        let before = gate(&store, &algorithm, Quota::per_hour(10));
        let after = gate(&store, &algorithm, Quota::per_second(1_000));
        let key = format!("{algorithm:?}");
        assert_eq!(wait_of(&before, &key, BEGINNING_MICROS, 10), None);
        assert!(wait_of(&before, &key, BEGINNING_MICROS, 1).is_some());
        let now = BEGINNING_MICROS + 1;
        assert_eq!(wait_of(&after, &key, now, 900), None, "{algorithm:?}");
    }
}

/// Granted: 1,000 by the old quota. By the new one, whose burst is smaller, 10 a second from then
/// on.
#[test]
fn a_rate_that_is_raised_keeps_a_key_in_debt_for_its_burst_at_most() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    for algorithm in all_countings() {
        let before = gate(&store, &algorithm, Quota::new(1_000, YEAR));
        let after = gate(&store, &algorithm, Quota::per_second(10));
        let key = format!("{algorithm:?}");
        assert_eq!(wait_of(&before, &key, BEGINNING_MICROS, 1_000), None);
        let mut now = BEGINNING_MICROS;
        if let Some(wait) = wait_of(&after, &key, now, 1) {
            // A bucket owes one cell too many. A log has 10 cells of the last moment.
            let longest = if algorithm == Algorithm::Gcra { 10 } else { 1 };
            assert!(wait <= SECOND_MICROS / longest, "{algorithm:?}: {wait} us");
            now += wait;
            assert_eq!(wait_of(&after, &key, now, 1), None, "{algorithm:?}");
        }
        assert_eq!(wait_of(&after, &key, now + 2 * SECOND_MICROS, 10), None, "{algorithm:?}");
    }
}

/// Granted: 5 by the old quota, and 5 more by the new one.
#[test]
fn a_quota_that_is_lowered_counts_what_was_used() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    for algorithm in all_countings() {
        let before = gate(&store, &algorithm, Quota::per_hour(1_000));
        let after = gate(&store, &algorithm, Quota::per_hour(10));
        for (used, left) in [(5, 5), (1_000, 0)] {
            let key = format!("{algorithm:?} {used}");
            assert_eq!(wait_of(&before, &key, BEGINNING_MICROS, used), None);
            for _ in 0..left {
                assert_eq!(wait_of(&after, &key, BEGINNING_MICROS + 1, 1), None, "{algorithm:?}");
            }
            let wait = wait_of(&after, &key, BEGINNING_MICROS + 1, 1).expect("it is used up");
            let longest = match algorithm {
                Algorithm::Gcra => 360,
                // The window in which it was used, and a tenth of the next one.
                Algorithm::SlidingCounter { .. } => 3_600 + 3_600,
                _ => 3_600,
            };
            assert!(wait <= longest * SECOND_MICROS, "{algorithm:?}, {used} used: {wait} us");
            assert_eq!(
                wait_of(&after, &key, BEGINNING_MICROS + 1 + wait, 1),
                None,
                "{algorithm:?}"
            );
        }
    }
}

/// Granted: the limit by a clock that is ahead. When the clock is right again, nothing for as long
/// as an unbroken clock could have made a key wait. Then the limit again, and no more.
#[test]
fn a_charge_by_a_clock_that_was_ahead_is_waited_for_three_periods_at_most() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let minute = 60 * SECOND_MICROS;
    for algorithm in all_countings() {
        let gate = gate(&store, &algorithm, Quota::per_minute(20));
        let counts_denials = matches!(algorithm, Algorithm::SlidingLog { count_denials: true, .. });
        for ahead in [1, minute / 2, minute, 3 * minute / 2, YEAR_MICROS] {
            let key = format!("{algorithm:?} {ahead}");
            assert_eq!(wait_of(&gate, &key, BEGINNING_MICROS + ahead, 20), None);
            let (mut now, mut denied) = (BEGINNING_MICROS, 0);
            while let Some(wait) = wait_of(&gate, &key, now, 20) {
                now += wait;
                denied += 1;
                assert!(denied <= 2, "{key} at {now}");
            }
            assert!(denied > 0, "{key} forgets the charge");
            // A denial that counts is counted at the time of the charge.
            let periods = if counts_denials { 4 } else { 3 };
            assert!(now - BEGINNING_MICROS <= periods * minute, "{key}: {now}");
            assert!(wait_of(&gate, &key, now, 20).is_some(), "{key} grants twice");
        }
    }
}

/// Counts of batches: the window ends within a period, whatever the clock showed when it began.
#[test]
fn a_batch_counted_by_a_clock_that_was_ahead_ends_within_two_periods() {
    let Some(server) = Server::start() else { return };
    let mut admin = server.admin();
    let source =
        concat!(include_str!("../../src/lua/now.lua"), include_str!("../../src/lua/batch.lua"));
    let script = redis::Script::new(source);
    let minute = 60 * SECOND_MICROS;
    for begin in ["first", "0"] {
        let mut add = |now: u64, cells: u64| -> (u64, u64) {
            let mut call = script.key(format!("ahead {begin}"));
            let call = call.arg(minute).arg(begin).arg(now).arg(cells);
            call.invoke(&mut admin).expect("an answer")
        };
        add(BEGINNING_MICROS + YEAR_MICROS, 7);
        let (used, left) = add(BEGINNING_MICROS, 1);
        assert_eq!(used, 8);
        assert!((1..=minute).contains(&left), "{left} us");
        assert_eq!(add(BEGINNING_MICROS + left - 1, 0), (8, 1));
        assert_eq!(add(BEGINNING_MICROS + left, 1).0, 1);
    }
}

/// Granted in a window: 30 by the larger limit, and no more than 10 by the smaller one.
#[test]
fn batches_of_another_limit_count_in_the_same_window() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    block_on(async {
        let windows = || Windows::first_hit(&store, "changes", Duration::from_secs(3_600));
        let batched = |limit| {
            let builder = Batched::builder(windows().expect("in range"), limit).max_unsent(1);
            builder.build().expect("in range")
        };
        let (before, raised, lowered) = (batched(20), batched(30), batched(10));
        let admitted = async |gate: &Batched<Windows>| {
            let mut admitted = 0;
            for _ in 0..40 {
                admitted += u64::from(gate.check(b"k").await.expect("it").decision.is_ok());
            }
            admitted
        };
        assert_eq!(admitted(&before).await, 20);
        // At first one cell beyond is unsent.
        assert!((10..=11).contains(&admitted(&raised).await));
        assert!(admitted(&lowered).await <= 1);
    });
}

/// A request: the index of its quota, the time since the request before, and its cells.
type Asked = (usize, u64, u64);

/// The largest burst, and the largest rate, of some quotas.
#[derive(Clone, Copy)]
struct Larger {
    burst: u64,
    limit: u64,
    period: u64,
}

impl Larger {
    fn of(quotas: &[Quota]) -> Self {
        let micros = |quota: &Quota| u64::try_from(quota.period().as_micros()).expect("in range");
        let rate = |quota: &&Quota| (u128::from(quota.limit()) << 64) / u128::from(micros(quota));
        let fastest = quotas.iter().max_by_key(rate).expect("some");
        let burst = quotas.iter().map(Quota::burst_cells).max().expect("some");
        Self { burst, limit: fastest.limit(), period: micros(fastest) }
    }
}

/// Processes with these quotas ask for one key. Every decision equals the model's, and the cells
/// granted from any request to any later one are within the bound.
fn processes_ask(
    algorithm: &Algorithm,
    quotas: impl Strategy<Value = Vec<Quota>>,
    within: impl Fn(&[Quota], u64) -> u64,
) {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let mut runner = TestRunner::new(ProptestConfig {
        cases: 40,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let gaps = prop_oneof![3 => Just(0), 3 => 0..300_000_u64, 2 => 0..3_000_000_u64, 1 => 0..20_000_000_u64];
    let asked = prop::collection::vec((0_usize..3, gaps, 0_u64..14), 1..60);
    let (keys, granted) = (Cell::new(0_u64), Cell::new(0_usize));
    let outcome = runner.run(&(quotas, asked), |(quotas, asked): (Vec<Quota>, Vec<Asked>)| {
        keys.set(keys.get() + 1);
        let key = keys.get().to_string();
        let gates: Vec<_> = quotas.iter().map(|quota| gate(&store, algorithm, *quota)).collect();
        let mut model = of_counting(algorithm);
        let (mut now, mut grants) = (BEGINNING_MICROS, Vec::new());
        for (which, gap, n) in asked {
            now += gap;
            let (which, quota) = (which % gates.len(), quotas[which % gates.len()]);
            let decision = block_on(gates[which].at_micros(now).check_n(&key, n)).expect("it");
            let (admitted, remaining) = match decision {
                Ok(permit) => (true, permit.remaining()),
                Err(denied) => (false, denied.remaining()),
            };
            let expected = model.decide(&quota, now, n);
            prop_assert_eq!((admitted, remaining), expected, "{} of {} at {}", n, quota, now);
            if admitted {
                grants.push((now, n));
            }
            granted.set(granted.get() + usize::from(admitted && n > 0));
        }
        for (first, (begin, _)) in grants.iter().enumerate() {
            let mut sum = 0;
            for (end, n) in &grants[first..] {
                sum += n;
                let bound = within(&quotas, end - begin);
                prop_assert!(sum <= bound, "{} of {} from {} to {}", sum, bound, begin, end);
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{algorithm:?}: {error}"));
    assert!(granted.get() > 200, "{}", granted.get());
}

fn any_quotas() -> impl Strategy<Value = Vec<Quota>> {
    let periods = prop_oneof![Just(1), Just(7), Just(60), Just(3_600), Just(31_536_000)];
    let quota = (1_u64..40, periods, 1_u64..30)
        .prop_map(|(limit, secs, burst)| Quota::new(limit, Duration::from_secs(secs)).burst(burst));
    prop::collection::vec(quota, 1..4)
}

fn any_limits() -> impl Strategy<Value = Vec<Quota>> {
    (1_u64..8, prop::collection::vec(1_u64..30, 1..4)).prop_map(|(secs, limits)| {
        let quota = |limit| Quota::new(limit, Duration::from_secs(secs));
        limits.into_iter().map(quota).collect()
    })
}

/// Granted in any span: the largest burst, and what comes back at the largest rate.
#[test]
fn buckets_of_different_quotas_never_grant_more_than_the_larger() {
    processes_ask(&Algorithm::Gcra, any_quotas(), |quotas, span| {
        let Larger { burst, limit, period } = Larger::of(quotas);
        burst + span * limit / period
    });
}

/// Granted in a window: the largest limit. In any span of one period: twice that.
#[test]
fn windows_of_different_limits_never_grant_more_than_the_larger() {
    for algorithm in [Algorithm::fixed_window(), Algorithm::aligned_window()] {
        processes_ask(&algorithm, any_limits(), |quotas, span| {
            let Larger { limit, period, .. } = Larger::of(quotas);
            limit * (span / period + 2)
        });
    }
}

/// Granted in any span of one period: twice the largest limit, as with one quota.
#[test]
fn counters_of_different_limits_never_grant_more_than_the_larger() {
    for older in [1, 4] {
        let algorithm = Algorithm::SlidingCounter { older, utc_offset_secs: 0 };
        processes_ask(&algorithm, any_limits(), |quotas, span| {
            let Larger { limit, period, .. } = Larger::of(quotas);
            limit * (span / period + 2)
        });
    }
}

/// Granted in any span of one period: the largest limit.
#[test]
fn logs_of_different_limits_never_grant_more_than_the_larger() {
    for algorithm in [Algorithm::sliding_log(), Algorithm::sliding_log().counting_denials()] {
        processes_ask(&algorithm, any_limits(), |quotas, span| {
            let Larger { limit, period, .. } = Larger::of(quotas);
            limit * (span / period + 1)
        });
    }
}

/// Granted: 40 in an hour to the process with the longer window, and 5 in a second to the other. A
/// short window does not make the server forget what a long one counts, nor keep more than that.
#[test]
fn a_log_with_a_shorter_window_keeps_what_a_longer_one_counts() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let algorithm = Algorithm::sliding_log();
    let hourly = gate(&store, &algorithm, Quota::per_hour(40));
    let secondly = gate(&store, &algorithm, Quota::per_second(5));
    let (mut of_hour, mut of_second) = (0, 0);
    for step in 0..200 {
        let now = BEGINNING_MICROS + step * SECOND_MICROS / 10;
        of_hour += u64::from(wait_of(&hourly, "k", now, 1).is_none());
        of_second += u64::from(wait_of(&secondly, "k", now, 1).is_none());
    }
    assert!(of_hour <= 40, "{of_hour} in an hour");
    assert!((40..=100).contains(&of_second), "{of_second} in 20 s");
    let mut count = redis::cmd("ZCARD");
    let cells: u64 = count.arg(secondly.redis_key("k")).query(&mut server.admin()).expect("a log");
    assert_eq!(cells, 40, "as many as the larger limit");
}

/// Granted: 40 in a minute to the process with the longer window. The other one charges when all cells
/// of the first have less than its own window left.
#[test]
fn a_log_with_a_shorter_window_keeps_cells_that_soon_leave_a_longer_one() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let algorithm = Algorithm::sliding_log();
    let minutely = gate(&store, &algorithm, Quota::per_minute(40));
    let secondly = gate(&store, &algorithm, Quota::new(5, Duration::from_secs(5)));
    assert_eq!(wait_of(&minutely, "k", BEGINNING_MICROS, 40), None);
    // The test sets the lifetime that the state has left after 58 seconds.
    let place = minutely.redis_key("k");
    let mut age = redis::cmd("PEXPIRE");
    let aged: bool = age.arg(place).arg(3_602_000).query(&mut server.admin()).expect("it is alive");
    assert!(aged);
    let now = BEGINNING_MICROS + 58 * SECOND_MICROS;
    assert_eq!(wait_of(&secondly, "k", now, 1), None);
    let wait = wait_of(&minutely, "k", now, 2).expect("40 cells are inside its window");
    assert_eq!(wait, 2 * SECOND_MICROS);
}
