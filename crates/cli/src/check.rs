//! `tollgate check`: a rules file in plain words, or everything that is wrong with it.

use std::fmt::Write;
use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use http::Uri;
use tollgate_rules::{Apply, Request, Rules, RulesLimiter};

use crate::args::CheckArgs;
use crate::report::words::counted;

/// Explains the rules of the file, or how they decide about a request. The error lists all mistakes of the
/// file.
pub(crate) fn explained(args: &CheckArgs) -> Result<Result<String, String>> {
    let file = &args.file;
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    let rules = match Rules::parse(file, &text) {
        Ok(rules) => rules,
        Err(wrong) => {
            let count = wrong.errors().len() as u64;
            let summary = counted(count, "mistake", "mistakes");
            return Ok(Err(format!("{}\n{file}: {summary}\n", wrong.with_source())));
        }
    };
    if let Some(request) = &args.explain {
        let asked = Asked::parse(request, &args.headers)?;
        let said = rules.explain_request(&asked.facts(args.client));
        return Ok(Ok(format!("{file}: {request}\n\n{said}")));
    }
    let apply = match rules.apply() {
        Apply::All => "all that match a request must admit it",
        Apply::First => "of those that match a request, the first decides (rules in shadow apart)",
    };
    let count = counted(rules.rules().len() as u64, "rule", "rules");
    let mut report = format!("{file}: {count}; {apply}\n");
    let paths = rules.explain_paths();
    // Reserved, but not touched, it takes no memory.
    let gate = match RulesLimiter::new(rules) {
        Ok(gate) => gate,
        Err(failed) => return Ok(Err(format!("error: {failed}\n"))),
    };
    for (rule, bytes) in gate.rules().zip(gate.memory_by_rule()) {
        write!(report, "\n{}\n", rule.name())?;
        for line in rule.explain().lines() {
            writeln!(report, "  {line}")?;
        }
        writeln!(report, "  memory   {}", memory(bytes))?;
    }
    if let Some(paths) = paths {
        write!(report, "\npaths: {paths}\n")?;
    }
    let total = memory(gate.memory_bytes());
    write!(report, "\nmemory in all: at most {total}, taken as keys arrive\n")?;
    Ok(Ok(report))
}

/// A request of the command line.
struct Asked<'a> {
    method: &'a str,
    target: Uri,
    /// Names and values.
    headers: Vec<(&'a str, &'a str)>,
}

impl<'a> Asked<'a> {
    /// `POST /login%2f`, or a target alone, and lines such as `host: api.example.com`.
    fn parse(request: &'a str, headers: &'a [String]) -> Result<Self> {
        let words: Vec<&str> = request.split_whitespace().collect();
        let (method, target) = match words[..] {
            [target] => ("GET", target),
            [method, target] => (method, target),
            _ => bail!("write a request like \"POST /login%2f\", not \"{request}\""),
        };
        let target = target.parse().with_context(|| format!("\"{target}\" is no target"))?;
        let line = |line: &'a String| {
            let (name, value) = line
                .split_once(':')
                .with_context(|| format!("write a header like \"x-user: ada\", not \"{line}\""))?;
            Ok((name.trim(), value.trim()))
        };
        let headers = headers.iter().map(line).collect::<Result<_>>()?;
        Ok(Self { method, target, headers })
    }

    /// The request as the proxy shows it to the rules.
    fn facts(&self, peer: Option<IpAddr>) -> Request<'_> {
        let of_target = self.target.authority().map(|authority| authority.as_str());
        let field = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        Request {
            method: self.method,
            path: self.target.path(),
            host: of_target.or(field.map(|(_, value)| *value)),
            headers: &self.headers,
            peer,
        }
    }
}

/// `29.8 MB`.
fn memory(bytes: usize) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_reads_well() {
        for (bytes, text) in
            [(640, "640 B"), (2_912_000, "2.9 MB"), (1_000, "1.0 kB"), (2_500_000_000, "2.5 GB")]
        {
            assert_eq!(memory(bytes), text);
        }
    }
}
