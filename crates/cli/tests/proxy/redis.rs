//! A Redis server for one test, on a free port. It ends with the test.

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use crate::support::{eventually, free_port, skipped};

const BINARY: &str = "redis-server";

pub(crate) struct Redis {
    port: u16,
    process: Option<Child>,
}

impl Redis {
    /// A server without persistence; `None` if there is no binary and none is required.
    pub(crate) fn start() -> Option<Self> {
        if Command::new(BINARY).arg("--version").stdout(Stdio::null()).status().is_err() {
            let advice = "there is no redis-server: apt-get install redis-server";
            let required = ["CI", "TOLLGATE_REQUIRE_REDIS"];
            assert!(required.iter().all(|name| std::env::var_os(name).is_none()), "{advice}");
            skipped(advice);
            return None;
        }
        let mut redis = Self { port: free_port(), process: None };
        redis.run();
        Some(redis)
    }

    /// Starts the server, without its previous data.
    pub(crate) fn run(&mut self) {
        let process = Command::new(BINARY)
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--dir", env!("CARGO_TARGET_TMPDIR")])
            .stdout(Stdio::null())
            .spawn();
        let process = self.process.insert(process.expect("there is a binary"));
        eventually("redis-server listens", || {
            let ended = process.try_wait().expect("it is a child");
            assert!(ended.is_none(), "redis-server ended: {ended:?}");
            TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.kill();
    }
}
