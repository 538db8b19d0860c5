//! Requests in flight: tables that fill up, limits that change, guards that are lost or dropped late.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tollgate::composite::Composite;
use tollgate::concurrency::{
    ConcurrencyBuilder, ConcurrencyError, ConcurrencyLimiter, DirectConcurrency, Guard, WhenNoSlot,
};
use tollgate::{BuildError, Direct, Gcra, Limiter, ManualClock, Quota, Tick};

type Gate = ConcurrencyLimiter<u64, ManualClock>;

/// Two buckets, so that every slot is a candidate for every key. Slack makes a small table larger.
const TINY: u64 = 8;

fn begun(limit: u64, clock: &ManualClock) -> ConcurrencyBuilder<u64, ManualClock> {
    ConcurrencyLimiter::builder(limit).clock(clock.clone()).capacity(TINY).hash_seed(1)
}

/// Enters keys from 0 on until one finds no slot.
fn fill(gate: &Gate) -> Vec<Guard<'_, Gate>> {
    (0..).map_while(|key| gate.enter(&key).ok()).collect()
}

#[test]
fn a_key_in_use_never_loses_its_slot() {
    let gate = begun(1, &ManualClock::new()).build().expect("in range");
    let mut guards = fill(&gate);
    let slots = guards.len() as u64;
    assert!(slots >= TINY);
    for newcomer in 1_000..2_000 {
        assert!(gate.enter(&newcomer).unwrap_err().found_no_slot());
    }
    assert_eq!(gate.stats().denied_full, 1_001);
    assert_eq!(gate.stats().evicted, 0);
    for key in 0..slots {
        assert!(!gate.enter(&key).unwrap_err().found_no_slot(), "{key} is counted");
    }
    drop(guards.remove(3));
    let places = (1_000..2_000).filter_map(|key| gate.enter(&key).map(std::mem::forget).ok());
    assert_eq!(places.count(), 1, "the slot that was left goes to one key at once");
}

#[test]
fn a_key_without_a_slot_is_treated_by_the_policy() {
    let clock = ManualClock::new();
    let with = |policy| begun(1, &clock).when_no_slot(policy).build().expect("in range");

    let gate = with(WhenNoSlot::Admit);
    let slots = begun(1, &clock).build().map(|gate| fill(&gate).len() as u64).expect("in range");
    let guards: Vec<_> = (0..slots + 5).map(|key| gate.enter(&key).expect("admitted")).collect();
    assert_eq!(gate.stats().admitted_full, 5);
    drop(guards);
    assert!(gate.is_empty());

    let gate = with(WhenNoSlot::SharedOverflow(3));
    let guards: Vec<_> = (0..).map_while(|key| gate.enter(&key).ok()).collect();
    assert_eq!(guards.len() as u64, slots + 3);
    assert_eq!(gate.stats().overflowed, 4);
    assert!(!gate.enter(&9_999).unwrap_err().found_no_slot(), "the shared count is full");
    let denied = gate.ask(&9_999).peek().expect_err("a peek answers as an entry would");
    assert_eq!((denied.limit(), denied.in_flight()), (3, 3));
    drop(guards);
    assert!(gate.is_empty());
    assert_eq!(
        (0..).map_while(|key| gate.enter(&key).map(std::mem::forget).ok()).count() as u64,
        slots + 3
    );
}

