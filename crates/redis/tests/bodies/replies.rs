//! A server's replies, from their bytes on: an invalid reply is an error, and a valid one means
//! what the script says it means.

use std::cell::Cell;
use std::time::Duration;

use tollgate::Quota;
use tollgate_redis::{Algorithm, RedisLimiter, RedisLimiterError, Store, Unavailable, reply};

use super::meaning::{Means, longest, of_reply};

const SECOND: Duration = Duration::from_secs(1);
/// Limit, period, and burst (0: none).
const QUOTAS: [(u64, Duration, u64); 8] = [
    (90, SECOND, 0),
    (1, SECOND, 1),
    (7, SECOND, 50),
    (3, Duration::from_secs(366 * 86_400), 0),
    (1_000_003, SECOND, 7),
    (1_000_000_000, SECOND, 100),
    (1_000, Duration::from_secs(3_600), 1 << 32),
    (1_000_000, Duration::from_secs(86_400), 0),
];
/// The largest lease, in cells, that takes more than it needs.
const TAKEN_MAX: u64 = 1 << 20;

/// Reads bytes. When they are used up, further bytes are zeros.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn wide(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A number that scripts return, or that none returns.
    fn number(&mut self) -> i64 {
        match self.byte() {
            small @ 0..=99 => i64::from(small) - 1,
            100..=149 => i64::from(self.byte()) * 1_000,
            150..=199 => i64::from_ne_bytes((self.wide() >> 20).to_ne_bytes()),
            200..=209 => i64::MAX - i64::from(self.byte()),
            210..=219 => i64::MIN + i64::from(self.byte()),
            _ => i64::from_ne_bytes(self.wide().to_ne_bytes()),
        }
    }

    fn cells(&mut self) -> u64 {
        match self.byte() {
            small @ 0..=199 => small.into(),
            200..=229 => u64::from(self.byte()) << (self.byte() % 56),
            _ => self.wide(),
        }
    }
}

/// The body: bytes of the protocol as they are, or numbers encoded in it.
pub(crate) fn replies(data: &[u8]) {
    let mut cursor = Cursor(data);
    let (how, shape) = (cursor.byte(), cursor.byte());
    let (min, max) = (cursor.cells(), cursor.cells());
    let numbers = match how % 4 {
        0 => read(cursor.0),
        kind => {
            let count = usize::from(cursor.byte() % 8 + if kind == 1 { 0 } else { 3 });
            let numbers: Vec<i64> = (0..count).map(|_| cursor.number()).collect();
            assert_eq!(reply::numbers(&written(&numbers)).as_ref(), Some(&numbers));
            Some(numbers)
        }
    };
    let Some(numbers) = numbers else { return };
    counts_are_decoded(&numbers);
    let (algorithm, quota) = (algorithm(shape), quota(shape));
    let lease = (shape & 1 > 0).then_some(Duration::from_millis(50));
    let Ok(gate) = redis_limiter(&algorithm, quota, lease) else { return };
    let asked = Means::new(&algorithm, quota, lease);
    let heard = if PLANTED.get() { misheard(&numbers) } else { numbers.clone() };
    let answer = Answer { gate, asked, lease: lease.unwrap_or_default(), numbers, heard };
    answer.decides(min);
    answer.takes(min, max);
}

thread_local! {
    static PLANTED: Cell<bool> = const { Cell::new(false) };
}

/// Plants a mistake on this thread: one number is read as the next one.
pub(crate) fn plant(mistake: bool) {
    PLANTED.set(mistake);
}

fn misheard(numbers: &[i64]) -> Vec<i64> {
    let next = |(place, number): (usize, &i64)| number.saturating_add((place == 1).into());
    numbers.iter().enumerate().map(next).collect()
}

/// A server's reply to a limiter, and what the limiter read.
struct Answer {
    gate: RedisLimiter,
    asked: Means,
    lease: Duration,
    numbers: Vec<i64>,
    heard: Vec<i64>,
}

/// The value that the client library reads. Its numbers must be the same when they are encoded again.
fn read(bytes: &[u8]) -> Option<Vec<i64>> {
    let numbers = reply::numbers(bytes)?;
    assert_eq!(reply::numbers(&written(&numbers)).as_ref(), Some(&numbers));
    Some(numbers)
}

fn written(numbers: &[i64]) -> Vec<u8> {
    let each = numbers.iter().map(|number| format!(":{number}\r\n"));
    format!("*{}\r\n{}", numbers.len(), each.collect::<String>()).into_bytes()
}

fn algorithm(shape: u8) -> Algorithm {
    match shape >> 5 {
        0 | 1 => Algorithm::Gcra,
        2 => Algorithm::fixed_window(),
        3 => Algorithm::aligned_window(),
        4 => Algorithm::sliding_counter(),
        5 => Algorithm::SlidingCounter { older: 6, utc_offset_secs: 3_600 },
        6 => Algorithm::sliding_log(),
        _ => Algorithm::sliding_log().and(Quota::new(5, SECOND)).counting_denials(),
    }
}

