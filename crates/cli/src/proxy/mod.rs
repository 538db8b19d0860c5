//! `tollgate proxy`: stands before an HTTP server, and enforces rules.
//!
//! ```text
//! serve    connections          -> front    the client, counts
//!                               -> rules    decided, through the layer of tollgate-http
//!                               -> shared   limits in stores, if a rule has one
//!                               -> forward  to the upstream and back, bodies as they come
//!                               -> links    connections to it (dial: TCP, TLS), used again
//!                               -> exchange what came over them: reused or not, longer than announced
//!                               -> tunnel   what was upgraded: bytes both ways
//! admin    /metrics, health        follow   the rules file, on changes and SIGHUP
//! log      standard error          tasks    what runs for ever, begun again if it ends
//! ```

mod admin;
mod answer;
mod banner;
mod book;
mod bounded;
mod client;
mod demo;
mod descriptors;
mod dial;
mod download;
mod exchange;
mod facts;
mod forward;
mod front;
mod headers;
mod host;
mod idle;
mod inbound;
mod links;
mod log;
mod metrics;
mod pace;
mod page;
mod patient;
mod per_client;
mod roots;
mod rules;
mod serve;
mod shared;
mod stop;
mod streams;
mod tasks;
mod tunnel;
mod upgrade;
mod upload;
mod upstream;

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::net::{TcpListener, TcpSocket};
use tollgate_http::RateLimitLayer;
use tollgate_http::key::Trust;
use tower_layer::Layer;

pub(crate) use self::upstream::Upstream;

use self::admin::Admin;
use self::banner::Banner;
use self::client::Finder;
use self::descriptors::Budget;
use self::forward::Forward;
use self::front::Front;
use self::metrics::Metrics;
use self::patient::Patience;
use self::per_client::PerClient;
use self::rules::RulesGate;
use self::serve::Server;
use self::stop::{Hangups, Stops};
use self::tasks::Task;
use crate::args::ProxyArgs;

/// The exit code of a proxy that had to cut requests off.
const CUT_OFF: u8 = 1;
/// Connections that the system completes before they are accepted: a burst of clients must not wait
/// for the next attempt of their TCP, a second later. The system may set a lower bound.
const BACKLOG: u32 = 4_096;

/// How long the end of the process may wait for its last words to be written.
const LOG_PATIENCE: Duration = Duration::from_millis(200);

/// Serves until it is told to stop.
pub(crate) fn run(args: ProxyArgs) -> Result<ExitCode> {
    // The default hook writes to standard error, and blocks while the pipe is full.
    std::panic::set_hook(Box::new(|panic| log::error(panic)));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let code = runtime.block_on(serve(args));
    // A file that is being read must not keep the process.
    runtime.shutdown_timeout(Duration::from_millis(100));
    log::flush(LOG_PATIENCE);
    code
}

async fn serve(args: ProxyArgs) -> Result<ExitCode> {
    let mut stops = Stops::listen().context("cannot listen to signals")?;
    let hangups = Hangups::listen().context("cannot listen to signals")?;
    let budget = Budget::claim(args.max_connections, args.upstream.is_none())?;
    let metrics = Arc::new(Metrics::new(budget.clients));
    let (gate, file) = RulesGate::open(&args, Arc::clone(&metrics))?;
    let gate = Arc::new(gate);
    let listener = bind(args.listen)?;
    let admin_listener = bind(args.admin)?;
    let upstream = match &args.upstream {
        Some(upstream) => upstream.clone(),
        None => {
            let address = demo::serve_upstream().await;
            Upstream::at(address.context("cannot start the built-in upstream")?)
        }
    };
    let places = budget.upstream;
    let forward = Forward::new(upstream.clone(), &args, places, Arc::clone(&metrics))?;
    let banner = Banner {
        args: &args,
        listen: listener.local_addr()?,
        admin: admin_listener.local_addr()?,
        upstream: &upstream,
        gate: &gate,
    };
    crate::print(&banner.to_string())?;
    tell_bound(budget, args.max_connections);

    let layer = RateLimitLayer::builder(Arc::clone(&gate))
        .wait(tokio::time::sleep)
        .max_waiting(args.max_waiting)
        .build();
    let service = layer.layer(forward);
    let is_stopping = Arc::new(AtomicBool::new(false));
    let admin = Admin {
        gate: Arc::clone(&gate),
        layer,
        metrics: Arc::clone(&metrics),
        is_stopping: Arc::clone(&is_stopping),
    };
    let admin_listener = Arc::new(admin_listener);
    tasks::keep(Task::Admin, Arc::clone(&metrics), move || {
        admin.clone().serve(Arc::clone(&admin_listener))
    });
    let watched = Arc::clone(&gate);
    tasks::keep(Task::Stores, Arc::clone(&metrics), move || shared::watch(Arc::clone(&watched)));
    if let Some(file) = file {
        let follower = rules::Follower::new(file, gate, hangups);
        tasks::keep(Task::Rules, Arc::clone(&metrics), move || {
            rules::follow(Arc::clone(&follower))
        });
    }
    let finder = Arc::new(Finder::new(trust(&args)));
    let server = Server {
        front: Front {
            service,
            finder,
            metrics: Arc::clone(&metrics),
            rest_patience: args.header_timeout,
        },
        header_timeout: args.header_timeout,
        drain_timeout: args.drain_timeout,
        patience: Patience { reader: args.body_timeout, half_closed: args.half_close_timeout },
        max_connections: budget.clients,
        per_client: PerClient::new(args.max_connections_per_client(), trust(&args)),
    };
    let is_whole = server.run(listener, &mut stops, || {
        is_stopping.store(true, Ordering::Relaxed);
        log::info(format_args!("stopping; requests under way: {}", under_way(&metrics)));
    });
    if is_whole.await {
        return Ok(ExitCode::SUCCESS);
    }
    log::warn(format_args!("requests cut off: {}", under_way(&metrics)));
    Ok(ExitCode::from(CUT_OFF))
}

fn under_way(metrics: &Metrics) -> String {
    match metrics.tunnels_open() {
        0 => metrics.in_flight().to_string(),
        open => format!("{}, and upgraded connections: {open}", metrics.in_flight()),
    }
}

fn tell_bound(budget: Budget, wanted: u32) {
    let Budget { files, clients, .. } = budget;
    if clients < wanted {
        log::warn(format_args!(
            "at most {clients} connections of clients at a time, not {wanted}: {files} files may be \
             open; raise the limit (`ulimit -n`), or lower --max-connections"
        ));
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    let listen = || {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // Elsewhere it would let two proxies have one address.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    listen().with_context(|| format!("cannot listen on {address}"))
}

fn trust(args: &ProxyArgs) -> Option<Trust> {
    let hops = args.trusted_hops.map(|count| Trust::hops(count.into()));
    args.trusted_proxies.clone().or(hops)
}
