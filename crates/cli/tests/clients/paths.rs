//! No spelling of a path reaches `/login` of an upstream uncounted by the rule for it. Each upstream
//! reports how it reads the path, and the headers of the response show what was counted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use crate::nginx::Nginx;
use crate::support::{Proxy, connect, eventually, scratch};

/// Spellings of a path of two segments: text before, between and after them, and within their names.
const BETWEEN: [&str; 17] = [
    "/",
    "//",
    "%2f",
    "%2F",
    "/%2f",
    "%2f/",
    "/./",
    "/%2e/",
    "/x/../",
    "/x%2f..%2f",
    "%2fx/%2e%2e/",
    "\\",
    "%5c",
    "/;v=1/",
    ";v=1/",
    "%252f",
    "%00",
];
const LOGINS: [&str; 12] = [
    "login",
    "%6cogin",
    "%6Cog%69n",
    "LOGIN",
    "login;jsessionid=1",
    "login%3bx",
    "login%00",
    "login.",
    "login%20",
    "%256cogin",
    "log%C0%AFin",
    "login%ff",
];
const BEHIND: [&str; 18] = [
    "",
    "/",
    "//",
    "%2f",
    "%2Findex.html",
    "/index.html",
    "/.",
    "/..",
    "/../login",
    "%2f..%2flogin",
    "/..;/login",
    "?x=/a",
    "%3fx",
    "%23x",
    "\\index.html",
    "/a//../b",
    "/x/..%2f..%2flogin",
    ";a/b",
];
/// Spellings from an external report.
const REPORTED: [&str; 4] = ["/%2flogin", "/login%2f", "/x%2f..%2flogin", "/login%2Findex.html"];

fn all_paths() -> Vec<String> {
    let combined = BETWEEN.iter().flat_map(|before| {
        LOGINS.iter().flat_map(move |login| {
            BEHIND.iter().map(move |behind| format!("{before}{login}{behind}"))
        })
    });
    let below = BETWEEN.iter().map(|before| format!("/static{before}..{before}login"));
    let rooted = combined.chain(below).map(|path| match path.starts_with('/') {
        true => path,
        false => format!("/{path}"),
    });
    REPORTED.iter().map(|&path| path.to_owned()).chain(rooted).collect()
}

/// The outcome of one request.
struct Seen {
    status: u16,
    is_counted: bool,
    /// The path as the upstream reads it.
    upstream: Vec<u8>,
}

impl Seen {
    /// Whether the upstream serves `/login`.
    fn reaches_login(&self) -> bool {
        self.status == 200 && (self.upstream == b"/login" || self.upstream.starts_with(b"/login/"))
    }
}

/// Requests each path, over one connection as long as it is open.
fn ask(proxy: &Proxy, paths: &[String]) -> Vec<Seen> {
    let mut stream = BufReader::new(connect(proxy.listen));
    paths
        .iter()
        .map(|path| {
            let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n");
            stream.get_mut().write_all(head.as_bytes()).expect("written");
            let (head, upstream) = read_answer(&mut stream);
            if head.contains("connection: close") {
                stream = BufReader::new(connect(proxy.listen));
            }
            let status = head[9..12].parse().expect("a status");
            Seen { status, is_counted: head.contains("ratelimit-policy: \"login\""), upstream }
        })
        .collect()
}

/// Reads a head, in lower case, and a body of its Content-Length.
fn read_answer(stream: &mut BufReader<TcpStream>) -> (String, Vec<u8>) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        let bytes = stream.read_line(&mut head).expect("a head in UTF-8");
        assert!(bytes > 0, "the connection ends in a head: {head}");
    }
    head.make_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.expect("it is said").parse().expect("a number")];
    stream.read_exact(&mut body).expect("a body");
    (head, body)
}

