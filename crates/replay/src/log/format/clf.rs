//! The Common Log Format and its extension, the Combined Log Format.
//!
//! `host ident user [time] "METHOD target PROTOCOL" status bytes "referer" "agent" …`

use std::borrow::Cow;

use super::time;
use crate::log::fields::{
    Field, Fields, Header, Malformed, Stamp, authority_of, path_of, query_of,
};

/// One line, split into its parts. `-` marks a part that the server does not know.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Clf<'l> {
    host: &'l str,
    ident: &'l str,
    user: &'l str,
    time: &'l str,
    /// The text between the quotes, with its escapes.
    request: &'l str,
    status: &'l str,
    bytes: &'l str,
    referer: &'l str,
    agent: &'l str,
    /// Whether the line has referer and agent, as in the Combined Log Format.
    is_combined: bool,
}

const UNKNOWN: &str = "-";

/// Splits a line into its parts. Text after the agent is ignored.
pub(crate) fn parse(line: &str) -> Result<Clf<'_>, Malformed> {
    let (before, rest) = before_and_after_time(line).ok_or_else(|| {
        Malformed::new(
            "no \" [\" before a time: expected host ident user [time] \"request\" status bytes",
        )
    })?;
    let (host, ident, user) = client(before)?;
    let (time, rest) =
        rest.split_once(']').ok_or_else(|| Malformed::new("no \"]\" after the time"))?;
    let rest = rest
        .strip_prefix(" \"")
        .ok_or_else(|| Malformed::new("no quoted request after the [time]"))?;
    let (request, status, bytes, rest) = request_and_status(rest)?;
    let is_combined = quoted(rest).is_some();
    let (referer, rest) = quoted(rest).unwrap_or((UNKNOWN, rest));
    let (agent, _) = quoted(rest).unwrap_or((UNKNOWN, rest));
    Ok(Clf { host, ident, user, time, request, status, bytes, referer, agent, is_combined })
}

/// Splits a line at the ` [` of the time. Servers escape a quote in the user, so the first `] "` ends the time, and the
/// last ` [` before it begins the time, even if the user has brackets.
fn before_and_after_time(line: &str) -> Option<(&str, &str)> {
    let begin = line.find("] \"").and_then(|end| line[..end].rfind(" ["));
    match begin {
        Some(begin) => Some((&line[..begin], &line[begin + 2..])),
        None => line.split_once(" ["),
    }
}

/// Host, ident and user. nginx writes `-` for ident, and may write a user with spaces: it logs the name of any Basic
/// header. More than three words without that `-` are another format, such as one with the virtual host in front.
fn client(text: &str) -> Result<(&str, &str, &str), Malformed> {
    let mut words = text.splitn(3, ' ');
    let found = (words.next(), words.next(), words.next());
    match found {
        (Some(""), Some(_), Some(_)) => {
            Err(Malformed::new("the line begins with a space: expected the host"))
        }
        (Some(host), Some(ident), Some(user)) if ident == UNKNOWN || !user.contains(' ') => {
            Ok((host, ident, user))
        }
        _ => {
            let count = text.split(' ').count();
            Err(Malformed::new(format!(
                "{count} words before the [time]: expected 3, host ident user"
            )))
        }
    }
}

/// The request ends at the first quote that is not escaped and is followed by a status and a count of bytes. If there is
/// none, the server may escape nothing, and an escaped quote may end the request. So a request that contains quotes,
/// escaped or not, is read whole, and one that contains a status does not replace the server's.
fn request_and_status(text: &str) -> Result<(&str, &str, &str, &str), Malformed> {
    let quotes = || text.match_indices('"').map(|(at, _)| at);
    if quotes().next().is_none() {
        return Err(Malformed::new("the request's closing quote is missing"));
    }
    let ends_at = |at: usize| {
        let (status, bytes, rest) = status_and_bytes(&text[at + 1..])?;
        Some((&text[..at], status, bytes, rest))
    };
    let plain = quotes().filter(|at| !is_escaped(text, *at));
    let escaped = quotes().filter(|at| is_escaped(text, *at));
    plain
        .chain(escaped)
        .find_map(ends_at)
        .ok_or_else(|| Malformed::new("no status and bytes after the quoted request"))
}

