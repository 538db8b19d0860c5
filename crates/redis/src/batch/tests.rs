//! The cells that several processes admit in a window, compared with the stated bound.

#![allow(clippy::disallowed_types, reason = "a test's store may have a lock")]

use core::time::Duration;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use proptest::prelude::*;
use tollgate::ManualClock;

use super::*;
use crate::lease::simulation::{Local, MICRO, MILLI, Rng, SECOND, SLOWER, simulate, sleep};
use crate::sync::RelaxedCounter;
use crate::{Origin, Unavailable};

/// A key, and the index of its window.
type KeyWindow = (Box<[u8]>, u64);

/// Windows aligned to real time.
#[derive(Debug, Default)]
struct Windows(Mutex<HashMap<KeyWindow, u64>>);

const WINDOW: u64 = 100 * MILLI;

/// The windows as one process reaches them.
#[derive(Debug)]
struct SimulatedStore {
    windows: Arc<Windows>,
    clock: Local,
    latency: u64,
    rng: Mutex<Rng>,
    lost_per_mille: u64,
}

impl SimulatedStore {
    fn draw(&self, max: u64) -> u64 {
        self.rng.lock().unwrap_or_else(PoisonError::into_inner).within(0..max)
    }
}

impl CounterStore for SimulatedStore {
    async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
        sleep(self.draw(self.latency) + MICRO).await;
        if self.draw(1_000) < self.lost_per_mille {
            return vec![Err(Unavailable::Disconnected); charges.len()];
        }
        let now = self.clock.nanos();
        let windows = {
            let mut windows = self.windows.0.lock().unwrap_or_else(PoisonError::into_inner);
            let count = |charge: &Charge| {
                let used = windows.entry((charge.key.clone(), now / WINDOW)).or_insert(0);
                *used += charge.cells;
                let ends_after = Duration::from_nanos(WINDOW - now % WINDOW);
                Ok(WindowCount { used: *used, ends_after })
            };
            charges.iter().map(count).collect()
        };
        sleep(self.draw(self.latency) + MICRO).await;
        match self.draw(1_000) < self.lost_per_mille {
            true => vec![Err(Unavailable::TimedOut); charges.len()],
            false => windows,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct World {
    processes: u64,
    limit: u64,
    max_unsent: u64,
    /// Requests in a window, as a multiple of the limit.
    times: u64,
    latency: u64,
    interval: u64,
    lost_per_mille: u64,
}

/// The cells admitted in each window, and the numbers of decisions and calls.
fn run(world: World, seed: u64) -> (Vec<u64>, u64, u64) {
    simulate(async move {
        let windows = Arc::new(Windows::default());
        let admitted = Arc::new(Mutex::new(vec![0; 30]));
        let real = Local::real();
        let (decisions, calls) =
            (Arc::new(RelaxedCounter::default()), Arc::new(RelaxedCounter::default()));
        let process = |index: u64| {
            let rng = Mutex::new(Rng::new(seed ^ (index + 1) << 40));
            let World { latency, lost_per_mille, .. } = world;
            let clock = real.skewed(index * 7 * SECOND);
            let (windows, server_clock) = (Arc::clone(&windows), real);
            let remote =
                SimulatedStore { windows, clock: server_clock, latency, rng, lost_per_mille };
            let built = Batched::builder(remote, world.limit)
                .clock(clock)
                .max_unsent(world.max_unsent)
                .interval(Duration::from_nanos(world.interval) * SLOWER)
                .build();
            let batched = built.expect("in range");
            let (admitted, decisions) = (Arc::clone(&admitted), Arc::clone(&decisions));
            let (calls, mut rng) = (Arc::clone(&calls), Rng::new(seed + index));
            tokio::spawn(async move {
                let gap = WINDOW * world.processes / (world.limit * world.times);
                while real.nanos() < 9 * WINDOW {
                    sleep(rng.within(0..2 * gap + 2)).await;
                    let Ok(answer) = batched.check(b"key").await else { continue };
                    if answer.decision.is_ok() {
                        let window = usize::try_from(real.nanos() / WINDOW).expect("few");
                        admitted.lock().unwrap_or_else(PoisonError::into_inner)[window] += 1;
                    }
                }
                decisions.add(batched.stats().decisions);
                calls.add(batched.stats().calls);
            })
        };
        let tasks: Vec<_> = (0..world.processes).map(process).collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        let admitted = admitted.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (admitted, decisions.read(), calls.read())
    })
}

fn worlds() -> impl Strategy<Value = World> {
    let parts = (1_u64..9, 10_u64..400, 1_u64..40, 1_u64..5, 0_usize..3, 0_usize..3, 0_usize..3);
    parts.prop_map(|(processes, limit, unsent, times, latency, interval, lost)| World {
        processes,
        limit,
        max_unsent: unsent.min(limit),
        times,
        latency: [100 * MICRO, MILLI, 30 * MILLI][latency],
        interval: [MILLI, 10 * MILLI, 200 * MILLI][interval],
        lost_per_mille: [0, 50, 300][lost],
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn no_window_exceeds_the_limit_plus_pending_cells(world in worlds(), seed: u64) {
        let (admitted, ..) = run(world, seed);
        let World { processes, limit, max_unsent, .. } = world;
        let bound = if processes == 1 { limit } else { limit - 1 + processes * max_unsent };
        let max = admitted.iter().copied().max().expect("some");
        prop_assert!(max <= bound, "{} of {}: {:?}", max, bound, world);
    }
}

/// The bound is tight: long intervals nearly reach it. The test also notices an excess: with more
/// unsent cells, the bound for fewer is exceeded.
#[test]
fn the_bound_is_reached_and_the_test_would_notice_more() {
    let world = World {
        processes: 8,
        limit: 100,
        max_unsent: 20,
        times: 8,
        latency: 5 * MILLI,
        interval: 200 * MILLI,
        lost_per_mille: 0,
    };
    let max = |world| run(world, 1).0.into_iter().max().expect("some");
    let reached = max(world);
    assert!((180..=259).contains(&reached), "{reached}");
    let more = max(World { max_unsent: 60, ..world });
    assert!(more > 259, "{more}");
}

#[test]
fn one_call_serves_many_decisions() {
    let world = World {
        processes: 8,
        limit: 10_000,
        max_unsent: 100,
        times: 2,
        latency: MILLI,
        interval: 10 * MILLI,
        lost_per_mille: 0,
    };
    let (admitted, decisions, calls) = run(world, 2);
    assert!(calls * 20 < decisions, "{calls} calls, {decisions} decisions");
    assert!(admitted[1..8].iter().all(|&cells| (10_000..=10_799).contains(&cells)), "{admitted:?}");
}

/// A store that fails on demand and counts keys and cells.
#[derive(Debug, Default)]
struct RecordingStore {
    fails: Arc<RelaxedCounter>,
    keys: Arc<RelaxedCounter>,
    cells: Arc<RelaxedCounter>,
}

/// A value of `fails` with which the store answers, but counts nothing.
const FAILS_FOR_EACH_KEY: u64 = 2;

impl CounterStore for RecordingStore {
    async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
        match self.fails.read() {
            0 => {}
            FAILS_FOR_EACH_KEY => {
                return vec![Err(Unavailable::Failed("full".into())); charges.len()];
            }
            _ => return vec![Err(Unavailable::CircuitOpen); charges.len()],
        }
        self.keys.add(charges.len() as u64);
        self.cells.add(charges.iter().map(|charge| charge.cells).sum());
        vec![Ok(WindowCount { used: 0, ends_after: Duration::from_secs(1) }); charges.len()]
    }
}

#[tokio::test(start_paused = true)]
async fn all_keys_are_sent_in_one_call_and_what_is_left_at_the_end() {
    let store = RecordingStore::default();
    let (keys, cells) = (Arc::clone(&store.keys), Arc::clone(&store.cells));
    let clock = Arc::new(ManualClock::new());
    let batched = Batched::builder(store, 100).max_unsent(50).clock(clock).build().expect("valid");
    for key in 0..100_u64 {
        let answer = batched.check(&key.to_be_bytes()).await.expect("nothing to wait for");
        assert!(answer.decision.is_ok() && answer.origin == Origin::Memory);
    }
    assert_eq!(batched.stats().calls, 0);
    tokio::time::sleep(Duration::from_millis(11)).await;
    assert_eq!((batched.stats().calls, keys.read(), batched.stats().cells), (1, 100, 100));
    assert!(batched.check_n(b"late", 7).await.is_ok());
    drop(batched);
    tokio::time::sleep(Duration::from_millis(11)).await;
    assert_eq!(cells.read(), 107, "sent before the task ended");
}

/// A call has 500 keys at most. More keys take more calls, and no further interval.
#[tokio::test(start_paused = true)]
async fn any_number_of_keys_is_sent_within_an_interval() {
    let store = RecordingStore::default();
    let cells = Arc::clone(&store.cells);
    let clock = Arc::new(ManualClock::new());
    let batched = Batched::builder(store, 100).max_unsent(50).clock(clock).build().expect("valid");
    for key in 0..5_000_u64 {
        assert!(batched.check(&key.to_be_bytes()).await.is_ok());
    }
    tokio::time::sleep(Duration::from_millis(11)).await;
    assert_eq!((batched.stats().calls, cells.read()), (10, 5_000));
}

#[tokio::test(start_paused = true)]
async fn any_number_of_keys_is_sent_as_soon_as_the_store_is_back() {
    let RecordingStore { fails, cells, .. } = RecordingStore::default();
    for why in [1, FAILS_FOR_EACH_KEY] {
        fails.set(why);
        cells.set(0);
        let store = RecordingStore {
            fails: Arc::clone(&fails),
            cells: Arc::clone(&cells),
            ..RecordingStore::default()
        };
        let builder = Batched::builder(store, 100).max_unsent(50).interval(Duration::from_secs(1));
        let batched = builder.clock(Arc::new(ManualClock::new())).build().expect("valid");
        for key in 0..5_000_u64 {
            assert!(batched.check(&key.to_be_bytes()).await.is_ok());
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
        fails.set(0);
        tokio::time::sleep(Duration::from_millis(101)).await;
        assert_eq!(cells.read(), 5_000, "{why}: {:?}", batched.stats());
    }
}

#[tokio::test(start_paused = true)]
async fn while_the_store_fails_only_max_unsent_is_admitted_and_sent_later() {
    let store = RecordingStore::default();
    let (fails, cells) = (Arc::clone(&store.fails), Arc::clone(&store.cells));
    fails.set(1);
    let clock = Arc::new(ManualClock::new());
    let batched = Batched::builder(store, 100).max_unsent(5).clock(clock).build().expect("valid");
    let mut admitted = 0;
    for _ in 0..20 {
        admitted += u64::from(batched.check(b"a").await.is_ok());
    }
    assert_eq!((admitted, batched.try_check(b"a", 1)), (5, None));
    fails.set(0);
    tokio::time::sleep(Duration::from_millis(21)).await;
    assert_eq!(cells.read(), 5);
    assert!(batched.check(b"a").await.is_ok());
    assert!(batched.stats().failed >= 1);
}

/// A store whose calls end long after its deadline.
#[derive(Debug)]
struct SlowStore;

const DEADLINE: Duration = Duration::from_millis(10);

impl CounterStore for SlowStore {
    async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
        tokio::time::sleep(Duration::from_secs(60)).await;
        vec![Err(Unavailable::TimedOut); charges.len()]
    }

    fn deadline(&self) -> Duration {
        DEADLINE
    }
}

/// The longest that one of 20 requests takes, of which five need not wait.
async fn longest_wait(store: impl CounterStore) -> Duration {
    let clock = Arc::new(ManualClock::new());
    let builder = Batched::builder(store, 100).max_unsent(5).interval(Duration::from_secs(1));
    let batched = builder.clock(clock).build().expect("valid");
    let mut longest = Duration::ZERO;
    for nth in 0..20 {
        let began = tokio::time::Instant::now();
        assert_eq!(batched.check(b"a").await.is_ok(), nth < 5);
        longest = longest.max(began.elapsed());
    }
    longest
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_until_the_deadline_at_most() {
    let waited = longest_wait(SlowStore).await;
    // The timer counts whole milliseconds.
    assert!((DEADLINE..=DEADLINE + Duration::from_millis(1)).contains(&waited), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn while_the_store_fails_no_request_waits_for_the_next_call() {
    let store = RecordingStore::default();
    store.fails.set(1);
    let waited = longest_wait(store).await;
    assert!(waited <= Duration::from_millis(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_key_without_room_costs_a_call_for_each_request() {
    let clock = Arc::new(ManualClock::new());
    let builder = Batched::builder(RecordingStore::default(), 100).capacity(1).clock(clock);
    let batched = builder.build().expect("valid");
    assert!(batched.check(b"a").await.is_ok());
    for _ in 0..3 {
        assert_eq!(batched.check(b"b").await.expect("counted").origin, Origin::Server);
    }
    assert!(batched.check_n(b"b", 101).await.expect("denied").decision.is_err());
    assert_eq!((batched.stats().untracked, batched.stats().calls), (4, 4));
}

/// A store that fails for keys that begin with "bad", and counts the cells of the others.
#[derive(Clone, Debug, Default)]
struct AllButBad {
    cells: Arc<RelaxedCounter>,
    calls: Arc<RelaxedCounter>,
    /// Calls with "bad" and with another key.
    mixed: Arc<RelaxedCounter>,
}

impl CounterStore for AllButBad {
    async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
        let is_bad = |charge: &Charge| charge.key.starts_with(b"bad");
        // Requests run meanwhile.
        tokio::task::yield_now().await;
        self.calls.add(1);
        self.mixed.add((charges.len() > 1 && charges.iter().any(is_bad)).into());
        let count = |charge: &Charge| {
            if is_bad(charge) {
                return Err(Unavailable::Failed("a foreign value".into()));
            }
            let used = self.cells.add(charge.cells) + charge.cells;
            Ok(WindowCount { used, ends_after: Duration::from_secs(3_600) })
        };
        charges.iter().map(count).collect()
    }
}

fn batched_but_bad(max_unsent: u64) -> (AllButBad, Batched<AllButBad, Arc<ManualClock>>) {
    let store = AllButBad::default();
    let builder = Batched::builder(store.clone(), 100).max_unsent(max_unsent);
    let batched = builder.clock(Arc::new(ManualClock::new())).build().expect("valid");
    (store, batched)
}

#[tokio::test(start_paused = true)]
async fn a_key_that_fails_leaves_other_keys_counted_once() {
    let (store, batched) = batched_but_bad(5);
    for key in [&b"before"[..], b"bad", b"behind"] {
        assert!(batched.check(key).await.is_ok());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!((store.cells.read(), batched.stats().cells), (2, 2), "{:?}", batched.stats());
    // The key that fails has its unsent cells. The others go on.
    let mut admitted = 0;
    for _ in 0..20 {
        admitted += u64::from(batched.check(b"bad").await.is_ok());
        assert!(batched.check(b"before").await.is_ok());
    }
    assert_eq!(admitted, 5 - 1);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(store.cells.read(), 22);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_failed_is_sent_in_a_call_of_its_own() {
    let (store, batched) = batched_but_bad(5);
    for _ in 0..10 {
        for key in [&b"before"[..], b"bad", b"behind"] {
            let _ = batched.check(key).await;
        }
        tokio::time::sleep(Duration::from_millis(11)).await;
    }
    assert_eq!((store.cells.read(), store.mixed.read()), (20, 1), "{:?}", batched.stats());
}

#[tokio::test(start_paused = true)]
async fn requests_for_a_full_key_that_fails_cause_no_call() {
    let (store, batched) = batched_but_bad(5);
    for key in [&b"bad"[..], b"bad", b"bad", b"bad", b"bad", b"good"] {
        assert!(batched.check(key).await.is_ok());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let calls = store.calls.read();
    for _ in 0..1_000 {
        assert!(batched.check(b"bad").await.is_err());
        // Time stands still while a task is ready, so no interval begins and ends.
        tokio::task::yield_now().await;
    }
    assert!(store.calls.read() <= calls + 1, "{} calls", store.calls.read() - calls);
}

/// Four requests of a key of which one cell may be unsent: each call makes room for one of them.
async fn four_at_once(batched: &Batched<AllButBad, Arc<ManualClock>>) -> u64 {
    let ask = || batched.check(b"good");
    let (first, second, third, fourth) = tokio::join!(ask(), ask(), ask(), ask());
    [first, second, third, fourth].map(|answer| u64::from(answer.is_ok())).into_iter().sum()
}

#[tokio::test(start_paused = true)]
async fn a_request_is_answered_by_the_third_call_that_it_waits_for() {
    let (_, batched) = batched_but_bad(1);
    assert_eq!(four_at_once(&batched).await, 4, "{:?}", batched.stats());
}

#[tokio::test(start_paused = true)]
async fn a_call_for_keys_that_fail_is_none_that_others_wait_for() {
    let (store, batched) = batched_but_bad(1);
    assert!(batched.check(b"bad").await.is_ok() && batched.check(b"other").await.is_ok());
    tokio::time::sleep(Duration::from_secs(1)).await;
    let calls = store.calls.read();
    assert_eq!(four_at_once(&batched).await, 4, "{:?}", batched.stats());
    assert!(store.calls.read() > calls + 3, "calls that failed came between");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_first_fails_alone_makes_no_other_key_fail() {
    let (_, batched) = batched_but_bad(1);
    assert!(batched.check(b"bad").await.is_ok());
    assert!(batched.check(b"bad").await.is_err(), "its call has failed");
    assert_eq!(four_at_once(&batched).await, 4, "{:?}", batched.stats());
}

#[tokio::test(start_paused = true)]
async fn any_number_of_keys_that_fail_delay_no_other_key() {
    let (store, batched) = batched_but_bad(5);
    for key in 0..5_000 {
        assert!(batched.check(format!("bad{key}").as_bytes()).await.is_ok());
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for nth in 1..=5 {
        assert!(batched.check(b"good").await.is_ok());
        // Time stands still during calls, so this is the next interval.
        tokio::time::sleep(Duration::from_millis(11)).await;
        assert_eq!(store.cells.read(), nth, "{:?}", batched.stats());
    }
}

/// A key that failed is Unavailable until its next call, which a long interval does not delay.
#[tokio::test(start_paused = true)]
async fn a_key_that_failed_is_sent_again_soon_although_the_interval_is_long() {
    let store = RecordingStore::default();
    let (fails, cells) = (Arc::clone(&store.fails), Arc::clone(&store.cells));
    fails.set(FAILS_FOR_EACH_KEY);
    let builder = Batched::builder(store, 100).max_unsent(1).interval(Duration::from_secs(3_600));
    let batched = builder.clock(Arc::new(ManualClock::new())).build().expect("valid");
    assert!(batched.check(b"a").await.is_ok() && batched.check(b"a").await.is_err());
    fails.set(0);
    tokio::time::sleep(Duration::from_millis(101)).await;
    assert_eq!(cells.read(), 1, "{:?}", batched.stats());
    assert!(batched.check(b"a").await.is_ok());
}

/// Windows that never end for the key "b", and end immediately for other keys.
#[derive(Debug, Default)]
struct OfB(RelaxedCounter);

impl CounterStore for OfB {
    async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
        let count = |charge: &Charge| match &*charge.key {
            b"b" => {
                let used = self.0.add(charge.cells) + charge.cells;
                WindowCount { used, ends_after: Duration::from_secs(3_600) }
            }
            _ => WindowCount { used: charge.cells, ends_after: Duration::ZERO },
        };
        charges.iter().map(count).map(Ok).collect()
    }
}

/// The documented worst case: counts do not include what was counted while the key had no room.
#[tokio::test(start_paused = true)]
async fn a_key_that_finds_room_late_exceeds_its_limit_by_max_unsent() {
    let clock = Arc::new(ManualClock::new());
    let builder = Batched::builder(OfB::default(), 5).max_unsent(2).capacity(1);
    let batched = builder.clock(Arc::clone(&clock)).build().expect("valid");
    assert!(batched.check(b"a").await.is_ok());
    let mut admitted = 0;
    for step in 0..20 {
        let answer = batched.check(b"b").await.expect("an answer");
        let origin = if step < 10 { Origin::Server } else { Origin::Memory };
        assert_eq!(answer.origin, origin, "{step}");
        admitted += u64::from(answer.decision.is_ok());
        if step == 9 {
            assert_eq!(admitted, 5);
            tokio::time::sleep(Duration::from_millis(11)).await;
            clock.advance(Duration::from_millis(101));
        }
    }
    assert_eq!(admitted, 5 + 2);
}

/// The documented worst case: the process's clock ends a window that the store still counts.
#[tokio::test(start_paused = true)]
async fn a_clock_that_runs_ahead_exceeds_the_limit_by_max_unsent() {
    let clock = Arc::new(ManualClock::new());
    let builder = Batched::builder(OfB::default(), 5).max_unsent(2);
    let batched = builder.clock(Arc::clone(&clock)).build().expect("valid");
    let mut admitted = [0; 2];
    for admitted in &mut admitted {
        for _ in 0..20 {
            let answer = batched.check(b"b").await.expect("an answer");
            *admitted += u64::from(answer.decision.is_ok());
        }
        // The store answers for all cells.
        tokio::time::sleep(Duration::from_millis(11)).await;
        clock.advance(Duration::from_secs(3_600));
    }
    assert_eq!(admitted, [5, 2]);
}

#[tokio::test(start_paused = true)]
async fn no_cell_of_a_key_without_room_is_admitted_above_the_limit() {
    let builder = Batched::builder(OfB::default(), 5).max_unsent(2).capacity(1);
    let batched = builder.clock(Arc::new(ManualClock::new())).build().expect("valid");
    assert!(batched.check(b"a").await.is_ok());
    for (cells, is_admitted) in [(5, true), (1, false), (0, true)] {
        let answer = batched.check_n(b"b", cells).await.expect("an answer");
        let found = (answer.origin, answer.decision.is_ok());
        assert_eq!(found, (Origin::Server, is_admitted), "{cells}");
    }
}

/// A store that has counted nothing.
struct Blank;

impl CounterStore for Blank {
    async fn add(&self, charges: &[Charge]) -> Vec<Result<WindowCount, Unavailable>> {
        vec![Ok(WindowCount { used: 1, ends_after: Duration::from_secs(1) }); charges.len()]
    }
}

#[tokio::test]
async fn a_long_key_takes_no_room_and_costs_a_call_for_each_request() {
    let batched = Batched::builder(Blank, 100).build().expect("in range");
    let key = [b'k'; 1_025];
    for _ in 0..2 {
        let answer = batched.check(&key).await.expect("an answer");
        assert!(answer.decision.is_ok() && answer.origin == Origin::Server);
    }
    let stats = batched.stats();
    assert_eq!((stats.keys, stats.calls, stats.untracked), (0, 2, 2));
    assert!(batched.check(&key[1..]).await.expect("an answer").decision.is_ok());
    assert_eq!(batched.stats().keys, 1);
}
