//! Which policy an array follows: the requested one, else the one on record.

use raidcore::engine::Command;
use raidcore::meta::ArrayRecord;
use steering::scheme::{SCHEMES, Scheme};

use crate::attach::Attached;
use crate::create::policy_name;
use crate::host::{HostError, HostHandle};
use crate::members::Device;
use crate::policy::{Able, PolicyError};

/// The policy with which an array is started.
#[derive(Debug)]
pub(super) struct Choice {
    pub(super) scheme: Scheme,
    /// A warning for the operator.
    pub(super) warning: Option<String>,
    /// Whether it was requested and differs from the record.
    is_new: bool,
}

impl Choice {
    /// The requested policy, else the one on record, of an array whose I/O is to go past the block layer where it
    /// can, or not. The record never keeps an array from starting:
    /// if it can't be followed, the first scheme is used, which needs nothing.
    ///
    /// # Errors
    /// If the requested policy can't be followed.
    pub(super) fn new(
        asked: Option<Scheme>,
        attached: &Attached,
        passthrough: bool,
    ) -> Result<Self, PolicyError> {
        let record: &ArrayRecord = attached.record();
        let devices = || attached.groups.iter().flat_map(|group| group.devices.iter().flatten());
        let modelled = devices().any(Device::flash_obeys);
        // Drives are asked only if it matters.
        let check = |scheme: Scheme| {
            let asks = passthrough && !modelled && scheme.needs_orders();
            let takes_turns = modelled || asks && devices().any(Device::could_have_windows);
            Able::of(record, takes_turns).check(scheme)
        };
        let on_record = record.policy.as_ref().map(|policy| policy.name.as_str());
        if let Some(scheme) = asked {
            check(scheme)?;
            return Ok(Self {
                scheme,
                warning: None,
                is_new: on_record != Some(&*scheme.to_string()),
            });
        }
        let found = on_record.map(|name| {
            let scheme = Scheme::named(name).ok_or_else(|| {
                format!("the policy on record, {name:?}, is none that this release knows")
            })?;
            check(scheme).map_err(|error| error.to_string())?;
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

    /// Records it in all groups if it is new.
    pub(super) async fn record(&self, host: &HostHandle) -> Result<(), HostError> {
        if !self.is_new {
            return Ok(());
        }
        for group in host.groups() {
            host.of(group).command(Command::SetPolicy(policy_name(self.scheme))).await?;
        }
        Ok(())
    }
}
