//! The slots under loom, whose atomics cannot be zeroed memory.

use super::layout::{BUCKET, Slot};

#[derive(Debug)]
pub(crate) struct OutOfMemory;

pub(crate) struct Slots(Vec<[Slot; BUCKET]>);

impl Slots {
    pub(crate) fn zeroed(count: u32) -> Result<Self, OutOfMemory> {
        Ok(Self((0..count).map(|_| std::array::from_fn(|_| Slot::new())).collect()))
    }

    pub(crate) fn bucket_count(&self) -> u32 {
        u32::try_from(self.0.len()).expect("few")
    }

    pub(crate) fn bucket(&self, index: u32) -> &[Slot; BUCKET] {
        &self.0[index as usize]
    }
}
