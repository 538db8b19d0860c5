//! Logs whose cells the server moves back, because its clock was set back by more than their window.

use std::time::Duration;

use tollgate::Quota;
use tollgate::internals::oracle::Verdict;
use tollgate_redis::{Algorithm, RedisLimiter};

use crate::exact::{BEGINNING_MICROS, Model, equals};
use crate::harness::{Server, block_on};

/// A log that forgets no cell. It moves its cells back as the server does, in the same floating-point numbers.
struct MovingLog {
    /// Limit, and window in microseconds.
    rates: Vec<(u64, u64)>,
    count_denials: bool,
    /// When the cells were spent, in ascending order.
    scores: Vec<f64>,
}

/// A score in whole microseconds, rounded up.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is below 2^53")]
fn whole(score: f64) -> u64 {
    score.ceil() as u64
}

impl MovingLog {
    fn new(algorithm: &Algorithm, quota: Quota) -> Self {
        let Algorithm::SlidingLog { more, count_denials } = algorithm else {
            unreachable!("{algorithm:?} is no log")
        };
        let micros = |rate: &Quota| u64::try_from(rate.period().as_micros()).expect("in range");
        let rates = [quota].iter().chain(more).map(|rate| (rate.limit(), micros(rate))).collect();
        Self { rates, count_denials: *count_denials, scores: Vec::new() }
    }

    fn window_max(&self) -> u64 {
        self.rates.iter().map(|(_, window)| *window).max().expect("one at least")
    }

    fn last(&self) -> Option<u64> {
        self.scores.last().copied().map(whole)
    }

    fn inside(&self, (_, window): (u64, u64), now: u64) -> u64 {
        let begins = now.saturating_sub(window) as f64;
        self.scores.iter().filter(|score| **score > begins).count() as u64
    }

    /// How long until so many cells have left that `n` fit.
    fn wait(&self, n: u64, now: u64) -> Duration {
        let wait = |(limit, window): &(u64, u64)| {
            let back = usize::try_from(limit - n).expect("in range");
            let leaving = self.scores.iter().rev().nth(back);
            leaving.map_or(0, |score| (whole(*score) + window).saturating_sub(now))
        };
        Duration::from_micros(self.rates.iter().map(wait).max().expect("one at least"))
    }
}

impl Model for MovingLog {
    fn moves_at(&self, now_micros: u64) -> bool {
        self.last().is_some_and(|last| last.saturating_sub(now_micros) > self.window_max())
    }

    fn decide(&mut self, now_micros: u64, n: u64) -> Verdict {
        let (mut now, limit) = (now_micros, self.limit());
        let is_possible = n <= limit;
        if let (Some(last), true) = (self.last(), self.moves_at(now)) {
            if is_possible {
                let scale = now as f64 / last as f64;
                self.scores.iter_mut().for_each(|score| *score *= scale);
            } else {
                now = last;
            }
        }
        let at = self.last().map_or(now, |last| last.max(now));
        let fits = |rate: &(u64, u64)| n == 0 || self.inside(*rate, now) + n <= rate.0;
        let admitted = is_possible && self.rates.iter().all(fits);
        let room = |rate: &(u64, u64)| rate.0.saturating_sub(self.inside(*rate, now));
        let mut remaining = self.rates.iter().map(room).min().expect("one at least");
        if is_possible && n > 0 && (admitted || self.count_denials) {
            remaining = remaining.saturating_sub(n);
            self.scores.extend((0..n).map(|_| at as f64));
        }
        let idle_at = self.last().map_or(0, |last| last + self.window_max());
        Verdict {
            admitted,
            remaining,
            reset_after: Duration::from_micros(idle_at.saturating_sub(now)),
            retry_after: match admitted {
                true => Some(Duration::ZERO),
                false => is_possible.then(|| self.wait(n, now)),
            },
            delay: Duration::ZERO,
        }
    }

    fn limit(&self) -> u64 {
        self.rates.iter().map(|(limit, _)| *limit).min().expect("one at least")
    }
}

/// Granted: no more than the limit in a window, however often the server's clock is set back by more than one.
#[test]
fn a_log_counts_every_cell_after_its_clock_went_back() {
    let log = Algorithm::sliding_log;
    let burst = Quota::new(4, Duration::from_secs(3));
    for algorithm in [log(), log().and(burst), log().counting_denials()] {
        let quota = Quota::per_minute(12);
        equals(&algorithm, quota, 1, &|| Box::new(MovingLog::new(&algorithm, quota)));
    }
}

fn five_a_minute(server: &Server, name: &str) -> RedisLimiter {
    let store = server.store().build().expect("a store");
    let gate = RedisLimiter::builder(&store, name, Quota::per_minute(5));
    gate.algorithm(Algorithm::sliding_log()).build().expect("a limiter")
}

