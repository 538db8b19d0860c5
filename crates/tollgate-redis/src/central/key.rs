//! Where a key's state is.
//!
//! `{prefix:name:shape:key}`: all of it is the hash tag, so whatever a key has is in one slot of a
//! cluster. A brace in a key would end the tag, and whoever chooses keys could choose slots; a key
//! with one is replaced by its hash, as is a long one.

const KEY_BYTES_MAX: usize = 200;

/// What stands before all keys of a limiter.
pub(crate) fn head(prefix: &str, name: &str, shape: &str) -> Vec<u8> {
    format!("{{{prefix}:{name}:{shape}:").into_bytes()
}

/// The whole key. One that is replaced cannot be mistaken for one that is not, since that has no
/// brace.
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

    #[test]
    fn different_keys_have_different_places() {
        let head = head("p", "n", "bucket");
        let long = [7; KEY_BYTES_MAX + 1];
        let hashed = sha1_smol::Sha1::from(long).digest().to_string();
        let posing = format!("sha1:{hashed}").into_bytes();
        let keys: [&[u8]; 8] = [b"", b"a", b"}", b"{", b"a}b", &long, &long[1..], &posing];
        let places: std::collections::HashSet<_> =
            keys.iter().map(|key| whole(&head, key)).collect();
        assert_eq!(places.len(), keys.len());
        for place in places {
            assert_eq!(place.iter().position(|byte| *byte == b'}'), Some(place.len() - 1));
        }
    }
}
