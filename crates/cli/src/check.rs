//! `tollgate check`: explains a rules file, or lists its mistakes.

use std::fmt::Write;
use std::net::IpAddr;

use anyhow::{Context, Result, bail};
use http::Uri;
use tollgate_rules::{Apply, ReloadError, Request, Rules, RulesLimiter};

use crate::args::CheckArgs;

/// Explains the rules of the file, or how they decide a request. The inner error lists all mistakes of
/// the file.
pub(crate) fn explained(args: &CheckArgs) -> Result<Result<String, String>> {
    let file = &args.file;
    let rules = match Rules::read(file) {
        Ok(rules) => rules,
        Err(ReloadError::Rules(mistakes)) => {
            let count = mistakes.errors().len() + mistakes.left_out();
            let summary = counted(count, "mistake", "mistakes");
            return Ok(Err(format!("{}\n{file}: {summary}\n", mistakes.with_source())));
        }
        // Its text includes the cause, which an error with a source would repeat.
        Err(unreadable) => bail!("{unreadable}"),
    };
    if let Some(request) = &args.explain {
        let described = DescribedRequest::parse(request, &args.headers)?;
        let explanation = rules.explain_request(&described.view(args.client));
        return Ok(Ok(format!("{file}: {request}\n\n{explanation}")));
    }
    let apply = match rules.apply() {
        Apply::All => "all that match a request must admit it",
        Apply::First => "the first rule that matches a request decides (rules in shadow aside)",
    };
    let count = counted(rules.rules().len(), "rule", "rules");
    let mut report = format!("{file}: {count}; {apply}\n");
    for warning in rules.warnings() {
        writeln!(
            report,
            "\nwarning: {}\n --> {file}:{}:{}",
            warning.message(),
            warning.line(),
            warning.column()
        )?;
    }
    #[cfg(feature = "proxy")]
    if let Err(why) = tollgate_proxy::check_stores(&rules) {
        return Ok(Err(format!("error: {why}\n")));
    }
    let paths = rules.explain_paths();
    let sharing = rules.explain_sharing();
    // The tables are reserved but not touched, so they take no memory.
    let gate = match RulesLimiter::new(rules.without_sharing()) {
        Ok(gate) => gate,
        Err(failed) => return Ok(Err(format!("error: {failed}\n"))),
    };
    for (rule, bytes) in gate.rules().zip(gate.memory_by_rule()) {
        write!(report, "\n{}\n", rule.name())?;
        for line in rule.explain().lines() {
            writeln!(report, "  {line}")?;
        }
        if bytes > 0 {
            writeln!(report, "  memory   {}", memory(bytes))?;
        }
    }
    if let Some(paths) = paths {
        write!(report, "\npaths: {paths}\n")?;
    }
    if let Some(sharing) = sharing {
        write!(report, "\nshared: {sharing}\n")?;
    }
    let total = memory(gate.memory_bytes());
    write!(report, "\nmemory in total: at most {total}, allocated as keys arrive\n")?;
    Ok(Ok(report))
}

/// A request that the command line describes.
struct DescribedRequest<'a> {
    method: &'a str,
    target: Uri,
    /// Names and values.
    headers: Vec<(&'a str, &'a str)>,
}

impl<'a> DescribedRequest<'a> {
    /// `POST /login%2f`, or a target alone, and lines such as `host: api.example.com`.
    fn parse(request: &'a str, headers: &'a [String]) -> Result<Self> {
        let words: Vec<&str> = request.split_whitespace().collect();
        let (method, target) = match words[..] {
            [target] => ("GET", target),
            [method, target] => (method, target),
            _ => bail!("write a request like \"POST /login%2f\", not \"{request}\""),
        };
        let text = target;
        let target: Uri =
            text.parse().with_context(|| format!("\"{text}\" is not a request target"))?;
        // The proxy answers 400 to it.
        if target.path_and_query().is_none() && method != "CONNECT" {
            bail!("\"{text}\" has no path: begin it with a slash, as in \"POST /login\"");
        }
        let line = |line: &'a String| {
            let (name, value) = line
                .split_once(':')
                .with_context(|| format!("write a header like \"x-user: ada\", not \"{line}\""))?;
            Ok((name.trim(), value.trim()))
        };
        let headers = headers.iter().map(line).collect::<Result<_>>()?;
        Ok(Self { method, target, headers })
    }

    /// The request as the proxy presents it to the rules.
    fn view(&self, peer: Option<IpAddr>) -> Request<'_> {
        let authority = self.target.authority().map(|authority| authority.as_str());
        let field = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let target = self.target.path_and_query().map(|target| target.as_str());
        Request {
            method: self.method,
            path: target.unwrap_or(self.target.path()),
            host: authority.or(field.map(|(_, value)| *value)),
            headers: &self.headers,
            peer,
        }
    }
}

/// `1 rule`, `2 rules`.
fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
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
    fn memory_has_a_unit_that_fits() {
        for (bytes, text) in
            [(640, "640 B"), (2_912_000, "2.9 MB"), (1_000, "1.0 kB"), (2_500_000_000, "2.5 GB")]
        {
            assert_eq!(memory(bytes), text);
        }
    }
}
