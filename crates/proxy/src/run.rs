//! Builds the parts of the proxy, and serves until a signal.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Mutex;
use tollgate_http::{RateLimit, RateLimitLayer};
use tollgate_rules::RulesLimiter;
use tower_layer::Layer;

use crate::admin::Admin;
use crate::banner::Banner;
use crate::config::Config;
use crate::connection::per_client::{PerClient, PerClientMax};
use crate::connection::write_timeout::ClientTimeouts;
use crate::demo;
use crate::log;
use crate::metrics::Metrics;
use crate::metrics::Task;
use crate::process::descriptors::ConnectionBudget;
use crate::process::signals::{HangupSignals, StopSignals};
use crate::process::tasks;
use crate::request::client::ClientFinder;
use crate::rules::{self, RulesFollower, RulesGate};
use crate::server::service::ServiceContext;
use crate::server::{STREAMS_MAX, Server};
use crate::stores;
use crate::upstream::forward::Forward;
use crate::upstream::forward::ForwardOptions;
use crate::upstream::{PoolOptions, Upstream};

/// The exit code if requests were cut off.
const CUT_OFF: u8 = 1;
/// The length of the accept queue: with a short one, a burst of clients would wait a second for the next
/// attempt of TCP. The system may lower it.
const BACKLOG: u32 = 4_096;

/// About as many connections as one browser opens.
const CLIENT_CONNECTIONS_MIN: u32 = 8;

/// How long the process waits at exit until the log is written. It takes so long only if the pipe is not read.
const LOG_FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Serves until SIGINT or SIGTERM. `announce` prints the text for the start.
///
/// The exit code is 1 if requests were cut off.
///
/// # Errors
///
/// The proxy cannot start: the configuration or the rules are wrong, or an address is in use.
pub fn run(config: Config, announce: impl FnOnce(&str) -> Result<()>) -> Result<ExitCode> {
    // The default hook writes to standard error, and would block while the pipe is full.
    std::panic::set_hook(Box::new(|panic| log::error(panic)));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let code = runtime.block_on(serve(config, announce));
    // A slow read of a file must not delay the exit.
    runtime.shutdown_timeout(Duration::from_millis(100));
    log::flush(LOG_FLUSH_TIMEOUT);
    code
}

async fn serve(config: Config, announce: impl FnOnce(&str) -> Result<()>) -> Result<ExitCode> {
    let config = Config { timeouts: config.timeouts.up_to_a_day(), ..config };
    let mut stops = StopSignals::listen().context("cannot listen to signals")?;
    let hangups = HangupSignals::listen().context("cannot listen to signals")?;
    let budget = ConnectionBudget::claim(config.max_connections, config.upstream.is_none())?;
    let metrics = Arc::new(Metrics::new(budget.clients));
    let listener = bind(config.listen)?;
    let admin_listener = bind(config.admin)?;
    let upstream = upstream(&config).await?;
    let forward = Forward::new(
        upstream.clone(),
        forward_options(&config, budget.upstream),
        Arc::clone(&metrics),
    )?;
    // Last, since it may change quotas of other processes, which share them.
    let (gate, file) =
        RulesGate::open(config.rules.as_deref(), config.preserve_host, Arc::clone(&metrics))?;
    let gate = Arc::new(gate);
    let banner = Banner {
        config: &config,
        listen: listener.local_addr()?,
        admin: admin_listener.local_addr()?,
        upstream: &upstream,
        gate: &gate,
    };
    announce(&banner.to_string())?;
    warn_if_lowered(budget, config.max_connections);

    let layer = rate_limit_layer(&config, &gate);
    let service = layer.layer(forward);
    let is_stopping = Arc::new(AtomicBool::new(false));
    let admin = Admin {
        gate: Arc::clone(&gate),
        layer,
        metrics: Arc::clone(&metrics),
        is_stopping: Arc::clone(&is_stopping),
    };
    let follower = file.map(|file| RulesFollower::new(file, gate, hangups));
    start_tasks(admin, admin_listener, follower);
    let server = server(&config, service, &metrics, budget);
    let is_whole = server.run(listener, &mut stops, || {
        is_stopping.store(true, Ordering::Relaxed);
        log::info(format_args!("stopping; requests in flight: {}", in_flight_text(&metrics)));
    });
    if is_whole.await || !metrics.has_used_connection() {
        return Ok(ExitCode::SUCCESS);
    }
    log::warn(format_args!("requests cut off: {}", in_flight_text(&metrics)));
    Ok(ExitCode::from(CUT_OFF))
}

/// The upstream of the configuration, or the built-in one.
async fn upstream(config: &Config) -> Result<Upstream> {
    match &config.upstream {
        Some(upstream) => Ok(upstream.clone()),
        None => {
            let address = demo::serve_upstream().await;
            Ok(Upstream::at(address.context("cannot start the built-in upstream")?))
        }
    }
}

