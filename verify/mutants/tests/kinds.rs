//! The mutants found in a file, kind by kind, and the code that is left as it is.

use std::collections::BTreeSet;

use mutants::config::Config;
use mutants::find::find;
use mutants::mutant::{Found, LeftOut, SourceFile};
use mutants::render::render;

fn found(source: &str) -> Found {
    find("src/it.rs", source, &Config::default()).expect("the sample parses")
}

/// The mutants in the body of a function that returns nothing, without those of an immediate return.
fn changes(body: &str) -> Vec<String> {
    let found = found(&format!("fn f() {{\n{body}\n}}"));
    let mutants = found.places.iter().flat_map(|place| &place.mutants);
    let all = mutants.map(|mutant| mutant.what.replace(" in f", ""));
    all.filter(|what| what != "replace f with ()").collect()
}

#[test]
fn each_kind_of_place_has_its_changes() {
    for (body, expected) in [
        ("a < b", &["replace < with <=", "replace < with >="][..]),
        ("a <= b", &["replace <= with <", "replace <= with >"]),
        ("a > b", &["replace > with >=", "replace > with <="]),
        ("a >= b", &["replace >= with >", "replace >= with <"]),
        ("a == b", &["replace == with !="]),
        ("a != b", &["replace != with =="]),
        ("a + b", &["replace + with -", "replace + with *"]),
        ("a - b", &["replace - with +", "replace - with /"]),
        ("a * b", &["replace * with +", "replace * with /"]),
        ("a / b", &["replace / with %", "replace / with *"]),
        ("a % b", &["replace % with /", "replace % with +"]),
        ("a += b", &["replace += with -=", "replace += with *="]),
        ("a & b", &["replace & with |", "replace & with ^"]),
        ("a | b", &["replace | with &", "replace | with ^"]),
        ("a ^ b", &["replace ^ with |", "replace ^ with &"]),
        ("a << b", &["replace << with >>"]),
        ("a >> b", &["replace >> with <<"]),
        ("a <<= b", &["replace <<= with >>="]),
        ("a && b", &["replace && with ||"]),
        ("a || b", &["replace || with &&"]),
        ("!a", &["delete !"]),
        ("-a", &["delete -"]),
        ("7", &["replace 7 with 8", "replace 7 with 6"]),
        ("0u8", &["replace 0u8 with 1"]),
        ("true", &["replace true with false"]),
        (
            "a.saturating_sub(b)",
            &[
                "replace saturating_sub with saturating_add",
                "replace saturating_sub with wrapping_sub",
            ],
        ),
        ("a.checked_add(b)", &["replace checked_add with checked_sub"]),
        (
            "a.wrapping_add(b)",
            &["replace wrapping_add with wrapping_sub", "replace wrapping_add with saturating_add"],
        ),
        ("a.min(b)", &["replace min with max"]),
        (
            "if a() {}",
            &["replace condition with true", "replace condition with false", "negate condition"],
        ),
        (
            "if a == b {}",
            &["replace condition with true", "replace condition with false", "replace == with !="],
        ),
        ("while a() {}", &["replace condition with false", "negate condition"]),
        ("if let Some(_) = a {}", &[]),
        ("a.store(b);", &["delete statement"]),
        ("a = b;", &["delete statement"]),
        ("if let Some(_) = a { return; }", &["delete statement"]),
        ("loop { break; }", &["delete statement"]),
        ("loop { continue; }", &["delete statement"]),
        (
            "match a { A if b() => {} _ => {} }",
            &[
                "replace match guard b() with true",
                "replace match guard b() with false",
                "negate match guard",
            ],
        ),
        ("match a { A => {} B => {} _ => {} }", &["delete match arm A", "delete match arm B"]),
        ("match a { A => {} B => {} }", &[]),
    ] {
        assert_eq!(changes(body), expected, "{body}");
    }
}

