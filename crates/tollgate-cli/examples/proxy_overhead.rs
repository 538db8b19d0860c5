//! What `tollgate proxy` costs a request, beside a bare hyper proxy: processor time of the proxy's
//! process, over real sockets.
//!
//! ```sh
//! cargo build --release -p tollgate-cli
//! cargo run --release -p tollgate-cli --example proxy_overhead -- target/release/tollgate
//! ```
//!
//! Every proxy is a process of its own; so are the upstream and the load, which is this one. Rounds
//! of the variants follow one another in turn. Linux only: the time is read from `/proc`.

#![allow(clippy::disallowed_types, reason = "the load's clock, not a limiter's")]

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

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
const ROUNDS: usize = 21;
const ROUND: Duration = Duration::from_millis(400);

const NO_RULE: &str =
    r#"rule = [{ name = "other", match = { path = "/other/**" }, limits = "1/s" }]"#;
const ONE_RULE: &str = r#"rule = [{ name = "all", limits = "10000000/s" }]"#;
const REFUSED: &str = r#"rule = [{ name = "all", limits = "1/d" }]"#;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &*words {
        [what] if what == "upstream" => serve(None),
        [what, upstream] if what == "bare" => serve(Some(upstream.parse().expect("an authority"))),
        [tollgate] => measure(tollgate),
        _ => eprintln!("name the binary: target/release/tollgate"),
    }
}

/// A server of `ok`, or a proxy that does nothing but pass on.
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

/// A process, and where it listens.
struct Server {
    name: &'static str,
    child: Child,
    address: SocketAddr,
    rules: Option<PathBuf>,
    /// Requests a second, and microseconds of processor time a request.
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
        Self { name, child, address, rules: None, rounds: Vec::new() }
    }

    /// A proxy with these rules before that upstream.
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
            // A thread that has just ended is no longer there.
            let path = thread.expect("Linux").path().join("schedstat");
            let text = std::fs::read_to_string(path).unwrap_or_default();
            text.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0.0)
        });
        nanos.sum::<f64>() / 1e3
    }

    fn round(&mut self, span: Duration) {
        let (address, before, began) = (self.address, self.processor_micros(), Instant::now());
        let clients = (0..CLIENTS).map(|_| std::thread::spawn(move || load(address, span)));
        let clients: Vec<_> = clients.collect();
        let count: u32 = clients.into_iter().map(|client| client.join().expect("no panic")).sum();
        let per_sec = f64::from(count) / began.elapsed().as_secs_f64();
        let micros = (self.processor_micros() - before) / f64::from(count);
        self.rounds.push((per_sec, micros));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(file) = &self.rules {
            let _ = std::fs::remove_file(file);
        }
    }
}

/// One request after the other on one connection.
fn load(address: SocketAddr, span: Duration) -> u32 {
    let mut stream = TcpStream::connect(address).expect("listening");
    stream.set_nodelay(true).expect("set");
    let (began, mut count, mut bytes) = (Instant::now(), 0, [0; 2_048]);
    while began.elapsed() < span {
        stream.write_all(b"GET /some/path HTTP/1.1\r\nhost: a\r\n\r\n").expect("written");
        let mut filled = 0;
        while !bytes[..filled].ends_with(b"ok") && !bytes[..filled].ends_with(b"]}") {
            let read = stream.read(&mut bytes[filled..]).expect("read");
            assert!(read > 0, "closed early");
            filled += read;
        }
        count += 1;
    }
    count
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
        Server::tollgate("tollgate, one rule refuses", tollgate, at, REFUSED),
    ];
    servers.iter_mut().for_each(|server| server.round(ROUND / 4));
    servers.iter_mut().for_each(|server| server.rounds.clear());
    for round in 0..ROUNDS {
        let mut order: Vec<usize> = (0..servers.len()).collect();
        order.rotate_left(round % servers.len());
        order.into_iter().for_each(|index| servers[index].round(ROUND));
    }
    println!("{:<28} {:>10} {:>12} {:>8}", "", "requests/s", "CPU us/req", "ratio");
    for server in &servers {
        let per_sec = median(server.rounds.iter().map(|round| round.0));
        let micros = median(server.rounds.iter().map(|round| round.1));
        let ratio = paired(server, &servers[0]);
        println!("{:<28} {per_sec:>10.0} {micros:>12.1} {ratio:>8.2}", server.name);
    }
    println!("one rule that admits, to none: {:.2}", paired(&servers[2], &servers[1]));
}

/// The median of what one takes of the other's processor time in the same round.
fn paired(one: &Server, other: &Server) -> f64 {
    median(one.rounds.iter().zip(&other.rounds).map(|(one, other)| one.1 / other.1))
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<_> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
