//! The example files of `rules/peers/` beside the programs whose configuration they translate: nginx, HAProxy and
//! Envoy decide a script of arrivals as `tollgate proxy` does.
//!
//! The programs round times and estimates in ways of their own. So no arrival of a script is within 0.1 s of the
//! instant at which a request more would be admitted. If the machine is too slow for that, the script is repeated,
//! with quotas and pauses that take twice as long as before.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::server::runtime;
use crate::support::{PATIENCE, Proxy, eventually, free_port, scratch};

/// Later than this, a request may be admitted by one program and denied by the other.
const LATE: Duration = Duration::from_millis(100);
/// How many times as long the quotas and pauses of an attempt take as those of the example files.
const ATTEMPTS: [u32; 4] = [1, 2, 4, 8];

/// Requests at one time.
struct Step {
    at_ms: u64,
    /// The last byte of the client's address; `OFFICE` is in the network that is exempt.
    client: u8,
    /// Lines of the head, each with its end.
    headers: &'static str,
    requests: u32,
    /// How many of them are admitted.
    admitted: u32,
}

const OFFICE: u8 = 0;

fn step(at_ms: u64, client: u8, requests: u32, admitted: u32) -> Step {
    Step { at_ms, client, headers: "", requests, admitted }
}

/// A step of a client whose requests name a plan.
fn plan(at_ms: u64, headers: &'static str, requests: u32, admitted: u32) -> Step {
    Step { headers, ..step(at_ms, 1, requests, admitted) }
}

/// 2 a second, at most 4 at once.
pub(crate) fn nginx() {
    let script = [
        step(0, 1, 8, 4),
        step(100, 2, 3, 3),
        step(200, OFFICE, 12, 12),
        // 2.5 cells have come back; then 2.5 with the half that was left.
        step(1_250, 1, 5, 2),
        step(1_350, 2, 5, 3),
        step(2_250, 1, 5, 2),
        step(5_400, 1, 6, 4),
    ];
    let [rules, config] = ["nginx.toml", "nginx.conf"].map(|name| read(name, OFFICE_NETWORK));
    let start = |slow| {
        Pair::start("nginx", &slowed(&rules, slow), |folder, listen, upstream| {
            let text = at_addresses(&slowed(&config, slow), listen, upstream);
            let file = folder.join("nginx.conf");
            let whole = format!(
                "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr error;\n\
             events {{ worker_connections 512; }}\nhttp {{\naccess_log off;\nerror_log error.log;\n\
             client_body_temp_path body;\nproxy_temp_path proxy;\nfastcgi_temp_path fastcgi;\n\
             uwsgi_temp_path uwsgi;\nscgi_temp_path scgi;\n{text}\n}}\n"
            );
            std::fs::write(&file, whole).expect("written");
            let mut command = Command::new("nginx");
            command.arg("-p").arg(folder).arg("-c").arg(file).args(["-e", "stderr"]);
            command
        })
    };
    decide_alike("/api/", &script, start).count_alike_in_flight();
}

/// 5 in 2 seconds.
pub(crate) fn haproxy() {
    let script = [
        step(0, 1, 8, 5),
        step(100, 2, 3, 3),
        step(200, OFFICE, 12, 12),
        step(700, 1, 5, 0),
        step(800, 2, 5, 2),
        // HAProxy counts a part of the period before the last: both are over.
        step(5_200, 1, 8, 5),
        step(5_300, 2, 8, 5),
        step(6_000, 1, 3, 0),
    ];
    let [rules, config] = ["haproxy.toml", "haproxy.cfg"].map(|name| read(name, OFFICE_NETWORK));
    let start = |slow| {
        Pair::start("haproxy", &slowed(&rules, slow), |folder, listen, upstream| {
            let file = folder.join("haproxy.cfg");
            let text = at_addresses(&slowed(&config, slow), listen, upstream);
            std::fs::write(&file, text).expect("written");
            let mut command = Command::new("haproxy");
            command.args(["-db", "-q", "-f"]).arg(file);
            command
        })
    };
    decide_alike("/api/", &script, start).count_alike_in_flight();
}

