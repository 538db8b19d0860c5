//! `Max-Forwards` of `OPTIONS` and `TRACE` requests: how many more proxies may forward the request (RFC 9110,
//! 7.6.2). With other methods it may be ignored, and is.

use http::Method;
use http::header::{HeaderMap, HeaderValue, MAX_FORWARDS};

/// Counts this proxy. Returns whether it may forward the request. If not, it is the final recipient.
pub(crate) fn count(method: &Method, headers: &mut HeaderMap) -> bool {
    if *method != Method::OPTIONS && *method != Method::TRACE {
        return true;
    }
    let Some(left) = left(headers) else { return true };
    let Some(fewer) = left.checked_sub(1) else { return false };
    headers.insert(MAX_FORWARDS, HeaderValue::from(fewer));
    true
}

/// The stated number, or the largest if it has more digits than fit. `None`: it is missing, repeated or no number,
/// and has no effect.
fn left(headers: &HeaderMap) -> Option<u64> {
    let mut lines = headers.get_all(MAX_FORWARDS).iter();
    let (line, repeated) = (lines.next()?, lines.next());
    let digits = line.to_str().ok()?.trim();
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && repeated.is_none()).then(|| digits.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines after the count; `None` if the request may not be forwarded.
    fn counted(method: &Method, lines: &[&'static str]) -> Option<Vec<String>> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(MAX_FORWARDS, HeaderValue::from_static(line));
        }
        let may_forward = count(method, &mut headers);
        let lines = headers.get_all(MAX_FORWARDS).iter();
        let lines = lines.map(|line| line.to_str().expect("ASCII").to_owned());
        may_forward.then(|| lines.collect())
    }

    #[test]
    fn each_proxy_takes_one_and_the_last_forwards_nothing() {
        for method in [Method::OPTIONS, Method::TRACE] {
            for (line, expected) in [
                ("7", "6"),
                ("1", "0"),
                (" 010 ", "9"),
                ("99999999999999999999999", "18446744073709551614"),
            ] {
                assert_eq!(counted(&method, &[line]), Some(vec![expected.to_owned()]), "{line}");
            }
            assert_eq!(counted(&method, &["0"]), None);
            assert_eq!(counted(&method, &["000"]), None);
        }
    }

    #[test]
    fn other_methods_and_unclear_numbers_are_forwarded_as_they_came() {
        for lines in [&["0"][..], &["7"]] {
            assert_eq!(counted(&Method::GET, lines), Some(vec![lines[0].to_owned()]));
        }
        for lines in [&[][..], &[""], &["-1"], &["+0"], &["0x0"], &["0, 0"], &["0", "0"]] {
            let as_they_came = lines.iter().map(|line| (*line).to_owned()).collect();
            assert_eq!(counted(&Method::OPTIONS, lines), Some(as_they_came));
        }
    }
}
