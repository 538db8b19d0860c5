//! Composites charge all limits or none, and answer like the oracles.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::composite::{Composite, CompositeError};
use tollgate::internals::StateMachine;
use tollgate::internals::oracle::{AnyOracle, Oracle, Verdict};
use tollgate::limiter::SlotLayout;
use tollgate::{
    AnyAlgorithm, Direct, FixedWindow, Gcra, LeakyQueue, Limiter, ManualClock, OnFull, Quota,
    SlidingCounter, SlidingLog, SubWindows, Tick, WarmUp,
};

const SECOND: u64 = 1_000_000_000;
const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
const KEYS: u8 = 3;

/// A request has one key for each limit.
type Request = [u8; NAMES.len()];
type Clocked = Limiter<u8, AnyAlgorithm, Arc<ManualClock>>;

#[derive(Clone, Copy, Debug)]
struct Limit {
    algorithm: AnyAlgorithm,
    quota: Quota,
    slots: SlotLayout,
    is_shadow: bool,
}

/// A pause, the cells and keys of a request, and whether it uses the limits' clocks or passes an instant.
type Act = (u64, u64, Request, bool);

/// Algorithms that can refund, without buckets that start empty: another test covers what a denial writes
/// there.
fn refundable() -> impl Strategy<Value = AnyAlgorithm> {
    prop_oneof![
        2 => Just(Gcra::new().into()),
        1 => Just(FixedWindow::anchored().into()),
        1 => Just(FixedWindow::aligned().into()),
    ]
}

fn any_algorithm() -> impl Strategy<Value = AnyAlgorithm> {
    prop_oneof![
        3 => refundable(),
        1 => Just(LeakyQueue::new().immediate(2).into()),
        1 => Just(WarmUp::new(Duration::from_secs(2)).max_wait(Duration::from_secs(1)).into()),
        1 => Just(SubWindows::new().into()),
        1 => Just(SlidingCounter::new().into()),
        1 => Just(SlidingLog::new().into()),
        1 => Just(SlidingLog::new().count_denials().into()),
    ]
}

fn quotas() -> impl Strategy<Value = Quota> {
    prop_oneof![
        (1_u64..12).prop_map(Quota::per_second),
        (1_u64..30, 1_u64..9).prop_map(|(limit, burst)| Quota::per_minute(limit).burst(burst)),
        Just(Quota::new(7, Duration::from_nanos(3_333_333_333))),
    ]
}

fn limits() -> impl Strategy<Value = Vec<Limit>> {
    let all_slots = prop::sample::select(vec![SlotLayout::Wide, SlotLayout::Auto]);
    let limit = |algorithm, is_shadow| {
        (algorithm, quotas(), all_slots.clone(), is_shadow).prop_map(
            |(algorithm, quota, slots, is_shadow)| Limit { algorithm, quota, slots, is_shadow },
        )
    };
    let shadows = prop::collection::vec(limit(any_algorithm().boxed(), Just(true)), 0..3);
    let first = prop::collection::vec(limit(refundable().boxed(), Just(false)), 0..4);
    let last = limit(any_algorithm().boxed(), Just(false));
    (first, last, shadows, any::<prop::sample::Index>()).prop_map(|(first, last, shadows, at)| {
        let mut limits: Vec<_> = first.into_iter().chain([last]).collect();
        // The shadow limits are next to each other, at any position.
        let at = at.index(limits.len() + 1);
        limits.splice(at..at, shadows);
        limits
    })
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let gaps = prop_oneof![4 => Just(0), 3 => 0..SECOND / 3, 1 => 0..70 * SECOND];
    let keys = prop::array::uniform8(0..KEYS);
    let cells = prop_oneof![6 => Just(1_u64), 3 => 0_u64..5, 1 => Just(40)];
    prop::collection::vec((gaps, cells, keys, any::<bool>()), 1..80)
}

/// One limit in the model, with an oracle for each key.
#[derive(Clone)]
struct Model {
    name: &'static str,
    is_shadow: bool,
    keys: [AnyOracle; KEYS as usize],
    counted: (u64, u64),
}

impl Model {
    fn key(&mut self, request: &Request) -> &mut AnyOracle {
        let index = NAMES.iter().position(|name| *name == self.name).expect("one of them");
        &mut self.keys[usize::from(request[index])]
    }

    /// The decision that it would make, with nothing charged.
    fn would_say(&self, request: &Request, now: Tick, n: u64) -> Verdict {
        self.clone().key(request).decide(now, n)
    }
}

/// A decision of a composite.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Admitted {
        tightest: &'static str,
        remaining: u64,
        delay: Duration,
        shadow: Option<&'static str>,
    },
    Denied {
        name: &'static str,
        remaining: u64,
        retry_after: Option<Duration>,
    },
}

