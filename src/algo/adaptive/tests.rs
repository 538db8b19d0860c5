//! The steps beside a naive model of the same formulas in `f64`, and on any input.

use core::time::Duration;

use proptest::prelude::*;

use super::*;

const RANGE: LimitRange = LimitRange { min: 3, max: 1_000 };

/// The relative difference that rounding down to 16 places may make in one step.
const TOLERANCE: f64 = 1e-3;

/// The state in plain numbers: limits in requests, latencies in units.
#[derive(Clone, Copy, Debug)]
struct Naive {
    limit: f64,
    baseline: f64,
    windows: f64,
    resume: f64,
}

#[expect(clippy::cast_precision_loss, reason = "within the tolerance")]
fn plain(fixed: u64) -> f64 {
    fixed as f64 / ONE as f64
}

#[expect(clippy::cast_precision_loss, reason = "within the tolerance")]
fn float(count: u64) -> f64 {
    count as f64
}

impl Naive {
    fn of(state: &State) -> Self {
        Self {
            limit: plain(state.limit),
            baseline: plain(state.baseline),
            windows: float(state.windows),
            resume: plain(state.resume),
        }
    }

    fn clamped(self) -> Self {
        Self { limit: self.limit.clamp(float(RANGE.min), float(RANGE.max)), ..self }
    }
}

fn mean(window: &Window) -> Option<f64> {
    let sum = float(window.latency_sum.max(window.succeeded));
    (window.succeeded > 0).then(|| sum / float(window.succeeded))
}

/// Over 5 % have failed.
fn overloaded(window: &Window) -> bool {
    float(window.failed) > 0.05 * float(window.count()) + 1e-9
}

fn naive_aimd(state: Naive, window: &Window, max_latency: f64) -> Naive {
    let limit = match mean(window) {
        _ if overloaded(window) => state.limit * 0.9,
        Some(mean) if mean > max_latency => state.limit * 0.9,
        _ if window.limited => state.limit + 1.0,
        _ => state.limit,
    };
    Naive { limit, ..state }.clamped()
}

/// `None`: too near to a threshold to say.
fn naive_gradient(state: Naive, window: &Window) -> Option<Naive> {
    let backed_off = |state: Naive| Naive { limit: state.limit * 0.9, ..state }.clamped();
    let Some(short) = mean(window) else {
        return Some(if overloaded(window) { backed_off(state) } else { state });
    };
    let windows = (state.windows + 1.0).min(600.0);
    let parts = if windows <= 10.0 { windows } else { 300.0 };
    let first = state.windows == 0.0;
    let long = if first { short } else { state.baseline + (short - state.baseline) / parts };
    if (long / short / 2.0 - 1.0).abs() < TOLERANCE || (long < 2.0 && short < 2.0) {
        return None;
    }
    let long = if long > 2.0 * short { long * 0.95 } else { long };
    let next = Naive { baseline: long, windows, ..state };
    if overloaded(window) {
        return Some(backed_off(next));
    }
    let gradient = (1.5 * long / short).clamp(0.5, 1.0);
    let limit = state.limit * 0.8 + (state.limit * gradient + 4.0) * 0.2;
    let limit = if limit > state.limit && !window.limited { state.limit } else { limit };
    Some(Naive { limit, ..next }.clamped())
}

fn naive_min_latency(state: Naive, window: &Window, is_over: bool) -> Naive {
    let measuring = |state: Naive| Naive { limit: 3.0, resume: state.limit, windows: 0.0, ..state };
    if state.resume > 0.0 {
        return match mean(window) {
            Some(baseline) => {
                Naive { limit: state.resume, baseline, resume: 0.0, windows: 0.0 }.clamped()
            }
            None => state,
        };
    }
    if is_over {
        return measuring(state);
    }
    let limit = match mean(window) {
        _ if overloaded(window) => state.limit * 0.9,
        None => state.limit,
        Some(mean) => {
            let gradient = (1.25 * state.baseline / mean).clamp(0.5, 2.0);
            let limit = state.limit * gradient;
            let limit = limit + limit.sqrt();
            if limit > state.limit && !window.limited { state.limit } else { limit }
        }
    };
    let next = Naive { limit, ..state }.clamped();
    let windows = if next.limit <= 3.0 { state.windows + 1.0 } else { 0.0 };
    let next = Naive { windows, ..next };
    if windows >= 5.0 { measuring(next) } else { next }
}

fn close(real: f64, naive: f64) -> bool {
    (real - naive).abs() <= TOLERANCE * naive.abs().max(1.0)
}