#[test]
fn a_composite_denies_a_key_without_a_slot_before_it_charges_another_limit() {
    let clock = ManualClock::new();
    // One limit that keys without a slot share is below that of a key, the other is above it.
    for (limit, policy) in [
        (1, WhenNoSlot::Deny),
        (1, WhenNoSlot::SharedOverflow(3)),
        (5, WhenNoSlot::SharedOverflow(2)),
    ] {
        let at_once = begun(limit, &clock).when_no_slot(policy).count_decisions();
        let at_once = at_once.build().expect("in range");
        let _guards: Vec<_> = (0..).map_while(|key| at_once.enter(&key).ok()).collect();
        let rate: Limiter<u64, Gcra, _> =
            Limiter::builder(Quota::per_hour(5)).clock(clock.clone()).build().expect("in range");
        let both = Composite::<u64>::builder().keyed("rate", &rate, |key| key);
        let both = both.keyed_in_flight("at once", &at_once, |key| key).build().expect("limits");
        for key in 5_000..5_100 {
            let denied = both.enter(&key).expect_err("neither a slot nor a shared cell");
            assert_eq!((denied.limit_name(), denied.remaining()), ("at once", 0));
            assert_eq!(denied.denied().remaining(), 0);
        }
        assert_eq!(rate.stats().claimed, 0, "no key was charged there");
        // Each of them counts as it does outside a composite.
        let after = at_once.stats();
        assert!(both.ask(&6_000).enter().is_err() && at_once.enter(&6_000).is_err());
        let counted = |stats: tollgate::stats::Stats| {
            (stats.denied.expect("counted"), stats.denied_full, stats.overflowed)
        };
        let (denied, full, overflowed) = counted(after);
        let each = u64::from(policy == WhenNoSlot::Deny);
        assert_eq!(
            counted(at_once.stats()),
            (denied + 2, full + 2 * each, overflowed + 2 * (1 - each))
        );
        // A limit before it denies: none is left in flight either.
        let spent = Direct::new(Quota::per_hour(3)).expect("in range");
        let both = Composite::<u64>::builder().shared("spent", &spent);
        let both = both.keyed_in_flight("at once", &at_once, |key| key).build().expect("limits");
        let denied = both.ask(&6_001).cells(4).check().expect_err("more than ever fit");
        assert_eq!((denied.limit_name(), denied.remaining()), ("spent", 0));
    }
}

#[test]
fn the_permit_of_a_key_without_a_slot_names_the_limit_that_such_keys_share() {
    let clock = ManualClock::new();
    let at_once = begun(2, &clock).when_no_slot(WhenNoSlot::SharedOverflow(1_000));
    let at_once = at_once.build().expect("in range");
    let slots = begun(2, &clock).build().map(|gate| fill(&gate).len() as u64).expect("in range");
    let one = Composite::<u64>::builder().keyed_in_flight("at once", &at_once, |key| key);
    let one = one.build().expect("a limit");
    let limit_and_left = |permit: &tollgate::Permit| (permit.limit(), permit.remaining());
    let mut guards = Vec::new();
    for key in 0..slots {
        guards.push(one.enter(&key).expect("a slot"));
        assert_eq!(limit_and_left(guards[guards.len() - 1].permit().permit()), (2, 1), "{key}");
    }
    for (key, left) in (slots..slots + 3).zip((0..1_000).rev()) {
        guards.push(one.enter(&key).expect("a shared cell"));
        assert_eq!(limit_and_left(guards[guards.len() - 1].permit().permit()), (1_000, left));
    }
    // A key with a slot still has its own.
    assert_eq!(limit_and_left(one.enter(&3).expect("room").permit().permit()), (2, 0));
}

#[test]
fn a_limit_that_changes_holds_for_the_next_request() {
    let gate = begun(2, &ManualClock::new()).build().expect("in range");
    let mut guards: Vec<_> = (0..2).map(|_| gate.enter(&7).expect("room")).collect();
    let denied = gate.enter(&7).unwrap_err();
    assert_eq!((denied.limit(), denied.in_flight()), (2, 2));
    gate.set_limit(3).expect("in range");
    guards.push(gate.enter(&7).expect("room"));
    gate.set_limit(1).expect("in range");
    let denied = gate.enter(&7).unwrap_err();
    assert_eq!((denied.limit(), denied.in_flight()), (1, 3));
    guards.truncate(1);
    assert!(gate.enter(&7).is_err());
    guards.clear();
    assert!(gate.enter(&7).is_ok());
    assert_eq!(gate.set_limit(0), Err(ConcurrencyError::Limit { max: 4_194_303 }));
    assert_eq!(gate.limit(), 1);
}

