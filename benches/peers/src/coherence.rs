//! The traffic that accesses cause between cores whose caches are kept coherent by invalidation.
//!
//! The model is MSI with caches of infinite size: a line is held by some cores, and at most one of them
//! has modified it. It counts what a larger machine pays for shared data. It says nothing about time, and
//! nothing about lost races: the accesses that it is given were made by one thread after the other.

use std::collections::HashMap;
use std::ops::AddAssign;

const LINE_BYTES: u64 = 64;

/// The largest number of cores.
pub const CORES_MAX: u32 = u64::BITS;

/// An access to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The first byte.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Whether it writes; a compare-and-swap does.
    pub writes: bool,
}

/// The traffic between cores that accesses cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Writes to a line that another core held: its copy was invalidated.
    pub shared_writes: u64,
    /// Lines that another core had modified, and that had to come from there.
    pub transfers: u64,
}

impl AddAssign for Traffic {
    fn add_assign(&mut self, more: Self) {
        self.shared_writes += more.shared_writes;
        self.transfers += more.transfers;
    }
}

/// The caches of all cores.
#[derive(Debug, Default)]
pub struct Caches(HashMap<u64, Line>);

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    /// A bit for each core that has a copy.
    holders: u64,
    /// Whether the only holder has modified it.
    is_modified: bool,
}

impl Caches {
    /// One core's access.
    ///
    /// # Panics
    ///
    /// If there are no so many cores.
    pub fn access(&mut self, core: u32, access: Access) -> Traffic {
        assert!(core < CORES_MAX, "{core} of {CORES_MAX} cores");
        let last = access.address + access.size.max(1) - 1;
        let mut traffic = Traffic::default();
        for line in access.address / LINE_BYTES..=last / LINE_BYTES {
            traffic += self.0.entry(line).or_default().access(1 << core, access.writes);
        }
        traffic
    }
}

impl Line {
    fn access(&mut self, core: u64, writes: bool) -> Traffic {
        let others = self.holders & !core;
        let is_elsewhere = self.is_modified && others > 0;
        if writes {
            *self = Self { holders: core, is_modified: true };
        } else {
            self.holders |= core;
            self.is_modified &= others == 0;
        }
        Traffic {
            shared_writes: u64::from(writes && others > 0),
            transfers: u64::from(is_elsewhere),
        }
    }
}

/// A line of valgrind's `lackey --trace-mem=yes`; `None` if it is no access to data.
#[must_use]
pub fn parse(line: &str) -> Option<Access> {
    let writes = match line.get(..3)? {
        " L " => false,
        " S " | " M " => true,
        _ => return None,
    };
    let (address, size) = line[3..].trim_end().split_once(',')?;
    let address = u64::from_str_radix(address.trim(), 16).ok()?;
    Some(Access { address, size: size.parse().ok()?, writes })
}

/// Counts the traffic of decisions in a trace. A thread marks the beginning of a decision by a write to
/// its mark, and the end by a write to the word after it.
#[derive(Debug)]
pub struct Replay {
    marks: u64,
    threads: u32,
    /// The thread that decides.
    deciding: Option<u32>,
    /// Decisions that each thread has begun.
    begun: Vec<u32>,
    /// So many decisions of a thread bring its cache into the state that the others are counted in.
    warm_up: u32,
    caches: Caches,
    /// Decisions that were counted.
    pub decisions: u64,
    /// Their traffic.
    pub traffic: Traffic,
}

/// The bytes from one thread's mark to the next one's: a line for each.
pub const MARK_BYTES: u64 = LINE_BYTES;

impl Replay {
    /// For threads whose marks begin at `marks`.
    #[must_use]
    pub fn new(marks: u64, threads: u32, warm_up: u32) -> Self {
        Self {
            marks,
            threads,
            deciding: None,
            begun: vec![0; threads as usize],
            warm_up,
            caches: Caches::default(),
            decisions: 0,
            traffic: Traffic::default(),
        }
    }