#[test]
fn a_function_returns_another_value_of_its_type() {
    for (output, expected) in [
        ("", &["()"][..]),
        ("-> bool", &["true", "false"]),
        ("-> u64", &["0", "1"]),
        ("-> i8", &["0", "1", "-1"]),
        ("-> Option<u64>", &["None", "Some(0)", "Some(1)"]),
        ("-> Option<T>", &["None"]),
        ("-> io::Result<()>", &["Ok(())"]),
        ("-> &str", &["\"\""]),
        ("-> T", &[]),
    ] {
        let found = found(&format!("impl S {{ fn f() {output} {{ x }} }}"));
        let name = if output.is_empty() { "S::f".to_owned() } else { format!("S::f {output}") };
        let expected: Vec<_> =
            expected.iter().map(|value| format!("replace {name} with {value}")).collect();
        let mutants = found.places.iter().flat_map(|place| &place.mutants);
        assert_eq!(
            mutants.map(|mutant| mutant.what.clone()).collect::<Vec<_>>(),
            expected,
            "{output}"
        );
    }
}

#[test]
fn code_that_is_left_as_it_is_is_counted_by_reason() {
    for (source, reason, count) in [
        ("const A: u32 = 1 + 2;", LeftOut::Constant, 6),
        ("static A: u32 = 1;", LeftOut::Constant, 2),
        ("fn f() -> T { [a; 4] }", LeftOut::Constant, 2),
        ("fn f() { match a { 1 => {} b => {} } }", LeftOut::Pattern, 2),
        ("fn f(a: [u8; 4]) {}", LeftOut::Type, 2),
        ("fn f() { assert!(a < b) }", LeftOut::Macro, 2),
        ("fn f() { matches!(a, B if c) }", LeftOut::Macro, 1),
        ("macro_rules! m { () => {} }", LeftOut::MacroDefinition, 1),
        ("#[cfg(test)] mod tests { fn f() { a + b } }", LeftOut::Configuration, 3),
        ("#[test] fn f() { a + b }", LeftOut::Configuration, 3),
        ("#[cfg(tollgate_loom)] fn f() { a + b }", LeftOut::Configuration, 3),
        ("fn f() { if planted(1) { return; } }", LeftOut::Configuration, 3),
        ("fn f() { if cfg!(tollgate_loom) { 1 } else { a } }", LeftOut::Configuration, 2),
        ("fn f() { a && !planted(b) }", LeftOut::Configuration, 2),
        ("fn f() { if let A = a && b {} }", LeftOut::LetChain, 1),
        ("fn f() { fence(Ordering::SeqCst); }", LeftOut::Fence, 1),
        ("fn f() -> T { a }", LeftOut::ReturnType, 1),
    ] {
        let found = found(source);
        assert_eq!(found.left_out.get(&reason), Some(&count), "{source}");
        let mutants = found.places.iter().flat_map(|place| &place.mutants);
        let inside: Vec<_> = mutants.filter(|mutant| mutant.what != "replace f with ()").collect();
        assert!(inside.is_empty(), "{source}: {inside:?}");
    }
}

#[test]
fn memory_orderings_are_not_changed() {
    assert_eq!(changes("a.store(b, Ordering::Release)"), [""; 0]);
}

#[test]
fn a_key_names_the_text_of_a_line_and_tells_its_mutants_apart() {
    let found = found("fn f() {\n    a + b + c\n}");
    let keys: Vec<_> = found
        .places
        .iter()
        .flat_map(|place| &place.mutants)
        .map(|mutant| mutant.key.as_str())
        .collect();
    assert_eq!(
        keys,
        [
            "src/it.rs: replace f with () | a + b + c",
            "src/it.rs: replace + with - in f | a + b + c",
            "src/it.rs: replace + with * in f | a + b + c",
            "src/it.rs: replace + with - in f | a + b + c (2)",
            "src/it.rs: replace + with * in f | a + b + c (2)",
        ]
    );
}

#[test]
fn a_file_is_written_with_its_switches_around_the_code_as_it_was() {
    let source = "fn f(a: u64) -> T {\n    g(a * h(!b)); // note\n}\n".to_owned();
    let places = found(&source).places;
    let file = SourceFile { path: "src/it.rs".to_owned(), source, places, first: 7 };
    assert_eq!(
        render(&file, &BTreeSet::from([9])).code,
        "fn f(a: u64) -> T {\n    match crate::mutant::at(7, 1) { 1 => {}, _ => { g((match \
         crate::mutant::at(8, 2) { 1 => (a) + (h(!b)), _ => a * h((match crate::mutant::at(10, 1) \
         { 1 => (b), _ => !b })) })); } } // note\n}\n"
    );
    assert_eq!(render(&file, &BTreeSet::from([7, 8, 9, 10])).code, file.source);
}
