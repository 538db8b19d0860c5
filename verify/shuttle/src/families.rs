//! The families of histories. Each is a limiter and the requests that it gets.
//!
//! Families are functions, so that the same ones are played with and without a planted fault.

use std::sync::Arc;
use std::time::Duration;

use shuttle::thread;
use tollgate::algorithm::Algorithm;
use tollgate::dynamic::DynamicGcra;
use tollgate::internals::oracle::{Level, Oracle};
use tollgate::limiter::SlotLayout;
use tollgate::{FixedWindow, Gcra, OnFull, Quota, SlidingLog, SubWindows, Tick};

use crate::explore::{History, Played};
use crate::in_flight::{self, play_in_flight};
use crate::play::{Family, Keyed, bare, burst, two_slots};
use crate::quota_changes::play_changes;
use crate::reservations::play_reservations;
use crate::script::{BEGIN, Clocks, Mix, at};

/// One bucket, asked by threads whose clocks differ.
const BUCKET: Mix = Mix { keys: 1, cells_max: 2, clocks: Clocks::Differ, reset_in: 8 };
/// One bucket whose ring is in use when the threads begin, and stays so.
const RING: Mix = Mix { reset_in: 0, ..BUCKET };
/// More keys than slots. Slots become vacant all the time.
const KEYS: Mix = Mix { keys: 3, cells_max: 2, clocks: Clocks::Stand, reset_in: 4 };
/// Two keys that have slots when the threads begin.
const CLAIMED: Mix = Mix { keys: 2, ..RING };

fn of<O>(mix: Mix, burst: u64, before: u64) -> Family<O> {
    Family { mix, burst, before, before_is_live: false, claimed_state: None }
}

/// The state of a bucket of one cell a second whose key was claimed at `time`. It equals that of a bucket
/// in which a cell was spent one second before.
fn claimed_at(fresh: &Level, time: Tick) -> Level {
    let mut claimed = fresh.clone();
    let spent = time.saturating_sub(Duration::from_secs(1));
    assert!(claimed.decide(spent, 1).admitted, "the first cell of a bucket");
    claimed
}

fn two_seconds(cells: u64) -> Quota {
    Quota::new(cells, Duration::from_secs(2))
}

fn sub_windows() -> SubWindows {
    SubWindows::new().count(2)
}

/// A token bucket without keys.
pub fn direct_bucket() -> Played {
    of(BUCKET, 3, 0).play(bare(Gcra::new(), burst(3)))
}

/// A fixed window without keys.
pub fn direct_window() -> Played {
    of(BUCKET, 3, 0).play(bare(FixedWindow::anchored(), two_seconds(3)))
}

/// Sub-windows without keys, whose head advances all the time.
pub fn direct_sub_windows() -> Played {
    of(RING, 3, 1).play(bare(sub_windows(), two_seconds(3)))
}

/// Sub-windows without keys, which are reset all the time.
pub fn direct_sub_windows_reset() -> Played {
    of(Mix { clocks: Clocks::Stand, ..BUCKET }, 3, 1).play(bare(sub_windows(), two_seconds(3)))
}

/// A log without keys, whose head advances all the time.
pub fn direct_log() -> Played {
    of(RING, 3, 1).play(bare(SlidingLog::new(), two_seconds(3)))
}

/// A log without keys, which is reset all the time.
pub fn direct_log_reset() -> Played {
    of(Mix { clocks: Clocks::Stand, ..BUCKET }, 3, 1).play(bare(SlidingLog::new(), two_seconds(3)))
}

/// Keys that are claimed, reset, and taken over once idle, in slots of two words.
pub fn wide_claims() -> Played {
    of(KEYS, 2, 2).play(two_slots(Gcra::new(), burst(2), SlotLayout::Wide, OnFull::Deny))
}

/// The same, with clocks that differ.
pub fn wide_claims_skewed() -> Played {
    let gate = two_slots(Gcra::new(), burst(2), SlotLayout::Wide, OnFull::Deny);
    let mix = Mix { clocks: Clocks::Differ, ..KEYS };
    Family { claimed_state: Some(claimed_at), ..of(mix, 2, 2) }.play(gate)
}

