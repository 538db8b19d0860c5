//! JSON lines: one object per line; each server chooses its own names.

use std::borrow::Cow;

use serde_json::Value;

use super::{TIME_NAMES, time};
use crate::log::fields::{
    Field, Fields, Header, Malformed, QUERY_NAMES, Stamp, header_names, path_of, query_of,
};

/// The object of one line, and the name of its time if the caller gave one.
#[derive(Debug)]
pub(super) struct Json<'f> {
    object: Value,
    time_field: Option<&'f str>,
}

/// Reads one object.
pub(crate) fn parse<'f>(line: &str, time_field: Option<&'f str>) -> Result<Json<'f>, Malformed> {
    match serde_json::from_str(line) {
        Ok(object @ Value::Object(_)) => Ok(Json { object, time_field }),
        Ok(_) => Err(Malformed::new("the line is JSON but not an object {…}")),
        Err(error) => Err(Malformed::new(format!("the line is not a JSON object: {error}"))),
    }
}

impl Json<'_> {
    /// A member by its name, or by a path of names joined with dots.
    fn member(&self, name: &str) -> Option<&Value> {
        self.member_or_null(name).filter(|value| !value.is_null())
    }

    fn member_or_null(&self, name: &str) -> Option<&Value> {
        self.object
            .get(name)
            .or_else(|| name.split('.').try_fold(&self.object, |inside, step| inside.get(step)))
    }

    /// A member of the object that holds all headers, by its name in any case; `None` if there is no
    /// such object.
    fn among_headers(&self, name: &str) -> Option<Header<'_>> {
        let all = ["request.headers", "headers", "request_headers"];
        let all = all.iter().find_map(|name| self.member(name)?.as_object())?;
        let found = all.iter().find(|(its, _)| its.eq_ignore_ascii_case(name));
        let first = found.map(|(_, value)| match value {
            Value::Array(values) => values.first().unwrap_or(&Value::Null),
            value => value,
        });
        Some(first.and_then(scalar).map_or(Header::Absent, Header::written))
    }

    fn first_of(&self, names: &[&str]) -> Option<&Value> {
        names.iter().find_map(|name| self.member(name))
    }
}

