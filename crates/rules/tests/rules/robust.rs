//! Any text parses to rules or to errors with a place; any request is decided.

use std::panic::catch_unwind;
use std::sync::{Arc, LazyLock};

use proptest::prelude::*;
use tollgate::ManualClock;
use tollgate_rules::{Request, Rules, RulesLimiter};

use crate::file_body::{Mistake, hold, plant};
use crate::seeds::seeds_of;

const EXAMPLE: &str = include_str!("../../../../rules/example.toml");

static GATE: LazyLock<RulesLimiter<ManualClock>> = LazyLock::new(|| {
    let rules = Rules::parse("rules/example.toml", EXAMPLE).expect("it is right");
    RulesLimiter::with_clock(rules, Arc::new(ManualClock::new())).expect("there is memory")
});

#[test]
fn the_example_file_parses() {
    let rules =
        Rules::parse("rules/example.toml", EXAMPLE).unwrap_or_else(|error| panic!("{error}"));
    let names: Vec<_> = rules.rules().iter().map(|rule| rule.name()).collect();
    assert_eq!(names, ["posts", "accounts", "rewards", "logins", "search", "everything"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_file_body_holds_for_any_text(text in "\\PC{0,80}|([\\[\\]{}=\",.#a-z0-9 \\n\\\\]){0,120}") {
        hold(&text);
    }

    #[test]
    fn the_file_body_holds_for_a_rule_with_any_value(
        key in "name|match|action|key|ipv6_prefix|on_no_key|algorithm|limits|plan|cost|concurrency|bytes|capacity|on_full|shadow|penalty|[a-z_]{1,8}",
        value in "\"(limit|exempt|deny)\"|\"\\PC{0,12}\"|'[a-z0-9/*: ]{0,12}'|-?[0-9]{1,5}|true|\\{ (header|query|cookie|not) = \\{ (a|path|ip|method) = (true|\"[a-z/0-9.:]{0,12}\") \\} \\}|\\{ (limit|max|estimate|header|bytes|response_header|by) = ([0-9]{1,4}|\"(request|response|header:a|[a-z]{1,4})\")(, (max|estimate|limit|max_hold|default|gold) = ([0-9]{1,4}|\"[a-z0-9/ ]{0,8}\"))? \\}|\\[\"ip\", *\"(path|host)\"\\]|\\{ (by|default|max|bytes|estimate|response_header|limit|max_hold|quota|shared|ban|path|method|host|ip|not|header|query|cookie) = \"[a-zA-Z0-9/*. ]{0,12}\" \\}",
    ) {
        let mut text = String::from("[[rule]]\n");
        for (usual, its) in [("name", "\"a\""), ("limits", "\"5/s\"")] {
            if key != usual {
                text += &format!("{usual} = {its}\n");
            }
        }
        hold(&format!("{text}{key} = {value}\n"));
    }

    #[test]
    fn the_file_body_holds_for_the_example_with_a_few_changes(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0..4_usize, "\\PC|[\\n\"=\\[\\]{}*/0-9]"), 1..4),
    ) {
        let mut text: Vec<char> = EXAMPLE.chars().collect();
        for (at, kind, with) in changes {
            let at = at.index(text.len());
            match kind {
                0 => { text.remove(at); }
                1 => text.insert(at, with.chars().next().unwrap_or('x')),
                2 => text[at] = with.chars().next().unwrap_or('x'),
                _ => { let end = (at + 9).min(text.len()); text.drain(at..end); }
            }
        }
        hold(&text.into_iter().collect::<String>());
    }

    #[test]
    fn any_request_is_decided(
        method in "\\PC{0,8}", path in "[/.%2eEa-z?é]{0,60}", host in "\\PC{0,20}",
        name in "x-user|x-device|cookie|\\PC{0,6}", value in "\\PC{0,300}",
    ) {
        let headers = [(name.as_str(), value.as_str())];
        let (host, headers) = (Some(host.as_str()), &headers);
        let request = Request { method: &method, path: &path, host, headers, ..Request::default() };
        let _ = GATE.decide(&request);
    }
}

/// The corpus of the fuzz target.
fn seed_texts() -> Vec<String> {
    let text = |data: Vec<u8>| String::from_utf8_lossy(&data).into_owned();
    seeds_of("rules").into_iter().map(text).collect()
}

#[test]
fn the_kept_corpus_passes() {
    let seeds = seed_texts();
    seeds.iter().for_each(|text| hold(text));
    assert!(seeds.len() >= 8, "{}", seeds.len());
}

/// A body that finds no mistake would pass on any input.
#[test]
fn every_planted_mistake_is_found() {
    let seeds = seed_texts();
    for mistake in [
        Mistake::LineOff,
        Mistake::ColumnOff,
        Mistake::MessageLost,
        Mistake::ControlKept,
        Mistake::ErrorLost,
        Mistake::CaretOff,
        Mistake::SourceOff,
        Mistake::LimitLost,
    ] {
        plant(Some(mistake));
        let found = seeds.iter().any(|text| catch_unwind(|| hold(text)).is_err());
        plant(None);
        assert!(found, "{mistake:?} was not found");
    }
}