/// The decision of all models together.
fn expected(models: &mut [Model], request: &Request, now: Tick, n: u64) -> Outcome {
    let verdicts: Vec<_> = models.iter().map(|model| model.would_say(request, now, n)).collect();
    let enforced = || (0..models.len()).filter(|&index| !models[index].is_shadow);
    if let Some(denier) = enforced().find(|&index| !verdicts[index].admitted) {
        let waits = enforced().map(|index| verdicts[index].retry_after);
        let retry_after = waits.reduce(|a, b| Some(a?.max(b?))).expect("one at least");
        let left = |index: usize| match index == denier {
            true => verdicts[index].remaining,
            false => models[index].would_say(request, now, 0).remaining,
        };
        let remaining = enforced().map(left).min().expect("one at least");
        // Some algorithms count, or remember, even what they deny.
        models[denier].key(request).decide(now, n);
        return Outcome::Denied { name: models[denier].name, remaining, retry_after };
    }
    let tightest = enforced().min_by_key(|&index| verdicts[index].remaining).expect("one");
    let delay = verdicts[enforced().next_back().expect("one")].delay;
    let (tightest, remaining) = (models[tightest].name, verdicts[tightest].remaining);
    let mut shadow = None;
    for (model, verdict) in models.iter_mut().zip(verdicts) {
        model.key(request).decide(now, n);
        if verdict.admitted {
            model.counted.0 += 1;
        } else {
            model.counted.1 += 1;
            shadow = shadow.or(Some(model.name));
        }
    }
    Outcome::Admitted { tightest, remaining, delay, shadow }
}

fn outcome(all: &Composite<'_, Request>, request: &Request, n: u64, now: Option<Tick>) -> Outcome {
    let decided = match now {
        Some(now) => all.ask(request).cells(n).at(now).check(),
        None => all.check_n(request, n),
    };
    match decided {
        Ok(granted) => Outcome::Admitted {
            tightest: granted.tightest(),
            remaining: granted.remaining(),
            delay: granted.delay(),
            shadow: granted.would_deny(),
        },
        Err(denied) => Outcome::Denied {
            name: denied.limit_name(),
            remaining: denied.remaining(),
            retry_after: denied.retry_after(),
        },
    }
}

fn agrees_with_the_oracles(limits: &[Limit], acts: &[Act]) {
    let clock = Arc::new(ManualClock::new());
    let gates: Vec<Clocked> = limits.iter().map(|limit| gate(limit, &clock)).collect();
    let mut builder = Composite::<Request>::builder();
    for (index, (limit, gate)) in limits.iter().zip(&gates).enumerate() {
        builder = builder.keyed(NAMES[index], gate, move |request: &Request| &request[index]);
        if limit.is_shadow {
            builder = builder.shadow();
        }
    }
    let all = builder.build().expect("only the last limit cannot refund");
    let model = |(index, gate): (usize, &Clocked)| Model {
        name: NAMES[index],
        is_shadow: limits[index].is_shadow,
        keys: [(); KEYS as usize].map(|()| gate.params().oracle()),
        counted: (0, 0),
    };
    let mut models: Vec<_> = gates.iter().enumerate().map(model).collect();
    let mut now = SECOND;
    for (gap, n, request, by_clock) in acts {
        now += gap;
        let tick = Tick::from_nanos(now);
        clock.set(tick);
        let outcome = outcome(&all, request, *n, (!by_clock).then_some(tick));
        assert_eq!(
            outcome,
            expected(&mut models, request, tick, *n),
            "{n} for {request:?} at {now}"
        );
    }
    let models_in_shadow = models.iter().filter(|model| model.is_shadow);
    let shadows =
        all.shadows().map(|(name, counts)| (name, (counts.would_admit, counts.would_deny)));
    assert!(shadows.eq(models_in_shadow.map(|model| (model.name, model.counted))));
    for (model, gate) in models.iter().zip(&gates).filter(|(model, _)| !model.is_shadow) {
        assert_eq!(gate.stats().admitted, Some(model.counted.0), "counted by {}", model.name);
    }
}

fn gate(limit: &Limit, clock: &Arc<ManualClock>) -> Clocked {
    Limiter::builder(limit.quota)
        .algorithm(limit.algorithm)
        .clock(Arc::clone(clock))
        .slots(limit.slots)
        .capacity(30_000) // large enough for automatic compact slots
        .hash_seed(1)
        .count_decisions()
        .build()
        .expect("in range")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_composite_charges_all_limits_or_none_as_the_oracles_say(
        limits in limits(), acts in acts(),
    ) {
        agrees_with_the_oracles(&limits, &acts);
    }
}

