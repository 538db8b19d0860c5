//! The rate as a state that responses move. It is pure: the time comes with the call.

use core::time::Duration;

use tollgate::Tick;

use crate::settings::Settings;

/// The least share of the rate that remains after a response that states that no request is left.
const EXHAUSTED_LEAVES: f64 = 0.95;

/// The share that remains after a denial that follows another.
const DENIED_AGAIN_LEAVES: f64 = 0.5;

/// The least and the most that the rate grows in a second, as a share of the rate at which the server last
/// denied.
const GROWTH: (f64, f64) = (0.001, 0.01);

/// A rate, in requests a second.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rate {
    settings: Settings,
    per_second: f64,
    /// The rate at which the server last denied, or the first: it bounds the growth.
    reference: f64,
    doubles: bool,
    /// The largest rate, by the settings or by the policy that the server showed last.
    max: f64,
    /// Growth is counted up to here.
    grown_until: Tick,
    /// Counts the decreases. A denial of a request that was sent before the last one is the same event.
    epoch: u64,
    /// Whether no request was admitted since the last denial.
    is_denied: bool,
    paused_until: Tick,
}

impl Rate {
    pub(crate) fn new(settings: Settings, now: Tick) -> Self {
        Self {
            settings,
            per_second: settings.initial,
            reference: settings.initial,
            doubles: settings.starts_slowly,
            max: settings.max,
            grown_until: now,
            epoch: 0,
            is_denied: false,
            paused_until: Tick::ZERO,
        }
    }

