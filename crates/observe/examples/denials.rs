//! A flood of denials, and the few events that it makes.

use tollgate::top::TopKeys;
use tollgate::{Limiter, Quota};
use tollgate_observe::{DenialLog, log_top};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().without_time().with_ansi(false).init();

    let gate: Limiter<str> = Limiter::builder(Quota::per_minute(5)).build()?;
    let log = DenialLog::new("api", Quota::new(1, std::time::Duration::from_millis(100)).burst(3))?;
    let top: TopKeys<String> = TopKeys::new(100);
    for _ in 0..2 {
        for request in 0..100_000 {
            let client = ["192.0.2.7", "192.0.2.8", "192.0.2.7"][request % 3];
            let _ = log.watch(client, top.watch(client, gate.check(client)));
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    log_top(&top, "api", 10);
    println!("{} denials were not logged", log.suppressed());
    Ok(())
}
