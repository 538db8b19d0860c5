//! Compares grants with the maximum of any span of time.

/// The largest excess of the cells granted within a span over `allowed(span)`, over all spans that
/// begin and end with a grant. Instants and spans are in nanoseconds.
pub(crate) fn worst_excess(granted: &[(u64, u64)], allowed: impl Fn(u64) -> f64) -> f64 {
    let mut worst = f64::MIN;
    for (first, &(begin, _)) in granted.iter().enumerate() {
        let mut cells = 0;
        for &(end, n) in &granted[first..] {
            cells += n;
            worst = worst.max(f64::from(u32::try_from(cells).expect("few")) - allowed(end - begin));
        }
    }
    worst
}

/// The same for a bucket with a rate in cells a second: `burst + rate * (span + unit)` are allowed.
#[allow(clippy::cast_precision_loss, reason = "seconds, and few cells")]
pub(crate) fn worst_excess_of_bucket(granted: &[(u64, u64)], rate: u64, burst: u64) -> f64 {
    let seconds = |span: u64| (span + 2_500) as f64 / 1_000_000_000_f64;
    worst_excess(granted, |span| burst as f64 + rate as f64 * seconds(span))
}
