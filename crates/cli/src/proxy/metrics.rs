//! What is counted, in Prometheus's text format.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use http::StatusCode;
use tollgate_http::Stats;

use super::answer::Failure;
use super::log;
use super::page::Page;
use super::rules::RulesGate;
use super::shared;
use super::tasks::Task;

/// The upper bounds of the histogram's buckets, as they are written, and in microseconds.
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
/// Statuses are 100 to 999.
const STATUS_MIN: usize = 100;

/// What the rules say of a request.
#[derive(Clone, Copy, Debug)]
pub(super) enum Decision {
    NoRule,
    Admitted,
    Denied,
    /// It is not known, and so denied: a store does not answer.
    Unavailable,
}

/// Who did not move for too long, so that a body or a tunnel was ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stall {
    /// The upstream, amid a response.
    Response,
    /// The client, amid a request whose response had begun.
    Upload,
    /// The client, which does not read.
    Reader,
    /// Both ends of an upgraded connection.
    Tunnel,
}

/// The reason why a response was cut off after its head had been sent to the client.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// It ended too early.
    Short,
    /// It was longer than it announced.
    Long,
    /// It was malformed, or the connection was reset.
    Broken,
}

/// The ways through a tunnel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    ToUpstream,
    ToClient,
}

/// Everything that is counted but what is counted for each rule.
#[derive(Debug)]
pub(super) struct Metrics {
    connections: AtomicU64,
    connections_open: AtomicI64,
    connections_max: u32,
    connections_denied: AtomicU64,
    accept_errors: AtomicU64,
    header_timeouts: AtomicU64,
    in_flight: AtomicI64,
    abandoned: AtomicU64,
    responses: [AtomicU64; 1_000 - STATUS_MIN],
    /// Not cumulative; the last is for what exceeds all bounds.
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
    last_reload_failed: AtomicBool,
    task_restarts: [AtomicU64; Task::ALL.len()],
}

impl Metrics {
    /// Of a proxy that has at most so many connections of clients at a time.
    pub(super) fn new(connections_max: u32) -> Self {
        Self {
            connections: AtomicU64::new(0),
            connections_open: AtomicI64::new(0),
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
            last_reload_failed: AtomicBool::new(false),
            task_restarts: zeros(),
        }
    }

