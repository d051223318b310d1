//! Which policy an array follows: what was asked for, else what is on record.

use raidcore::engine::Command;
use raidcore::meta::ArrayRecord;
use steering::scheme::{SCHEMES, Scheme};

use crate::control::NoStagingLog;
use crate::create::policy_name;
use crate::host::{HostError, HostHandle};

/// Why a policy can't be followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PolicyError {
    /// It stages writes.
    #[error(transparent)]
    NoStagingLog(#[from] NoStagingLog),
    /// There is nothing to choose.
    #[error("a log volume follows no policy against garbage collection: it cleans by itself")]
    LogVolume,
}

/// What an array is started with.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) scheme: Scheme,
    /// What the operator should know.
    pub(super) warning: Option<String>,
    /// It is not what is on record, but asked for.
    is_new: bool,
}

impl Choice {
    /// What is asked for, else what is on record. What is on record keeps no array from starting:
    /// if it can't be followed, the first of all schemes is, which needs nothing.
    ///
    /// # Errors
    /// If what is asked for stages writes, and there is no log for it, or it is a log volume.
    pub(super) fn new(asked: Option<Scheme>, record: &ArrayRecord) -> Result<Self, PolicyError> {
        let log = record.areas.staging().1;
        let on_record = record.policy.as_ref().map(|policy| policy.name.as_str());
        if let Some(scheme) = asked {
            if record.volume.is_some() && scheme != SCHEMES[0] {
                return Err(PolicyError::LogVolume);
            }
            NoStagingLog::check(scheme, log)?;
            return Ok(Self { scheme, warning: None, is_new: on_record != Some(scheme.name) });
        }
        let found = on_record.map(|name| {
            let scheme = Scheme::named(name).ok_or_else(|| {
                format!("the policy on record, {name:?}, is none that this release knows")
            })?;
            NoStagingLog::check(scheme, log).map_err(|error| error.to_string())?;
            Ok(scheme)
        });
        let (scheme, wrong) = match found.transpose() {
            Ok(scheme) => (scheme.unwrap_or(SCHEMES[0]), None),
            Err(wrong) => (SCHEMES[0], Some(wrong)),
        };
        let warning = wrong.map(|wrong: String| {
            let (plain, name) = (SCHEMES[0].name, &record.name);
            format!(
                "{wrong}; \"{plain}\" is followed: choose another by `evenkeel policy set {name}`, \
                 or start it with the release that knows the one on record"
            )
        });
        Ok(Self { scheme, warning, is_new: false })
    }

    /// Puts it on record if it is new.
    pub(super) async fn record(&self, host: &HostHandle) -> Result<(), HostError> {
        if !self.is_new {
            return Ok(());
        }
        host.command(Command::SetPolicy(policy_name(self.scheme))).await
    }
}
