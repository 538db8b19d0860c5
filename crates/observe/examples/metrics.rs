//! The metrics of a limiter, as a scrape reads them.
//!
//! The debugging recorder of `metrics-util` takes the place of an exporter.

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tollgate::top::TopKeys;
use tollgate::{Limiter, Quota};
use tollgate_observe::TopKeysRecorder;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let recorder = DebuggingRecorder::new();
    let scrape = recorder.snapshotter();
    recorder.install()?;
    tollgate_observe::describe();

    let gate: Limiter<str> =
        Limiter::builder(Quota::per_minute(5)).capacity(1_000).count_decisions().build()?;
    let top: TopKeys<String> = TopKeys::new(100);
    let mut top_recorder = TopKeysRecorder::new("api", 3);
    for request in 0..200 {
        // Low numbers send more requests.
        let client = format!("192.0.2.{}", request % 16 * (request % 5));
        let _ = top.watch(client.as_str(), gate.check(&client));
    }

    // For each scrape:
    tollgate_observe::record(&gate, "api");
    top_recorder.record(&top);

    let metrics = scrape.snapshot().into_vec();
    let mut lines: Vec<String> = metrics.into_iter().map(line).collect();
    lines.sort();
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// `name{label="value"} value`.
fn line(metric: Metric) -> String {
    let (key, _, _, value) = metric;
    let labels: Vec<String> =
        key.key().labels().map(|label| format!("{}={:?}", label.key(), label.value())).collect();
    let value = match value {
        DebugValue::Counter(count) => count.to_string(),
        DebugValue::Gauge(level) => level.to_string(),
        DebugValue::Histogram(values) => format!("{values:?}"),
    };
    format!("{}{{{}}} {value}", key.key().name(), labels.join(","))
}

type Metric =
    (metrics_util::CompositeKey, Option<metrics::Unit>, Option<metrics::SharedString>, DebugValue);
