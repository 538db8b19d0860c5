//! A server that returns arbitrary values of the protocol. An invalid reply is an error, and
//! nothing panics. No real server is needed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tollgate::Quota;
use tollgate_redis::{
    Algorithm, Charge, CounterStore, Membership, RedisLimiter, RedisMembership, Store, Unavailable,
    Windows,
};

use crate::harness::{block_on, with_long_deadline};

/// The reply to scripts.
type Reply = Arc<Mutex<Vec<u8>>>;

fn serve(reply: &Reply) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let reply = Arc::clone(reply);
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let reply = Arc::clone(&reply);
            thread::spawn(move || answer(client, &reply));
        }
    });
    port
}

/// Answers each command. `None` when the client has gone.
fn answer(mut client: TcpStream, reply: &Reply) -> Option<()> {
    let mut requests = BufReader::new(client.try_clone().ok()?);
    loop {
        let words = number(&mut requests)?;
        let mut name = None;
        for _ in 0..words {
            let mut word = vec![0; number(&mut requests)? + 2];
            requests.read_exact(&mut word).ok()?;
            name.get_or_insert(word);
        }
        let is_script = name.is_some_and(|name| name.starts_with(b"EVAL"));
        let reply = reply.lock().unwrap_or_else(PoisonError::into_inner).clone();
        client.write_all(if is_script { &reply } else { b"+OK\r\n" }).ok()?;
    }
}

fn number(requests: &mut impl BufRead) -> Option<usize> {
    let mut line = String::new();
    requests.read_line(&mut line).ok()?;
    line.get(1..)?.trim().parse().ok()
}

/// Any value of the protocol, with numbers that a script can and cannot return.
fn values() -> impl Strategy<Value = Vec<u8>> {
    let numbers = prop_oneof![-3..300_i64, any::<i64>(), Just(i64::MIN), Just(i64::MAX)];
    let leaves = prop_oneof![
        6 => numbers.prop_map(|number| format!(":{number}\r\n").into_bytes()),
        1 => "[ -~]{0,9}".prop_map(|text| format!("+{text}\r\n").into_bytes()),
        1 => "[A-Z]{1,9} [ -~]{0,9}".prop_map(|text| format!("-{text}\r\n").into_bytes()),
        1 => "[ -~]{0,9}".prop_map(|text| format!("${}\r\n{text}\r\n", text.len()).into_bytes()),
        1 => prop::sample::select(vec!["$-1\r\n", "*-1\r\n", "_\r\n", "#t\r\n", ",nan\r\n", "(99999999999999999999\r\n"])
            .prop_map(|text| text.as_bytes().to_vec()),
    ];
    leaves.prop_recursive(3, 24, 6, |inner| {
        prop::collection::vec(inner, 0..7).prop_map(|all| {
            let mut bytes = format!("*{}\r\n", all.len()).into_bytes();
            bytes.extend(all.concat());
            bytes
        })
    })
}

/// Granted: what such a server says, and nothing for an invalid reply.
#[test]
fn no_reply_makes_a_limiter_panic() {
    let reply = Reply::default();
    let url = format!("redis://127.0.0.1:{}", serve(&reply));
    let store =
        with_long_deadline(Store::builder(url)).open_after(u32::MAX).build().expect("a store");
    let redis_limiter = |name: &str, algorithm: Algorithm| {
        let redis_limiter =
            RedisLimiter::builder(&store, name, Quota::per_second(90)).algorithm(algorithm);
        redis_limiter.leases(Duration::from_millis(50)).build().expect("a limiter")
    };
    let all = [Algorithm::Gcra, Algorithm::fixed_window(), Algorithm::sliding_counter()];
    let all = all.map(|algorithm| redis_limiter("any", algorithm));
    let log = RedisLimiter::builder(&store, "log", Quota::per_second(90));
    let log = log.algorithm(Algorithm::sliding_log()).build().expect("a limiter");
    let windows = Windows::first_hit(&store, "any", Duration::from_secs(1)).expect("windows");
    let membership = RedisMembership::new(&store, "any").expect("a membership list");
    let errors = std::cell::Cell::new(0_u32);
    let mut runner = TestRunner::new(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(400)
    });
    let outcome = runner.run(&values(), |bytes| {
        *reply.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
        block_on(async {
            for gate in all.iter().chain([&log]) {
                let Err(why) = gate.check("k").await else { continue };
                prop_assert!(!why.to_string().is_empty());
                errors.set(errors.get() + 1);
            }
            for gate in &all {
                if let Err(why) = gate.take("k", 2, 9).await {
                    prop_assert!(
                        matches!(why, Unavailable::Failed(_) | Unavailable::Disconnected),
                        "{why:?}"
                    );
                }
            }
            let charge = |key: &[u8]| Charge { key: key.into(), cells: 1 };
            prop_assert_eq!(windows.add(&[charge(b"a"), charge(b"b")]).await.len(), 2);
            let _ = membership.heartbeat("one", Duration::from_secs(1)).await;
            let _ = membership.leave("one").await;
            Ok(())
        })
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    assert!(errors.get() > 400, "too few replies were invalid: {}", errors.get());
}
