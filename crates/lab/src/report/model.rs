//! The content of a report: experiments and their points, with each point's style in plots.

use crate::results::{COLUMNS, Column, Group, Record, groups};
use crate::run::RunEnd;

/// An experiment.
#[derive(Debug)]
pub(super) struct Section<'a> {
    pub(super) title: String,
    pub(super) points: Vec<Point<'a>>,
}

/// A point of an experiment.
#[derive(Debug)]
pub(super) struct Point<'a> {
    pub(super) label: String,
    pub(super) series: Series,
    pub(super) group: Group<'a>,
}

/// The style of a line: a colour, a marker, and a dash pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Series(pub(super) usize);

impl Series {
    const COLOURS: usize = 8;
    const DASHES: usize = 4;

    /// The classes of the style sheet that have its colour and dash pattern.
    pub(super) fn class(self) -> String {
        let Self(index) = self;
        format!("s{} d{}", index % Self::COLOURS, index / Self::COLOURS % Self::DASHES)
    }

    /// Its marker.
    pub(super) fn shape(self) -> usize {
        self.0 % Self::COLOURS
    }
}

impl<'a> Point<'a> {
    /// Its first result: that of seed 1, if it is there.
    pub(super) fn first(&self) -> &'a Record {
        self.group.records[0]
    }

    /// In how many of its runs the system could not keep up.
    pub(super) fn overloaded(&self) -> usize {
        let overloaded = |record: &&&Record| record.figures.end == RunEnd::Overloaded;
        self.group.records.iter().filter(overloaded).count()
    }
}

impl Section<'_> {
    /// How many of its shards have results, and how many there are.
    pub(super) fn shards(&self) -> (u64, u64) {
        let there = self.points.iter().map(|point| point.group.records.len() as u64).sum();
        (there, self.points.iter().map(|point| point.first().shards).max().unwrap_or(0))
    }
}

/// The experiments of these results.
pub(super) fn sections(records: &[Record]) -> Vec<Section<'_>> {
    let mut sections: Vec<(&str, Section<'_>)> = Vec::new();
    for mut group in groups(records) {
        let key = group.experiment;
        let at = sections.iter().position(|(other, _)| *other == key).unwrap_or_else(|| {
            sections.push((key, Section { title: plain(key), points: Vec::new() }));
            sections.len() - 1
        });
        group.records.sort_by_key(|record| record.seed);
        let points = &mut sections[at].1.points;
        let label = match group.records[0].point.array {
            _ if !group.label.is_empty() => plain(&group.label),
            Some(_) => "the array".to_owned(),
            None => "the SSD".to_owned(),
        };
        points.push(Point { label, series: Series(points.len()), group });
    }
    sections.into_iter().map(|(_, section)| section).collect()
}

/// At most `most` of the points, evenly spread, the first and the last among them.
pub(super) fn spread<'a, 'b>(points: &'b [Point<'a>], most: usize) -> Vec<&'b Point<'a>> {
    if points.len() <= most {
        return points.iter().collect();
    }
    let last = (most - 1).max(1);
    (0..most).map(|index| &points[index * (points.len() - 1) / last]).collect()
}

/// A text without the characters that XML forbids.
pub(super) fn plain(text: &str) -> String {
    let plain = |c: char| match c {
        '\t' | '\n' | '\r' => ' ',
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(plain).collect()
}

/// The column of that name.
pub(super) fn column(name: &str) -> &'static Column {
    COLUMNS.iter().find(|column| column.name == name).expect("a column that all results have")
}
