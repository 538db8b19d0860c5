//! Several limits in one call, a shadow quota, and bans: `cargo run --example composite`.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use tollgate::composite::Composite;
use tollgate::penalty::{Penalties, PenaltyDenied};
use tollgate::shadow::Shadow;
use tollgate::{Direct, Limiter, ManualClock, Quota};

struct Request {
    ip: &'static str,
    tenant: u32,
}

/// Limits per address, per tenant and for all requests, and a tighter limit that is only counted.
fn composite(clock: &Arc<ManualClock>) -> Result<(), Box<dyn Error>> {
    let per_ip = Limiter::<str>::builder(Quota::per_second(3)).clock(Arc::clone(clock)).build()?;
    let per_tenant =
        Limiter::<u32>::builder(Quota::per_minute(5)).clock(Arc::clone(clock)).build()?;
    let tighter = Limiter::<str>::builder(Quota::per_second(2)).clock(Arc::clone(clock)).build()?;
    let upstream = Direct::builder(Quota::per_second(500)).clock(Arc::clone(clock)).build()?;
    let gate = Composite::<Request>::builder()
        .keyed("per address", per_ip, |request| request.ip)
        .keyed("per tenant", per_tenant, |request| &request.tenant)
        .shared("upstream", upstream)
        .keyed("tighter", tighter, |request| request.ip)
        .shadow()
        .build()?;

    for ip in ["192.0.2.7", "192.0.2.7", "192.0.2.7", "192.0.2.7", "::1", "::1", "::1"] {
        match gate.check(&Request { ip, tenant: 3 }) {
            Ok(granted) => {
                print!("{ip}: granted, {} left {}", granted.remaining(), granted.tightest());
                println!(", would be denied by {:?}", granted.would_deny());
            }
            Err(denied) => println!("{ip}: {denied}"),
        }
    }
    for (name, counts) in gate.shadows() {
        println!("{name} in shadow: {counts:?}");
    }
    Ok(())
}

/// Counts what 60 a minute would change where 100 are enforced.
fn shadow(clock: &Arc<ManualClock>) -> Result<(), Box<dyn Error>> {
    let limiter = |quota| Limiter::<u32>::builder(quota).clock(Arc::clone(clock)).build();
    let gate = Shadow::new(limiter(Quota::per_minute(100))?, limiter(Quota::per_minute(60))?);
    for request in 0..300 {
        let _ = gate.check(&(request % 4));
    }
    println!("of the admitted: {:?}, of the denied: {:?}", gate.of_admitted(), gate.of_denied());
    Ok(())
}

/// Bans a key for ten minutes after three denials within one.
fn penalties(clock: &Arc<ManualClock>) -> Result<(), Box<dyn Error>> {
    let gate = Limiter::<str>::builder(Quota::per_second(2)).clock(Arc::clone(clock)).build()?;
    let gate = Penalties::builder(gate, Quota::per_minute(3), Duration::from_secs(600)).build()?;
    for _ in 0..6 {
        match gate.check("192.0.2.7") {
            Ok(permit) => println!("go ahead, {} left", permit.remaining()),
            Err(PenaltyDenied::Limited(denied)) => println!("429: {denied}"),
            Err(banned @ PenaltyDenied::Banned(_)) => println!("403: {banned}"),
        }
    }
    println!("{:?}", gate.stats());
    clock.advance(Duration::from_secs(600));
    println!("ten minutes later: {:?}", gate.check("192.0.2.7").is_ok());
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let clock = Arc::new(ManualClock::new());
    composite(&clock)?;
    shadow(&clock)?;
    penalties(&clock)
}
