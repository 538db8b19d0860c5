//! Rules that no request can reach, because an earlier rule ends the evaluation of all that they match.
//!
//! The check is sound and not complete. No request reaches a rule that is reported, with two exceptions, which the
//! warning names. The earlier rule may match a request by some readings of its path or its method only: a rule exempts
//! no `post` as a `POST`. And no exception of the rule holds for a path with too many readings. Some unreachable rules
//! are not reported, such as one that two earlier rules cover together.

use crate::key::OnNoKey;
use crate::matcher::{Conditions, Matcher, Pattern, ValueCondition, ValueTest};
use crate::rule::{Action, Apply, Rule};

/// The most segments, methods and values that are compared, so that the check of a file takes less than a second.
const COMPARISONS_MAX: usize = 20_000_000;

/// Why no request reaches a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreached {
    /// One of its own exceptions excludes all that it matches.
    Excluded {
        /// Whether each such exception has a path, and the rule answers 400 to a path with too many readings.
        by_path: bool,
    },
    /// The earlier rule with this index ends the evaluation.
    Covered(usize),
}

/// The rules, by their indexes, that no request reaches.
pub(crate) fn unreached(apply: Apply, rules: &[Rule]) -> Vec<(usize, Unreached)> {
    let mut check = Check { comparisons_left: COMPARISONS_MAX };
    let mut found = Vec::new();
    let mut last_rules: Vec<LastRule> = Vec::new();
    for (index, rule) in rules.iter().enumerate() {
        let its = &rule.matcher;
        // An exception that excludes every reading comes first.
        let excluded = [false, true].into_iter().find(|by_path| {
            let denies_odd_paths = rule.action != Action::Exempt;
            let is_by_path = |one: &Conditions| denies_odd_paths && one.uses_path();
            let mut exceptions = its.exceptions.iter().filter(|one| is_by_path(one) == *by_path);
            exceptions.any(|one| check.includes(one, &its.conditions, its))
        });
        if let Some(by_path) = excluded {
            found.push((index, Unreached::Excluded { by_path }));
            continue;
        }
        let covering = last_rules.iter().find(|last| check.covers(last, its));
        if let Some(last) = covering {
            found.push((index, Unreached::Covered(last.index)));
        } else if ends_evaluation(apply, rule) {
            // A rule that limits or denies also denies a path of which it is unclear how servers read it.
            let has_all_paths = rule.action != Action::Exempt
                && rule.matcher.conditions.paths.iter().any(Pattern::fits_all);
            last_rules.push(LastRule { index, matcher: &rule.matcher, has_all_paths });
        }
    }
    found
}

/// Whether no later rule is tried for a request that the rule matches by every reading of its path.
fn ends_evaluation(apply: Apply, rule: &Rule) -> bool {
    match rule.action {
        Action::Exempt => true,
        Action::Deny => !rule.is_shadow,
        Action::Limit => {
            apply == Apply::First && !rule.is_shadow && rule.on_no_key != OnNoKey::Skip
        }
    }
}

/// A rule that ends the evaluation of what it matches.
struct LastRule<'r> {
    index: usize,
    matcher: &'r Matcher,
    /// Whether its paths exclude no request.
    has_all_paths: bool,
}

struct Check {
    comparisons_left: usize,
}

impl Check {
    /// Whether `last` ends the evaluation of every request that `some` matches.
    fn covers(&mut self, last: &LastRule<'_>, some: &Matcher) -> bool {
        let (all, keeps_case) = (last.matcher, some.spelling.keeps_case);
        all.exceptions.iter().all(|its| some.exceptions.contains(its))
            && self.includes_besides_path(&all.conditions, &some.conditions)
            && (last.has_all_paths
                || self.patterns(&all.conditions.paths, &some.conditions.paths, keeps_case))
    }

    /// Whether `all` holds for every request for which `some` holds.
    fn includes(&mut self, all: &Conditions, some: &Conditions, matcher: &Matcher) -> bool {
        self.includes_besides_path(all, some)
            && self.patterns(&all.paths, &some.paths, matcher.spelling.keeps_case)
    }

    /// [`includes`](Self::includes) without the paths.
    fn includes_besides_path(&mut self, all: &Conditions, some: &Conditions) -> bool {
        let methods = all.methods.len().saturating_mul(some.methods.len());
        let values = all.values.len().saturating_mul(some.values.len());
        if !self.spend(methods.saturating_add(values)) {
            return false;
        }
        let methods = all.methods.is_empty()
            || !some.methods.is_empty() && some.methods.iter().all(|its| all.allows(its));
        methods
            && all.networks.includes(&some.networks)
            && all.values.iter().all(|its| some.values.iter().any(|other| implies(other, its)))
            && self.patterns(&all.hosts, &some.hosts, false)
    }

