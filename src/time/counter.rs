//! The processor's counter, read without a branch to a system call where that can be known.
//!
//! When a clock is made, quanta finds out whether the processor has a counter that runs at one rate. Each reading
//! branches on the result. The other branch is a system call, inlined, for which every function that reads the
//! clock saves six registers. So this file finds out once more, when a clock is made, and then reads the counter
//! without quanta.

/// The counter that a [`quanta::Clock`] reads.
#[derive(Clone, Debug)]
pub(super) struct Counter {
    clock: quanta::Clock,
    /// A reading needs no system call.
    is_read_at_once: bool,
}

/// Readings that have to agree before the counter is taken for the processor's.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const READINGS: usize = 8;

impl Counter {
    pub(super) fn new() -> Self {
        let clock = quanta::Clock::new();
        let is_read_at_once = is_read_at_once(&clock);
        Self { clock, is_read_at_once }
    }

    /// About how many nanoseconds a tick has, in 2^-32.
    pub(super) fn frequency(&self) -> u64 {
        self.clock.delta_as_nanos(0, 1 << 32)
    }

    /// The counter.
    #[inline]
    pub(super) fn ticks(&self) -> u64 {
        self.clock.raw()
    }

    /// The same, if no system call is needed.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[inline(always)]
    pub(super) fn ticks_at_once(&self) -> Option<u64> {
        self.is_read_at_once.then(time_stamp)
    }

    /// The same, if no system call is needed.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    #[inline(always)]
    pub(super) fn ticks_at_once(&self) -> Option<u64> {
        self.is_read_at_once.then(|| self.clock.raw())
    }
}

/// The processor's time stamp counter.
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
fn time_stamp() -> u64 {
    // SAFETY: every x86-64 processor has the instruction, and it touches no memory. A system that forbids it ends
    // the process, as it would have when quanta calibrated the counter by the same instruction.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Whether the clock reads the time stamp counter. If it does, each of its readings lies between two readings of
/// that counter.
#[cfg(all(target_arch = "x86_64", not(miri)))]
fn is_read_at_once(clock: &quanta::Clock) -> bool {
    // Without a counter quanta counts nanoseconds.
    let counts_nanos = clock.delta_as_nanos(0, 1 << 32) == 1 << 32;
    let is_between = || {
        let (before, read, after) = (time_stamp(), clock.raw(), time_stamp());
        before <= read && read <= after
    };
    !counts_nanos && (0..READINGS).all(|_| is_between())
}

/// Other counters are read by quanta, which needs no system call there, or may need one.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn is_read_at_once(_: &quanta::Clock) -> bool {
    true
}
