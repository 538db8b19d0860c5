//! A minimum rate for the body of a request. Without it, a client that sends a byte now and then could
//! keep a connection forever, although it is never idle for long.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

/// How slowly a client may send the body of a request before there is a response.
///
/// The proxy waits for a client for `grace` in total, and for one second more for each
/// `min_bytes_per_s` bytes that the client has sent.
#[derive(Clone, Copy, Debug)]
pub struct BodyRate {
    /// The wait that every client has.
    pub grace: Duration,
    /// Bytes that earn a second more; 0 means no limit.
    pub min_bytes_per_s: u32,
}

impl BodyRate {
    /// How long to wait in total for a client that has sent this many bytes; `None` means forever.
    fn allowance(&self, bytes: u64) -> Option<Duration> {
        if self.min_bytes_per_s == 0 {
            return None;
        }
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(self.min_bytes_per_s);
        let earned = u64::try_from(nanos).map(Duration::from_nanos).unwrap_or(Duration::MAX);
        Some(self.grace.saturating_add(earned))
    }
}

/// The time that the proxy has waited for one client, and the bytes that the client has sent. Time in
/// which the upstream does not ask for more does not count.
#[derive(Debug)]
pub(super) struct ClientWait {
    rate: BodyRate,
    bytes: u64,
    waited: Duration,
    since: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl ClientWait {
    pub(super) fn new(rate: BodyRate) -> Self {
        Self { rate, bytes: 0, waited: Duration::ZERO, since: None, timer: None }
    }

    /// Notes that the body returned bytes, or is pending. Returns whether the wait is over its limit. If it
    /// is not, the task is woken when the limit is reached.
    pub(super) fn is_too_slow(&mut self, bytes: Option<usize>, context: &mut Context<'_>) -> bool {
        let now = Instant::now();
        let Some(deadline) = self.note(bytes, now) else { return false };
        if deadline <= now {
            return true;
        }
        let sleep = || Box::pin(tokio::time::sleep_until(deadline));
        let timer = self.timer.get_or_insert_with(sleep);
        if timer.deadline() != deadline {
            timer.as_mut().reset(deadline);
        }
        matches!(timer.as_mut().poll(context), Poll::Ready(()))
    }

    /// The deadline of the current wait; `None` if the client is not waited for.
    fn note(&mut self, bytes: Option<usize>, now: Instant) -> Option<Instant> {
        if let Some(bytes) = bytes {
            self.bytes = self.bytes.saturating_add(bytes as u64);
            if let Some(since) = self.since.take() {
                self.waited += now.saturating_duration_since(since);
            }
            return None;
        }
        let since = *self.since.get_or_insert(now);
        let allowance = self.rate.allowance(self.bytes)?;
        since.checked_add(allowance.saturating_sub(self.waited))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: BodyRate = BodyRate { grace: Duration::from_secs(20), min_bytes_per_s: 500 };

    /// When a client that sends `bytes` every `every_ms` is given up; `None` if not within an hour.
    fn seconds_until_given_up(rate: BodyRate, bytes: usize, every_ms: u64) -> Option<u64> {
        let (mut wait, mut now) = (ClientWait::new(rate), Instant::now());
        let began = now;
        while now - began < Duration::from_secs(3_600) {
            let next = now + Duration::from_millis(every_ms);
            if let Some(deadline) = wait.note(None, now)
                && deadline <= next
            {
                return Some((deadline - began).as_secs());
            }
            now = next;
            assert_eq!(wait.note(Some(bytes), now), None);
        }
        None
    }

    #[test]
    fn only_a_client_below_the_rate_is_given_up() {
        assert_eq!(seconds_until_given_up(RATE, 1, 1_000), Some(20));
        assert_eq!(
            seconds_until_given_up(RATE, 250, 1_000),
            Some(39),
            "at half the rate, the grace lasts twice as long"
        );
        assert_eq!(seconds_until_given_up(RATE, 1_000, 60_000), Some(20));
        assert_eq!(seconds_until_given_up(RATE, 500, 1_000), None);
        assert_eq!(seconds_until_given_up(RATE, 8_000, 16_000), None);
        assert_eq!(seconds_until_given_up(BodyRate { min_bytes_per_s: 0, ..RATE }, 1, 1_000), None);
    }

    #[test]
    fn time_in_which_the_upstream_reads_nothing_does_not_count() {
        let (mut wait, now) = (ClientWait::new(RATE), Instant::now());
        let at = |secs| now + Duration::from_secs(secs);
        assert_eq!(wait.note(None, at(0)), Some(at(20)));
        assert_eq!(wait.note(Some(0), at(5)), None);
        // The upstream reads nothing for a quarter of an hour.
        assert_eq!(wait.note(None, at(900)), Some(at(915)));
        assert_eq!(wait.note(None, at(901)), Some(at(915)), "a second poll changes nothing");
    }

    #[test]
    fn no_number_of_bytes_overflows_the_allowance() {
        for bytes in [0, 1, u64::MAX] {
            assert!(RATE.allowance(bytes) >= Some(RATE.grace));
        }
    }
}
