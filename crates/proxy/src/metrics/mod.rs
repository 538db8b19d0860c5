//! The counters of the proxy. They import no other module: rules and stores write their own figures.

mod labels;
mod prometheus;

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use tollgate_http::Stats;

pub(crate) use self::labels::{Decision, Direction, Failure, Fault, Stall, Task};
pub(crate) use self::prometheus::PrometheusText;

/// The upper bounds of the histogram's buckets: as printed, and in microseconds.
const BOUNDS: [(&str, u64); 12] = [
    ("0.0005", 500),
    ("0.001", 1_000),
    ("0.0025", 2_500),
    ("0.005", 5_000),
    ("0.01", 10_000),
    ("0.025", 25_000),
    ("0.05", 50_000),
    ("0.1", 100_000),
    ("0.25", 250_000),
    ("1", 1_000_000),
    ("5", 5_000_000),
    ("30", 30_000_000),
];
/// Status codes are 100 to 999.
const STATUS_MIN: usize = 100;

/// All counters except those of each rule and store.
#[derive(Debug)]
pub(crate) struct Metrics {
    connections: AtomicU64,
    connections_open: AtomicI64,
    /// Open connections on which a request has arrived.
    connections_used: AtomicI64,
    connections_max: u32,
    connections_denied: AtomicU64,
    accept_errors: AtomicU64,
    header_timeouts: AtomicU64,
    in_flight: AtomicI64,
    abandoned: AtomicU64,
    responses: [AtomicU64; 1_000 - STATUS_MIN],
    /// Not cumulative. The last one counts values above all bounds.
    durations: [AtomicU64; BOUNDS.len() + 1],
    duration_micros: AtomicU64,
    client_unknown: AtomicU64,
    decisions: [AtomicU64; 4],
    failures: [AtomicU64; Failure::ALL.len()],
    retries: AtomicU64,
    faults: [AtomicU64; 3],
    stalls: [AtomicU64; 4],
    slow_bodies: AtomicU64,
    upgrades: AtomicU64,
    tunnels_open: AtomicI64,
    tunnel_bytes: [AtomicU64; 2],
    task_restarts: [AtomicU64; Task::ALL.len()],
}

impl Metrics {
    /// Counters of a proxy with at most `connections_max` connections of clients at a time.
    pub(crate) fn new(connections_max: u32) -> Self {
        Self {
            connections: AtomicU64::new(0),
            connections_open: AtomicI64::new(0),
            connections_used: AtomicI64::new(0),
            connections_max,
            connections_denied: AtomicU64::new(0),
            accept_errors: AtomicU64::new(0),
            header_timeouts: AtomicU64::new(0),
            in_flight: AtomicI64::new(0),
            abandoned: AtomicU64::new(0),
            responses: zeros(),
            durations: zeros(),
            duration_micros: AtomicU64::new(0),
            client_unknown: AtomicU64::new(0),
            decisions: zeros(),
            failures: zeros(),
            retries: AtomicU64::new(0),
            faults: zeros(),
            stalls: zeros(),
            slow_bodies: AtomicU64::new(0),
            upgrades: AtomicU64::new(0),
            tunnels_open: AtomicI64::new(0),
            tunnel_bytes: zeros(),
            task_restarts: zeros(),
        }
    }

