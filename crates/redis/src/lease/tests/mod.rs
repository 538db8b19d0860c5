//! Which requests call the source, which wait, and how others are answered meanwhile.

mod unleased;

use core::time::Duration;
use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate::decision::DecisionParts;
use tollgate::{ManualClock, Tick};

use super::simulation::{
    Link, Local, MICRO, MILLI, SECOND, SimulatedServer, SimulatedSource, simulate, sleep,
};
use super::*;
use crate::sync::RelaxedCounter;
use crate::{Answer, Origin, Unavailable};

/// 1,000 a second and a burst of 200, of which 100 are leased for 100 ms at a time; 1 ms each way.
fn near() -> (Leased<SimulatedSource, Local>, Local) {
    let server = Arc::new(SimulatedServer::new(1_000, 200, 100 * MILLI));
    let clock = Local::real();
    let remote = SimulatedSource::new(&server, &Link::good(MILLI..MILLI + 1), clock, 1);
    (Leased::builder(remote).clock(clock).build().expect("in range"), clock)
}

/// Replies in the given order, and then repeats the last one.
struct Scripted {
    replies: Vec<Reply>,
    next: RelaxedCounter,
}

#[derive(Clone, Debug)]
enum Reply {
    /// This many cells, or as many as are wanted if that is less.
    Cells(u64),
    Deny(Option<Duration>),
    Fail(Unavailable),
    Panic,
}

const LIFETIME: Duration = Duration::from_secs(1);

impl LeaseSource for Scripted {
    async fn take(&self, _key: &[u8], want: LeaseRequest) -> Result<Grant, Unavailable> {
        let next = usize::try_from(self.next.add(1)).expect("few").min(self.replies.len() - 1);
        tokio::task::yield_now().await;
        let parts = DecisionParts { limit: 50, remaining: 0, reset_after: LIFETIME };
        let (cells, retry_after) = match self.replies[next].clone() {
            Reply::Cells(cells) => (cells.min(want.max), None),
            Reply::Deny(after) => (0, after),
            Reply::Fail(why) => return Err(why),
            Reply::Panic => panic!("a source that panics on demand"),
        };
        Ok(Grant { cells, lifetime: LIFETIME, parts, retry_after })
    }
}

type Clocked = Leased<Scripted, Arc<ManualClock>>;

fn scripted(replies: impl IntoIterator<Item = Reply>) -> (Clocked, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new());
    clock.advance(Duration::from_secs(5));
    let source =
        Scripted { replies: replies.into_iter().collect(), next: RelaxedCounter::default() };
    let leased = Leased::builder(source).clock(Arc::clone(&clock)).capacity(2).build();
    (leased.expect("in range"), clock)
}

fn is_ok(answer: &Result<Answer, Unavailable>) -> bool {
    answer.as_ref().is_ok_and(|answer| answer.decision.is_ok())
}

#[test]
fn requests_for_one_key_share_one_call() {
    simulate(async {
        let (leased, clock) = near();
        let mut clients = JoinSet::new();
        for _ in 0..90 {
            let leased = leased.clone();
            clients.spawn(async move { leased.check(b"key").await });
        }
        let answers = clients.join_all().await;
        assert!(answers.iter().all(is_ok));
        let stats = leased.stats();
        let awaited = stats.calls - stats.prefetches;
        assert_eq!(awaited, 2, "one for the first request, one for all that came meanwhile");
        assert_eq!(clock.nanos(), 4 * MILLI);
    });
}

#[test]
fn no_request_waits_while_cells_remain() {
    simulate(async {
        let (leased, _) = near();
        let mut waited = 0;
        for _ in 0..1_000 {
            sleep(2 * MILLI).await;
            if leased.try_check(b"key", 1).is_none() {
                waited += 1;
                assert!(is_ok(&leased.check(b"key").await));
            }
        }
        let stats = leased.stats();
        assert!(waited <= 8, "waited {waited} times, until its rate was known");
        assert!(stats.prefetches >= 20 && stats.calls <= 100, "{stats:?}");
        assert_eq!(stats.from_memory + stats.unavailable, 0);
    });
}