#[test]
fn a_wrong_choice_is_an_error_that_says_what_to_do() {
    let clock = ManualClock::new();
    let hold = Duration::from_secs;
    for (begun, error) in [
        (begun(0, &clock), ConcurrencyError::Limit { max: 4_194_303 }),
        (begun(4_194_304, &clock), ConcurrencyError::Limit { max: 4_194_303 }),
        (begun(65_536, &clock).max_hold(hold(60)), ConcurrencyError::Limit { max: 65_535 }),
        (begun(1, &clock).max_hold(Duration::from_millis(999)), ConcurrencyError::MaxHold),
        (begun(1, &clock).max_hold(Duration::MAX), ConcurrencyError::MaxHold),
        (
            begun(1, &clock).when_no_slot(WhenNoSlot::SharedOverflow(0)),
            ConcurrencyError::OverflowLimit { max: 4_194_303 },
        ),
        (begun(1, &clock).capacity(0), ConcurrencyError::Table(BuildError::ZeroCapacity)),
        (
            begun(1, &clock).max_hold(hold(1)).max_clock_skew(hold(300)),
            ConcurrencyError::Table(BuildError::SkewTooLarge { max: hold(255) / 2 }),
        ),
    ] {
        let found = begun.build().map(drop).unwrap_err();
        assert_eq!(found, error);
        assert!(found.to_string().len() > 20, "{found}");
    }
    assert!(begun(65_535, &clock).max_hold(hold(60)).build().is_ok());
    assert!(begun(4_194_303, &clock).build().is_ok());
    assert!(DirectConcurrency::builder(1).max_hold(Duration::ZERO).build().is_err());
}

/// Half an hour or 127 holds; from 17 minutes on, half a year.
#[test]
fn the_largest_clock_skew_is_as_documented() {
    let clock = ManualClock::new();
    let half_an_hour = 1_800..=2_400;
    for (hold, maxes) in [
        (1, 127..=127),
        (10, 1_270..=1_275),
        (15, half_an_hour.clone()),
        (60, half_an_hour.clone()),
        (700, half_an_hour.clone()),
        (960, half_an_hour),
        (17 * 60, 365 * 43_200..=u64::MAX),
        (86_400, 365 * 43_200..=u64::MAX),
    ] {
        let begun = begun(1, &clock).max_hold(Duration::from_secs(hold));
        match begun.max_clock_skew(Duration::MAX).build().map(drop) {
            Err(ConcurrencyError::Table(BuildError::SkewTooLarge { max })) => {
                assert!(maxes.contains(&max.as_secs()), "{hold} s: {max:?}");
            }
            other => assert!(other.is_ok() && *maxes.end() == u64::MAX, "{hold} s: {other:?}"),
        }
    }
}

#[test]
fn a_key_in_use_keeps_its_slot_where_a_clock_is_behind_by_as_much_as_the_builder_accepts() {
    let clock = ManualClock::new();
    let with = |skew| begun(1, &clock).max_hold(Duration::from_secs(1)).max_clock_skew(skew);
    let max = match with(Duration::from_secs(3_600)).build().map(drop) {
        Err(ConcurrencyError::Table(BuildError::SkewTooLarge { max })) => max,
        other => panic!("{other:?}"),
    };
    let gate = with(max).build().expect("in range");
    clock.set(Tick::from_duration(Duration::from_secs(1_000)));
    let guards = fill(&gate);
    clock.set(Tick::from_duration(Duration::from_secs(1_000) - max));
    for newcomer in 1_000..2_000 {
        assert!(gate.enter(&newcomer).unwrap_err().found_no_slot());
    }
    clock.set(Tick::from_duration(Duration::from_secs(1_000)));
    for key in 0..guards.len() as u64 {
        assert!(!gate.enter(&key).unwrap_err().found_no_slot(), "{key} is counted");
    }
}

#[test]
fn the_largest_limit_is_reached_and_left_again() {
    let gate = DirectConcurrency::new(4_194_303).expect("in range");
    let most = gate.enter_n(4_194_303).expect("room");
    assert!(gate.enter().is_err());
    drop(most);
    assert_eq!(gate.in_flight(), 0);
    assert!(gate.enter_n(u64::MAX).is_err());
}

#[test]
fn a_charge_of_nothing_is_admitted_and_holds_nothing() {
    let gate = begun(1, &ManualClock::new()).build().expect("in range");
    let none = gate.enter_n(&7, 0).expect("nothing fits");
    assert_eq!((none.cells(), gate.in_flight(&7), gate.len()), (0, 0, 0));
    let one = gate.enter(&7).expect("room");
    drop(none);
    assert_eq!(gate.in_flight(&7), 1);
    drop(one);
}

