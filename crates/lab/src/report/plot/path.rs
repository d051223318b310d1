//! Paths: what a line of SVG is drawn along.

use std::fmt::Write as _;

/// The most that a corner may be moved, in user units, to shorten a path.
const THIN: f64 = 0.4;

/// A path in the making. Coordinates have one decimal.
#[derive(Clone, Debug, Default)]
pub(super) struct Path {
    d: String,
    at: Option<(f64, f64)>,
}

impl Path {
    /// Begins a new part at a place.
    pub(super) fn move_to(&mut self, x: f64, y: f64) {
        let _ = write!(self.d, "M{} {}", round(x), round(y));
        self.at = Some((x, y));
    }

    /// A straight line; the first point begins the path.
    pub(super) fn line_to(&mut self, x: f64, y: f64) {
        match self.at {
            None => self.move_to(x, y),
            Some(at) => {
                match (round(at.0) == round(x), round(at.1) == round(y)) {
                    (true, true) => {}
                    (true, false) => _ = write!(self.d, "V{}", round(y)),
                    (false, true) => _ = write!(self.d, "H{}", round(x)),
                    (false, false) => _ = write!(self.d, "L{} {}", round(x), round(y)),
                }
                self.at = Some((x, y));
            }
        }
    }

    /// A rectangle.
    pub(super) fn rectangle(&mut self, x: f64, y: f64, width: f64, height: f64) {
        let (x, y, width, height) = (round(x), round(y), round(width), round(height));
        let _ = write!(self.d, "M{x} {y}h{width}v{height}h{}z", -width);
        self.at = None;
    }

    /// Interrupts the line before the next point.
    pub(super) fn lift(&mut self) {
        self.at = None;
    }

    /// Whether it has no points.
    pub(super) fn is_empty(&self) -> bool {
        self.d.is_empty()
    }

    /// The SVG text.
    pub(super) fn into_string(self) -> String {
        self.d
    }
}

/// A step line through the places, along x first, or along y.
pub(super) fn stairs(places: impl Iterator<Item = (f64, f64)>, along_x: bool) -> Path {
    let mut path = Path::default();
    let mut skipped = None;
    let step = |path: &mut Path, (x, y): (f64, f64)| {
        if let Some((from_x, from_y)) = path.at {
            if along_x { path.line_to(x, from_y) } else { path.line_to(from_x, y) }
        }
        path.line_to(x, y);
    };
    for (x, y) in places {
        let near =
            |(from_x, from_y): (f64, f64)| (x - from_x).abs() < THIN && (y - from_y).abs() < THIN;
        if path.at.is_some_and(near) {
            skipped = Some((x, y));
        } else {
            step(&mut path, (x, y));
            skipped = None;
        }
    }
    if let Some(last) = skipped {
        step(&mut path, last);
    }
    path
}

/// A coordinate with one decimal, and without a sign if it is zero.
pub(super) fn round(coordinate: f64) -> f64 {
    (coordinate * 10.0).round() / 10.0 + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stairs_go_one_way_first() {
        let places = [(0.0, 0.0), (0.1, 0.1), (10.0, 5.0), (10.1, 5.0)];
        let drawn = |along_x| stairs(places.into_iter(), along_x).into_string();
        assert_eq!(drawn(true), "M0 0H10V5H10.1");
        assert_eq!(drawn(false), "M0 0V5H10H10.1");
    }

    #[test]
    fn a_lifted_path_begins_anew() {
        let mut path = Path::default();
        assert!(path.is_empty());
        path.line_to(1.0, 2.04);
        path.line_to(1.0, 2.0);
        path.lift();
        path.line_to(-0.01, 3.0);
        path.rectangle(1.0, 1.0, 2.0, 3.0);
        assert_eq!(path.into_string(), "M1 2M0 3M1 1h2v3h-2z");
    }
}