/// Whether an odd number of backslashes precedes the byte.
fn is_escaped(text: &str, at: usize) -> bool {
    text[..at].bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// ` 200 1713`, up to the end of the line or the next space.
fn status_and_bytes(text: &str) -> Option<(&str, &str, &str)> {
    let (status, rest) = text.strip_prefix(' ')?.split_once(' ')?;
    let (bytes, rest) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
    let status_fits = status == UNKNOWN || (status.len() == 3 && is_number(status));
    (status_fits && (bytes == UNKNOWN || is_number(bytes))).then_some((status, bytes, rest))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// ` "…"` with backslash escapes, and the rest of the line.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix(" \"")?;
    let mut escaped = false;
    let end = inside.bytes().position(|byte| {
        let closes = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        closes
    })?;
    Some((&inside[..end], &inside[end + 1..]))
}

/// The text before nginx or Apache escaped it: `\xHH`, and Apache's `\"`, `\\`, `\n` and the like. A backslash before
/// anything else stays. Bytes that are not UTF-8 are replaced.
fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('\\') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let (byte, length) = escape(rest).unwrap_or((*first, 1));
        bytes.push(byte);
        rest = &after[length - 1..];
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

/// The byte that the text begins with, if it is escaped, and the length of its escape.
fn escape(text: &[u8]) -> Option<(u8, usize)> {
    let [b'\\', kind, digits @ ..] = text else { return None };
    let byte = match kind {
        b'"' | b'\\' => *kind,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 0x08,
        b'v' => 0x0b,
        b'x' => {
            let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
            return Some((u8::try_from(digit(0)? * 16 + digit(1)?).ok()?, 4));
        }
        _ => return None,
    };
    Some((byte, 2))
}

impl<'l> Clf<'l> {
    /// Method, target and protocol, with their escapes. A request without a protocol is HTTP/0.9. A single word (bytes
    /// that are not HTTP) is a target without a method.
    fn request_parts(&self) -> (&'l str, &'l str, &'l str) {
        let Some((method, rest)) = self.request.split_once(' ') else {
            return (UNKNOWN, self.request, UNKNOWN);
        };
        match rest.rsplit_once(' ') {
            Some((target, protocol)) if protocol.starts_with("HTTP/") => (method, target, protocol),
            _ => (method, rest, UNKNOWN),
        }
    }
}

impl Fields for Clf<'_> {
    fn stamp(&self) -> Result<Stamp, Malformed> {
        time::clf(self.time)
    }

    fn target(&self) -> Option<Cow<'_, str>> {
        let (_, target, _) = self.request_parts();
        Some(unescaped(target))
    }

    fn text(&self, field: &Field) -> Option<Cow<'_, str>> {
        let (method, _, protocol) = self.request_parts();
        let text = match field {
            Field::Ip => self.host,
            Field::User => self.user,
            Field::Method => method,
            Field::Path => return self.target().map(path_of),
            Field::Bytes if self.bytes == UNKNOWN => "0",
            Field::Bytes => self.bytes,
            Field::Named(name) => match name.as_str() {
                "host" | "ip" => self.host,
                "ident" => self.ident,
                "user" => self.user,
                "time" => self.time,
                "request" => self.request,
                "method" => method,
                "target" => return self.target(),
                "protocol" => protocol,
                "status" => self.status,
                "bytes" => self.bytes,
                "referer" => return Some(unescaped(self.referer)),
                "agent" => return Some(unescaped(self.agent)),
                _ => return None,
            },
        };
        Some(Cow::Borrowed(text))
    }

    fn header(&self, name: &str) -> Header<'_> {
        match name {
            "referer" if self.is_combined => Header::written(unescaped(self.referer)),
            "user-agent" if self.is_combined => Header::written(unescaped(self.agent)),
            _ => Header::NotInLog,
        }
    }

    fn query(&self) -> Header<'_> {
        self.target().map_or(Header::NotInLog, |target| query_of("target", target))
    }

    /// The request is recorded as it was sent, so its method and target can be checked as a server does (RFC 9112, 3).
    fn is_http(&self) -> bool {
        let (method, target, _) = self.request_parts();
        let is_target = || {
            let target = unescaped(target);
            target.starts_with('/') || target == "*" || authority_of(&target).is_some()
        };
        method != UNKNOWN && is_token(method) && (method == "CONNECT" || is_target())
    }
}

/// Whether the text is a token (RFC 9110, 5.6.2), as each method is.
fn is_token(text: &str) -> bool {
    let is_of_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(is_of_token)
}

/// Whether the format has the field.
pub(super) fn knows(field: &Field) -> bool {
    Clf::default().text(field).is_some()
}

