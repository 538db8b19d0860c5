//! A token bucket as `src/lua/gcra.lua` keeps it, in whole parts of a microsecond. `verify/states/`
//! uses it in place of a server; `tests/server/transcript.rs` compares it with one.

/// A quota as the script receives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bucket {
    /// Parts in a microsecond.
    pub(crate) parts: u128,
    /// Parts in which one cell comes back.
    pub(crate) cell: u128,
    /// Parts in which all cells come back that may be charged at once.
    pub(crate) capacity: u128,
}

impl Bucket {
    /// A bucket that is smaller by what comes back in the lifetime of a lease.
    pub(crate) fn new(limit: u64, period_nanos: u64, burst: u64, lease_micros: u64) -> Self {
        let (period, thousand_limits) = (u128::from(period_nanos), u128::from(limit) * 1_000);
        let shared = gcd(period, thousand_limits);
        let (cell, parts) = (period / shared, thousand_limits / shared);
        let burst = u128::from(burst) * cell;
        let spare = (burst - cell).min(burst / 2) / parts;
        let capacity = burst - u128::from(lease_micros).min(spare) * parts;
        Self { parts, cell, capacity }
    }

    /// Takes at least `min` cells or none, and up to `max`, from a bucket with this debt. Returns
    /// the cells taken and the new debt.
    pub(crate) fn take(&self, owed: u128, min: u64, max: u64) -> (u64, u128) {
        let room = self.capacity.saturating_sub(owed) / self.cell;
        let there = u64::try_from(room).unwrap_or(u64::MAX);
        let cells = if there < min { 0 } else { there.min(max) };
        (cells, owed + u128::from(cells) * self.cell)
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}
