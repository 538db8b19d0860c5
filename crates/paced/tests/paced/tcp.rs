//! Real sockets and real time: what is sent arrives, whichever end is paced.

use std::hash::{DefaultHasher, Hasher};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tollgate::Quota;
use tollgate_paced::{Pace, Paced};

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("bound");
    let (client, server) = tokio::join!(TcpStream::connect(address), listener.accept());
    (client.expect("listening"), server.expect("a client").0)
}

/// Bytes that never repeat a block.
fn content(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn pace(rate: u64, burst: u64) -> Pace {
    Pace::new(Quota::per_second(rate).burst(burst)).expect("in range")
}

/// Both ends read and write at once, through paces.
async fn exchange(client: Paced<TcpStream>, server: Paced<TcpStream>, length: usize) -> Duration {
    let start = Instant::now();
    let run = |stream: Paced<TcpStream>, sent: Vec<u8>| async move {
        let (mut reader, mut writer) = tokio::io::split(stream);
        let send = async {
            writer.write_all(&sent).await.expect("connected");
            writer.shutdown().await.expect("connected");
        };
        let mut received = Vec::new();
        let receive = async { reader.read_to_end(&mut received).await.expect("connected") };
        tokio::join!(send, receive);
        hash(&received)
    };
    let sent = (content(length), content(length / 2));
    let hashes = (hash(&sent.0), hash(&sent.1));
    let client = tokio::spawn(run(client, sent.0));
    let server = tokio::spawn(run(server, sent.1));
    assert_eq!(server.await.expect("no panic"), hashes.0);
    assert_eq!(client.await.expect("no panic"), hashes.1);
    start.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn content_arrives_whole_at_slow_and_fast_rates() {
    for (length, rate, burst) in [
        (50_000, 200_000, 1_000),
        (3_000_000, 20_000_000, 500_000),
        (9_000_000, 1_000_000_000, 1 << 30),
    ] {
        let (client, server) = pair().await;
        let total = pace(rate, burst);
        let client = Paced::new(client, Pace::unlimited(), total.clone());
        let server = Paced::new(server, pace(rate, burst), total);
        let elapsed = exchange(client, server, length).await;
        let least = (length as u64 * 3 / 2).saturating_sub(burst) as f64 / rate as f64;
        assert!(elapsed.as_secs_f64() >= least, "{elapsed:?} for {length} bytes at {rate}");
    }
}

#[tokio::test]
async fn a_slow_reader_holds_a_fast_writer_without_loss() {
    let (client, server) = pair().await;
    let mut client = Paced::new(client, Pace::unlimited(), pace(1_000_000_000, 1 << 30));
    let mut server = Paced::new(server, pace(20_000_000, 100_000), Pace::unlimited());
    let sent = content(6_000_000);
    let expected = hash(&sent);
    let start = Instant::now();
    let writer = tokio::spawn(async move {
        client.write_all(&sent).await.expect("connected");
        client.shutdown().await.expect("connected");
    });
    let mut received = Vec::new();
    server.read_to_end(&mut received).await.expect("connected");
    assert_eq!(hash(&received), expected);
    assert!(start.elapsed() >= Duration::from_millis(290), "20 MB/s: {:?}", start.elapsed());
    writer.await.expect("no panic");
}

#[tokio::test]
async fn one_half_may_close_while_the_other_still_sends() {
    let (client, server) = pair().await;
    let mut client = Paced::new(client, pace(1_000_000, 10_000), pace(1_000_000, 10_000));
    let mut server = Paced::new(server, Pace::unlimited(), pace(1_000_000, 10_000));
    client.write_all(b"a question").await.expect("connected");
    client.shutdown().await.expect("connected");
    let mut question = Vec::new();
    server.read_to_end(&mut question).await.expect("connected");
    assert_eq!(question, b"a question");
    let answer = content(60_000);
    let send = async {
        server.write_all(&answer).await.expect("connected");
        server.shutdown().await.expect("connected");
    };
    let mut received = Vec::new();
    let receive = async { client.read_to_end(&mut received).await.expect("connected") };
    tokio::join!(send, receive);
    assert_eq!(received, answer);
}

#[tokio::test]
async fn a_peer_that_resets_is_an_error_of_the_writer() {
    let (client, server) = pair().await;
    let mut client = Paced::new(client, Pace::unlimited(), pace(50_000_000, 100_000));
    let writer = tokio::spawn(async move {
        loop {
            client.write_all(&[7; 65_536]).await?;
        }
        #[expect(unreachable_code, reason = "it names the type")]
        Ok::<(), std::io::Error>(())
    });
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(server);
    let ended = tokio::time::timeout(Duration::from_secs(10), writer).await;
    assert!(ended.expect("it ends").expect("no panic").is_err());
}

#[tokio::test]
async fn cancelled_writes_lose_and_repeat_nothing() {
    let (client, mut server) = pair().await;
    let mut client = Paced::new(client, Pace::unlimited(), pace(200_000, 20_000));
    let sent = content(60_000);
    let expected = hash(&sent);
    let writer = tokio::spawn(async move {
        let mut rest = &sent[..];
        let mut cancelled = 0;
        // On a busy machine each write may be ready after a millisecond, so every second one may not wait at all.
        for wait in [Duration::from_millis(1), Duration::ZERO].into_iter().cycle() {
            if rest.is_empty() {
                break;
            }
            // `write` is safe to cancel: a write that was cancelled has passed nothing.
            match tokio::time::timeout(wait, client.write(rest)).await {
                Ok(written) => rest = &rest[written.expect("connected")..],
                Err(_) => cancelled += 1,
            }
        }
        client.shutdown().await.expect("connected");
        cancelled
    });
    let mut received = Vec::new();
    server.read_to_end(&mut received).await.expect("connected");
    assert_eq!(hash(&received), expected);
    assert!(writer.await.expect("no panic") > 0, "some writes were cancelled");
}