/// Each limit has a clock of its own, created later than the one before.
#[test]
fn limits_created_at_different_times_use_their_own_clocks() {
    let clocks: Vec<_> = (0..3).map(|_| Arc::new(ManualClock::new())).collect();
    let mut builder = Composite::<()>::builder();
    for (name, clock) in NAMES.into_iter().zip(&clocks) {
        let limit = Direct::builder(Quota::per_second(1)).clock(Arc::clone(clock)).build();
        builder = builder.shared(name, limit.expect("in range"));
    }
    let all = builder.build().expect("token buckets");
    // The first has been running for an hour when the last is created.
    for (clock, seconds) in clocks.iter().zip([3_600, 60, 0]) {
        clock.set(Tick::from_nanos(seconds * SECOND));
    }
    for _ in 0..5 {
        assert!(all.check(&()).is_ok());
        let denied = all.check(&()).expect_err("a second has to pass");
        assert_eq!(denied.retry_after(), Some(Duration::from_secs(1)));
        clocks.iter().for_each(|clock| clock.advance(Duration::from_secs(1)));
    }
}

/// With the default clocks, whose origins differ by the time between the builds of the limits.
#[test]
fn limits_with_default_clocks_do_not_share_an_origin() {
    let early: Limiter<u8> = Limiter::builder(Quota::per_hour(1)).build().expect("in range");
    std::thread::sleep(Duration::from_millis(5));
    let late: Limiter<u8> = Limiter::builder(Quota::per_hour(1)).build().expect("in range");
    assert!(late.check(&7).is_ok(), "by its own clock");
    let all =
        Composite::<u8>::builder()
            .keyed("early", &early, |key| key)
            .keyed("late", &late, |key| key);
    let denied = all.build().expect("token buckets").check(&7).expect_err("late has none left");
    assert_eq!(denied.limit_name(), "late");
    // By the clock of the early limit, which is 5 ms ahead, the wait would be 5 ms shorter.
    let own = late.check(&7).expect_err("none left").retry_after().expect("an hour");
    assert!(denied.retry_after().expect("an hour") >= own);
    assert!(early.ask(&7).peek().is_ok(), "refunded");
}

const ONE: Tick = Tick::from_nanos(SECOND);

/// A table of 16 slots, all of them taken.
fn full(on_full: OnFull) -> Limiter<u32, Gcra, ManualClock> {
    let built = Limiter::builder(Quota::per_hour(3))
        .clock(ManualClock::new())
        .capacity(1)
        .on_full(on_full)
        .slots(SlotLayout::Wide)
        .build();
    let gate: Limiter<u32, Gcra, ManualClock> = built.expect("in range");
    for key in 0..16 {
        assert!(gate.ask(&key).at(ONE).check().is_ok());
    }
    gate
}

/// The second limit is asked twice. The pre-check finds room for two cells, and the charge finds
/// none for four, as if another request had been faster.
fn after_a_denial(gate: &Limiter<u32, Gcra, ManualClock>) -> Vec<u64> {
    let open = Direct::new(Quota::per_hour(100)).expect("in range");
    let closed = Direct::new(Quota::per_hour(3)).expect("in range");
    let both = |second| {
        let all = Composite::<u32>::builder().keyed("full", gate, |key| key);
        all.shared("second", second).shared("again", second).build().expect("token buckets")
    };
    let denied = both(&closed).ask(&99).cells(2).at(ONE).check().expect_err("too few for both");
    let mut outcomes = vec![u64::from(denied.limit_name() == "full")];
    let admitted = |_| {
        both(&open).ask(&99).cells(2).at(ONE).check().map_or(0, |granted| 1 + granted.remaining())
    };
    outcomes.extend((0..3).map(admitted));
    outcomes
}

#[test]
fn a_key_without_a_slot_is_handled_by_the_policy_of_its_limit() {
    let gate = full(OnFull::Deny);
    assert_eq!(after_a_denial(&gate), [1, 0, 0, 0]);
    assert_eq!(gate.stats().denied_full, 4);
    let gate = full(OnFull::Admit);
    assert_eq!(after_a_denial(&gate), [0, 2, 2, 2]);
    assert_eq!(gate.stats().admitted_full, 4);
    // The charge of the shared bucket is refunded.
    let gate = full(OnFull::SharedOverflow(Quota::per_hour(4)));
    assert_eq!(after_a_denial(&gate), [0, 3, 1, 0]);
    assert_eq!(gate.stats().overflowed, 4);
    let gate = full(OnFull::EvictNearestIdle);
    assert_eq!(after_a_denial(&gate), [0, 2, 0, 0]);
    assert_eq!(gate.stats().evicted, 1);
}

