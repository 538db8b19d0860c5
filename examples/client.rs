//! A client of a service that limits its callers. It waits for its turn, so the service never denies it.
//!
//! ```text
//! cargo run --release --example client
//! ```

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::wait::{Timer, WaitError, WaitQueue};
use tollgate::{Direct, Quota};

/// The provider's quota.
const PER_SECOND: u64 = 100;
const BURST: u64 = 20;
/// Cells of the burst that the client does not use. Requests reach the provider some time after their
/// turn, some later than others: ten cells allow for a tenth of a second of difference.
const SPARE: u64 = 10;

/// Simulates the provider, and counts the requests that it would have answered with 429.
struct Provider {
    gate: Direct,
    served: AtomicU64,
    violations: AtomicU64,
}

impl Provider {
    fn call(&self) {
        let count = if self.gate.check().is_ok() { &self.served } else { &self.violations };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let provider = Provider {
        gate: Direct::new(Quota::per_second(PER_SECOND).burst(BURST))?,
        served: AtomicU64::new(0),
        violations: AtomicU64::new(0),
    };
    let line = WaitQueue::new(Direct::new(Quota::per_second(PER_SECOND).burst(BURST - SPARE))?);
    let patience = Duration::from_secs(5);

    // Threads that send their requests as fast as the quota allows.
    thread::scope(|scope| {
        let send = || -> Result<(), WaitError> {
            for _request in 0..30 {
                line.ask(&()).max_delay(patience).wait()?;
                provider.call();
            }
            Ok(())
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(send)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;

    // A task; with tokio the argument is `tokio::time::sleep`.
    let timer = Timer::start()?;
    async_io::block_on(async {
        for _request in 0..30 {
            line.ask(&()).max_delay(patience).wait_async(|span| timer.sleep(span)).await?;
            provider.call();
        }
        Ok::<(), WaitError>(())
    })?;

    // A caller that cannot be served before its deadline fails immediately.
    let all = line.ask(&()).cells(BURST - SPARE);
    let error = all.max_delay(Duration::from_millis(1)).wait().unwrap_err();
    println!("denied at once: {error}");

    let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
    println!("{} requests served", count(&provider.served));
    println!("{} violations", count(&provider.violations));
    Ok(())
}
