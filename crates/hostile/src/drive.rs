//! What a drive tells of itself, or `smartctl` of it.

use ublkd::control::{DriveReport, drive_report};
use ublkd::health::{Reading, ata, nvme, smartctl};

/// A sector of a log.
const SECTOR_BYTES: usize = 512;

/// Logical blocks, in bytes.
const BLOCK_BYTES: u32 = 4096;

/// When it was told.
const AT: u64 = 1_800_000_000;

/// The first byte chooses which, the rest is what was told. Whatever is read of it, the dates follow each
/// other, and the report comes back as it was.
pub fn drive(bytes: &[u8]) {
    let Some((&which, told)) = bytes.split_first() else { return };
    let health = match which % 3 {
        0 => nvme::parse(told),
        1 => ata::parse(told.chunks(SECTOR_BYTES), BLOCK_BYTES),
        _ => smartctl::parse(told),
    };
    let Some(health) = health else { return };
    let report = drive_report(&Reading { at: AT, health });
    assert_eq!(report.replace_at.is_some(), report.worn_out_at.is_some());
    if let (Some(replace), Some(worn_out)) = (report.replace_at, report.worn_out_at) {
        assert!(AT <= replace && replace <= worn_out, "{report:?}");
    }
    let text = serde_json::to_string(&report).expect("numbers always encode");
    assert_eq!(serde_json::from_str::<DriveReport>(&text).ok(), Some(report), "{text}");
}