    /// Whether one of `all` fits all that any of `some` fits. No pattern at all fits everything.
    fn patterns(&mut self, all: &[Pattern], some: &[Pattern], keeps_case: bool) -> bool {
        if all.is_empty() || some.is_empty() {
            return all.is_empty();
        }
        some.iter().all(|its| all.iter().any(|other| self.pattern(other, its, keeps_case)))
    }

    /// Whether a pattern fits all that another one fits; false if that takes too many comparisons.
    fn pattern(&mut self, all: &Pattern, some: &Pattern, keeps_case: bool) -> bool {
        let includes = all.includes(some, keeps_case, &mut self.comparisons_left);
        includes.unwrap_or_else(|| {
            self.comparisons_left = 0;
            false
        })
    }

    /// Takes comparisons off those that are left. If there are too few, none are left.
    fn spend(&mut self, comparisons: usize) -> bool {
        let left = self.comparisons_left.checked_sub(comparisons);
        self.comparisons_left = left.unwrap_or(0);
        left.is_some()
    }
}

/// Whether a condition holds wherever `known` holds.
fn implies(known: &ValueCondition, other: &ValueCondition) -> bool {
    let is_present = matches!((&known.test, &other.test), (ValueTest::Is(_), ValueTest::Present));
    known == other || (known.of == other.of && is_present)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Rules;

    fn found(text: &str) -> Vec<(usize, Unreached)> {
        let rules = Rules::parse("r.toml", text).unwrap_or_else(|error| panic!("{error}"));
        unreached(rules.apply(), rules.rules())
    }

    /// Whether a rule that exempts what `first` matches covers a rule that matches `second`.
    fn is_covered(first: &str, second: &str) -> bool {
        let text = format!(
            "rule = [{{ name = \"a\", match = {first}, action = \"exempt\" }},
                     {{ name = \"b\", match = {second}, limits = \"1/s\" }}]"
        );
        match found(&text)[..] {
            [] => false,
            [(1, Unreached::Covered(0))] => true,
            ref other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_match_is_covered_by_one_with_weaker_conditions() {
        for (first, second, covered) in [
            ("{}", "{ path = \"/a\" }", true),
            ("{ path = \"/a\" }", "{}", false),
            ("{ path = \"/a\" }", "{ path = \"/A\" }", true),
            ("{ path = \"/a/**\" }", "{ path = [\"/a\", \"/a/b/*\"] }", true),
            ("{ path = \"/a/**\" }", "{ path = [\"/a\", \"/b\"] }", false),
            ("{ path = \"/a/*\" }", "{ path = \"/a/**\" }", false),
            ("{ path = \"/a/*\" }", "{ path = \"/a/*\", method = \"GET\" }", true),
            ("{ path = \"/**\" }", "{ path = \"/a/*/b\" }", true),
            ("{ path = \"/**/b\" }", "{ path = \"/a/*/b\" }", true),
            ("{ path = \"/a/**/b\" }", "{ path = \"/a/b/**\" }", false),
            ("{ method = \"GET\" }", "{ method = [\"HEAD\", \"GET\"] }", true),
            ("{ method = \"HEAD\" }", "{ method = \"GET\" }", false),
            ("{ method = [\"GET\", \"POST\"] }", "{}", false),
            ("{ host = \"*.a.com\" }", "{ host = \"b.A.com\" }", true),
            ("{ host = \"a.com\" }", "{ host = \"*.com\" }", false),
            ("{ ip = \"10.0.0.0/8\" }", "{ ip = [\"10.1.0.0/16\", \"10.2.3.4\"] }", true),
            ("{ ip = \"10.1.0.0/16\" }", "{ ip = \"10.0.0.0/8\" }", false),
            ("{ ip = \"10.0.0.0/8\" }", "{ ip = [\"10.0.0.0/9\", \"::1\"] }", false),
            ("{ ip = \"0.0.0.0/0\" }", "{}", false),
            ("{ header = { a = true } }", "{ header = { a = \"1\" } }", true),
            ("{ header = { a = \"1\" } }", "{ header = { a = true } }", false),
            ("{ header = { a = true } }", "{ cookie = { a = true } }", false),
            ("{ query = { a = \"1\" } }", "{ query = { a = \"1\", b = true } }", true),
            ("{ not = { path = \"/b\" } }", "{ path = \"/a\" }", false),
            ("{ not = { path = \"/b\" } }", "{ path = \"/a\", not = { path = \"/b\" } }", true),
            ("{ path = \"/a\" }", "{ path = \"/a\", not = { method = \"GET\" } }", true),
        ] {
            assert_eq!(is_covered(first, second), covered, "{first} {second}");
        }
    }

    #[test]
    fn only_a_rule_that_ends_the_evaluation_covers_later_ones() {
        let after = |apply: &str, first: &str| {
            found(&format!(
                "apply = \"{apply}\"
                 rule = [{{ name = \"a\", {first} }}, {{ name = \"b\", limits = \"1/s\" }}]"
            ))
            .len()
        };
        for (first, all, by_first) in [
            ("action = \"exempt\"", 1, 1),
            ("action = \"deny\"", 1, 1),
            ("action = \"deny\", shadow = true", 0, 0),
            ("limits = \"1/s\"", 0, 1),
            ("limits = \"1/s\", shadow = true", 0, 0),
            ("limits = \"1/s\", key = \"header:a\", on_no_key = \"skip\"", 0, 0),
            ("limits = \"1/s\", key = \"header:a\", on_no_key = \"deny\"", 0, 1),
        ] {
            assert_eq!((after("all", first), after("first", first)), (all, by_first), "{first}");
        }
    }

    /// An odd path may be read in too many ways: then a rule that exempts `/**` does not apply, and one that limits or
    /// denies it denies the request.
    #[test]
    fn a_rule_for_all_paths_that_limits_or_denies_covers_rules_without_a_path() {
        let after = |apply: &str, first: &str, second: &str| {
            let text = format!(
                "apply = \"{apply}\"
                 rule = [{{ name = \"a\", match = {{ {first} }}, NEXT }},
                         {{ name = \"b\", {second}, limits = \"1/s\" }}]"
            );
            let limits = ("limits = \"1/s\"", apply == "first");
            [("action = \"exempt\"", false), ("action = \"deny\"", true), limits]
                .map(|(does, covers)| (found(&text.replace("NEXT", does)).len() == 1) == covers)
        };
        let (key, all) = ("key = \"ip\"", "path = [\"/a\", \"/**\"]");
        for apply in ["all", "first"] {
            assert_eq!(after(apply, all, key), [true; 3], "{apply}");
        }
        let of_ip = format!("{all}, ip = \"10.0.0.0/8\"");
        let second = "match = { ip = \"10.1.0.0/16\" }";
        assert_eq!(after("first", &of_ip, second), [true; 3]);
        for first in [&of_ip, "path = \"/**/a\"", "path = \"/*/**\""] {
            assert_eq!(after("first", first, key), [true, false, false], "{first}");
        }
    }

    #[test]
    fn a_rule_that_excludes_all_that_it_matches_is_found() {
        let excluded = |matcher: &str| {
            let text = format!("rule = [{{ name = \"a\", match = {matcher}, limits = \"1/s\" }}]");
            matches!(found(&text)[..], [(0, Unreached::Excluded { .. })])
        };
        assert!(excluded(
            "{ path = \"/a/b\", not = [{ method = \"GET\" }, { path = \"/a/**\" }] }"
        ));
        assert!(!excluded("{ path = \"/a/**\", not = { path = \"/a/b\" } }"));
    }

    #[test]
    fn many_patterns_are_compared_in_bounded_time() {
        let paths: Vec<String> = (0..5_000).map(|nth| format!("\"/{nth}\"")).collect();
        let matcher = format!("{{ path = [{}] }}", paths.join(", "));
        assert!(!is_covered(&matcher, &matcher), "25 million comparisons are too many");
    }

    #[test]
    fn long_patterns_are_compared_in_bounded_time() {
        let matcher = |piece: &str, count| format!("{{ path = \"{}\" }}", piece.repeat(count));
        assert!(is_covered(&matcher("/**", 1_000), &matcher("/*", 1_000)));
        assert!(
            !is_covered(&matcher("/**", 40_000), &matcher("/*", 40_000)),
            "1,600 million comparisons are too many"
        );
    }

    #[test]
    fn many_methods_are_compared_in_bounded_time() {
        let in_letters = |nth: u32| {
            let letters =
                nth.to_string().into_bytes().into_iter().map(|digit| char::from(digit + 17));
            format!("\"{}\"", letters.collect::<String>())
        };
        let methods: Vec<String> = (0..20_000_u32).map(in_letters).collect();
        let matcher = format!("{{ method = [{}] }}", methods.join(", "));
        assert!(!is_covered(&matcher, &matcher), "400 million comparisons are too many");
    }

    #[test]
    fn a_thousand_rules_with_a_path_are_all_compared() {
        let mut text = "apply = \"first\"\nrule = [".to_owned();
        for nth in 0..1_000 {
            text += &format!(
                "{{ name = \"{nth}\", match = {{ path = \"/api/v1/{nth}/**\" }}, limits = \"1/s\" }},\n"
            );
        }
        text += "{ name = \"last\", match = { path = \"/api/v1/7/*\" }, limits = \"1/s\" }]";
        assert_eq!(found(&text), [(1_000, Unreached::Covered(7))]);
    }
}
