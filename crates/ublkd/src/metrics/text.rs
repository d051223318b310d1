//! Prometheus' text format, version 0.0.4.
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>
//!
//! Invariant: the samples of a family directly follow its description.

use std::fmt::{Display, Write};

/// Families of metrics, in the order in which they came first.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// Names, and the text of each.
    families: Vec<(&'static str, String)>,
}

/// A family whose samples are being added.
pub(super) struct Family<'a> {
    text: &'a mut String,
    name: &'static str,
}

/// Names and values of labels.
pub(super) type Labels<'a> = &'a [(&'static str, &'a str)];

impl Text {
    /// A number that only grows. Its name ends in `_total`.
    pub(super) fn counter(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "counter", help)
    }

    /// A number that can go up and down.
    pub(super) fn gauge(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "gauge", help)
    }

    /// A distribution.
    pub(super) fn histogram(&mut self, name: &'static str, help: &str) -> Family<'_> {
        self.family(name, "histogram", help)
    }

    /// All that was added.
    pub(super) fn finish(self) -> String {
        self.families.into_iter().map(|(_, text)| text).collect()
    }

    fn family(&mut self, name: &'static str, kind: &str, help: &str) -> Family<'_> {
        let known = self.families.iter().position(|(known, _)| *known == name);
        let at = known.unwrap_or_else(|| {
            self.families.push((name, format!("# HELP {name} {help}\n# TYPE {name} {kind}\n")));
            self.families.len() - 1
        });
        Family { text: &mut self.families[at].1, name }
    }
}

impl Family<'_> {
    /// A sample.
    pub(super) fn sample(&mut self, labels: Labels<'_>, value: impl Display) {
        self.line("", labels, None, value);
    }

    /// One sample for each of these states: 1 for the current one, 0 for the others.
    pub(super) fn states(
        &mut self,
        labels: Labels<'_>,
        label: &'static str,
        states: &[&str],
        is: &str,
    ) {
        for state in states {
            self.line("", labels, Some((label, state)), u8::from(*state == is));
        }
    }

    /// A distribution: for each bound, in seconds, how many values are above the previous bound and
    /// not above it; those above the last bound at the end; and the sum of all values.
    pub(super) fn distribution(
        &mut self,
        labels: Labels<'_>,
        bounds: impl Iterator<Item = f64>,
        buckets: &[u64],
        sum: f64,
    ) {
        let ends = bounds.map(|bound| bound.to_string()).chain(["+Inf".to_owned()]);
        let mut count = 0;
        for (end, bucket) in ends.zip(buckets) {
            count += bucket;
            self.line("_bucket", labels, Some(("le", &end)), count);
        }
        self.line("_sum", labels, None, sum);
        self.line("_count", labels, None, count);
    }

    fn line(
        &mut self,
        suffix: &str,
        labels: Labels<'_>,
        last: Option<(&str, &str)>,
        value: impl Display,
    ) {
        push(self.text, format_args!("{}{suffix}", self.name));
        let mut before = '{';
        for (name, value) in labels.iter().copied().chain(last) {
            push(self.text, format_args!("{before}{name}=\"{}\"", escaped(value)));
            before = ',';
        }
        let after = if before == '{' { "" } else { "}" };
        push(self.text, format_args!("{after} {value}\n"));
    }
}

/// A label's value as it is written.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn push(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string can't fail.
    let _ = text.write_fmt(what);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_written_as_the_format_wants() {
        let mut text = Text::default();
        text.counter("a_total", "What it is.").sample(&[], 1);
        text.gauge("b", "It.").states(&[("array", "a\"\\\nb")], "state", &["up", "down"], "up");
        let labels = &[("op", "read")];
        text.histogram("c", "How long.").distribution(
            labels,
            [0.1, 0.25].into_iter(),
            &[1, 0, 2],
            3.5,
        );
        text.counter("a_total", "What it is.").sample(&[("more", "yes")], 2);
        let expected = "\
# HELP a_total What it is.
# TYPE a_total counter
a_total 1
a_total{more=\"yes\"} 2
# HELP b It.
# TYPE b gauge
b{array=\"a\\\"\\\\\\nb\",state=\"up\"} 1
b{array=\"a\\\"\\\\\\nb\",state=\"down\"} 0
# HELP c How long.
# TYPE c histogram
c_bucket{op=\"read\",le=\"0.1\"} 1
c_bucket{op=\"read\",le=\"0.25\"} 1
c_bucket{op=\"read\",le=\"+Inf\"} 3
c_sum{op=\"read\"} 3.5
c_count{op=\"read\"} 3
";
        assert_eq!(text.finish(), expected);
    }
}
