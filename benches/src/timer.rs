//! The processor's counter, read between two instructions and not among their neighbours.

use quanta::Clock;

/// The counter, after everything before has ended, and before anything after begins.
///
/// A plain reading may come before the end of earlier instructions. On AMD a fence for memory does not prevent
/// that: a call that ends in a load from memory then seems to take no time.
#[inline]
#[must_use]
pub fn read_alone(clock: &Clock) -> u64 {
    wait_for_instructions();
    let read = clock.raw();
    wait_for_instructions();
    read
}

/// Lets no later instruction begin before all earlier ones have ended.
#[inline]
fn wait_for_instructions() {
    // SAFETY: every x86-64 processor has SSE2, to which the instruction belongs.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    // SAFETY: the instruction has no operand, and changes neither memory nor registers.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("isb", options(nostack, preserves_flags));
    }
}
