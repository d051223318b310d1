use core::fmt;

/// One comparison of the model with an independent reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// What is compared.
    pub name: String,
    /// Its unit; empty for a plain number.
    pub unit: &'static str,
    /// What theory or another program says; `None` if its answer is held back.
    pub reference: Option<f64>,
    /// What the model says.
    pub measured: f64,
    /// The greatest difference that is accepted, as a part of the reference.
    pub tolerance: f64,
}

/// How a comparison ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The difference is within the tolerance.
    Ok,
    /// It is not.
    Off,
    /// There is nothing to compare with yet.
    HeldBack,
}

impl Row {
    /// A comparison with a known reference.
    pub fn new(name: impl Into<String>, unit: &'static str, pair: (f64, f64), tol: f64) -> Self {
        let (reference, measured) = pair;
        Self { name: name.into(), unit, reference: Some(reference), measured, tolerance: tol }
    }

    /// A measurement whose reference is held back.
    pub fn held_back(name: impl Into<String>, unit: &'static str, measured: f64, tol: f64) -> Self {
        Self { name: name.into(), unit, reference: None, measured, tolerance: tol }
    }

    /// By how much the measurement differs, as a part of the reference.
    #[must_use]
    pub fn difference(&self) -> Option<f64> {
        self.reference.map(|reference| self.measured / reference - 1.0)
    }

    /// How the comparison ended.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.difference() {
            None => Verdict::HeldBack,
            // NaN is within no tolerance.
            Some(difference) if difference.abs() <= self.tolerance => Verdict::Ok,
            Some(_) => Verdict::Off,
        }
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, unit, measured, tolerance, .. } = self;
        let reference = self.reference.map_or("held back".into(), |value| format!("{value:.4}"));
        let difference =
            self.difference().map_or("–".into(), |part| format!("{:+.2}%", 100.0 * part));
        let verdict = match self.verdict() {
            Verdict::Ok => "ok",
            Verdict::Off => "OFF",
            Verdict::HeldBack => "held back",
        };
        let tolerance = 100.0 * tolerance;
        write!(
            f,
            "{name:<58} {unit:>4} {reference:>11} {measured:>12.4} {difference:>8} ±{tolerance:>4.1}% \
             {verdict}"
        )
    }
}
