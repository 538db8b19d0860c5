//! Queues in front of every algorithm: waiters go ahead in order, each exactly when the oracle admits it, and
//! each waiter is woken.
//!
//! Time is simulated: a waiter is polled when its sleep ends or when it is woken, and at no other time.

use std::cell::Cell;
use std::future::{Future, Pending, pending};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use proptest::prelude::*;
use tollgate::dynamic::DynamicGcra;
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::{Oracle, Verdict};
use tollgate::wait::{WaitError, WaitQueue, Waited};
use tollgate::{
    AnyAlgorithm, Direct, FixedWindow, Gcra, LeakyQueue, Limiter, ManualClock, Quota,
    SlidingCounter, SlidingLog, SubWindows, Tick, WarmUp,
};

const MILLI: u64 = 1_000_000;
const LIMIT: u64 = 4;

fn quota() -> Quota {
    Quota::new(LIMIT, Duration::from_millis(100))
}

/// Notes that the waiter was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type Answer = Result<Waited, WaitError>;

/// A waiter as an executor holds it.
struct Task<'a> {
    wait: Pin<Box<dyn Future<Output = Answer> + 'a>>,
    /// When its sleep ends.
    wakes_at: std::rc::Rc<Cell<u64>>,
    woken: Arc<Woken>,
    cells: u64,
    number: usize,
}

impl Task<'_> {
    fn poll(&mut self) -> Poll<Answer> {
        self.woken.0.store(false, Ordering::Relaxed);
        let waker = Waker::from(Arc::clone(&self.woken));
        self.wait.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn is_woken(&self) -> bool {
        self.woken.0.load(Ordering::Relaxed)
    }
}

/// When a waiter went ahead, its number, and its cells.
type Grant = (u64, usize, u64);

/// Plays all tasks until `end`, polling each only when it wakes. Adds what is granted.
fn play(tasks: &mut Vec<Task<'_>>, clock: &ManualClock, end: u64, grants: &mut Vec<Grant>) {
    for _ in 0..200_000 {
        let now = tollgate::Clock::now(clock).as_nanos();
        let woken = tasks.iter().position(Task::is_woken);
        let index = match woken {
            Some(index) => index,
            None => {
                let next = tasks.iter().enumerate().min_by_key(|(_, task)| task.wakes_at.get());
                let Some((index, task)) = next else { return };
                if task.wakes_at.get() > end {
                    return;
                }
                clock.set(Tick::from_nanos(task.wakes_at.get().max(now)));
                index
            }
        };
        if let Poll::Ready(answer) = tasks[index].poll() {
            let task = tasks.remove(index);
            answer.expect("no waiter has a deadline");
            let now = tollgate::Clock::now(clock).as_nanos();
            grants.push((now, task.number, task.cells));
        }
    }
    panic!("waiters poll again and again");
}

/// One act: a gap in time, the cells of the waiter that joins then, and the waiter that leaves.
type Act = (u64, u64, Option<prop::sample::Index>);

fn acts(cells: u64) -> impl Strategy<Value = Vec<Act>> {
    let gap = prop_oneof![2 => Just(0), 2 => 0..30 * MILLI, 1 => 0..400 * MILLI];
    let leaves = prop_oneof![4 => Just(None), 1 => any::<prop::sample::Index>().prop_map(Some)];
    prop::collection::vec((gap, 1..=cells, leaves), 1..25)
}

/// The time at which the first of the line may go ahead, without a delay; it is then charged.
fn turn(oracle: &mut impl Oracle, mut now: u64, cells: u64) -> u64 {
    loop {
        let mut trial = oracle.clone();
        let Verdict { admitted, delay, retry_after, .. } =
            trial.decide(Tick::from_nanos(now), cells);
        match (admitted, delay.is_zero()) {
            (true, true) => {
                *oracle = trial;
                return now;
            }
            (true, false) => now += u64::try_from(delay.as_nanos()).expect("short"),
            (false, _) => {
                oracle.decide(Tick::from_nanos(now), cells);
                let wait = retry_after.expect("it fits").as_nanos();
                now += u64::try_from(wait).expect("short");
            }
        }
    }
}

