//! Chunks: the bytes that pass at once, and the time for which cells charged ahead remain good. Pure: the
//! answers of buckets and times are arguments.
//!
//! A bucket that has the cells passes as many bytes as the caller has, up to [`CHUNK_MAX`]. A bucket that
//! lacks them passes a chunk: what the rate carries in [`TURN_NANOS`], but at least [`CHUNK_MIN`] bytes
//! if they take no longer than [`TURN_MAX_NANOS`], and never more than half a burst.

use core::time::Duration;

use tollgate::{Decision, Tick};

/// The most bytes that pass at once. A burst passes in pieces of this size, so that streams take turns.
pub(crate) const CHUNK_MAX: u64 = 64 * 1024;
/// Smaller pieces would cost more in calls than they carry.
const CHUNK_MIN: u64 = 1024;
/// Timers tell milliseconds apart. A wake and its calls take some 40 us, so shorter turns cost a slow stream
/// more: turns of 2 ms took 2 to 3 % of a processor at 1 and 10 MB/s.
const TURN_NANOS: u64 = 5_000_000;
/// Slow streams move a little at least ten times a second.
const TURN_MAX_NANOS: u64 = 100_000_000;
/// How many bursts a bucket may owe before a stream charges it ahead of its turn: a stream that has just asked, and
/// one that has waited for room for very long. Every state can hold a debt of 16, which leaves room for threads that
/// charge at once.
const BACKLOG_BURSTS: [u64; 2] = [4, 8];
/// A wait is very long if it is the time of the larger debt, doubled so often.
const WAIT_DOUBLINGS: f64 = 12.0;

/// A bucket's answer to a request for some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) burst: u64,
    /// Bytes that could pass now: with a permit, those asked for and the rest.
    pub(crate) available: u64,
    pub(crate) is_denied: bool,
    /// How long until the bucket is full.
    backlog_nanos: u64,
    /// The time in which the whole burst comes back; 0 if the answer does not tell.
    refill_nanos: u64,
}

impl Reading {
    /// Reads the answer to a request for `asked` bytes, at least one.
    pub(crate) fn new(answer: &Decision, asked: u64) -> Self {
        match answer {
            Ok(permit) => {
                let (burst, left) = (permit.limit(), permit.remaining());
                let backlog_nanos = nanos(permit.reset_after());
                Self {
                    burst,
                    available: left.saturating_add(asked),
                    is_denied: false,
                    backlog_nanos,
                    refill_nanos: scaled(backlog_nanos, burst, burst.saturating_sub(left)),
                }
            }
            Err(denied) => {
                let burst = denied.limit();
                let backlog_nanos = nanos(denied.reset_after());
                // The bucket is full by as much later as the cells that were not asked for take.
                let refill_nanos = denied.retry_after().map_or(0, |wait| {
                    let rest = backlog_nanos.saturating_sub(nanos(wait));
                    scaled(rest, burst, burst.saturating_sub(asked))
                });
                let available = denied.remaining();
                Self { burst, available, is_denied: true, backlog_nanos, refill_nanos }
            }
        }
    }

    /// The chunk to wait for, of at most `max` bytes, at least one.
    pub(crate) fn chunk(&self, max: u64) -> u64 {
        let in_span = |nanos| scaled(nanos, self.burst, self.refill_nanos);
        let chunk = in_span(TURN_NANOS).max(in_span(TURN_MAX_NANOS).min(CHUNK_MIN));
        chunk.min(half(self.burst)).min(max).max(1)
    }

    /// How long a stream that has waited for room for `waited` has to wait on before anything is charged ahead,
    /// because too much is owed already, or because the answer does not tell the rate.
    ///
    /// The longer a stream has waited, the more may be owed. So it charges before a stream that has just had a turn,
    /// although neither knows of the other.
    pub(crate) fn backlog_wait(&self, waited: Duration) -> Option<Duration> {
        let [min, max] = BACKLOG_BURSTS.map(|bursts| self.refill_nanos.saturating_mul(bursts));
        // By a logarithm, so that waits differ by the same in proportion however long they are.
        let doublings = (1.0 + nanos(waited) as f64 / max.max(1) as f64).log2();
        let share = (doublings / WAIT_DOUBLINGS).min(1.0);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most max")]
        let allowed = min + ((max - min) as f64 * share) as u64;
        let beyond = self.backlog_nanos.checked_sub(allowed).filter(|&beyond| beyond > 0)?;
        Some(Duration::from_nanos(beyond))
    }

    /// The cells that are charged ahead at `now` and have their turn after `wait`.
    pub(crate) fn ahead(&self, bytes: u64, now: Tick, wait: Duration) -> Ahead {
        let turn = now.saturating_add(wait);
        let spare = self.available.saturating_sub(bytes);
        let spare_nanos = scaled(spare, self.refill_nanos, self.burst);
        Ahead { bytes, turn, spare_nanos, burst: self.burst, refill_nanos: self.refill_nanos }
    }
}

/// Half of a burst, at least one byte. So two chunks fit in a bucket, and a task that is late by the time
/// of one finds its cells still good.
pub(crate) fn half(burst: u64) -> u64 {
    (burst / 2).max(1)
}

/// Cells that were charged ahead of their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) bytes: u64,
    /// By the clock of the bucket.
    pub(crate) turn: Tick,
    /// The cells that the bucket had beyond these, as the time in which they come back. It is 0 if these had to wait
    /// for their turn.
    spare_nanos: u64,
    burst: u64,
    refill_nanos: u64,
}

