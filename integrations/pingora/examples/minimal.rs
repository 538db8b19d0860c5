//! A reverse proxy with the rules of a file, in as few lines as it takes.

use async_trait::async_trait;
use pingora_core::{Result, server::Server, upstreams::peer::HttpPeer};
use pingora_http::ResponseHeader;
use pingora_proxy::{ProxyHttp, Session, http_proxy_service};
use tollgate_pingora::{ResponseFields, RulesFile, RulesFilter};

struct Proxy {
    limits: RulesFilter,
}

#[derive(Default)]
struct Context {
    limits: ResponseFields,
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = Context;

    fn new_ctx(&self) -> Context {
        Context::default()
    }

    async fn request_filter(&self, session: &mut Session, ctx: &mut Context) -> Result<bool> {
        self.limits.request_filter(session, &mut ctx.limits).await
    }

    async fn response_filter(
        &self,
        _: &mut Session,
        response: &mut ResponseHeader,
        ctx: &mut Context,
    ) -> Result<()> {
        ctx.limits.add_to(response)
    }

    async fn upstream_peer(&self, _: &mut Session, _: &mut Context) -> Result<Box<HttpPeer>> {
        Ok(Box::new(HttpPeer::new("127.0.0.1:8000", false, String::new())))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limits = RulesFilter::live(RulesFile::open("rules.toml")?.live());

    let mut server = Server::new(None)?;
    server.bootstrap();
    let mut service = http_proxy_service(&server.configuration, Proxy { limits });
    service.add_tcp("127.0.0.1:8080");
    server.add_service(service);
    server.run_forever();
}
