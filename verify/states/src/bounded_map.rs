//! The part of the crate's map that included files need. Nothing is kept in a map here.

use tollgate::Tick;

#[allow(dead_code, reason = "the same as in the crate")]
pub(crate) trait Entry {
    fn new(key: &[u8]) -> Self;
    fn key(&self) -> &[u8];
    fn retire(&self, now: Tick) -> bool;
    fn unspent(&self) -> u64;
}