#[test]
fn an_owned_guard_outlives_the_callers_reference() {
    let gate = Arc::new(begun(1, &ManualClock::new()).build().expect("in range"));
    let guard = gate.ask(&7).enter_owned(&gate).expect("room");
    let seen = Arc::downgrade(&gate);
    drop(gate);
    assert_eq!(seen.upgrade().map(|gate| gate.in_flight(&7)), Some(1));
    drop(guard);
    assert!(seen.upgrade().is_none());
}

#[test]
fn lost_guards_expire_and_free_their_slots() {
    let clock = ManualClock::new();
    let gate = begun(1, &clock).max_hold(Duration::from_secs(60)).build().expect("in range");
    let lost = fill(&gate).into_iter().map(std::mem::forget).count();
    clock.set(Tick::from_duration(Duration::from_secs(119)));
    assert!(gate.enter(&9_999).unwrap_err().found_no_slot());
    // The slots are free once every thread's clock, which may be a millisecond behind, sees it.
    clock.set(Tick::from_duration(Duration::from_millis(120_001)));
    assert!(gate.is_empty());
    let again: Vec<_> = (10_000..).map_while(|key| gate.enter(&key).ok()).collect();
    assert_eq!(again.len(), lost);
}

struct Request {
    user: u64,
}

/// A composite keeps a request in flight, in its shadow limits too, and counts it as one whatever its cost.
#[test]
fn a_composite_keeps_its_requests_in_flight_until_the_guard_is_dropped() {
    let per_user = begun(2, &ManualClock::new()).build().expect("in range");
    let upstream = DirectConcurrency::new(3).expect("in range");
    let candidate = DirectConcurrency::new(1).expect("in range");
    let rate = Direct::new(Quota::per_day(50)).expect("in range");
    let gate = Composite::<Request>::builder()
        .keyed_in_flight("per user", &per_user, |request| &request.user)
        .shared("rate", &rate)
        .shared_in_flight("upstream", &upstream)
        .shared_in_flight("candidate", &candidate)
        .shadow()
        .build()
        .expect("all can be refunded");
    let (a, b) = (Request { user: 1 }, Request { user: 2 });
    let enter = |request| gate.ask(request).cells(10).enter();

    let first = enter(&a).expect("room");
    assert_eq!((first.permit().tightest(), first.permit().remaining()), ("rate", 40));
    assert_eq!(first.permit().would_deny(), None);
    let second = enter(&a).expect("room");
    assert_eq!(second.permit().would_deny(), Some("candidate"));
    let denied = enter(&a).unwrap_err();
    assert_eq!((denied.limit_name(), denied.by_requests_in_flight()), ("per user", true));
    assert_eq!(
        denied.to_string(),
        "denied by the limit \"per user\", too many requests are in flight"
    );
    let third = enter(&b).expect("room");
    let denied = enter(&b).unwrap_err();
    assert_eq!((denied.limit_name(), denied.remaining()), ("upstream", 0));
    assert_eq!((upstream.in_flight(), candidate.in_flight()), (3, 1));
    assert_eq!(rate.peek().expect("20 are left").remaining(), 19, "a denial charges nothing");

    drop((first, third));
    assert_eq!((per_user.in_flight(&1), upstream.in_flight(), candidate.in_flight()), (1, 1, 0));
    assert!(gate.check_n(&a, 3).is_ok(), "it is in flight while it is checked");
    assert_eq!((per_user.in_flight(&1), upstream.in_flight()), (1, 1));
    let denied = gate.check_n(&a, 30).unwrap_err();
    assert_eq!((denied.limit_name(), denied.remaining()), ("rate", 17));
    drop(second);
    assert_eq!((per_user.in_flight(&1), upstream.in_flight()), (0, 0));
    assert_eq!(gate.shadows().next().expect("one").1.would_deny, 2);
}

