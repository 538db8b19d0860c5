//! A pre-fork HTTP/1.1 server: four worker processes, and one limit of 100 requests a day for each client address
//! over all of them.
//!
//! `cargo run --features shared-memory --example prefork -- 127.0.0.1:8080`, and in another terminal
//! `for _ in $(seq 110); do curl -s http://127.0.0.1:8080/; done | sort | uniq -c`
//!
//! The parent makes the shared memory, and each worker inherits it when it is forked. A worker that ends is
//! replaced, and its successor sees what keys have used.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::process::parent_id;
use std::thread;
use std::time::Duration;

use tollgate::clock::MonotonicClock;
use tollgate::shared::Shared;
use tollgate::{Denied, FixedWindow, Limiter, OnFull, Permit, Quota};

const WORKERS: usize = 4;
/// Connections that a worker serves at one time.
pub(crate) const THREADS: usize = 16;
const HEAD_BYTES_MAX: usize = 8 << 10;
const TIMEOUT: Duration = Duration::from_secs(5);

type Gate = Limiter<IpAddr, FixedWindow, MonotonicClock>;

fn main() -> Result<(), Box<dyn Error>> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    run(&TcpListener::bind(address)?)
}

/// Forks the workers, and replaces those that end.
pub(crate) fn run(listener: &TcpListener) -> Result<(), Box<dyn Error>> {
    let gate = Limiter::<IpAddr>::builder(Quota::per_day(100))
        .algorithm(FixedWindow::anchored())
        .capacity(10_000)
        .on_full(OnFull::Deny)
        .build_shared(&Shared::anonymous())?;
    println!("listening on {}", listener.local_addr()?);
    for _ in 0..WORKERS {
        fork_worker(listener, &gate)?;
    }
    loop {
        // SAFETY: the call accepts null, which means that the status is not wanted.
        if unsafe { libc::wait(std::ptr::null_mut()) } == -1 {
            return Err(io::Error::last_os_error().into());
        }
        // A worker that cannot start is not tried without a pause.
        thread::sleep(Duration::from_millis(100));
        fork_worker(listener, &gate)?;
    }
}

fn fork_worker(listener: &TcpListener, gate: &Gate) -> io::Result<()> {
    let parent = std::process::id();
    // SAFETY: this process has one thread, so the child holds no lock of another one, and may call anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => work(listener, gate, parent),
        _ => Ok(()),
    }
}

/// Serves until the parent has ended.
fn work(listener: &TcpListener, gate: &Gate, parent: u32) -> ! {
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| accept(listener, gate));
        }
        while parent_id() == parent {
            thread::sleep(Duration::from_millis(100));
        }
        std::process::exit(0)
    })
}

fn accept(listener: &TcpListener, gate: &Gate) {
    for stream in listener.incoming() {
        match stream {
            // A client that is slow, or leaves, loses its connection and nothing else.
            Ok(stream) => drop(serve(stream, gate)),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Answers the requests of a connection, one after the other.
fn serve(mut stream: TcpStream, gate: &Gate) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    stream.set_nodelay(true)?;
    let client = stream.peer_addr()?.ip();
    let mut unread = Vec::new();
    while let Some(head) = read_head(&mut stream, &mut unread)? {
        let Some(request) = Request::parse(&head) else {
            return stream.write_all(&answer("400 Bad Request", "", "bad request\n", true, false));
        };
        let (status, header, body) = match gate.check(&client) {
            Ok(permit) => ("200 OK", remaining(&permit), "hello\n"),
            Err(denied) => ("429 Too Many Requests", retry_after(&denied), "too many requests\n"),
        };
        let Request { has_content, closes } = request;
        stream.write_all(&answer(status, &header, body, has_content, !closes))?;
        if closes {
            break;
        }
    }
    Ok(())
}

/// Reads up to the empty line. `None`: the client has left between two requests.
fn read_head(stream: &mut TcpStream, unread: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    loop {
        if let Some(end) = unread.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
            let rest = unread.split_off(end + 4);
            return Ok(Some(std::mem::replace(unread, rest)));
        }
        if unread.len() > HEAD_BYTES_MAX {
            return Err(io::Error::other("the head is too long"));
        }
        let mut bytes = [0; 2_048];
        match stream.read(&mut bytes)? {
            0 if unread.is_empty() => return Ok(None),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => unread.extend_from_slice(&bytes[..count]),
        }
    }
}

/// The parts of a request that the server needs.
struct Request {
    /// The response has content: the method is GET, not HEAD.
    has_content: bool,
    closes: bool,
}

impl Request {
    /// `None`: this is no GET or HEAD without content in HTTP/1.1 or HTTP/1.0, and it cannot be told where the
    /// next request begins.
    fn parse(head: &[u8]) -> Option<Self> {
        let mut lines = std::str::from_utf8(head).ok()?.split("\r\n");
        let [method, _, version] = lines.next()?.split(' ').collect::<Vec<_>>()[..] else {
            return None;
        };
        let mut closes = match version {
            "HTTP/1.1" => false,
            "HTTP/1.0" => true,
            _ => return None,
        };
        for line in lines.take_while(|line| !line.is_empty()) {
            let (name, value) = line.split_once(':')?;
            let value = value.trim();
            match &*name.to_ascii_lowercase() {
                "transfer-encoding" => return None,
                "content-length" if value != "0" => return None,
                "connection" => {
                    closes |= value.split(',').any(|word| word.trim().eq_ignore_ascii_case("close"))
                }
                _ => {}
            }
        }
        let has_content = match method {
            "GET" => true,
            "HEAD" => false,
            _ => return None,
        };
        Some(Self { has_content, closes })
    }
}

fn answer(status: &str, header: &str, body: &str, has_content: bool, keeps: bool) -> Vec<u8> {
    let connection = if keeps { "keep-alive" } else { "close" };
    let (length, worker) = (body.len(), std::process::id());
    let content = if has_content { body } else { "" };
    let text = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\
         Connection: {connection}\r\nX-Worker: {worker}\r\n{header}\r\n{content}"
    );
    text.into_bytes()
}

fn remaining(permit: &Permit) -> String {
    format!("X-Remaining: {}\r\n", permit.remaining())
}

fn retry_after(denied: &Denied) -> String {
    let wait = denied.retry_after().unwrap_or(Duration::MAX);
    // Whole seconds, rounded up.
    let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
    format!("Retry-After: {seconds}\r\n")
}
