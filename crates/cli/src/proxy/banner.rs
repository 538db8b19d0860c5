//! What the proxy says when it starts.

use std::fmt;
use std::net::SocketAddr;

use super::rules::RulesGate;
use super::upstream::Upstream;
use crate::args::ProxyArgs;
use crate::report::words::counted;

/// What it does, and what to try.
pub(super) struct Banner<'a> {
    pub(super) args: &'a ProxyArgs,
    pub(super) listen: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) upstream: &'a Upstream,
    pub(super) gate: &'a RulesGate,
}

impl fmt::Display for Banner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { args, listen, admin, upstream, gate } = self;
        writeln!(f, "tollgate proxy")?;
        writeln!(f, "  listen    http://{listen} (HTTP/1.1 and HTTP/2)")?;
        match args.upstream {
            Some(_) => writeln!(f, "  upstream  {upstream}")?,
            None => writeln!(f, "  upstream  {upstream}, built in: it answers what it was sent")?,
        }
        let count = gate.read(|gate| counted(gate.rules().count() as u64, "rule", "rules"));
        match &args.rules {
            Some(file) => writeln!(
                f,
                "  rules     {count} of {}, looked at every second and on SIGHUP",
                file.display()
            )?,
            None => {
                writeln!(f, "  rules     {count}, built in; --rules FILE takes yours")?;
                self.list_rules(f)?;
            }
        }
        let clients = match (&args.trusted_proxies, args.trusted_hops) {
            (Some(_), _) => "whom the trusted proxies name in X-Forwarded-For".to_owned(),
            (_, Some(hops)) => format!("X-Forwarded-For, over {hops} trusted hops"),
            (None, None) => {
                "the other end of the connection; X-Forwarded-For is not believed".into()
            }
        };
        writeln!(f, "  clients   {clients}")?;
        writeln!(f, "  metrics   http://{admin}/metrics\n\nTry:")?;
        writeln!(f, "  curl -i http://{listen}/")?;
        if args.rules.is_none() {
            writeln!(
                f,
                "  curl -s -o /dev/null -w '%{{http_code}} ' 'http://{listen}/?[1-20]'\n  curl -i \
                 -X POST -H 'x-user: ada' 'http://{listen}/posts/[1-3]'\n  curl -s \
                 'http://{listen}/reports/[1-4]'"
            )?;
        }
        writeln!(f, "  curl -s http://{admin}/metrics | grep -v '^#'\n")
    }
}

impl Banner<'_> {
    fn list_rules(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.gate.read(|gate| {
            for rule in gate.rules() {
                for limit in rule.limits() {
                    writeln!(f, "            {}: {}", rule.name(), limit.explain())?;
                }
            }
            Ok(())
        })
    }
}
