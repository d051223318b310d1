//! NVMe: the SMART / health information log, as of the NVM Express Base Specification (Get Log Page,
//! log identifier 02h).

use std::fs::File;
use std::io;

use super::sectors::{SECTOR_BYTES, Sector};
use super::{DriveHealth, Source};
use crate::nvme::ask::{self, Question};

/// The admin command "Get Log Page".
const GET_LOG_PAGE: u8 = 0x02;

/// The log's identifier.
const HEALTH_LOG: u32 = 0x02;

/// The whole drive instead of one of its namespaces.
const ALL_NAMESPACES: u32 = u32::MAX;

/// A unit of "data units written": a thousand times 512 bytes.
const DATA_UNIT_BYTES: u128 = 512_000;

/// 0 °C in kelvins, as drives round it.
const ZERO_CELSIUS: i32 = 273;

/// What a log of 512 bytes tells; nothing if it is shorter or tells nothing.
#[must_use]
pub fn parse(log: &[u8]) -> Option<DriveHealth> {
    let log: &[u8; SECTOR_BYTES] = log.get(..SECTOR_BYTES)?.try_into().ok()?;
    // A drive that does not report one of these has zeros there.
    let kelvins = u16::from_le_bytes([log[1], log[2]]);
    let temperature = (kelvins > 0).then(|| i32::from(kelvins) - ZERO_CELSIUS);
    let written = number(log, 48).saturating_mul(DATA_UNIT_BYTES);
    let hours = number(log, 128);
    if temperature.is_none() && written == 0 && hours == 0 {
        return None;
    }
    Some(DriveHealth {
        used_percent: Some(log[5]),
        written_bytes: (written > 0).then(|| saturated(written)),
        temperature_celsius: temperature,
        media_errors: Some(saturated(number(log, 160))),
        power_on_hours: Some(saturated(hours)),
        source: Source::NvmeLog,
    })
}

/// Reads the log through any namespace of the drive.
///
/// # Errors
/// As from the kernel, which needs CAP_SYS_ADMIN for it; or if the drive refuses.
pub(super) fn read(drive: &File) -> io::Result<Option<DriveHealth>> {
    let mut log = Sector::new();
    let dwords = (SECTOR_BYTES / size_of::<u32>()) as u32 - 1;
    let question = Question {
        opcode: GET_LOG_PAGE,
        namespace: ALL_NAMESPACES,
        dword10: HEALTH_LOG | dwords << 16,
        ..Question::default()
    };
    ask::ask(drive, question, &mut log.0)?;
    Ok(parse(&log.0))
}

/// The 16-byte number at byte `at`.
fn number(log: &[u8; SECTOR_BYTES], at: usize) -> u128 {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&log[at..at + 16]);
    u128::from_le_bytes(bytes)
}

fn saturated(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
