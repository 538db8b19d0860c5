//! A composite that denies leaves every limit as it was, however long the decision takes.

use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::algorithm::Algorithm;
use tollgate::composite::Composite;
use tollgate::dynamic::DynamicGcra;
use tollgate::limiter::SlotLayout;
use tollgate::{
    AnyAlgorithm, Clock, Direct, FixedWindow, Gcra, LeakyQueue, Limiter, OnFull, Quota,
    SlidingCounter, SlidingLog, SubWindows, Tick,
};

const SECOND: u64 = 1_000_000_000;
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const KEYS: u8 = 3;

/// A clock that advances by a step whenever it is read, like a real one.
#[derive(Debug, Default)]
struct Ticking {
    nanos: AtomicU64,
    step: u64,
}

impl Ticking {
    fn by(step: u64) -> Arc<Self> {
        Arc::new(Self { nanos: AtomicU64::new(SECOND), step })
    }

    /// Reads the time without advancing it.
    fn time(&self) -> Tick {
        Tick::from_nanos(self.nanos.load(Ordering::Relaxed))
    }

    fn advance(&self, nanos: u64) {
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }
}

impl Clock for Ticking {
    fn now(&self) -> Tick {
        Tick::from_nanos(self.nanos.fetch_add(self.step, Ordering::Relaxed))
    }
}

type Clocked<K, A = Gcra> = Limiter<K, A, Arc<Ticking>>;

fn bucket(quota: Quota, clock: &Arc<Ticking>) -> Direct<Gcra, Arc<Ticking>> {
    Direct::builder(quota).clock(Arc::clone(clock)).build().expect("in range")
}

fn keyed<K: ?Sized>(quota: Quota, clock: &Arc<Ticking>) -> Clocked<K> {
    Limiter::builder(quota).clock(Arc::clone(clock)).hash_seed(1).build().expect("in range")
}

/// The cells left, and the time until the state is as if never used.
type State = (u64, Duration);

fn state<K: Hash + ?Sized, A: Algorithm, C: Clock>(
    gate: &Limiter<K, A, C>,
    key: &K,
    now: Tick,
) -> State {
    match gate.ask(key).cells(0).at(now).peek() {
        Ok(permit) => (permit.remaining(), permit.reset_after()),
        Err(denied) => (denied.remaining(), denied.reset_after()),
    }
}

fn state_of<A: Algorithm, C: Clock>(gate: &Direct<A, C>, now: Tick) -> State {
    match gate.ask().cells(0).at(now).peek() {
        Ok(permit) => (permit.remaining(), permit.reset_after()),
        Err(denied) => (denied.remaining(), denied.reset_after()),
    }
}

/// One thread asks as fast as it can for what the second limit denies, while the first one refills.
#[test]
fn denials_by_a_later_limit_cost_an_earlier_limit_no_refill() {
    let clock = Ticking::by(700);
    let first = bucket(Quota::per_second(1_000), &clock);
    let second = bucket(Quota::per_day(1), &clock);
    let both = Composite::<()>::builder().shared("first", &first).shared("second", &second);
    let both = both.build().expect("token buckets");
    assert!(second.check().is_ok());
    let start = clock.time();
    assert!(first.ask().cells(1_000).at(start).check().is_ok());
    for millis in [1, 10, 500, 999, 1_000] {
        let end = start.saturating_add(Duration::from_millis(millis));
        while clock.time() < end {
            assert!(both.check(&()).is_err());
        }
        assert_eq!(state_of(&first, end).0, millis, "after {millis} ms");
    }
}

/// One key of a tenant asks 50 times as often as it may, the others together as often as they may.
#[test]
fn a_hammering_key_costs_the_honest_keys_of_its_tenant_nothing() {
    for slots in [SlotLayout::Wide, SlotLayout::Compact] {
        let clock = Ticking::by(2_000);
        let quota = |per_second: u64, burst| Quota::per_second(per_second).burst(burst);
        let limiter = |quota| {
            let builder = Limiter::<u64>::builder(quota).clock(Arc::clone(&clock));
            builder.slots(slots).hash_seed(1).build().expect("in range")
        };
        let (tenants, keys) = (limiter(quota(1_000, 5)), limiter(quota(10, 1)));
        let both = Composite::<u64>::builder()
            .keyed("tenant", &tenants, |_| &0)
            .keyed("key", &keys, |key| key)
            .build()
            .expect("token buckets");
        let (mut admitted, mut denied) = (0, 0);
        for turn in 0..4_000 {
            // 100 honest keys make 900 requests a second. The hammering key asks all the time in
            // between.
            let next = Tick::from_nanos(SECOND + turn * SECOND / 900);
            while clock.time() < next {
                admitted += u64::from(both.check(&u64::MAX).is_ok());
            }
            denied += u64::from(both.check(&(turn % 100)).is_err());
        }
        assert_eq!(denied, 0, "of 4,000 honest requests, {slots:?}");
        assert!((44..=46).contains(&admitted), "10 a second for 4.4 seconds: {admitted}");
    }
}

