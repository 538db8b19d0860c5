//! Looks up the name of the upstream, with a bound on the lookups that run at a time.
//!
//! The system's lookup blocks a thread, and cannot be cancelled: without a bound, a name server that does not answer
//! takes all threads that the runtime has for blocking work, which the rules file and `/metrics` need too.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::vec;

use hyper_util::client::legacy::connect::dns::Name;
use tokio::sync::Semaphore;
use tower_service::Service;

/// The most lookups at a time: a quarter of the threads for blocking work.
const LOOKUPS_MAX: usize = 128;

type Addresses = vec::IntoIter<SocketAddr>;

/// Looks up names.
#[derive(Clone, Debug)]
pub(super) struct Resolver {
    lookups: Arc<Semaphore>,
    look_up: fn(&str) -> io::Result<Addresses>,
}

impl Resolver {
    pub(super) fn new() -> Self {
        Self::with(LOOKUPS_MAX, |name| (name, 0).to_socket_addrs())
    }

    fn with(lookups_max: usize, look_up: fn(&str) -> io::Result<Addresses>) -> Self {
        Self { lookups: Arc::new(Semaphore::new(lookups_max)), look_up }
    }
}

impl Service<Name> for Resolver {
    type Response = Addresses;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Addresses>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self { lookups, look_up } = self.clone();
        Box::pin(async move {
            let slot = lookups.acquire_owned().await.expect("the semaphore is never closed");
            let found = tokio::task::spawn_blocking(move || {
                // Held until the lookup ends, though the caller may give up before.
                let _slot = slot;
                look_up(name.as_str())
            });
            found.await.map_err(io::Error::other)?
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use tokio::runtime::Builder;

    use super::*;

    static ANSWERS: AtomicBool = AtomicBool::new(false);

    /// Looks up a name at a server that does not answer.
    fn hang(_: &str) -> io::Result<Addresses> {
        while !ANSWERS.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(Vec::new().into_iter())
    }

    #[test]
    fn lookups_that_hang_leave_a_thread_for_other_work_although_their_callers_have_left() {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(1).max_blocking_threads(3).enable_time();
        let runtime = builder.build().expect("a runtime");
        let (sender, done) = mpsc::channel();
        runtime.block_on(async {
            let mut resolver = Resolver::with(2, hang);
            for _ in 0..4 {
                let lookup = resolver.call("upstream.example".parse().expect("a name"));
                let left = tokio::time::timeout(Duration::from_millis(10), lookup).await;
                assert!(left.is_err(), "the lookup hangs");
            }
            tokio::task::spawn_blocking(move || sender.send(()));
        });
        let done = done.recv_timeout(Duration::from_secs(10));
        // The runtime waits for its threads.
        ANSWERS.store(true, Ordering::Relaxed);
        assert!(done.is_ok(), "all threads are taken");
    }
}