/// Keys that displace each other, in slots of two words.
pub fn wide_evictions() -> Played {
    of(KEYS, 2, 2).play(two_slots(
        Gcra::new(),
        burst(2),
        SlotLayout::Wide,
        OnFull::EvictNearestIdle,
    ))
}

/// Keys that are claimed, reset, and taken over once idle, in slots of one word, with clocks that differ.
pub fn compact_claims() -> Played {
    let mix = Mix { clocks: Clocks::Differ, ..KEYS };
    of(mix, 2, 2).play(two_slots(Gcra::new(), burst(2), SlotLayout::Compact, OnFull::Deny))
}

/// Keys that displace each other, in slots of one word.
pub fn compact_evictions() -> Played {
    of(KEYS, 2, 2).play(two_slots(
        Gcra::new(),
        burst(2),
        SlotLayout::Compact,
        OnFull::EvictNearestIdle,
    ))
}

/// Fixed windows of keys that are claimed, reset, and taken over.
pub fn wide_windows() -> Played {
    keys_of(FixedWindow::anchored(), OnFull::Deny)
}

/// Sub-windows of keys that are claimed, reset, and taken over.
pub fn wide_sub_windows() -> Played {
    keys_of(sub_windows(), OnFull::Deny)
}

/// Logs of keys that displace each other.
pub fn wide_logs() -> Played {
    keys_of(SlidingLog::new(), OnFull::EvictNearestIdle)
}

fn keys_of<A: Algorithm + 'static>(algorithm: A, on_full: OnFull) -> Played
where
    crate::play::Keyed<A>: crate::play::Gate,
{
    of(KEYS, 2, 2).play(two_slots(algorithm, two_seconds(2), SlotLayout::Wide, on_full))
}

/// Reservations of a bucket without keys.
pub fn direct_reservations() -> Played {
    play_reservations(bare(Gcra::new(), burst(4)), 4)
}

/// Reservations of a key in slots of two words.
pub fn wide_reservations() -> Played {
    play_reservations(two_slots(Gcra::new(), burst(4), SlotLayout::Wide, OnFull::Deny), 4)
}

/// Requests in flight, without keys.
pub fn direct_in_flight() -> Played {
    play_in_flight(in_flight::one_count(), 1)
}

/// Requests in flight of three keys that compete for two slots.
pub fn wide_in_flight() -> Played {
    play_in_flight(in_flight::two_slots(), 3)
}

/// A quota that shrinks while threads ask.
pub fn dynamic_quota() -> Played {
    play_changes(|quota| bare(DynamicGcra::new(), quota))
}

/// Logs of two keys that have slots, with clocks that differ.
pub fn claimed_logs() -> Played {
    let gate = two_slots(SlidingLog::new(), two_seconds(3), SlotLayout::Wide, OnFull::Deny);
    Family { before_is_live: true, ..of(CLAIMED, 3, 2) }.play(gate)
}

/// Two threads that claim a key, while a third makes room in the one slot and then in the other. No thread
/// resets the key, so it is granted its one cell once.
pub fn claims_while_room_is_made() -> Played {
    // The key and the other one prefer the same slot, the neighbour the other.
    let (key, neighbour, other) = (7, 1, 2);
    let gate = Arc::new(two_slots(Gcra::new(), burst(1), SlotLayout::Wide, OnFull::Deny));
    let ask = move |gate: &Keyed<Gcra>, key: u64| gate.ask(&key).at(at(BEGIN)).check().is_ok();
    assert!(ask(&gate, neighbour), "the table is empty");
    let claims = || {
        let gate = Arc::clone(&gate);
        thread::spawn(move || ask(&gate, key))
    };
    let threads = [claims(), claims(), {
        let gate = Arc::clone(&gate);
        thread::spawn(move || {
            let _ = ask(&gate, other);
            gate.reset(&neighbour);
            gate.reset(&other);
            ask(&gate, key)
        })
    }];
    let granted = threads.map(|thread| thread.join().expect("a thread panicked"));
    match granted.iter().filter(|granted| **granted).count() {
        0 | 1 => Ok(History { overlaps: true }),
        more => Err(format!("{more} of 1 cell granted")),
    }
}