#[test]
fn the_wait_covers_a_later_limit_in_which_the_key_finds_no_slot() {
    for on_full in [OnFull::Deny, OnFull::SharedOverflow(Quota::per_hour(1))] {
        let gate = full(on_full);
        // The first without a slot spends the shared cell.
        assert_eq!(gate.ask(&98).at(ONE).check().is_ok(), on_full != OnFull::Deny);
        let second = Direct::new(Quota::per_second(1)).expect("in range");
        assert!(second.ask().at(ONE).check().is_ok());
        let both = Composite::<u32>::builder().shared("second", &second);
        let both = both.keyed("full", &gate, |key| key).build().expect("token buckets");
        let stats = gate.stats();
        let denied = both.ask(&99).at(ONE).check().expect_err("both deny");
        assert_eq!((denied.limit_name(), denied.remaining()), ("second", 0), "{on_full:?}");
        assert_eq!(gate.stats(), stats, "a look counts nothing");
        let wait = denied.retry_after().expect("a time");
        assert_eq!(gate.ask(&99).at(ONE).check().unwrap_err().retry_after(), Some(wait));
        if on_full == OnFull::Deny {
            let early = ONE.saturating_add(wait - Duration::from_millis(1));
            assert_eq!(both.ask(&99).at(early).check().unwrap_err().limit_name(), "full");
        }
        assert!(both.ask(&99).at(ONE.saturating_add(wait)).check().is_ok(), "{on_full:?}");
    }
}

/// The policy decides about a key that finds no slot, as it does outside a composite: a bucket that starts empty
/// has nowhere to fill up.
#[test]
fn a_bucket_that_starts_empty_and_finds_no_slot_is_handled_by_the_policy() {
    for on_full in [OnFull::Admit, OnFull::SharedOverflow(Quota::per_second(2)), OnFull::Deny] {
        let built = Limiter::builder(Quota::per_hour(3)).algorithm(Gcra::start_empty());
        let built = built.clock(ManualClock::new()).slots(SlotLayout::Wide).capacity(1);
        let gate: Limiter<u32, _, _> = built.on_full(on_full).build().expect("in range");
        (0..16).for_each(|key| assert!(gate.ask(&key).at(ONE).check().is_err()));
        let open = Direct::new(Quota::per_hour(100)).expect("in range");
        let both = Composite::<u32>::builder().keyed("full", &gate, |key| key);
        let both = both.shared("open", &open).build().expect("token buckets");
        // The first denial of a shared bucket begins its time.
        let admitted = [1, 2, 2, 3]
            .map(|seconds| both.ask(&99).at(Tick::from_nanos(seconds * SECOND)).check().is_ok());
        let expected = match on_full {
            OnFull::Admit => [true; 4],
            OnFull::SharedOverflow(_) => [false, true, true, true],
            _ => [false; 4],
        };
        assert_eq!(admitted, expected, "{on_full:?}");
        let stats = gate.stats();
        let counted = stats.admitted_full + stats.overflowed + stats.denied_full;
        assert_eq!(counted, 4, "{stats:?}");
    }
}

#[test]
fn each_composite_that_cannot_be_built_returns_its_reason() {
    let bucket = || Direct::new(Quota::per_second(1)).expect("in range");
    let queue = || {
        let queue = Direct::builder(Quota::per_second(1)).algorithm(LeakyQueue::new());
        queue.build().expect("in range")
    };
    let nine = NAMES.into_iter().chain(["i"]);
    let nine = nine.fold(Composite::<()>::builder(), |all, name| all.shared(name, bucket()));
    assert_eq!(nine.build().unwrap_err(), CompositeError::TooMany { max: 8 });
    let eight = NAMES.into_iter();
    let eight = eight.fold(Composite::<()>::builder(), |all, name| all.shared(name, bucket()));
    assert_eq!(
        eight.build().expect("as many as fit").check(&()).expect("admitted").tightest(),
        "a"
    );

    let shadow_first = Composite::<()>::builder().shadow().shared("a", bucket());
    assert_eq!(shadow_first.build().unwrap_err(), CompositeError::ShadowOfNothing);
    let only_shadow = Composite::<()>::builder().shared("a", bucket()).shadow();
    assert_eq!(only_shadow.build().unwrap_err(), CompositeError::NothingEnforced);
    let queue_first = Composite::<()>::builder().shared("q", queue()).shared("a", bucket());
    let error = queue_first.build().unwrap_err();
    assert_eq!(error, CompositeError::NotLast { name: "q" });
    assert!(error.to_string().contains("\"q\""), "{error}");
    // A leaky queue may come before a shadow limit, and may be one.
    let queue_last = Composite::<()>::builder().shared("q", queue()).shared("s", bucket()).shadow();
    assert!(queue_last.build().is_ok());
    let queue_shadow =
        Composite::<()>::builder().shared("q", queue()).shadow().shared("a", bucket());
    assert!(queue_shadow.build().is_ok());
}
