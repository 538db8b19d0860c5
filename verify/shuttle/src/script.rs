//! The requests of each thread, drawn anew for every history.

use std::time::Duration;

use shuttle::rand::RngCore;
use tollgate::Tick;

/// Numbers that follow from the schedule's seed, so that a schedule is replayed with its script.
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// Begins the numbers of a history.
    #[must_use]
    pub fn of_this_history() -> Self {
        Self(shuttle::rand::thread_rng().next_u64() | 1)
    }

    /// Begins other numbers, for another thread.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self(self.below(u64::MAX) | 1)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}

/// A request to a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Asks for cells.
    Check {
        /// How many.
        n: u64,
        /// By the thread's clock.
        now: Tick,
    },
    /// Peeks at the answer to such a request.
    Peek {
        /// How many.
        n: u64,
        /// By the thread's clock.
        now: Tick,
    },
    /// Resets the key.
    Reset,
}

impl Op {
    /// The time that the caller passes.
    #[must_use]
    pub fn now(&self) -> Option<Tick> {
        match *self {
            Self::Check { now, .. } | Self::Peek { now, .. } => Some(now),
            Self::Reset => None,
        }
    }
}

/// A request, and its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The key; 0 for a limiter without keys.
    pub key: u64,
    /// The operation.
    pub op: Op,
}

/// The threads' clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clocks {
    /// The same time, from beginning to end.
    Stand,
    /// Each thread has its own clock. It begins up to two seconds after another's, and advances by up to two
    /// seconds from call to call. A thread that runs late is seconds behind the others.
    Differ,
}

/// The ranges from which requests are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// How many keys; 1 for a limiter without keys.
    pub keys: u64,
    /// The maximum cells of a request.
    pub cells_max: u64,
    /// The threads' clocks.
    pub clocks: Clocks,
    /// On average, one in `reset_in` calls is a reset; 0 for none.
    pub reset_in: u64,
}

/// When the threads begin, in seconds: long after the [charges before](BEFORE).
pub const BEGIN: u64 = 100;
/// When the first slots are taken, in seconds.
pub const BEFORE: u64 = 10;

/// `seconds` after the origin.
#[must_use]
pub fn at(seconds: u64) -> Tick {
    Tick::from_duration(Duration::from_secs(seconds))
}

impl Mix {
    /// The requests of 3 or 4 threads, 3 to 5 each.
    #[must_use]
    pub fn script(&self, draw: &mut Draw) -> Vec<Vec<Request>> {
        let threads = 3 + draw.below(2);
        (0..threads).map(|_| self.thread(draw)).collect()
    }

    fn thread(&self, draw: &mut Draw) -> Vec<Request> {
        let moves = self.clocks == Clocks::Differ;
        let mut millis = BEGIN * 1_000 + if moves { 250 * draw.below(9) } else { 0 };
        let calls = 3 + draw.below(3);
        let mut requests = Vec::new();
        for _ in 0..calls {
            let now = Tick::from_duration(Duration::from_millis(millis));
            requests.push(Request { key: draw.below(self.keys), op: self.op(draw, now) });
            millis += if moves { 250 * draw.below(9) } else { 0 };
        }
        requests
    }

    fn op(&self, draw: &mut Draw, now: Tick) -> Op {
        if self.reset_in > 0 && draw.below(self.reset_in) == 0 {
            return Op::Reset;
        }
        let n = match draw.below(16) {
            // In 32 bits, this number would wrap to few cells.
            0 => (1 << 32) + 1,
            1 => 0,
            _ => 1 + draw.below(self.cells_max),
        };
        if draw.below(5) == 0 { Op::Peek { n, now } } else { Op::Check { n, now } }
    }
}
