//! The example of a pre-fork server admits exactly its quota, over all of its workers.
//!
//! Without the harness, so that the server is forked from a process with one thread.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Barrier;
use std::time::Duration;

#[allow(dead_code, reason = "its `main` is for the example")]
#[path = "../examples/prefork.rs"]
mod prefork;

/// More connections than one worker serves at a time.
const CONNECTIONS: usize = prefork::THREADS + 4;
const REQUESTS: usize = 400 / CONNECTIONS;
const _: () = assert!(CONNECTIONS * REQUESTS == 400);

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("serve") => {
            let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
            prefork::run(&listener).expect("it serves until it is killed");
        }
        // As the harness does, for tools that list tests.
        Some("--list") => println!("four_workers_admit_exactly_the_quota: test"),
        _ => four_workers_admit_exactly_the_quota(),
    }
}

/// Is killed when it is dropped; its workers then end.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn four_workers_admit_exactly_the_quota() {
    let this = std::env::current_exe().expect("its own path");
    let child = Command::new(this).arg("serve").stdout(Stdio::piped()).spawn().expect("started");
    let mut server = Server(child);
    let mut line = String::new();
    let out = server.0.stdout.take().expect("piped");
    BufReader::new(out).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("listening on ").expect("an address").to_owned();

    let all_have_ended = Barrier::new(CONNECTIONS);
    let heads: Vec<String> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CONNECTIONS)
            .map(|_| {
                scope.spawn(|| {
                    let mut stream = connect(&address);
                    let heads: Vec<String> = (0..REQUESTS).map(|_| get(&mut stream)).collect();
                    // The connection stays open until then, so one worker cannot serve them all.
                    all_have_ended.wait();
                    heads
                })
            })
            .collect();
        clients.into_iter().flat_map(|client| client.join().expect("answered")).collect()
    });
    let count = |status| heads.iter().filter(|head| head[9..].starts_with(status)).count();
    assert_eq!((count("200 "), count("429 "), heads.len()), (100, 300, 400));
    let worker = |head: &String| {
        let (_, worker) = head.split_once("X-Worker: ").expect("the worker");
        worker.split('\r').next().expect("a line").to_owned()
    };
    let workers: BTreeSet<String> = heads.iter().map(worker).collect();
    assert!(workers.len() > 1, "only {workers:?} took part");
    answers_are_well_formed(&address);
    println!("100 of 400 requests were admitted, by {} workers", workers.len());
}

fn connect(address: &str) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream
}

/// The head of a response. The connection stays open.
fn get(stream: &mut TcpStream) -> String {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n").expect("sent");
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a response");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    let (_, length) = head.split_once("Content-Length: ").expect("a length");
    let length = length.split('\r').next().expect("a line").parse().expect("a number");
    stream.read_exact(&mut vec![0; length]).expect("the content");
    head
}

/// The whole answer to some bytes, after which the server closes the connection.
fn exchange(address: &str, request: &str) -> String {
    let mut stream = connect(address);
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("closed");
    answer
}

fn answers_are_well_formed(address: &str) {
    let denied = exchange(address, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!(
        denied.starts_with("HTTP/1.1 429 ") && denied.contains("\r\nRetry-After: "),
        "{denied}"
    );
    assert!(denied.ends_with("\r\n\r\ntoo many requests\n"), "{denied}");
    // Two requests at once have two answers, and that of a HEAD has no content.
    let two = exchange(address, "GET / HTTP/1.1\r\n\r\nHEAD / HTTP/1.0\r\n\r\n");
    assert_eq!(two.matches("HTTP/1.1 429 ").count(), 2, "{two}");
    assert_eq!(two.matches("too many requests\n").count(), 1, "{two}");
    for bad in ["POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nab", "GET /\r\n\r\n", "\r\n\r\n"] {
        assert!(exchange(address, bad).starts_with("HTTP/1.1 400 "), "{bad}");
    }
}
