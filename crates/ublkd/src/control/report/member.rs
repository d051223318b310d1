//! The state of a member.

use std::path::PathBuf;

use evenkeel_client::{
    DriveReport, ErrorReport, FlashReport, LatencyWindow, MemberReport, MemberState, WayBack,
};
use raidcore::engine::{IoError, MemberStatus};
use raidcore::meta::SlotState;
use raidcore::units::BLOCK_BYTES;

use crate::host::Opened;
use crate::nvme::latency::Window;

fn error_report(error: IoError) -> ErrorReport {
    match error {
        IoError::Medium => ErrorReport::Medium,
        IoError::NoSpace => ErrorReport::NoSpace,
        IoError::Gone => ErrorReport::Gone,
        IoError::Shrunk => ErrorReport::Shrunk,
        IoError::TimedOut => ErrorReport::TimedOut,
    }
}

/// Combines the engine's state with what is known of the device.
pub(super) fn member_report(
    status: &MemberStatus,
    group: Option<u8>,
    device: Option<Opened>,
    flash: Option<FlashReport>,
    drive: Option<DriveReport>,
) -> MemberReport {
    let known = |text| Some(text).filter(|text: &&str| !text.is_empty());
    MemberReport {
        member: status.member.0,
        group,
        durable_by: device.as_ref().map(|device| device.durable_by),
        passthrough: device.as_ref().is_some_and(|device| device.passthrough),
        write_streams: device.as_ref().map_or(0, |device| device.write_streams),
        window: device.as_ref().and_then(|device| device.windows.as_ref()?.window()).map(window),
        path: device.map(|device| device.path),
        label: known(status.label.path()).map(PathBuf::from),
        serial: known(status.label.serial()).map(str::to_owned),
        uuid: status.uuid.to_string(),
        state: match status.state {
            SlotState::Up => MemberState::Up,
            SlotState::Rebuilding { .. } => MemberState::Rebuilding,
            SlotState::Failed => MemberState::Failed,
        },
        since: status.since,
        read_errors: status.read_errors,
        write_errors: status.write_errors,
        last_error: status.last_error.map(error_report),
        hangs: status.hangs,
        missed_bytes: status.missed.map(|missed| missed.blocks * BLOCK_BYTES as u64),
        comes_back: None,
        why_away: None,
        flash,
        drive,
        controller: None,
        io: Vec::new(),
    }
}

fn window(window: Window) -> LatencyWindow {
    match window {
        Window::Deterministic => LatencyWindow::Deterministic,
        Window::NonDeterministic => LatencyWindow::NonDeterministic,
    }
}

/// The same for a member that is out of service.
pub(super) fn away(member: MemberReport, (way, why): (WayBack, Option<String>)) -> MemberReport {
    MemberReport { comes_back: Some(way), why_away: why, ..member }
}