/// A key without a slot is denied before anything else is charged.
#[test]
fn a_composite_denies_a_key_without_a_slot_and_charges_nothing() {
    let per_user = begun(1, &ManualClock::new()).build().expect("in range");
    let _guards = fill(&per_user);
    let rate = Direct::new(Quota::per_day(5)).expect("in range");
    let gate = Composite::<Request>::builder()
        .shared("rate", &rate)
        .keyed_in_flight_by("per user", &per_user, |request| request.user)
        .build()
        .expect("both can be refunded");
    let denied = gate.enter(&Request { user: 9_999 }).unwrap_err();
    assert_eq!((denied.limit_name(), denied.by_requests_in_flight()), ("per user", true));
    assert_eq!(rate.peek().expect("untouched").remaining(), 4);
    assert_eq!(per_user.stats().denied_full, 2, "once while it was filled");
}

#[test]
fn a_guard_of_a_composite_may_own_it() {
    let upstream = Arc::new(DirectConcurrency::new(1).expect("in range"));
    let gate = Composite::<()>::builder().shared_in_flight("all", Arc::clone(&upstream)).build();
    let gate = Arc::new(gate.expect("one limit"));
    let guard = gate.ask(&()).enter_owned(&gate).expect("room");
    assert_eq!(guard.permit().tightest(), "all");
    drop(gate);
    std::thread::spawn(move || drop(guard)).join().expect("no panic");
    assert_eq!(upstream.in_flight(), 0);
}

/// A step of a script, which uses one of a few keys.
#[derive(Clone, Debug)]
enum Event {
    Enter(u64, u64),
    /// Drops the guard that was made so many before the last.
    Leave(usize),
    SetLimit(u64),
    Reset(u64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        5 => (0_u64..6, 0_u64..4).prop_map(|(key, cells)| Event::Enter(key, cells)),
        4 => (0_usize..20).prop_map(Event::Leave),
        1 => (1_u64..8).prop_map(Event::SetLimit),
        1 => (0_u64..6).prop_map(Event::Reset),
    ]
}

proptest! {
    /// The naive model: a map from keys to the guards that exist and were not reset.
    #[test]
    fn counts_are_those_of_the_guards_that_exist(
        limit in 1_u64..8, script in prop::collection::vec(event(), 1..150),
    ) {
        let clock = ManualClock::new();
        let gate = begun(limit, &clock).build().expect("in range");
        let (mut guards, mut lives) = (Vec::new(), HashMap::<u64, u64>::new());
        let mut limit = limit;
        for event in script {
            clock.advance(Duration::from_micros(7));
            let counted = |guards: &Vec<(u64, u64, Guard<'_, Gate>)>, lives: &HashMap<_, _>, key| {
                let life = lives.get(&key).copied().unwrap_or(0);
                let of_key = guards.iter().filter(|(k, l, _)| (*k, *l) == (key, life));
                of_key.map(|(.., guard)| guard.cells()).sum::<u64>()
            };
            match event {
                Event::Enter(key, cells) => {
                    let before = counted(&guards, &lives, key);
                    let entered = gate.enter_n(&key, cells);
                    prop_assert_eq!(entered.is_ok(), before + cells <= limit);
                    match entered {
                        Ok(guard) => {
                            prop_assert_eq!(guard.in_flight(), before + cells);
                            guards.push((key, lives.get(&key).copied().unwrap_or(0), guard));
                        }
                        Err(denied) => {
                            prop_assert_eq!((denied.limit(), denied.in_flight()), (limit, before));
                        }
                    }
                    prop_assert_eq!(gate.in_flight(&key), counted(&guards, &lives, key));
                }
                Event::Leave(back) if back < guards.len() => {
                    let (key, ..) = guards.remove(guards.len() - 1 - back);
                    prop_assert_eq!(gate.in_flight(&key), counted(&guards, &lives, key));
                }
                Event::Leave(_) => {}
                Event::SetLimit(next) => {
                    limit = next;
                    gate.set_limit(next).expect("in range");
                }
                Event::Reset(key) => {
                    gate.reset(&key);
                    *lives.entry(key).or_default() += 1;
                    prop_assert_eq!(gate.in_flight(&key), 0);
                }
            }
        }
        drop(guards);
        prop_assert!(gate.is_empty());
    }
}
