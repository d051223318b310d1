//! Adding, removing and replacing members and spares.

use std::path::{Path, PathBuf};

use evenkeel_client::DiskAnswer;
use raidcore::engine::{Command, CommandError, MemberStatus, SpareUse};
use raidcore::meta::{DeviceUuid, SlotState};
use raidcore::units::{DeviceId, MemberId};
use serde_json::Value;

use super::Refusal;
use super::answers::answer;
use super::newcomer::{Newcomer, Taken};
use super::service::{Array, Service};
use crate::flash::Named;
use crate::members::Device;
use crate::paths::from_text;

impl Service {
    /// Adds a device to the array that needs it most, or to that of a group.
    pub(super) async fn add(
        &self,
        path: &Path,
        group: Option<u8>,
        force: bool,
    ) -> Result<Value, Refusal> {
        let array = self.array_for_spare(group).await?;
        if self.facts.redundancy == 0 {
            return Err(self.refusal(CommandError::NotRedundant.into()));
        }
        if !force {
            self.failures_on_record().await?;
            if let Some(back) = self.bring_back(path, None, self.host.io_timeout()).await? {
                return Ok(back);
            }
        }
        let need = array.record.least_blocks();
        let mut absent = Vec::new();
        for array in &self.arrays {
            let spares = self.status(array).await?.absent_spares;
            absent.extend(spares.into_iter().map(|spare| (array, spare)));
        }
        let newcomer = Newcomer {
            absent: absent.iter().map(|&(_, spare)| spare).collect(),
            ..Newcomer::new(path, need, (&array.record.areas, &array.host), force)
        };
        let Taken { device, uuid, was } = newcomer.take_in(array.host.io_timeout()).await?;
        let _alone = self.membership.lock().await;
        // Others may have been given meanwhile.
        let now = self.array_for_spare(group).await?;
        let fits =
            now.record.areas == array.record.areas && now.record.least_blocks() <= device.blocks();
        self.give(if fits { now } else { array }, device, uuid).await?;
        if let Some(&(array, absent)) = absent.iter().find(|&&(_, spare)| Some(spare) == was) {
            // It has a new identity. If this fails, the old spare is reported as missing, and can
            // be removed.
            let _ = array.host.command(Command::Forget(absent)).await;
        }
        self.remember().await;
        answer(DiskAnswer::Added { added: path.to_path_buf() })
    }

    /// Removes a spare, or forgets one that is missing.
    pub(super) async fn remove(&self, disk: &str) -> Result<Value, Refusal> {
        for array in &self.arrays {
            let absent = self.status(array).await?.absent_spares;
            if let Some(&spare) = absent.iter().find(|spare| spare.to_string() == disk) {
                return self.command(array, Command::Forget(spare)).await;
            }
        }
        let (array, device) = self.spare(disk).await?;
        let removed = self.command(array, Command::Remove(device)).await;
        self.remember().await;
        removed
    }

    /// Puts a device into the place of a member. A member that serves is copied to it first.
    pub(super) async fn replace(
        &self,
        disk: &str,
        with: &Path,
        force: bool,
    ) -> Result<Value, Refusal> {
        let (array, member) = self.member(disk).await?;
        let index = self.arrays.iter().position(|other| std::ptr::eq(other, array));
        if let (false, Some(index), true) = (force, index, self.facts.redundancy > 0) {
            self.failures_on_record().await?;
            let only = Some((index, member));
            if let Some(back) = self.bring_back(with, only, self.host.io_timeout()).await? {
                return Ok(back);
            }
        }
        self.next_missing(array, member).await?;
        self.may_be_copied(array, member).await?;
        let need = array.record.blocks_of(member);
        let newcomer = Newcomer::new(with, need, (&array.record.areas, &array.host), force);
        let Taken { device, uuid, .. } = newcomer.take_in(array.host.io_timeout()).await?;
        let _alone = self.membership.lock().await;
        // The member may have failed meanwhile, or have been replaced.
        if self.next_missing(array, member).await? {
            self.give(array, device, uuid).await?;
        } else {
            let spare = self.give(array, device, uuid).await?;
            let replace = Command::Replace { member, spare };
            if let Err(error) = array.host.command(replace).await {
                // So that it is not left behind as a spare.
                let _ = array.host.command(Command::Remove(spare)).await;
                return Err(self.refusal(error));
            }
        }
        self.remember().await;
        let status = self.status(array).await?;
        let copied = status.successor.is_some_and(|successor| successor.member == member);
        let (member, group, with) = (member.0, array.facts.group, with.to_path_buf());
        answer(DiskAnswer::Replaced { member, group, with, copied })
    }

