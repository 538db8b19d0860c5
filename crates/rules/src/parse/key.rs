//! `key`: what gets a bucket of its own.

use super::fields::{Reader, Value};
use super::matcher::is_token;
use crate::key::{Key, Part};
use crate::path::Spelling;

const NEEDED: &str = "\"ip\", \"header:NAME\", \"cookie:NAME\", \"path\", \"method\", \"host\" or \
                      \"none\"";

/// Of IPv6 addresses, `ipv6_prefix` bits count.
pub(crate) fn read<'s>(
    reader: &mut Reader<'s>,
    value: &Value<'s>,
    ipv6_prefix: u8,
    spelling: Spelling,
) -> Option<Key> {
    let words = reader.strings(value, NEEDED)?;
    if let [(_, "none")] = *words {
        return Some(Key { parts: Vec::new() });
    }
    let mut parts: Vec<Option<Part>> = Vec::new();
    for (value, word) in words {
        let part = part(word, ipv6_prefix, spelling);
        let part = part.map_err(|message| reader.error_in(value, message)).ok();
        if part.is_some() && parts.contains(&part) {
            reader.error_in(value, "the key has this part already: leave it out".to_owned());
        }
        parts.push(part);
    }
    Some(Key { parts: parts.into_iter().collect::<Option<_>>()? })
}

fn part(word: &str, ipv6_prefix: u8, spelling: Spelling) -> Result<Part, String> {
    let named = |what: &str, name: &str| match is_token(name) {
        true => Ok(name.to_owned()),
        false => Err(format!("the name of a {what} is needed, as in \"{what}:x-user\"")),
    };
    match word.split_once(':') {
        Some(("header", name)) => Ok(Part::Header(named("header", name)?.to_ascii_lowercase())),
        Some(("cookie", name)) => Ok(Part::Cookie(named("cookie", name)?)),
        _ => match word {
            "ip" => Ok(Part::Ip { ipv6_prefix }),
            "path" => Ok(Part::Path(spelling)),
            "method" => Ok(Part::Method),
            "host" => Ok(Part::Host),
            "none" => Err("\"none\" is one bucket for all: write it alone, or leave it out".into()),
            "header" | "cookie" => named(word, "").map(Part::Header),
            _ if word.contains('+') => {
                let parts: Vec<String> = word.split('+').map(|part| format!("{part:?}")).collect();
                Err(format!("several parts are a list: write [{}]", parts.join(", ")))
            }
            _ => Err(format!("unknown key \"{word}\": write {NEEDED}, or a list of them")),
        },
    }
}
