//! Two limiters on one quota, as two processes would have them: they share what is left.
//!
//! ```sh
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p tollgate-redis --example shared
//! ```

use tollgate::Quota;
use tollgate_redis::{RedisLimiter, Store};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".into());
    // Each process has its own connections, circuit and counters. Only the server is shared.
    let process = || -> Result<RedisLimiter, Box<dyn std::error::Error>> {
        let store = Store::builder(url.clone()).prefix("example").build()?;
        Ok(RedisLimiter::builder(&store, "shared", Quota::per_minute(5)).build()?)
    };
    let processes = [process()?, process()?];
    for attempt in 0..8 {
        let which = attempt % 2;
        match processes[which].check("alice").await? {
            Ok(permit) => println!("process {which}: admitted, {} left", permit.remaining()),
            Err(denied) => println!("process {which}: retry after {:?}", denied.retry_after()),
        }
    }
    Ok(())
}
