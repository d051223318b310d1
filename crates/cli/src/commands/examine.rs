//! `evenkeel examine`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow, bail};
use evenkeel_client::Facts;
use evenkeel_client::paths::{shown, to_text};
use raidcore::meta::{ArrayRecord, SUPERBLOCK_COPIES, SlotState, Spared, Superblock, VolumePart};
use raidcore::units::{BLOCK_BYTES, MemberId};
use serde_json::{Value, json};
use steering::scheme::Scheme;
use ublkd::attach::Examined;
use ublkd::control::{facts_of, facts_of_all};

use super::lease;
use crate::output::{Output, ago, print, refusal_of};
use crate::size::Size;

/// Fails if one of them is no intact member.
pub(crate) fn examine(members: &[PathBuf], output: Output) -> Result<ExitCode> {
    let mut values = Vec::new();
    let mut texts = Vec::new();
    let mut code = ExitCode::SUCCESS;
    for path in members {
        let examined = match ublkd::attach::examine(path) {
            Ok(examined) => examined,
            Err(error) => {
                // The others are printed all the same.
                code = ExitCode::FAILURE;
                let error = refusal_of(&error.into());
                texts.push(match &error.hint {
                    Some(hint) => format!("{}\n  what to do: {hint}", error.message),
                    None => error.message.clone(),
                });
                values.push(json!({ "path": to_text(path), "error": error }));
                continue;
            }
        };
        if examined.superblock.is_err() {
            code = ExitCode::FAILURE;
        }
        values.push(value(&examined));
        texts.push(text(&examined));
    }
    output.result(&json!({ "members": values }), || texts.join("\n\n"));
    Ok(code)
}

/// Properties that udev's rules can import: of a member, and of the device that an array is served as.
/// Nothing, and a failure, for any other device. Names of arrays have no special characters of udev or
/// systemd.
pub(crate) fn examine_for_udev(members: &[PathBuf], output: Output) -> Result<ExitCode> {
    if output.is_json() {
        bail!("--udev prints properties, not JSON: leave --json or --udev out");
    }
    let mut code = ExitCode::SUCCESS;
    for path in members {
        // By which systemd finds it: the name is not udev's.
        let name = ublkd::front::ublk::name_of(path);
        if let Some(name) = &name {
            print(&format!("SYSTEMD_ALIAS={}", shown(name)));
        }
        let examined = ublkd::attach::examine(path);
        // The others are printed all the same.
        if let Err(error) = &examined {
            output.error(&anyhow!("{error}"));
        }
        let superblock = examined.ok().and_then(|examined| examined.superblock.ok());
        // What is only prepared is another system's, which finds it by its own properties.
        let Some(superblock) = superblock.filter(|found| !found.record.is_pending()) else {
            if name.is_none() {
                code = ExitCode::FAILURE;
            }
            continue;
        };
        // All groups of a log volume belong to the volume.
        let facts = facts_of_all(std::slice::from_ref(&superblock.record));
        print("ID_FS_TYPE=evenkeel_member\nID_FS_USAGE=raid");
        print(&format!("ID_FS_LABEL={}\nEVENKEEL_ARRAY={}", facts.name, facts.name));
        print(&format!("ID_FS_UUID={}\nID_FS_UUID_SUB={}", facts.uuid, superblock.device));
    }
    Ok(code)
}

fn value(examined: &Examined) -> Value {
    let mut value = json!({
        "path": to_text(&examined.path),
        "bytes": examined.blocks * BLOCK_BYTES as u64,
        "intact_superblocks": examined.intact_copies,
    });
    if let Some(profile) = &examined.flash {
        value["flash"] = profile.as_str().into();
    }
    match &examined.superblock {
        Err(error) => value["error"] = json!(refusal_of(&anyhow!("{error}"))),
        Ok(superblock) => {
            let record = &superblock.record;
            let slots = record.slots.iter().map(|slot| {
                json!({
                    "device": slot.device.to_string(),
                    "state": state(slot.state),
                    "since": slot.since,
                })
            });
            let spares = record.spares.iter().map(ToString::to_string);
            value["array"] = json!(facts_of(record));
            if let Some(part) = &record.volume {
                value["log_volume"] = json!({
                    "uuid": part.volume.to_string(),
                    "group": part.group,
                    "groups": part.groups,
                    "capacity_bytes": part.blocks * BLOCK_BYTES as u64,
                    "segment_bytes": u64::from(part.segment) * BLOCK_BYTES as u64,
                });
            }
            value["device"] = superblock.device.to_string().into();
            value["role"] = role(superblock).into();
            value["clean"] = record.clean.into();
            let writes = record.volatile;
            value["volatile_writes"] = json!({ "held": writes.held, "lost": writes.lost });
            value["lease"] = lease::value(record, examined.lease.as_ref());
            value["pending"] = record.is_pending().into();
            value["events"] = record.events.into();
            value["epoch"] = record.epoch.into();
            value["members"] = slots.collect();
            value["spares"] = spares.collect();
            value["policy"] = record.policy.map_or(
                Value::Null,
                |policy| json!({ "name": policy.name.as_str(), "since": policy.since }),
            );
        }
    }
    value
}