/// A bucket for each value of a header, and one for all other requests.
pub(crate) fn envoy() {
    let (gold, silver, other) = ("x-plan: gold\r\n", "x-plan: silver\r\n", "x-plan: bronze\r\n");
    let script = [
        plan(0, gold, 9, 8),
        plan(100, silver, 5, 4),
        plan(200, "", 2, 2),
        plan(300, other, 2, 0),
        // 1.37 s restore 5.5 cells of gold, 2.7 of silver, and 1.4 of all others.
        plan(1_370, gold, 6, 5),
        plan(1_470, silver, 3, 2),
        plan(1_570, other, 2, 1),
        plan(5_000, gold, 9, 8),
        plan(5_100, silver, 5, 4),
        plan(5_200, "", 3, 2),
    ];
    let [config, rules] = ["envoy.yaml", "envoy.toml"].map(example);
    decide_alike("/", &script, |slow| Pair::with_envoy("envoy", &config, &rules, slow));
}

/// The filter and the rules file of the page for those who come from Envoy. And what the page says of the
/// filter's default, to charge the bucket of all requests always.
pub(crate) fn envoy_page() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/coming-from-envoy.md");
    let page = std::fs::read_to_string(page).expect("a page");
    let [filter, rules] = ["yaml", "toml"].map(|language| {
        let block = page.split(&format!("```{language}\n")).nth(1).expect("a block");
        block.split("```").next().expect("its end").to_owned()
    });
    let (gold, other) = ("x-plan: gold\r\n", "");
    let script = [
        plan(0, gold, 9, 8),
        plan(100, other, 5, 4),
        // 1.37 s restore 5.5 cells of gold, and 2.7 of all others.
        plan(1_370, gold, 6, 5),
        plan(1_470, other, 3, 2),
        plan(5_000, gold, 9, 8),
    ];
    let config = with_filter(&filter);
    decide_alike("/", &script, |slow| Pair::with_envoy("envoy-page", &config, &rules, slow));

    let without = |text: &str, line: &str, by: &str| {
        assert!(text.contains(line), "the page has no {line}");
        text.replace(line, by)
    };
    let filter = without(&filter, "always_consume_default_token_bucket: false\n", "");
    let rules = without(&rules, "apply = \"first\"\n", "apply = \"all\"\n");
    let script = [
        plan(0, gold, 5, 4),
        plan(100, other, 2, 0),
        plan(1_370, gold, 5, 2),
        // 0.74 cells were left, and 0.66 have come back.
        plan(1_700, other, 3, 1),
        plan(5_000, gold, 9, 4),
    ];
    let config = with_filter(&filter);
    decide_alike("/", &script, |slow| Pair::with_envoy("envoy-default", &config, &rules, slow));
}

/// The example's configuration with other fields of its filter.
fn with_filter(fields: &str) -> String {
    let text = example("envoy.yaml");
    let before =
        "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3.LocalRateLimit\n";
    let after = "          - name: envoy.filters.http.router\n";
    let (head, rest) = text.split_once(before).expect("the filter");
    let (_, tail) = rest.split_once(after).expect("the filter after it");
    let fields: String = fields.lines().map(|line| format!("              {line}\n")).collect();
    format!("{head}{before}{fields}{after}{tail}")
}

/// Clients of the tests have addresses of the loopback network.
const OFFICE_NETWORK: (&str, &str) = ("192.0.2.0/24", "127.0.9.0/24");

/// A file of `rules/peers/`.
fn example(name: &str) -> String {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../rules/peers")).join(name);
    std::fs::read_to_string(path).expect("an example")
}

/// The same, with one of its words replaced.
fn read(name: &str, (word, by): (&str, &str)) -> String {
    let text = example(name);
    assert!(text.contains(word), "{name} has no {word}");
    text.replace(word, by)
}

/// A configuration with the addresses that it has places for.
fn at_addresses(config: &str, listen: SocketAddr, upstream: SocketAddr) -> String {
    config.replace("LISTEN", &listen.to_string()).replace("UPSTREAM", &upstream.to_string())
}

