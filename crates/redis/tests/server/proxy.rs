//! A link to a server that can be slow, or die with or without notice.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::harness::closes_are_heard_of;

#[derive(Default)]
struct Faults {
    /// The port that new connections lead to.
    server_port: AtomicU16,
    /// How long each answer is delayed.
    delay_ms: AtomicU64,
    /// Connections numbered below this one swallow everything that is sent.
    dead_before: AtomicU32,
    /// Connections numbered below this one deliver requests and swallow answers.
    mute_before: AtomicU32,
    /// Connections numbered below this one end by a reset, which discards what is in flight.
    reset_before: AtomicU32,
    accepted: AtomicU32,
    open: Mutex<Vec<[TcpStream; 2]>>,
    over: AtomicBool,
}

/// Forwards bytes between its port and a server's, until it is dropped.
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

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Delays each answer.
    pub(crate) fn delay(&self, delay: Duration) {
        let millis = u64::try_from(delay.as_millis()).expect("in range");
        self.faults.delay_ms.store(millis, SeqCst);
    }

    /// Lets all connections die without notice. New ones work.
    pub(crate) fn let_die(&self) {
        self.faults.dead_before.store(self.accepted(), SeqCst);
    }

    /// Swallows the answers of all connections, while requests still arrive. New ones work.
    pub(crate) fn swallow_answers(&self) {
        self.faults.mute_before.store(self.accepted(), SeqCst);
    }

    /// Resets all connections. New ones work.
    pub(crate) fn reset(&self) {
        self.faults.reset_before.store(self.accepted(), SeqCst);
        let mut open = self.faults.open.lock().unwrap_or_else(PoisonError::into_inner);
        for [client, server] in open.drain(..) {
            // Without lingering, closing the last handle sends a reset. Shutting down the read side makes
            // the other handles end, and sends nothing to the client.
            let _ = socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO));
            let _ = client.shutdown(Shutdown::Read);
            let _ = server.shutdown(Shutdown::Both);
        }
    }

    /// Closes all connections in order, as a load balancer closes idle ones. New ones work. Returns
    /// when the client's side has received the close.
    pub(crate) fn close(&self) {
        let mut open = self.faults.open.lock().unwrap_or_else(PoisonError::into_inner);
        for [client, server] in open.drain(..) {
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        }
        drop(open);
        closes_are_heard_of(self.port);
    }

    /// Leads new connections to another server. Existing ones stay.
    pub(crate) fn lead_to(&self, server_port: u16) {
        self.faults.server_port.store(server_port, SeqCst);
    }

    /// The number of connections so far.
    pub(crate) fn accepted(&self) -> u32 {
        self.faults.accepted.load(SeqCst)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.faults.over.store(true, SeqCst);
        self.reset();
        // The thread that accepts connections gets one, and sees that it is over.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn join(client: TcpStream, server: TcpStream, number: u32, faults: &Arc<Faults>) {
    let copies = [&client, &server, &client, &server].map(TcpStream::try_clone);
    let [Ok(client_too), Ok(server_too), Ok(client_kept), Ok(server_kept)] = copies else { return };
    let mut open = faults.open.lock().unwrap_or_else(PoisonError::into_inner);
    // Connections that have ended need not be reset.
    open.retain(|[client, _]| client.peer_addr().is_ok());
    open.push([client_kept, server_kept]);
    drop(open);
    for (from, to, is_answer) in [(client, server, false), (server_too, client_too, true)] {
        let faults = Arc::clone(faults);
        thread::spawn(move || pass_on(from, to, number, is_answer, &faults));
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, number: u32, is_answer: bool, faults: &Faults) {
    let mut bytes = [0; 4_096];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let is_mute = is_answer && number < faults.mute_before.load(SeqCst);
        if is_mute || number < faults.dead_before.load(SeqCst) {
            continue;
        }
        if is_answer {
            thread::sleep(Duration::from_millis(faults.delay_ms.load(SeqCst)));
        }
        if to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    if number >= faults.reset_before.load(SeqCst) {
        let _ = to.shutdown(Shutdown::Both);
    }
}
