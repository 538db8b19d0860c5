//! Properties of any text: tested here, and by a fuzz target in `fuzz/`.

use std::sync::Arc;

use tollgate::ManualClock;
use tollgate_rules::{Action, Request, RuleError, Rules, RulesError, RulesLimiter};

/// A line of up to one and a half times as many characters is shown whole.
const SHOWN_CHARS: usize = 120;

/// Mistakes planted between the crate and the checks. If the body did not find each, it would check
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// The line of an error is one too large.
    LineOff,
    /// The column of an error is one too large.
    ColumnOff,
    /// A message is empty.
    MessageLost,
    /// A message has a control character.
    ControlKept,
    /// One of the errors is missing.
    ErrorLost,
    /// The carets are one column too far right.
    CaretOff,
    /// The quoted line is not the line of the error.
    SourceOff,
    /// A rule's explanation lacks a limit.
    LimitLost,
}

include!("../../../../tests/bodies/planted.rs");

/// Checks the properties of a text.
pub(crate) fn hold(text: &str) {
    match Rules::parse("r.toml", text) {
        Ok(rules) => {
            are_explained(&rules);
            // Large tables take longer to build than all the rest, so they are built seldom.
            let capacity_max = if text.len().is_multiple_of(16) { 100_000 } else { 5_000 };
            if rules.rules().iter().all(|rule| rule.capacity() <= capacity_max) {
                let gate = RulesLimiter::with_clock(rules, Arc::new(ManualClock::new()));
                let gate = gate.expect("there is memory");
                let headers = [("cookie", "a=1; b=\"2\"")];
                let peer = Some([10, 0, 0, 1].into());
                let path = "/a/../%61?a=1&%62=+";
                let request =
                    Request { method: "HEAD", path, headers: &headers, peer, host: Some("a") };
                for request in [Request::default(), request] {
                    let mut decision = gate.decide(&request);
                    let count = decision.in_flight().len();
                    assert!(
                        count <= gate.rules().filter(|rule| rule.concurrency().is_some()).count()
                    );
                    let paces = decision.take_paces();
                    assert!(paces.iter().all(|pace| pace.limiter().ask(pace.key()).peek().is_ok()));
                    let mut held = decision.take_held();
                    held.answered(|_| Some(b"no number"));
                    held.answered(|_| Some(b"7"));
                    held.sent(u64::MAX);
                }
            }
        }
        Err(error) => is_pointed_out(text, &error),
    }
}

fn are_explained(rules: &Rules) {
    assert!(!rules.rules().is_empty());
    for rule in rules.rules() {
        let mut explained = rule.explain();
        if planted(Mistake::LimitLost) {
            explained = explained.replacen("limit ", "", 1);
        }
        let is_limit = rule.action() == Action::Limit;
        let counts =
            !rule.limits().is_empty() || rule.concurrency().is_some() || rule.bytes().is_some();
        assert_eq!(counts, is_limit);
        assert!(explained.lines().count() >= if is_limit { 4 } else { 2 });
        let about = |what| explained.lines().filter(move |line| line.starts_with(what)).count();
        let lines = (about("matches  "), about("key      "), about("limit    "));
        assert_eq!(lines, (1, is_limit.into(), rule.limits().len()), "{explained}");
        assert_eq!(about("at once  "), rule.concurrency().is_some().into(), "{explained}");
    }
}

/// Each error has a place in the text, and `with_source` shows it.
fn is_pointed_out(text: &str, error: &RulesError) {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut source = error.with_source();
    if planted(Mistake::CaretOff) {
        source = source.replace(" | ^", " |  ^");
    }
    let mut shown = source.split("\n\n");
    let mut before = (1, 1);
    for its in error.errors().iter().skip(planted(Mistake::ErrorLost).into()) {
        let (line, column, message) = parts_of(its);
        assert!(line <= lines.len() && (line, column) >= before, "{message}");
        before = (line, column);
        let its_line = lines[line - 1 - usize::from(planted(Mistake::SourceOff) && line > 1)];
        assert!(column <= its_line.chars().count() + 1, "{message}");
        assert!(!message.is_empty() && !message.contains(char::is_control));
        let shown: Vec<&str> = shown.next().expect("each is shown").lines().collect();
        let [title, place, _, quoted, under] = shown[..] else { panic!("{shown:?}") };
        assert_eq!(title.strip_prefix("error: "), Some(&*message));
        assert_eq!(place.trim_start(), format!("--> r.toml:{line}:{column}"));
        let number = format!("{line} | ");
        let printed: String =
            its_line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let carets = under.trim_start_matches([' ', '|']);
        assert!(!carets.is_empty() && carets.bytes().all(|byte| byte == b'^'), "{under:?}");
        // Of a long line, a part is shown. The carets tell which.
        let before_carets = number.len() + column - 1;
        let skipped = before_carets.checked_sub(under.len() - carets.len()).expect("no further");
        assert!(skipped == 0 || column > SHOWN_CHARS, "{under:?}");
        let part: String = printed.chars().skip(skipped).take(SHOWN_CHARS * 3 / 2).collect();
        assert_eq!(quoted.strip_prefix(&number), Some(part.trim_end()));
    }
    let more = shown.next().map(|more| more.split(' ').nth(1).and_then(|count| count.parse().ok()));
    let left_out = error.left_out();
    assert_eq!(more, (left_out > 0).then_some(Some(left_out)), "each shown error is in the list");
    assert!(error.errors().len() == 100 || left_out == 0);
}

/// Line, column and message.
fn parts_of(error: &RuleError) -> (usize, usize, String) {
    let line = error.line() + usize::from(planted(Mistake::LineOff));
    let column = error.column() + usize::from(planted(Mistake::ColumnOff));
    let message = match error.message() {
        _ if planted(Mistake::MessageLost) => String::new(),
        message if planted(Mistake::ControlKept) => format!("{message}\u{7}"),
        message => message.to_owned(),
    };
    (line, column, message)
}
