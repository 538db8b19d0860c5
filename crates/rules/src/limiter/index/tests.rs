use proptest::prelude::*;

use super::*;
use crate::limiter::RulesLimiter;
use crate::request::Request;
use crate::request::path::{Fit, Segments};
use crate::rule::Rules;

fn gate(text: &str) -> RulesLimiter {
    let rules = Rules::parse("r.toml", text).unwrap_or_else(|error| panic!("{error}"));
    RulesLimiter::new(rules).expect("memory")
}

/// The candidates of a request, and the rules that match it: by the index, and by trying each.
fn matched(gate: &RulesLimiter, request: &Request<'_>) -> (usize, Vec<usize>, Vec<usize>) {
    let (mut path, mut host) = (Segments::new(""), Segments::new(""));
    let split = SplitRequest::new(request, gate.needs, &mut path, &mut host);
    let fits = |rule: &usize| gate.active[*rule].rule.matcher.fit(&split) != Fit::None;
    let candidates = gate.index.candidates(&split);
    let all = RuleSet::all(gate.active.len());
    let count = candidates.clone().count();
    (count, candidates.filter(fits).collect(), all.filter(fits).collect())
}

#[test]
fn a_set_of_all_rules_has_each_once_in_order() {
    for count in [1, 63, 64, 65, 128, 2_047, RULES_MAX] {
        assert!(RuleSet::all(count).eq(0..count), "{count}");
    }
}

#[test]
fn hashes_of_pieces_equal_hashes_of_the_whole_in_either_case() {
    let text = b"A Segment-of_various/lengths";
    for end in 0..text.len() {
        let part = &text[..end];
        assert_eq!(hash_of(part), hash_of_bytes(part.iter().copied()));
        assert_eq!(hash_of(part), hash_of(&part.to_ascii_uppercase()));
        assert!(end == 0 || hash_of(part) != hash_of(&part[1..]), "{end}");
    }
}

#[test]
fn a_request_has_few_candidates_among_a_thousand_rules() {
    let rule = |nth: usize| match nth % 4 {
        0 => format!("path = \"/api/v1/service{nth}/**\""),
        1 => format!("path = \"/tenant{nth}/*/items\", method = \"POST\""),
        2 => format!("ip = \"10.{}.{}.0/24\"", nth / 256, nth % 256),
        _ => format!("path = \"/api/v2/users/{nth}\", method = \"GET\""),
    };
    let text: String = (0..1_000)
        .map(|nth| {
            format!(
                "[[rule]]\nname = \"{nth}\"\nmatch = {{ {} }}\ncapacity = 1\nlimits = \"1/s\"\n",
                rule(nth)
            )
        })
        .collect();
    let gate = gate(&text);
    let peer = Some([10, 1, 46, 7].into());
    for (method, path, rules) in [
        ("GET", "/api/v1/service996/a", vec![302, 996]),
        ("HEAD", "/api/v2/users/%39%399", vec![302, 999]),
        ("POST", "/Tenant997/b/items", vec![302, 997]),
        ("GET", "/tenant997/b/items", vec![302]),
        ("GET", "/a/../api/v2/users/7", vec![7, 302]),
        ("GET", "/nothing", vec![302]),
    ] {
        let request = Request { method, path, peer, ..Request::default() };
        let (candidates, by_index, by_trying) = matched(&gate, &request);
        assert_eq!((&by_index, &by_trying), (&rules, &rules), "{path}");
        assert!(candidates <= 2, "{path}: {candidates}");
    }
}

#[test]
fn more_methods_than_are_told_apart_are_no_mistake() {
    let text: String = ('A'..='Z')
        .map(|name| format!("[[rule]]\nname = \"{name}\"\nmatch = {{ method = \"{name}\" }}\ncapacity = 1\nlimits = \"1/s\"\n"))
        .collect();
    let gate = gate(&text);
    for (nth, name) in ('A'..='Z').enumerate() {
        let method = name.to_string();
        let (_, by_index, by_trying) =
            matched(&gate, &Request { method: &method, ..Request::default() });
        assert_eq!((by_index, by_trying), (vec![nth], vec![nth]), "{name}");
    }
}

