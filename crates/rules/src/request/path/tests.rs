use proptest::prelude::*;

use super::oddities::ODD_BYTES_MAX;
use super::reading::{Dots, Params, PathReading};
use super::*;

const KEEPS: Spelling = Spelling {
    encoded_slash: Separator::Never,
    backslash: Separator::Never,
    keeps_params: true,
    keeps_case: true,
};
const DECODES: Spelling = Spelling { encoded_slash: Separator::Always, ..KEEPS };

/// The segments of a path without oddities; `None` if it has any.
fn plain(path: &str, spelling: Spelling) -> Option<Vec<&str>> {
    let mut segments = Segments::new("");
    let odd = split(without_query(path), spelling, &mut segments);
    (!odd.any()).then(|| segments.as_slice().to_vec())
}

/// The key of a path.
fn counted(path: &str, spelling: Spelling) -> String {
    let mut segments = Segments::new("");
    split_for_keys(path, spelling, &mut segments);
    segments.as_slice().join("/")
}

fn in_keys(path: &str, spelling: Spelling) -> Vec<&str> {
    PathReading::of_keys(spelling).of(without_query(path)).as_slice().to_vec()
}

/// All readings with their segments joined, each once.
fn readings(path: &str, spelling: Spelling) -> Option<Vec<String>> {
    let odd = split(path, spelling, &mut Segments::new(""));
    let mut all: Vec<String> =
        odd.readings()?.iter().map(|its| its.of(path).as_slice().join("|")).collect();
    all.dedup();
    Some(all)
}

#[test]
fn a_path_that_all_servers_read_alike_has_no_oddities() {
    for (path, segments) in [
        ("/a/b", &["a", "b"][..]),
        ("//a///b/", &["a", "b"]),
        ("/a/...", &["a", "..."]),
        ("/.well-known/a..b/c.", &[".well-known", "a..b", "c."]),
        ("/a?/../b", &["a"]),
        ("/a#/../b", &["a"]),
        ("/%6cogin", &["%6cogin"]),
        ("*", &["*"]),
        ("", &[]),
        ("/é/%", &["é", "%"]),
        ("/%2", &["%2"]),
        ("/%252f", &["%252f"]),
    ] {
        assert_eq!(plain(path, Spelling::default()).as_deref(), Some(segments), "{path}");
        assert_eq!(in_keys(path, Spelling::default()), segments, "{path}");
    }
    for odd in ["/.", "/a/../b", "/%2e/a", "/a%2Fb", "/a%5cb", "/a\\b", "/a;b", "/a%00", "/..;a/b"]
    {
        assert_eq!(plain(odd, Spelling::default()), None, "{odd}");
    }
    assert_eq!(plain("/a%2Fb/a\\b/a;b", KEEPS).as_deref(), Some(&["a%2Fb", "a\\b", "a;b"][..]));
}

#[test]
fn each_oddity_has_its_readings() {
    let none = Spelling::default();
    let always = Separator::Always;
    let decodes_all = Spelling { encoded_slash: always, backslash: always, ..none };
    for (path, spelling, expected) in [
        ("/a/../b", none, &["b", "a|..|b"][..]),
        ("/a//../b", none, &["b", "a|b", "a|..|b"]),
        ("/a%2fb", none, &["a|b", "a%2fb"]),
        ("/a%2fb", DECODES, &["a|b"]),
        ("/a\\b", none, &["a|b", "a\\b"]),
        ("/a%00b", none, &["a%00b", "a"]),
        ("/a;x/b", none, &["a;x|b", "a|b"]),
        ("/;x/a", none, &[";x|a", "a"]),
        ("/a/..;x/b", none, &["a|..;x|b", "b", "a|..|b"]),
        ("/x%2f..%2fa", DECODES, &["a", "x|..|a"]),
        ("/a;x%2fy/b", decodes_all, &["a;x|y|b", "a|y|b", "a|b"]),
        ("/a;x\\y;z/b;%5c", decodes_all, &["a;x|y;z|b;", "a|y|b", "a|b"]),
        ("/a%2fb;x;/c", decodes_all, &["a|b;x;|c", "a|b|c"]),
        (
            "/a;%00%2fb",
            Spelling { backslash: Separator::Never, ..decodes_all },
            &["a;%00|b", "a|b", "a", "a;", "a"],
        ),
        ("/;%2fa/b", decodes_all, &[";|a|b", "a|b", "b"]),
        ("/a;x%2fy", none, &["a;x|y", "a|y", "a", "a;x%2fy", "a"]),
    ] {
        assert_eq!(readings(path, spelling).as_deref(), Some(&expected.map_owned()[..]), "{path}");
    }
    let long = format!("/{}/../b", "a".repeat(ODD_BYTES_MAX));
    for too_odd in ["/a%2fb\\c", "/a%2fb%00", &*long] {
        assert_eq!(readings(too_odd, none), None, "{too_odd}");
    }
}

trait MapOwned {
    fn map_owned(&self) -> Vec<String>;
}

impl MapOwned for &[&str] {
    fn map_owned(&self) -> Vec<String> {
        self.iter().map(|&text| text.to_owned()).collect()
    }
}