/// The clock is two hours ahead for one cell, then right, then a second behind. Granted: five a minute.
#[test]
fn a_log_is_full_after_its_clock_went_back_twice() {
    let Some(server) = Server::start() else { return };
    let gate = five_a_minute(&server, "twice");
    let admits = |at| block_on(gate.at_micros(at).check("k")).expect("an answer").is_ok();
    let (hour, second) = (3_600_000_000, 1_000_000);
    assert!(admits(BEGINNING_MICROS + 2 * hour) && admits(BEGINNING_MICROS));
    let more = (0..13).filter(|_| admits(BEGINNING_MICROS - second)).count();
    assert_eq!(more, 3, "two cells were spent before");
}

/// The server lost its clock and begins in 1970, where the product of a time and a quotient of times may be
/// rounded up. Granted: five a minute.
#[test]
fn a_log_counts_the_cells_that_it_moved_back_to_1970() {
    let Some(server) = Server::start() else { return };
    let gate = five_a_minute(&server, "lost");
    for uptime_micros in (848_886_251_u64..).step_by(7_919).take(50) {
        let key = uptime_micros.to_be_bytes();
        let admits = |at| block_on(gate.at_micros(at).check(key)).expect("an answer").is_ok();
        assert!(admits(BEGINNING_MICROS));
        let more = (0..10).filter(|_| admits(uptime_micros)).count();
        assert_eq!(more, 4, "at {uptime_micros}: one cell was spent before");
    }
}

/// The expiry in milliseconds of a log of 40 a day, full since a while, that another process moves back. This one
/// counts 5 in two seconds.
fn expiry_of_a_moved_log(
    moves_back: impl Fn(&RedisLimiter, &RedisLimiter, &mut redis::Connection),
) -> Option<u64> {
    let server = Server::start()?;
    let store = server.store().build().expect("a store");
    let gate = |quota| {
        let gate = RedisLimiter::builder(&store, "two", quota).algorithm(Algorithm::sliding_log());
        gate.build().expect("a limiter")
    };
    let mut admin = server.admin();
    let (daily, burst) = (gate(Quota::per_day(40)), gate(Quota::new(5, Duration::from_secs(2))));
    moves_back(&daily, &burst, &mut admin);
    Some(redis::cmd("PTTL").arg(daily.redis_key("k")).query(&mut admin).expect("a number"))
}

const DAY_MILLIS: u64 = 24 * 3_600_000;

/// The clock is a year ahead for 40 cells, and then right. Granted: 40 a day.
#[test]
fn a_log_that_a_shorter_window_moves_back_expires_by_the_longer_one() {
    let admits = |gate: &RedisLimiter, at, n| {
        block_on(gate.at_micros(at).check_n("k", n)).expect("an answer").is_ok()
    };
    let expiry = expiry_of_a_moved_log(|daily, burst, _| {
        assert!(admits(daily, BEGINNING_MICROS + 31_536_000_000_000, 40));
        assert!(!admits(burst, BEGINNING_MICROS, 1), "all cells are of its latest moment");
    });
    assert!(expiry.is_none_or(|millis| millis > DAY_MILLIS), "{expiry:?}");
}

/// The server's clock is set back by an hour: its scores and its expiry are then an hour ahead.
#[test]
fn the_expiry_of_a_log_moves_back_with_its_cells() {
    const HOUR_MICROS: f64 = 3_600_000_000.0;
    let admits =
        |gate: &RedisLimiter, n| block_on(gate.check_n("k", n)).expect("an answer").is_ok();
    let expiry = expiry_of_a_moved_log(|daily, burst, admin| {
        assert!(admits(daily, 40));
        let key = daily.redis_key("k");
        let weight = 1.0 + HOUR_MICROS / BEGINNING_MICROS as f64;
        let mut ahead = redis::cmd("ZUNIONSTORE");
        let ahead = ahead.arg(&key).arg(1).arg(&key).arg("WEIGHTS").arg(weight);
        assert_eq!(ahead.query::<u64>(admin), Ok(40));
        let expiry = DAY_MILLIS + 3_600_000;
        assert_eq!(redis::cmd("PEXPIRE").arg(&key).arg(expiry).query::<bool>(admin), Ok(true));
        assert!(!admits(burst, 1), "all cells are of its latest moment");
    });
    let minute = 60_000;
    let a_day = DAY_MILLIS - minute..=DAY_MILLIS + minute;
    assert!(expiry.is_none_or(|millis| a_day.contains(&millis)), "{expiry:?}");
}
