//! A circuit breaker: whether to call the server, by its recent answers. Pure: time and chance are
//! arguments.
//!
//! ```text
//! closed  --failures in a row-->  open  --its pause is over-->  probing  --answered-->  closed
//!                                   ^------------- not answered ----'
//! ```
//!
//! While it is open or probing, no request reaches the server; only the probe does. A server that
//! comes back is therefore met by one call of each process, at moments that are spread by chance.

use core::time::Duration;

/// Thresholds and pauses of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BreakerSettings {
    /// After this many failures in a row the server is no longer called.
    pub(crate) failures: u32,
    /// The time between the failure and the first probe.
    pub(crate) pause_min: Duration,
    /// Pauses double up to this.
    pub(crate) pause_max: Duration,
    /// The longest time that a probe takes.
    pub(crate) probe_max: Duration,
}

/// The breaker's instruction to a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Call the server.
    Ask,
    /// Decide without the server.
    Skip,
    /// Decide without the server, and start a probe.
    Probe,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed { failures: u32 },
    Open { probe_at: Duration, probes: u32 },
    Probing { until: Duration, probes: u32 },
}

/// The circuit breaker of one server.
#[derive(Debug)]
pub(crate) struct Breaker {
    settings: BreakerSettings,
    state: State,
}

impl Breaker {
    pub(crate) fn new(settings: BreakerSettings) -> Self {
        Self { settings, state: State::Closed { failures: 0 } }
    }

    /// Asked before each call. Times are counted from any fixed moment.
    pub(crate) fn next_action(&mut self, now: Duration) -> Action {
        match self.state {
            State::Closed { .. } => Action::Ask,
            State::Open { probe_at: at, probes } | State::Probing { until: at, probes }
                if now >= at =>
            {
                // A probe without a result by then has lost its runtime and will never report one.
                let BreakerSettings { pause_max, probe_max, .. } = self.settings;
                let until = now.saturating_add(pause_max.saturating_mul(10).max(probe_max));
                self.state = State::Probing { until, probes };
                Action::Probe
            }
            State::Open { .. } | State::Probing { .. } => Action::Skip,
        }
    }

    /// A call was answered. While the circuit is open this changes nothing, because the call began
    /// before.
    pub(crate) fn call_answered(&mut self) {
        if let State::Closed { failures } = &mut self.state {
            *failures = 0;
        }
    }

    /// A call had no answer. Returns whether the circuit opened by that.
    pub(crate) fn call_failed(&mut self, now: Duration, chance: u64) -> bool {
        let State::Closed { failures } = &mut self.state else { return false };
        *failures = failures.saturating_add(1);
        if *failures < self.settings.failures {
            return false;
        }
        self.open(now, 0, chance);
        true
    }

    /// The probe has ended.
    pub(crate) fn probe_ended(&mut self, call_answered: bool, now: Duration, chance: u64) {
        match self.state {
            State::Probing { .. } if call_answered => self.state = State::Closed { failures: 0 },
            State::Probing { probes, .. } => self.open(now, probes.saturating_add(1), chance),
            State::Closed { .. } | State::Open { .. } => {}
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.state, State::Closed { .. })
    }

    fn open(&mut self, now: Duration, probes: u32, chance: u64) {
        let BreakerSettings { pause_min, pause_max, .. } = self.settings;
        let pause = pause_min.saturating_mul(1 << probes.min(20)).min(pause_max);
        // Between half of the pause and all of it.
        let half = pause / 2;
        let half_nanos = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX);
        let spread = Duration::from_nanos(chance % half_nanos.max(1));
        let probe_at = now.saturating_add(half).saturating_add(spread);
        self.state = State::Open { probe_at, probes };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: BreakerSettings = BreakerSettings {
        failures: 3,
        pause_min: Duration::from_millis(100),
        pause_max: Duration::from_millis(800),
        probe_max: Duration::from_millis(800),
    };

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn opened(chance: u64) -> Breaker {
        let mut breaker = Breaker::new(SETTINGS);
        assert!(!breaker.call_failed(ms(0), chance));
        assert!(!breaker.call_failed(ms(0), chance));
        assert!(breaker.call_failed(ms(0), chance));
        breaker
    }

    #[test]
    fn only_failures_in_a_row_open_the_circuit() {
        let mut breaker = Breaker::new(SETTINGS);
        for _ in 0..10 {
            assert!(!breaker.call_failed(ms(0), 0));
            assert!(!breaker.call_failed(ms(0), 0));
            breaker.call_answered();
        }
        assert_eq!(breaker.next_action(ms(0)), Action::Ask);
        assert_eq!(opened(0).next_action(ms(0)), Action::Skip);
    }

    #[test]
    fn one_probe_runs_at_a_time_and_only_it_closes_the_circuit() {
        let mut breaker = opened(0);
        assert_eq!(breaker.next_action(ms(49)), Action::Skip);
        assert_eq!(breaker.next_action(ms(50)), Action::Probe);
        assert_eq!(breaker.next_action(ms(50)), Action::Skip);
        breaker.call_answered();
        assert!(!breaker.call_failed(ms(51), 0), "the call was sent before");
        assert_eq!(breaker.next_action(ms(51)), Action::Skip);
        breaker.probe_ended(true, ms(52), 0);
        assert_eq!(breaker.next_action(ms(52)), Action::Ask);
        assert!(!breaker.is_open());
    }

    #[test]
    fn pauses_double_and_are_spread() {
        for chance in [0, 1, 7_777_777, u64::MAX] {
            let mut breaker = opened(chance);
            let mut now = ms(0);
            for pause in [100, 200, 400, 800, 800, 800] {
                let asked =
                    (1..=pause).find(|wait| breaker.next_action(now + ms(*wait)) == Action::Probe);
                let waited = asked.expect("a probe by the end of the pause");
                assert!(waited * 2 >= pause, "{waited} of {pause}");
                now += ms(waited);
                breaker.probe_ended(false, now, chance);
                assert!(breaker.is_open());
            }
        }
    }

    #[test]
    fn a_probe_that_may_still_end_is_not_replaced() {
        let mut breaker =
            Breaker::new(BreakerSettings { failures: 1, probe_max: ms(60_000), ..SETTINGS });
        assert!(breaker.call_failed(ms(0), 0));
        assert_eq!(breaker.next_action(ms(50)), Action::Probe);
        assert_eq!(breaker.next_action(ms(60_049)), Action::Skip);
        assert_eq!(breaker.next_action(ms(60_050)), Action::Probe);
    }

    #[test]
    fn a_lost_probe_is_replaced() {
        let mut breaker = opened(0);
        assert_eq!(breaker.next_action(ms(50)), Action::Probe);
        assert_eq!(breaker.next_action(ms(8_049)), Action::Skip);
        assert_eq!(breaker.next_action(ms(8_050)), Action::Probe);
    }
}
