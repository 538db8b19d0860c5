//! A pardon or an eviction between the two steps of a request that prolongs a ban, and a clock that is behind.

use core::time::Duration;

use super::{Penalties, PenaltyDenied};
use crate::algo::gcra::Gcra;
use crate::limiter::Limiter;
use crate::quota::Quota;
use crate::time::{ManualClock, Tick};

fn at(seconds: u64) -> Tick {
    Tick::from_duration(Duration::from_secs(seconds))
}

/// A denial bans for a minute, and every request prolongs the ban.
fn prolonged() -> Penalties<u64, Gcra, ManualClock> {
    let limiter = Limiter::builder(Quota::per_hour(1)).clock(ManualClock::new());
    let limiter = limiter.build().expect("in range");
    Penalties::builder(limiter, Quota::per_hour(1), Duration::from_secs(60))
        .capacity(1)
        .prolonged()
        .build()
        .expect("in range")
}

#[test]
fn a_request_that_found_a_ban_begins_none_if_the_key_was_pardoned_since() {
    let gate = prolonged();
    assert!(gate.ask(&7).cells(2).at(at(0)).check().is_err());
    let found = gate.ban_ends_in(&7, at(10)).expect("banned");
    gate.pardon(&7);
    let denied = gate.deny_banned(&7, found, at(10));
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(50)));
    assert_eq!(gate.ask(&7).at(at(10)).banned(), None);
    assert!(gate.ask(&7).at(at(10)).check().is_ok());
}

#[test]
fn a_request_that_found_a_ban_begins_none_if_the_ban_was_evicted_since() {
    let gate = prolonged();
    assert!(gate.ask(&7).cells(2).at(at(0)).check().is_err());
    let found = gate.ban_ends_in(&7, at(10)).expect("banned");
    let others = (8..1_000).take_while(|_| gate.ask(&7).at(at(10)).banned().is_some());
    others.for_each(|key| assert!(gate.ask(&key).cells(2).at(at(10)).check().is_err()));
    let denied = gate.deny_banned(&7, found, at(10));
    assert_eq!(denied.retry_after(), Some(Duration::from_secs(50)));
    assert_eq!(gate.ask(&7).at(at(10)).banned(), None);
    assert_eq!(gate.stats_at(at(10)).forgotten, 1, "it evicts no other ban");
}

#[test]
fn a_clock_that_is_behind_shortens_no_ban() {
    let gate = prolonged();
    assert!(gate.ask(&7).cells(2).at(at(100)).check().is_err());
    for (now, left) in [(99, 61), (100, 60), (130, 60), (129, 61), (189, 60), (250, 0)] {
        let denied = gate.ask(&7).at(at(now)).check().err();
        let wait = denied.and_then(|denied| denied.retry_after()).unwrap_or_default();
        assert_eq!(wait, Duration::from_secs(left), "at {now} s");
    }
}

#[test]
fn a_request_that_found_a_ban_begins_none_if_the_ban_has_ended_since() {
    let gate = prolonged();
    assert!(gate.ask(&7).cells(2).at(at(0)).check().is_err());
    let found = gate.ban_ends_in(&7, at(59)).expect("banned");
    assert_eq!(gate.deny_banned(&7, found, at(60)).retry_after(), Some(Duration::from_secs(1)));
    assert_eq!(gate.ask(&7).at(at(60)).banned(), None);
}

#[test]
fn a_request_in_the_last_nanosecond_of_a_ban_prolongs_it() {
    let gate = prolonged();
    assert!(gate.ask(&7).cells(2).at(at(0)).check().is_err());
    let last = Tick::from_nanos(at(60).as_nanos() - 1);
    let denied = gate.ask(&7).at(last).check().expect_err("banned still");
    assert!(denied.retry_after() > Some(Duration::from_millis(59_999)), "{denied}");
}

/// Two strikes in an hour ban for a minute.
fn by_two_strikes() -> Penalties<u64, Gcra, ManualClock> {
    let limiter = Limiter::builder(Quota::per_hour(1)).clock(ManualClock::new());
    let limiter = limiter.build().expect("in range");
    Penalties::builder(limiter, Quota::per_hour(2), Duration::from_secs(60))
        .build()
        .expect("in range")
}

#[test]
fn a_ban_is_told_from_a_denial_and_says_whether_it_begins() {
    let gate = by_two_strikes();
    assert_eq!(gate.banned(&7), None);
    let deny = || gate.ask(&7).cells(2).at(at(0)).check().expect_err("more than ever fit");
    assert!(matches!(deny(), PenaltyDenied::Limited(_)));
    assert_eq!(gate.banned(&7), None);
    assert_eq!(deny().to_string(), "banned for 60s");
    assert_eq!(deny().to_string(), "banned for another 60s");
    assert_eq!(gate.banned(&7), Some(Duration::from_secs(60)));
}

#[test]
fn a_strike_after_the_last_one_of_another_thread_begins_the_ban_if_that_thread_has_not() {
    let gate = by_two_strikes();
    assert!(gate.strikes.ask(&7).cells(2).at(at(0)).check().is_ok());
    let ban = gate.ask(&7).at(at(0)).strike().expect("a third strike");
    assert!(ban.begins());
    assert_eq!(gate.stats_at(at(0)).bans, 1);
}

#[test]
fn a_strike_while_another_thread_begins_the_ban_is_forgotten_with_the_others() {
    let gate = by_two_strikes();
    assert!(gate.bans.ask(&7).at(at(0)).check().is_ok());
    let denied = gate.limiter().ask(&7).cells(2).at(at(0)).check().expect_err("one fits");
    let denied = gate.count_denial(&7, denied, at(0));
    assert_eq!(denied.to_string(), "banned for another 60s");
    // One strike after the ban is the first of two.
    assert!(gate.ask(&7).at(at(60)).strike().is_none());
    assert!(gate.ask(&7).at(at(60)).strike().is_some_and(|ban| ban.begins()));
}
