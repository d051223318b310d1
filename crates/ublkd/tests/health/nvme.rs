//! The SMART / health information log of NVMe drives, laid out as the specification does.

use ublkd::health::{DriveHealth, Source, nvme};

/// The log of a drive: 41 °C (314 K), 83% used, 885,000,000 units written, on for 21,000 hours, 3 errors.
pub(crate) fn log() -> [u8; 512] {
    let mut log = [0; 512];
    log[1..3].copy_from_slice(&314u16.to_le_bytes());
    // Available spare and its threshold, then what is used.
    log[3..6].copy_from_slice(&[100, 10, 83]);
    let numbers: [(usize, u128); 10] = [
        (32, 1_234_567),   // units read
        (48, 885_000_000), // units written
        (64, 9_000_000),   // read commands
        (80, 8_000_000),   // write commands
        (96, 4321),        // busy minutes
        (112, 17),         // power cycles
        (128, 21_000),     // power-on hours
        (144, 5),          // unsafe shutdowns
        (160, 3),          // media errors
        (176, 99),         // entries of the error log
    ];
    for (at, number) in numbers {
        log[at..at + 16].copy_from_slice(&number.to_le_bytes());
    }
    log
}

#[test]
fn all_that_the_log_has_is_told() {
    let expected = DriveHealth {
        used_percent: Some(83),
        written_bytes: Some(885_000_000 * 512_000),
        temperature_celsius: Some(41),
        media_errors: Some(3),
        power_on_hours: Some(21_000),
        source: Source::NvmeLog,
    };
    assert_eq!(nvme::parse(&log()), Some(expected));
}

#[test]
fn a_drive_can_be_used_up_and_cold() {
    let mut log = log();
    log[1..3].copy_from_slice(&263u16.to_le_bytes());
    log[5] = 255;
    let health = nvme::parse(&log).expect("it tells");
    assert_eq!((health.used_percent, health.temperature_celsius), (Some(255), Some(-10)));
}

#[test]
fn numbers_beyond_64_bits_are_cut() {
    let mut log = log();
    for at in [48, 128, 160] {
        log[at..at + 16].fill(0xff);
    }
    let health = nvme::parse(&log).expect("it tells");
    assert_eq!(health.written_bytes, Some(u64::MAX));
    assert_eq!(health.power_on_hours, Some(u64::MAX));
    assert_eq!(health.media_errors, Some(u64::MAX));
}

#[test]
fn what_is_not_reported_is_not_told() {
    let mut log = log();
    log[1..3].fill(0);
    log[48..64].fill(0);
    let health = nvme::parse(&log).expect("it tells");
    assert_eq!((health.temperature_celsius, health.written_bytes), (None, None));
    assert_eq!(nvme::parse(&[0; 512]), None, "an empty log");
    for length in 0..512 {
        assert_eq!(nvme::parse(&log[..length]), None, "{length} bytes");
    }
}
