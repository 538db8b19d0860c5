//! JSON lines: one object per line; each server chooses its own names.

use std::borrow::Cow;

use serde_json::Value;

use super::{TIME_NAMES, time};
use crate::log::fields::{
    Field, Fields, Header, Malformed, QUERY_NAMES, Stamp, header_names, is_method, path_of,
    query_of,
};

/// The value that Caddy writes in place of a cookie and of credentials.
const REDACTED: &str = "REDACTED";

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
    /// such object, or it does not tell the values.
    fn among_headers(&self, name: &str) -> Option<Header<'_>> {
        let all = ["request.headers", "headers", "request_headers"];
        let all = all.iter().find_map(|name| self.member(name)?.as_object())?;
        let Some((_, value)) = all.iter().find(|(its, _)| its.eq_ignore_ascii_case(name)) else {
            return Some(Header::Absent);
        };
        match header_of(value) {
            Some(Header::Value(value)) if value == REDACTED => None,
            header => header,
        }
    }

    /// The first of these members that is no object or list.
    fn first_scalar_of(&self, names: &[&str]) -> Option<Cow<'_, str>> {
        names.iter().find_map(|name| scalar(self.member(name)?))
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

/// A text or number as text: what a time can be.
fn text_or_number(value: &Value) -> Option<Cow<'_, str>> {
    scalar(value).filter(|_| !value.is_boolean())
}

/// A header as a line writes it: null, a text, or a list of texts. `None` for an object, which says something else:
/// collectors of logs write about the machine under `host`.
fn header_of(value: &Value) -> Option<Header<'_>> {
    match value {
        Value::Array(values) => {
            let values = values.iter().filter(|value| !value.is_null()).map(scalar);
            values.collect::<Option<_>>().map(Header::listed)
        }
        value => scalar_or_null(value),
    }
}

/// A header or a query in a value that is no list and no object.
fn scalar_or_null(value: &Value) -> Option<Header<'_>> {
    match value {
        Value::Null => Some(Header::Absent),
        value => scalar(value).map(Header::written),
    }
}

