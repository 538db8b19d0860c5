//! A reverse proxy with the rules of a file, which may change while it runs.
//!
//! ```sh
//! cargo run --release --example proxy -- 127.0.0.1:8080 127.0.0.1:8000 ../../rules/example.toml
//! ```

use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use async_trait::async_trait;
use pingora_core::Result;
use pingora_core::server::Server;
use pingora_core::upstreams::peer::HttpPeer;
use pingora_http::ResponseHeader;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};
use tollgate_pingora::tollgate_rules::{ReloadError, Rule, RulesFile};
use tollgate_pingora::{ResponseFields, RulesFilter};

const POLL_INTERVAL: Duration = Duration::from_secs(1);

struct Proxy {
    upstream: SocketAddr,
    limits: RulesFilter,
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = ResponseFields;

    fn new_ctx(&self) -> ResponseFields {
        ResponseFields::default()
    }

    async fn request_filter(
        &self,
        session: &mut Session,
        ctx: &mut ResponseFields,
    ) -> Result<bool> {
        self.limits.request_filter(session, ctx).await
    }

    async fn response_filter(
        &self,
        _: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut ResponseFields,
    ) -> Result<()> {
        ctx.add_to(response)
    }

    async fn upstream_peer(
        &self,
        _: &mut Session,
        _: &mut ResponseFields,
    ) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new(self.upstream, false, String::new())))
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, upstream, rules] = &arguments[..] else {
        eprintln!(
            "usage: proxy LISTEN UPSTREAM RULES\nas in: proxy 127.0.0.1:8080 127.0.0.1:8000 rules.toml"
        );
        return ExitCode::from(2);
    };
    match serve(listen, upstream, rules) {
        Ok(server) => server.run_forever(),
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(listen: &str, upstream: &str, rules: &str) -> Result<Server, String> {
    let listen: SocketAddr =
        listen.parse().map_err(|_| format!("`{listen}` is no address such as 127.0.0.1:8080"))?;
    let found = upstream.to_socket_addrs().map_err(|error| format!("`{upstream}`: {error}"))?;
    let upstream =
        found.into_iter().next().ok_or_else(|| format!("`{upstream}` has no address"))?;
    let file = RulesFile::open(rules).map_err(|error| match error {
        ReloadError::Rules(wrong) => wrong.with_source(),
        other => other.to_string(),
    })?;
    check_rules(file.live().load().rules())?;
    let proxy = Proxy { upstream, limits: RulesFilter::live(file.live()) };
    std::thread::spawn(move || follow(file));

    let mut server = Server::new(None).map_err(|error| error.to_string())?;
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, proxy);
    service.add_tcp(&listen.to_string());
    server.add_service(service);
    println!("listening on http://{listen}");
    Ok(server)
}

/// Rejects a rule that this filter does not enforce: it asks no server, and sees no bodies.
fn check_rules<'r>(rules: impl Iterator<Item = &'r Rule>) -> Result<(), String> {
    for rule in rules {
        for (key, is_there) in
            [("store", rule.store().is_some()), ("bytes", rule.bytes().is_some())]
        {
            if is_there {
                let name = rule.name();
                return Err(format!(
                    "the rule \"{name}\" has \"{key}\", which this filter does not support"
                ));
            }
        }
    }
    Ok(())
}

/// Reads the rules again whenever they have changed. An error may come back every second, and is printed once.
fn follow(mut file: RulesFile) {
    let mut last_error = String::new();
    loop {
        std::thread::sleep(POLL_INTERVAL);
        match file.poll_if(|rules| check_rules(rules.rules().iter())) {
            Ok(None) => {}
            Ok(Some(summary)) => {
                last_error.clear();
                eprintln!("rules reloaded: {summary}");
            }
            Err(error) => {
                let error = error.to_string();
                if error != last_error {
                    eprintln!("the old rules stay in force: {error}");
                    last_error = error;
                }
            }
        }
    }
}
