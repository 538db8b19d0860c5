//! The name of a key's state on the server: `{prefix:name:shape:key}`.
//!
//! The separator is a colon. A colon in a prefix or a name is written `%3A`, and a percent sign
//! `%25`. A field therefore never contains the separator, and the fields can be read back from left
//! to right. A shape is a word of this crate without a colon. The caller's key comes last and is
//! the rest of the text, so it needs no escape. A client that chooses its key cannot reach another
//! prefix, name or shape.
//!
//! All of the text is the hash tag, so a cluster keeps the state of one key in one slot. A brace in
//! a key would end the tag. A key with a brace is replaced by its SHA-1, and so is a key of more
//! than 200 bytes. Prefixes and names have no braces ([`is_name`]).

const KEY_BYTES_MAX: usize = 200;
const NAME_BYTES_MAX: usize = 64;

/// Whether a text can be a prefix or a name in a key.
pub(crate) fn is_name(name: &str) -> bool {
    (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.contains(['{', '}'])
}

/// The beginning of all keys of a limiter.
pub(crate) fn head(prefix: &str, name: &str, shape: &str) -> Vec<u8> {
    debug_assert!(!shape.contains([':', '{', '}']), "a shape is one field");
    let mut head = String::from("{");
    for field in [prefix, name] {
        push_escaped(&mut head, field);
        head.push(':');
    }
    head.push_str(shape);
    head.push(':');
    head.into_bytes()
}

fn push_escaped(text: &mut String, field: &str) {
    for letter in field.chars() {
        match letter {
            ':' => text.push_str("%3A"),
            '%' => text.push_str("%25"),
            _ => text.push(letter),
        }
    }
}

/// One of the two keys of a node list. The part after the brace tells it from the key of a limiter.
pub(crate) fn of_nodes(prefix: &str, name: &str, of: &str) -> Vec<u8> {
    let mut whole = head(prefix, name, "nodes");
    whole.pop();
    whole.extend_from_slice(b"}:");
    whole.extend_from_slice(of.as_bytes());
    whole
}

/// The key that a ping asks for. It has too few fields to be the key of a limiter or a node list.
pub(crate) fn of_ping(prefix: &str) -> Vec<u8> {
    let mut whole = String::from("{");
    push_escaped(&mut whole, prefix);
    whole.push_str(":ping}");
    whole.into_bytes()
}

/// The whole key. A hash is marked by a brace, which no key that is written as it is contains.
pub(crate) fn whole(head: &[u8], key: &[u8]) -> Vec<u8> {
    let mut whole = Vec::with_capacity(head.len() + key.len().min(KEY_BYTES_MAX) + 1);
    whole.extend_from_slice(head);
    if key.len() > KEY_BYTES_MAX || key.iter().any(|byte| matches!(byte, b'{' | b'}')) {
        whole.extend_from_slice(b"{sha1:");
        whole.extend_from_slice(sha1_smol::Sha1::from(key).digest().to_string().as_bytes());
    } else {
        whole.extend_from_slice(key);
    }
    whole.push(b'}');
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHAPES: [&str; 6] =
        ["bucket", "log", "window60000000", "window60000000+0", "counter7/1+0", "counts7+first"];

    /// A limiter's prefix, name and shape, and a client's key.
    type Fields = (String, String, &'static str, Vec<u8>);

    fn place((prefix, name, shape, key): &Fields) -> Vec<u8> {
        whole(&head(prefix, name, shape), key)
    }

    fn unescaped(field: &str) -> Option<String> {
        let mut parts = field.split('%');
        let mut text = parts.next()?.to_owned();
        for part in parts {
            let (code, rest) = part.split_at_checked(2)?;
            text.push(match code {
                "3A" => ':',
                "25" => '%',
                _ => return None,
            });
            text.push_str(rest);
        }
        Some(text)
    }

    /// Reads a key of the server back. That this is possible makes the encoding injective.
    fn read_back(place: &[u8]) -> Option<(String, String, String, Vec<u8>)> {
        let inside = place.strip_prefix(b"{")?.strip_suffix(b"}")?;
        let mut fields = inside.splitn(4, |byte| *byte == b':');
        let mut text = || String::from_utf8(fields.next()?.to_vec()).ok();
        let (prefix, name, shape) = (unescaped(&text()?)?, unescaped(&text()?)?, text()?);
        Some((prefix, name, shape, fields.next()?.to_vec()))
    }

    fn hash_tag(place: &[u8]) -> Option<&[u8]> {
        let begin = place.iter().position(|byte| *byte == b'{')? + 1;
        let length = place[begin..].iter().position(|byte| *byte == b'}')?;
        (length > 0).then_some(&place[begin..begin + length])
    }

    /// Any text that matches. The text of a pattern by itself would be parsed again for each case.
    fn pattern(regex: &str) -> impl Strategy<Value = String> + use<> {
        prop::string::string_regex(regex).expect("a regular expression")
    }

    /// Any text that may be a prefix or a name, most often made of the characters that matter.
    fn names() -> impl Strategy<Value = String> {
        let any = any::<String>().prop_map(|text| text.replace(['{', '}'], "_"));
        prop_oneof![4 => pattern("[ab:%235A]{1,8}"), 1 => pattern("[a-z:]{60,64}"), 1 => any]
            .prop_filter("as names are", |text| is_name(text))
    }

    fn keys() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            4 => pattern("[ab:%25{}]{0,8}").prop_map(String::into_bytes),
            2 => prop::sample::select(&SHAPES[..]).prop_map(|shape| format!("{shape}:a").into()),
            1 => prop::collection::vec(any::<u8>(), 0..KEY_BYTES_MAX + 50),
        ]
    }

    fn fields() -> impl Strategy<Value = Fields> {
        (names(), names(), prop::sample::select(&SHAPES[..]), keys())
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            ..ProptestConfig::with_cases(20_000)
        })]

        #[test]
        fn a_key_on_the_server_can_be_read_back(fields in fields()) {
            let place = place(&fields);
            let (prefix, name, shape, key) = fields;
            let plain = key.len() <= KEY_BYTES_MAX && !key.iter().any(|byte| b"{}".contains(byte));
            let digest = sha1_smol::Sha1::from(&key).digest();
            let stands = if plain { key } else { format!("{{sha1:{digest}").into_bytes() };
            prop_assert_eq!(read_back(&place), Some((prefix, name, shape.to_owned(), stands)));
            // The tag is the whole text, so a client's key does not choose the slot of another key.
            prop_assert_eq!(hash_tag(&place), Some(&place[1..place.len() - 1]));
        }

        /// The same fields joined and cut elsewhere, or any other fields.
        #[test]
        fn different_fields_have_different_keys(one in fields(), other in fields(), cut in 0_usize..20) {
            prop_assert_eq!(one == other, place(&one) == place(&other));
            let joined = format!("{}:{}", one.0, one.1);
            let cuts: Vec<_> = joined.match_indices(':').collect();
            let (at, _) = cuts[cut % cuts.len()];
            let moved = (joined[..at].to_owned(), joined[at + 1..].to_owned(), one.2, one.3.clone());
            prop_assert_eq!(moved == one, place(&moved) == place(&one));
            let nodes = |fields: &Fields, of| of_nodes(&fields.0, &fields.1, of);
            let (heard, came) = (nodes(&one, "heard"), nodes(&one, "came"));
            prop_assert_ne!(&heard, &place(&other));
            let same_list = (&one.0, &one.1) == (&other.0, &other.1);
            prop_assert_eq!(heard == nodes(&other, "heard"), same_list);
            prop_assert_eq!(hash_tag(&heard), hash_tag(&came));
        }
    }

    #[test]
    fn an_ordinary_name_is_written_as_it_is() {
        let place = |prefix, name, key: &str| {
            String::from_utf8(whole(&head(prefix, name, "bucket"), key.as_bytes())).expect("text")
        };
        assert_eq!(place("shop", "login", "192.0.2.7"), "{shop:login:bucket:192.0.2.7}");
        assert_eq!(place("shop", "login", "bucket:admin"), "{shop:login:bucket:bucket:admin}");
        assert_eq!(place("shop", "eu:login", "[::1]"), "{shop:eu%3Alogin:bucket:[::1]}");
        assert_eq!(place("shop", "100%", "50%"), "{shop:100%25:bucket:50%}");
        assert_eq!(of_nodes("shop", "api", "heard"), b"{shop:api:nodes}:heard");
    }

    #[test]
    fn a_separator_in_a_prefix_does_not_move_into_the_name() {
        assert_ne!(head("shop", "eu:login", "bucket"), head("shop:eu", "login", "bucket"));
    }

    #[test]
    fn a_clients_key_does_not_reach_another_limit() {
        let reached = whole(&head("p", "login", "bucket"), b"bucket:admin");
        assert_ne!(reached, whole(&head("p", "login:bucket", "bucket"), b"admin"));
    }

    #[test]
    fn a_key_does_not_pose_as_the_hash_of_another() {
        let head = head("p", "n", "bucket");
        let long = [7; KEY_BYTES_MAX + 1];
        let hashed = sha1_smol::Sha1::from(long).digest().to_string();
        let posing = format!("sha1:{hashed}").into_bytes();
        let braced = format!("{{sha1:{hashed}").into_bytes();
        let keys: [&[u8]; 9] = [b"", b"a", b"}", b"{", b"a}b", &long, &long[1..], &posing, &braced];
        let places: std::collections::HashSet<_> =
            keys.iter().map(|key| whole(&head, key)).collect();
        assert_eq!(places.len(), keys.len());
    }
}