fn text(examined: &Examined) -> String {
    let size = Size(examined.blocks * BLOCK_BYTES as u64);
    let mut lines = vec![format!("{} ({size})", shown(&examined.path))];
    let intact = format!("{} of {SUPERBLOCK_COPIES} intact", examined.intact_copies);
    lines.extend(
        examined.flash.as_ref().map(|profile| format!("  SSD          modelled, {profile}")),
    );
    lines.push(format!("  superblocks  {intact}"));
    let superblock = match &examined.superblock {
        Err(error) => {
            lines.push(format!("  wrong        {error}"));
            return lines.join("\n");
        }
        Ok(superblock) => superblock,
    };
    let record = &superblock.record;
    let facts = facts_of(record);
    let members = facts.member_count;
    lines.extend([
        format!("  array        {} ({})", facts.name, facts.uuid),
        format!("  this device  {} ({})", role(superblock), superblock.device),
        format!(
            "  shape        {} of {members} members, chunk {}, {} usable",
            facts.shape(),
            Size(facts.chunk_bytes),
            Size(facts.capacity_bytes)
        ),
        format!("  reshaped     {}", reshaped(record, &facts)),
        format!("  log volume   {}", log_volume(record)),
        format!("  data area    {}{}", data_area(record), beyond_md(&facts)),
        format!("  consistency  {}", facts.consistency),
        format!("  staging log  {}", staging(&facts)),
        format!("  distributed  {}", distributed(record)),
        format!("  policy       {}", policy(record)),
        format!("  lease        {}", lease::text(record, examined.lease.as_ref())),
        format!("  created      {} ago", ago(record.created)),
        format!("  stopped      {}", stopped(record)),
        format!("  events       {}", record.events),
    ]);
    for (number, slot) in record.slots.iter().enumerate() {
        let (state, ago) = (state(slot.state), ago(slot.since));
        let what = if number < members { "member" } else { "stages" };
        lines.push(format!("  {what} {number:<5} {state}, for {ago} ({})", slot.device));
    }
    lines.extend(record.spares.iter().map(|spare| format!("  spare        {spare}")));
    lines.join("\n")
}

fn stopped(record: &ArrayRecord) -> &'static str {
    match (record.is_pending(), record.clean) {
        (true, _) => {
            "it is prepared only, and the devices are md's: evenkeel import --commit, or --undo"
        }
        (false, true) if record.volatile.lost => "cleanly, with lost writes",
        (false, false) if record.volatile.lost => "not (yet), with lost writes",
        (false, false) if record.volatile.held => "not (yet); if no process runs it, lost writes",
        (false, true) => "cleanly",
        (false, false) => "not (yet)",
    }
}

/// How far its stripes have become others, if they do.
fn reshaped(record: &ArrayRecord, facts: &Facts) -> String {
    let (Some(reshape), Some(from)) = (&record.reshape, &facts.reshaped_from) else {
        return "no: all stripes are alike".to_owned();
    };
    let (next, all) = (reshape.next, record.geometry.stripes());
    format!("from {from}: {next} of {all} stripes are done")
}

fn log_volume(record: &ArrayRecord) -> String {
    let Some(part) = record.volume else { return "none: an array of its own".to_owned() };
    let VolumePart { volume, group, groups, segment, blocks } = part;
    let bytes = |blocks: u64| Size(blocks * BLOCK_BYTES as u64);
    let (segment, usable) = (bytes(segment.into()), bytes(blocks));
    format!("group {group} of {groups} of {volume}: {usable} usable, segments of {segment}")
}

/// In KiB, as other programs take it.
fn data_area(record: &ArrayRecord) -> String {
    let kib = |blocks: u64| blocks * (BLOCK_BYTES as u64 >> 10);
    let (start, blocks) = record.layout().data_of(MemberId(0));
    format!("{} KiB of each member, from {} KiB on", kib(blocks), kib(start.0))
}

fn beyond_md(facts: &Facts) -> &'static str {
    let is_uneven = facts.parity_shares.is_some();
    if is_uneven { "; md has no such layout: to leave, copy the data" } else { "" }
}

fn staging(facts: &Facts) -> String {
    let on_devices = |facts: &Facts| match facts.staging_devices {
        0 => String::new(),
        1 => format!(", and {} of a staging device", Size(facts.staging_device_bytes)),
        n => format!(", and {} of each of {n} staging devices", Size(facts.staging_device_bytes)),
    };
    match facts.staging_bytes {
        0 => "none".to_owned(),
        bytes => format!("{} of each member{}", Size(bytes), on_devices(facts)),
    }
}

/// The distributed spare.
fn distributed(record: &ArrayRecord) -> String {
    let bytes = match record.areas.distributed_spare_blocks() {
        0 => return "spare: none".to_owned(),
        blocks => Size(blocks * BLOCK_BYTES as u64),
    };
    let used = match (record.spared, record.stood_in_for()) {
        (_, Some(member)) => format!("stands in for member {}", member.0),
        (Some(Spared { member, watermark }), None) => {
            format!("is filled for member {} (at stripe {watermark})", member.0)
        }
        (None, None) => "free".to_owned(),
    };
    format!("spare: {bytes} of each member, {used}")
}

fn policy(record: &ArrayRecord) -> String {
    let Some(policy) = &record.policy else { return "none on record".to_owned() };
    let known = Scheme::named(policy.name.as_str()).is_some();
    let unknown = if known { "" } else { ", which this release does not know" };
    format!("{}, for {}{unknown}", policy.name, ago(policy.since))
}

fn role(superblock: &Superblock) -> String {
    let record = &superblock.record;
    match record.member_of(superblock.device) {
        Some(member) => facts_of(record).place(member.0),
        None if record.spares.contains(&superblock.device) => "spare".to_owned(),
        None => "no longer used".to_owned(),
    }
}

fn state(state: SlotState) -> String {
    match state {
        SlotState::Up => "up".to_owned(),
        SlotState::Rebuilding { watermark } => format!("rebuilding (at stripe {watermark})"),
        SlotState::Failed => "failed".to_owned(),
    }
}
