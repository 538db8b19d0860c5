//! Every decision equals that of the core's oracle, for any sequence of requests by any clock.
//!
//! The oracles count in units of their algorithm, the server in microseconds. They are compared at
//! instants that both can represent, and the oracle's nanoseconds are rounded up. A rate whose
//! cells are not a whole number of microseconds has a model of its own, in fractions.
//!
//! If the clock is behind, an oracle waits for it, however long. The server waits only as long as
//! an unbroken clock could have made a key wait ([`Behind`]). Beyond that, the test advances the
//! oracle's clock as if the time between had not passed. `moving_log` compares logs beyond that.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::algorithm::Algorithm as _;
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::{AnyOracle, Oracle, Verdict};
use tollgate::{Quota, Tick};
use tollgate_redis::{Algorithm, RedisLimiter, Store};

use crate::harness::{Server, block_on};

/// A moment in 2026, as a server's clock shows it.
pub(crate) const BEGINNING_MICROS: u64 = 1_780_000_000_000_000;
const CASES: u32 = 24;
const STEPS: usize = 40;

fn rounded_up(span: Duration) -> Duration {
    Duration::from_micros(u64::try_from(span.as_nanos().div_ceil(1_000)).expect("in range"))
}

fn in_micros(verdict: Verdict) -> Verdict {
    Verdict {
        reset_after: rounded_up(verdict.reset_after),
        retry_after: verdict.retry_after.map(rounded_up),
        ..verdict
    }
}

/// Microseconds between instants that the oracle's units can represent.
fn step_micros(algorithm: &Algorithm, quota: &Quota) -> u64 {
    let (units, nanos) = match algorithm {
        // These work in whole windows, and represent any instant within one exactly.
        Algorithm::FixedWindow { utc_offset_secs: Some(_) } | Algorithm::SlidingCounter { .. } => {
            return 1;
        }
        _ => algorithm.algorithm().params(quota, 0).expect("in range").grid().ratio(),
    };
    let (mut a, mut b) = (nanos, units * 1_000);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    nanos / a
}

/// A span that means "as long as the last denial said to wait", and one microsecond less.
const WAIT: i64 = i64::MAX;
const WAIT_LESS: i64 = i64::MAX - 1;

/// Spans between requests, forward and backward, and their cells.
fn requests(period: u64, limit: u64) -> impl Strategy<Value = Vec<(i64, u64)>> {
    let period = i64::try_from(period).expect("in range");
    let span = prop_oneof![
        3 => Just(0),
        3 => Just(WAIT),
        2 => Just(WAIT_LESS),
        6 => 0..period / 8 + 2,
        4 => 0..2 * period,
        1 => Just(period),
        1 => 0..20 * period,
        2 => -period..0,
        1 => -5 * period..0,
    ];
    let cells = prop_oneof![
        6 => Just(1),
        1 => Just(0),
        4 => 1..limit / 2 + 2,
        2 => 1..limit + 3,
        1 => Just(limit),
        1 => Just(u64::MAX),
    ];
    prop::collection::vec((span, cells), 1..STEPS)
}

