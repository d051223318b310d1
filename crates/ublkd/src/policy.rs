//! What a policy against garbage collection requires of an array: one rule for all places where a
//! policy is chosen.

use raidcore::meta::ArrayRecord;
use steering::scheme::{SCHEMES, Scheme};

/// The properties of an array that policies require.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Able {
    /// It is a log volume, whose log takes all writes anyway.
    pub(crate) in_log: bool,
    /// There is a staging log.
    pub(crate) stages: bool,
    /// A member takes orders when to collect garbage.
    pub(crate) takes_turns: bool,
}

/// Why an array can't follow a policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PolicyError {
    /// It stages writes, and there is no staging log.
    #[error("the policy \"{policy}\" stages writes, and this array has no staging log")]
    NoStagingLog {
        /// Its name.
        policy: Scheme,
        /// What the array has.
        others: Others,
    },
    /// It has a write cache in memory, and this is a log volume.
    #[error(
        "the policy \"{policy}\" has a write cache in memory, and this is a log volume, which gathers \
         writes in memory anyway"
    )]
    CachedLog {
        /// Its name.
        policy: Scheme,
        /// What the array has.
        others: Others,
    },
    /// It orders members when to collect, and none takes orders.
    #[error(
        "the policy \"{policy}\" lets members take turns, and no member of this array lets itself be \
         told when to collect garbage"
    )]
    NoTurns {
        /// Its name.
        policy: Scheme,
        /// What the array has.
        others: Others,
    },
}

/// The policies that an array can follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Others(Able);

impl Able {
    /// The properties of a record, and whether a member takes turns.
    pub(crate) fn of(record: &ArrayRecord, takes_turns: bool) -> Self {
        let stages = record.areas.staging().1 > 0;
        Self { in_log: record.volume.is_some(), stages, takes_turns }
    }

    /// Checks that the array can follow the policy. The first one requires nothing.
    pub(crate) fn check(self, scheme: Scheme) -> Result<(), PolicyError> {
        let (policy, others) = (scheme, Others(self));
        if scheme.needs_staging() && !self.stages {
            return Err(PolicyError::NoStagingLog { policy, others });
        }
        if scheme.cache().is_volatile() && self.in_log {
            return Err(PolicyError::CachedLog { policy, others });
        }
        if !self.takes_turns && scheme.needs_orders() {
            return Err(PolicyError::NoTurns { policy, others });
        }
        Ok(())
    }
}

impl PolicyError {
    /// The kind of error, for programs.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::NoStagingLog { .. } => "no-staging",
            Self::CachedLog { .. } => "cached-log",
            Self::NoTurns { .. } => "no-flash",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> String {
        let (what, Others(able)) = match self {
            Self::NoStagingLog { others, .. } if others.0.in_log => {
                ("the log volume's own log takes all writes", others)
            }
            Self::NoStagingLog { others, .. } => (
                "an array is given its log when it is created (`evenkeel create --cache log`, or \
                 `--staging reserved:64M`)",
                others,
            ),
            Self::CachedLog { others, .. } => ("a log volume needs no cache", others),
            Self::NoTurns { others, .. } => (
                "NVMe drives take turns in Predictable Latency Mode, past the block layer \
                 (`evenkeel start --passthrough auto`), and modelled SSDs if they are made so \
                 (flash:PROFILE+told+obeys:PATH)",
                others,
            ),
        };
        let names: Vec<_> = SCHEMES
            .iter()
            .filter(|scheme| able.check(**scheme).is_ok())
            .map(|scheme| scheme.name)
            .collect();
        format!("{what}; policies that this array can follow are {}", names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use steering::hold::{CACHES, Cache};

    use super::*;

    #[test]
    fn what_an_array_has_decides_and_what_is_told_can_be_followed() {
        for bits in 0..8 {
            let [in_log, stages, takes_turns] = [1, 2, 4].map(|bit| bits & bit != 0);
            let able = Able { in_log, stages, takes_turns };
            let with = |&cache: &Cache| SCHEMES.iter().map(move |scheme| scheme.with(cache));
            for scheme in CACHES.iter().flat_map(with) {
                let turns = scheme.needs_orders();
                let can = (stages || !scheme.needs_staging()) && (takes_turns || !turns);
                let can = can && !(in_log && scheme.cache().is_volatile());
                let checked = able.check(scheme);
                assert_eq!(checked.is_ok(), can, "{scheme} with {able:?}");
                let hint = checked.err().map(|error| error.hint()).unwrap_or_default();
                let (_, told) = hint.rsplit_once(" are ").unwrap_or_default();
                for name in told.split(", ").filter(|name| !name.is_empty()) {
                    let told = Scheme::named(name).expect("a policy");
                    assert_eq!(able.check(told), Ok(()), "{name} with {able:?}");
                }
            }
        }
    }
}
