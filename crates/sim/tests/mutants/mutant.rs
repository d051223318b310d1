//! What a mutant is. In what is wrong, `MUTANT` stands for "this mutant is switched on".

/// A deliberate bug.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// Whose sources it is in.
    pub(crate) package: &'static str,
    /// In which worlds it is to be found, if not in those of arrays.
    pub(crate) kind: Option<&'static str>,
    /// Below the package's `src`.
    pub(crate) file: &'static str,
    /// What stands there, once.
    pub(crate) right: &'static str,
    /// What is put in its place.
    pub(crate) wrong: &'static str,
    /// Why so few seeds find it that it is run only when it is asked for, if so.
    pub(crate) rare: Option<&'static str>,
}

pub(crate) const fn mutant(
    name: &'static str,
    file: &'static str,
    right: &'static str,
    wrong: &'static str,
) -> Mutant {
    Mutant { name, package: "raidcore", kind: None, file, right, wrong, rare: None }
}

impl Mutant {
    /// The same of the log volume.
    pub(crate) const fn of_logs(self) -> Self {
        Self { package: "raidlog", kind: Some("log"), ..self }
    }

    /// The same of log arrays.
    pub(crate) const fn of_stacks(self) -> Self {
        Self { package: "raidlog", kind: Some("stack"), ..self }
    }

    pub(crate) const fn rare(self, why: &'static str) -> Self {
        Self { rare: Some(why), ..self }
    }
}