#[test]
fn a_hot_denied_key_costs_few_calls() {
    simulate(async {
        let (leased, clock) = near();
        // It asks for all cells, and for more than come back.
        let (mut denied, mut waits) = (0, Vec::new());
        for _ in 0..20_000 {
            sleep(50 * MICRO).await;
            let answer = leased.check(b"key").await.expect("the link is good");
            if let Err(denial) = answer.decision {
                denied += 1;
                waits.push(denial.retry_after().expect("it comes back"));
            }
        }
        let stats = leased.stats();
        let seconds = clock.nanos() / SECOND;
        assert!(denied > 15_000 && stats.calls <= 110 * seconds + 20, "{denied}: {stats:?}");
        let longest = waits.into_iter().max().expect("some");
        assert!(longest <= Duration::from_millis(51), "{longest:?}, half of a lifetime at most");
    });
}

/// One cell a second. A request of seven cells waits for seconds, although cells remain.
#[test]
fn a_hot_key_denied_for_several_cells_costs_few_calls() {
    simulate(async {
        let server = Arc::new(SimulatedServer::new(1, 20, SECOND));
        let clock = Local::real();
        let remote = SimulatedSource::new(&server, &Link::good(MILLI..MILLI + 1), clock, 1);
        let leased = Leased::builder(remote).clock(clock).build().expect("in range");
        let mut denied = 0;
        for _ in 0..6_000 {
            sleep(10 * MILLI).await;
            denied += u64::from(!is_ok(&leased.check_n(b"key", 7).await));
        }
        let calls = leased.stats().calls;
        let smaller = leased.check(b"key").await.expect("the link is good");
        assert!(smaller.decision.is_ok() && leased.stats().calls == calls + 1, "{smaller:?}");
        let (stats, seconds) = (leased.stats(), clock.nanos() / SECOND);
        assert!(denied > 5_900 && stats.calls <= 2 * seconds, "{denied}: {stats:?} in {seconds} s");
    });
}

#[tokio::test]
async fn a_denial_is_remembered_until_its_time() {
    let wait = Duration::from_millis(700);
    let (leased, clock) = scripted([Reply::Deny(Some(wait)), Reply::Cells(9)]);
    let answer = leased.check(b"a").await.expect("denied");
    assert_eq!(
        (answer.origin, answer.decision.unwrap_err().retry_after()),
        (Origin::Server, Some(wait))
    );
    clock.advance(Duration::from_millis(600));
    for n in [1, 3] {
        let answer = leased.check_n(b"a", n).await.expect("denied");
        let left = answer.decision.unwrap_err().retry_after().expect("it comes back");
        // In units of 66 microseconds, rounded up.
        assert!((100_000..=100_066).contains(&left.as_micros()), "{left:?}");
        assert_eq!(answer.origin, Origin::Memory);
    }
    assert_eq!(leased.stats().calls, 1);
    clock.advance(Duration::from_millis(101));
    assert!(is_ok(&leased.check(b"a").await));
    assert_eq!(leased.stats().calls, 2);
}

/// The source's limit is 50. It denied a smaller request.
#[tokio::test]
async fn more_than_the_limit_is_never_granted_though_less_is_denied_for_a_time() {
    let wait = Duration::from_millis(700);
    let (leased, _) = scripted([Reply::Deny(Some(wait))]);
    for n in [3, 50] {
        let denied = leased.check_n(b"a", n).await.expect("denied").decision.unwrap_err();
        assert!(denied.retry_after().is_some(), "{n} come back");
    }
    for n in [51, 1_001, u64::MAX] {
        let answer = leased.check_n(b"a", n).await.expect("denied");
        let now = leased.try_check(b"a", n).expect("from memory").decision.unwrap_err();
        assert_eq!(answer.decision.unwrap_err().retry_after(), None, "{n} never fit");
        assert_eq!((answer.origin, now.retry_after()), (Origin::Memory, None));
    }
    assert_eq!(leased.stats().calls, 1);
}

/// The source's limit is 50.
#[tokio::test]
async fn more_than_the_limit_costs_no_call_but_a_recheck_in_the_background() {
    let (leased, clock) = scripted([Reply::Cells(1), Reply::Deny(None)]);
    assert!(is_ok(&leased.check(b"a").await));
    for calls in [1, 2] {
        for n in [51, 60, 1_000] {
            let denied = leased.check_n(b"a", n).await.expect("denied");
            assert_eq!(denied.decision.unwrap_err().retry_after(), None, "{n} never fit");
            assert_eq!(denied.origin, Origin::Memory);
        }
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert_eq!((leased.stats().calls, leased.stats().prefetches), (calls + 1, calls));
        clock.advance(Duration::from_millis(1_001));
    }
}

