//! A limiter that outlives its process: saved to a file, dropped, and restored.
//!
//! `cargo run --example restart`

use std::error::Error;
use std::fs;
use std::time::Duration;

use tollgate::{Builder, Limiter, Quota};

/// The same choices before and after: a snapshot is checked against them.
fn builder() -> Builder<str> {
    Limiter::builder(Quota::per_minute(60).burst(5)).capacity(100_000)
}

fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::temp_dir().join(format!("tollgate-{}.snapshot", std::process::id()));

    let gate = builder().build()?;
    while gate.check("192.0.2.7").is_ok() {}
    assert!(gate.check("192.0.2.8").is_ok());
    // Written beside the file and renamed, so that a crash leaves the old snapshot or the new one.
    let unfinished = file.with_extension("unfinished");
    fs::write(&unfinished, gate.snapshot())?;
    fs::rename(&unfinished, &file)?;
    drop(gate);

    std::thread::sleep(Duration::from_millis(200));

    let bytes = fs::read(&file)?;
    println!("{} bytes", bytes.len());
    let gate = match builder().restore(&bytes) {
        Ok(gate) => gate,
        Err(error) => {
            eprintln!("starting without the snapshot: {error}");
            builder().build()?
        }
    };
    // The key has spent its burst, and less than a second has passed.
    let denied = gate.check("192.0.2.7").expect_err("still in debt");
    let wait = denied.retry_after().expect("one cell fits");
    println!("192.0.2.7 is still denied, for {wait:?}");
    assert!(wait < Duration::from_millis(800));
    println!("192.0.2.8 has {} left", gate.check("192.0.2.8")?.remaining());

    // A damaged file is rejected with the reason.
    let mut damaged = bytes;
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    println!("{}", builder().restore(&damaged).expect_err("damaged"));
    fs::remove_file(&file)?;
    Ok(())
}