/// Plays `acts` in front of a limiter, and compares with its oracle.
macro_rules! played {
    ($algorithm:expr, $acts:expr, $may_leave:expr) => {{
        let clock = ManualClock::new();
        let built = Direct::builder(quota()).algorithm($algorithm).clock(clock.clone()).build();
        let limiter = built.expect("in range");
        let mut oracle = limiter.params().oracle();
        let queue = WaitQueue::new(limiter);
        let (mut tasks, mut grants, mut now) = (Vec::new(), Vec::new(), 0);
        let mut joined = Vec::new();
        for (number, (gap, cells, leaves)) in $acts.into_iter().enumerate() {
            now += gap;
            play(&mut tasks, &clock, now, &mut grants);
            clock.set(Tick::from_nanos(now));
            let wakes_at = std::rc::Rc::new(Cell::new(u64::MAX));
            let (told, time) = (std::rc::Rc::clone(&wakes_at), clock.clone());
            let wait =
                queue.ask(&()).cells(cells).wait_async(move |span: Duration| -> Pending<()> {
                    let now = tollgate::Clock::now(&time);
                    told.set(now.saturating_add(span).as_nanos());
                    pending()
                });
            let woken = Arc::new(Woken(AtomicBool::new(true)));
            joined.push((now, cells));
            tasks.push(Task { wait: Box::pin(wait), wakes_at, woken, cells, number });
            play(&mut tasks, &clock, now, &mut grants);
            if let Some(index) = leaves.filter(|_| $may_leave && !tasks.is_empty()) {
                drop(tasks.remove(index.index(tasks.len())));
                play(&mut tasks, &clock, now, &mut grants);
            }
        }
        play(&mut tasks, &clock, u64::MAX - 1, &mut grants);
        assert!(tasks.is_empty(), "{} waiters were never woken", tasks.len());
        assert_eq!(queue.waiting(), 0);
        // Those granted at one instant are polled in the order of their wake-ups.
        grants.sort_unstable();
        let in_order = grants.windows(2).all(|two| two[0].1 < two[1].1);
        assert!(in_order, "first come, first served: {grants:?}");
        if $may_leave {
            for (at, _, cells) in grants {
                let verdict = oracle.decide(Tick::from_nanos(at), cells);
                assert!(verdict.admitted && verdict.delay.is_zero(), "above the limit at {at}");
            }
        } else {
            let mut last = 0;
            for ((arrived, cells), (at, ..)) in joined.into_iter().zip(grants) {
                last = turn(&mut oracle, last.max(arrived), cells);
                assert_eq!(at, last, "the turn of the oracle");
            }
        }
    }};
}

/// The tests of an algorithm, whose requests have up to so many cells.
macro_rules! waits {
    ($($name:ident: $algorithm:expr, $cells:expr;)*) => {$(
        mod $name {
            use super::*;

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(300))]

                #[test]
                fn waiters_get_the_turns_of_the_exact_model(acts in acts($cells)) {
                    played!($algorithm, acts, false);
                }

                #[test]
                fn whoever_leaves_the_others_go_ahead_in_order_within_the_limit(
                    acts in acts($cells),
                ) {
                    played!($algorithm, acts, true);
                }
            }
        }
    )*};
}

