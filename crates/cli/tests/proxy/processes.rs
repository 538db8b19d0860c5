//! Proxies of one machine that share the limits of a file, as processes that are started, killed and restarted.
#![cfg(target_os = "linux")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::{PATIENCE, Proxy, eventually, get, scratch};

/// A name of shared limits that no other test has. Its folder is removed when this is dropped.
struct Name(String);

impl Name {
    fn new(test: &str) -> Self {
        Self(format!("proxy-test-{}-{test}", std::process::id()))
    }

    /// A rules file with this limit.
    fn file(&self, limit: &str) -> PathBuf {
        let text = format!("shared = \"{}\"\n[[rule]]\nname = \"all\"\n{limit}\n", self.0);
        scratch("shared.toml", &text)
    }

    fn proxy(&self, number: u32, limit: &str) -> Proxy {
        let file = self.file(limit);
        Proxy::start(&format!("shared-{number}"), &["--rules", file.to_str().expect("UTF-8")])
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(format!("/dev/shm/tollgate-{}", self.0));
    }
}

const THREADS: usize = 8;
const WINDOW: &str = "algorithm = \"fixed-window\"\nlimits = \"100/day\"";

/// The status of a request; `None`: the proxy is gone.
fn status(address: SocketAddr) -> Option<u16> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: test.example\r\nconnection: close\r\n\r\n").ok()?;
    let mut head = [0; 12];
    stream.read_exact(&mut head).ok()?;
    std::str::from_utf8(&head[9..]).ok()?.parse().ok()
}

/// How many requests were admitted, denied, and not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count {
    admitted: usize,
    denied: usize,
    lost: usize,
}

