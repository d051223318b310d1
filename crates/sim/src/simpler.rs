//! Simpler versions of a scenario.

/// Scenarios that differ from one by a single change.
pub(crate) struct Simpler<'a, S> {
    of: &'a S,
    pub(crate) all: Vec<S>,
}

impl<'a, S: Clone + PartialEq> Simpler<'a, S> {
    pub(crate) fn than(of: &'a S) -> Self {
        Self { of, all: Vec::new() }
    }

    pub(crate) fn with(&mut self, change: impl Fn(&mut S)) {
        let mut scenario = self.of.clone();
        change(&mut scenario);
        if scenario != *self.of {
            self.all.push(scenario);
        }
    }
}