    pub(super) fn connection_opened(&self) {
        add(&self.connections);
        self.connections_open.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn connection_closed(&self) {
        self.connections_open.fetch_sub(1, Ordering::Relaxed);
    }

    pub(super) fn count_connection_denied(&self) {
        add(&self.connections_denied);
    }

    pub(super) fn count_accept_error(&self) {
        add(&self.accept_errors);
    }

    pub(super) fn count_header_timeout(&self) {
        add(&self.header_timeouts);
    }

    pub(super) fn count_client_unknown(&self) {
        add(&self.client_unknown);
    }

    pub(super) fn request_began(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    /// The head of the response is there.
    pub(super) fn request_answered(&self, status: StatusCode, took: Duration) {
        if let Some(count) = self.responses.get(usize::from(status.as_u16()) - STATUS_MIN) {
            add(count);
        }
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.iter().position(|(_, bound)| micros <= *bound);
        add(&self.durations[bucket.unwrap_or(BOUNDS.len())]);
        self.duration_micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// The whole response is gone, or nobody is there any more who wants it.
    pub(super) fn request_ended(&self, is_answered: bool) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        if !is_answered {
            add(&self.abandoned);
        }
    }

    /// Requests that are under way.
    pub(super) fn in_flight(&self) -> i64 {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(super) fn count_decision(&self, decision: Decision) {
        add(&self.decisions[decision as usize]);
    }

    pub(super) fn count_failure(&self, failure: Failure) {
        add(&self.failures[failure as usize]);
    }

    pub(super) fn count_retry(&self) {
        add(&self.retries);
    }

    pub(super) fn count_fault(&self, fault: Fault) {
        add(&self.faults[fault as usize]);
    }

    pub(super) fn count_stall(&self, of: Stall) {
        add(&self.stalls[of as usize]);
    }

    pub(super) fn count_slow_body(&self) {
        add(&self.slow_bodies);
    }

    pub(super) fn tunnel_opened(&self) {
        add(&self.upgrades);
        self.tunnels_open.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn tunnel_closed(&self) {
        self.tunnels_open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Upgraded connections that are open.
    pub(super) fn tunnels_open(&self) -> i64 {
        self.tunnels_open.load(Ordering::Relaxed)
    }

    pub(super) fn count_tunnelled(&self, way: Way, bytes: usize) {
        self.tunnel_bytes[way as usize].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn rules_were_read(&self, is_taken_over: bool) {
        self.last_reload_failed.store(!is_taken_over, Ordering::Relaxed);
    }

    pub(super) fn count_task_restart(&self, task: Task) {
        add(&self.task_restarts[task as usize]);
    }

    /// How often a task ended and was begun again.
    #[cfg(test)]
    pub(super) fn task_restarts(&self, task: Task) -> u64 {
        read(&self.task_restarts[task as usize])
    }

    /// All of it.
    pub(super) fn page(&self, gate: &RulesGate, layer: Stats) -> String {
        let mut page = Page::default();
        self.write_process(&mut page);
        self.write_connections(&mut page);
        self.write_requests(&mut page);
        self.write_bodies(&mut page);
        page.family("tollgate_decisions_total", "counter", "Requests by what the rules say.");
        for (decision, word) in [
            (Decision::NoRule, "no_rule"),
            (Decision::Admitted, "admitted"),
            (Decision::Denied, "denied"),
            (Decision::Unavailable, "unavailable"),
        ] {
            page.labelled("decision", word, read(&self.decisions[decision as usize]));
        }
        let name = "tollgate_client_unknown_total";
        let help = "Requests whose forwarding header, of a trusted proxy, names no address.";
        page.single(name, "counter", help, read(&self.client_unknown));
        let help = "Requests that had to wait for their turn.";
        page.single("tollgate_queued_total", "counter", help, layer.waited);
        let help = "Requests that would have had to wait while too many did.";
        page.single("tollgate_queue_full_total", "counter", help, layer.queue_full);
        let help = "Requests that waited for a store's answer, or for what stands in for it.";
        page.single("tollgate_store_waits_total", "counter", help, layer.pending);
        let help = "Requests that were denied since a store did not answer.";
        page.single("tollgate_unavailable_total", "counter", help, layer.unavailable);
        self.write_rules(&mut page, gate);
        shared::write(&mut page, &gate.shared());
        page.into_text()
    }

    fn write_process(&self, page: &mut Page) {
        let version = env!("CARGO_PKG_VERSION");
        page.family("tollgate_build_info", "gauge", "The version that runs; always 1.");
        page.labelled("version", version, 1);
        let name = "tollgate_task_restarts_total";
        page.family(name, "counter", "Tasks of the proxy that ended and were begun again.");
        for task in Task::ALL {
            page.labelled("task", task.word(), read(&self.task_restarts[task as usize]));
        }
        let name = "tollgate_log_messages_dropped_total";
        let help = "Messages that were not logged, because standard error took no more.";
        page.single(name, "counter", help, log::dropped());
    }

    fn write_connections(&self, page: &mut Page) {
        let name = "tollgate_connections_total";
        page.single(name, "counter", "Connections of clients.", read(&self.connections));
        let open = self.connections_open.load(Ordering::Relaxed);
        page.single("tollgate_connections_open", "gauge", "Those open now.", open);
        let help = "Those that may be open at a time.";
        page.single("tollgate_connections_max", "gauge", help, self.connections_max);
        let name = "tollgate_connections_denied_total";
        let help = "Connections that were closed at once, because their address has too many.";
        page.single(name, "counter", help, read(&self.connections_denied));
        let name = "tollgate_connection_header_timeouts_total";
        let help = "Connections that were closed before a first request was complete.";
        page.single(name, "counter", help, read(&self.header_timeouts));
        let name = "tollgate_accept_errors_total";
        let help = "Connections that could not be accepted.";
        page.single(name, "counter", help, read(&self.accept_errors));
    }

    fn write_requests(&self, page: &mut Page) {
        let name = "tollgate_http_requests_total";
        page.family(name, "counter", "Requests by the status of their response.");
        for (index, count) in self.responses.iter().enumerate() {
            match read(count) {
                0 => {}
                count => page.labelled("code", index + STATUS_MIN, count),
            }
        }
        let name = "tollgate_http_requests_in_flight";
        page.single(name, "gauge", "Requests whose response is not yet sent.", self.in_flight());
        let name = "tollgate_http_requests_abandoned_total";
        let help = "Requests whose client was gone before there was a response.";
        page.single(name, "counter", help, read(&self.abandoned));

        let name = "tollgate_http_request_duration_seconds";
        page.family(name, "histogram", "From a request's head to its response's head.");
        let mut total = 0;
        let labels = BOUNDS.iter().map(|(text, _)| *text).chain(["+Inf"]);
        for (text, count) in labels.zip(&self.durations) {
            total += read(count);
            page.bucket(text, total);
        }
        let seconds = read(&self.duration_micros) as f64 / 1e6;
        page.sum_and_count(seconds, total);

        let name = "tollgate_forward_failures_total";
        page.family(name, "counter", "Requests without an answer from the upstream, by why.");
        for failure in Failure::ALL {
            page.labelled("reason", failure.word(), read(&self.failures[failure as usize]));
        }
        let name = "tollgate_upstream_retries_total";
        let help = "Requests sent once more, since the upstream had closed a reused connection.";
        page.single(name, "counter", help, read(&self.retries));
    }

    fn write_bodies(&self, page: &mut Page) {
        let name = "tollgate_stalls_total";
        page.family(name, "counter", "Bodies and tunnels that were ended, by who did not move.");
        for (stall, word) in [
            (Stall::Response, "response"),
            (Stall::Upload, "upload"),
            (Stall::Reader, "reader"),
            (Stall::Tunnel, "tunnel"),
        ] {
            page.labelled("of", word, read(&self.stalls[stall as usize]));
        }
        let name = "tollgate_slow_bodies_total";
        let help = "Bodies of requests that were ended, because they came too slowly.";
        page.single(name, "counter", help, read(&self.slow_bodies));
        let name = "tollgate_response_faults_total";
        page.family(name, "counter", "Responses cut off amid the body, by what was wrong with it.");
        for (fault, word) in
            [(Fault::Short, "short"), (Fault::Long, "long"), (Fault::Broken, "broken")]
        {
            page.labelled("fault", word, read(&self.faults[fault as usize]));
        }
        let name = "tollgate_upgrades_total";
        page.single(name, "counter", "Connections that were upgraded.", read(&self.upgrades));
        let open = self.tunnels_open();
        page.single("tollgate_tunnels_open", "gauge", "Upgraded ones open now.", open);
        page.family("tollgate_tunnel_bytes_total", "counter", "What went through them, by way.");
        for (way, word) in [(Way::ToUpstream, "upstream"), (Way::ToClient, "client")] {
            page.labelled("to", word, read(&self.tunnel_bytes[way as usize]));
        }
    }

    fn write_rules(&self, page: &mut Page, gate: &RulesGate) {
        let book = gate.book();
        let counts = book.counts();
        let (mut evictions, mut live, mut capacity) = (Vec::new(), Vec::new(), Vec::new());
        let name = "tollgate_rule_admissions_total";
        page.family(name, "counter", "Requests that were charged to all limits of a rule.");
        gate.read(|gate| {
            for rule in gate.stats() {
                let name = rule.rule.name();
                let counts = counts.iter().find(|(its, _)| *its == name);
                let in_store = counts.map_or(0, |(_, counts)| read(&counts.store_admitted));
                page.labelled("rule", name, rule.admitted + in_store);
                for its in rule.limits {
                    let of = |figure: u64| (name.to_owned(), its.limit.name().to_owned(), figure);
                    evictions.push(of(its.stats.evicted));
                    live.push(of(its.occupancy.live as u64));
                    capacity.push(of(its.occupancy.capacity as u64));
                }
            }
        });
        for (name, kind, help, figures) in [
            (
                "tollgate_rule_evictions_total",
                "counter",
                "Times that a limit forgot a live key to make room for another.",
                evictions,
            ),
            ("tollgate_rule_live_keys", "gauge", "Keys that a limit remembers, about.", live),
            ("tollgate_rule_capacity_keys", "gauge", "Keys that it has room for.", capacity),
        ] {
            page.family(name, kind, help);
            for (rule, limit, figure) in figures {
                page.labelled_twice(("rule", &rule), ("limit", &limit), figure);
            }
        }
        let name = "tollgate_rule_denials_total";
        page.family(name, "counter", "Denials by the rule that denies for longest.");
        for (rule, counts) in &counts {
            page.labelled("rule", rule, read(&counts.denied));
        }
        let name = "tollgate_rule_shadow_denials_total";
        page.family(name, "counter", "What rules in shadow would have denied.");
        for (rule, counts) in &counts {
            page.labelled("rule", rule, read(&counts.shadow_denied));
        }
        let name = "tollgate_rule_store_decisions_total";
        page.family(name, "counter", "Decisions about limits in a store, by who made them.");
        let has_store: Vec<String> = gate.read(|gate| {
            let rules = gate.rules().filter(|rule| rule.store().is_some());
            rules.map(|rule| rule.name().to_owned()).collect()
        });
        for (rule, counts) in
            counts.iter().filter(|(rule, _)| has_store.iter().any(|its| its == rule))
        {
            for (origin, count) in counts.origins() {
                page.labelled_twice(("rule", rule), ("origin", origin), count);
            }
        }
        page.single("tollgate_rules", "gauge", "Rules in force.", counts.len());
        let bytes = gate.read(|gate| gate.memory_bytes());
        page.single("tollgate_rules_memory_bytes", "gauge", "Reserved for their tables.", bytes);
        let (reloads, failures) = gate.reloads();
        let name = "tollgate_rules_reloads_total";
        page.single(name, "counter", "How often the file was taken over again.", reloads);
        let name = "tollgate_rules_reload_failures_total";
        page.single(name, "counter", "How often it was wrong, or not there.", failures);
        let is_right = !self.last_reload_failed.load(Ordering::Relaxed);
        let name = "tollgate_rules_last_reload_successful";
        page.single(name, "gauge", "1, or 0 if the file is wrong.", u8::from(is_right));
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
