//! Batches to a real server: how far several processes exceed a window's limit.

use std::time::{Duration, Instant};

use tollgate_redis::{
    Batched, Charge, CounterStore, Fallback, Origin, Store, Unavailable, WindowCount, Windows,
    WithFallback,
};

use crate::harness::{PATIENCE, Server, block_on, free_port, skipped, with_long_deadline};
use crate::workers::{self, Worker, report, runtime};

const LIMIT: u64 = 20_000;
const UNSENT: u64 = 100;
/// No test sees the end of this window.
const HOUR: Duration = Duration::from_secs(3_600);

fn windows(store: &Store) -> Windows {
    Windows::first_hit(store, "batched", HOUR).expect("a window")
}

fn batched(store: &Store, limit: u64, unsent: u64) -> Batched<Windows> {
    Batched::builder(windows(store), limit).max_unsent(unsent).build().expect("a limiter")
}

/// Asks from 8 tasks until all are denied. Returns the admitted cells.
async fn exhaust(batched: &Batched<Windows>) -> u64 {
    let task = || {
        let batched = batched.clone();
        tokio::spawn(async move {
            let mut granted = 0;
            loop {
                match batched.check(b"k").await {
                    Ok(answer) if answer.decision.is_ok() => granted += 1,
                    Ok(_) => return granted,
                    // Other tasks took what the last answer had room for.
                    Err(Unavailable::TimedOut) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        })
    };
    let mut granted = 0;
    for task in (0..8).map(|_| task()).collect::<Vec<_>>() {
        granted += task.await.expect("it exits");
    }
    granted
}

fn charge(key: &[u8], cells: u64) -> Charge {
    Charge { key: key.into(), cells }
}

/// Adds to the key "k" alone.
async fn add(windows: &Windows, cells: u64) -> Result<WindowCount, Unavailable> {
    windows.add(&[charge(b"k", cells)]).await.pop().expect("a reply for each charge")
}

fn used(windows: &Windows) -> u64 {
    block_on(add(windows, 0)).expect("an answer").used
}

/// Granted in a window: at least the limit, and at most `limit - 1 + processes * unsent`.
#[test]
fn three_processes_exceed_a_window_by_their_unsent_cells_at_most() {
    let Some(server) = Server::start() else { return };
    let mut workers: Vec<_> =
        (0..3).map(|_| Worker::start(&server, "batched::exhausting_worker", 3)).collect();
    let reports: Vec<_> = workers.iter_mut().map(Worker::numbers_so_far).collect();
    let granted: u64 = reports.iter().map(|numbers| numbers[0]).sum();
    let calls: u64 = reports.iter().map(|numbers| numbers[1]).sum();
    assert!((LIMIT..LIMIT + 3 * UNSENT).contains(&granted), "{granted}: {reports:?}");
    assert!(reports.iter().all(|numbers| numbers[0] > 0), "each process had some: {reports:?}");
    assert!(calls * 10 <= granted, "{calls} calls for {granted}");
    let store = server.store().build().expect("a store");
    let windows = windows(&store);
    let began = Instant::now();
    while used(&windows) < granted && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(workers);
    assert_eq!(used(&windows), granted, "everything was sent in the end");
}

#[test]
fn exhausting_worker() {
    let Some(store) = workers::store() else { return };
    runtime(2).block_on(async {
        let batched = batched(&store, LIMIT, UNSENT);
        let granted = exhaust(&batched).await;
        drop(batched);
        report(&[granted, store.stats().calls]);
        // The task sends what is left, until the test has seen it and kills this process.
        tokio::time::sleep(2 * PATIENCE).await;
    });
}

/// Granted: the limit, by one process with any number of tasks.
#[test]
fn one_process_never_exceeds_a_window() {
    let Some(server) = Server::start() else { return };
    runtime(2).block_on(async {
        // The first cases are for tasks that ask for a new key at the same time.
        let first = [(1, 1); 40];
        let cases = first.into_iter().chain([(1_000, 1), (5_000, 100), (5_000, 5_000)]);
        for (case, (limit, unsent)) in cases.enumerate() {
            let store = server.store().prefix(format!("case{case}")).build().expect("a store");
            assert_eq!(exhaust(&batched(&store, limit, unsent)).await, limit, "{unsent} unsent");
        }
    });
}

/// Granted: the limit in each window of the server's time.
#[test]
fn windows_follow_each_other() {
    let Some(server) = Server::start() else { return };
    block_on(async {
        let store = server.store().build().expect("a store");
        let second = Duration::from_secs(1);
        let windows = Windows::aligned(&store, "turns", second).expect("a window");
        let batched = Batched::builder(windows.clone(), 100).build().expect("a limiter");
        // A busy machine may ask too few times in a window, so this is repeated before it fails.
        let mut rounds = Vec::new();
        while rounds.len() < 5 && rounds.last().is_none_or(|granted| *granted < 200) {
            let began = Instant::now();
            let mut granted = 0_u64;
            while began.elapsed() < 2 * second {
                let answer = batched.check(b"k").await.expect("an answer");
                granted += u64::from(answer.decision.is_ok());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            // Two seconds touch three windows, the first and the last maybe only for a moment.
            assert!(granted <= 100 * (began.elapsed().as_secs() + 2), "{granted}");
            rounds.push(granted);
        }
        assert!(rounds.last().is_some_and(|granted| *granted >= 200), "{rounds:?}");
        let asked = Instant::now();
        // The last window may have just ended, and its counter with it: one cell begins the next.
        let place = loop {
            add(&windows, 1).await.expect("an answer");
            let keys: Vec<String> =
                redis::cmd("KEYS").arg("*turns*").query(&mut server.admin()).expect("keys");
            match &*keys {
                [place] => break place.clone(),
                [] => assert!(asked.elapsed() < PATIENCE, "there is no counter"),
                _ => panic!("{keys:?}"),
            }
        };
        assert_eq!(place, "{tollgate:turns:counts1000000+0:k}");
        let ends_in: i64 = redis::cmd("PTTL").arg(&place).query(&mut server.admin()).expect("it");
        assert!((-2..=1_001).contains(&ends_in) && ends_in != -1, "it ends: {ends_in}");
    });
}

/// Granted: the limit. A flush of scripts loses no count.
#[test]
fn a_flush_of_scripts_loses_no_count() {
    let Some(server) = Server::start() else { return };
    let store = server.store().build().expect("a store");
    let windows = windows(&store);
    for turn in 1..=3 {
        let mut flush = redis::cmd("SCRIPT");
        let _: () = flush.arg("FLUSH").query(&mut server.admin()).expect("it");
        let window = block_on(add(&windows, 7)).expect("an answer");
        assert_eq!(window.used, 7 * turn);
        assert!(window.ends_after <= HOUR);
    }
    assert_eq!((store.stats().scripts_sent, store.stats().failed), (3, 0));
}

/// Granted: nothing for a key that holds another type. The error names the problem.
#[test]
fn a_foreign_value_is_an_error() {
    let Some(server) = Server::start() else { return };
    let mut admin = server.admin();
    let store = server.store().build().expect("a store");
    let windows = windows(&store);
    let place = "{tollgate:batched:counts3600000000+first:k}";
    let mut failed_with = |command: &str, values: &[&str]| {
        let _: () = redis::cmd("DEL").arg(place).query(&mut admin).expect("it");
        let _: redis::Value =
            redis::cmd(command).arg(place).arg(values).query(&mut admin).expect("it");
        match block_on(add(&windows, 1)) {
            Err(Unavailable::Failed(text)) => text,
            other => panic!("{command} {values:?}: {other:?}"),
        }
    };
    assert!(failed_with("RPUSH", &["a"]).contains("WRONGTYPE"));
    assert!(failed_with("SET", &["5"]).contains("WRONGTYPE"));
    for (used, end) in [("x", "1"), ("-1", "1"), ("1.5", "1"), ("1", "nan"), ("1", "1e300")] {
        let text = failed_with("HSET", &["used", used, "end", end]);
        assert!(text.contains("delete the key"), "{used} {end}: {text}");
    }
    assert!(failed_with("HSET", &["used", "3"]).contains("delete the key"));
    assert_eq!(store.stats().circuit_opened, 0, "the server is well");
}

/// Granted: each cell of the good keys is counted once, before and behind a key that holds another
/// type, for as long as that key fails. Its own cells are counted once it is deleted.
#[test]
fn a_foreign_value_leaves_other_keys_counted_once() {
    let Some(server) = Server::start() else { return };
    let mut admin = server.admin();
    let store = server.store().build().expect("a store");
    let windows = windows(&store);
    let foreign = "{tollgate:batched:counts3600000000+first:foreign}";
    let _: () = redis::cmd("SET").arg(foreign).arg("x").query(&mut admin).expect("it");
    block_on(async {
        let batched = batched(&store, 1_000, 10);
        for key in [&b"before"[..], b"foreign", b"behind"] {
            assert!(batched.check(key).await.is_ok());
        }
        let began = Instant::now();
        while batched.stats().failed < 5 {
            assert!(began.elapsed() < PATIENCE, "{:?}", batched.stats());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let all = [charge(b"before", 0), charge(b"foreign", 0), charge(b"behind", 0)];
        let used = async || {
            let replies = windows.add(&all).await;
            replies.into_iter().map(|reply| reply.ok().map(|window| window.used)).collect()
        };
        let counts: Vec<_> = used().await;
        assert_eq!(counts, [Some(1), None, Some(1)], "{:?}", batched.stats());
        let _: () = redis::cmd("DEL").arg(foreign).query(&mut admin).expect("it");
        while batched.stats().cells < 3 {
            assert!(began.elapsed() < PATIENCE, "{:?}", batched.stats());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let counts: Vec<_> = used().await;
        assert_eq!(counts, [Some(1); 3]);
    });
    assert_eq!(store.stats().circuit_opened, 0, "the server is well");
}

/// Granted: each cell of the keys that the server's user may use is counted once, for as long as the user may
/// only read other keys of the same batch. Those keys' cells are counted once the user may write them.
#[test]
fn a_key_that_the_user_may_not_write_leaves_other_keys_counted_once() {
    let Some(server) = Server::start() else { return };
    let mut admin = server.admin();
    let mut allow = |rules: &[&str]| {
        let mut set = redis::cmd("ACL");
        set.arg("SETUSER").arg("clerk").arg(rules).query::<()>(&mut admin)
    };
    // Before Redis 7, a user may write what it may read.
    let rules = ["on", "nopass", "+@all", "~{tollgate:batched:*:open*}"];
    if allow(&rules).and_then(|()| allow(&["%R~*"])).is_err() {
        skipped("the server has no users that may read a key and not write it");
        return;
    }
    let url = format!("redis://clerk:x@127.0.0.1:{}", server.port());
    let store = with_long_deadline(Store::builder(url)).build().expect("a store");
    let windows = windows(&store);
    block_on(async {
        let batched = batched(&store, 1_000, 10);
        let keys = |name| (0..20).map(move |nth| format!("{name}{nth}").into_bytes());
        let began = Instant::now();
        let mut rounds = 0;
        while batched.stats().cells < 20 * 10 {
            assert!(began.elapsed() < PATIENCE, "{:?}", batched.stats());
            if rounds < 10 {
                rounds += 1;
                for key in keys("open").chain(keys("closed")) {
                    let _ = batched.check(&key).await;
                }
            }
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        let used = async |name| {
            let all: Vec<_> = keys(name).map(|key| charge(&key, 0)).collect();
            let replies = windows.add(&all).await.into_iter();
            replies.map(|reply| reply.ok().map(|window| window.used)).collect::<Vec<_>>()
        };
        assert_eq!(used("open").await, [Some(10); 20], "{:?}", batched.stats());
        assert_eq!(used("closed").await, [None; 20]);
        allow(&["~*"]).expect("it");
        while batched.stats().cells < 2 * 20 * 10 {
            assert!(began.elapsed() < PATIENCE, "{:?}", batched.stats());
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        assert_eq!(used("closed").await, [Some(10); 20]);
    });
    assert_eq!(store.stats().circuit_opened, 0, "the server is well");
}

/// A store whose user has these rights besides all those of a key.
fn store_of_clerk(server: &Server, rules: &[&str]) -> Option<Store> {
    let mut set = redis::cmd("ACL");
    set.arg("SETUSER").arg("clerk").arg(&["on", "nopass", "+@all", "~*"]).arg(rules);
    if set.query::<()>(&mut server.admin()).is_err() {
        skipped("the server has no users with such rights");
        return None;
    }
    let url = format!("redis://clerk:x@127.0.0.1:{}", server.port());
    Some(with_long_deadline(Store::builder(url)).build().expect("a store"))
}

/// Granted: each cell is counted once, and none while the server's user may not set an expiry, however often
/// the counts are sent. No counter stays without an end.
#[test]
fn cells_are_counted_once_if_the_user_may_not_set_an_expiry() {
    let Some(server) = Server::start() else { return };
    let Some(store) = store_of_clerk(&server, &["-pexpire"]) else { return };
    let admin = windows(&server.store().build().expect("a store"));
    let old = [charge(b"old", 3)];
    assert!(block_on(admin.add(&old))[0].is_ok());
    block_on(async {
        let batched = batched(&store, 1_000, 10);
        assert!(batched.check(b"old").await.is_ok() && batched.check(b"new").await.is_ok());
        let began = Instant::now();
        while batched.stats().failed < 5 {
            assert!(began.elapsed() < PATIENCE, "{:?}", batched.stats());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let why = add(&windows(&store), 1).await.expect_err("no right").to_string();
        assert!(why.contains("can't run this command") || why.contains("NOPERM"), "{why}");
        let all = [charge(b"old", 0), charge(b"new", 0)];
        let used = async || {
            let replies = admin.add(&all).await.into_iter();
            replies.map(|reply| reply.ok().map(|window| window.used)).collect::<Vec<_>>()
        };
        assert_eq!(used().await, [Some(3), Some(0)], "{:?}", batched.stats());
        let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.admin()).expect("it");
        assert_eq!(keys, ["{tollgate:batched:counts3600000000+first:old}"]);
        let _ = store_of_clerk(&server, &["+pexpire"]);
        while batched.stats().cells < 2 {
            assert!(began.elapsed() < PATIENCE, "{:?}", batched.stats());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(used().await, [Some(4), Some(1)], "{:?}", batched.stats());
    });
}

/// Granted: each cell of the keys whose expiry the user may set is counted once, beside a key whose expiry it
/// may not set.
#[test]
fn a_key_whose_expiry_the_user_may_not_set_leaves_other_keys_counted_once() {
    let Some(server) = Server::start() else { return };
    // Rights that depend on the key: Redis 7.
    let open = "(+@all ~*open*)";
    let Some(store) = store_of_clerk(&server, &["-pexpire", open]) else { return };
    block_on(async {
        let batched = batched(&store, 1_000, 10);
        for key in [&b"closed"[..], b"open", b"closed too", b"open too"] {
            assert!(batched.check(key).await.is_ok());
        }
        let began = Instant::now();
        while batched.stats().failed < 5 {
            assert!(began.elapsed() < PATIENCE, "{:?}", batched.stats());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let admin = windows(&server.store().build().expect("a store"));
        let all = [&b"closed"[..], b"open", b"closed too", b"open too"].map(|key| charge(key, 0));
        let replies = admin.add(&all).await.into_iter();
        let used: Vec<_> = replies.map(|reply| reply.ok().map(|window| window.used)).collect();
        assert_eq!(used, [Some(0), Some(1), Some(0), Some(1)], "{:?}", batched.stats());
    });
}

/// Granted: nothing by a server that writes nothing. The error is the server's, so connections to a replica are
/// renewed.
#[test]
fn the_error_of_a_server_that_cannot_write_is_its_own() {
    let Some(server) = Server::start_with(&["--maxmemory-policy", "noeviction"]) else { return };
    let mut admin = server.admin();
    let store = server.store().build().expect("a store");
    let windows = windows(&store);
    let failed_with = || {
        let both = [charge(b"a", 1), charge(b"b", 1)];
        let replies = block_on(windows.add(&both));
        let texts: Vec<_> =
            replies.into_iter().map(|it| it.expect_err("none").to_string()).collect();
        assert_eq!(texts[0], texts[1]);
        texts[0].clone()
    };
    let mut maxmemory = |bytes: u32| {
        let mut set = redis::cmd("CONFIG");
        let _: () = set.arg("SET").arg("maxmemory").arg(bytes).query(&mut admin).expect("it");
    };
    maxmemory(1);
    assert!(failed_with().contains("OOM"), "{}", failed_with());
    maxmemory(0);
    let mut replicate = redis::cmd("REPLICAOF");
    let _: () = replicate.arg("127.0.0.1").arg("1").query(&mut server.admin()).expect("it");
    assert!(failed_with().contains("read only replica"), "{}", failed_with());
    assert!(store.stats().connections_renewed >= 1, "{:?}", store.stats());
}

/// Granted: nothing more. A counter that lost its expiry gets one.
#[test]
fn a_counter_without_an_end_is_given_one() {
    let Some(server) = Server::start() else { return };
    let mut admin = server.admin();
    let store = server.store().build().expect("a store");
    let windows = windows(&store);
    let place = "{tollgate:batched:counts3600000000+first:k}";
    block_on(add(&windows, 1)).expect("an answer");
    let _: () = redis::cmd("PERSIST").arg(place).query(&mut admin).expect("it");
    block_on(add(&windows, 1)).expect("an answer");
    let ends_in: i64 = redis::cmd("PTTL").arg(place).query(&mut admin).expect("a number");
    assert!((1..=3_600_001).contains(&ends_in), "{ends_in}");
}

/// Granted: as many cells as may be unsent while the server is away. Then the fallback decides.
/// Admitted cells are sent when the server is back.
#[test]
fn without_a_server_only_max_unsent_is_admitted() {
    let Some(server) = Server::start() else { return };
    runtime(2).block_on(async {
        let store = server.store().deadline(Duration::from_secs(2)).open_after(2);
        let store = store.probe_every(Duration::from_millis(100)).build().expect("a store");
        let batched = batched(&store, 1_000, 10);
        let gate = WithFallback::new(batched.clone(), Fallback::Deny);
        for _ in 0..40 {
            assert!(gate.check(b"k").await.decision.is_ok());
        }
        let began = Instant::now();
        while batched.stats().cells < 40 {
            assert!(began.elapsed() < PATIENCE, "{:?}", batched.stats());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        // The task learns of the last answer.
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.signal("STOP");
        let mut admitted = 0;
        for _ in 0..100 {
            let answer = gate.check(b"k").await;
            admitted += u64::from(answer.decision.is_ok());
            assert!(answer.decision.is_ok() || answer.origin == Origin::Fallback);
        }
        assert_eq!(admitted, 10, "max_unsent");
        server.signal("CONT");
        let windows = windows(&store);
        let used = async || add(&windows, 0).await.map_or(0, |window| window.used);
        let began = Instant::now();
        while used().await < 50 {
            assert!(began.elapsed() < PATIENCE, "the server is back, but has not all cells");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        // A cell that is sent twice would follow.
        tokio::time::sleep(Duration::from_millis(500)).await;
        let used = used().await;
        // A call that timed out may have been counted, and was sent again.
        let again = store.stats().timed_out * 10;
        assert!((50..=50 + again).contains(&used), "{used}, {again}");
    });
}

/// Granted: as many cells as may be unsent. Then the fallback decides by the deadline, however long
/// counts are gathered.
#[test]
fn without_a_server_no_request_waits_for_the_interval() {
    let store = with_long_deadline(Store::builder(format!("redis://127.0.0.1:{}", free_port())));
    let store = store.build().expect("a store");
    block_on(async {
        let batched = Batched::builder(windows(&store), 1_000).max_unsent(5);
        let batched = batched.interval(2 * PATIENCE).build().expect("a limiter");
        let gate = WithFallback::new(batched, Fallback::Deny);
        let began = Instant::now();
        for nth in 0..20 {
            assert_eq!(gate.check(b"k").await.decision.is_ok(), nth < 5);
        }
        assert!(began.elapsed() < PATIENCE, "{:?}", began.elapsed());
    });
}