fn quota(shape: u8) -> Quota {
    let (limit, period, burst) = QUOTAS[usize::from(shape >> 1) % QUOTAS.len()];
    let quota = Quota::new(limit, period);
    if burst > 0 { quota.burst(burst) } else { quota }
}

/// A limiter that never calls a server.
fn redis_limiter(
    algorithm: &Algorithm,
    quota: Quota,
    lease: Option<Duration>,
) -> Result<RedisLimiter, RedisLimiterError> {
    thread_local! {
        static STORE: Store = Store::builder("redis://127.0.0.1:1").build().expect("not asked");
    }
    let builder = STORE.with(|store| RedisLimiter::builder(store, "any", quota));
    let builder = builder.algorithm(algorithm.clone());
    lease.into_iter().fold(builder, |builder, lease| builder.leases(lease)).build()
}

impl Answer {
    fn decides(&self, n: u64) {
        let Self { gate, asked, numbers, heard, .. } = self;
        let possible = n <= asked.max_at_once();
        let wanted = if possible { n } else { 0 };
        let expected = of_reply(asked, numbers, (wanted, wanted));
        match (gate.decision_of(heard, n), expected) {
            (Err(Unavailable::Failed(why)), None) => assert!(why.contains("cannot have")),
            (Ok(Ok(permit)), Some(its)) => {
                assert_eq!(its.cells, Some(n), "granted what was asked for");
                assert!(possible && permit.remaining() <= permit.limit());
                assert_eq!(permit.limit(), asked.limit());
                assert_eq!(u128::from(permit.remaining()), its.remaining);
                assert_eq!(micros(permit.reset_after()), longest(its.reset_micros));
            }
            (Ok(Err(denied)), Some(its)) => {
                assert_eq!(denied.retry_after().is_none(), !possible, "what fits comes back");
                assert_eq!(u128::from(denied.remaining()), its.remaining);
                assert_eq!(micros(denied.reset_after()), longest(its.reset_micros));
                if let Some(wait) = denied.retry_after() {
                    assert_eq!(its.cells, None);
                    asked.is_the_wait(numbers, n, micros(wait));
                }
            }
            (answer, expected) => panic!("{answer:?} of {numbers:?}, which means {expected:?}"),
        }
    }

    fn takes(&self, min: u64, max: u64) {
        let Self { gate, asked, numbers, heard, .. } = self;
        let min = min.max(1);
        let possible = max > 0 && min <= asked.max_at_once();
        let wanted = if possible { (min, max.clamp(min, TAKEN_MAX.max(min))) } else { (0, 0) };
        let expected = of_reply(asked, numbers, wanted);
        match (gate.grant_of(heard, min, max), expected) {
            (Err(Unavailable::Failed(why)), None) => assert!(why.contains("cannot have")),
            (Ok(taken), Some(its)) => {
                assert!(taken.cells <= wanted.1, "no more than were asked for");
                assert_eq!(taken.cells, its.cells.unwrap_or(0));
                assert!(taken.cells == 0 || taken.cells >= min);
                assert!(taken.lifetime <= self.lease);
                assert_eq!(u128::from(taken.parts.remaining), its.remaining);
                assert_eq!(taken.retry_after.is_some(), possible && its.cells.is_none());
            }
            (answer, expected) => panic!("{answer:?} of {numbers:?}, which means {expected:?}"),
        }
    }
}

fn micros(span: Duration) -> u128 {
    span.as_nanos().div_ceil(1_000)
}

/// Counts of windows and of nodes must all be natural numbers, or nothing is decoded. A window may
/// also be one of three errors.
fn counts_are_decoded(numbers: &[i64]) {
    let natural = |numbers: &[i64]| numbers.iter().all(|number| *number >= 0);
    let failed = |pair: &[i64]| matches!(pair, [-3..=-1, 0]);
    for charges in [numbers.len() / 2, numbers.len()] {
        let counts = reply::window_counts(numbers, charges);
        let valid = numbers.chunks(2).all(|pair| natural(pair) || failed(pair));
        let whole = valid && numbers.len() == 2 * charges;
        assert_eq!(counts.is_some(), whole, "{numbers:?} for {charges} keys");
        for (its, pair) in counts.iter().flatten().zip(numbers.chunks(2)) {
            assert_eq!(its.is_err(), failed(pair), "{its:?} of {pair:?}");
            let Ok(its) = its else { continue };
            assert_eq!(i64::try_from(its.used), Ok(pair[0]));
            assert_eq!(
                i128::from(pair[1]),
                i128::try_from(its.ends_after.as_micros()).expect("few")
            );
        }
    }
    let heartbeat = reply::heartbeat(numbers);
    assert_eq!(heartbeat.is_some(), natural(numbers) && numbers.len() == 2);
    if let Some(heartbeat) = heartbeat {
        assert_eq!(i64::try_from(heartbeat.live), Ok(numbers[0]));
        assert_eq!(i64::try_from(heartbeat.member_for.as_micros()), Ok(numbers[1]));
    }
}
