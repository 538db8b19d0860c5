//! Many tasks, connections and processes on one quota.

use std::process::{Command, Stdio};

use tollgate::Quota;
use tollgate_redis::{Algorithm, RedisLimiter, Store};

use crate::harness::{Server, block_on, with_long_deadline};

const URL: &str = "TOLLGATE_TEST_URL";
const COUNTING: &str = "TOLLGATE_TEST_COUNTING";

fn gate(store: &Store, algorithm: &str) -> RedisLimiter {
    let algorithm: Algorithm = algorithm.parse().expect("a name");
    // Less than one cell comes back during a test.
    let gate = RedisLimiter::builder(store, "many", Quota::per_day(500)).algorithm(algorithm);
    gate.build().expect("a limiter")
}

/// Granted: exactly the burst.
#[test]
fn eight_tasks_over_several_connections_are_granted_the_burst() {
    let Some(server) = Server::start() else { return };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build();
    let runtime = runtime.expect("a runtime");
    for algorithm in Algorithm::NAMES {
        let store = server.store().connections(3).build().expect("a store");
        let gate = gate(&store, algorithm);
        let granted: u32 = runtime.block_on(async {
            let task = || {
                let gate = gate.clone();
                tokio::spawn(async move {
                    let mut granted = 0;
                    for _ in 0..100 {
                        granted += u32::from(gate.check("k").await.expect("an answer").is_ok());
                    }
                    granted
                })
            };
            let tasks: Vec<_> = (0..8).map(|_| task()).collect();
            let mut granted = 0;
            for task in tasks {
                granted += task.await.expect("it exits");
            }
            granted
        });
        assert_eq!(granted, 500, "{algorithm}");
        assert_eq!(store.stats().answered, 800);
        let _: () = redis::cmd("FLUSHALL").query(&mut server.admin()).expect("it");
    }
}

/// Granted: exactly the burst, by two processes and by three.
#[test]
fn processes_share_one_quota() {
    let Some(server) = Server::start() else { return };
    for (processes, algorithm) in
        [(2, "gcra"), (3, "gcra"), (3, "fixed-window"), (2, "sliding-log")]
    {
        let start = || {
            let mut worker = Command::new(std::env::current_exe().expect("this program"));
            worker.args(["--exact", "many::worker", "--nocapture", "--test-threads", "1"]);
            worker.env(URL, server.url()).env(COUNTING, algorithm).stdout(Stdio::piped());
            worker.spawn().expect("it starts")
        };
        let workers: Vec<_> = (0..processes).map(|_| start()).collect();
        let mut granted = 0;
        for worker in workers {
            let output = worker.wait_with_output().expect("it exits");
            assert!(output.status.success());
            let text = String::from_utf8(output.stdout).expect("UTF-8");
            let (_, figure) = text.split_once("granted:").expect("its figure");
            granted += figure.lines().next().expect("a line").parse::<u32>().expect("a number");
        }
        assert_eq!(granted, 500, "{processes} processes, {algorithm}");
        let _: () = redis::cmd("FLUSHALL").query(&mut server.admin()).expect("it");
    }
}

/// One of the processes of the test above. It does nothing by itself.
#[test]
fn worker() {
    let (Ok(url), Ok(algorithm)) = (std::env::var(URL), std::env::var(COUNTING)) else { return };
    let store = with_long_deadline(Store::builder(url)).build().expect("a store");
    let gate = gate(&store, &algorithm);
    let granted = block_on(async {
        let mut granted = 0;
        for _ in 0..400 {
            granted += u32::from(gate.check("k").await.expect("an answer").is_ok());
        }
        granted
    });
    println!("granted:{granted}");
}
