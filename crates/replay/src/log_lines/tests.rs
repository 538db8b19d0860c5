//! Runs the properties on random bytes, and on the corpus in the repository.

#[path = "../../../../fuzz/seeds.rs"]
mod seeds;

use std::panic::catch_unwind;

use proptest::prelude::*;

use self::seeds::seeds_of;
use super::mistake::plant;
use super::printed::Civil;
use super::*;
use crate::log::fields::Stamp;

/// Lines, some of them nearly correct.
fn line() -> impl Strategy<Value = Vec<u8>> {
    let time = "(0[1-9]|31)/(Aug|Feb|feb)/(1995|1970|2554):0[0-9]:[0-5][0-9]:[0-6]0 [+-]0[0-3]00";
    let iso = "20[0-9]{2}-0[1-9]-[0-3][0-9]T[01][0-9]:00:[0-6][0-9](\\.[0-9]{1,10})?(Z|[+-]0[0-9]:00(:30)?)?";
    let unix = "[0-9]{1,20}(\\.[0-9]{0,10})?";
    let clf = format!(
        "[a-c.]{{1,4}} - [a\\[\\] -]{{0,4}} \\[{time}\\] \"(GET |-|)/[a?\"\\\\ ]{{0,5}}( HTTP/1\\.0)?\" (200|-) ([0-9]{{1,3}}|-)( \"[a\\\\\"-]{{0,4}}\" \"(curl|-)\")?"
    );
    let json = format!(
        "\\{{\"(time|ts|at)\":(\"{iso}\"|{unix}|\"{unix}\"),\"(ip|remote_addr|http_host)\":(\"[a:1.\\\\u0041]{{0,6}}\"|null|7)(,\"(headers|a)\":\\{{\"(X-User|b)\":(\\[?\"[a-]{{0,2}}\"(,\"[b-]\")?\\]?|\\{{\\}})\\}})?\\}}"
    );
    let csv =
        "(time,ip|time,ip,bytes,User-Agent|[0-9]{9,10},[a\"]{0,3}(,[0-9 ]{1,3},[-b\"]{0,3})?)";
    prop_oneof![like(&clf), like(&json), like(csv), prop::collection::vec(any::<u8>(), 0..60),]
}

fn like(pattern: &str) -> impl Strategy<Value = Vec<u8>> + use<> {
    prop::string::string_regex(pattern).expect("a pattern").prop_map(String::into_bytes)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn logs_of_nearly_correct_lines_are_read_and_printed_back(
        logged in any::<[u8; 2]>(),
        lines in prop::collection::vec((line(), prop_oneof!["\n", "\r\n"]), 0..6),
    ) {
        let log = lines.iter().flat_map(|(line, end)| line.iter().chain(end.as_bytes()));
        log_lines(&logged.into_iter().chain(log.copied()).collect::<Vec<u8>>());
    }

    #[test]
    fn logs_of_random_bytes_do_not_panic(data in prop::collection::vec(any::<u8>(), 0..300)) {
        log_lines(&data);
    }
}

#[test]
fn the_kept_corpus_is_read_and_printed_back() {
    let seeds = seeds_of("log_lines");
    let mut all = Printed::default();
    for data in &seeds {
        let printed = log_lines(data);
        all.clf += printed.clf;
        all.json += printed.json;
        all.csv += printed.csv;
    }
    assert!(seeds.len() >= 12, "{}", seeds.len());
    assert!(all.clf >= 10 && all.json >= 20 && all.csv >= 20, "{all:?}");
}

/// Properties that find no planted fault would check nothing.
#[test]
fn every_planted_mistake_is_found() {
    let seeds = seeds_of("log_lines");
    for mistake in [
        Mistake::LineLost,
        Mistake::PackedLineLost,
        Mistake::Misread(Format::Jsonl),
        Mistake::Misread(Format::Csv),
        Mistake::Misread(Format::Clf),
        Mistake::UnixOff,
    ] {
        plant(Some(mistake));
        let found = seeds.iter().any(|data| catch_unwind(|| log_lines(data)).is_err());
        plant(None);
        assert!(found, "{mistake:?} was not found");
    }
}

#[test]
fn civil_dates_follow_leap_years_and_offsets() {
    let at =
        |secs: u64, offset_secs| Civil::of(Stamp { unix_nanos: secs * 1_000_000_000, offset_secs });
    let civil =
        |year, month, day, hour, minute, second| Civil { year, month, day, hour, minute, second };
    assert_eq!(at(807_256_800, 0), civil(1995, 8, 1, 6, 0, 0));
    assert_eq!(at(0, -1), civil(1969, 12, 31, 23, 59, 59));
    assert_eq!(at(951_782_400, 3_600), civil(2000, 2, 29, 1, 0, 0));
    assert_eq!(at(18_446_744_073, 0), civil(2554, 7, 21, 23, 34, 33));
}
