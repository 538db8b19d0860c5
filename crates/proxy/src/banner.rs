//! The text that the proxy prints when it starts.

use std::fmt;
use std::net::SocketAddr;

use crate::config::Config;
use crate::rules::RulesGate;
use crate::upstream::Upstream;

/// The configuration, and commands to try.
pub(crate) struct Banner<'a> {
    pub(crate) config: &'a Config,
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) upstream: &'a Upstream,
    pub(crate) gate: &'a RulesGate,
}

impl fmt::Display for Banner<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, listen, admin, upstream, gate } = self;
        writeln!(f, "tollgate proxy")?;
        writeln!(f, "  listen    http://{listen} (HTTP/1.1 and HTTP/2)")?;
        match config.upstream {
            Some(_) => writeln!(f, "  upstream  {upstream}")?,
            None => writeln!(f, "  upstream  {upstream}, built in: it echoes requests")?,
        }
        let count = gate.read(|gate| match gate.rules().count() {
            1 => "1 rule".to_owned(),
            count => format!("{count} rules"),
        });
        match &config.rules {
            Some(file) => writeln!(
                f,
                "  rules     {count} of {}, checked every second and on SIGHUP",
                file.display()
            )?,
            None => {
                writeln!(f, "  rules     {count}, built in; use --rules FILE for yours")?;
                self.list_rules(f)?;
            }
        }
        let clients = match (&config.trusted_proxies, config.trusted_hops) {
            (Some(_), _) => "named by trusted proxies in X-Forwarded-For".to_owned(),
            (_, Some(hops)) => format!("X-Forwarded-For, over {hops} trusted hops"),
            (None, None) => "the peer of the connection; X-Forwarded-For is not trusted".into(),
        };
        writeln!(f, "  clients   {clients}")?;
        writeln!(f, "  metrics   http://{admin}/metrics\n\nTry:")?;
        writeln!(f, "  curl -i http://{listen}/")?;
        if config.rules.is_none() {
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
