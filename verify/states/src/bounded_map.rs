//! What a tab is kept by in the crate; here it is not kept.

use tollgate::Tick;

#[allow(dead_code, reason = "as in the crate")]
pub(crate) trait Entry {
    fn new(key: &[u8]) -> Self;
    fn key(&self) -> &[u8];
    fn retire(&self, now: Tick) -> bool;
    fn unspent(&self) -> u64;
}
