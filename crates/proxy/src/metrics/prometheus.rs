//! Writes metrics in the Prometheus text format.

use std::fmt::{Display, Write};

/// The text so far, and the current family.
#[derive(Debug, Default)]
pub(crate) struct PrometheusText {
    text: String,
    family: &'static str,
}

impl PrometheusText {
    /// Starts a family. The following samples belong to it.
    pub(crate) fn family(&mut self, name: &'static str, kind: &str, help: &str) {
        self.family = name;
        self.write(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    }

    /// Writes a family with one sample and no label.
    pub(crate) fn single(
        &mut self,
        name: &'static str,
        kind: &str,
        help: &str,
        value: impl Display,
    ) {
        self.family(name, kind, help);
        self.write(format_args!("{name} {value}\n"));
    }

    /// Writes a sample with one label.
    pub(crate) fn labelled(&mut self, label: &str, of: impl Display, value: impl Display) {
        let (family, of) = (self.family, escaped(&of.to_string()));
        self.write(format_args!("{family}{{{label}=\"{of}\"}} {value}\n"));
    }

    /// Writes a sample with two labels.
    pub(crate) fn labelled_twice(
        &mut self,
        (first, of): (&str, &str),
        (second, by): (&str, &str),
        value: impl Display,
    ) {
        let (family, of, by) = (self.family, escaped(of), escaped(by));
        self.write(format_args!("{family}{{{first}=\"{of}\",{second}=\"{by}\"}} {value}\n"));
    }

    /// Writes a bucket of a histogram.
    pub(super) fn bucket(&mut self, bound: &str, value: u64) {
        let family = self.family;
        self.write(format_args!("{family}_bucket{{le=\"{bound}\"}} {value}\n"));
    }

    /// Writes the sum and the count of a histogram.
    pub(super) fn sum_and_count(&mut self, sum: f64, count: u64) {
        let family = self.family;
        self.write(format_args!("{family}_sum {sum}\n{family}_count {count}\n"));
    }

    /// The whole text.
    pub(crate) fn into_text(self) -> String {
        self.text
    }

    fn write(&mut self, arguments: std::fmt::Arguments<'_>) {
        self.text.write_fmt(arguments).expect("writing to a String cannot fail");
    }
}

/// Escapes the value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_values_are_escaped() {
        let mut page = PrometheusText::default();
        page.family("a_total", "counter", "Such.");
        page.labelled("rule", "a \"b\"\\\nc", 3);
        page.labelled_twice(("rule", "a\""), ("by", "b\n"), 4);
        let expected = "# HELP a_total Such.\n# TYPE a_total counter\na_total{rule=\"a \\\"b\\\"\\\\\\nc\"} 3\na_total{rule=\"a\\\"\",by=\"b\\n\"} 4\n";
        assert_eq!(page.into_text(), expected);
    }
}
