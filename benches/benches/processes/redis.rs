//! A Redis server on this machine, and a client that runs one script a call, without pipelining.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A token bucket: the theoretical arrival time in microseconds, by the server's clock.
const SCRIPT: &str = "local t = redis.call('TIME') \
    local now = t[1] * 1000000 + t[2] \
    local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now) + ARGV[1] \
    if tat - now > tonumber(ARGV[2]) then return 0 end \
    redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000)) \
    return 1";

/// A server without persistence, which ends with this value.
pub(crate) struct Server {
    process: Child,
    pub(crate) port: u16,
}

impl Server {
    /// `None`: there is no `redis-server` here.
    pub(crate) fn start() -> Option<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).ok()?.local_addr().ok()?.port();
        let words = format!("--port {port} --bind 127.0.0.1 --appendonly no --daemonize no --save");
        let process = Command::new("redis-server")
            .args(words.split(' '))
            .arg("")
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let server = Self { process, port };
        for _ in 0..200 {
            if Client::new(port, (1, 1)).is_ok() {
                return Some(server);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        None
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A connection, with the script loaded.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    digest: String,
    cell: String,
    capacity: String,
    line: String,
}

impl Client {
    /// Decides by a limit of cells in so many seconds.
    pub(crate) fn new(port: u16, (cells, seconds): (u32, u32)) -> io::Result<Self> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_nodelay(true)?;
        let (period, cells) = (u64::from(seconds) * 1_000_000, u64::from(cells));
        let mut client = Self {
            stream: BufReader::new(stream),
            digest: String::new(),
            cell: (period / cells).to_string(),
            capacity: period.to_string(),
            line: String::new(),
        };
        client.send(&["SCRIPT", "LOAD", SCRIPT])?;
        // A length, and then the digest.
        client.reply()?;
        client.digest = client.reply()?.to_owned();
        Ok(client)
    }

    fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut text = format!("*{}\r\n", words.len());
        for word in words {
            text.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.get_mut().write_all(text.as_bytes())
    }

    fn reply(&mut self) -> io::Result<&str> {
        self.line.clear();
        match self.stream.read_line(&mut self.line)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(self.line.trim_end()),
        }
    }

    /// Asks for a cell.
    pub(crate) fn check(&mut self, key: u64) -> bool {
        let (digest, cell, capacity) =
            (self.digest.clone(), self.cell.clone(), self.capacity.clone());
        let words = ["EVALSHA", &digest, "1", &format!("{key:016x}"), &cell, &capacity];
        self.send(&words).expect("a server");
        match self.reply().expect("a server") {
            ":1" => true,
            ":0" => false,
            other => panic!("the server says {other}"),
        }
    }
}
