//! The default clock: threads correct it while others read it.
//!
//! The protocols are in `src/time/disciplined/mod.rs` and `src/sync/stamped.rs`.

#![cfg(tollgate_loom)]

use std::sync::Arc;

use loom::thread;
use loom_tests::{
    Preemptions, catch_three, catch_two, each_of, explore_four_to, explore_latest, explore_two_to,
};
use tollgate::internals::{Disciplined, Fault, Sample, TimeSource, plant};

/// The first line is used for a million ticks. It takes a tick for a nanosecond.
const SPAN: u64 = 1_000_000;
/// The counter is too fast by 500 in a million, so in that time the clock gains this many nanoseconds.
const AHEAD: u64 = 500;
/// The line ends this many nanoseconds after it begins.
const END: u64 = SPAN - AHEAD;
const MILLI: u64 = 1_000_000;

/// Both clocks at one moment, this many nanoseconds after the first line has begun.
struct At(u64);

impl TimeSource for At {
    fn ticks(&self) -> u64 {
        // At the line's end, these are exactly its ticks.
        self.0 + self.0 * AHEAD / END
    }

    fn sample(&self) -> Sample {
        Sample { ticks: self.ticks(), nanos: self.0 }
    }
}

fn clock() -> Arc<Disciplined> {
    Arc::new(Disciplined::new(At(0).sample(), 1 << 32))
}

/// The time that a slow thread reads at `nanos`, while other threads have reached `latest`. It is between the two to
/// the tick, or at most [`AHEAD`] later.
fn read_slowly(clock: &Disciplined, nanos: u64, latest: u64) -> u64 {
    let read = clock.now(&At(nanos));
    let right = nanos - 1..=latest + AHEAD;
    assert!(right.contains(&read), "at {nanos} to {latest} the clock reads {read}: off");
    read
}

/// The time that a thread reads at `nanos` without other threads.
fn read(clock: &Disciplined, nanos: u64) -> u64 {
    read_slowly(clock, nanos, nanos)
}

/// Two threads find that the line has ended, and one that was reading it goes on reading. The clock is
/// ahead, so it has to be slowed.
fn two_correct_while_one_reads() {
    let clock = clock();
    let last = each_of(3, &clock, |clock, number| match number {
        0 => {
            let earlier = read_slowly(clock, END - 100, END + 100);
            let later = read_slowly(clock, END + 150, END + 150);
            // Where the line is half replaced, the reader reads the system's clock.
            assert!(later + AHEAD > earlier, "{earlier}, then {later}: back");
            later
        }
        1 => read_slowly(clock, END + 50, END + 150),
        _ => read_slowly(clock, END + 100, END + 150),
    });
    let now = read(&clock, END + 200);
    assert!(last.iter().all(|&last| last <= now), "{last:?}, then {now}: back");
    // The next correction brings it to the system's time.
    read(&clock, END + 9 * MILLI);
    assert_eq!(read(&clock, END + 500 * MILLI), END + 500 * MILLI);
}

#[test]
fn two_corrections_at_once_beside_a_reader_keep_the_time() {
    let name = "clock: 2 correct, 1 reads, 3 threads";
    explore_latest(name, 3, Preemptions::To(4), two_correct_while_one_reads);
}

#[test]
fn two_threads_that_correct_at_once_read_no_earlier_time_later() {
    explore_two_to("clock: 2 threads correct", 2, Preemptions::To(3), || {
        let clock = clock();
        let last = each_of(2, &clock, |clock, number| {
            read_slowly(clock, END + 10 * number as u64, END + 10)
        });
        let now = read(&clock, END + 200);
        assert!(last.iter().all(|&last| last <= now), "{last:?}, then {now}: back");
    });
}

/// The line is replaced twice while a thread reads it.
fn replaced_twice_while_read() {
    let clock = clock();
    let other = Arc::clone(&clock);
    let writer = thread::spawn(move || {
        read(&other, 3 * MILLI);
        read(&other, 60 * MILLI);
    });
    // The reader has read the counter before, and is slow.
    let slow = clock.now(&At(END - 100));
    let starts = [END - 100, 3 * MILLI, 60 * MILLI];
    let is_right = |start: &u64| (start - 1..=start + AHEAD).contains(&slow);
    assert!(starts.iter().any(is_right), "the clock reads {slow}: torn");
    writer.join().unwrap();
    read(&clock, 61 * MILLI);
}

#[test]
fn a_line_replaced_twice_while_it_is_read_is_not_torn() {
    explore_two_to(
        "clock: replaced twice while read",
        2,
        Preemptions::To(3),
        replaced_twice_while_read,
    );
}

/// The planted fault: a reader takes the beginning of one line and the time of another.
#[test]
#[should_panic(expected = "torn")]
fn without_the_second_stamp_a_torn_line_reads_a_time_that_never_was() {
    plant(Fault::TornLine);
    catch_two("clock: torn line", replaced_twice_while_read);
}

/// A thread samples both clocks, and is then delayed while another thread corrects.
fn one_is_late() {
    let clock = clock();
    each_of(2, &clock, |clock, number| match number {
        0 => {
            let late = clock.now(&At(END));
            // It reads the time of its sample, or the time at which the other thread's line begins.
            assert!([END, END + AHEAD, 5 * MILLI].contains(&late), "late, it reads {late}: off");
            0
        }
        _ => read(clock, 5 * MILLI),
    });
    read(&clock, 5 * MILLI + MILLI / 5);
}

#[test]
fn a_correction_that_comes_late_changes_nothing() {
    explore_two_to("clock: a late correction", 2, Preemptions::To(3), one_is_late);
}

/// The planted fault: a thread replaces a line that is newer than its sample.
#[test]
#[should_panic(expected = "off")]
fn a_line_replaced_by_an_older_sample_is_ahead() {
    plant(Fault::SampleStale);
    catch_three("clock: a stale sample", one_is_late);
}

#[test]
#[ignore = "4 threads: in the full run"]
fn three_corrections_at_once_beside_a_reader_keep_the_time() {
    explore_four_to(Preemptions::To(2), "clock: 3 correct, 1 reads, 4 threads", || {
        let clock = clock();
        let last = each_of(4, &clock, |clock, number| match number {
            0 => read_slowly(clock, END - 100, END + 90),
            _ => read_slowly(clock, END + 30 * number as u64, END + 90),
        });
        let now = read(&clock, END + 200);
        assert!(last.iter().all(|&last| last <= now), "{last:?}, then {now}: back");
    });
}