/// A proxy with a rule for `/login`, with these lines before its rules.
fn proxy(name: &str, lines: &str, upstream: SocketAddr) -> Proxy {
    let text = format!(
        "{lines}\n[[rule]]\nname = \"login\"\nmatch = {{ path = \"/login/**\", method = \"POST\" }}\n\
         limits = \"1000000/s\"\n"
    );
    let rules = scratch(&format!("{name}.toml"), &text);
    let url = format!("http://{upstream}");
    Proxy::start(name, &["--upstream", &url, "--rules", rules.to_str().expect("UTF-8")])
}

/// The paths that reach the login uncounted. Also asserts that some paths reach it at all.
fn uncounted(name: &str, lines: &str, upstream: SocketAddr) -> Vec<String> {
    let proxy = proxy(name, lines, upstream);
    let paths = all_paths();
    let seen = ask(&proxy, &paths);
    let reaching = seen.iter().filter(|seen| seen.reaches_login()).count();
    assert!(reaching > 50, "{reaching} of {} reach the login", paths.len());
    let uncounted = paths.into_iter().zip(seen);
    let uncounted = uncounted.filter(|(_, seen)| seen.reaches_login() && !seen.is_counted);
    uncounted.map(|(path, _)| path).collect()
}

pub(crate) fn nginx() {
    let words = ";\nlocation / { return 200 \"$uri\"; }\nserver_name a";
    let nginx = Nginx::with("paths", words, |_| {});
    for (name, lines) in [
        ("paths-default", ""),
        ("paths-decode", "encoded_slash = \"decode\"\nbackslash = \"keep\""),
        (
            "paths-exact",
            "encoded_slash = \"decode\"\nbackslash = \"keep\"\npath_params = \"keep\"\npath_case = \"keep\"",
        ),
    ] {
        assert_eq!(uncounted(name, lines, nginx.address), Vec::<String>::new(), "{lines}");
    }
    // The rules file selects this reading explicitly.
    let evading = uncounted("paths-keep", "encoded_slash = \"keep\"", nginx.address);
    for path in REPORTED {
        assert!(evading.iter().any(|its| its == path), "{path}");
    }
    // By default, the proxy answers 400 to these, and forwards other paths with an encoded slash.
    let proxy = proxy("paths-reject", "", nginx.address);
    let answered = |paths: &[&str]| -> Vec<u16> {
        let paths: Vec<String> = paths.iter().map(|&path| path.to_owned()).collect();
        ask(&proxy, &paths).iter().map(|seen| seen.status).collect()
    };
    assert_eq!(answered(&REPORTED), [400; 4]);
    assert_eq!(answered(&["/files/a%2fb", "/login", "/LOGIN/../login;x"]), [200; 3]);
}

/// A Python server that answers with the path that a WSGI application receives.
const WSGI: &str = "
import wsgiref.simple_server as server
class Handler(server.WSGIRequestHandler):
    def log_message(self, *args):
        pass
def application(environ, start):
    body = environ['PATH_INFO'].encode('latin-1')
    start('200 OK', [('content-length', str(len(body)))])
    return [body]
with server.make_server('127.0.0.1', 0, application, handler_class=Handler) as it:
    print(it.server_port, flush=True)
    it.serve_forever()
";

struct Python(Child);

impl Drop for Python {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(crate) fn wsgi() {
    let python = Command::new("python3").args(["-c", WSGI]).stdout(Stdio::piped()).spawn();
    let mut python = Python(python.expect("it starts"));
    let mut line = String::new();
    let stdout = python.0.stdout.take().expect("it is piped");
    BufReader::new(stdout).read_line(&mut line).expect("it says its port");
    let address = SocketAddr::from(([127, 0, 0, 1], line.trim().parse().expect("a port")));
    eventually("it listens", || TcpStream::connect(address).is_ok());
    for (name, lines) in [("wsgi-default", ""), ("wsgi-decode", "encoded_slash = \"decode\"")] {
        assert_eq!(uncounted(name, lines, address), Vec::<String>::new(), "{lines}");
    }
}
