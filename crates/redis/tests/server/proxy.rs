//! A link to a server that can be made slow, or dead with or without a word.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::harness::closes_are_heard_of;

#[derive(Default)]
struct Faults {
    /// Where new connections lead.
    server_port: AtomicU16,
    /// How long an answer is held up.
    delay_ms: AtomicU64,
    /// Connections made before this one was counted swallow all that is sent.
    dead_before: AtomicU32,
    /// Of these, what is sent arrives, and its answers do not.
    mute_before: AtomicU32,
    /// These are ended by a reset, which discards what is under way.
    reset_before: AtomicU32,
    accepted: AtomicU32,
    open: Mutex<Vec<[TcpStream; 2]>>,
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

    pub(crate) fn port(&self) -> u16 {
        self.port
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

    /// Lets the answers to all connections vanish, though what is sent arrives. New ones work.
    pub(crate) fn swallow_answers(&self) {
        self.faults.mute_before.store(self.accepted(), SeqCst);
    }

    /// Resets all connections. New ones work.
    pub(crate) fn reset(&self) {
        self.faults.reset_before.store(self.accepted(), SeqCst);
        let mut open = self.faults.open.lock().unwrap_or_else(PoisonError::into_inner);
        for [client, server] in open.drain(..) {
            // Without lingering, the last handle that is closed sends a reset. Shutting down what is
            // read lets go of the other handles, and says nothing to the client.
            let _ = socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO));
            let _ = client.shutdown(Shutdown::Read);
            let _ = server.shutdown(Shutdown::Both);
        }
    }

    /// Ends all connections in order, as a balancer ends idle ones. New ones work. Returns when the
    /// client's side has heard of it.
    pub(crate) fn close(&self) {
        let mut open = self.faults.open.lock().unwrap_or_else(PoisonError::into_inner);
        for [client, server] in open.drain(..) {
            let _ = client.shutdown(Shutdown::Both);
            let _ = server.shutdown(Shutdown::Both);
        }
        drop(open);
        closes_are_heard_of(self.port);
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
        self.reset();
        // Whoever waits for a connection gets one, and sees that it is over.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn join(client: TcpStream, server: TcpStream, number: u32, faults: &Arc<Faults>) {
    let copies = [&client, &server, &client, &server].map(TcpStream::try_clone);
    let [Ok(client_too), Ok(server_too), Ok(client_kept), Ok(server_kept)] = copies else { return };
    let mut open = faults.open.lock().unwrap_or_else(PoisonError::into_inner);
    // What is over by now need not be reset.
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
