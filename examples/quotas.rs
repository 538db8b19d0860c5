//! Quotas that differ from key to key, and a quota that changes while it is in use.
//!
//! `cargo run --example quotas`

use tollgate::dynamic::{DynamicGcra, Inherit};
use tollgate::top::TopKeys;
use tollgate::{Gcra, Limiter, Quota};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    per_key()?;
    dynamic()
}

/// Three plans in one table. The keys that are denied most are noted by name.
fn per_key() -> Result<(), Box<dyn std::error::Error>> {
    // Built with the fastest quota of all.
    let gate: Limiter<str> = Limiter::builder(Quota::per_second(500))
        .algorithm(Gcra::new().for_plans())
        .capacity(100_000)
        .build()?;
    let free = gate.plan("10/min".parse()?)?;
    let team = gate.plan("20/s burst 50".parse()?)?;
    let firm = gate.plan("500/s".parse()?)?;
    let top: TopKeys<String> = TopKeys::new(100);
    for (tenant, plan) in [("ada", &free), ("the team", &team), ("the firm", &firm)] {
        let granted = (0..200)
            .filter(|_| top.watch(tenant, gate.ask(tenant).plan(plan).check()).is_ok())
            .count();
        println!("{tenant:8}  {:14}  {granted:3} of 200 at once", plan.quota().to_string());
    }
    for worst in top.top(2) {
        println!("denied most: {}, {} times", worst.key, worst.denied);
    }
    Ok(())
}

/// The remaining cells of two keys, before and after the quota doubles.
fn dynamic() -> Result<(), Box<dyn std::error::Error>> {
    for inherit in [Inherit::AsIs, Inherit::Additive, Inherit::Proportional, Inherit::Reset] {
        let gate: Limiter<str, DynamicGcra> =
            Limiter::builder(Quota::per_hour(100)).algorithm(DynamicGcra::new()).build()?;
        assert!(gate.check_n("busy", 90)?.remaining() == 10 && gate.check_n("calm", 20).is_ok());
        gate.set_quota(Quota::per_hour(200), inherit)?;
        let left = |key| gate.check_n(key, 0).map(|permit| permit.remaining());
        println!(
            "10 and 80 of 100 left, then 200, {inherit:?}: {} and {}",
            left("busy")?,
            left("calm")?
        );
    }
    Ok(())
}
