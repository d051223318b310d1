//! Members and spares, as the control socket's clients name them, and those that come anew.

use std::path::{Path, PathBuf};

use raidcore::engine::{Command, CommandError, MemberStatus, SpareUse};
use raidcore::meta::{Areas, DeviceUuid, SlotState};
use raidcore::units::{DeviceId, MemberId};
use serde_json::{Value, json};

use super::Refusal;
use super::service::{Array, Service};
use crate::attach::open;
use crate::create::{prepare_spare, random_uuid};
use crate::flash::Named;
use crate::members::{Device, OpenError};
use crate::signature::Signature;

impl Service {
    /// Opens, checks and wipes a device of so many blocks at least, and gives it to the array as a spare.
    pub(super) async fn add(
        &self,
        array: &Array,
        path: &Path,
        need: u64,
        force: bool,
    ) -> Result<DeviceId, Refusal> {
        if self.facts.redundancy == 0 {
            return Err(self.refusal(CommandError::NotRedundant.into()));
        }
        let (areas, path) = (array.record.areas.clone(), path.to_path_buf());
        // Opening and wiping wait for the device.
        let opened = tokio::task::spawn_blocking(move || take_in(&path, &areas, need, force)).await;
        let opened = opened.map_err(|e| Refusal::new("internal", e.to_string()))?;
        let (device, uuid) = opened?;
        let added = array.host.add_device(device, uuid).await;
        added.map_err(|error| self.refusal(error))
    }

    pub(super) async fn replace(
        &self,
        disk: &str,
        with: &Path,
        force: bool,
    ) -> Result<Value, Refusal> {
        let (array, member) = self.member(disk).await?;
        let status = self.status(array).await?;
        let need = array.record.blocks_of(member);
        let failed = |m: &&MemberStatus| m.state == SlotState::Failed;
        let mut missing: Vec<MemberId> =
            status.members.iter().filter(failed).map(|m| m.member).collect();
        missing.sort_by_key(|&m| status.distributed_spare == Some(SpareUse::StandsInFor(m)));
        match missing.first() {
            // A spare goes where one is missing, the lowest number first; but last to whom the
            // distributed spare stands in for.
            Some(&first) if first != member => {
                let first_name = array.facts.place(first.0);
                let message = format!("{first_name} is missing and has to be replaced first");
                let (name, disk) = (&self.facts.name, array.facts.disk(first.0));
                let hint = format!("`evenkeel disk replace {name} {disk} PATH`");
                return Err(Refusal::new("busy", message).hint(hint));
            }
            Some(_) => {
                self.add(array, with, need, force).await?;
            }
            None => {
                if !status.spares.is_empty() {
                    tracing::info!("the array has spares; they stay");
                }
                let spare = self.add(array, with, need, force).await?;
                let replace = Command::Replace { member, spare };
                if let Err(error) = array.host.command(replace).await {
                    // Not left behind as a spare that nobody asked for.
                    let _ = array.host.command(Command::Remove(spare)).await;
                    return Err(self.refusal(error));
                }
            }
        }
        Ok(json!({ "member": member.0, "group": array.facts.group, "with": with }))
    }

    /// The array that a new spare is for.
    pub(super) async fn array_for_spare(&self, group: Option<u8>) -> Result<&Array, Refusal> {
        if let Some(group) = group {
            let array = self.arrays.get(usize::from(group)).filter(|_| self.facts.groups > 0);
            return array.ok_or_else(|| self.no_such(&group.to_string(), "group"));
        }
        let mut best = None;
        for array in &self.arrays {
            let status = self.status(array).await?;
            let failed = status.members.iter().filter(|m| m.state == SlotState::Failed).count();
            // The most in need of one; among equals the first.
            let need = failed as i64 - status.spares.len() as i64;
            if best.is_none_or(|(most, _)| need > most) {
                best = Some((need, array));
            }
        }
        best.map(|(_, array)| array).ok_or_else(|| self.no_such("0", "group"))
    }

