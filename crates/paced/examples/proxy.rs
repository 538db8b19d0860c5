//! A TCP proxy that paces what it sends to its clients: so much for each client, so much in total.
//!
//! ```sh
//! cargo run -p tollgate-paced --example proxy -- 127.0.0.1:8080 127.0.0.1:3000 "1M/s burst 100k" "5M/s burst 500k"
//! curl -o /dev/null http://127.0.0.1:8080/large
//! ```
//!
//! The arguments are where it listens, where it connects to, the quota of each client's address, and that of
//! all of them, in bytes. Connections of one address share its quota, and have equal shares of it.

use std::error::Error;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tollgate::{Limiter, Quota};
use tollgate_paced::{Pace, Paced};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, upstream, client, total] = arguments.as_slice() else {
        return Err(
            "expected four arguments: LISTEN UPSTREAM CLIENT_QUOTA TOTAL_QUOTA, for example \
                    127.0.0.1:8080 127.0.0.1:3000 \"1M/s burst 100k\" \"5M/s burst 500k\""
                .into(),
        );
    };
    let quota: Quota = client.parse().map_err(|error| format!("'{client}': {error}"))?;
    let clients: Arc<Limiter<IpAddr>> =
        Arc::new(Limiter::builder(quota).build().map_err(|error| format!("'{client}': {error}"))?);
    let quota: Quota = total.parse().map_err(|error| format!("'{total}': {error}"))?;
    let all = Pace::new(quota).map_err(|error| format!("'{total}': {error}"))?;

    let listener = TcpListener::bind(listen)
        .await
        .map_err(|error| format!("cannot listen at {listen}: {error}"))?;
    println!(
        "{} to {upstream}: {client} for each client, {total} in total",
        listener.local_addr()?
    );
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                eprintln!("cannot accept: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
                continue;
            }
        };
        // Bytes from the client are not paced.
        let pace = Pace::keyed(&clients, peer.ip())?.and(&all);
        let mut stream = Paced::new(stream, Pace::unlimited(), pace);
        let upstream = upstream.clone();
        tokio::spawn(async move {
            let result = match TcpStream::connect(&upstream).await {
                Ok(mut upstream) => copy_bidirectional(&mut stream, &mut upstream).await,
                Err(error) => Err(error),
            };
            match result {
                Ok((sent, received)) => println!("{peer}: {sent} bytes up, {received} down"),
                Err(error) => println!("{peer}: {error}"),
            }
        });
    }
}
