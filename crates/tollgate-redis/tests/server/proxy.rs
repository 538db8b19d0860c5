//! A link to a server that can be made slow, or dead without a word.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

#[derive(Default)]
struct Faults {
    /// Where new connections lead.
    server_port: AtomicU16,
    /// How long an answer is held up.
    delay_ms: AtomicU64,
    /// Connections made before this one was counted swallow all that is sent.
    dead_before: AtomicU32,
    accepted: AtomicU32,
    over: AtomicBool,
}

/// Passes bytes on between its port and a server's, until it is dropped.
pub(crate) struct Proxy {
    port: u16,
    faults: Arc<Faults>,
}

impl Proxy {
    pub(crate) fn to(server_port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        let faults = Arc::new(Faults::default());
        faults.server_port.store(server_port, SeqCst);
        let shared = Arc::clone(&faults);
        thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), false) = (client, shared.over.load(SeqCst)) else { return };
                let number = shared.accepted.fetch_add(1, SeqCst);
                let port = shared.server_port.load(SeqCst);
                if let Ok(server) = TcpStream::connect(("127.0.0.1", port)) {
                    join(client, server, number, &shared);
                }
            }
        });
        Self { port, faults }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Holds each answer up for so long.
    pub(crate) fn delay(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).expect("in range");
        self.faults.delay_ms.store(millis, SeqCst);
    }

    /// Lets all connections die without a word. New ones work.
    pub(crate) fn let_die(&self) {
        self.faults.dead_before.store(self.accepted(), SeqCst);
    }

    /// Leads new connections to another server. Those that there are stay.
    pub(crate) fn lead_to(&self, server_port: u16) {
        self.faults.server_port.store(server_port, SeqCst);
    }

    /// Connections so far.
    pub(crate) fn accepted(&self) -> u32 {
        self.faults.accepted.load(SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.faults.over.store(true, SeqCst);
        // Whoever waits for a connection gets one, and sees that it is over.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn join(client: TcpStream, server: TcpStream, number: u32, faults: &Arc<Faults>) {
    let copies = [&client, &server].map(TcpStream::try_clone);
    let [Ok(client_too), Ok(server_too)] = copies else { return };
    for (from, to, is_answer) in [(client, server, false), (server_too, client_too, true)] {
        let faults = Arc::clone(faults);
        thread::spawn(move || pass_on(from, to, number, is_answer, &faults));
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, number: u32, is_answer: bool, faults: &Faults) {
    let mut bytes = [0; 4_096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        if number < faults.dead_before.load(SeqCst) {
            continue;
        }
        if is_answer {
            thread::sleep(Duration::from_millis(faults.delay_ms.load(SeqCst)));
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