/// The same configuration or rules, with quotas that take so many times as long.
fn slowed(text: &str, slow: u32) -> String {
    let longer = text
        .replace("/s burst", &format!(" per {slow} s burst"))
        .replace("5 per 2 s\"", &format!("5 per {} s\"", 2 * slow))
        .replace("rate=2r/s", &format!("rate={}r/m", 120 / slow))
        .replace("gpc0_rate(2s)", &format!("gpc0_rate({}s)", 2 * slow))
        .replace("fill_interval: 1s", &format!("fill_interval: {slow}s"));
    assert!(slow == 1 || longer != text, "it has no quota of a known form: {text}");
    longer
}

/// Sends the script to a new pair, until it was sent in time; then both must have decided as it says.
fn decide_alike(path: &str, script: &[Step], start: impl Fn(u32) -> Pair) -> Pair {
    for slow in ATTEMPTS {
        let pair = start(slow);
        let Some(decided) = pair.decide(path, script, slow) else {
            println!("too slow for quotas that take {slow} times as long");
            continue;
        };
        let expected = script.iter().map(|step| (step.at_ms, [step.admitted; 2]));
        assert_eq!(
            decided,
            expected.collect::<Vec<_>>(),
            "admitted by the program, and by the proxy"
        );
        let [requests, admitted] = [|its: &Step| its.requests, |its: &Step| its.admitted]
            .map(|count| script.iter().map(count).sum::<u32>());
        println!("{path}: {admitted} of {requests} admitted by both, in {} steps", script.len());
        return pair;
    }
    panic!("the machine is too slow for the script");
}

/// A program and a proxy, each with an upstream of its own.
struct Pair {
    peer: Running,
    proxy: Proxy,
    upstreams: [TcpListener; 2],
}