#[tokio::test]
async fn a_long_denial_is_rechecked_in_the_background() {
    let day = Duration::from_secs(86_400);
    let (leased, clock) = scripted([Reply::Deny(Some(day)), Reply::Cells(9)]);
    assert!(!is_ok(&leased.check(b"a").await));
    clock.advance(Duration::from_millis(999));
    assert!(!is_ok(&leased.check(b"a").await) && leased.stats().calls == 1);
    clock.advance(Duration::from_millis(2));
    // The quota was reset on the server. This request is still denied, and asks in the background.
    let answer = leased.try_check(b"a", 1).expect("from memory").decision.unwrap_err();
    assert!(answer.retry_after().expect("it comes back") > Duration::from_secs(86_390));
    while leased.stats().cells_taken == 0 {
        tokio::task::yield_now().await;
    }
    assert!(is_ok(&leased.check(b"a").await));
    assert_eq!((leased.stats().calls, leased.stats().prefetches), (2, 1));
}

#[tokio::test]
async fn a_denial_of_several_cells_pauses_smaller_requests_as_any_shortage_does() {
    for wait in [Some(Duration::from_millis(900)), None] {
        let (leased, clock) = scripted([Reply::Deny(wait), Reply::Cells(1)]);
        assert!(!is_ok(&leased.check_n(b"a", 40).await));
        clock.advance(Duration::from_millis(9));
        assert!(!is_ok(&leased.check(b"a").await), "the first pause is of 10 ms");
        clock.advance(Duration::from_millis(2));
        assert!(is_ok(&leased.check(b"a").await), "{wait:?}");
        assert!(!is_ok(&leased.check_n(b"a", 40).await));
        assert_eq!(leased.stats().calls, 2, "the larger request waits for longer");
    }
}

#[tokio::test]
async fn a_failure_answers_all_waiting_requests_and_is_remembered_for_a_pause() {
    let failed = Unavailable::Failed("out of memory".into());
    let (leased, clock) = scripted([Reply::Fail(failed.clone()), Reply::Cells(1)]);
    let (one, other) = tokio::join!(leased.check(b"a"), leased.check(b"a"));
    assert_eq!(one, Err(failed));
    assert!(matches!(other, Err(Unavailable::Failed(_))), "{other:?}");
    assert!(matches!(leased.check_n(b"a", 5_000).await, Err(Unavailable::Failed(_))));
    clock.advance(Duration::from_millis(9));
    assert!(leased.check(b"a").await.is_err() && leased.try_check(b"a", 1).is_none());
    assert_eq!((leased.stats().calls, leased.stats().unavailable), (1, 4));
    clock.advance(Duration::from_millis(2));
    assert!(is_ok(&leased.check(b"a").await));
}

#[tokio::test]
async fn a_panic_or_a_dropped_request_leaves_no_request_waiting() {
    let (leased, clock) = scripted([Reply::Panic, Reply::Cells(5)]);
    let (one, other) = tokio::join!(leased.check(b"a"), leased.check(b"a"));
    assert!(matches!(one, Err(Unavailable::Failed(_))) && other.is_err());
    clock.advance(Duration::from_millis(11));
    let gone = leased.clone();
    let client = tokio::spawn(async move { gone.check(b"a").await });
    tokio::task::yield_now().await;
    client.abort();
    assert!(is_ok(&leased.check(b"a").await));
}

#[tokio::test]
async fn a_call_that_ends_with_its_runtime_leaves_the_key_free() {
    let clock = Arc::new(ManualClock::new());
    struct Never;
    impl LeaseSource for Never {
        async fn take(&self, _: &[u8], _: LeaseRequest) -> Result<Grant, Unavailable> {
            core::future::pending().await
        }
    }
    let leased = Leased::builder(Never).clock(Arc::clone(&clock)).build().expect("in range");
    let asks = leased.clone();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.spawn(async move { asks.check(b"a").await });
        runtime.block_on(tokio::task::yield_now());
        runtime.block_on(tokio::task::yield_now());
    })
    .join()
    .expect("no panic");
    assert!(matches!(leased.check(b"a").await, Err(Unavailable::Failed(_))));
}

