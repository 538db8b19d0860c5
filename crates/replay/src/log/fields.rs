//! The fields of one line of a log, independent of its format.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

/// A time as the log wrote it, with the offset from UTC that it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Nanoseconds since the Unix epoch.
    pub(crate) unix_nanos: u64,
    /// Seconds east of UTC; 0 if the log states no offset.
    pub(crate) offset_secs: i32,
}

/// Why a line cannot be replayed. The text follows "line 7: ".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(String);

impl Malformed {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A property of a request that a line may record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Ip,
    User,
    Path,
    Method,
    Bytes,
    /// A field by the name that the log uses.
    Named(String),
}

impl Field {
    /// The usual names of the field in JSON and CSV logs, the likeliest first.
    pub(super) fn usual_names(&self) -> &[&str] {
        match self {
            Self::Ip => &[
                "ip",
                "client_ip",
                "clientip",
                "remote_addr",
                "remote_ip",
                "remote_host",
                "client",
                "request.client_ip",
                "request.remote_ip",
            ],
            Self::User => &["user", "user_id", "remote_user", "username", "account"],
            Self::Path => {
                &["path", "request_uri", "uri", "url", "request_path", "target", "request.uri"]
            }
            Self::Method => &["method", "request_method", "http_method", "verb", "request.method"],
            Self::Bytes => {
                &["bytes", "body_bytes_sent", "bytes_sent", "response_size", "size", "length"]
            }
            Self::Named(_) => &[],
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip => f.write_str("ip"),
            Self::User => f.write_str("user"),
            Self::Path => f.write_str("path"),
            Self::Method => f.write_str("method"),
            Self::Bytes => f.write_str("bytes"),
            Self::Named(name) => write!(f, "field:{name}"),
        }
    }
}

/// The values that a log has for the method if the server read none. HAProxy writes `<BADREQ>`. The Common Log checks
/// the whole request instead.
const NO_METHODS: [&str; 3] = ["", "-", "<BADREQ>"];

/// A parsed line.
pub(crate) trait Fields {
    /// The time of the request.
    fn stamp(&self) -> Result<Stamp, Malformed>;

    /// The target of the request as the line records it, perhaps without its query.
    fn target(&self) -> Option<Cow<'_, str>>;

    /// The field's text, or `None` if the line has no such field.
    fn text(&self, field: &Field) -> Option<Cow<'_, str>>;

    /// The line's record of a request header, by its name in lower case.
    fn header(&self, name: &str) -> Header<'_>;

    /// The line's record of the query, without the `?`.
    fn query(&self) -> Header<'_>;

    /// Whether the server read a request of HTTP, as far as the line records it. Servers also log connections that sent
    /// none, and bytes of other protocols.
    fn is_http(&self) -> bool {
        self.text(&Field::Method).is_none_or(|method| is_method(&method))
    }
}

/// Whether a field for the method has one.
pub(super) fn is_method(text: &str) -> bool {
    !NO_METHODS.contains(&text)
}

/// A line's record of a request header, or of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Header<'f> {
    Value(Cow<'f, str>),
    /// Two values or more, in the order of the log.
    Values(Vec<Cow<'f, str>>),
    /// The log records this header, and the request did not have it.
    Absent,
    /// The log does not record this header.
    NotInLog,
}

impl<'f> Header<'f> {
    /// A value as logs write it. `-` and the empty text mean that there was no header.
    pub(crate) fn written(value: Cow<'f, str>) -> Self {
        if matches!(value.as_ref(), "" | "-") { Self::Absent } else { Self::Value(value) }
    }

    /// All values of the header, each as in [`written`](Self::written).
    pub(super) fn listed(mut values: Vec<Cow<'f, str>>) -> Self {
        values.retain(|value| !matches!(value.as_ref(), "" | "-"));
        match values.len() {
            0 => Self::Absent,
            1 => Self::Value(values.remove(0)),
            _ => Self::Values(values),
        }
    }
}

/// The usual names of a header in JSON and CSV logs, the likeliest first.
pub(super) fn header_names(name: &str) -> Vec<String> {
    let underscored = name.replace('-', "_");
    let mut names = vec![format!("http_{underscored}"), underscored, name.to_owned()];
    let others: &[&str] = match name {
        "user-agent" => &["agent"],
        "referer" => &["referrer"],
        "host" => &["server_name", "vhost", "request.host"],
        _ => &[],
    };
    names.extend(others.iter().map(|other| (*other).to_owned()));
    names
}

/// The usual names of the query in JSON and CSV logs, the likeliest first.
pub(super) const QUERY_NAMES: &[&str] =
    &["query", "query_string", "args", "uri_query", "cs-uri-query", "request.query"];

/// The usual names of fields that have the query behind the path, if there is one.
const TARGET_NAMES: &[&str] = &["request_uri", "url", "target", "request.uri"];

/// The query in a field of this name that has the path. It ends at a `#`, as in the rules.
pub(super) fn query_of<'t>(name: &str, target: Cow<'t, str>) -> Header<'t> {
    let end = target.find('#').unwrap_or(target.len());
    match (target[..end].find('?'), target) {
        (Some(at), Cow::Borrowed(text)) => Header::written(Cow::Borrowed(&text[at + 1..end])),
        (Some(at), Cow::Owned(text)) => Header::written(Cow::Owned(text[at + 1..end].to_owned())),
        (None, _) if TARGET_NAMES.contains(&name.to_ascii_lowercase().as_str()) => Header::Absent,
        (None, _) => Header::NotInLog,
    }
}

