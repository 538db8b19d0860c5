//! Any of the models.

use super::{EventLog, Level, Oracle, Queue, Ramp, SubWindowCounts, Verdict, Window};
use crate::time::Tick;

/// The model of [`AnyAlgorithm`](crate::AnyAlgorithm).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum AnyOracle {
    /// Of a token bucket.
    Gcra(Level),
    /// Of a fixed window.
    FixedWindow(Window),
    /// Of a queue.
    LeakyQueue(Queue),
    /// Of a rate that warms up.
    WarmUp(Ramp),
    /// Of sub-windows, weighed or not.
    SubWindows(SubWindowCounts),
    /// Of the log.
    SlidingLog(EventLog),
}

impl Oracle for AnyOracle {
    fn decide(&mut self, now: Tick, n: u64) -> Verdict {
        match self {
            Self::Gcra(level) => level.decide(now, n),
            Self::FixedWindow(window) => window.decide(now, n),
            Self::LeakyQueue(queue) => queue.decide(now, n),
            Self::WarmUp(ramp) => ramp.decide(now, n),
            Self::SubWindows(counts) => counts.decide(now, n),
            Self::SlidingLog(log) => log.decide(now, n),
        }
    }
}