#[tokio::test]
async fn cells_that_arrive_expired_are_not_spent() {
    let clock = Arc::new(ManualClock::new());
    struct Slow(Arc<ManualClock>);
    impl LeaseSource for Slow {
        async fn take(&self, _: &[u8], want: LeaseRequest) -> Result<Grant, Unavailable> {
            self.0.advance(LIFETIME);
            let parts = DecisionParts { limit: 50, remaining: 0, reset_after: LIFETIME };
            Ok(Grant { cells: want.max, lifetime: LIFETIME, parts, retry_after: None })
        }
    }
    let leased = Leased::builder(Slow(Arc::clone(&clock))).clock(clock).build().expect("in range");
    assert_eq!(leased.check(b"a").await, Err(Unavailable::TimedOut));
    assert_eq!(leased.check_n(b"a", 5_000).await, Err(Unavailable::TimedOut));
    let stats = leased.stats();
    assert_eq!((stats.cells_taken, stats.from_source), (stats.cells_lapsed, 0));
    assert_eq!(stats.calls, 3, "a window may end during one call, so the first request makes two");
}

/// A source that answers after a time with a lease of 30 ms, and the clock of its caller.
struct Distant {
    round_trip: Duration,
    deadline: Duration,
    began: tokio::time::Instant,
    clock: Arc<ManualClock>,
}

impl LeaseSource for Distant {
    async fn take(&self, _: &[u8], want: LeaseRequest) -> Result<Grant, Unavailable> {
        tokio::time::sleep(self.round_trip).await;
        let nanos = u64::try_from(self.began.elapsed().as_nanos()).expect("in range");
        self.clock.set(Tick::from_nanos(nanos));
        let parts = DecisionParts { limit: 50, remaining: 0, reset_after: LIFETIME };
        let lifetime = Duration::from_millis(30);
        Ok(Grant { cells: want.min, lifetime, parts, retry_after: None })
    }

    fn deadline(&self) -> Duration {
        self.deadline
    }
}

fn distant(round_trip_ms: u64, deadline_ms: u64) -> Leased<Distant, Arc<ManualClock>> {
    let (began, clock) = (tokio::time::Instant::now(), Arc::new(ManualClock::new()));
    let [round_trip, deadline] = [round_trip_ms, deadline_ms].map(Duration::from_millis);
    let source = Distant { round_trip, deadline, began, clock: Arc::clone(&clock) };
    // A call brings no cell for another request.
    Leased::builder(source).clock(clock).max_lease(1).build().expect("in range")
}

#[tokio::test(start_paused = true)]
async fn late_leases_end_a_request_by_the_deadline() {
    let leased = distant(60, 100);
    let began = tokio::time::Instant::now();
    assert_eq!(leased.check(b"a").await, Err(Unavailable::TimedOut));
    let took = began.elapsed();
    assert!((100..=102).contains(&took.as_millis()), "{took:?}");
    assert_eq!(leased.stats().unavailable, 1);
}

