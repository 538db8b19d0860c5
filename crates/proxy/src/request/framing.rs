//! Checks how a message states the end of its body, for requests and for responses. The proxy forwards only
//! what each recipient reads in the same way: `Transfer-Encoding: chunked`, or one `Content-Length`.

use http::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, TRANSFER_ENCODING};

/// The message states the end of its body twice, in an unknown way, or wrongly.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct BadFraming;

/// Checks the framing of a message. Equal lengths are replaced by one (RFC 9110, 8.6).
pub(crate) fn check(headers: &mut HeaderMap) -> Result<(), BadFraming> {
    let is_chunked = is_chunked(headers)?;
    let Some(length) = length(headers)? else { return Ok(()) };
    if is_chunked {
        return Err(BadFraming);
    }
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    Ok(())
}

/// Whether the body comes in chunks. Any other coding would be removed with `Transfer-Encoding`, and the
/// recipient would take the encoded body for the plain one.
fn is_chunked(headers: &HeaderMap) -> Result<bool, BadFraming> {
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    let Some(coding) = codings.next() else { return Ok(false) };
    let is_only = codings.next().is_none();
    let is_chunked = coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked");
    if is_only && is_chunked { Ok(true) } else { Err(BadFraming) }
}

/// The length that all values of `Content-Length` state; `None` without the header.
fn length(headers: &HeaderMap) -> Result<Option<u64>, BadFraming> {
    let values = headers.get_all(CONTENT_LENGTH).iter();
    let mut stated = None;
    for text in values.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')) {
        let length = number(text.trim_ascii()).ok_or(BadFraming)?;
        if stated.is_some_and(|stated| stated != length) {
            return Err(BadFraming);
        }
        stated = Some(length);
    }
    Ok(stated)
}

/// A number in decimal digits, without a sign.
fn number(digits: &[u8]) -> Option<u64> {
    let is_number = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of `Content-Length` after the check.
    fn checked(lines: &[(&'static str, &'static str)]) -> Result<String, BadFraming> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            headers.append(*name, HeaderValue::from_static(value));
        }
        check(&mut headers)?;
        assert!(headers.get_all(CONTENT_LENGTH).iter().count() <= 1);
        let length = headers.get(CONTENT_LENGTH).map(|value| value.to_str().expect("digits"));
        Ok(length.unwrap_or_default().to_owned())
    }

    #[test]
    fn chunked_is_the_only_transfer_encoding() {
        assert_eq!(checked(&[("transfer-encoding", " Chunked ")]), Ok(String::new()));
        for codings in [
            &["gzip, chunked"][..],
            &["gzip", "chunked"],
            &["chunked, chunked"],
            &["chunked", "chunked"],
            &["chunked", "identity"],
            &["identity"],
            &[""],
        ] {
            let lines: Vec<_> = codings.iter().map(|its| ("transfer-encoding", *its)).collect();
            assert_eq!(checked(&lines), Err(BadFraming), "{codings:?}");
        }
        let both = [("transfer-encoding", "chunked"), ("content-length", "3")];
        assert_eq!(checked(&both), Err(BadFraming));
    }

    #[test]
    fn equal_lengths_become_one_and_others_are_errors() {
        assert_eq!(checked(&[]), Ok(String::new()));
        for lengths in [&["3"][..], &["3, 3"], &["3", "3"], &["3", "03 ,3"]] {
            let lines: Vec<_> = lengths.iter().map(|its| ("content-length", *its)).collect();
            assert_eq!(checked(&lines).as_deref(), Ok("3"), "{lengths:?}");
        }
        for lengths in [
            &["3, 4"][..],
            &["3", "4"],
            &["abc"],
            &["+3"],
            &["-3"],
            &["3,"],
            &[""],
            &["3", ""],
            &["0x3"],
            &["18446744073709551616"],
        ] {
            let lines: Vec<_> = lengths.iter().map(|its| ("content-length", *its)).collect();
            assert_eq!(checked(&lines), Err(BadFraming), "{lengths:?}");
        }
    }
}