impl Ahead {
    /// How many of the cells are still good at `now`.
    ///
    /// A bucket that was not charged ahead would have filled up after the turn. If it was full before `now`, it
    /// lost cells from then on. For each cell that it lost, one charged cell is no longer good. So all cells are
    /// good as long as they, those that the bucket had beyond them, and those that came back since their turn fit in
    /// the burst: the charge then equals one made at `now`.
    pub(crate) fn good(&self, now: Tick) -> u64 {
        let late_nanos = nanos(now.since(self.turn));
        if late_nanos == 0 {
            return self.bytes;
        }
        if self.refill_nanos == 0 {
            return 0;
        }
        let since_nanos = late_nanos.saturating_add(self.spare_nanos);
        let restored = u128::from(since_nanos) * u128::from(self.burst);
        let restored = restored.div_ceil(u128::from(self.refill_nanos));
        let rest = u128::from(self.burst).saturating_sub(restored);
        self.bytes.min(u64::try_from(rest).unwrap_or(u64::MAX))
    }
}

/// `value * numerator / denominator`, rounded down, at most `u64::MAX`; 0 if the denominator is 0.
fn scaled(value: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(value) * u128::from(numerator);
    let quotient = product.checked_div(u128::from(denominator)).unwrap_or(0);
    u64::try_from(quotient).unwrap_or(u64::MAX)
}

/// Whole nanoseconds, at most `u64::MAX`.
fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use tollgate::{Direct, Quota};

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn reading(quota: Quota, charged: u64, asked: u64) -> Reading {
        let gate = Direct::new(quota).expect("in range");
        gate.ask().cells(charged).at(Tick::ZERO).charge();
        Reading::new(&gate.ask().cells(asked).at(Tick::ZERO).peek(), asked)
    }

    #[test]
    fn permit_and_denial_tell_the_same_refill_time() {
        // 100 kB come back in 0.1 s.
        let quota = Quota::per_second(1_000_000).burst(100_000);
        for charged in [0, 1, 60_000, 99_999, 100_000, 300_000] {
            for asked in [1, 1_024, 50_000] {
                let seen = reading(quota, charged, asked);
                assert_eq!(seen.is_denied, charged + asked > 100_000);
                assert_eq!(seen.burst, 100_000);
                assert_eq!(
                    seen.available,
                    100_000_u64.saturating_sub(charged),
                    "{charged} {asked}"
                );
                let error = seen.refill_nanos.abs_diff(SECOND / 10);
                // A unit of the grid is less than 5 us; a permit for few cells knows few units.
                assert!(
                    error <= 100_000_000 / 40 || asked + charged < 1_024,
                    "{charged} {asked} {seen:?}"
                );
            }
        }
    }

    #[test]
    fn chunks_are_five_milliseconds_of_the_rate_within_their_bounds() {
        let chunk = |rate, burst, max| {
            reading(Quota::per_second(rate).burst(burst), burst, half(burst).min(max)).chunk(max)
        };
        assert_eq!(chunk(10_000_000, 10_000_000, CHUNK_MAX), 50_000);
        assert_eq!(chunk(10_000_000, 10_000_000, 5_000), 5_000, "the caller has no more");
        assert_eq!(chunk(100_000_000, 100_000_000, CHUNK_MAX), CHUNK_MAX);
        assert_eq!(chunk(100_000, 100_000, CHUNK_MAX), 1_024, "5 ms carry 500 bytes");
        assert_eq!(chunk(100, 100, CHUNK_MAX), 10, "a tenth of a second carries 10 bytes");
        assert_eq!(chunk(10_000_000, 1_000, CHUNK_MAX), 500, "half the burst");
        assert_eq!(chunk(1, 2, CHUNK_MAX), 1);
    }

    #[test]
    fn a_long_backlog_is_waited_for() {
        let quota = Quota::per_second(1_000).burst(1_000);
        // A burst comes back in a second. A new stream waits until four bursts are owed. One that has waited for 56 s,
        // which is 8 s doubled three times, waits until five are.
        for (owed, waited, rest) in
            [(4_000, 0, None), (10_000, 0, Some(6)), (5_000, 56, None), (10_000, 56, Some(5))]
        {
            let wait = reading(quota, owed, 100).backlog_wait(Duration::from_secs(waited));
            let error = wait.unwrap_or_default().abs_diff(Duration::from_secs(rest.unwrap_or(0)));
            assert!(error < Duration::from_millis(2), "{owed} {waited}: {wait:?}");
            assert_eq!(wait.is_some(), rest.is_some(), "{owed} {waited}");
        }
        let wait = reading(quota, 8_001, 100).backlog_wait(Duration::MAX);
        assert!(wait.is_some(), "never more than eight");
    }

    #[test]
    fn cells_are_good_until_the_bucket_would_have_been_full() {
        let at = |ms: u64| Tick::from_nanos(ms * 1_000_000);
        let refill_nanos = SECOND;
        let ahead =
            Ahead { bytes: 300, turn: at(1_000), spare_nanos: 0, burst: 1_000, refill_nanos };
        for (now, good) in
            [(0, 300), (1_000, 300), (1_700, 300), (1_701, 299), (1_999, 1), (2_000, 0)]
        {
            assert_eq!(ahead.good(at(now)), good, "at {now} ms");
        }
        assert_eq!(ahead.good(Tick::MAX), 0);
        // It had 900 cells when 300 were charged, and was full 100 ms later.
        let early = Ahead { spare_nanos: 600_000_000, ..ahead };
        for (now, good) in [(1_000, 300), (1_100, 300), (1_101, 299), (1_399, 1), (1_400, 0)] {
            assert_eq!(early.good(at(now)), good, "at {now} ms");
        }
        let unknown = Ahead { refill_nanos: 0, ..ahead };
        assert_eq!((unknown.good(at(1_000)), unknown.good(at(1_001))), (300, 0));
    }
}
