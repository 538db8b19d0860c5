//! Measures what `tollgate proxy` costs per request, compared with a bare hyper proxy: processor time of
//! the process, over real sockets.
//!
//! ```sh
//! cargo build --release -p tollgate-cli
//! cargo run --release -p tollgate-cli --example proxy_overhead -- target/release/tollgate
//! ```
//!
//! Each proxy and the upstream are separate processes; this process makes the load. Rounds are short and
//! of equal size, over connections that stay open. The variants take turns. The result is the median of
//! the ratios within a turn, with its 95 % confidence interval. Linux only: the time is read from `/proc`.

#![allow(clippy::disallowed_types, reason = "the load's clock, not a limiter's")]

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use bytes::Bytes;
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri};
use http_body_util::{Either, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;

const CLIENTS: usize = 8;
const TURNS: usize = 101;
/// Requests of each client in a round.
const ROUND: u32 = 150;

const NO_RULE: &str =
    r#"rule = [{ name = "other", match = { path = "/other/**" }, limits = "1/s" }]"#;
const ONE_RULE: &str = r#"rule = [{ name = "all", limits = "10000000/s" }]"#;
/// Decides and charges the same, without headers for clients.
const IN_SHADOW: &str = r#"rule = [{ name = "all", limits = "10000000/s", shadow = true }]"#;
const DENIED: &str = r#"rule = [{ name = "all", limits = "1/d" }]"#;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &*words {
        [what] if what == "upstream" => serve(None),
        [what, upstream] if what == "bare" => serve(Some(upstream.parse().expect("an authority"))),
        [tollgate] => measure(tollgate),
        _ => eprintln!("name the binary: target/release/tollgate"),
    }
}