    /// The next access of the trace.
    pub fn access(&mut self, access: Access) {
        let offset = access.address.wrapping_sub(self.marks);
        if offset < MARK_BYTES * u64::from(self.threads) {
            if access.writes {
                let thread = u32::try_from(offset / MARK_BYTES).expect("one of the threads");
                self.mark(thread, offset.is_multiple_of(MARK_BYTES));
            }
        } else if let Some(thread) = self.deciding {
            let traffic = self.caches.access(thread, access);
            if self.begun[thread as usize] > self.warm_up {
                self.traffic += traffic;
            }
        }
    }

    fn mark(&mut self, thread: u32, begins: bool) {
        self.deciding = begins.then_some(thread);
        if begins {
            let begun = &mut self.begun[thread as usize];
            *begun += 1;
            self.decisions += u64::from(*begun > self.warm_up);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn traffic(shared_writes: u64, transfers: u64) -> Traffic {
        Traffic { shared_writes, transfers }
    }

    fn access(address: u64, writes: bool) -> Access {
        Access { address, size: 8, writes }
    }

    #[test]
    fn a_line_of_one_core_causes_no_traffic() {
        let mut caches = Caches::default();
        for writes in [false, true, true, false] {
            assert_eq!(caches.access(3, access(640, writes)), traffic(0, 0));
        }
    }

    #[test]
    fn a_line_that_is_only_read_causes_no_traffic() {
        let mut caches = Caches::default();
        for core in [0, 1, 63, 0] {
            assert_eq!(caches.access(core, access(640, false)), traffic(0, 0));
        }
    }

    #[test]
    fn a_write_invalidates_the_copies_of_others_and_is_fetched_by_them() {
        let mut caches = Caches::default();
        caches.access(0, access(640, true));
        // Core 1 reads what core 0 has modified, and the second time it has a copy.
        assert_eq!(caches.access(1, access(640, false)), traffic(0, 1));
        assert_eq!(caches.access(1, access(648, false)), traffic(0, 0));
        // Both have a copy: a write invalidates the other one, and fetches nothing.
        assert_eq!(caches.access(0, access(640, true)), traffic(1, 0));
        assert_eq!(caches.access(0, access(640, true)), traffic(0, 0));
        // A write by a core without a copy fetches the line, and invalidates it.
        assert_eq!(caches.access(1, access(640, true)), traffic(1, 1));
    }

    #[test]
    fn an_access_may_touch_two_lines() {
        let mut caches = Caches::default();
        caches.access(0, access(0, true));
        caches.access(0, access(64, true));
        assert_eq!(caches.access(1, access(60, true)), traffic(2, 2));
    }

    #[test]
    fn lines_of_a_trace_are_parsed() {
        let data = |address, size, writes| Some(Access { address, size, writes });
        assert_eq!(parse(" L 1ffeffe7e0,8"), data(0x1f_feff_e7e0, 8, false));
        assert_eq!(parse(" S 0421c7cc,4\n"), data(0x421_c7cc, 4, true));
        assert_eq!(parse(" M 0421c7cc,4"), data(0x421_c7cc, 4, true));
        for other in ["I  04222c60,3", "==12== Lackey", "", " L ", " L zz,8", " S 10"] {
            assert_eq!(parse(other), None, "{other}");
        }
    }

    #[test]
    fn only_the_decisions_after_the_warm_up_are_counted() {
        let mut replay = Replay::new(0x1000, 2, 1);
        for _ in 0..3 {
            for thread in 0..2 {
                let mark = 0x1000 + MARK_BYTES * thread;
                replay.access(access(0x9000, true)); // outside a decision
                replay.access(access(mark, true));
                replay.access(access(0x8000, true));
                replay.access(access(0xa000 + 64 * thread, true));
                replay.access(access(mark + 8, true));
            }
        }
        assert_eq!((replay.decisions, replay.traffic), (4, traffic(4, 4)));
    }
}