/// A running program. Dropping it ends the process.
struct Running {
    child: Child,
    folder: PathBuf,
    address: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Pair {
    fn with_envoy(name: &str, config: &str, rules: &str, slow: u32) -> Self {
        Self::start(name, &slowed(rules, slow), |folder, listen, upstream| {
            let text = slowed(config, slow);
            let text = text.replace("LISTEN_PORT", &listen.port().to_string());
            let text = text.replace("UPSTREAM_PORT", &upstream.port().to_string());
            // Envoy would keep each connection open for a second, for a client that still reads.
            let prefix = "          stat_prefix: limits\n";
            assert!(text.contains(prefix));
            let closing = format!("{prefix}          delayed_close_timeout: 0.001s\n");
            let text = text.replacen(prefix, &closing, 1);
            let file = folder.join("envoy.yaml");
            std::fs::write(&file, text).expect("written");
            let mut command = Command::new("envoy");
            command
                .args(["-l", "error", "--concurrency", "1", "--use-dynamic-base-id", "-c"])
                .arg(file);
            command
        })
    }

    /// `name` is that of the program, or begins with it.
    fn start(
        name: &str,
        rules: &str,
        command: impl FnOnce(&Path, SocketAddr, SocketAddr) -> Command,
    ) -> Self {
        let upstreams = [0, 1].map(|_| {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.set_nonblocking(true).expect("set");
            listener
        });
        let [of_peer, of_proxy] = upstreams.each_ref().map(|its| its.local_addr().expect("bound"));
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("peer-{name}"));
        // Left over from a run that was killed.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a place for scratch files");
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
        let child = command(&folder, address, of_peer)
            .env("PATH", path)
            .stdin(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut peer = Running { child, folder, address };
        eventually("the program listens", || {
            let ended = peer.child.try_wait().expect("it is a child");
            assert!(ended.is_none(), "{name} ended: {ended:?}");
            TcpStream::connect(address).is_ok()
        });
        let rules = scratch(&format!("{name}.toml"), rules);
        let url = format!("http://{of_proxy}");
        let rules = rules.to_str().expect("UTF-8");
        let proxy = Proxy::start(name, &["--upstream", &url, "--rules", rules]);
        Self { peer, proxy, upstreams }
    }

    fn addresses(&self) -> [SocketAddr; 2] {
        [self.peer.address, self.proxy.listen]
    }

    /// How many requests the program and the proxy admit at each step of the script. `None`: the machine was too slow for
    /// a step.
    fn decide(&self, path: &str, script: &[Step], slow: u32) -> Option<Vec<(u64, [u32; 2])>> {
        let began = Instant::now();
        let mut decided = Vec::new();
        for step in script {
            let due = slow * Duration::from_millis(step.at_ms);
            std::thread::sleep(due.saturating_sub(began.elapsed()));
            let mut admitted = [0, 0];
            let source = client(step.client);
            for _ in 0..step.requests {
                // Both decide at the same time.
                let sent = [0, 1].map(|which| self.send(which, source, path, step.headers));
                for (which, client) in sent.into_iter().enumerate() {
                    if let Some(forwarded) = self.forwarded(which, client) {
                        finish(forwarded);
                        admitted[which] += 1;
                    }
                }
            }
            if began.elapsed() > due + slow * LATE {
                return None;
            }
            decided.push((step.at_ms, admitted));
        }
        Some(decided)
    }

    /// Requests in flight: two of each client, and any number of the office.
    fn count_alike_in_flight(&self) {
        let (one, two, office) = (client(1), client(2), client(OFFICE));
        for which in [0, 1] {
            let begin = |source| self.forwarded(which, self.send(which, source, "/export/", ""));
            let mut held: Vec<_> = [one, one, two].map(|its| begin(its).expect("admitted")).into();
            assert!((0..3).all(|_| begin(one).is_none()), "two are in flight");
            held.extend((0..9).map(|_| begin(office).expect("it is exempt")));
            held.push(begin(two).expect("the second of another client"));
            assert!(begin(two).is_none());
            finish(held.swap_remove(0));
            // A program counts a request until it has seen that its connection is closed.
            let mut again = None;
            eventually("one has ended", || {
                again = begin(one);
                again.is_some()
            });
            assert!(begin(one).is_none(), "two are in flight again");
            held.extend(again);
            held.into_iter().for_each(finish);
        }
    }

    /// Sends a request.
    fn send(&self, which: usize, source: Ipv4Addr, path: &str, headers: &str) -> TcpStream {
        let mut client = connect_from(source, self.addresses()[which]);
        let head = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{headers}\r\n");
        client.write_all(head.as_bytes()).expect("connected");
        client
    }

    /// Waits for what becomes of a request. `Some`: it was forwarded, and is in flight.
    fn forwarded(&self, which: usize, mut client: TcpStream) -> Option<(TcpStream, TcpStream)> {
        let listener = &self.upstreams[which];
        client.set_nonblocking(true).expect("set");
        let (began, mut first) = (Instant::now(), [0; 12]);
        loop {
            if let Ok((upstream, _)) = listener.accept() {
                for stream in [&client, &upstream] {
                    stream.set_nonblocking(false).expect("set");
                }
                return Some((client, upstream));
            }
            match client.peek(&mut first) {
                Ok(count) if count == first.len() => {
                    assert_eq!(&first, b"HTTP/1.1 429", "{}", String::from_utf8_lossy(&first));
                    // The program has ended the request when the connection ends.
                    client.set_nonblocking(false).expect("set");
                    let _ = client.read_to_end(&mut Vec::new());
                    return None;
                }
                Ok(0) => panic!("the connection was closed"),
                Ok(_) => {}
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}"),
            }
            assert!(began.elapsed() < PATIENCE, "neither forwarded nor denied");
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}

/// The address of a client.
fn client(number: u8) -> Ipv4Addr {
    match number {
        OFFICE => Ipv4Addr::new(127, 0, 9, 1),
        _ => Ipv4Addr::new(127, 1, number, 1),
    }
}

fn connect_from(source: Ipv4Addr, address: SocketAddr) -> TcpStream {
    let stream = runtime().block_on(async {
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind((source, 0).into()).expect("an address of the loopback network");
        socket.connect(address).await.expect("it listens").into_std().expect("a stream")
    });
    stream.set_nonblocking(false).expect("set");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// Answers a request, and waits until its connection ends.
fn finish((mut client, mut upstream): (TcpStream, TcpStream)) {
    upstream.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut bytes = [0; 1_024];
        let count = upstream.read(&mut bytes).expect("a request");
        assert!(count > 0, "the connection was closed");
        request.extend_from_slice(&bytes[..count]);
    }
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
    upstream.write_all(answer).expect("connected");
    drop(upstream);
    let mut answer = String::new();
    client.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}