/// The path of a request target, without its query and without the `scheme://authority` of an absolute target.
pub(super) fn path_of(target: Cow<'_, str>) -> Cow<'_, str> {
    let begin = authority_of(&target).map_or(0, |authority| authority.end);
    let end = target.find('?').unwrap_or(target.len());
    if begin > 0 && begin == end {
        return Cow::Borrowed("/");
    }
    match target {
        Cow::Borrowed(text) => Cow::Borrowed(&text[begin..end]),
        Cow::Owned(mut text) => {
            text.truncate(end);
            text.drain(..begin);
            Cow::Owned(text)
        }
    }
}

/// The bytes of the authority in an absolute target such as `http://a.example:80/login`.
pub(crate) fn authority_of(target: &str) -> Option<Range<usize>> {
    let (scheme, rest) = target.split_once("://")?;
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let begin = target.len() - rest.len();
    let length = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    (is_scheme && length > 0).then_some(begin..begin + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_absent_only_if_its_field_would_have_it() {
        let of = |name, text| query_of(name, Cow::Borrowed(text));
        assert_eq!(of("path", "/a?b?c"), Header::Value("b?c".into()));
        assert_eq!(of("Request_URI", "/a"), Header::Absent);
        assert_eq!(query_of("url", Cow::Owned("/a?b#c".to_owned())), Header::Value("b".into()));
        // As the rules read it: what follows a `#` is neither path nor query.
        assert_eq!((of("url", "/a#b?c"), of("path", "/a#b?c")), (Header::Absent, Header::NotInLog));
        assert_eq!(
            (of("url", "/a?#b"), of("path", "/a?b#c?d")),
            (Header::Absent, Header::Value("b".into()))
        );
        assert_eq!((of("path", "/a"), of("uri", "/a")), (Header::NotInLog, Header::NotInLog));
    }

    #[test]
    fn the_path_excludes_the_query_string() {
        assert_eq!(path_of(Cow::Borrowed("/a?b=1")), "/a");
        assert_eq!(path_of(Cow::Owned("/a?b?c".to_owned())), "/a");
        assert_eq!(path_of(Cow::Borrowed("/a")), "/a");
    }

    #[test]
    fn the_path_of_an_absolute_target_excludes_scheme_and_authority() {
        for (target, authority, path) in [
            ("http://a.example/login?next=http://b/c", Some("a.example"), "/login"),
            ("HTTPS://a:80", Some("a:80"), "/"),
            ("http://a?b", Some("a"), "/"),
            ("/to/http://a/login", None, "/to/http://a/login"),
            ("http:///login", None, "http:///login"),
            ("://a/b", None, "://a/b"),
            ("a:443", None, "a:443"),
            ("*", None, "*"),
            ("", None, ""),
        ] {
            assert_eq!(authority_of(target).map(|its| &target[its]), authority, "{target}");
            assert_eq!(path_of(Cow::Borrowed(target)), path, "{target}");
            assert_eq!(path_of(Cow::Owned(target.to_owned())), path, "{target}");
        }
    }
}
