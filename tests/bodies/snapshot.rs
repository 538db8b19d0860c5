//! Restores a snapshot with some bytes changed, and its length and checksum corrected.

use tollgate::algorithm::Algorithm;
use tollgate::internals::Rebase;
use tollgate::limiter::SlotLayout;
use tollgate::snapshot::RestoreError;
use tollgate::{
    AnyAlgorithm, Builder, Clock, FixedWindow, Gcra, LeakyQueue, Limiter, ManualClock, OnFull,
    Quota, SlidingCounter, SlidingLog, SubWindows, Tick,
};

use super::choice::ORIGIN_2025;
use super::cursor::Cursor;
use super::mistake::{Mistake, planted};

/// The offset of the snapshot's length.
const LENGTH: std::ops::Range<usize> = 16..24;
const CHECKSUM_BYTES: usize = 8;

/// CRC-64/XZ, one bit at a time.
fn crc_64(bytes: &[u8]) -> u64 {
    !bytes.iter().fold(u64::MAX, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| {
            if crc & 1 == 1 { crc >> 1 ^ 0xc96c_5795_d787_0f42 } else { crc >> 1 }
        })
    })
}

/// Corrects length and checksum, if the bytes are long enough to have them.
pub(crate) fn fix_up(bytes: &mut [u8]) {
    if bytes.len() < LENGTH.end + CHECKSUM_BYTES {
        return;
    }
    let length = bytes.len() as u64;
    bytes[LENGTH].copy_from_slice(&length.to_le_bytes());
    let (content, checksum) = bytes.split_at_mut(bytes.len() - CHECKSUM_BYTES);
    checksum.copy_from_slice(&crc_64(content).to_le_bytes());
}

/// Returns the error, after checking that its text is not empty.
pub(crate) fn is_denied<K: ?Sized, A: Algorithm<Params: Rebase>, C: Clock>(
    builder: Builder<K, A, C>,
    bytes: &[u8],
) -> RestoreError {
    let Err(error) = builder.restore(bytes) else { panic!("accepted") };
    assert!(error.to_string().len() > 20, "{error}");
    error
}

/// If a changed snapshot is accepted, the limiter grants a key no more than fits, and saving and
/// restoring it gives the same snapshot.
pub(crate) fn snapshot(data: &[u8]) {
    let mut cursor = Cursor::new(data);
    let quota = Quota::per_minute(60).burst(20);
    match cursor.byte() % 8 {
        0 => changed(Gcra::new(), quota, &mut cursor),
        1 => changed(LeakyQueue::new(), quota, &mut cursor),
        2 => changed(FixedWindow::anchored(), quota, &mut cursor),
        3 => changed(FixedWindow::aligned(), quota, &mut cursor),
        4 => changed(SubWindows::new(), quota, &mut cursor),
        5 => changed(SlidingCounter::new(), quota, &mut cursor),
        6 => changed(SlidingLog::new(), quota, &mut cursor),
        _ => changed(AnyAlgorithm::from(SlidingLog::new().count_denials()), quota, &mut cursor),
    }
}

fn changed<A: Algorithm<Params: Rebase> + Copy>(
    algorithm: A,
    quota: Quota,
    cursor: &mut Cursor<'_>,
) {
    let kind = cursor.byte();
    let start = cursor.tick();
    let compact = algorithm.compact_params(&quota, 0).expect("in range").is_some();
    let build = |tick: Tick| {
        let clock = ManualClock::starting_at_unix_nanos(ORIGIN_2025);
        clock.set(tick);
        let builder = Limiter::<u16>::builder(quota).algorithm(algorithm).clock(clock);
        let builder = builder.capacity(u64::from(kind >> 2) + 1).hash_seed(5);
        let builder = builder.slots(if compact && kind & 1 == 1 {
            SlotLayout::Compact
        } else {
            SlotLayout::Wide
        });
        match kind & 2 {
            0 => builder,
            _ => builder.on_full(OnFull::SharedOverflow(quota)),
        }
    };
    let gate = build(start).build().expect("in range");
    for key in 0..u16::from(cursor.byte() % 32) {
        let _ = gate.check_n(&key, 1 + u64::from(key % 20));
    }
    let mut bytes = gate.snapshot();
    let again = cursor.tick();
    while !cursor.is_empty() {
        change(&mut bytes, cursor);
    }
    let _ = build(again).restore(&bytes);
    fix_up(&mut bytes);
    let restored = match build(again).restore(&bytes) {
        Ok(restored) => restored,
        Err(error) => return assert!(error.to_string().len() > 20),
    };
    let bytes = restored.snapshot();
    let once_more = build(again).restore(&bytes).expect("of a limiter");
    if planted(Mistake::RowLost) {
        (0..40).for_each(|key| once_more.reset(&key));
    }
    assert_eq!(once_more.snapshot(), bytes, "nothing is lost, or found");
    assert_eq!(once_more.len(), restored.len());
    for key in 0..40 {
        let granted = (0..30).filter(|_| restored.check(&key).is_ok()).count();
        assert!(granted <= 60 && u64::try_from(granted).expect("few") <= max_restored(quota));
    }
}

/// The maximum cells of one key at one instant.
fn max_restored(quota: Quota) -> u64 {
    quota.burst_cells().max(quota.limit())
}

/// Changes, removes or inserts some bytes.
fn change(bytes: &mut Vec<u8>, cursor: &mut Cursor<'_>) {
    let kind = cursor.byte();
    let [low, high] = [cursor.byte(), cursor.byte()].map(usize::from);
    // Counted from the end, so that most changes miss the header.
    let offset = (high * 256 + low) % (bytes.len() + 1);
    match kind % 8 {
        0 => bytes.truncate(offset),
        1 => bytes.extend_from_slice(&cursor.long().to_le_bytes()),
        2 => bytes.splice(offset..offset, [cursor.byte()]).for_each(drop),
        3 if offset + 8 <= bytes.len() => {
            bytes[offset..offset + 8].copy_from_slice(&cursor.long().to_le_bytes());
        }
        // Copies one row over another.
        4 if offset + 21 <= bytes.len() => {
            let row = bytes[offset..offset + 21].to_vec();
            let at = (offset * 7) % (bytes.len() - 20);
            bytes[at..at + 21].copy_from_slice(&row);
        }
        _ => {
            if let Some(byte) = bytes.get_mut(offset) {
                *byte = byte.wrapping_add(cursor.byte());
            }
        }
    }
}
