use core::time::Duration;

use super::*;
use crate::algo::{Rebase, StateMachine, Step};
use crate::time::ManualClock;

const NOW: Tick = Tick::from_nanos(77_000_000_123);
const LATER: Tick = Tick::from_nanos(97_000_000_123);

/// Everything that a machine reports of itself, and of a key after two charges.
pub(in crate::algo) fn said(machine: &impl StateMachine) -> String {
    let now = LATER;
    let of_itself = (
        (machine.ring_cells(), machine.has_note(), machine.cells_to_clear()),
        (machine.fresh(now), machine.starts_in_debt(), machine.instant(now)),
        (machine.skew_tolerance(), machine.horizon(), machine.remembers_denials()),
        (machine.liveness(machine.fresh(now), 5), machine.grid().ratio(), machine.may_delay()),
    );
    let (all_were, puts, word, ring) = published(machine);
    let (instant, seen) = (machine.instant(now), machine.read(word, &ring[..], now, 1));
    let of_a_key = (
        (all_were, puts, word, machine.note(seen, 1)),
        (machine.liveness(word, instant), machine.owed(word, &ring[..], instant)),
        (machine.idle_in(word, instant), machine.idle_in(machine.fresh(now), instant)),
        (machine.answer(seen, now, 1), machine.no_slot(word, now, Duration::from_secs(1))),
    );
    format!("{of_itself:?} {of_a_key:?}")
}

type Published = (bool, [(usize, u64); 4], u64, [u64; 16]);

/// The cells that two charges, one after the other, publish to the ring, whether both succeeded, and the state
/// after them.
fn published(machine: &impl StateMachine) -> Published {
    let (mut ring, mut puts, mut count) = ([0; 16], [(0, 0); 4], 0);
    let mut word = machine.fresh(NOW);
    let mut all_were = true;
    for now in [NOW, LATER] {
        let view = machine.read(word, &ring[..], now, 1);
        let Step::Admit { next } = machine.step(view, now, 1) else { break };
        let begun = count;
        all_were &= machine.publish(view, &ring[..], |place, content| {
            puts[count] = (place, content);
            count += 1;
            true
        });
        puts[begun..count].iter().for_each(|(place, content)| ring[*place] = *content);
        word = next;
    }
    (all_were, puts, word, ring)
}

/// How a machine follows the wall clock, which shows `unix_nanos` at first, then is set forward by a minute and a
/// half, and back again.
fn said_of_the_wall_clock<M: Rebase>(mut machine: M, unix_nanos: u64) -> String {
    let clock = ManualClock::starting_at_unix_nanos(ORIGIN);
    clock.set(LATER);
    clock.set_unix_nanos(unix_nanos);
    let seen = |machine: &M| {
        let still = machine.still_at(|| LATER, &clock);
        let ahead = still.map(|still| (still.wall_ahead_nanos(), still.instant(LATER)));
        (machine.as_built_at(LATER, &clock), ahead, machine.wall_shift_nanos())
    };
    let as_built = (machine.is_still(), machine.wall_ahead_nanos(), seen(&machine));
    #[cfg(feature = "shared-memory")]
    let follows = machine.wall_clock_mut().is_some();
    #[cfg(not(feature = "shared-memory"))]
    let follows = machine.set_utc_offset_secs(0);
    assert_ne!(follows, machine.is_still());
    clock.set_unix_nanos(unix_nanos + 90_000_000_000);
    let forward = (machine.set_utc_offset_secs(7), seen(&machine));
    clock.set_unix_nanos(unix_nanos);
    format!("{as_built:?} {follows} {forward:?} {:?}", seen(&machine))
}

/// A Unix time that begins no minute.
const ORIGIN: u64 = 1_700_000_000_123_456_789;

fn is_as<A>(algorithm: A, quota: &Quota)
where
    A: Algorithm<Params: Rebase> + Into<AnyAlgorithm> + Copy,
{
    let params = || {
        let (one, any) = (algorithm.params(quota, ORIGIN), algorithm.into().params(quota, ORIGIN));
        (one.expect("in range"), any.expect("in range"))
    };
    let (one, any) = params();
    assert_eq!(said(&any), said(&one));
    assert_eq!((any.lease_cells(), any.is_still()), (one.lease_cells(), one.is_still()));
    // As it was when the limiter was built, or earlier than that. Clones share the wall clock that they have read.
    for unix_nanos in [ORIGIN + LATER.as_nanos(), ORIGIN - 200_000_000_000] {
        let (one, any) = params();
        let said = said_of_the_wall_clock(one, unix_nanos);
        assert_eq!(said_of_the_wall_clock(any, unix_nanos), said);
    }
}

#[test]
fn any_algorithm_reports_and_publishes_what_the_algorithm_itself_does() {
    let quota = Quota::per_minute(2);
    each_named!(algorithm => is_as(algorithm, &quota));
    is_as(Gcra::new(), &Quota::per_second(1_000_000_000));
    is_as(WarmUp::new(Duration::from_secs(9)), &quota);
    is_as(Gcra::start_empty(), &quota);
    is_as(SlidingLog::new().count_denials(), &quota);
    is_as(FixedWindow::anchored().leases(1), &quota);
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let error = "tocken-bucket".parse::<AnyAlgorithm>().expect_err("mistyped");
    let known = "gcra, fixed-window, fixed-window-aligned, leaky-queue, sub-windows, sliding-counter, sliding-log";
    assert_eq!(error.to_string(), format!("no algorithm has this name: use one of {known}"));
}

#[test]
fn a_bucket_that_starts_empty_does_so_as_any_algorithm() {
    let (empty, quota) = (Gcra::start_empty(), Quota::per_minute(2));
    let (one, any) = (empty.params(&quota, 0), AnyAlgorithm::from(empty).params(&quota, 0));
    let (one, any) = (one.expect("in range"), any.expect("in range"));
    assert!(any.starts_in_debt() && one.cells_to_clear() == 0);
    assert_eq!((any.fresh(NOW), any.cells_to_clear()), (one.fresh(NOW), 0));
}
