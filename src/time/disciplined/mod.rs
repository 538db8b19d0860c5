//! A counter that follows the system's clock. The thread that finds the last correction old makes the next
//! one.
//!
//! # Protocol
//!
//! A reader reads the counter, takes the line in force from a [`StampedCell`], whose stamp is the line's
//! beginning, and asks the line for the time. A line is used for a limited number of ticks only. Where it
//! does not cover the counter's reading (its time is over, the process was idle, the counter jumped or
//! began anew), the thread reads the counter and the system's clock together, and replaces the line by the
//! next one. Of several threads that do so at once, one replaces the line. The others wait for nothing:
//! they have read the system's clock too, and answer with what the next line would begin with. A thread
//! that finds the line half replaced answers with the system's time.
//!
//! A thread may be delayed between its sample and its turn to replace the line. If the line in force has
//! begun after the sample, the thread changes nothing.
//!
//! # Orderings
//!
//! Those of [`StampedCell`]. The words of a line are of one version, and nothing else is shared. A line
//! that is not the latest is as good as the latest, for the ticks that it covers.
//!
//! # Guarded by
//!
//! `loom-tests/tests/clock.rs`, run by `ci/check.sh loom`, with models of a torn line and of a late
//! correction. `src/time/disciplined/tests.rs` injects drift, jumps and suspensions.

mod line;
#[cfg(all(test, not(any(tollgate_loom, tollgate_shuttle))))]
mod tests;

use self::line::{Line, WORDS, reading};
use crate::sync::{Fault, StampedCell, planted};

#[allow(unreachable_pub, reason = "models see it")]
pub use self::line::Sample;

/// A counter, and the clock that it follows.
#[allow(unreachable_pub, reason = "models see it")]
pub trait TimeSource {
    /// The counter. It may wrap around.
    fn ticks(&self) -> u64;

    /// The counter and the system's clock at one moment.
    fn sample(&self) -> Sample;
}

/// The line by which a counter is read, shared by all threads. See the [module](self).
#[derive(Debug)]
#[allow(unreachable_pub, reason = "models see it")]
pub struct Disciplined {
    line: StampedCell<WORDS>,
}

#[allow(unreachable_pub, reason = "models see it")]
impl Disciplined {
    /// Begins with a sample. `frequency` is about how many nanoseconds a tick has, in 2^-32.
    pub fn new(sample: Sample, frequency: u64) -> Self {
        let line = Line::first(sample, frequency);
        Self { line: StampedCell::new(line.from, line.words()) }
    }

    /// The present time in nanoseconds of the source's system clock.
    #[inline]
    pub fn now(&self, source: &impl TimeSource) -> u64 {
        match self.reading(source.ticks()) {
            Some(nanos) => nanos,
            None => self.correct(source),
        }
    }

    /// The time at a reading of the counter, if the line in force covers that.
    #[inline(always)]
    pub fn reading(&self, ticks: u64) -> Option<u64> {
        self.line.read().and_then(|(from, words)| reading(from, &words, ticks))
    }

    /// Replaces a line that does not cover the present, or finds that another thread has done so.
    #[cold]
    #[inline(never)]
    fn correct(&self, source: &impl TimeSource) -> u64 {
        let sample = source.sample();
        let mut nanos = None;
        let replaced = self.line.replace(|from, words| {
            let (answer, next) = correct(&Line::from_words(from, words), sample);
            nanos = Some(answer);
            next.map(|next| (next.from, next.words()))
        });
        // Another thread is replacing the line.
        if replaced.is_err() {
            let line = self.line.read().map(|(from, words)| Line::from_words(from, &words));
            nanos = line.map(|line| correct(&line, sample).0);
        }
        nanos.unwrap_or(sample.nanos)
    }
}

/// The time of a sample according to the line in force, and the line that replaces it, if one should.
fn correct(line: &Line, sample: Sample) -> (u64, Option<Line>) {
    if let Some(nanos) = line.reading(sample.ticks) {
        return (nanos, None);
    }
    if line.is_newer_than(sample) && !planted(Fault::SampleStale) {
        return (line.at, None);
    }
    let next = line.next(sample);
    (next.at, Some(next))
}