#[derive(Clone, Copy, Debug)]
struct Limit {
    algorithm: AnyAlgorithm,
    quota: Quota,
    slots: SlotLayout,
}

fn limits() -> impl Strategy<Value = Vec<Limit>> {
    let refundable = prop_oneof![
        2 => Just(AnyAlgorithm::from(Gcra::new())),
        1 => Just(FixedWindow::anchored().into()),
        1 => Just(FixedWindow::aligned().into()),
    ];
    let any = prop_oneof![
        4 => refundable.clone(),
        1 => Just(LeakyQueue::new().immediate(2).into()),
        1 => Just(SubWindows::new().into()),
        1 => Just(SlidingCounter::new().into()),
        1 => Just(SlidingLog::new().into()),
    ];
    let quotas = prop_oneof![
        (1_u64..12).prop_map(Quota::per_second),
        (1_u64..30, 1_u64..9).prop_map(|(limit, burst)| Quota::per_minute(limit).burst(burst)),
        Just(Quota::per_second(1_000)),
    ];
    let slots = prop::sample::select(vec![SlotLayout::Wide, SlotLayout::Auto]);
    let limit = |(algorithm, quota, slots)| Limit { algorithm, quota, slots };
    let first = prop::collection::vec(
        (refundable, quotas.clone(), slots.clone()).prop_map(limit),
        1..NAMES.len(),
    );
    (first, (any, quotas, slots).prop_map(limit)).prop_map(|(mut limits, last)| {
        limits.push(last);
        limits
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// With requests of several cells, and a clock that advances by up to a tenth of a second each
    /// time it is read.
    #[test]
    fn after_a_denial_every_limit_is_as_if_it_had_not_been_asked(
        limits in limits(),
        step in prop_oneof![Just(0), 1_u64..10_000, 0..SECOND / 10],
        acts in prop::collection::vec(
            (0..SECOND / 3, prop_oneof![3 => Just(1_u64), 2 => 0_u64..5, 1 => Just(400)],
             prop::array::uniform4(0..KEYS)),
            1..60,
        ),
    ) {
        let clock = Ticking::by(step);
        let gates: Vec<Clocked<u8, AnyAlgorithm>> = limits
            .iter()
            .map(|limit| {
                let builder = Limiter::builder(limit.quota).algorithm(limit.algorithm);
                let builder = builder.clock(Arc::clone(&clock)).slots(limit.slots);
                builder.capacity(30_000).hash_seed(1).build().expect("in range")
            })
            .collect();
        let mut builder = Composite::<[u8; 4]>::builder();
        for (index, gate) in gates.iter().enumerate() {
            builder = builder.keyed(NAMES[index], gate, move |request: &[u8; 4]| &request[index]);
        }
        let all = builder.build().expect("only the last limit cannot refund");
        for (gap, n, request) in acts {
            clock.advance(gap);
            let now = clock.time();
            let states = || -> Vec<State> {
                let of = |(gate, key)| state(gate, key, now);
                gates.iter().zip(&request).map(of).collect()
            };
            let before = states();
            if let Err(denied) = all.check_n(&request, n) {
                prop_assert_eq!(states(), before, "{:?}", denied);
            }
        }
    }
}

/// The first and the last of the three limits are one bucket, so the last is always short of one
/// cell.
#[test]
fn charges_are_refunded_if_a_later_limit_denies_after_the_precheck() {
    let clock = Ticking::by(500);
    let open = keyed::<u8>(Quota::per_second(1_000), &clock);
    let live = Direct::builder(Quota::per_second(9))
        .algorithm(DynamicGcra::new())
        .clock(Arc::clone(&clock));
    let live = live.build().expect("in range");
    let window = Direct::builder(Quota::per_day(1)).algorithm(FixedWindow::anchored());
    let window = window.clock(Arc::clone(&clock)).build().expect("in range");
    let all = Composite::<u8>::builder()
        .keyed("open", &open, |key| key)
        .shared("live", &live)
        .shared("window", &window)
        .shared("again", &window)
        .build()
        .expect("all limits can refund");
    for _ in 0..1_000 {
        assert_eq!(all.check(&7).expect_err("a cell too few").limit_name(), "again");
    }
    let now = clock.time();
    assert_eq!(state(&open, &7, now).0, 1_000);
    assert_eq!(state_of(&live, now).0, 9);
    assert!(window.check().is_ok(), "refunded");
}

/// A key without a slot is denied before the limits before its own are charged.
#[test]
fn a_key_without_a_slot_costs_an_earlier_limit_nothing() {
    for (on_full, slots) in [
        (OnFull::Deny, SlotLayout::Wide),
        (OnFull::Deny, SlotLayout::Compact),
        (OnFull::SharedOverflow(Quota::per_day(1)), SlotLayout::Wide),
    ] {
        let clock = Ticking::by(100_000);
        let first = bucket(Quota::per_second(1_000), &clock);
        let keys: Clocked<u64> = Limiter::builder(Quota::per_day(3))
            .clock(Arc::clone(&clock))
            .capacity(1)
            .on_full(on_full)
            .slots(slots)
            .count_decisions()
            .build()
            .expect("in range");
        let filled = (0..1_000).filter(|key| keys.check(key).is_ok()).count();
        assert!((16..=17).contains(&filled), "all slots, and what is shared: {filled}");
        let both =
            Composite::<u64>::builder().shared("first", &first).keyed("key", &keys, |key| key);
        let both = both.build().expect("token buckets");
        assert!(first.check_n(990).is_ok());
        let (now, earlier) = (clock.time(), keys.stats());
        let before = state_of(&first, now);
        assert!((0..100).all(|key| both.check(&(1_000_000 + key)).is_err()));
        assert_eq!(state_of(&first, now), before, "{on_full:?}, {slots:?}");
        let stats = keys.stats();
        let turned_away = stats.denied_full + stats.overflowed;
        assert_eq!(
            turned_away - earlier.denied_full - earlier.overflowed,
            100,
            "each denial for lack of a slot is counted"
        );
        assert_eq!(stats.denied.zip(earlier.denied).map(|(now, then)| now - then), Some(100));
    }
}

/// A bucket that starts empty remembers since when it refills, even if the request was denied.
#[test]
fn a_denial_that_an_algorithm_remembers_is_remembered_in_a_composite() {
    let clock = Ticking::by(0);
    let empty: Clocked<u8> = Limiter::builder(Quota::per_second(1))
        .algorithm(Gcra::start_empty())
        .clock(Arc::clone(&clock))
        .build()
        .expect("in range");
    let log = Direct::builder(Quota::per_second(2)).algorithm(SlidingLog::new().count_denials());
    let log = log.clock(Arc::clone(&clock)).build().expect("in range");
    let both = Composite::<u8>::builder().keyed("empty", &empty, |key| key).shared("log", &log);
    let both = both.build().expect("only the last limit cannot refund");
    assert_eq!(both.check(&7).expect_err("empty").limit_name(), "empty");
    clock.advance(SECOND);
    assert!(both.check(&7).is_ok(), "a second later it has a cell");
    clock.advance(SECOND / 2);
    assert!(log.check().is_ok());
    clock.advance(SECOND / 2 - 1);
    assert_eq!(both.check(&8).expect_err("both deny").limit_name(), "empty");
    clock.advance(SECOND + SECOND / 2);
    // The log has denied nothing: requests that the limit before it denied did not reach it.
    assert!(log.check_n(2).is_ok());
    assert_eq!(both.check(&7).expect_err("the log is full").limit_name(), "log");
    clock.advance(SECOND - 1);
    assert!(log.check_n(2).is_err(), "the denied request counts");
}

#[test]
fn a_denial_evicts_no_key_of_a_later_limit_that_starts_empty() {
    let first = Direct::new(Quota::per_hour(1)).expect("in range");
    assert!(first.check().is_ok());
    let later: Limiter<u64> = Limiter::builder(Quota::per_hour(1))
        .algorithm(Gcra::start_empty())
        .capacity(1)
        .build()
        .expect("in range");
    // More keys than the table has slots: each bucket fills for an hour.
    for key in 0..1_000 {
        assert!(later.check(&key).is_err());
    }
    let evicted = later.stats().evicted;
    assert!(evicted > 0, "the table is full");
    let both =
        Composite::<u64>::builder().shared("first", &first).keyed("later", &later, |key| key);
    let both = both.build().expect("in range");
    for key in 1_000..2_000 {
        assert_eq!(both.check(&key).expect_err("spent").limit_name(), "first");
    }
    assert_eq!(later.stats().evicted, evicted);
}

/// A limit that starts empty begins to fill with a denial by a limit before it. Otherwise the stated wait would be too
/// short: the request would be denied once more for each such limit.
#[test]
fn the_wait_of_several_buckets_that_start_empty_is_enough() {
    let clock = Ticking::by(0);
    let quota = |seconds| Quota::new(1, Duration::from_secs(seconds));
    let keyed = |seconds| -> Clocked<u8> {
        let built = Limiter::builder(quota(seconds)).algorithm(Gcra::start_empty());
        let built = built.clock(Arc::clone(&clock)).count_decisions();
        built.build().expect("in range")
    };
    let one = Direct::builder(quota(10)).algorithm(Gcra::start_empty());
    let one = one.clock(Arc::clone(&clock)).build().expect("in range");
    let (second, last) = (keyed(20), keyed(30));
    let all = Composite::<u8>::builder()
        .shared("first", bucket(Quota::per_second(10), &clock))
        .shared("one", one)
        .keyed("second", &second, |key| key)
        .keyed("last", &last, |key| key)
        .build()
        .expect("token buckets");
    let denied = all.check(&7).expect_err("every bucket but the first is empty");
    let wait = denied.retry_after().expect("it fits");
    assert_eq!((denied.limit_name(), wait.as_secs()), ("one", 30));
    clock.advance(30 * SECOND);
    assert!(all.check(&7).is_ok(), "after the stated wait");
    let denied = [&second, &last].map(|gate| gate.stats().denied);
    assert_eq!(denied, [Some(0); 2], "they have denied nothing");
}

/// A request whose key functions can panic.
#[derive(Clone, Copy)]
struct Request {
    key: u64,
    panics_in: Option<&'static str>,
}

impl Request {
    fn key(&self, limit: &str) -> &u64 {
        assert!(self.panics_in != Some(limit), "no key for {limit}");
        &self.key
    }
}

/// A key whose hash function can panic.
struct Fragile(Request);

impl Hash for Fragile {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.key("hash").hash(state);
    }
}

#[test]
fn a_key_function_that_panics_leaves_nothing_charged() {
    let clock = Ticking::by(1_000);
    let [first, third, trial] = [(); 3].map(|()| keyed::<u64>(Quota::per_second(100), &clock));
    let second = bucket(Quota::per_second(100), &clock);
    let fragile = keyed::<Fragile>(Quota::per_second(100), &clock);
    let all = Composite::<Request>::builder()
        .keyed("first", &first, |request| request.key("first"))
        .shared("second", &second)
        .keyed_by("hash", &fragile, |request| Fragile(*request))
        .keyed_by("third", &third, |request| *request.key("third"))
        .keyed("trial", &trial, |request| request.key("trial"))
        .shadow()
        .build()
        .expect("token buckets");
    assert!(all.check_n(&Request { key: 7, panics_in: None }, 90).is_ok());
    let now = clock.time();
    let states = || {
        let hashed = Fragile(Request { key: 7, panics_in: None });
        let keyed = [&first, &third, &trial].map(|gate| state(gate, &7, now));
        (keyed, state_of(&second, now), state(&fragile, &hashed, now))
    };
    let before = states();
    for panics_in in ["first", "hash", "third", "trial"] {
        for n in [1, 10, 1_000] {
            let request = Request { key: 7, panics_in: Some(panics_in) };
            let result = catch_unwind(AssertUnwindSafe(|| all.check_n(&request, n).is_ok()));
            assert!(result.is_err(), "the panic reaches the caller: {panics_in}");
            assert_eq!(states(), before, "{panics_in}, {n} cells");
        }
    }
    assert!(all.check_n(&Request { key: 7, panics_in: None }, 10).is_ok(), "nothing is lost");
}