/// A match of few words, so that rules and requests meet.
fn any_match() -> impl Strategy<Value = String> {
    let path = || "(/(a|b|A|%61|\\*|\\*\\*)){1,6}|/";
    let network = "(10\\.0\\.0\\.0/(8|16|30)|10\\.0\\.0\\.[123]|0\\.0\\.0\\.0/0|::/0|2001:db8::/(32|64)|2001:db8::1)";
    let paths = prop::collection::vec(path(), 1..3).prop_map(|paths| format!("path = {paths:?}"));
    let networks = prop::collection::btree_set(network, 1..3)
        .prop_map(|its| format!("ip = {:?}", its.into_iter().collect::<Vec<_>>()));
    let methods = "method = (\"GET\"|\"HEAD\"|\"POST\"|\\[\"PUT\", \"GET\"\\])".prop_map(|its| its);
    let other = "host = \"(a|\\*)\\.com\"|query = \\{ a = true \\}|cookie = \\{ c = \"1\" \\}";
    let not = path().prop_map(|path| format!("not = {{ path = {path:?} }}"));
    let maybe = |part: BoxedStrategy<String>, chance| prop::option::weighted(chance, part);
    (
        maybe(paths.boxed(), 0.6),
        maybe(networks.boxed(), 0.3),
        maybe(methods.boxed(), 0.4),
        maybe(other.boxed(), 0.2),
        maybe(not.boxed(), 0.2),
    )
        .prop_map(|(paths, networks, methods, other, not)| {
            let parts = [paths, networks, methods, other, not];
            format!("{{ {} }}", parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
        })
}

fn any_rule() -> impl Strategy<Value = String> {
    (any_match(), 0..12_u8).prop_map(|(matcher, kind)| {
        let rest = match kind {
            0 => "action = \"exempt\"",
            1 => "action = \"deny\"",
            2 => "action = \"deny\", shadow = true",
            3 => "capacity = 1, limits = \"1/s\", shadow = true",
            4 => "capacity = 1, limits = \"1/s\", key = \"header:x\", on_no_key = \"skip\"",
            5 => "capacity = 1, limits = \"1/s\", key = \"header:x\", on_no_key = \"deny\"",
            _ => "capacity = 1, limits = \"1/s\", key = [\"ip\", \"path\"]",
        };
        format!("match = {matcher}, {rest}")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The same rules match in the same order, and the same decision follows.
    #[test]
    fn deciding_by_the_index_equals_trying_every_rule(
        settings in "(encoded_slash = \"(decode|keep)\"\n)?(path_case = \"keep\"\n)?(apply = \"first\"\n)?",
        rules in prop::collection::vec(any_rule(), 1..100),
        requests in prop::collection::vec(
            ("GET|HEAD|POST|PUT|DELETE", "(/(a|b|A|%61|\\.\\.|%2e|a;v|a%2fb|%5c|a%00|)){0,6}(\\?a)?",
             "10\\.0\\.0\\.[0-4]|::ffff:10\\.0\\.0\\.1|9\\.9\\.9\\.9|2001:db8::[12]|2001:db8:0:1::1|"), 1..40),
    ) {
        let rules: String =
            (0..).zip(&rules).map(|(nth, rule)| format!("{{ name = \"{nth}\", {rule} }},\n")).collect();
        let gate = gate(&format!("{settings}rule = [\n{rules}]"));
        for (method, path, peer) in &requests {
            let headers = [("cookie", "c=1")];
            let host = Some("a.com");
            let request = Request { method, path, host, headers: &headers, peer: peer.parse().ok() };
            let (_, by_index, by_trying) = matched(&gate, &request);
            prop_assert_eq!(by_index, by_trying, "{:?}", request);
            prop_assert_eq!(gate.applicable(&request, true), gate.applicable(&request, false), "{:?}", request);
        }
    }
}
