//! Backoff: how long a thread pauses after a lost race.

/// Spins between the first two tries. Where other threads ask seldom, the second should come soon.
const SPINS_FIRST: u32 = 4;
/// Spins between two tries, at most: on processors where one takes 140 cycles, three microseconds. The request's
/// time gets stale meanwhile.
const SPINS_MAX: u32 = 64;

/// The pauses of one thread between its tries; each is twice as long as the one before.
pub(super) struct Backoff(u32);

impl Backoff {
    pub(super) const FIRST: Self = Self(SPINS_FIRST);

    /// Pauses. Loom would take a pause for waiting, and the threads of a model need none.
    pub(super) fn pause(&mut self) {
        if cfg!(not(tollgate_loom)) {
            (0..self.0).for_each(|_| core::hint::spin_loop());
        }
        self.0 = (2 * self.0).min(SPINS_MAX);
    }
}