impl Fields for Json<'_> {
    fn stamp(&self) -> Result<Stamp, Malformed> {
        let found = match self.time_field {
            Some(name) => {
                let found = self.member(name).ok_or_else(|| {
                    Malformed::new(format!("the line has no {name:?} to take the time from"))
                })?;
                text_or_number(found).ok_or_else(|| {
                    Malformed::new(format!("{name:?}, the time, is neither a text nor a number"))
                })?
            }
            None => {
                let mut found = TIME_NAMES.iter().filter_map(|name| self.member(name));
                found.find_map(text_or_number).ok_or_else(|| {
                    Malformed::new(
                        "the line has no text or number with a usual name for the time: give --time-field",
                    )
                })?
            }
        };
        time::parse(&found)
    }

    fn target(&self) -> Option<Cow<'_, str>> {
        self.first_scalar_of(Field::Path.usual_names())
    }

    fn text(&self, field: &Field) -> Option<Cow<'_, str>> {
        match field {
            Field::Named(name) => scalar(self.member(name)?),
            Field::Path => self.target().map(path_of),
            _ => self.first_scalar_of(field.usual_names()),
        }
    }

    fn header(&self, name: &str) -> Header<'_> {
        let names = header_names(name);
        let found = names.iter().find_map(|name| header_of(self.member_or_null(name)?));
        found.or_else(|| self.among_headers(name)).unwrap_or(Header::NotInLog)
    }

    fn query(&self) -> Header<'_> {
        let found = QUERY_NAMES.iter().find_map(|name| scalar_or_null(self.member_or_null(name)?));
        if let Some(query) = found {
            return query;
        }
        let names = Field::Path.usual_names().iter();
        let target = names.filter_map(|name| Some((name, scalar(self.member(name)?)?))).next();
        target.map_or(Header::NotInLog, |(name, target)| query_of(name, target))
    }

    /// Envoy writes null for a method that it did not read.
    fn is_http(&self) -> bool {
        match self.text(&Field::Method) {
            Some(method) => is_method(&method),
            None => {
                let is_null = |name: &&str| self.member_or_null(name).is_some_and(Value::is_null);
                !Field::Method.usual_names().iter().any(is_null)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_rules::RequestView;

    use super::*;
    use crate::log::logged_request::{LoggedRequest, LoggedRequestView};

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
        let both = ["ada", "bob"].map(Into::into).to_vec();
        assert_eq!(caddy.header("x-user"), Header::Values(both));
        assert_eq!(caddy.header("e"), Header::Absent);
        assert_eq!(caddy.header("x-plan"), Header::Absent);
        assert_eq!(caddy.header("host"), Header::Value("b.example".into()));
    }

    #[test]
    fn only_null_and_a_text_without_a_value_mean_that_a_request_lacks_a_header() {
        // Collectors of logs add objects about the machine under names that also mean a header.
        let line = r#"{"host":{"name":"web1"},"user_agent":{"original":"curl"},"referer":null,
                       "query":{"a":"1"},"url":{"path":"/x"},"request_uri":"/a?b"}"#;
        let json = parse(line, None).unwrap();
        assert_eq!(json.header("host"), Header::NotInLog);
        assert_eq!(json.header("user-agent"), Header::NotInLog);
        assert_eq!(json.header("referer"), Header::Absent);
        assert_eq!(json.query(), Header::Value("b".into()));
        assert_eq!(json.text(&Field::Path).unwrap(), "/a");
        let line = r#"{"host":{"name":"web1"},"client":{"port":80},"url":{"path":"/x"},
                       "request":{"host":"a.example","client_ip":"1.2.3.4","uri":"/b?c"}}"#;
        let json = parse(line, None).unwrap();
        assert_eq!(json.header("host"), Header::Value("a.example".into()));
        assert_eq!(json.text(&Field::Ip).unwrap(), "1.2.3.4");
        assert_eq!(json.text(&Field::Path).unwrap(), "/b");
        let line = r#"{"host":{"name":"web1"},"headers":{"host":"a.example","x":{"y":1}}}"#;
        let json = parse(line, None).unwrap();
        assert_eq!(json.header("host"), Header::Value("a.example".into()));
        assert_eq!(json.header("x"), Header::NotInLog);
    }

    #[test]
    fn a_list_has_all_values_of_a_header_and_a_redacted_one_is_not_in_the_log() {
        let line = r#"{"http_x_user":["cyd","dan"],"request":{"headers":{"X-Plan":["free",null,"gold"],
            "X-One":["a","-"],"X-None":["-",""],"X-Deep":["a",["b"]],"Cookie":["REDACTED"],"Via":"REDACTED"}}}"#;
        let json = parse(line, None).unwrap();
        let values = |values: [&'static str; 2]| Header::Values(values.map(Into::into).to_vec());
        assert_eq!(json.header("x-user"), values(["cyd", "dan"]));
        assert_eq!(json.header("x-plan"), values(["free", "gold"]));
        assert_eq!(json.header("x-one"), Header::Value("a".into()));
        assert_eq!(json.header("x-none"), Header::Absent);
        assert_eq!(json.header("x-deep"), Header::NotInLog);
        assert_eq!(json.header("cookie"), Header::NotInLog);
        assert_eq!(json.header("via"), Header::NotInLog);
    }

    #[test]
    fn a_header_has_all_values_that_the_log_records() {
        let headers = ["x-plan".to_owned()];
        let line = r#"{"headers":{"X-Plan":["free","gold"]},"host":["a.example","b.example"]}"#;
        let head = LoggedRequest::of(&parse(line, None).unwrap(), &headers);
        let asked = LoggedRequestView::new(&head, &headers);
        assert!(asked.header_values("x-plan").eq([b"free", b"gold"]));
        assert_eq!(asked.host(), None);
        assert_eq!(asked.take_missing().into_iter().collect::<Vec<_>>(), ["host"]);
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
    fn a_value_that_cannot_be_a_time_does_not_hide_the_time_under_another_name() {
        for other in [r#"{"total":0.2}"#, "[1]", "true", "false"] {
            let line = format!(r#"{{"time":{other},"@timestamp":"1995-08-01T06:00:00Z"}}"#);
            let stamp = parse(&line, None).unwrap().stamp().expect(other);
            assert_eq!(stamp.unix_nanos, 807_256_800_000_000_000);
            let why = parse(&line, Some("time")).unwrap().stamp().unwrap_err().to_string();
            assert_eq!(why, "\"time\", the time, is neither a text nor a number", "{other}");
        }
        let line = r#"{"time":{"total":0.2},"date":[1],"at":"1995-08-01T06:00:00Z"}"#;
        let why = |time_field| parse(line, time_field).unwrap().stamp().unwrap_err().to_string();
        assert!(why(None).ends_with("give --time-field"), "{}", why(None));
        assert_eq!(why(Some("time")), "\"time\", the time, is neither a text nor a number");
    }

    #[test]
    fn a_line_without_a_method_is_no_http_only_if_the_log_records_methods() {
        for (line, is_http) in [
            (r#"{"request_method":"GET","request_uri":"/a"}"#, true),
            // Some logs leave out the first slash, and some record no method or one of gRPC.
            (r#"{"method":"GET","path":"login"}"#, true),
            (r#"{"method":"/package.Service/Call"}"#, true),
            (r#"{"path":"/a"}"#, true),
            (r#"{"method":null,"verb":"GET"}"#, true),
            (r#"{"method":null,"path":null}"#, false),
            (r#"{"request_method":"","request_uri":""}"#, false),
            (r#"{"method":"-"}"#, false),
            (r#"{"method":"<BADREQ>"}"#, false),
        ] {
            assert_eq!(parse(line, None).unwrap().is_http(), is_http, "{line}");
        }
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