    /// The member that a disk is, and whose.
    pub(super) async fn member(&self, disk: &str) -> Result<(&Array, MemberId), Refusal> {
        for array in &self.arrays {
            let status = self.status(array).await?;
            let mut members = status.members.iter();
            if let Some(found) = members.find(|member| self.is_called(array, member, disk)) {
                return Ok((array, found.member));
            }
        }
        Err(self.no_such(disk, "member"))
    }

    /// The spare that a disk is, and whose.
    pub(super) async fn spare(&self, disk: &str) -> Result<(&Array, DeviceId), Refusal> {
        for array in &self.arrays {
            let status = self.status(array).await?;
            let mut members = status.members.iter();
            if let Some(member) = members.find(|member| self.is_called(array, member, disk)) {
                return Err(self.is_member(array, member, disk));
            }
            let mut spares = status.spares.iter();
            if let Some(&spare) = spares.find(|&&device| self.is_at(device, disk)) {
                return Ok((array, spare));
            }
        }
        Err(self.no_such(disk, "spare"))
    }

    fn is_called(&self, array: &Array, member: &MemberStatus, disk: &str) -> bool {
        disk == array.facts.disk(member.member.0)
            || member.device.is_some_and(|device| self.is_at(device, disk))
    }

    /// That a disk is no spare but a member.
    fn is_member(&self, array: &Array, member: &MemberStatus, disk: &str) -> Refusal {
        let (name, number) = (&self.facts.name, array.facts.disk(member.member.0));
        let (message, hint) = if member.state == SlotState::Failed {
            let message = format!("member {number} has failed; its device is free already");
            (message, format!("`evenkeel disk replace {name} {number} PATH`"))
        } else {
            let message = format!("{disk} is in use as member {number}");
            (message, format!("take it out of service: `evenkeel disk fail {name} {number}`"))
        };
        Refusal::new("in-use", message).hint(hint)
    }

    fn is_at(&self, device: DeviceId, path: &str) -> bool {
        let canonical = |path: PathBuf| path.canonicalize().unwrap_or(path);
        let at = self.host.device_path(device).map(canonical);
        let named = Named::parse(Path::new(path));
        named.is_ok_and(|named| at == Some(canonical(named.path)))
    }

    fn no_such(&self, disk: &str, what: &str) -> Refusal {
        let name = &self.facts.name;
        Refusal::new(
            &format!("no-such-{what}"),
            format!("the array \"{name}\" has no {what} {disk}"),
        )
        .hint(match self.arrays.len() {
            1 => format!("`evenkeel status {name}` lists them"),
            _ => format!("`evenkeel status {name}` lists them; member 2 of group 1 is 1.2"),
        })
    }
}

/// A device that can be a spare: locked, and nothing of what it carried is left to be taken for
/// metadata.
fn take_in(
    path: &Path,
    areas: &Areas,
    need: u64,
    force: bool,
) -> Result<(Device, DeviceUuid), Refusal> {
    let refused = |error: OpenError| {
        let code = match &error {
            OpenError::InUse { .. } => "in-use",
            OpenError::Flash(_) => "flash",
            OpenError::Refused { .. }
            | OpenError::WrongKind { .. }
            | OpenError::BlockSize { .. } => "device",
        };
        Refusal::new(code, error.to_string())
    };
    let Named { path, flash } = Named::parse(path).map_err(|error| refused(error.into()))?;
    let mut device = open(&path, &[]).map_err(refused)?;
    let shown = path.display();
    let (have, need) = (device.blocks(), need);
    if have < need {
        let message = format!("{shown}: {}", CommandError::TooSmall { have, need });
        return Err(Refusal::new("too-small", message).hint("give a larger device"));
    }
    let io = |error| Refusal::new("device", format!("{shown}: {error}"));
    if let Some(signature) = Signature::find(&device).map_err(io)?.filter(|_| !force) {
        let message = format!("{shown} carries {signature}");
        return Err(Refusal::new("occupied", message).hint("--force overwrites it"));
    }
    if let Some(flash) = flash {
        device.make_flash(&flash).map_err(|error| refused(error.into()))?;
    }
    prepare_spare(&device, areas).map_err(io)?;
    let uuid = random_uuid().map_err(io)?;
    Ok((device, DeviceUuid(uuid)))
}