#[test]
fn a_rule_that_applies_by_some_readings_only_is_unclear_or_applies() {
    let fit = |path: &str, spelling, wanted: &str| {
        let odd = split(path, spelling, &mut Segments::new(""));
        odd.fits(path, |segments| segments.first() == Some(&wanted))
    };
    let none = Spelling::default();
    for (path, wanted, expected) in [
        ("/login%2f", "login", Fit::Unclear),
        ("/%2flogin", "login", Fit::Unclear),
        ("/x%2f..%2flogin", "login", Fit::Unclear),
        ("/login%2Findex.html", "login", Fit::Unclear),
        ("/login%00", "login", Fit::Unclear),
        ("/login\\x", "login", Fit::Unclear),
        ("/files/a%2fb", "login", Fit::None),
        ("/files/a%2fb", "files", Fit::All),
        ("/files/a%2f..%2f..%2flogin", "login", Fit::Unclear),
        ("/a/../login", "login", Fit::Some),
        ("/login;x", "login", Fit::Some),
        ("/login/../x", "login", Fit::Some),
        ("/login/./x", "login", Fit::All),
    ] {
        assert_eq!(fit(path, none, wanted), expected, "{path}");
    }
    for spelling in [DECODES, Spelling { encoded_slash: Separator::Always, ..none }] {
        assert_eq!(fit("/login%2f", spelling, "login"), Fit::All);
    }
    assert_eq!(fit("/login%2f", KEEPS, "login"), Fit::None);
}

#[test]
fn escapes_are_decoded_once() {
    for (segment, expected) in [
        ("%6cogin", &b"login"[..]),
        ("a%2Fb", b"a/b"),
        ("100%", b"100%"),
        ("%zz%4", b"%zz%4"),
        ("%252f", b"%2f"),
        ("%c0%af", b"\xc0\xaf"),
    ] {
        assert_eq!(decoded(segment).collect::<Vec<_>>(), expected, "{segment}");
    }
}

/// How servers of a spelling may read and resolve a path.
fn readings_of_servers(spelling: Spelling) -> Vec<PathReading> {
    let may_be = |separator, is| match separator {
        Separator::Unclear => true,
        Separator::Always => is,
        Separator::Never => !is,
    };
    let both = [false, true];
    let mut readings = Vec::new();
    for encoded_slash in both.into_iter().filter(|is| may_be(spelling.encoded_slash, *is)) {
        for backslash in both.into_iter().filter(|is| may_be(spelling.backslash, *is)) {
            let all = [Params::Kept, Params::Dropped, Params::DroppedToSlash];
            for &params in &all[..if spelling.keeps_params { 1 } else { 3 }] {
                for dots in [Dots::Resolved, Dots::ResolvedBeforeMerging] {
                    let ends_at_nul = false;
                    let reading =
                        PathReading { encoded_slash, backslash, ends_at_nul, params, dots };
                    readings.push(reading);
                }
            }
        }
    }
    readings
}

include!("../../../tests/rules/nginx_reading.rs");

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_reading_for_keys_equals_the_normalisation_of_nginx(path in "/([/.%?#;é\\\\]|%2[fFeE5]|%[0-9a-f]{2}|[a-c]){0,20}") {
        let ours: Vec<Vec<u8>> =
            in_keys(&path, DECODES).iter().map(|segment| decoded(segment).collect()).collect();
        prop_assert_eq!(&ours, &normalised(&path));
        // The first reading that rules try is the same.
        let bare = without_query(&path);
        let odd = split(bare, DECODES, &mut Segments::new(""));
        if let Some(readings) = odd.readings() {
            prop_assert_eq!(readings[0].of(bare).as_slice().to_vec(), in_keys(&path, DECODES));
        }
    }

    /// The bucket of what a server makes of a path is that of the path, or the one of all unclear paths.
    #[test]
    fn no_spelling_gives_a_path_a_key_of_its_own(path in "/([/.;ab\\\\]|%2[fF]|%5[cC]|%2e|\\.\\./){0,14}") {
        let decoded_slash = Spelling { encoded_slash: Separator::Always, ..Spelling::default() };
        let decodes_all = Spelling { backslash: Separator::Always, ..decoded_slash };
        for spelling in [Spelling::default(), decoded_slash, decodes_all, DECODES, KEEPS] {
            let counted_path = counted(&path, spelling);
            for reading in readings_of_servers(spelling) {
                let served = format!("/{}", reading.of(&path).as_slice().join("/"));
                let counted_served = counted(&served, spelling);
                let is_one = counted_path == "%00" || counted_path == counted_served;
                prop_assert!(is_one, "{reading:?}: {counted_path} {served}");
            }
        }
    }

    #[test]
    fn any_path_splits_into_segments_without_empty_ones(path in "\\PC{0,40}|[/.%2eEa-c?é;\\\\05fF]{0,40}", count in 0_usize..40) {
        for spelling in [Spelling::default(), DECODES, KEEPS] {
            let bare = without_query(&path);
            let odd = split(bare, spelling, &mut Segments::new(""));
            for reading in odd.readings().unwrap_or_default() {
                for segment in reading.of(bare).as_slice() {
                    prop_assert!(!segment.is_empty() && !segment.contains('/'));
                    prop_assert!(decoded(segment).count() <= segment.len());
                }
            }
            let is_plain = plain(&path, spelling);
            prop_assert!(is_plain.is_none_or(|plain| plain == in_keys(&path, spelling)));
        }
        prop_assert_eq!(plain(&"/a".repeat(count), KEEPS).map(|its| its.len()), Some(count));
    }
}