fn assert_close(real: &State, naive: &Naive, story: &str) {
    let it = Naive::of(real);
    for (real, naive) in [
        (it.limit, naive.limit),
        (it.baseline, naive.baseline),
        (it.windows * 65536.0, naive.windows * 65536.0),
        (it.resume, naive.resume),
    ] {
        assert!(close(real, naive), "{story}: {real} and {naive}: {it:?} beside {naive:?}");
    }
}

/// A state that a controller may be in, with a limit in the range.
fn states() -> impl Strategy<Value = State> {
    let limit = RANGE.min * ONE..=RANGE.max * ONE;
    (limit.clone(), ONE..=LATENCY_MAX << PLACES, 1_u64..=600, prop_oneof![Just(0), limit]).prop_map(
        |(limit, baseline, windows, resume)| State {
            limit,
            baseline,
            windows,
            resume,
            counted: 0,
            measure_at: 1_000,
        },
    )
}

fn windows() -> impl Strategy<Value = Window> {
    (0_u64..=4_095, 0_u64..=100, 0..=LATENCY_MAX, any::<bool>()).prop_map(
        |(succeeded, failed, mean, limited)| Window {
            succeeded,
            failed,
            latency_sum: succeeded * mean,
            limited,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn an_aimd_step_is_that_of_the_naive_model(state in states(), window in windows()) {
        let max = Duration::from_nanos(100_000 * UNIT_NANOS);
        let aimd = Controller::from(Aimd::new().max_latency(max));
        prop_assume!(window.count() > 0);
        let next = aimd.step(RANGE, &state, &window, Tick::ZERO);
        assert_close(&next, &naive_aimd(Naive::of(&state), &window, 100_000.0), "aimd");
    }

    #[test]
    fn a_gradient_step_is_that_of_the_naive_model(state in states(), window in windows()) {
        prop_assume!(window.count() > 0);
        let next = Controller::from(Gradient::new()).step(RANGE, &state, &window, Tick::ZERO);
        if let Some(naive) = naive_gradient(Naive::of(&state), &window) {
            assert_close(&next, &naive, "gradient");
        }
    }

    #[test]
    fn a_min_latency_step_is_that_of_the_naive_model(
        state in states(), window in windows(), nanos in 0_u64..2_000,
    ) {
        prop_assume!(window.count() > 0);
        // At least 1,000 units, so that rounding is within the tolerance.
        prop_assume!(state.baseline > 1_000 * ONE);
        let controller = Controller::from(MinLatency::new());
        let state = State { windows: state.windows % 5, ..state };
        let next = controller.step(RANGE, &state, &window, Tick::from_nanos(nanos));
        let naive = naive_min_latency(Naive::of(&state), &window, nanos >= 1_000);
        // A limit that the models put on either side of the smallest one counts windows differently.
        prop_assume!((naive.limit - 3.0).abs() > 0.01 || naive.limit == 3.0);
        assert_close(&next, &naive, "min latency");
        if state.is_measuring() && !next.is_measuring() {
            let after = next.measure_at - nanos;
            prop_assert!((60_000_000_000..=69_000_000_000).contains(&after), "{after}");
        }
    }

    #[test]
    fn any_state_and_window_has_a_next_state_in_the_range(
        words: [u64; STATE_WORDS], window: u64, now: u64, a: u64, b: u64, which in 0..3,
    ) {
        let range = LimitRange { min: a.min(b).max(1), max: a.max(b).max(1) };
        let controller: Controller = match which {
            0 => Aimd::new().into(),
            1 => Gradient::new().into(),
            _ => MinLatency::new().into(),
        };
        let window = WindowWord(window).window();
        let state = State::of_words(&words);
        let next = controller.step(range, &state, &window, Tick::from_nanos(now));
        let max = range.max.saturating_mul(ONE);
        prop_assert!(next.limit >= range.min.saturating_mul(ONE).min(max) && next.limit <= max);
    }
}

fn steady(mean_units: u64) -> Window {
    Window { succeeded: 100, failed: 0, latency_sum: 100 * mean_units, limited: true }
}

/// Steps through a script, both models by themselves, and compares them after each window.
fn play(controller: Controller, script: impl Iterator<Item = Window>) -> Vec<f64> {
    let mut state = controller.start(RANGE, 20);
    let mut naive = Naive::of(&state);
    let mut limits = Vec::new();
    for (number, window) in script.enumerate() {
        let now = Tick::from_duration(Duration::from_millis(100) * u32::try_from(number).unwrap());
        let is_over = now.as_nanos() >= state.measure_at;
        state = controller.step(RANGE, &state, &window, now);
        naive = match controller {
            Controller::Aimd(_) => naive_aimd(naive, &window, f64::INFINITY),
            Controller::Gradient(_) => naive_gradient(naive, &window).unwrap_or(Naive::of(&state)),
            Controller::MinLatency(_) => naive_min_latency(naive, &window, is_over),
        };
        let real = plain(state.limit);
        assert!((real - naive.limit).abs() <= 0.01 * naive.limit, "{number}: {real}, {naive:?}");
        limits.push(real);
    }
    limits
}

#[test]
fn aimd_adds_one_and_takes_a_tenth() {
    let good = std::iter::repeat_n(steady(4_000), 10);
    let bad = Window { failed: 6, succeeded: 94, ..steady(4_000) };
    let limits = play(Aimd::new().into(), good.clone().chain([bad]).chain(good));
    assert!(close(limits[9], 30.0) && close(limits[10], 27.0) && close(limits[20], 37.0));
}

#[test]
fn without_load_no_controller_grows() {
    let idle = Window { limited: false, ..steady(4_000) };
    for controller in [Aimd::new().into(), Gradient::new().into(), MinLatency::new().into()] {
        let limits = play(controller, std::iter::repeat_n(idle, 50));
        let last = *limits.last().expect("windows");
        assert!((19.9..=20.0).contains(&last), "{controller:?}: {limits:?}");
    }
}

#[test]
fn a_step_up_of_the_latency_lowers_the_limit_and_a_step_down_raises_it() {
    let script = || {
        let low = std::iter::repeat_n(steady(4_000), 100);
        low.clone().chain(std::iter::repeat_n(steady(20_000), 20)).chain(low)
    };
    for controller in [Controller::from(Gradient::new()), MinLatency::new().into()] {
        let limits = play(controller, script());
        let (before, during, after) = (limits[99], limits[119], limits[219]);
        assert!(during < before / 2.0, "{controller:?}: {before} {during}");
        assert!(after > during * 2.0, "{controller:?}: {during} {after}");
    }
}

#[test]
fn at_the_smallest_limit_the_baseline_is_measured_again() {
    let controller = Controller::from(MinLatency::new());
    let mut state = controller.start(RANGE, 20);
    let mut step = |mean_units, seconds| {
        let now = Tick::from_duration(Duration::from_secs(seconds));
        state = controller.step(RANGE, &state, &steady(mean_units), now);
        state
    };
    assert_eq!(step(4_000, 1).baseline, 4_000 * ONE, "measured at the beginning");
    // The upstream is ten times as slow from now on.
    let mut windows = 0;
    while !step(40_000, 2).is_measuring() {
        windows += 1;
        assert!(windows < 30, "it is measured again");
    }
    assert!(windows >= 5, "only after five windows at the smallest limit: {windows}");
    assert_eq!(step(40_000, 3).baseline, 40_000 * ONE);
    let grown = (0..10).map(|_| step(40_000, 4).limit).last();
    assert!(grown.is_some_and(|limit| limit > 10 * ONE), "{grown:?}");
}

#[test]
fn a_measurement_comes_after_its_interval() {
    let every = Duration::from_secs(10);
    let controller = Controller::from(MinLatency::new().measure_every(every));
    let mut state = controller.start(RANGE, 20);
    let mut measured_at = Vec::new();
    for second in 0..100 {
        let now = Tick::from_duration(Duration::from_secs(second));
        let next = controller.step(RANGE, &state, &steady(4_000), now);
        if state.is_measuring() && !next.is_measuring() {
            measured_at.push(second);
        }
        assert_eq!(next.is_measuring(), next.whole_limit() == RANGE.min, "at {second} s");
        state = next;
    }
    let gaps: Vec<u64> = measured_at.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(gaps.len() >= 7 && gaps.iter().all(|gap| (11..=13).contains(gap)), "{gaps:?}");
}

#[test]
fn settings_out_of_range_are_named() {
    let bad: [(Controller, &str); 8] = [
        (Aimd::new().increase(0).into(), "increase"),
        (Aimd::new().max_latency(Duration::ZERO).into(), "max_latency"),
        (Aimd::new().backoff_percent(100).into(), "backoff_percent"),
        (Gradient::new().tolerance_percent(99).into(), "tolerance_percent"),
        (Gradient::new().smoothing_percent(0).into(), "smoothing_percent"),
        (Gradient::new().long_windows(9).into(), "long_windows"),
        (MinLatency::new().measure_samples(0).into(), "measure_samples"),
        (MinLatency::new().failures_percent(100).into(), "failures_percent"),
    ];
    for (controller, name) in bad {
        let advice = controller.out_of_range().unwrap_or_default();
        assert!(advice.starts_with(name), "{controller:?}: {advice}");
    }
    for good in [Aimd::new().into(), Gradient::new().into(), Controller::from(MinLatency::new())] {
        assert_eq!(good.out_of_range(), None);
    }
}

#[test]
fn the_ends_of_each_range_are_allowed_and_a_nanosecond_beyond_is_not() {
    let nano = Duration::from_nanos(1);
    let latencies = [Duration::from_micros(1), Duration::from_secs(60)];
    let intervals = [Duration::from_secs(1), Duration::from_secs(86_400)];
    let aimd = |latency| Controller::from(Aimd::new().max_latency(latency)).out_of_range();
    let every =
        |interval| Controller::from(MinLatency::new().measure_every(interval)).out_of_range();
    assert_eq!((latencies.map(aimd), intervals.map(every)), ([None; 2], [None; 2]));
    let beyond = |[least, most]: [Duration; 2]| [least - nano, most + nano];
    let denied = beyond(latencies).map(aimd).into_iter().chain(beyond(intervals).map(every));
    assert_eq!(denied.flatten().count(), 4);
}

/// The state after a window at 2 s, which has the given state before it.
fn after(controller: impl Into<Controller>, state: State, window: &Window) -> State {
    controller.into().step(RANGE, &state, window, Tick::from_duration(Duration::from_secs(2)))
}

/// A limit of 100 and a baseline of 4,000 units, that is not measured again.
const SETTLED: State = State {
    limit: 100 * ONE,
    baseline: 4_000 * ONE,
    counted: 0,
    windows: 1,
    measure_at: u64::MAX,
    resume: 0,
};

#[test]
fn settings_replace_the_defaults() {
    let is_close = |state: State, limit| close(plain(state.limit), limit);
    // A fifth of the way to a limit that is larger by the queue.
    assert!(is_close(after(Gradient::new(), SETTLED, &steady(4_000)), 100.8));
    assert!(is_close(after(Gradient::new().queue(10), SETTLED, &steady(4_000)), 102.0));
    // Twice the baseline: 62.5 % of the limit, or all of it, and the root.
    assert!(is_close(after(MinLatency::new(), SETTLED, &steady(8_000)), 62.5 + 62.5_f64.sqrt()));
    let tolerant = MinLatency::new().buffer_percent(100);
    assert!(is_close(after(tolerant, SETTLED, &steady(8_000)), 110.0));
    let measuring = State { resume: ONE, ..SETTLED };
    let needed =
        |min_latency: MinLatency, state| Controller::from(min_latency).samples_needed(state, 7);
    assert_eq!(needed(MinLatency::new(), &measuring), 50);
    assert_eq!(needed(MinLatency::new().measure_samples(9), &measuring), 9);
    assert_eq!(needed(MinLatency::new(), &SETTLED), 7);
}

#[test]
fn five_percent_of_failures_are_none_and_more_are_some() {
    let failed = |failed, count| Window { failed, succeeded: count - failed, ..steady(0) };
    let limit = |window| after(Aimd::new(), SETTLED, &window).limit;
    assert_eq!(limit(failed(5, 100)), 101 * ONE);
    assert!(limit(failed(5, 99)) < 100 * ONE);
}

#[test]
fn a_mean_latency_of_exactly_the_largest_is_not_too_slow() {
    let aimd = Aimd::new().max_latency(Duration::from_nanos(4_000 * UNIT_NANOS));
    assert_eq!(after(aimd, SETTLED, &steady(4_000)).limit, 101 * ONE);
    assert!(after(aimd, SETTLED, &steady(4_001)).limit < 100 * ONE);
}

#[test]
fn a_window_without_requests_changes_nothing() {
    let empty = Window { succeeded: 0, failed: 0, latency_sum: 0, limited: true };
    let due = State { measure_at: 1, counted: 7, ..SETTLED };
    for controller in
        [Aimd::new().into(), Gradient::new().into(), Controller::from(MinLatency::new())]
    {
        assert_eq!(after(controller, due, &empty), due, "{controller:?}");
    }
}

#[test]
fn a_latency_is_that_of_its_units() {
    assert_eq!(latency_of(4_000 * ONE), Duration::from_nanos(4_000 * UNIT_NANOS));
}

#[test]
fn the_long_term_latency_is_a_mean_of_its_windows() {
    let late = State { windows: 599, ..SETTLED };
    assert_eq!(after(Gradient::new(), late, &steady(4_000)).windows, 600);
    for windows in [600, u64::MAX] {
        let state = State { windows, ..SETTLED };
        assert_eq!(after(Gradient::new(), state, &steady(4_000)).windows, 600, "{windows}");
    }
    // Two parts of twelve.
    let eleven = State { windows: 11, ..SETTLED };
    let next = after(Gradient::new().long_windows(11), eleven, &steady(4_600));
    assert_eq!(next.baseline, 4_100 * ONE);
    // Exactly twice the latency of the window does not decay yet.
    let twice = State { windows: 600, baseline: 5_990 * ONE, ..SETTLED };
    assert_eq!(after(Gradient::new(), twice, &steady(2_990)).baseline, 5_980 * ONE);
}

#[test]
fn the_interval_of_measurements_is_lengthened_by_up_to_15_percent_evenly() {
    let measuring = State { resume: 20 * ONE, ..SETTLED };
    let controller = Controller::from(MinLatency::new().measure_every(Duration::from_secs(1_000)));
    let longer = |nanos| {
        let next = controller.step(RANGE, &measuring, &steady(4_000), Tick::from_nanos(nanos));
        next.measure_at - nanos - 1_000_000_000_000
    };
    let longer: Vec<u64> = (1..=1_000).map(longer).collect();
    let percent = 10_000_000_000;
    assert!(longer.iter().all(|nanos| *nanos < 15 * percent));
    // One of a thousand that are spread evenly comes within a hundredth of either end.
    assert!(longer.iter().any(|nanos| *nanos > 1_490 * percent / 100));
    assert!(longer.iter().any(|nanos| *nanos < 10 * percent / 100));
}

#[test]
fn a_measurement_begins_at_its_time_and_not_where_the_limit_cannot_move() {
    let controller = Controller::from(MinLatency::new());
    let due = State { measure_at: 1_000, ..SETTLED };
    let at = |nanos| controller.step(RANGE, &due, &steady(4_000), Tick::from_nanos(nanos));
    assert!(!at(999).is_measuring() && at(1_000).is_measuring());
    let fixed = LimitRange { min: 5, max: 5 };
    let at_min = State { limit: 5 * ONE, windows: 4, ..SETTLED };
    let next = controller.step(fixed, &at_min, &steady(4_000), Tick::ZERO);
    assert_eq!((next.windows, next.is_measuring()), (5, false));
}

#[test]
fn counts_limits_and_latencies_saturate() {
    let endless = LimitRange { min: 1, max: u64::MAX };
    let step = |controller: Controller, state, now| {
        controller.step(
            endless,
            &state,
            &Window { succeeded: 1, latency_sum: 5_000, ..steady(0) },
            now,
        )
    };
    let largest = State { limit: u64::MAX, counted: u64::MAX, ..SETTLED };
    for controller in
        [Aimd::new().into(), Gradient::new().into(), Controller::from(MinLatency::new())]
    {
        let next = step(controller, largest, Tick::ZERO);
        assert_eq!(next.counted, u64::MAX, "{controller:?}");
        // The parts of a mean are rounded down.
        assert!(next.limit >= u64::MAX - 1, "{controller:?}: {next:?}");
    }
    // The root of 2^66 is 2^33; that of the largest number is a little less than 2^32.
    let large = State { limit: 1 << 50, ..SETTLED };
    let next = step(MinLatency::new().into(), large, Tick::ZERO);
    assert_eq!(next.limit, (1 << 50) + u64::from(u32::MAX));
    let measuring = State { resume: ONE, ..SETTLED };
    let next = step(MinLatency::new().into(), measuring, Tick::from_nanos(u64::MAX - 1));
    assert_eq!(next.measure_at, u64::MAX);
    let above = LimitRange { min: 1 << 60, max: u64::MAX };
    let next =
        Controller::from(MinLatency::new()).step(above, &SETTLED, &steady(4_000), Tick::ZERO);
    assert_eq!(next.windows, 2, "one more at the smallest limit");
    assert_eq!(Controller::from(Aimd::new()).start(RANGE, 1 << 60).limit, RANGE.max * ONE);
}
