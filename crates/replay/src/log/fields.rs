//! The fields of one line of a log, independent of its format.

use std::borrow::Cow;
use std::fmt;

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

/// A parsed line.
pub(crate) trait Fields {
    /// The time of the request.
    fn stamp(&self) -> Result<Stamp, Malformed>;

    /// The field's text, or `None` if the line has no such field.
    fn text(&self, field: &Field) -> Option<Cow<'_, str>>;

    /// The line's record of a request header, by its name in lower case.
    fn header(&self, name: &str) -> Header<'_>;

    /// The line's record of the query, without the `?`.
    fn query(&self) -> Header<'_>;
}

/// A line's record of a request header, or of the query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Header<'f> {
    Value(Cow<'f, str>),
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

/// The query in a field of this name that has the path.
pub(super) fn query_of<'t>(name: &str, target: Cow<'t, str>) -> Header<'t> {
    match (target.find('?'), target) {
        (Some(at), Cow::Borrowed(text)) => Header::written(Cow::Borrowed(&text[at + 1..])),
        (Some(at), Cow::Owned(text)) => Header::written(Cow::Owned(text[at + 1..].to_owned())),
        (None, _) if TARGET_NAMES.contains(&name.to_ascii_lowercase().as_str()) => Header::Absent,
        (None, _) => Header::NotInLog,
    }
}

/// A request target without its query string.
pub(super) fn without_query(target: Cow<'_, str>) -> Cow<'_, str> {
    match (target.find('?'), target) {
        (Some(at), Cow::Borrowed(text)) => Cow::Borrowed(&text[..at]),
        (Some(at), Cow::Owned(mut text)) => {
            text.truncate(at);
            Cow::Owned(text)
        }
        (None, whole) => whole,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_absent_only_if_its_field_would_have_it() {
        let of = |name, text| query_of(name, Cow::Borrowed(text));
        assert_eq!(of("path", "/a?b?c"), Header::Value("b?c".into()));
        assert_eq!(of("Request_URI", "/a"), Header::Absent);
        assert_eq!((of("path", "/a"), of("uri", "/a")), (Header::NotInLog, Header::NotInLog));
    }

    #[test]
    fn the_path_excludes_the_query_string() {
        assert_eq!(without_query(Cow::Borrowed("/a?b=1")), "/a");
        assert_eq!(without_query(Cow::Owned("/a?b?c".to_owned())), "/a");
        assert_eq!(without_query(Cow::Borrowed("/a")), "/a");
    }
}