/// Sends so many requests from several threads, by turns to each of the addresses.
fn send_all(addresses: &[SocketAddr], requests: usize) -> Count {
    let [admitted, denied, lost] = [const { AtomicUsize::new(0) }; 3];
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= requests {
                        break;
                    }
                    let counter = match status(addresses[number % addresses.len()]) {
                        Some(200) => &admitted,
                        Some(429) => &denied,
                        None => &lost,
                        Some(other) => panic!("status {other}"),
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let [admitted, denied, lost] = [admitted, denied, lost].map(AtomicUsize::into_inner);
    Count { admitted, denied, lost }
}

#[test]
fn two_proxies_admit_exactly_the_quota_in_all() {
    for (test, limit) in [("window", WINDOW), ("bucket", "limits = \"100/day\"")] {
        let name = Name::new(test);
        let (one, other) = (name.proxy(1, limit), name.proxy(2, limit));
        let count = send_all(&[one.listen, other.listen], 400);
        assert_eq!(count, Count { admitted: 100, denied: 300, lost: 0 }, "{test}");
    }
}

#[test]
fn a_proxy_that_is_killed_between_requests_loses_nothing_and_its_successor_sees_all() {
    let name = Name::new("kill");
    let (one, other) = (name.proxy(1, WINDOW), name.proxy(2, WINDOW));
    let before = send_all(&[one.listen, other.listen], 60);
    assert_eq!(before, Count { admitted: 60, denied: 0, lost: 0 });
    one.signal("KILL");
    drop(one);
    let alone = send_all(&[other.listen], 20);
    assert_eq!(alone, Count { admitted: 20, denied: 0, lost: 0 });
    let restarted = name.proxy(3, WINDOW);
    let after = send_all(&[restarted.listen, other.listen], 200);
    assert_eq!(after, Count { admitted: 20, denied: 180, lost: 0 });
    // The limits outlive all their processes.
    drop((restarted, other));
    assert_eq!(status(name.proxy(4, WINDOW).listen), Some(429));
}

#[test]
fn a_proxy_that_is_killed_in_the_middle_of_requests_grants_nothing() {
    // On a busy machine, the kill may come when the quota is used. Then it is tried again.
    let is_in_time = (0..5).any(|turn| kill_amid_requests(&Name::new(&format!("amid-{turn}"))));
    assert!(is_in_time, "none of five was killed while some of the quota was left");
}

/// Kills one of two proxies while clients send them requests, and checks what they admit in all. Returns whether
/// some of the quota was left then.
fn kill_amid_requests(name: &Name) -> bool {
    const QUOTA: usize = 400;
    let limit = format!("algorithm = \"fixed-window\"\nlimits = \"{QUOTA}/day\"");
    let (one, other) = (name.proxy(1, &limit), name.proxy(2, &limit));
    let addresses = [one.listen, other.listen];
    let admitted = |proxy: &Proxy| -> usize {
        let count = proxy.metric("tollgate_decisions_total{decision=\"admitted\"}");
        count.to_string().parse().expect("whole")
    };
    let (of_other, count) = std::thread::scope(|scope| {
        let sender = scope.spawn(|| send_all(&addresses, 2 * QUOTA));
        eventually("it has admitted some", || admitted(&one) >= 10);
        one.signal("KILL");
        (admitted(&other), sender.join().expect("counted"))
    });
    // Each thread had a request in flight at most, which may have been charged. The others were answered, or not
    // sent.
    assert!((QUOTA - THREADS..=QUOTA).contains(&count.admitted), "{count:?}");
    assert_eq!(count.admitted + count.denied + count.lost, 2 * QUOTA);
    assert_eq!(status(other.listen), Some(429), "nothing is left");
    assert_eq!(status(name.proxy(3, &limit).listen), Some(429));
    // The one that was killed had admitted as many as the other, but for those in flight.
    count.lost > 0 && 2 * of_other + 2 * THREADS < QUOTA
}

#[test]
fn an_edited_quota_is_seen_by_both() {
    let name = Name::new("edit");
    let limit = |quota: u32| format!("limits = \"{quota}/day\"");
    let (one, other) = (name.proxy(1, &limit(3)), name.proxy(2, &limit(3)));
    let statuses = |count: usize| -> Vec<u16> {
        let turns = [one.listen, other.listen].into_iter().cycle().take(count);
        turns.map(|address| get(address, "/", "").status).collect()
    };
    assert_eq!(statuses(4), [200, 200, 200, 429]);
    name.file(&limit(7));
    let has_reloaded = |proxy: &Proxy| proxy.metric("tollgate_rules_reloads_total") >= 1.0;
    eventually("both have reloaded", || has_reloaded(&one) && has_reloaded(&other));
    assert_eq!(statuses(6), [200, 200, 200, 200, 429, 429]);
    for proxy in [&one, &other] {
        assert!(!proxy.stderr().contains("starts afresh"), "{}", proxy.stderr());
    }
}

#[test]
fn a_proxy_that_does_not_start_changes_no_shared_quota() {
    let name = Name::new("unstarted");
    let running = name.proxy(1, "limits = \"3/day\"");
    let statuses = || [(); 2].map(|()| get(running.listen, "/", "").status);
    assert_eq!(statuses(), [200, 200]);
    let larger =
        format!("shared = \"{}\"\n[[rule]]\nname = \"all\"\nlimits = \"100/day\"\n", name.0);
    let no_store = "[[rule]]\nname = \"other\"\nalgorithm = \"fixed-window\"\n\
                    limits = [{ name = \"odd\", quota = \"5/1500ns\" }]\nstore = \"redis://localhost\"\n";
    for (listen, rules, why, left) in [
        (running.listen.to_string(), larger.clone(), "cannot listen on", [200, 429]),
        (
            "127.0.0.1:0".to_owned(),
            larger + no_store,
            "rule \"other\": limit \"odd\" in store",
            [429, 429],
        ),
    ] {
        let file = scratch("unstarted.toml", &rules);
        let output = Command::new(env!("CARGO_BIN_EXE_tollgate"))
            .args(["proxy", "--listen", &listen, "--admin", "127.0.0.1:0", "--rules"])
            .arg(file)
            .output()
            .expect("the binary runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && stderr.contains(why), "{stderr}");
        assert_eq!(statuses(), left, "{why}");
    }
}