    pub(crate) fn connection_opened(&self) {
        add(&self.connections);
        self.connections_open.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes the first request of a connection.
    pub(crate) fn connection_used(&self) {
        self.connections_used.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn connection_closed(&self, is_used: bool) {
        self.connections_open.fetch_sub(1, Ordering::Relaxed);
        self.connections_used.fetch_sub(i64::from(is_used), Ordering::Relaxed);
    }

    /// Whether a request has arrived on an open connection. Its response may be unsent although it is no longer in
    /// flight.
    pub(crate) fn has_used_connection(&self) -> bool {
        self.connections_used.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn count_connection_denied(&self) {
        add(&self.connections_denied);
    }

    pub(crate) fn count_accept_error(&self) {
        add(&self.accept_errors);
    }

    pub(crate) fn count_header_timeout(&self) {
        add(&self.header_timeouts);
    }

    pub(crate) fn count_client_unknown(&self) {
        add(&self.client_unknown);
    }

    pub(crate) fn request_began(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// The head of the response is complete.
    pub(crate) fn request_answered(&self, status: StatusCode, took: Duration) {
        if let Some(count) = self.responses.get(usize::from(status.as_u16()) - STATUS_MIN) {
            add(count);
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|(_, bound)| micros <= *bound);
        add(&self.durations[bucket.unwrap_or(BOUNDS.len())]);
        self.duration_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// The response was sent to its end, or the client has gone.
    pub(crate) fn request_ended(&self, is_answered: bool) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !is_answered {
            add(&self.abandoned);
        }
    }

    /// Requests in flight.
    pub(crate) fn in_flight(&self) -> i64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn count_decision(&self, decision: Decision) {
        add(&self.decisions[decision as usize]);
    }

    pub(crate) fn count_failure(&self, failure: Failure) {
        add(&self.failures[failure as usize]);
    }

    pub(crate) fn count_retry(&self) {
        add(&self.retries);
    }

    pub(crate) fn count_fault(&self, fault: Fault) {
        add(&self.faults[fault as usize]);
    }

    pub(crate) fn count_stall(&self, of: Stall) {
        add(&self.stalls[of as usize]);
    }

    pub(crate) fn count_slow_body(&self) {
        add(&self.slow_bodies);
    }

    pub(crate) fn tunnel_opened(&self) {
        add(&self.upgrades);
        self.tunnels_open.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn tunnel_closed(&self) {
        self.tunnels_open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Open upgraded connections.
    pub(crate) fn tunnels_open(&self) -> i64 {
        self.tunnels_open.load(Ordering::Relaxed)
    }

    pub(crate) fn count_tunnelled(&self, direction: Direction, bytes: usize) {
        self.tunnel_bytes[direction as usize].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_task_restart(&self, task: Task) {
        add(&self.task_restarts[task as usize]);
    }

    /// How often a task was restarted.
    #[cfg(test)]
    pub(crate) fn task_restarts(&self, task: Task) -> u64 {
        read(&self.task_restarts[task as usize])
    }

    /// Writes all counters. `layer` has those of the rate-limit layer, and `messages_dropped` counts messages
    /// that were not logged.
    pub(crate) fn write(&self, page: &mut PrometheusText, layer: Stats, messages_dropped: u64) {
        self.write_process(page, messages_dropped);
        self.write_connections(page);
        self.write_requests(page);
        self.write_bodies(page);
        self.write_decisions(page, layer);
    }

    fn write_process(&self, page: &mut PrometheusText, messages_dropped: u64) {
        let version = env!("CARGO_PKG_VERSION");
        page.family("tollgate_build_info", "gauge", "The version that runs; always 1.");
        page.labelled("version", version, 1);
        let name = "tollgate_task_restarts_total";
        page.family(name, "counter", "Tasks of the proxy that ended and were restarted.");
        for task in Task::ALL {
            page.labelled("task", task.word(), read(&self.task_restarts[task as usize]));
        }
        let name = "tollgate_log_messages_dropped_total";
        let help = "Messages that were not logged: the queue was full, or a write failed.";
        page.single(name, "counter", help, messages_dropped);
    }

    fn write_connections(&self, page: &mut PrometheusText) {
        let name = "tollgate_connections_total";
        page.single(name, "counter", "Connections of clients.", read(&self.connections));
        let open = self.connections_open.load(Ordering::Relaxed);
        page.single("tollgate_connections_open", "gauge", "Open connections of clients.", open);
        let help = "Connections of clients that may be open at a time.";
        page.single("tollgate_connections_max", "gauge", help, self.connections_max);
        let name = "tollgate_connections_denied_total";
        let help = "Connections that were closed immediately because their address had too many.";
        page.single(name, "counter", help, read(&self.connections_denied));
        let name = "tollgate_connection_header_timeouts_total";
        let help = "Connections that were closed before a first request was complete.";
        page.single(name, "counter", help, read(&self.header_timeouts));
        let name = "tollgate_accept_errors_total";
        let help = "Connections that could not be accepted.";
        page.single(name, "counter", help, read(&self.accept_errors));
    }

    fn write_requests(&self, page: &mut PrometheusText) {
        let name = "tollgate_http_requests_total";
        page.family(name, "counter", "Requests by the status of their response.");
        for (index, count) in self.responses.iter().enumerate() {
            match read(count) {
                0 => {}
                count => page.labelled("code", index + STATUS_MIN, count),
            }
        }
        let name = "tollgate_http_requests_in_flight";
        page.single(
            name,
            "gauge",
            "Requests whose response is not sent completely.",
            self.in_flight(),
        );
        let name = "tollgate_http_requests_abandoned_total";
        let help = "Requests whose client left before there was a response.";
        page.single(name, "counter", help, read(&self.abandoned));

        let name = "tollgate_http_request_duration_seconds";
        page.family(
            name,
            "histogram",
            "Time from the head of a request to the head of its response.",
        );
        let mut total = 0;
        let labels = BOUNDS.iter().map(|(text, _)| *text).chain(["+Inf"]);
        for (text, count) in labels.zip(&self.durations) {
            total += read(count);
            page.bucket(text, total);
        }
        let seconds = read(&self.duration_micros) as f64 / 1e6;
        page.sum_and_count(seconds, total);

        let name = "tollgate_forward_failures_total";
        page.family(name, "counter", "Requests without a response from the upstream, by reason.");
        for failure in Failure::ALL {
            page.labelled("reason", failure.word(), read(&self.failures[failure as usize]));
        }
        let name = "tollgate_upstream_retries_total";
        let help = "Requests sent again because the upstream had closed a reused connection.";
        page.single(name, "counter", help, read(&self.retries));
    }

    fn write_bodies(&self, page: &mut PrometheusText) {
        let name = "tollgate_stalls_total";
        page.family(
            name,
            "counter",
            "Bodies and tunnels that were ended, by the side that made no progress.",
        );
        for (stall, word) in [
            (Stall::Response, "response"),
            (Stall::Upload, "upload"),
            (Stall::Reader, "reader"),
            (Stall::Tunnel, "tunnel"),
        ] {
            page.labelled("of", word, read(&self.stalls[stall as usize]));
        }
        let name = "tollgate_slow_bodies_total";
        let help = "Request bodies that were ended because they arrived too slowly.";
        page.single(name, "counter", help, read(&self.slow_bodies));
        let name = "tollgate_response_faults_total";
        page.family(name, "counter", "Responses that were cut off inside the body, by reason.");
        for (fault, word) in
            [(Fault::Short, "short"), (Fault::Long, "long"), (Fault::Broken, "broken")]
        {
            page.labelled("fault", word, read(&self.faults[fault as usize]));
        }
        let name = "tollgate_upgrades_total";
        page.single(name, "counter", "Connections that were upgraded.", read(&self.upgrades));
        let open = self.tunnels_open();
        page.single("tollgate_tunnels_open", "gauge", "Open upgraded connections.", open);
        page.family(
            "tollgate_tunnel_bytes_total",
            "counter",
            "Bytes through upgraded connections, by direction.",
        );
        for (direction, word) in
            [(Direction::ToUpstream, "upstream"), (Direction::ToClient, "client")]
        {
            page.labelled("to", word, read(&self.tunnel_bytes[direction as usize]));
        }
    }

    fn write_decisions(&self, page: &mut PrometheusText, layer: Stats) {
        page.family(
            "tollgate_decisions_total",
            "counter",
            "Requests by the decision of the rules.",
        );
        for (decision, word) in [
            (Decision::NoRule, "no_rule"),
            (Decision::Admitted, "admitted"),
            (Decision::Denied, "denied"),
            (Decision::Unavailable, "unavailable"),
        ] {
            page.labelled("decision", word, read(&self.decisions[decision as usize]));
        }
        let name = "tollgate_client_unknown_total";
        let help = "Requests whose forwarding header from a trusted proxy has no address.";
        page.single(name, "counter", help, read(&self.client_unknown));
        let help = "Requests that waited for their turn.";
        page.single("tollgate_queued_total", "counter", help, layer.waited);
        let help = "Requests denied because too many requests were waiting.";
        page.single("tollgate_queue_full_total", "counter", help, layer.queue_full);
        let help = "Requests that waited for a store or its fallback.";
        page.single("tollgate_store_waits_total", "counter", help, layer.pending);
        let help = "Requests denied because a store did not answer.";
        page.single("tollgate_unavailable_total", "counter", help, layer.unavailable);
    }
}

fn zeros<const N: usize>() -> [AtomicU64; N] {
    std::array::from_fn(|_| AtomicU64::new(0))
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn read(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}