/// A server that answers `ok`, or a proxy that only forwards.
#[tokio::main]
async fn serve(upstream: Option<Authority>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!("listen http://{}", listener.local_addr().expect("bound"));
    let client: Client<HttpConnector, Incoming> = Client::builder(TokioExecutor::new()).build({
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector
    });
    loop {
        let (stream, _) = listener.accept().await.expect("a connection");
        stream.set_nodelay(true).expect("set");
        let (client, upstream) = (client.clone(), upstream.clone());
        let answer = service_fn(move |request: Request<Incoming>| {
            let (client, upstream) = (client.clone(), upstream.clone());
            async move {
                let Some(upstream) = upstream else {
                    return Ok(Response::new(Either::Right(Full::new(Bytes::from("ok")))));
                };
                let response = client.request(passed_on(request, upstream)).await;
                Ok::<_, Infallible>(response.expect("it answers").map(Either::Left))
            }
        });
        tokio::spawn(async move {
            let builder = auto::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}

fn passed_on(mut request: Request<Incoming>, upstream: Authority) -> Request<Incoming> {
    let path = request.uri().path_and_query().expect("a path").clone();
    let target = Uri::builder().scheme(Scheme::HTTP).authority(upstream).path_and_query(path);
    *request.uri_mut() = target.build().expect("a URI");
    request
}

/// A process, and its address.
struct Server {
    name: &'static str,
    child: Child,
    address: SocketAddr,
    rules: Option<PathBuf>,
    clients: Vec<TcpStream>,
    /// Requests per second, and microseconds of processor time per request.
    rounds: Vec<(f64, f64)>,
}

impl Server {
    fn start(name: &'static str, program: &str, words: &[&str]) -> Self {
        let mut command = Command::new(program);
        let mut child =
            command.args(words).stdout(Stdio::piped()).spawn().expect("the binary starts");
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut lines = stdout.lines().map(|line| line.expect("readable"));
        let line = lines.find(|line| line.trim_start().starts_with("listen")).expect("it listens");
        let word = line.split_whitespace().nth(1).expect("an address");
        let address = word.trim_start_matches("http://").parse().expect("an address");
        let clients = (0..CLIENTS).map(|_| TcpStream::connect(address).expect("listening"));
        let clients = clients.inspect(|stream| stream.set_nodelay(true).expect("set")).collect();
        Self { name, child, address, rules: None, clients, rounds: Vec::new() }
    }

    /// A proxy with these rules in front of that upstream.
    fn tollgate(name: &'static str, program: &str, upstream: SocketAddr, rules: &str) -> Self {
        let id = std::process::id();
        let file = std::env::temp_dir().join(format!("tollgate-overhead-{id}-{name}.toml"));
        std::fs::write(&file, rules).expect("written");
        let (url, rules) = (format!("http://{upstream}"), file.to_str().expect("UTF-8"));
        let ports = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        let words = [&["proxy", "--upstream", &url, "--rules", rules], &ports[..]].concat();
        let mut server = Self::start(name, program, &words);
        server.rules = Some(file);
        server
    }

    /// Processor time of all its threads so far, in microseconds.
    fn processor_micros(&self) -> f64 {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("Linux");
        let nanos = threads.map(|thread| {
            // A thread may have ended since it was listed.
            let path = thread.expect("Linux").path().join("schedstat");
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0.0)
        });
        nanos.sum::<f64>() / 1e3
    }

    fn round(&mut self) {
        let (before, began) = (self.processor_micros(), Instant::now());
        std::thread::scope(|scope| {
            self.clients.iter_mut().for_each(|stream| drop(scope.spawn(|| load(stream))));
        });
        let count = f64::from(ROUND) * CLIENTS as f64;
        let per_sec = count / began.elapsed().as_secs_f64();
        self.rounds.push((per_sec, (self.processor_micros() - before) / count));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(file) = &self.rules {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// Sends one request after another.
fn load(stream: &mut TcpStream) {
    let mut bytes = [0; 2_048];
    for _ in 0..ROUND {
        stream.write_all(b"GET /some/path HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
        let mut filled = 0;
        while !bytes[..filled].ends_with(b"ok") && !bytes[..filled].ends_with(b"]}") {
            let read = stream.read(&mut bytes[filled..]).expect("read");
            assert!(read > 0, "closed early");
            filled += read;
        }
    }
}

fn measure(tollgate: &str) {
    let this = std::env::current_exe().expect("it runs");
    let this = this.to_str().expect("UTF-8");
    let upstream = Server::start("upstream", this, &["upstream"]);
    let at = upstream.address;
    let mut servers = [
        Server::start("bare hyper proxy", this, &["bare", &at.to_string()]),
        Server::tollgate("tollgate, no rule matches", tollgate, at, NO_RULE),
        Server::tollgate("tollgate, one rule admits", tollgate, at, ONE_RULE),
        Server::tollgate("tollgate, one in shadow", tollgate, at, IN_SHADOW),
        Server::tollgate("tollgate, one rule denies", tollgate, at, DENIED),
    ];
    for _ in 0..3 {
        servers.iter_mut().for_each(Server::round);
    }
    servers.iter_mut().for_each(|server| server.rounds.clear());
    for turn in 0..TURNS {
        let mut order: Vec<usize> = (0..servers.len()).collect();
        order.rotate_left(turn % servers.len());
        order.into_iter().for_each(|index| servers[index].round());
    }
    println!("{:<28} {:>10} {:>11}   CPU, to bare", "", "requests/s", "CPU us/req");
    for server in &servers {
        let per_sec = Spread::of(server.rounds.iter().map(|round| round.0)).median;
        let micros = Spread::of(server.rounds.iter().map(|round| round.1)).median;
        let ratio = paired(server, &servers[0]);
        println!("{:<28} {per_sec:>10.0} {micros:>11.2}   {ratio}", server.name);
    }
    println!("a decision, to none:                        {}", paired(&servers[3], &servers[1]));
    println!("a decision and its fields, to none:         {}", paired(&servers[2], &servers[1]));
    println!("none matching, to itself in the next turn:  {}", shifted(&servers[1]));
}

/// The ratio of the processor times of two processes in the same turn.
fn paired(one: &Server, other: &Server) -> Spread {
    Spread::of(one.rounds.iter().zip(&other.rounds).map(|(one, other)| one.1 / other.1))
}

/// A server compared with itself in neighbouring turns: the noise of the measurement.
fn shifted(server: &Server) -> Spread {
    Spread::of(server.rounds.windows(2).step_by(2).map(|pair| pair[0].1 / pair[1].1))
}

/// The median of some figures, and its 95 % confidence interval.
struct Spread {
    median: f64,
    from: f64,
    to: f64,
}

impl Spread {
    fn of(figures: impl Iterator<Item = f64>) -> Self {
        let mut figures: Vec<_> = figures.collect();
        figures.sort_by(f64::total_cmp);
        let (middle, last) = (figures.len() / 2, figures.len() - 1);
        // By the binomial distribution of the ranks.
        let (mut reach, count) = (0, figures.len());
        while reach * reach * 100 < count * 96 {
            reach += 1;
        }
        let from = figures[middle.saturating_sub(reach)];
        Self { median: figures[middle], from, to: figures[(middle + reach).min(last)] }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.3} ({:.3} to {:.3})", self.median, self.from, self.to)
    }
}
