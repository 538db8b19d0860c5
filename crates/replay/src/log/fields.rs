//! What one line of a log says, whatever its format.

use std::borrow::Cow;
use std::fmt;

/// A moment as the log wrote it: the time, and the offset from UTC it was written with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Nanoseconds since the Unix epoch.
    pub(crate) unix_nanos: u64,
    /// Seconds east of Greenwich; 0 where the log names no offset.
    pub(crate) offset_secs: i32,
}

/// Why a line cannot be replayed, in words that follow "line 7: ".
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

/// Something a line may tell about its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    Ip,
    User,
    Path,
    Method,
    Bytes,
    /// By the log's own name for it.
    Named(String),
}

impl Field {
    /// The names under which JSON and CSV logs usually keep it, the likeliest first.
    pub(crate) fn usual_names(&self) -> &[&str] {
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

/// A parsed line: it tells its time and gives out its fields by name.
pub(crate) trait Fields {
    /// When the request was made.
    fn stamp(&self) -> Result<Stamp, Malformed>;

    /// The field's text, or `None` where the line has no such field.
    fn text(&self, field: &Field) -> Option<Cow<'_, str>>;

    /// What the line tells of a request header, by its name in lower case.
    fn header(&self, name: &str) -> Header<'_>;
}

/// What a line tells of a request header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Header<'f> {
    Value(Cow<'f, str>),
    /// The log keeps this header, and the request had none.
    Absent,
    /// The log does not keep it.
    NotInLog,
}

impl<'f> Header<'f> {
    /// A value as logs write it: `-` and nothing mean that there was none.
    pub(crate) fn written(value: Cow<'f, str>) -> Self {
        if matches!(value.as_ref(), "" | "-") { Self::Absent } else { Self::Value(value) }
    }
}

/// The names under which JSON and CSV logs usually keep a header, the likeliest first.
pub(crate) fn header_names(name: &str) -> Vec<String> {
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

/// The part of a target that names a page: without the query string.
pub(crate) fn without_query(target: Cow<'_, str>) -> Cow<'_, str> {
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
    fn a_query_string_is_not_part_of_the_path() {
        assert_eq!(without_query(Cow::Borrowed("/a?b=1")), "/a");
        assert_eq!(without_query(Cow::Owned("/a?b?c".to_owned())), "/a");
        assert_eq!(without_query(Cow::Borrowed("/a")), "/a");
    }
}
