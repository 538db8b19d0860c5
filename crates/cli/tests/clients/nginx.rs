//! A real nginx, in its own folder and on a free port.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::support::{eventually, free_port};

/// A running nginx. Dropping it stops the server.
pub(crate) struct Nginx {
    child: Child,
    folder: PathBuf,
    pub(crate) address: SocketAddr,
}

impl Nginx {
    /// Answers `/` with a short text, and all other paths with files of its folder.
    pub(crate) fn start(name: &str) -> Self {
        Self::with(name, "", |_| {})
    }

    /// Starts nginx with these parameters after `listen ADDRESS`; `prepare` fills its folder.
    pub(crate) fn with(name: &str, words: &str, prepare: impl FnOnce(&std::path::Path)) -> Self {
        let hello = "location = / { return 200 'hello from nginx\\n'; }";
        Self::configured(name, "", words, hello, prepare)
    }

    /// Forwards all requests to this server, over kept connections.
    pub(crate) fn before(name: &str, upstream: SocketAddr) -> Self {
        let servers = format!("upstream behind {{ server {upstream}; keepalive 16; }}");
        // nginx logs each kept connection that it finds closed.
        let pass = "error_log error.log; location / { proxy_pass http://behind; proxy_http_version 1.1; \
                    proxy_set_header Connection ''; }";
        Self::configured(name, &servers, "", pass, |_| {})
    }

    /// Forwards requests, at most `limit` at a time of each value of the field `X-Key`, and denies the
    /// others with 503.
    pub(crate) fn limiting_connections(name: &str, limit: u64, upstream: SocketAddr) -> Self {
        let zone = "limit_conn_zone $http_x_key zone=in_flight:1m;";
        let pass = format!(
            "error_log error.log; location / {{ limit_conn in_flight {limit}; proxy_pass http://{upstream}; }}"
        );
        Self::configured(name, zone, "", &pass, |_| {})
    }

    fn configured(
        name: &str,
        servers: &str,
        words: &str,
        locations: &str,
        prepare: impl FnOnce(&std::path::Path),
    ) -> Self {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("nginx-{name}"));
        // Left over from a run that was killed.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(folder.join("files")).expect("a place for scratch files");
        prepare(&folder);
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let file = folder.join("nginx.conf");
        let text = configuration(address, servers, words, locations);
        std::fs::write(&file, text).expect("written");
        let path = format!("{}:/usr/sbin", std::env::var("PATH").unwrap_or_default());
        let child = Command::new("nginx")
            .env("PATH", path)
            .arg("-p")
            .arg(&folder)
            .arg("-c")
            .arg(&file)
            .args(["-e", "stderr"])
            .stdin(Stdio::null())
            .spawn()
            .expect("nginx starts");
        let mut nginx = Self { child, folder, address };
        eventually("nginx listens", || {
            let ended = nginx.child.try_wait().expect("it is a child");
            assert!(ended.is_none(), "nginx ended: {ended:?}");
            TcpStream::connect(address).is_ok()
        });
        nginx
    }

    /// `version status` of each answered request, once there are `count` or more. nginx writes a line
    /// after it has sent the answer.
    pub(crate) fn log(&self, count: usize) -> Vec<String> {
        let mut lines = Vec::new();
        eventually("nginx has logged all answers", || {
            let log = std::fs::read_to_string(self.folder.join("access.log")).expect("readable");
            // A line whose end is not written yet does not count.
            let complete = log.rsplit_once('\n').map_or("", |(complete, _)| complete);
            lines = complete.lines().map(str::to_owned).collect();
            lines.len() >= count
        });
        lines
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// One process, so that killing it leaves nothing behind; and no files outside its folder.
fn configuration(address: SocketAddr, servers: &str, words: &str, locations: &str) -> String {
    format!(
        "daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr error;\n\
         events {{ worker_connections 512; }}\n\
         http {{\n\
         log_format short '$server_protocol $status';\n\
         access_log access.log short;\n\
         client_body_temp_path body;\nproxy_temp_path proxy;\nfastcgi_temp_path fastcgi;\n\
         uwsgi_temp_path uwsgi;\nscgi_temp_path scgi;\n\
         keepalive_requests 1000000;\n\
         {servers}\n\
         server {{\n\
         listen {address} {words};\n\
         root files;\n\
         {locations}\n\
         }}\n}}\n"
    )
}