    /// Checks that a member that serves can be copied to a new device now, so that the device is
    /// not wiped in vain. A member that does not serve need not be copied.
    async fn may_be_copied(&self, array: &Array, member: MemberId) -> Result<(), Refusal> {
        let status = self.status(array).await?;
        let serves = |m: &MemberStatus| m.member == member && m.state == SlotState::Up;
        let why = match status.distributed_spare {
            _ if !status.members.iter().any(serves) => return Ok(()),
            _ if status.successor.is_some() => CommandError::AlreadyCopying,
            Some(SpareUse::Filling(_) | SpareUse::StandsInFor(_)) => CommandError::SpareInUse,
            Some(SpareUse::Free) | None => return Ok(()),
        };
        Err(self.refusal(why.into()))
    }

    /// Whether the member is missing, so that the next spare takes its place.
    async fn next_missing(&self, array: &Array, member: MemberId) -> Result<bool, Refusal> {
        let status = self.status(array).await?;
        let stood_in_for =
            |m: &&MemberStatus| status.distributed_spare == Some(SpareUse::StandsInFor(m.member));
        let missing = status.members.iter().filter(|m| m.state == SlotState::Failed);
        match missing.min_by_key(stood_in_for).map(|m| m.member) {
            // A spare goes to the missing member with the lowest number. A member that the
            // distributed spare replaces comes last.
            Some(first) if first != member => {
                let first_name = array.facts.place(first.0);
                let message = format!("{first_name} is missing and has to be replaced first");
                let (name, disk) = (&self.facts.name, array.facts.disk(first.0));
                let hint = format!("`evenkeel disk replace {name} {disk} PATH`");
                Err(Refusal::new("busy", message).hint(hint))
            }
            Some(_) => Ok(true),
            None if status.spares.is_empty() => Ok(false),
            None => {
                tracing::info!("the array has spares; they stay");
                Ok(false)
            }
        }
    }

    /// Gives it to the array as a spare.
    async fn give(
        &self,
        array: &Array,
        device: Device,
        uuid: DeviceUuid,
    ) -> Result<DeviceId, Refusal> {
        let added = array.host.add_device(device, uuid).await;
        added.map_err(|error| self.refusal(error))
    }

    /// The array that needs a new spare most.
    async fn array_for_spare(&self, group: Option<u8>) -> Result<&Array, Refusal> {
        if let Some(group) = group {
            let array = self.arrays.get(usize::from(group)).filter(|_| self.facts.groups > 0);
            return array.ok_or_else(|| self.no_such(&group.to_string(), "group"));
        }
        let mut best = None;
        for array in &self.arrays {
            let status = self.status(array).await?;
            let failed = status.members.iter().filter(|m| m.state == SlotState::Failed).count();
            // The one that needs it most; of equal ones the first.
            let need = failed as i64 - status.spares.len() as i64;
            if best.is_none_or(|(most, _)| need > most) {
                best = Some((need, array));
            }
        }
        best.map(|(_, array)| array).ok_or_else(|| self.no_such("0", "group"))
    }

    /// The member with this name, and its array.
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

    /// The spare with this name, and its array.
    pub(super) async fn spare(&self, disk: &str) -> Result<(&Array, DeviceId), Refusal> {
        for array in &self.arrays {
            let status = self.status(array).await?;
            let mut members = status.members.iter();
            if let Some(member) = members.find(|member| self.is_called(array, member, disk)) {
                return Err(self.is_member(array, member, disk));
            }
            let successor = status.successor.iter().map(|successor| &successor.device);
            let mut spares = status.spares.iter().chain(successor);
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

    /// The error that a disk is a member and no spare.
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
        let named = Named::parse(&from_text(path));
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
