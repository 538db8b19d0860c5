//! Properties of any path: tested here, and by a fuzz target in `fuzz/`.

use std::sync::{Arc, LazyLock};

use tollgate::ManualClock;
use tollgate_rules::{Request, Rules, RulesLimiter};

/// Mistakes planted between the crate and the checks. If the body did not find each, it would check
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A segment is lost.
    SegmentLost,
    /// An encoded slash separates nothing.
    SlashKept,
    /// A rule applies by one reading of two, and admits the request.
    UnclearAdmitted,
}

include!("../../../../tests/bodies/planted.rs");
include!("nginx_reading.rs");

/// The settings with which rules read paths as nginx does.
const AS_NGINX: &str = "encoded_slash = \"decode\"\nbackslash = \"keep\"\npath_params = \"keep\"\n\
                        path_case = \"keep\"\n";

fn rules(lines: &str) -> Rules {
    let text = format!(
        "{lines}[[rule]]\nname = \"a\"\nkey = \"path\"\ncapacity = 100\n\
         match = {{ path = \"/a/**\" }}\nlimits = \"1000000/s\"\n"
    );
    Rules::parse("r.toml", &text).expect("a rule")
}

struct Read {
    rules: Rules,
    gate: RulesLimiter<ManualClock>,
}

impl Read {
    fn new(lines: &str) -> Self {
        let gate = RulesLimiter::with_clock(rules(lines), Arc::new(ManualClock::new()));
        Self { rules: rules(lines), gate: gate.expect("there is memory") }
    }

    fn is_admitted(&self, path: &str) -> bool {
        self.gate.decide(&Request { path, ..Request::default() }).is_admitted()
    }

    fn applies(&self, path: &str) -> bool {
        self.rules.rules()[0].matches(&Request { path, ..Request::default() })
    }

    /// The path as a key has it.
    fn key(&self, path: &str) -> String {
        let request = Request { path, ..Request::default() };
        self.rules.rules()[0].key().values(&request, |_| String::new()).expect("a path").remove(0)
    }
}

static DEFAULT: LazyLock<Read> = LazyLock::new(|| Read::new(""));
static NGINX: LazyLock<Read> = LazyLock::new(|| Read::new(AS_NGINX));
static KEPT: LazyLock<Read> = LazyLock::new(|| {
    Read::new(&AS_NGINX.replace("encoded_slash = \"decode\"", "encoded_slash = \"keep\""))
});
/// The two readings of an encoded slash that the default leaves open.
static BY_DEFAULT: LazyLock<[Read; 2]> = LazyLock::new(|| {
    ["decode", "keep"].map(|how| Read::new(&format!("encoded_slash = \"{how}\"\n")))
});

/// The segments of a path at a server that resolves dots as nginx does, and merges slashes afterwards.
fn resolved_before_merging(path: &str) -> Vec<Vec<u8>> {
    let bytes = unescaped(path.split(['?', '#']).next().unwrap_or_default().as_bytes());
    let bytes = bytes.strip_prefix(b"/").unwrap_or(&bytes);
    let mut segments: Vec<&[u8]> = Vec::new();
    for segment in bytes.split(|byte| *byte == b'/') {
        match segment {
            b"." => {}
            b".." => drop(segments.pop()),
            other => segments.push(other),
        }
    }
    segments.into_iter().filter(|its| !its.is_empty()).map(<[u8]>::to_vec).collect()
}

/// Checks the properties of a path.
pub(crate) fn hold(path: &str) {
    let segments = normalised(path);
    // The key has the reference's bytes; no segment has a slash, and case counts. Paths with a NUL, or with dots that
    // others resolve differently, have one key.
    let has_nul = path.split(['?', '#']).next().is_some_and(|bare| bare.contains("%00"));
    let is_unclear = has_nul || resolved_before_merging(path) != segments;
    let counted = if is_unclear { vec![vec![0]] } else { segments.clone() };
    let mut key = match planted(Mistake::SlashKept) {
        true => KEPT.key(path),
        false => NGINX.key(path),
    };
    if planted(Mistake::SegmentLost) {
        key.truncate(key.rfind('/').unwrap_or(0));
    }
    let named = key.split('/').skip(1).map(|segment| unescaped(segment.as_bytes()));
    match counted.is_empty() {
        true => assert_eq!(key, "/", "{path}"),
        false => assert_eq!(named.collect::<Vec<_>>(), counted, "{path}: {key}"),
    }
    // A path that nginx serves under /a is counted as nginx reads it, and counted or denied by default.
    let (reached, is_short) =
        (segments.first().is_some_and(|its| its == b"a"), path.len() <= 2_048);
    if reached {
        assert!(NGINX.applies(path), "{path}");
        assert!(DEFAULT.applies(path), "{path}");
    }
    // A rule that applies by one reading of the slash only denies by default.
    let [decoded, kept] = BY_DEFAULT.each_ref().map(|read| read.applies(path));
    if decoded != kept && is_short {
        let is_admitted = DEFAULT.is_admitted(path) || planted(Mistake::UnclearAdmitted);
        assert!(!is_admitted, "{path}");
    }
    assert!(DEFAULT.applies(path) || DEFAULT.is_admitted(path), "no rule, no denial: {path}");
    assert!(!DEFAULT.rules.explain_request(&Request { path, ..Request::default() }).is_empty());
}
