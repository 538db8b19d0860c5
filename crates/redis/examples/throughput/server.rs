//! The server that all strategies use.

use std::error::Error;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A server, ended with this program if it started it.
pub(crate) struct Server {
    pub(crate) url: String,
    process: Option<Child>,
}

impl Server {
    pub(crate) fn of_the_environment_or_new() -> Result<Self, Box<dyn Error>> {
        if let Ok(url) = std::env::var("REDIS_URL") {
            return Ok(Self { url, process: None });
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--appendonly", "no"])
            .args(
                std::env::var_os("REDIS_CELL")
                    .iter()
                    .flat_map(|path| ["--loadmodule".as_ref(), path.as_os_str()]),
            )
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| {
                format!("redis-server does not start ({error}): install it, or set REDIS_URL")
            })?;
        let server = Self { url: format!("redis://127.0.0.1:{port}"), process: Some(process) };
        for _ in 0..1_000 {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err("redis-server does not answer: run it by hand to see why, or set REDIS_URL".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