fn rate_limit_layer(config: &Config, gate: &Arc<RulesGate>) -> RateLimitLayer<Arc<RulesGate>> {
    let layer = RateLimitLayer::builder(Arc::clone(gate))
        .wait(tokio::time::sleep)
        .max_waiting(config.max_waiting)
        .max_waiting_per_key(RulesLimiter::MAX_WAITING_PER_KEY);
    match config.dialect {
        Some(dialect) => layer.dialect(dialect).build(),
        None => layer.build(),
    }
}

/// Starts the tasks that run as long as the proxy.
fn start_tasks(
    admin: Admin,
    admin_listener: TcpListener,
    follower: Option<Arc<Mutex<RulesFollower>>>,
) {
    let (gate, metrics) = (Arc::clone(&admin.gate), Arc::clone(&admin.metrics));
    let admin_listener = Arc::new(admin_listener);
    tasks::keep(Task::Admin, Arc::clone(&metrics), move || {
        admin.clone().serve(Arc::clone(&admin_listener))
    });
    tasks::keep(Task::Stores, Arc::clone(&metrics), move || {
        let gate = Arc::clone(&gate);
        stores::watch(move || gate.store_limits())
    });
    if let Some(follower) = follower {
        tasks::keep(Task::Rules, metrics, move || rules::follow(Arc::clone(&follower)));
    }
}

fn server(
    config: &Config,
    service: RateLimit<Forward, Arc<RulesGate>>,
    metrics: &Arc<Metrics>,
    budget: ConnectionBudget,
) -> Server {
    let timeouts = config.timeouts;
    Server {
        context: ServiceContext {
            service,
            finder: Arc::new(ClientFinder::new(config.trust())),
            metrics: Arc::clone(metrics),
            rest_timeout: timeouts.header,
            any_field_names: config.any_field_names,
        },
        header_timeout: timeouts.header,
        drain_timeout: timeouts.drain,
        timeouts: ClientTimeouts { write: timeouts.body, half_close: timeouts.half_close },
        max_connections: budget.clients,
        per_client: PerClient::new(
            per_client_max(config.max_connections_per_client, budget),
            config.trust(),
        ),
    }
}

/// The limits of each client: half of all connections by default, so that no address has all of them. Nor does an
/// address have all connections to the upstream, as it might by HTTP/2; but it may use one HTTP/2 connection fully.
fn per_client_max(wanted: Option<u32>, budget: ConnectionBudget) -> PerClientMax {
    let half = budget.clients / 2;
    let half_of_upstream = u32::try_from(budget.upstream / 2).unwrap_or(u32::MAX);
    let connections = wanted.unwrap_or(half.max(CLIENT_CONNECTIONS_MIN));
    // A connection counts as one beside its requests, once the first of them has ended.
    let requests = half.max(STREAMS_MAX + 1).min(half_of_upstream).max(connections);
    PerClientMax { connections, requests }
}

fn forward_options(config: &Config, connections_max: usize) -> ForwardOptions {
    ForwardOptions {
        pool: PoolOptions {
            ca: config.upstream_ca.clone(),
            is_http2: config.upstream_http2,
            preserve_host: config.preserve_host,
            connect_timeout: config.timeouts.connect,
            write_timeout: config.timeouts.body,
            connections_max,
        },
        response_timeout: config.timeouts.response,
        body_timeout: config.timeouts.body,
        tunnel_timeout: config.timeouts.tunnel,
        body_rate: config.body_rate,
        any_field_names: config.any_field_names,
    }
}

fn in_flight_text(metrics: &Metrics) -> String {
    match metrics.tunnels_open() {
        0 => metrics.in_flight().to_string(),
        open => format!("{}, upgraded connections: {open}", metrics.in_flight()),
    }
}

fn warn_if_lowered(budget: ConnectionBudget, wanted: u32) {
    let ConnectionBudget { files, clients, .. } = budget;
    if clients < wanted {
        log::warn(format_args!(
            "at most {clients} connections of clients at a time, not {wanted}: the limit of open files is \
             {files}; raise it (`ulimit -n`), or lower --max-connections"
        ));
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    let listen = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // On other systems, this option would let two proxies share an address.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().with_context(|| format!("cannot listen on {address}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_half_of_all_connections_by_default() {
        for (wanted, clients, upstream, connections, requests) in [
            (None, 10_000, 500_000, 5_000, 5_000),
            (None, 68, 68, 34, 34),
            (None, 3, 8, 8, 8),
            (None, 4, 500_000, 8, 129),
            (Some(7), 10_000, 500_000, 7, 5_000),
            (Some(7_000), 10_000, 500_000, 7_000, 7_000),
        ] {
            let max = per_client_max(wanted, ConnectionBudget { files: 0, clients, upstream });
            assert_eq!(max, PerClientMax { connections, requests });
        }
        let budget = ConnectionBudget { files: 0, clients: 10_000, upstream: 10_000 };
        assert_eq!(per_client_max(Some(0), budget).connections, 0);
    }
}
