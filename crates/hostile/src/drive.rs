//! What a drive tells of itself, or `smartctl` of it.

use std::collections::BTreeSet;
use std::time::Duration;

use raidcore::engine::Stream;
use ublkd::control::{DriveReport, drive_report};
use ublkd::health::{DriveHealth, Reading, ata, nvme, smartctl};
use ublkd::nvme::{latency, namespace, placement};

/// How long users can wait for a drive that collects garbage.
const WINDOW_MAX: Duration = Duration::from_secs(60);

/// What writes can be of.
const STREAMS: [Stream; 4] = [Stream::Data, Stream::Journal, Stream::Staging, Stream::Parity];

/// A sector of a log.
const SECTOR_BYTES: usize = 512;

/// Logical blocks, in bytes.
const BLOCK_BYTES: u32 = 4096;

/// When it was told.
const AT: u64 = 1_800_000_000;

/// The first byte chooses which, the rest is what was told.
pub fn drive(bytes: &[u8]) {
    let Some((&which, told)) = bytes.split_first() else { return };
    match which % 6 {
        0 => healthy(nvme::parse(told)),
        1 => healthy(ata::parse(told.chunks(SECTOR_BYTES), BLOCK_BYTES)),
        2 => healthy(smartctl::parse(told)),
        3 => windows(told),
        4 => placed(told),
        _ => formatted(told),
    }
}

/// A drive that is given windows can be in the deterministic one, and has to leave it for a time that users can wait.
fn windows(log: &[u8]) {
    let Ok(told) = latency::parse(log) else { return };
    assert!(!told.deterministic_most.is_zero(), "{told:?}");
    assert!(told.other_stays <= told.other_least, "{told:?}");
    assert!(told.other_least <= WINDOW_MAX, "{told:?}");
}

/// A drive keeps streams apart, or is told of none.
fn placed(status: &[u8]) {
    let Ok(placement) = placement::parse(status) else { return };
    let of: BTreeSet<_> = STREAMS.iter().filter_map(|&stream| placement.of(stream)).collect();
    assert!(placement.streams() >= 2, "{placement:?}");
    assert_eq!(of.len(), usize::from(placement.streams()), "{placement:?}");
}

/// Blocks are of a size that can be shifted by.
fn formatted(identify: &[u8]) {
    let Some(format) = namespace::parse(identify) else { return };
    assert!((9..32).contains(&format.block_shift), "{format:?}");
}

/// Whatever is read, the dates follow each other, and the report comes back as it was.
fn healthy(health: Option<DriveHealth>) {
    let Some(health) = health else { return };
    let report = drive_report(&Reading { at: AT, health });
    assert_eq!(report.replace_at.is_some(), report.worn_out_at.is_some());
    if let (Some(replace), Some(worn_out)) = (report.replace_at, report.worn_out_at) {
        assert!(AT <= replace && replace <= worn_out, "{report:?}");
    }
    let text = serde_json::to_string(&report).expect("numbers always encode");
    assert_eq!(serde_json::from_str::<DriveReport>(&text).ok(), Some(report), "{text}");
}
