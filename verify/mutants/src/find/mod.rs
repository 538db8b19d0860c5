//! Finds the places of a file that can be changed, and what takes their place.
//!
//! | place | changes |
//! |---|---|
//! | operators | another comparison, arithmetic, bit operator or shift; `&&` and `\|\|`; no `!`, no `-` |
//! | methods | `min` and `max`, the `wrapping_`, `saturating_` and `checked_` forms, `is_some`, `any`, ... |
//! | numbers, `true` and `false` | one more, one less; the other |
//! | conditions of `if`, guards | `true`, `false`, negated; of `while` `false`, since others do not end |
//! | statements | a call, an assignment, `return`, `break` or `continue` is left out |
//! | functions | return at once: a number, a truth value, `None`, `Ok(())`, nothing, an empty text |
//! | arms of a `match` with a later `_` | left out |
//!
//! No memory ordering is changed and no fence is left out: a test cannot tell, the models of `loom-tests/` can.

mod swaps;
mod visit;

use std::collections::HashMap;
use std::ops::Range;

use syn::visit::Visit;

use crate::config::Config;
use crate::mutant::{Found, LeftOut, Mutant, Place, Shape};

/// Finds the places of a file. `path` names it in the keys of the mutants.
pub fn find(path: &str, source: &str, config: &Config) -> syn::Result<Found> {
    let file = syn::parse_file(source)?;
    let mut finder = Finder::new(source, config);
    finder.visit_file(&file);
    let mut found = finder.found;
    // Of two places that begin together, the larger holds the other. Something inserted comes before both.
    found.places.sort_by_key(|place| {
        (place.span.start, !place.span.is_empty(), std::cmp::Reverse(place.span.end))
    });
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let mut seen: HashMap<String, usize> = HashMap::new();
    for mutant in found.places.iter_mut().flat_map(|place| &mut place.mutants) {
        let line = lines.get(mutant.line - 1).copied().unwrap_or_default();
        mutant.key = format!("{path}: {} | {line}", mutant.what);
        let count = seen.entry(mutant.key.clone()).or_default();
        *count += 1;
        if *count > 1 {
            mutant.key = format!("{} ({count})", mutant.key);
        }
    }
    Ok(found)
}

/// Walks through a file. How it visits each kind of syntax is in `visit.rs`.
struct Finder<'a> {
    source: &'a str,
    config: &'a Config,
    found: Found,
    /// Why the code that is being visited is left as it is.
    reason: Option<LeftOut>,
    /// The types and blocks around the function that is being visited: `SlotRing<'a>`, `<impl Drop for Guard>`.
    owner: Option<String>,
    /// The function that is being visited: its name and its bytes.
    function: (String, Range<usize>),
    /// Where each value's place is, so that one expression is one place.
    values: HashMap<Range<usize>, usize>,
    line_starts: Vec<usize>,
}

impl<'a> Finder<'a> {
    fn new(source: &'a str, config: &'a Config) -> Self {
        let ends = source.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            source,
            config,
            found: Found::default(),
            reason: None,
            owner: None,
            function: (String::new(), 0..0),
            values: HashMap::new(),
            line_starts: [0].into_iter().chain(ends).collect(),
        }
    }

    fn text(&self, span: Range<usize>) -> &'a str {
        &self.source[span]
    }

    /// A piece of code on one line.
    fn short(&self, span: Range<usize>) -> String {
        self.text(span).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Visits code that is left as it is, so that its mutants are counted by that reason.
    fn leave_out(&mut self, reason: LeftOut, visit: impl FnOnce(&mut Self)) {
        let before = self.reason;
        self.reason = before.or(Some(reason));
        visit(self);
        self.reason = before;
    }

    fn count(&mut self, reason: LeftOut, mutants: usize) {
        *self.found.left_out.entry(self.reason.unwrap_or(reason)).or_default() += mutants;
    }

    /// Adds changes of a place inside a function. Each is what is done, and the text. `at` is the byte whose
    /// line names it.
    fn add(&mut self, span: Range<usize>, shape: Shape, at: usize, changes: Vec<(String, String)>) {
        let within = format!(" in {}", self.function.0);
        let changes = changes.into_iter().map(|(what, text)| (what + &within, text)).collect();
        self.add_named(span, shape, at, changes);
    }

    /// The same, where the name says which function it is.
    fn add_named(
        &mut self,
        span: Range<usize>,
        shape: Shape,
        at: usize,
        changes: Vec<(String, String)>,
    ) {
        if let Some(reason) = self.reason {
            return self.count(reason, changes.len());
        }
        if changes.is_empty() {
            return;
        }
        let line = self.line_starts.partition_point(|start| *start <= at);
        let mutants =
            changes.into_iter().map(|(what, text)| Mutant { what, line, text, key: String::new() });
        let known = (shape == Shape::Value).then(|| self.values.get(&span).copied()).flatten();
        let index = known.unwrap_or_else(|| {
            self.values.insert(span.clone(), self.found.places.len());
            let function = self.function.1.clone();
            self.found.places.push(Place { span, shape, function, mutants: Vec::new() });
            self.found.places.len() - 1
        });
        let place = &mut self.found.places[index];
        for mutant in mutants {
            if place.mutants.iter().all(|other| other.text != mutant.text) {
                place.mutants.push(mutant);
            }
        }
    }
}
