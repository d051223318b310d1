//! Reads a plot as a person would: by its axes.

use roxmltree::{Document, Node, ParsingOptions};

/// A page as XML.
pub(crate) fn parse(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, nodes_limit: u32::MAX, ..Default::default() };
    Document::parse_with_options(page, options).expect("the page is well-formed")
}

/// The plot in the figure of that id.
pub(crate) fn plot<'a>(page: &'a Document<'a>, id: &str) -> Node<'a, 'a> {
    let is_it = |node: &Node<'_, '_>| node.attribute("id") == Some(id);
    let figure = page.descendants().find(is_it).unwrap_or_else(|| panic!("there is no {id}"));
    let plot = |node: &Node<'_, '_>| node.has_tag_name(("http://www.w3.org/2000/svg", "svg"));
    figure.descendants().filter(plot).find(|svg| has_class(*svg, "plot")).expect("a plot")
}

/// Whether a node has a class.
pub(crate) fn has_class(node: Node<'_, '_>, class: &str) -> bool {
    node.attribute("class").is_some_and(|all| all.split(' ').any(|one| one == class))
}

/// The elements of a plot that have all of these classes, separated by blanks.
pub(crate) fn with_class<'a>(svg: Node<'a, 'a>, classes: &str) -> Vec<Node<'a, 'a>> {
    let has_all = |node: &Node<'_, '_>| classes.split(' ').all(|class| has_class(*node, class));
    svg.descendants().filter(has_all).collect()
}

/// A number of an attribute.
pub(crate) fn number(node: Node<'_, '_>, name: &str) -> f64 {
    let text = node.attribute(name).unwrap_or_else(|| panic!("{node:?} has no {name}"));
    text.parse().unwrap_or_else(|_| panic!("{name}=\"{text}\" is no number"))
}

/// An axis, known by two of its labels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Axis {
    at: [f64; 2],
    value: [f64; 2],
    log: bool,
}

impl Axis {
    /// From labels, as `read` understands them, and where they are.
    pub(crate) fn read(labels: &[(f64, String)], log: bool, read: fn(&str) -> Option<f64>) -> Self {
        let told = |(at, label): &(f64, String)| read(label).map(|value| (*at, value));
        let told: Vec<_> = labels.iter().filter_map(told).collect();
        assert!(told.len() >= 2, "an axis with fewer than two labels: {labels:?}");
        let (first, last) = (told[0], told[told.len() - 1]);
        Self { at: [first.0, last.0], value: [first.1, last.1], log }
    }

    /// Where a value must be.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let place = |value: f64| if self.log { value.ln() } else { value };
        let [first, last] = self.value.map(place);
        let part = (place(value) - first) / (last - first);
        self.at[0] + part * (self.at[1] - self.at[0])
    }

    /// Which value is there.
    pub(crate) fn value(&self, at: f64) -> f64 {
        assert!(!self.log, "only linear axes are read backwards");
        let part = (at - self.at[0]) / (self.at[1] - self.at[0]);
        self.value[0] + part * (self.value[1] - self.value[0])
    }
}

/// The labels of a plot's x axis, and where they are.
pub(crate) fn x_labels(svg: Node<'_, '_>) -> Vec<(f64, String)> {
    labels(svg, "x", "x", f64::NEG_INFINITY..f64::INFINITY)
}

/// The labels of the y axis within a range of heights, and where their middles are.
pub(crate) fn y_labels(svg: Node<'_, '_>, within: std::ops::Range<f64>) -> Vec<(f64, String)> {
    let labels = labels(svg, "y", "y", within);
    // A label's line of writing is below its middle.
    labels.into_iter().map(|(at, label)| (at - 3.5, label)).collect()
}

fn labels(
    svg: Node<'_, '_>,
    class: &str,
    attribute: &str,
    within: std::ops::Range<f64>,
) -> Vec<(f64, String)> {
    let is_label = |node: &Node<'_, '_>| {
        node.tag_name().name() == "text" && has_class(*node, class) && !has_class(*node, "title")
    };
    let labels = svg
        .descendants()
        .filter(is_label)
        .map(|node| (number(node, attribute), node.text().unwrap_or_default().to_owned()));
    labels.filter(|(at, _)| within.contains(at)).collect()
}

/// A label like `20 ms` in microseconds.
pub(crate) fn time(label: &str) -> Option<f64> {
    let (number, unit) = label.split_once(' ')?;
    let unit = match unit {
        "ns" => 1e-3,
        "µs" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * unit)
}

/// A label like `2`, `50%` or `20k`.
pub(crate) fn plain(label: &str) -> Option<f64> {
    let (number, times) = match label {
        label if label.ends_with('%') => (label.trim_end_matches('%'), 0.01),
        label if label.ends_with('k') => (label.trim_end_matches('k'), 1e3),
        label if label.ends_with('M') => (label.trim_end_matches('M'), 1e6),
        label => (label, 1.0),
    };
    Some(number.parse::<f64>().ok()? * times)
}

/// The corners of a path.
pub(crate) fn corners(d: &str) -> Vec<(f64, f64)> {
    let (mut corners, mut at) = (Vec::new(), (0.0, 0.0));
    for (command, numbers) in commands(d) {
        let mut numbers = numbers.into_iter();
        let mut next = || numbers.next().unwrap_or_else(|| panic!("a number is missing in {d}"));
        at = match command {
            'M' | 'L' => (next(), next()),
            'H' => (next(), at.1),
            'V' => (at.0, next()),
            'm' | 'l' => (at.0 + next(), at.1 + next()),
            'h' => (at.0 + next(), at.1),
            'v' => (at.0, at.1 + next()),
            _ => continue,
        };
        corners.push(at);
    }
    corners
}

/// The commands of a path with their numbers. Panics if there is anything else.
pub(crate) fn commands(d: &str) -> Vec<(char, Vec<f64>)> {
    let starts: Vec<_> = d.match_indices(|c: char| c.is_ascii_alphabetic()).collect();
    let ends = starts.iter().skip(1).map(|(at, _)| *at).chain([d.len()]);
    let command = |(&(at, name), end): (&(usize, &str), usize)| {
        // A sign begins a number, too.
        let numbers = d[at + 1..end].replace('-', " -");
        let number = |text: &str| {
            let number: f64 = text.parse().unwrap_or_else(|_| panic!("{text} in {d} is no number"));
            assert!(number.is_finite(), "{text} in {d}");
            number
        };
        (name.chars().next().unwrap_or(' '), numbers.split_whitespace().map(number).collect())
    };
    starts.iter().zip(ends).map(command).collect()
}
