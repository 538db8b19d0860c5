use super::*;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

fn parsed(text: &str) -> Quota {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn every_notation_of_a_quota_parses() {
    let day = Duration::from_secs(86_400);
    for (text, quota) in [
        ("100/s", Quota::per_second(100)),
        ("100/s burst 20", Quota::per_second(100).burst(20)),
        ("  100 / sec  burst  20 ", Quota::per_second(100).burst(20)),
        ("10 per minute", Quota::per_minute(10)),
        ("10 PER Minute BURST 3", Quota::per_minute(10).burst(3)),
        ("5 per 2 days", Quota::new(5, day * 2)),
        ("100/15m", Quota::new(100, Duration::from_secs(900))),
        ("1_000_000/h", Quota::per_hour(1_000_000)),
        ("5 per week", Quota::new(5, day * 7)),
        ("1/year", Quota::new(1, day * 365)),
        ("3/250µs", Quota::new(3, Duration::from_micros(250))),
        ("100/100ns", Quota::new(100, Duration::from_nanos(100))),
        ("10rps", Quota::per_second(10)),
        ("10 RPS burst 2k", Quota::per_second(10).burst(2_000)),
        ("5 rpm", Quota::per_minute(5)),
        ("10r/s", Quota::per_second(10)),
        ("30r/m", Quota::per_minute(30)),
        ("100 req/min", Quota::per_minute(100)),
        ("10 requests per second", Quota::per_second(10)),
        ("10 Requests / 2 s", Quota::new(10, Duration::from_secs(2))),
        ("500_000 bytes/s", Quota::per_second(500_000)),
        ("5/sec", Quota::per_second(5)),
        ("1k/s", Quota::per_second(1_000)),
        ("1K/s", Quota::per_second(1_000)),
        ("2M/h", Quota::per_hour(2_000_000)),
        ("10k rpd", Quota::per_day(10_000)),
    ] {
        assert_eq!(parsed(text), quota, "{text}");
    }
}

#[test]
fn errors_state_the_column_and_what_is_expected() {
    for (text, column, expected) in [
        ("", 1, A_LIMIT),
        ("fast", 1, A_LIMIT),
        ("-1/s", 1, A_LIMIT),
        ("0.5/s", 2, A_WHOLE_NUMBER),
        ("1.5/s", 2, A_WHOLE_NUMBER),
        ("10/1.5h", 5, A_WHOLE_NUMBER),
        ("10./s", 3, PER),
        ("1,000/s", 2, A_NUMBER_WITHOUT_COMMAS),
        ("5/s burst 1,000", 12, A_NUMBER_WITHOUT_COMMAS),
        ("5/s, burst 10", 4, BURST),
        ("5_/s", 2, DIGITS),
        ("5__0/s", 2, DIGITS),
        ("5/1_s", 4, DIGITS),
        ("5/s burst 1_", 12, DIGITS),
        ("_5/s", 1, A_LIMIT),
        ("10 Mbps", 4, A_CELL_COUNT),
        ("10kB/s", 3, A_CELL_COUNT),
        ("1m/s", 2, PER),
        ("10 k/s", 4, PER),
        ("10 req", 7, PER),
        ("10 apples/s", 4, PER),
        ("10rps/s", 6, BURST),
        ("10k", 4, PER),
        ("99999999999999999M/s", 1, A_SMALLER_NUMBER),
        ("100", 4, PER),
        ("100 s", 5, PER),
        ("100/", 5, A_UNIT),
        ("100/fortnight", 5, A_UNIT),
        ("100 per 2", 10, A_UNIT),
        ("10/month", 4, A_DAYS_COUNT),
        ("100/s 20", 7, BURST),
        ("100/s burst", 12, A_BURST),
        ("100/s burst many", 13, A_BURST),
        ("100/s burst 20 please", 16, THE_END),
        ("100/s burst 20 burst 5", 16, THE_END),
        ("99999999999999999999/s", 1, A_SMALLER_NUMBER),
        ("1/9999999999999 days", 3, A_SHORTER_PERIOD),
        ("7/µsz", 3, A_UNIT),
        ("7/µs ü", 6, BURST),
    ] {
        assert_eq!(text.parse::<Quota>(), Err(QuotaError::Syntax { column, expected }), "{text}");
    }
}

#[test]
fn range_errors_name_the_place_of_the_number() {
    use QuotaError as E;
    for (text, column, error) in [
        ("0/s", 1, &E::ZeroLimit),
        ("  0 rps", 3, &E::ZeroLimit),
        ("2000000000/s", 1, &E::TooFast),
        ("1/2y", 1, &E::TooSlow),
        ("1099511627777/d", 1, &E::LimitTooLarge),
        ("10/0s", 4, &E::ZeroPeriod),
        ("10 req per 0 days", 12, &E::ZeroPeriod),
        ("1000/101y", 6, &E::PeriodTooLong),
        ("1/s burst 0", 11, &E::ZeroBurst),
        ("1/s burst 1099512M", 11, &E::BurstTooLarge),
        ("1/s burst 8589934592", 11, &E::RefillTooLong),
    ] {
        assert_eq!(text.parse::<Quota>(), Err(E::Range { column, error }), "{text}");
    }
    let told = "10/0s".parse::<Quota>().unwrap_err().to_string();
    assert_eq!(told, "column 4: the period is 0: give it a length, for example 1 s");
}

/// Any text is a quota whose displayed form parses to the same quota, or its error names a place in it.
fn hold(text: &str) -> Result<(), TestCaseError> {
    match text.parse::<Quota>() {
        Ok(quota) => {
            prop_assert_eq!(quota.validate(), Ok(()));
            prop_assert_eq!(quota.to_string().parse::<Quota>(), Ok(quota));
        }
        Err(QuotaError::Syntax { column, .. } | QuotaError::Range { column, .. }) => {
            prop_assert!((1..=text.chars().count() + 1).contains(&column), "{}", column);
        }
        Err(other) => prop_assert!(false, "{other:?} has no place"),
    }
    Ok(())
}

#[test]
fn the_largest_unit_that_fits_is_displayed() {
    for (text, displayed) in [
        ("100 per second", "100/s"),
        ("1/90s", "1/90s"),
        ("1/120s", "1/2min"),
        ("1/1500ms", "1/1500ms"),
        ("1/86400s burst 2", "1/d burst 2"),
        ("1/week", "1/7d"),
        ("1/365d", "1/y"),
        ("366/732d", "366/732d"),
        ("1/1001ns", "1/1001ns"),
        ("1/ns", "1/ns"),
    ] {
        assert_eq!(parsed(text).to_string(), displayed, "{text}");
    }
    assert_eq!(Quota::new(1, Duration::ZERO).to_string(), "1/0ns");
}

#[test]
fn a_letter_is_no_digit() {
    assert!(matches!("1a/s".parse::<Quota>(), Err(QuotaError::Syntax { column: 2, .. })));
}

proptest! {
    #[test]
    fn displayed_text_parses_back(
        limit in 1..1_u64 << 40,
        nanos in 1..100 * 365 * 86_400 * SECOND,
        unit in 0_usize..9,
        burst in proptest::option::of(1..1_u64 << 40),
    ) {
        // Whole units half of the time, so that every unit is displayed.
        let unit_nanos = UNITS[unit].0;
        let whole = (nanos / unit_nanos).max(1).saturating_mul(unit_nanos);
        for period in [nanos, whole] {
            let mut quota = Quota::new(limit, Duration::from_nanos(period));
            if let Some(cells) = burst {
                quota = quota.burst(cells);
            }
            match quota.validate() {
                Ok(()) => prop_assert_eq!(quota.to_string().parse::<Quota>(), Ok(quota)),
                Err(broken) => match quota.to_string().parse::<Quota>() {
                    Err(QuotaError::Range { error, .. }) => prop_assert_eq!(*error, broken),
                    other => prop_assert!(false, "{other:?} for {broken:?}"),
                },
            }
        }
    }

    #[test]
    fn any_text_is_a_quota_or_an_error(text in "\\PC{0,24}") {
        hold(&text)?;
    }

    #[test]
    fn nearly_a_quota_is_a_quota_or_an_error(
        text in "[0-9_.,]{0,4}[kKM]? ?(req|requests|r|rps|rpm|Mbps)? ?(/|per)? ?[0-9_.]{0,3} ?[a-zµ]{0,3} ?(burst)? ?[0-9_]{0,3}k?",
    ) {
        hold(&text)?;
    }

    #[test]
    fn every_combination_of_forms_means_the_same(
        thousands in 1_u64..10_000,
        (number, word) in (0_usize..3, proptest::sample::select(&CELLS)),
        short in proptest::sample::select(&PER_PERIOD[..2]),
        per in proptest::sample::select(&["/", " / ", " per ", "\tPER "]),
        unit in proptest::sample::select(&["s", "sec", "SECOND", "1s", "1_000 ms"]),
        burst in proptest::option::of(1_u64..1_000),
    ) {
        let number =
            [format!("{thousands}000"), format!("{thousands}_000"), format!("{thousands}k")][number].clone();
        let tail = burst.map_or(String::new(), |cells| format!(" burst {cells}k"));
        let mut quota = Quota::per_second(thousands * 1_000);
        if let Some(cells) = burst {
            quota = quota.burst(cells * 1_000);
        }
        for text in [
            format!("{number}{per}{unit}{tail}"),
            format!("{number} {word}{per}{unit}{tail}"),
            format!("{number} {}{tail}", short.0),
        ] {
            prop_assert_eq!(text.parse::<Quota>(), Ok(quota), "{}", text);
        }
    }
}
