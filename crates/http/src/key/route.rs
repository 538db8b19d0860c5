//! Method and path.

use core::fmt;
use std::sync::Arc;

use http::request::Parts;

use super::{Extractor, KeyError};

/// The key of all paths that have no template.
const OTHER: &str = "*";

/// The request's method.
///
/// **Not guaranteed.** The number of keys is not bounded: clients choose the method, and HTTP allows any
/// token. A limit for each method does not limit a client that invents a new one for each request. Let
/// [`from_fn`](super::from_fn) give all methods that the service does not know one key.
///
/// ```
/// use tollgate_http::key::{Extractor, Method, Templates};
///
/// let key = (Method, Templates::new(["/users/{id}"])?);
/// let (request, ()) = http::Request::post("/users/7").body(())?.into_parts();
/// assert_eq!(key.extract(&request)?, (http::Method::POST, "/users/{id}".into()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Method;

impl Extractor for Method {
    type Key = http::Method;

    fn extract(&self, request: &Parts) -> Result<http::Method, KeyError> {
        Ok(request.method.clone())
    }
}

/// The template of the route that axum has matched (feature `axum`). The layer must be within the
/// router: `Router::layer` or `route_layer`. All requests without a route, such as those for a fallback,
/// share the key `*`.
///
/// ```
/// use tollgate_http::key::{Extractor, Matched};
/// let (request, ()) = http::Request::new(()).into_parts();
/// assert_eq!(Matched.extract(&request).as_deref(), Ok("*"));
/// ```
#[cfg(feature = "axum")]
#[derive(Clone, Copy, Debug, Default)]
pub struct Matched;

#[cfg(feature = "axum")]
impl Extractor for Matched {
    type Key = Arc<str>;

    fn extract(&self, request: &Parts) -> Result<Arc<str>, KeyError> {
        let matched = request.extensions.get::<axum::extract::MatchedPath>();
        Ok(matched.map_or(OTHER, axum::extract::MatchedPath::as_str).into())
    }
}

/// The first template that the path matches.
///
/// `{name}` matches one segment, and `{*name}` at the end matches one or more. All paths that match no
/// template share the key `*`, so the number of keys is bounded. Segments are compared as the client
/// sent them: percent-encodings are not decoded, and case counts.
///
/// ```
/// use tollgate_http::key::{Extractor, Templates};
///
/// let key = Templates::new(["/users/me", "/users/{id}", "/files/{*path}"])?;
/// let of = |path: &str| {
///     let (request, ()) = http::Request::get(path).body(()).expect("a path").into_parts();
///     key.extract(&request).expect("every path has a key").to_string()
/// };
/// assert_eq!(of("/users/me"), "/users/me");
/// assert_eq!(of("/users/7?full=1"), "/users/{id}");
/// assert_eq!(of("/files/a/b"), "/files/{*path}");
/// assert_eq!(of("/users/7/posts"), "*");
/// # Ok::<(), tollgate_http::key::TemplateError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Templates {
    templates: Box<[Template]>,
    other: Arc<str>,
}

#[derive(Clone, Debug)]
struct Template {
    text: Arc<str>,
    segments: Box<[Segment]>,
}

#[derive(Clone, Debug)]
enum Segment {
    Fixed(Box<str>),
    Any,
    /// This one and all after it.
    Rest,
}

impl Templates {
    /// The templates, in order of precedence.
    ///
    /// # Errors
    ///
    /// A template does not begin with `/`, has a brace within a segment, or has more segments after
    /// `{*name}`.
    ///
    /// ```
    /// use tollgate_http::key::Templates;
    /// assert_eq!(Templates::new(["users"]).unwrap_err().to_string(),
    ///     "`users` is no template: write `/fixed/{one}/{*rest}`");
    /// ```
    pub fn new<I>(templates: I) -> Result<Self, TemplateError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let parse = |text: &str| {
            let segments = parse(text).ok_or_else(|| TemplateError(text.into()))?;
            Ok(Template { text: text.into(), segments })
        };
        let templates: Result<_, _> =
            templates.into_iter().map(|text| parse(text.as_ref())).collect();
        Ok(Self { templates: templates?, other: OTHER.into() })
    }
}

fn parse(template: &str) -> Option<Box<[Segment]>> {
    let mut segments = Vec::new();
    for text in template.strip_prefix('/')?.split('/') {
        if matches!(segments.last(), Some(Segment::Rest)) {
            return None;
        }
        let name = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
        let (segment, plain) = match name {
            Some(name) => match name.strip_prefix('*') {
                Some(name) => (Segment::Rest, name),
                None => (Segment::Any, name),
            },
            None => (Segment::Fixed(text.into()), text),
        };
        if plain.contains(['{', '}', '*']) {
            return None;
        }
        segments.push(segment);
    }
    Some(segments.into())
}

impl Template {
    fn matches(&self, path: &str) -> bool {
        let Some(path) = path.strip_prefix('/') else { return false };
        let mut parts = path.split('/');
        for segment in &self.segments {
            match (segment, parts.next()) {
                (Segment::Fixed(fixed), Some(part)) if **fixed == *part => {}
                (Segment::Any, Some(part)) if !part.is_empty() => {}
                (Segment::Rest, Some(part)) => return !part.is_empty() || parts.next().is_some(),
                _ => return false,
            }
        }
        parts.next().is_none()
    }
}

impl Extractor for Templates {
    type Key = Arc<str>;

    fn extract(&self, request: &Parts) -> Result<Arc<str>, KeyError> {
        let path = request.uri.path();
        let found = self.templates.iter().find(|template| template.matches(path));
        Ok(Arc::clone(found.map_or(&self.other, |template| &template.text)))
    }
}

/// A text that is not a template.
///
/// ```
/// use tollgate_http::key::{TemplateError, Templates};
/// let error: TemplateError = Templates::new(["/a/{*rest}/b"]).unwrap_err();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError(Box<str>);

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` is no template: write `/fixed/{{one}}/{{*rest}}`", self.0)
    }
}

impl core::error::Error for TemplateError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_matches_whole_segments_as_sent() {
        for (template, path, expected) in [
            ("/", "/", true),
            ("/", "/a", false),
            ("/a", "/a", true),
            ("/a", "/a/", false),
            ("/a", "/A", false),
            ("/a/", "/a/", true),
            ("/{id}", "/", false),
            ("/{id}", "/7", true),
            ("/{id}/b", "/7/b", true),
            ("/{id}/b", "/7/c", false),
            ("/a/{*rest}", "/a", false),
            ("/a/{*rest}", "/a/", false),
            ("/a/{*rest}", "/a/b", true),
            ("/a/{*rest}", "/a/b/c", true),
            ("/a/{*rest}", "/a//", true),
            ("/{*rest}", "*", false),
        ] {
            let segments = parse(template).expect("a template");
            let template = Template { text: template.into(), segments };
            assert_eq!(template.matches(path), expected, "{} {path}", template.text);
        }
        for text in ["", "a", "/{a", "/a}", "/x{id}", "/{*a}/b", "/{a*}", "*"] {
            assert!(parse(text).is_none(), "{text}");
        }
    }
}