/// A text, number or Boolean as text; `None` for null, a list or an object.
fn scalar(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(Cow::Borrowed(text)),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        Value::Bool(truth) => Some(Cow::Borrowed(if *truth { "true" } else { "false" })),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

impl Fields for Json<'_> {
    fn stamp(&self) -> Result<Stamp, Malformed> {
        let found = match self.time_field {
            Some(name) => self.member(name).ok_or_else(|| {
                Malformed::new(format!("the line has no {name:?} to take the time from"))
            }),
            None => self.first_of(TIME_NAMES).ok_or_else(|| {
                Malformed::new(
                    "the line has no field with a usual name for the time: give --time-field",
                )
            }),
        }?;
        time::parse(
            &scalar(found)
                .ok_or_else(|| Malformed::new("the time is neither a text nor a number"))?,
        )
    }

    fn target(&self) -> Option<Cow<'_, str>> {
        scalar(self.first_of(Field::Path.usual_names())?)
    }

    fn text(&self, field: &Field) -> Option<Cow<'_, str>> {
        match field {
            Field::Named(name) => scalar(self.member(name)?),
            Field::Path => self.target().map(path_of),
            _ => scalar(self.first_of(field.usual_names())?),
        }
    }

    fn header(&self, name: &str) -> Header<'_> {
        match header_names(name).iter().find_map(|name| self.member_or_null(name)) {
            Some(value) => scalar(value).map_or(Header::Absent, Header::written),
            None => self.among_headers(name).unwrap_or(Header::NotInLog),
        }
    }

    fn query(&self) -> Header<'_> {
        if let Some(value) = QUERY_NAMES.iter().find_map(|name| self.member_or_null(name)) {
            return scalar(value).map_or(Header::Absent, Header::written);
        }
        let names = Field::Path.usual_names().iter();
        let target = names.filter_map(|name| Some((name, scalar(self.member(name)?)?))).next();
        target.map_or(Header::NotInLog, |(name, target)| query_of(name, target))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn named(name: &str) -> Field {
        Field::Named(name.to_owned())
    }

    #[test]
    fn fields_are_found_by_usual_and_given_names() {
        let line = r#"{"ts":1700158546.5,"request":{"remote_ip":"1.2.3.4","uri":"/a?b"},"a.b":1,"n":null,"ok":true,"l":[1]}"#;
        let json = parse(line, None).unwrap();
        assert_eq!(json.stamp().unwrap().unix_nanos, 1_700_158_546_500_000_000);
        assert_eq!(json.text(&Field::Ip).unwrap(), "1.2.3.4");
        assert_eq!(json.text(&Field::Path).unwrap(), "/a");
        assert_eq!(json.query(), Header::Value("b".into()));
        assert_eq!(json.text(&named("request.uri")).unwrap(), "/a?b");
        assert_eq!(json.text(&named("a.b")).unwrap(), "1");
        assert_eq!(json.text(&named("ok")).unwrap(), "true");
        for missing in ["n", "l", "request", "nothing", "request.nothing", ""] {
            assert_eq!(json.text(&named(missing)), None, "{missing}");
        }
    }

    #[test]
    fn headers_are_found_where_nginx_and_caddy_write_them() {
        let nginx =
            parse(r#"{"http_x_user":"ada","http_user_agent":"-","http_cookie":null}"#, None);
        let nginx = nginx.unwrap();
        assert_eq!(nginx.header("x-user"), Header::Value("ada".into()));
        assert_eq!(nginx.header("user-agent"), Header::Absent);
        assert_eq!(nginx.header("cookie"), Header::Absent);
        assert_eq!(nginx.header("x-plan"), Header::NotInLog);
        let line = r#"{"request":{"host":"b.example","headers":{"X-User":["ada","bob"],"E":[]}}}"#;
        let caddy = parse(line, None).unwrap();
        assert_eq!(caddy.header("x-user"), Header::Value("ada".into()));
        assert_eq!(caddy.header("e"), Header::Absent);
        assert_eq!(caddy.header("x-plan"), Header::Absent);
        assert_eq!(caddy.header("host"), Header::Value("b.example".into()));
    }

    #[test]
    fn the_time_field_can_be_given() {
        let line = r#"{"time":"never","at":{"utc":"1995-08-01T06:00:00Z"}}"#;
        let at = parse(line, Some("at.utc")).unwrap().stamp().unwrap();
        assert_eq!(at.unix_nanos, 807_256_800_000_000_000);
        assert!(parse(line, None).unwrap().stamp().is_err());
        assert!(
            parse(line, Some("gone")).unwrap().stamp().unwrap_err().to_string().contains("gone")
        );
    }

    #[test]
    fn a_line_that_is_not_an_object_is_malformed() {
        for line in ["", "{", "[1]", "17", "null", "{\"a\":}", "{} {}"] {
            assert!(parse(line, None).is_err(), "{line}");
        }
        assert!(parse(&"[".repeat(100_000), None).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(line in "[{}\\[\\]\":,a-c0-9.eE+\\\\ -]{0,60}") {
            if let Ok(json) = parse(&line, None) {
                let _ = json.stamp();
                let _ = json.text(&named("a.b"));
            }
        }

        #[test]
        fn no_time_panics(time in any::<f64>(), key in any::<i64>()) {
            let line = format!("{{\"time\":{time:e},\"ip\":{key}}}");
            if let Ok(json) = parse(&line, None) {
                let _ = json.stamp();
                prop_assert_eq!(json.text(&Field::Ip).unwrap().into_owned(), key.to_string());
            }
        }
    }
}
