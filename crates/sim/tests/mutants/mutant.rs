//! The definition of a mutant. In `wrong`, `MUTANT` stands for "this mutant is switched on".

/// A deliberate bug.
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    /// The package that it changes.
    pub(crate) package: &'static str,
    /// The worlds in which seeds find it, if not those of arrays.
    pub(crate) kind: Option<&'static str>,
    /// Below the package's `src`.
    pub(crate) file: &'static str,
    /// The original text, which occurs once.
    pub(crate) right: &'static str,
    /// The replacement.
    pub(crate) wrong: &'static str,
    /// Why so few seeds find it that it is run only on demand, if that is so.
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

    /// The same of write caches in memory.
    pub(crate) const fn of_caches(self) -> Self {
        Self { package: "raidlog", kind: Some("volatile"), ..self }
    }

    /// The same of what arrays do for write caches in memory.
    pub(crate) const fn below_caches(self) -> Self {
        Self { kind: Some("volatile"), ..self }
    }

    /// The same of reshapes.
    pub(crate) const fn of_reshapes(self) -> Self {
        Self { kind: Some("reshape"), ..self }
    }

    /// The same of leases of several hosts.
    pub(crate) const fn of_leases(self) -> Self {
        Self { kind: Some("lease"), ..self }
    }

    /// The same of RAID10.
    pub(crate) const fn of_pairs(self) -> Self {
        Self { kind: Some("pairs"), ..self }
    }

    pub(crate) const fn rare(self, why: &'static str) -> Self {
        Self { rare: Some(why), ..self }
    }
}
