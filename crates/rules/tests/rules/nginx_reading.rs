// How nginx reads a path: the reference for tests of the crate and for the fuzz target. Included where it
// is used. It works on the bytes of the whole path, unlike the code under test, which works on segments of
// the text.

/// The segments of a path: nginx decodes escapes once, then merges slashes and resolves dots.
fn normalised(path: &str) -> Vec<Vec<u8>> {
    let bytes = unescaped(path.split(['?', '#']).next().unwrap_or_default().as_bytes());
    let mut segments: Vec<Vec<u8>> = Vec::new();
    for segment in bytes.split(|byte| *byte == b'/') {
        match segment {
            b"" | b"." => {}
            b".." => drop(segments.pop()),
            other => segments.push(other.to_vec()),
        }
    }
    segments
}

/// The bytes with escapes decoded once.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let hex = |at: usize| text.get(at).and_then(|digit| char::from(*digit).to_digit(16));
    let (mut bytes, mut at) = (Vec::new(), 0);
    while at < text.len() {
        match (text[at], hex(at + 1), hex(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                bytes.push(u8::try_from(high << 4 | low).expect("two digits"));
                at += 3;
            }
            (byte, ..) => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    bytes
}
