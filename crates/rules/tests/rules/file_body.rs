//! What must hold of any text: a property here, and a fuzz target in `fuzz/`.

use std::cell::Cell;
use std::sync::Arc;

use tollgate::ManualClock;
use tollgate_rules::{Gate, Request, RuleError, Rules, RulesError};

/// A line is shown whole if it is no longer than half as much again.
const SHOWN_CHARS: usize = 120;

/// Planted between the crate and what judges it: each has to be found, or the body judges nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    /// A line is told that is one too far.
    LineOff,
    /// A column is told that is one too far.
    ColumnOff,
    /// A message says nothing.
    MessageLost,
    /// A message holds what moves the cursor.
    ControlKept,
    /// One of the errors is not told.
    ErrorLost,
    /// The carets stand one too far.
    CaretOff,
    /// The line of the file is not that of the error.
    SourceOff,
    /// A rule's explanation lacks a limit.
    LimitLost,
}

thread_local! {
    static PLANTED: Cell<Option<Mistake>> = const { Cell::new(None) };
}

fn planted(mistake: Mistake) -> bool {
    PLANTED.get() == Some(mistake)
}

/// For this thread, until another is planted, or none.
#[allow(dead_code, reason = "the fuzz target plants none")]
pub(crate) fn plant(mistake: Option<Mistake>) {
    PLANTED.set(mistake);
}

/// What must hold of any text.
pub(crate) fn hold(text: &str) {
    match Rules::parse("r.toml", text) {
        Ok(rules) => {
            are_explained(&rules);
            // Not of any size, and seldom of the usual one: that takes longer than the rest.
            let most = if text.len().is_multiple_of(16) { 100_000 } else { 5_000 };
            if rules.rules().iter().all(|rule| rule.capacity() <= most) {
                let gate = Gate::with_clock(rules, Arc::new(ManualClock::new()));
                let _ = gate.expect("there is memory").decide(&Request::default());
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
        assert!(!rule.limits().is_empty() && explained.lines().count() >= 4);
        let about = |what| explained.lines().filter(move |line| line.starts_with(what)).count();
        let told = (about("matches  "), about("key      "), about("limit    "));
        assert_eq!(told, (1, 1, rule.limits().len()), "{explained}");
    }
}

/// Where it is told that something is wrong, there is a place in the text, and it is shown.
fn is_pointed_out(text: &str, error: &RulesError) {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut source = error.with_source();
    if planted(Mistake::CaretOff) {
        source = source.replace(" | ^", " |  ^");
    }
    let mut shown = source.split("\n\n");
    let mut before = (1, 1);
    for its in error.errors().iter().skip(planted(Mistake::ErrorLost).into()) {
        let (line, column, message) = told(its);
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
        // Of a long line, a part is shown: the carets tell which.
        let before_carets = number.len() + column - 1;
        let skipped = before_carets.checked_sub(under.len() - carets.len()).expect("no further");
        assert!(skipped == 0 || column > SHOWN_CHARS, "{under:?}");
        let part: String = printed.chars().skip(skipped).take(SHOWN_CHARS * 3 / 2).collect();
        assert_eq!(quoted.strip_prefix(&number), Some(part.trim_end()));
    }
    assert_eq!(shown.next(), None, "what is shown is told");
}

/// Line, column and message.
fn told(error: &RuleError) -> (usize, usize, String) {
    let line = error.line() + usize::from(planted(Mistake::LineOff));
    let column = error.column() + usize::from(planted(Mistake::ColumnOff));
    let message = match error.message() {
        _ if planted(Mistake::MessageLost) => String::new(),
        message if planted(Mistake::ControlKept) => format!("{message}\u{7}"),
        message => message.to_owned(),
    };
    (line, column, message)
}