#[tokio::test(start_paused = true)]
async fn a_request_larger_than_a_lease_is_answered_by_the_deadline() {
    let leased = distant(60_000, 100);
    let began = tokio::time::Instant::now();
    assert_eq!(leased.check_n(b"a", 2).await, Err(Unavailable::TimedOut));
    let took = began.elapsed();
    assert!((100..=102).contains(&took.as_millis()), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_the_calls_of_others_is_answered_by_the_deadline() {
    let leased = distant(20, 50);
    let began = tokio::time::Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..2_000 {
        let leased = leased.clone();
        clients.spawn(async move { leased.check(b"a").await });
    }
    let answers = clients.join_all().await;
    let took = began.elapsed();
    assert!(took <= Duration::from_millis(52), "{took:?}");
    assert!(answers.iter().any(is_ok) && answers.iter().any(|answer| !is_ok(answer)));
}

#[tokio::test]
async fn requests_larger_than_a_lease_call_the_source() {
    let never = Reply::Deny(None);
    let (leased, _) = scripted([Reply::Cells(5_000), Reply::Cells(0), never]);
    assert!(is_ok(&leased.check_n(b"a", 5_000).await));
    assert!(is_ok(&leased.check_n(b"a", 0).await), "from memory");
    assert!(is_ok(&leased.check_n(b"b", 0).await), "asked how things stand");
    assert_eq!(leased.stats().calls, 2);
    for _ in 0..3 {
        let denied = leased.check_n(b"a", 6_000).await.expect("denied").decision.unwrap_err();
        assert_eq!(denied.retry_after(), None);
    }
    assert_eq!(leased.stats().calls, 3, "remembered");
}

#[tokio::test]
async fn keys_without_room_cost_a_call_for_each_request() {
    let wait = Some(Duration::from_secs(9));
    let deny = [(); 2].map(|()| Reply::Deny(wait));
    let (leased, clock) = scripted(deny.into_iter().chain([Reply::Cells(1)]));
    for key in [b"a", b"b"] {
        assert!(!is_ok(&leased.check(key).await));
    }
    for _ in 0..2 {
        assert!(is_ok(&leased.check(b"c").await));
    }
    let stats = leased.stats();
    assert_eq!((stats.keys, stats.calls, stats.untracked), (2, 4, 2));
    // No request for the first two keys has come for a while.
    clock.advance(Duration::from_millis(1_001));
    assert!(is_ok(&leased.check(b"c").await));
    assert_eq!((leased.stats().keys, leased.stats().untracked), (1, 2));
}

#[tokio::test]
async fn a_long_key_takes_no_room_and_costs_a_call_for_each_request() {
    let (leased, _) = scripted([Reply::Cells(5)]);
    let key = [b'k'; 1_025];
    for _ in 0..2 {
        assert!(is_ok(&leased.check(&key).await));
    }
    let stats = leased.stats();
    assert_eq!((stats.keys, stats.calls, stats.untracked), (0, 2, 2));
    assert!(is_ok(&leased.check(&key[1..]).await));
    assert_eq!(leased.stats().keys, 1);
}

#[tokio::test]
async fn a_clock_may_count_since_1970() {
    let clock = Arc::new(ManualClock::new());
    clock.advance(Duration::from_secs(56 * 365 * 86_400));
    let source =
        Scripted { replies: vec![Reply::Cells(u64::MAX)], next: RelaxedCounter::default() };
    let leased = Leased::builder(source).clock(Arc::clone(&clock)).build().expect("in range");
    for _ in 0..200 {
        clock.advance(Duration::from_millis(1));
        assert!(is_ok(&leased.check(b"a").await));
    }
    let stats = leased.stats();
    assert!(stats.from_lease > 100, "{stats:?}");
}

#[test]
fn without_a_runtime_nothing_panics() {
    let (leased, _) = scripted([Reply::Deny(Some(Duration::ZERO))]);
    assert!(leased.try_check(b"a", 1).is_none());
    let mut check = core::pin::pin!(leased.check(b"a"));
    let mut context = core::task::Context::from_waker(core::task::Waker::noop());
    while check.as_mut().poll(&mut context).is_pending() {}
    assert!(leased.try_check(b"a", 1).is_some_and(|answer| answer.decision.is_err()));
    assert_eq!(leased.stats().from_memory, 1);
}

#[test]
fn threads_spend_no_more_than_was_granted() {
    let source =
        Scripted { replies: vec![Reply::Cells(u64::MAX)], next: RelaxedCounter::default() };
    let clock = Arc::new(ManualClock::new());
    clock.set(Tick::from_nanos(9));
    let leased = Leased::builder(source).clock(clock).build().expect("in range");
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().expect("a runtime");
    let admitted: u64 = runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..4 {
            let leased = leased.clone();
            tasks.spawn(async move {
                let mut admitted = 0;
                for _ in 0..20_000 {
                    admitted += u64::from(is_ok(&leased.check(b"key").await));
                }
                admitted
            });
        }
        tasks.join_all().await.into_iter().sum()
    });
    let stats = leased.stats();
    assert!(admitted <= stats.cells_taken, "{admitted} of {stats:?}");
    assert_eq!(stats.decisions(), 80_000);
    assert!(admitted > 10_000 && stats.from_lease > 10 * stats.calls, "{admitted} of {stats:?}");
    assert_eq!(leased.source().next.read(), stats.calls);
}