/// The names for `field:NAME` in this format.
pub(crate) const NAMES: &str =
    "host, ident, user, time, request, method, target, protocol, status, bytes, referer, agent";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(line: &str, field: &Field) -> String {
        parse(line).unwrap().text(field).unwrap().into_owned()
    }

    fn named(name: &str) -> Field {
        Field::Named(name.to_owned())
    }

    const COMMON: &str =
        "a.example - bob [01/Aug/1995:06:00:00 +0000] \"GET /x.gif?y=1 HTTP/1.0\" 200 1713";

    #[test]
    fn a_common_line_has_all_parts() {
        assert_eq!(parse(COMMON).unwrap().stamp().unwrap().unix_nanos, 807_256_800_000_000_000);
        assert_eq!(parse(COMMON).unwrap().query(), Header::Value("y=1".into()));
        for (field, expected) in [
            (Field::Ip, "a.example"),
            (Field::User, "bob"),
            (Field::Method, "GET"),
            (Field::Path, "/x.gif"),
            (Field::Bytes, "1713"),
            (named("target"), "/x.gif?y=1"),
            (named("status"), "200"),
            (named("protocol"), "HTTP/1.0"),
            (named("agent"), "-"),
        ] {
            assert_eq!(text(COMMON, &field), expected, "{field}");
        }
        assert_eq!(parse(COMMON).unwrap().text(&named("colour")), None);
    }

    #[test]
    fn a_combined_line_has_referer_and_agent() {
        let line = format!("{COMMON} \"http://b.example/\" \"Say \\\"hi\\\" 1.0\" \"more\" 17");
        assert_eq!(text(&line, &named("referer")), "http://b.example/");
        assert_eq!(text(&line, &named("agent")), "Say \"hi\" 1.0");
    }

    #[test]
    fn only_the_combined_format_has_headers() {
        let common = "h - - [01/Aug/1995:06:00:00 +0000] \"GET /\" 200 1";
        let combined = format!("{common} \"-\" \"curl\"");
        assert_eq!(parse(common).unwrap().header("user-agent"), Header::NotInLog);
        let combined = parse(&combined).unwrap();
        assert_eq!(combined.header("user-agent"), Header::Value("curl".into()));
        assert_eq!(combined.header("referer"), Header::Absent);
        assert_eq!(combined.header("host"), Header::NotInLog);
    }

    #[test]
    fn requests_with_quotes_and_spaces_are_read_whole() {
        let line =
            |request: &str| format!("h - - [01/Aug/1995:06:00:00 +0000] \"{request}\" 400 -");
        assert_eq!(text(&line("GET /a b HTTP/1.0"), &Field::Path), "/a b");
        assert_eq!(text(&line("GET /plain"), &Field::Path), "/plain");
        assert_eq!(text(&line("GET /\\\"q\\\" HTTP/1.0"), &Field::Path), "/\"q\"");
        assert_eq!(text(&line("GET /\"q\" HTTP/1.0"), &Field::Path), "/\"q\"");
        assert_eq!(text(&line("\\x16\\x03"), &Field::Path), "\u{16}\u{3}");
        assert_eq!(text(&line("-"), &Field::Method), "-");
        assert_eq!(text(&line(""), &Field::Path), "");
        assert_eq!(text(&line("GET / HTTP/1.0"), &Field::Bytes), "0");
    }

    #[test]
    fn an_escaped_quote_in_a_request_does_not_end_it_before_its_status() {
        let forged =
            "h - - [01/Aug/1995:06:00:00 +0000] \"GET /\\\" 200 99999999 HTTP/1.1\" 400 226";
        for line in [forged.to_owned(), format!("{forged} \"-\" \"curl\"")] {
            assert_eq!(text(&line, &Field::Path), "/\" 200 99999999");
            assert_eq!(text(&line, &named("status")), "400");
            assert_eq!(text(&line, &Field::Bytes), "226");
        }
        let line = |request: &str| {
            let line =
                format!("h - - [01/Aug/1995:06:00:00 +0000] \"{request}\" 400 17 \"r\" \"a\"");
            (text(&line, &Field::Path), text(&line, &Field::Bytes), text(&line, &named("agent")))
        };
        let read = |path: &str| (path.to_owned(), "17".to_owned(), "a".to_owned());
        // The backslash before the last quote is itself escaped.
        assert_eq!(line("GET /\\\\"), read("/\\"));
        // Servers that escape nothing.
        assert_eq!(line("GET /\\"), read("/\\"));
        assert_eq!(line("GET /\"\\\" x\\"), read("/\"\" x\\"));
    }

    #[test]
    fn escapes_of_nginx_and_apache_are_undone() {
        for (written, meant) in [
            ("/a", "/a"),
            ("/\\x22q\\x22", "/\"q\""),
            ("/\\xC3\\xA9\\xc3\\xa9", "/éé"),
            ("/\\xff", "/\u{fffd}"),
            ("/\\x5Cx41", "/\\x41"),
            ("/\\\\x41", "/\\x41"),
            ("a\\tb\\nc\\rd\\be\\vf", "a\tb\nc\rd\u{8}e\u{b}f"),
            ("/\\q\\x4\\xg0é\\", "/\\q\\x4\\xg0é\\"),
        ] {
            assert_eq!(unescaped(written), meant, "{written}");
        }
        let line = "h - - [01/Aug/1995:06:00:00 +0000] \"GET /\\x22?q=\\x22 HTTP/1.1\" 200 1 \
                    \"/\\xC3\\xA9\" \"\\\"x\\\"\"";
        let line = parse(line).unwrap();
        assert_eq!(line.text(&Field::Path).unwrap(), "/\"");
        assert_eq!(line.text(&named("target")).unwrap(), "/\"?q=\"");
        assert_eq!(line.query(), Header::Value("q=\"".into()));
        assert_eq!(line.header("referer"), Header::Value("/é".into()));
        assert_eq!(line.header("user-agent"), Header::Value("\"x\"".into()));
    }

    #[test]
    fn a_user_with_spaces_and_brackets_does_not_hide_its_line() {
        // nginx logs the name of a Basic header, and escapes only quotes, backslashes and control characters.
        for user in ["a b", "a [b", "[a", "a]", "] [", " a ", "- -", "[x] [y]", ""] {
            for user in [user.to_owned(), format!("{user} [02/Aug/1995:06:00:00 +0000] \\x22GET")] {
                let line =
                    format!("h - {user} [01/Aug/1995:06:00:00 +0000] \"GET /[a] HTTP/1.1\" 200 1");
                assert_eq!(text(&line, &Field::User), user);
                assert_eq!(text(&line, &Field::Ip), "h");
                assert_eq!(text(&line, &Field::Path), "/[a]");
                assert_eq!(
                    parse(&line).unwrap().stamp().unwrap().unix_nanos,
                    807_256_800_000_000_000
                );
            }
        }
    }

    #[test]
    fn only_a_method_and_a_target_are_a_request_of_http() {
        for (request, is_http) in [
            ("GET / HTTP/1.1", true),
            ("get /a b HTTP/1.1", true),
            ("GET /plain", true),
            ("M-SEARCH * HTTP/1.1", true),
            ("OPTIONS * HTTP/1.1", true),
            ("GET http://a.example HTTP/1.1", true),
            ("CONNECT a.example:443 HTTP/1.1", true),
            ("GET a.example:443 HTTP/1.1", false),
            ("GET login HTTP/1.1", false),
            ("GET  HTTP/1.1", false),
            ("-", false),
            ("- / HTTP/1.1", false),
            ("", false),
            ("SSH-2.0-Go", false),
            ("\\x16\\x03\\x01\\x00", false),
            ("\\x16\\x03 /a HTTP/1.1", false),
            (" / HTTP/1.1", false),
        ] {
            let line = format!("h - - [01/Aug/1995:06:00:00 +0000] \"{request}\" 400 -");
            assert_eq!(parse(&line).unwrap().is_http(), is_http, "{request}");
        }
    }

    #[test]
    fn a_malformed_line_says_what_is_wrong() {
        for (line, why) in [
            ("", "no \" [\""),
            ("hello", "no \" [\""),
            ("h - [01/Aug/1995:06:00:00 +0000] \"GET /\" 200 1", "2 words"),
            ("v h - - [01/Aug/1995:06:00:00 +0000] \"GET /\" 200 1", "4 words"),
            ("v h - a [b [01/Aug/1995:06:00:00 +0000] \"GET /\" 200 1", "5 words"),
            (" - - [01/Aug/1995:06:00:00 +0000] \"GET /\" 200 1", "begins with a space"),
            ("h - - [01/Aug/1995:06:00:00 +0000 \"GET /\" 200 1", "no \"]\""),
            ("h - - [01/Aug/1995:06:00:00 +0000] GET / 200 1", "no quoted request"),
            ("h - - [01/Aug/1995:06:00:00 +0000] \"GET / 200 1", "closing quote"),
            ("h - - [01/Aug/1995:06:00:00 +0000] \"GET /\" 2x0 1", "no status"),
            ("h - - [01/Aug/1995:06:00:00 +0000] \"GET /\" 200", "no status"),
        ] {
            let error = parse(line).unwrap_err().to_string();
            assert!(error.contains(why), "{line}: {error}");
        }
    }

    fn read_all(line: &str) {
        if let Ok(clf) = parse(line) {
            let _ = clf.stamp();
            for field in [Field::Ip, Field::User, Field::Path, Field::Method, Field::Bytes] {
                let _ = clf.text(&field);
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            read_all(&String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn no_nearly_correct_line_panics(line in "h - - \\[[0-9A-z/: +]{0,30}\\]? \"[GET /\"\\\\]{0,9}[0-9 \"é-]{0,12}") {
            read_all(&line);
        }
    }
}
