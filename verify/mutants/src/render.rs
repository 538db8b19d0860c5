//! Writes a file with its switches, and finds the mutant that a byte of the result belongs to.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

use crate::mutant::{Place, Shape, SourceFile};

/// A file with its switches.
#[derive(Debug, Default)]
pub struct Rendered {
    /// The code.
    pub code: String,
    /// Where each mutant's text is.
    alternatives: Vec<(Range<usize>, u32)>,
    /// Where each place is, with the numbers of its mutants.
    places: Vec<(Range<usize>, Range<u32>)>,
    /// Where the code of the file is: a byte of the result, the byte of the source, how many.
    copied: Vec<(usize, usize, usize)>,
}

impl Rendered {
    /// The mutants that an error of the compiler at these bytes is about: one, those of the place around it,
    /// or those of the function around it.
    pub fn blamed(&self, file: &SourceFile, error: &Range<usize>) -> Vec<u32> {
        let around = |range: &Range<usize>| range.start <= error.start && error.end <= range.end;
        if let Some((_, number)) = self.alternatives.iter().find(|(range, _)| around(range)) {
            return vec![*number];
        }
        let inner = self.places.iter().filter(|(range, _)| around(range));
        if let Some((_, numbers)) = inner.min_by_key(|(range, _)| range.len()) {
            return numbers.clone().collect();
        }
        let Some(at) = self.in_source(error.start) else { return Vec::new() };
        let inside = file.numbered().filter(|(_, place)| place.function.contains(&at));
        inside.flat_map(|(first, place)| first..first + place.mutants.len() as u32).collect()
    }

    fn in_source(&self, at: usize) -> Option<usize> {
        let (result, source, _) = self
            .copied
            .iter()
            .find(|(result, _, count)| (*result..result + count).contains(&at))?;
        Some(source + at - result)
    }
}

/// Writes a file with its switches, without the mutants that are left out.
pub fn render(file: &SourceFile, left_out: &BTreeSet<u32>) -> Rendered {
    let places: Vec<(u32, &Place)> = file
        .numbered()
        .filter(|(first, place)| {
            (0..place.mutants.len() as u32).any(|index| !left_out.contains(&(first + index)))
        })
        .collect();
    let mut writer = Writer { file, left_out, places: &places, out: Rendered::default() };
    writer.copy(0..file.source.len());
    writer.out
}

struct Writer<'a> {
    file: &'a SourceFile,
    left_out: &'a BTreeSet<u32>,
    /// Those that are not written yet, in order.
    places: &'a [(u32, &'a Place)],
    out: Rendered,
}

impl Writer<'_> {
    /// Copies a part of the source, with the places that are in it.
    fn copy(&mut self, part: Range<usize>) {
        let mut at = part.start;
        while let Some((&(first, place), rest)) = self.places.split_first() {
            if place.span.start >= part.end || place.span.end > part.end {
                break;
            }
            self.places = rest;
            self.copy_text(at..place.span.start);
            at = place.span.end;
            self.switch(first, place);
        }
        self.copy_text(at..part.end);
    }

    fn copy_text(&mut self, part: Range<usize>) {
        self.out.copied.push((self.out.code.len(), part.start, part.len()));
        self.out.code.push_str(&self.file.source[part]);
    }

    fn switch(&mut self, first: u32, place: &Place) {
        let start = self.out.code.len();
        let count = place.mutants.len() as u32;
        let [open, close] = match place.shape {
            Shape::Value => ["(", ")"],
            Shape::Statement => ["", ""],
            Shape::Entry => ["", " "],
            Shape::Arm => [" if ", " == 0"],
        };
        self.out.code.push_str(open);
        let switch = format!("crate::mutant::at({first}, {count})");
        if place.shape == Shape::Arm {
            self.out.code.push_str(&switch);
        } else {
            let _ = write!(self.out.code, "match {switch} {{ ");
            for (index, mutant) in (0..).zip(&place.mutants) {
                self.alternative(first + index, index + 1, &mutant.text, place.shape);
            }
            self.out.code.push_str("_ => ");
            match place.shape {
                Shape::Statement => {
                    self.out.code.push_str("{ ");
                    self.copy(place.span.clone());
                    self.out.code.push_str(" }");
                }
                Shape::Entry => self.out.code.push_str("{}"),
                _ => self.copy(place.span.clone()),
            }
            self.out.code.push_str(" }");
        }
        self.out.code.push_str(close);
        self.out.places.push((start..self.out.code.len(), first..first + count));
    }

    fn alternative(&mut self, number: u32, arm: u32, text: &str, shape: Shape) {
        if self.left_out.contains(&number) {
            return;
        }
        let start = self.out.code.len();
        let text = if shape == Shape::Statement { "{}" } else { text };
        let _ = write!(self.out.code, "{arm} => {text}, ");
        self.out.alternatives.push((start..self.out.code.len(), number));
    }
}