/// Runs each sequence against the server and the model, on a key of its own.
pub(crate) fn equals(
    algorithm: &Algorithm,
    quota: Quota,
    step: u64,
    model: &dyn Fn() -> Box<dyn Model>,
) {
    let Some(server) = Server::start() else { return };
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: CASES,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let store: Store = server.store().build().expect("a store");
    let gate = RedisLimiter::builder(&store, "exact", quota).algorithm(algorithm.clone()).build();
    let gate = gate.expect("a limiter");
    let keys = std::cell::Cell::new(0_u64);
    let period = u64::try_from(quota.period().as_micros()).expect("in range");
    let limit = quota.limit().max(quota.burst_cells());
    let outcome = runner.run(&requests(period.max(100), limit), |requests| {
        keys.set(keys.get() + 1);
        let key = keys.get().to_be_bytes();
        let mut model = model();
        let mut now = BEGINNING_MICROS / step * step;
        let mut wait = 0_u64;
        for (span, n) in requests {
            now = match span {
                // The wait is over by the first instant that the oracle can represent.
                WAIT => now + wait.div_ceil(step) * step,
                WAIT_LESS => (now + wait.saturating_sub(1)) / step * step,
                span => now.saturating_add_signed(span) / step * step,
            };
            if !model.is_exact_at(now) {
                break;
            }
            let moves = model.moves_at(now);
            let expected = in_micros(model.decide(now, n));
            let gate = gate.at_micros(now);
            let decision = block_on(gate.peek_n(key, n)).expect("an answer");
            if !counts_denials(algorithm) && !moves {
                prop_assert_eq!(Verdict::from(&decision), expected, "peek {} at {}", n, now);
            }
            let decision = block_on(gate.check_n(key, n)).expect("an answer");
            prop_assert_eq!(Verdict::from(&decision), expected, "{} at {}", n, now);
            let retry_after = expected.retry_after.unwrap_or_default();
            wait = u64::try_from(retry_after.as_micros()).expect("in range");
            let parts = decision.map_or_else(|denied| denied.limit(), |permit| permit.limit());
            prop_assert_eq!(parts, model.limit());
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{algorithm:?} {quota}: {error}"));
    assert!(keys.get() >= u64::from(CASES));
}

fn counts_denials(algorithm: &Algorithm) -> bool {
    matches!(algorithm, Algorithm::SlidingLog { count_denials: true, .. })
}

pub(crate) trait Model {
    /// Whether the server must decide as the model does, to the microsecond.
    fn is_exact_at(&self, _now_micros: u64) -> bool {
        true
    }

    /// Whether a charge moves what was charged before, so that a peek has another answer.
    fn moves_at(&self, _now_micros: u64) -> bool {
        false
    }

    fn decide(&mut self, now_micros: u64, n: u64) -> Verdict;
    fn limit(&self) -> u64;
}

struct OfTheCore {
    oracle: AnyOracle,
    limit: u64,
    behind: Behind,
    /// The oracle's clock minus the server's, in microseconds.
    ahead: u64,
    /// When the key is idle by the oracle's clock, in microseconds.
    idle_at: u64,
    /// The latest sub-window of a counter that was charged.
    latest: u64,
}

/// How far a clock may be behind the charges of a key before the server moves the charges.
#[derive(Clone, Copy)]
enum Behind {
    /// Until the key would be in debt, or its window open, for longer than this.
    Span(u64),
    /// Aligned windows: until a whole window of this length lies between.
    Windows(u64),
    /// A counter: until a period lies between. Its period, its sub-windows in a period, and the
    /// time zone.
    SubWindows(u64, u64, u64),
    /// A log: until its longest window lies between. Decisions after that are not exact.
    Log(u64),
}

impl Behind {
    fn of(algorithm: &Algorithm, quota: &Quota) -> Self {
        let micros = |quota: &Quota| u64::try_from(quota.period().as_micros()).expect("in range");
        let period = micros(quota);
        match algorithm {
            Algorithm::Gcra => Self::Span(quota.burst_cells() * period / quota.limit()),
            Algorithm::FixedWindow { utc_offset_secs: None } => Self::Span(period),
            Algorithm::FixedWindow { .. } => Self::Windows(period),
            Algorithm::SlidingCounter { older, utc_offset_secs } => {
                let zone = u64::try_from(*utc_offset_secs).expect("east of Greenwich") * 1_000_000;
                Self::SubWindows(period, u64::from(*older), zone)
            }
            Algorithm::SlidingLog { more, .. } => {
                Self::Log(more.iter().map(micros).fold(period, u64::max))
            }
            other => unreachable!("{other:?} is not compared"),
        }
    }
}

impl OfTheCore {
    fn sub_window(&self, at: u64) -> u64 {
        let Behind::SubWindows(period, older, zone) = self.behind else { return 0 };
        let index = u128::from(at + zone) * u128::from(older) / u128::from(period);
        u64::try_from(index).expect("in range")
    }

    /// How far the server moves its charges back at this instant of the oracle's clock.
    fn moved_by(&self, at: u64) -> u64 {
        let left = self.idle_at.saturating_sub(at);
        match self.behind {
            Behind::Span(natural) => left.saturating_sub(natural),
            Behind::Windows(period) => match left.div_ceil(period).saturating_sub(1) {
                0 | 1 => 0,
                windows => windows * period,
            },
            Behind::SubWindows(period, older, _) => {
                match self.latest.saturating_sub(self.sub_window(at)) {
                    behind if behind > older => behind / older * period,
                    _ => 0,
                }
            }
            Behind::Log(_) => 0,
        }
    }
}

impl Model for OfTheCore {
    fn is_exact_at(&self, now_micros: u64) -> bool {
        match self.behind {
            Behind::Log(window) => self.idle_at.saturating_sub(now_micros) <= 2 * window,
            _ => true,
        }
    }

    fn decide(&mut self, now_micros: u64, n: u64) -> Verdict {
        let at = now_micros + self.ahead;
        let moved = self.moved_by(at);
        let verdict = self.oracle.decide(Tick::from_nanos((at + moved) * 1_000), n);
        let at = at + moved;
        if !verdict.reset_after.is_zero() {
            let left = rounded_up(verdict.reset_after).as_micros();
            self.idle_at = at + u64::try_from(left).expect("in range");
        }
        if verdict.admitted && n > 0 {
            self.latest = self.latest.max(self.sub_window(at));
        }
        // A request that can never be granted charges nothing and moves nothing.
        self.ahead += if n <= self.limit { moved } else { 0 };
        verdict
    }

    fn limit(&self) -> u64 {
        self.limit
    }
}

fn equals_the_oracle(algorithm: &Algorithm, quota: &str) {
    let quota: Quota = quota.parse().expect("a quota");
    let params = algorithm.algorithm().params(&quota, 0).expect("in range");
    let step = step_micros(algorithm, &quota);
    let limit = match algorithm {
        Algorithm::Gcra => quota.burst_cells(),
        Algorithm::SlidingLog { more, .. } => {
            more.iter().map(Quota::limit).fold(quota.limit(), u64::min)
        }
        _ => quota.limit(),
    };
    let behind = Behind::of(algorithm, &quota);
    equals(algorithm, quota, step, &|| {
        let oracle = params.oracle();
        Box::new(OfTheCore { oracle, limit, behind, ahead: 0, idle_at: 0, latest: 0 })
    });
}

/// A bucket in fractions: when it will have drained, in parts of a microsecond of which there are
/// 1,000 times the limit.
struct Drained {
    quota: Quota,
    at: u128,
}

impl Model for Drained {
    fn decide(&mut self, now_micros: u64, n: u64) -> Verdict {
        let parts = u128::from(self.quota.limit()) * 1_000;
        let cell = self.quota.period().as_nanos();
        let capacity = u128::from(self.quota.burst_cells()) * cell;
        let now = u128::from(now_micros) * parts;
        let cost = u128::from(n) * cell;
        // If the clock is behind, the debt is the burst at most.
        let debt = self.at.saturating_sub(now).min(capacity);
        let admitted = n == 0 || debt + cost <= capacity;
        if cost <= capacity {
            self.at = self.at.min(now + capacity);
        }
        if admitted && n > 0 {
            self.at = now + debt + cost;
        }
        let after = self.at.saturating_sub(now).min(capacity);
        let span = |parts_of: u128| {
            let nanos = (parts_of * 1_000).div_ceil(parts);
            Duration::from_nanos(u64::try_from(nanos).expect("in range"))
        };
        Verdict {
            admitted,
            remaining: u64::try_from(capacity.saturating_sub(after) / cell).expect("the burst"),
            reset_after: span(after),
            retry_after: match admitted {
                true => Some(Duration::ZERO),
                false if cost > capacity => None,
                false => Some(span(debt + cost - capacity)),
            },
            delay: Duration::ZERO,
        }
    }

    fn limit(&self) -> u64 {
        self.quota.burst_cells()
    }
}

/// Granted: what the oracle grants, cell by cell.
#[test]
fn token_buckets_equal_the_oracle() {
    for quota in ["100/s", "10/s burst 3", "1000/s burst 7", "60/min burst 1", "24/day burst 100"] {
        equals_the_oracle(&Algorithm::Gcra, quota);
    }
}

/// Granted: what exact fractions grant, also if a cell is not a whole number of microseconds, and
/// if the fractions need most of 2^53.
#[test]
fn odd_rates_are_not_rounded() {
    for quota in ["3/s", "7/min burst 20", "1000000000/s burst 1000", "999999937/day burst 9999999"]
    {
        let quota: Quota = quota.parse().expect("a quota");
        equals(&Algorithm::Gcra, quota, 1, &|| Box::new(Drained { quota, at: 0 }));
    }
}

/// Granted: what the oracle grants, cell by cell.
#[test]
fn fixed_windows_equal_the_oracle() {
    for quota in ["5/s", "20/min", "1000/15m"] {
        equals_the_oracle(&Algorithm::fixed_window(), quota);
    }
    for offset in [0, 5 * 3_600 + 1_800, -7 * 3_600] {
        for quota in ["5/s", "20/day", "3/week"] {
            equals_the_oracle(&Algorithm::FixedWindow { utc_offset_secs: Some(offset) }, quota);
        }
    }
}

/// Granted: what the oracle grants, cell by cell, also if a weight times a count is beyond 2^53.
#[test]
fn sliding_counters_equal_the_oracle() {
    for (older, quota) in
        [(1, "7/min"), (1, "10/s"), (10, "30/min"), (3, "11/s"), (256, "500/h"), (1, "1000000/day")]
    {
        let algorithm = Algorithm::SlidingCounter { older, utc_offset_secs: 3_600 };
        equals_the_oracle(&algorithm, quota);
    }
}

/// The weighing function is exact even if the product is beyond 2^53. It is tested alone, because a
/// quota for which one rounding matters is hard to find.
#[test]
fn the_weighing_function_is_exact_beyond_53_bits() {
    let Some(server) = Server::start() else { return };
    let admin = std::cell::RefCell::new(server.admin());
    let script = include_str!("../../src/lua/counter.lua");
    let begins = script.find("local function share").expect("the function");
    let ends = begins + script[begins..].find("\nend\n").expect("its end") + 5;
    let div = "local LARGEST = 9007199254740991
        local function div(a, b) return (a - math.fmod(a, b)) / b end\n";
    let call = "return string.format('%.0f', share(unpack(ARGV)))";
    let numbers = "for at = 1, 3 do ARGV[at] = tonumber(ARGV[at]) end\n";
    let script = [div, &script[begins..ends], numbers, call].concat();
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 3_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let triples = (0..1_u64 << 40, 1..1_u64 << 51, any::<prop::sample::Index>(), any::<bool>());
    let outcome = runner.run(&triples, |(a, c, part, is_whole)| {
        // If the quotient is whole, a product that was rounded down gives one too few.
        let (a, b, c) = match is_whole {
            true => (a / 7 * 7, c.div_ceil(7) * 6, c.div_ceil(7) * 7),
            false => (a, part.index(usize::try_from(c).expect("64 bits")) as u64, c),
        };
        let mut eval = redis::cmd("EVAL");
        eval.arg(&script).arg(0).arg(a).arg(b).arg(c);
        let share: String = eval.query(&mut *admin.borrow_mut()).expect("a number");
        let expected = u128::from(a) * u128::from(b) / u128::from(c);
        prop_assert_eq!(share, expected.to_string(), "{} * {} / {}", a, b, c);
        Ok(())
    });
    outcome.expect("exact");
}

/// Granted: what the oracle grants, cell by cell.
#[test]
fn sliding_logs_equal_the_oracle() {
    let log = Algorithm::sliding_log;
    let burst = Quota::new(4, Duration::from_secs(3));
    for algorithm in [
        log(),
        log().and(burst),
        log().min_gap(Duration::from_millis(250)),
        log().counting_denials(),
        log().and(burst).and(Quota::per_hour(50)).counting_denials(),
    ] {
        equals_the_oracle(&algorithm, "12/min");
    }
    equals_the_oracle(&log(), "700/min");
}

/// Granted: no more than the limit. A request that adds a thousand members is still one decision.
#[test]
fn a_log_is_used_up_by_the_largest_calls() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let (limit, call) = (Algorithm::MAX_LOG_LIMIT, Algorithm::MAX_LOG_CELLS_PER_CALL);
    let gate = RedisLimiter::builder(&store, "log", Quota::per_hour(limit));
    let gate = gate.algorithm(Algorithm::sliding_log()).build().expect("a limiter");
    block_on(async {
        let denied = gate.check_n("k", call + 1).await.expect("an answer").expect_err("too many");
        assert_eq!((denied.limit(), denied.retry_after()), (limit, None), "never at once");
        for calls in 1..limit / call {
            let permit = gate.check_n("k", call).await.expect("an answer").expect("there is room");
            assert_eq!((permit.limit(), permit.remaining()), (limit, limit - calls * call));
        }
        assert!(gate.check_n("k", call - 1).await.expect("an answer").is_ok());
        assert!(gate.check_n("k", 2).await.expect("an answer").is_err());
        assert!(gate.check("k").await.expect("an answer").is_ok());
        assert!(gate.check("k").await.expect("an answer").is_err());
    });
}

/// No call contains the client's time: the time argument is empty, and no other number is large
/// enough to be a time. A client's clock therefore does not matter. Granted: one burst.
#[test]
fn the_time_is_the_servers() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let mut monitor = TcpStream::connect(("127.0.0.1", server.port())).expect("it runs");
    monitor.write_all(b"MONITOR\r\n").expect("it listens");
    let mut lines = BufReader::new(monitor).lines().map(|line| line.expect("a line"));
    assert_eq!(lines.next().as_deref(), Some("+OK"));
    for algorithm in Algorithm::NAMES {
        let gate = RedisLimiter::builder(&store, *algorithm, Quota::per_hour(5));
        let gate = gate.algorithm(algorithm.parse().expect("a name")).build().expect("a limiter");
        for admitted in [true, true, true, true, true, false] {
            assert_eq!(block_on(gate.check("k")).expect("an answer").is_ok(), admitted);
        }
        let calls = lines.by_ref().filter(|line| line.contains("\"EVALSHA\""));
        for call in calls.take(6) {
            // "EVALSHA" "hash" "1" "key" "time" "min" "max" "charge" ...
            let words: Vec<&str> = call.split('"').skip(1).step_by(2).collect();
            assert_eq!(words[4], "", "{call}");
            let numbers = words[5..].iter().map(|word| word.parse::<u64>().expect("a number"));
            // Seconds since 1970 are larger, and finer times larger still.
            assert!(numbers.max() < Some(1_000_000_000 * 4), "{call}");
        }
    }
}

/// Granted: one burst, restored by the server's clock.
#[test]
fn a_state_is_in_the_servers_time() {
    let Some(server) = Server::start() else { return };
    let mut admin = server.admin();
    let store = server.store().build().expect("a store");
    let gate =
        RedisLimiter::builder(&store, "clock", Quota::per_hour(5)).build().expect("a limiter");
    for _ in 0..5 {
        assert!(block_on(gate.check("k")).expect("an answer").is_ok());
    }
    let state: String = redis::cmd("GET").arg(gate.redis_key("k")).query(&mut admin).expect("it");
    let mut numbers = state.split([' ', '+']).map(|text| text.parse::<u64>().expect("a number"));
    let (at, debt) = (numbers.next().expect("a time"), numbers.next().expect("a debt"));
    let (secs, _): (u64, u64) = redis::cmd("TIME").query(&mut admin).expect("a time");
    assert!((0..=10).contains(&(secs - at / 1_000_000)), "by the server's clock: {at}");
    let debt_secs = debt / 1_000_000;
    assert!((3_590..=3_600).contains(&debt_secs), "by the server's clock: {debt_secs}");
}