waits! {
    fixed_window: FixedWindow::aligned(), LIMIT;
    anchored_window: FixedWindow::anchored(), LIMIT;
    sub_windows: SubWindows::new(), LIMIT;
    sliding_counter: SlidingCounter::new(), LIMIT;
    sliding_log: SlidingLog::new(), LIMIT;
    counting_log: SlidingLog::new().count_denials(), LIMIT;
    leaky_queue: LeakyQueue::new(), LIMIT;
    warm_up: WarmUp::new(Duration::from_millis(200)), LIMIT;
    any_log: AnyAlgorithm::from(SlidingLog::new()), LIMIT;
    any_counting_log: AnyAlgorithm::from(SlidingLog::new().count_denials()), LIMIT;
    dynamic_gcra: DynamicGcra::new(), LIMIT;
    gcra: Gcra::new(), LIMIT;
}

/// Each key has a queue of its own, and a caller that cannot be served in time learns it at once.
#[test]
fn keys_wait_apart_and_a_deadline_holds() {
    let clock = ManualClock::new();
    let limiter: Limiter<str, SlidingLog, ManualClock> = Limiter::<str>::builder(quota())
        .algorithm(SlidingLog::new())
        .clock(clock.clone())
        .build()
        .expect("in range");
    let queue = WaitQueue::new(limiter);
    assert!(queue.ask("a").cells(LIMIT).wait().is_ok());
    let told = queue.ask("a").max_delay(Duration::from_millis(99)).wait();
    assert_eq!(told, Err(WaitError::TooLate { wait: Duration::from_millis(100) }));
    let never = queue.ask("a").cells(LIMIT + 1).wait();
    assert_eq!(never, Err(WaitError::NeverFits { burst: LIMIT }));
    assert!(queue.ask("b").max_delay(Duration::ZERO).wait().is_ok(), "another key");

    let mut first = Box::pin(queue.ask("a").wait_async(|_| pending::<()>()));
    let mut context = Context::from_waker(Waker::noop());
    assert!(first.as_mut().poll(&mut context).is_pending());
    // A caller outside takes what the first waits for.
    clock.advance(Duration::from_millis(100));
    assert!(queue.limiter().check_n("a", LIMIT).is_ok());
    let mut second = Box::pin(
        queue.ask("a").max_delay(Duration::from_millis(100)).wait_async(|_| pending::<()>()),
    );
    assert!(second.as_mut().poll(&mut context).is_pending());
    clock.advance(Duration::from_millis(100));
    assert!(queue.limiter().check_n("a", LIMIT).is_ok(), "and again");
    assert!(first.as_mut().poll(&mut context).is_pending(), "it has no deadline");
    let overtaken = Err(WaitError::Overtaken { wait: Duration::from_millis(100) });
    assert_eq!(second.as_mut().poll(&mut context), Poll::Ready(overtaken));
    clock.advance(Duration::from_millis(100));
    assert!(first.as_mut().poll(&mut context).is_ready());
}

/// A denial that is counted delays the next turn, so the first waiter asks only when its turn has come.
#[test]
fn a_second_waiter_does_not_delay_the_first_where_denials_are_counted() {
    let clock = ManualClock::new();
    let limiter: Limiter<str, SlidingLog, ManualClock> =
        Limiter::<str>::builder(Quota::per_second(1))
            .algorithm(SlidingLog::new().count_denials())
            .clock(clock.clone())
            .build()
            .expect("in range");
    let queue = WaitQueue::new(limiter);
    assert!(queue.ask("a").wait().is_ok());
    let mut context = Context::from_waker(Waker::noop());
    let [mut first, mut second] =
        [(); 2].map(|()| Box::pin(queue.ask("a").wait_async(|_| pending::<()>())));
    let mut at = |millis: u64, waiter: &mut (dyn Future<Output = Answer> + Unpin)| {
        clock.set(Tick::from_nanos(millis * MILLI));
        Pin::new(waiter).poll(&mut context).is_ready()
    };
    assert!(!at(100, &mut first), "counted: its turn is a second later");
    assert!(!at(600, &mut second));
    assert!(!at(1_099, &mut second));
    assert!(at(1_100, &mut first));
    assert!(!at(2_099, &mut second), "denied when it became the first: its turn is a second later");
    assert!(at(2_100, &mut second));
}
