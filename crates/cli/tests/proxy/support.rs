//! Proxies, upstreams and clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// The longest wait of any test step. No test measures it; it only ends a test that would hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Says why a test is skipped. The test harness discards what a test that passes has printed, but not what it
/// writes to standard error by itself.
pub(crate) fn skipped(why: &str) {
    // A test is no worse if this cannot be read.
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}

/// A running proxy. Dropping it kills the process.
pub(crate) struct Proxy {
    child: Child,
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
    stderr: PathBuf,
    _stdout: BufReader<ChildStdout>,
}

impl Proxy {
    /// Starts a proxy on free ports, with these further arguments.
    pub(crate) fn start(name: &str, words: &[&str]) -> Self {
        let file = std::fs::File::create(scratch(&format!("{name}.stderr"), ""));
        Self::launch(name, words, &[], file.expect("a place for scratch files").into())
    }

    /// Starts a proxy with this standard error. The words of `before` precede its command line, for
    /// example a shell that sets limits.
    pub(crate) fn launch(name: &str, words: &[&str], before: &[&str], stderr: Stdio) -> Self {
        let binary = env!("CARGO_BIN_EXE_tollgate");
        let begin = [before, &[binary]].concat();
        let mut child = Command::new(begin[0])
            .args(&begin[1..])
            .args(["proxy", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
            .args(words)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("the binary starts");
        let stderr = place(&format!("{name}.stderr"));
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut address = |after: &str| loop {
            let mut line = String::new();
            if stdout.read_line(&mut line).expect("readable") == 0 {
                panic!("it ended: {}", std::fs::read_to_string(&stderr).unwrap_or_default());
            }
            if let Some(rest) = line.trim().strip_prefix(after) {
                let address = rest.trim_start().trim_start_matches("http://");
                let end = address.find(['/', ' ']).unwrap_or(address.len());
                return address[..end].parse().expect("an address");
            }
        };
        let (listen, admin) = (address("listen"), address("metrics"));
        Self { child, listen, admin, stderr, _stdout: stdout }
    }

    /// Starts a proxy with these rules and the built-in upstream.
    pub(crate) fn with_rules(name: &str, rules: &str) -> Self {
        let file = scratch(&format!("{name}.toml"), rules);
        Self::start(name, &["--rules", file.to_str().expect("UTF-8")])
    }

    /// Starts a proxy in front of this upstream, with a rule that admits all requests.
    pub(crate) fn before(name: &str, upstream: SocketAddr, words: &[&str]) -> Self {
        let file = scratch(&format!("{name}.toml"), UNLIMITED);
        let url = format!("http://{upstream}");
        let given = ["--upstream", &url, "--rules", file.to_str().expect("UTF-8")];
        Self::start(name, &[&given, words].concat())
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(status.expect("there is kill").success());
    }

    /// Waits for the exit, and returns the exit code.
    pub(crate) fn wait(&mut self) -> i32 {
        let mut code = None;
        eventually("it ends", || {
            code = self.child.try_wait().expect("it is a child");
            code.is_some()
        });
        code.and_then(|status| status.code()).expect("no signal ended it")
    }

    /// The text on standard error; empty if that is not a file.
    pub(crate) fn stderr(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap_or_default()
    }

    /// The metric with this name and these labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let [value] = self.metrics([name]);
        value
    }

    /// The metrics with these names and labels, read at the same moment.
    pub(crate) fn metrics<const N: usize>(&self, names: [&str; N]) -> [f64; N] {
        let page = get(self.admin, "/metrics", "").body;
        names.map(|name| {
            let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            line.unwrap_or_else(|| panic!("no {name} in\n{page}")).parse().expect("a number")
        })
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !std::thread::panicking() {
            assert!(!self.stderr().contains("panicked"), "{}", self.stderr());
        }
    }
}

/// A rule whose limit no test reaches.
pub(crate) const UNLIMITED: &str = r#"rule = [{ name = "all", limits = "1000000/s" }]"#;

/// A server that runs this function on a thread for each connection.
pub(crate) fn upstream(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let serve = std::sync::Arc::new(serve);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, serve) = (stream.expect("accepted"), std::sync::Arc::clone(&serve));
            stream.set_read_timeout(Some(PATIENCE)).expect("set");
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// A connection with timeouts.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("listening");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream.set_write_timeout(Some(PATIENCE)).expect("set");
    stream
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header; empty if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        value(&self.head, name)
    }
}

/// The value of a header in a head. The name is in lower case.
pub(crate) fn value<'a>(head: &'a str, name: &str) -> &'a str {
    let lines = head.lines().filter_map(|line| line.split_once(": "));
    let mut values = lines.filter(|(its, _)| its.eq_ignore_ascii_case(name));
    values.next().map_or("", |(_, value)| value)
}

/// Sends these bytes, and reads until the connection ends.
pub(crate) fn send(address: SocketAddr, request: &str) -> Answer {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("written");
    answer(stream)
}

/// Reads until the connection ends.
pub(crate) fn answer(mut stream: TcpStream) -> Answer {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("read");
    let text = String::from_utf8(bytes).expect("UTF-8");
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {text:?}"));
    let status = head[9..12].parse().expect("a status");
    Answer { status, head: head.to_owned(), body: body.to_owned() }
}

/// Sends a GET request; each line of `headers` ends in CRLF.
pub(crate) fn ask(address: SocketAddr, method: &str, path: &str, headers: &str) -> Answer {
    let head = format!("{method} {path} HTTP/1.1\r\nhost: test.example\r\nconnection: close\r\n");
    send(address, &format!("{head}{headers}\r\n"))
}

pub(crate) fn get(address: SocketAddr, path: &str, headers: &str) -> Answer {
    ask(address, "GET", path, headers)
}

/// Reads a head, and returns it.
pub(crate) fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).expect("read") == 0 {
            break;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("UTF-8")
}

/// Waits until the condition holds.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        let waited = began.elapsed();
        assert!(waited < PATIENCE, "not in time: {what}");
        // Asks less often the longer it takes: each question to a proxy takes milliseconds of a processor.
        std::thread::sleep(Duration::from_millis(20).max(waited / 16));
    }
}

include!("../../../../tests/bodies/free_port.rs");

/// An address that nothing listens at, as long as the socket exists.
pub(crate) fn refusing() -> (tokio::net::TcpSocket, SocketAddr) {
    let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("bound");
    let address = socket.local_addr().expect("bound");
    (socket, address)
}

/// A file with this content in the temporary folder of the build.
pub(crate) fn scratch(name: &str, content: &str) -> PathBuf {
    let path = place(name);
    // The rename is atomic: a proxy that polls the file sees all of the text, or none.
    let new = place(&format!("{name}.new"));
    std::fs::write(&new, content).expect("a place for scratch files");
    std::fs::rename(&new, &path).expect("a place for scratch files");
    path
}

/// The path of the scratch file of this test with this name. Tests run at once, and two of them may use
/// the same name. The harness names the thread of a test after it.
fn place(name: &str) -> PathBuf {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("main").replace("::", "-");
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("proxy-{test}-{name}"))
}