    pub(crate) fn per_second(&self) -> f64 {
        self.per_second
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    pub(crate) fn paused_until(&self) -> Tick {
        self.paused_until
    }

    /// A request was admitted. If it had to wait for its turn, the rate is what holds requests back, and
    /// grows; else growth would be unbounded while there is nothing to send.
    pub(crate) fn admitted(&mut self, now: Tick, had_to_wait: bool) {
        // No more than about two requests' time, so that idle time is not made up for.
        let most = Duration::from_secs_f64(2.0 / self.per_second).max(Duration::from_secs(1));
        let span = now.since(self.grown_until).min(most).as_secs_f64();
        self.grown_until = self.grown_until.max(now);
        self.is_denied = false;
        if had_to_wait {
            let grown = match self.doubles {
                true => self.per_second * span.exp2(),
                false => self.per_second + self.growth() * span,
            };
            self.set(grown);
        }
    }

    /// A request that was sent in `epoch` was denied.
    pub(crate) fn denied(&mut self, now: Tick, epoch: u64) {
        let leaves = match self.is_denied {
            true => DENIED_AGAIN_LEAVES,
            false => f64::from(self.settings.backoff_percent) / 100.0,
        };
        self.lower(now, epoch, leaves);
        self.is_denied = true;
    }

    /// The server says that nothing is left for `span`. A rate of at most one request in that time obeys it already,
    /// and stays. If it fell, a server with a burst of one, which says so on each admission, would lower it without
    /// end. A rate above it falls even if the policy allows it, since others may share the quota.
    pub(crate) fn exhausted(&mut self, now: Tick, epoch: u64, span: Duration) {
        let one_in_the_span = 1.0 / (self.per_second * span.as_secs_f64());
        if one_in_the_span < 1.0 {
            self.lower(now, epoch, one_in_the_span.max(EXHAUSTED_LEAVES));
        }
    }

    /// By how much it grows in a second.
    fn growth(&self) -> f64 {
        let (least, most) = GROWTH;
        self.settings.increase.clamp(least * self.reference, most * self.reference)
    }

    fn lower(&mut self, now: Tick, epoch: u64, leaves: f64) {
        if epoch != self.epoch {
            return;
        }
        self.epoch += 1;
        self.doubles = false;
        self.reference = self.per_second;
        self.grown_until = self.grown_until.max(now);
        self.set(self.per_second * leaves);
    }

    /// Sends nothing for `span` from now, as far as the settings obey.
    pub(crate) fn pause(&mut self, now: Tick, span: Duration) {
        let until = now.saturating_add(span.min(self.settings.max_pause));
        self.paused_until = self.paused_until.max(until);
    }

    /// The policy of the server allows no higher rate.
    pub(crate) fn bound(&mut self, max_rate: f64) {
        self.max = max_rate.clamp(self.settings.min, self.settings.max);
        self.set(self.per_second);
    }

    fn set(&mut self, per_second: f64) {
        self.per_second = per_second.clamp(self.settings.min, self.max);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(millis: u64) -> Tick {
        Tick::from_nanos(millis * 1_000_000)
    }

    fn rate(initial: f64) -> Rate {
        Rate::new(Settings::new(initial), at(0))
    }

    #[test]
    fn it_doubles_each_second_until_the_first_denial_and_then_grows_by_a_constant() {
        let mut rate = rate(10.0);
        (1..=30).for_each(|tenth| rate.admitted(at(tenth * 100), true));
        assert!((rate.per_second() - 80.0).abs() < 1e-6, "{rate:?}");
        rate.denied(at(3_000), 0);
        assert!((rate.per_second() - 72.0).abs() < 1e-6);
        (1..=100).for_each(|tenth| rate.admitted(at(3_000 + tenth * 100), true));
        assert!((rate.per_second() - 74.0).abs() < 1e-6, "10 s of 0.2: {rate:?}");
    }

    #[test]
    fn denials_of_requests_sent_before_the_last_decrease_are_one_event() {
        let mut rate = rate(100.0);
        (0..50).for_each(|_| rate.denied(at(1), 0));
        assert!((rate.per_second() - 90.0).abs() < 1e-6);
        rate.denied(at(2), 1);
        assert!((rate.per_second() - 45.0).abs() < 1e-6, "denied again");
        rate.admitted(at(3), false);
        rate.denied(at(4), 2);
        assert!((rate.per_second() - 40.5).abs() < 1e-6);
    }

    #[test]
    fn an_exhausted_limit_lowers_the_rate_to_one_request_in_its_time_at_most() {
        let exhausted_for_a_second = |initial| {
            let mut rate = rate(initial);
            (0..3).for_each(|epoch| rate.exhausted(at(0), epoch, Duration::from_secs(1)));
            (rate.per_second(), rate.epoch())
        };
        for (initial, expected, decreases) in
            [(100.0, 85.7375, 3), (1.02, 1.0, 1), (1.0, 1.0, 0), (0.3, 0.3, 0)]
        {
            let (per_second, epoch) = exhausted_for_a_second(initial);
            assert!((per_second - expected).abs() < 1e-6, "{initial}: {per_second}");
            assert_eq!(epoch, decreases, "{initial}");
        }
    }

    #[test]
    fn what_is_not_used_does_not_grow_and_idle_time_is_not_made_up_for() {
        let mut rate = rate(10.0);
        (1..=50).for_each(|second| rate.admitted(at(second * 1_000), false));
        assert_eq!(rate.per_second(), 10.0);
        rate.admitted(at(1_000_000), true);
        assert!((rate.per_second() - 20.0).abs() < 1e-6, "one second of growth: {rate:?}");
    }

    #[test]
    fn a_pause_is_bounded_and_never_shortened() {
        let mut rate = rate(10.0);
        rate.pause(at(0), Duration::from_secs(365 * 86_400));
        assert_eq!(rate.paused_until(), at(600_000));
        rate.pause(at(0), Duration::from_secs(1));
        assert_eq!(rate.paused_until(), at(600_000));
    }

    proptest! {
        /// Whatever responses come, the rate stays in its range.
        #[test]
        fn the_rate_stays_in_its_range(
            initial in 0.5_f64..50.0,
            acts in proptest::collection::vec((0..6, any::<u32>(), any::<f64>()), 0..200),
        ) {
            let settings = Settings::new(initial).rates(0.5, 50.0);
            let mut rate = Rate::new(settings, at(0));
            for (act, number, float) in acts {
                let now = Tick::from_nanos(u64::from(number) * 1_000);
                match act {
                    0 => rate.denied(now, rate.epoch()),
                    1 => {
                        let span = Duration::from_nanos(number.into());
                        rate.exhausted(now, u64::from(number % 3), span);
                    }
                    2 => rate.bound(if float.is_nan() { 1.0 } else { float.abs() }),
                    3 => rate.pause(now, Duration::from_secs(number.into())),
                    _ => rate.admitted(now, number % 2 == 0),
                }
                let per_second = rate.per_second();
                prop_assert!((0.5..=50.0).contains(&per_second), "{rate:?}");
            }
        }
    }
}
