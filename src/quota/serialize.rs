//! The text form of a quota for `serde`.

use core::fmt;

use serde_core::de::{Deserialize, Deserializer, Error, Visitor};
use serde_core::ser::{Serialize, Serializer};

use super::Quota;

/// Writes the text form, such as `"100/s burst 20"`.
impl Serialize for Quota {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads the text form and checks the ranges. The error is that of [`Quota`]'s `FromStr`.
impl<'de> Deserialize<'de> for Quota {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextForm)
    }
}

struct TextForm;

impl Visitor<'_> for TextForm {
    type Value = Quota;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quota as text, such as \"100/s burst 20\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quota, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn read(json: &str) -> Result<Quota, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn a_quota_is_its_text() {
        let quota = Quota::per_second(100).burst(20);
        assert_eq!(serde_json::to_string(&quota).expect("a text"), "\"100/s burst 20\"");
        assert_eq!(read("\"10 requests per minute\"").expect("a quota"), Quota::per_minute(10));
        // A text with an escape reaches the reader in a buffer of its own.
        assert_eq!(read("\"10\\u002fmin\"").expect("a quota"), Quota::per_minute(10));
    }

    #[test]
    fn an_error_is_the_message_of_the_text_form() {
        for text in ["", "100", "1.5/s", "0/s", "2000000000/s", "1/s burst 0", "10/month"] {
            let error = read(&format!("\"{text}\"")).expect_err(text).to_string();
            let expected = text.parse::<Quota>().expect_err(text).to_string();
            assert!(error.starts_with(&expected), "{text}: {error}");
        }
        let error = read("100").expect_err("a number").to_string();
        let expected = "invalid type: integer `100`, expected a quota as text, such as";
        assert!(error.starts_with(expected), "{error}");
        for json in ["null", "{\"limit\":1}", "[1,1]", "true"] {
            assert!(read(json).is_err(), "{json}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_as_the_same_quota(
            limit in 1..=1_u64 << 40,
            period_nanos in 1..=100 * 365 * 24 * 3_600 * 1_000_000_000_u64,
            burst in prop::option::of(1..=1_u64 << 40),
        ) {
            let quota = Quota::new(limit, Duration::from_nanos(period_nanos));
            let quota = burst.map_or(quota, |cells| quota.burst(cells));
            let json = serde_json::to_string(&quota).expect("a text");
            match quota.validate() {
                Ok(()) => prop_assert_eq!(read(&json).expect("a quota"), quota),
                Err(_) => prop_assert!(read(&json).is_err(), "{json}"),
            }
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let json = serde_json::to_string(&text).expect("a text");
            prop_assert_eq!(read(&json).ok(), text.parse().ok());
        }
    }
}
