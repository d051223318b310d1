//! Device statistics of ATA drives, laid out as the command set does.

use ublkd::health::{DriveHealth, Source, ata};

/// Supported and valid.
const VALID: u64 = 0xc0 << 56;

/// A page with these statistics: where, and what with its flags.
pub(crate) fn page(number: u8, statistics: &[(usize, u64)]) -> [u8; 512] {
    let mut page = [0; 512];
    // The revision, and the page's number.
    page[..3].copy_from_slice(&[1, 0, number]);
    for (at, value) in statistics {
        page[*at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    page
}

/// The pages of a drive, as they are read.
pub(crate) fn pages() -> [[u8; 512]; 4] {
    [
        // Power-on resets, power-on hours, sectors written, write commands, sectors read.
        page(
            1,
            &[
                (8, VALID | 33),
                (16, VALID | 21_000),
                (24, VALID | 800_000_000_000),
                (32, VALID | 7),
                (40, VALID | 9),
            ],
        ),
        page(4, &[(8, VALID | 2), (16, VALID | 44)]),
        // The current temperature, and the mean of a short while.
        page(5, &[(8, VALID | 36), (16, VALID | 35)]),
        // With the flag that it is normalised.
        page(7, &[(8, VALID | 0x20 << 56 | 12)]),
    ]
}

fn parse(pages: &[[u8; 512]]) -> Option<DriveHealth> {
    ata::parse(pages.iter().map(|page| &page[..]), 512)
}

#[test]
fn all_pages_are_told() {
    let expected = DriveHealth {
        used_percent: Some(12),
        written_bytes: Some(800_000_000_000 * 512),
        temperature_celsius: Some(36),
        media_errors: Some(2),
        power_on_hours: Some(21_000),
        source: Source::AtaStatistics,
    };
    assert_eq!(parse(&pages()), Some(expected));
    let mut backwards = pages();
    backwards.reverse();
    assert_eq!(parse(&backwards), Some(expected), "in any order");
    let large = ata::parse(pages().iter().map(|page| &page[..]), 4096).expect("it tells");
    assert_eq!(large.written_bytes, Some(800_000_000_000 * 4096), "in logical blocks of 4 KiB");
}

#[test]
fn only_values_that_are_supported_and_valid_are_told() {
    for flags in [0u64, 0x40, 0x80, 0x3f] {
        let page = page(7, &[(8, flags << 56 | 12)]);
        assert_eq!(parse(&[page]), None, "flags {flags:#x}");
    }
    let mut pages = pages();
    pages[0][16 + 7] = 0x80;
    let health = parse(&pages).expect("it tells");
    assert_eq!(health.power_on_hours, None);
    assert_eq!(health.written_bytes, Some(800_000_000_000 * 512));
}

#[test]
fn values_have_as_many_bits_as_the_command_set_gives_them() {
    let ones = VALID | 0x00ff_ffff_ffff_ffff;
    let pages = [page(1, &[(16, ones), (24, ones)]), page(4, &[(8, ones)]), page(7, &[(8, ones)])];
    let health = parse(&pages).expect("it tells");
    assert_eq!(health.power_on_hours, Some(u32::MAX.into()));
    assert_eq!(health.media_errors, Some(u32::MAX.into()));
    assert_eq!(health.written_bytes, Some(((1 << 48) - 1) * 512));
    assert_eq!(health.used_percent, Some(255));
}

#[test]
fn temperatures_have_a_sign() {
    let celsius = |byte: u8| {
        parse(&[page(5, &[(8, VALID | u64::from(byte))])]).and_then(|told| told.temperature_celsius)
    };
    assert_eq!(celsius(0xfb), Some(-5));
    assert_eq!(celsius(0x80), None, "not measured");
}

#[test]
fn short_and_foreign_pages_are_left_out() {
    let pages = pages();
    assert_eq!(ata::parse(pages.iter().map(|page| &page[..511]), 512), None);
    let foreign = page(3, &[(8, VALID | 5), (16, VALID | 6)]);
    assert_eq!(parse(&[foreign, [0; 512], [0xff; 512]]), None);
}

#[test]
fn the_list_of_pages_has_as_many_as_it_says() {
    let mut list = page(0, &[]);
    list[8..15].copy_from_slice(&[5, 0, 1, 4, 5, 7, 6]);
    let listed: Vec<u8> = (0..=255).filter(|&page| ata::lists(&list, page)).collect();
    assert_eq!(listed, [0, 1, 4, 5, 7]);
    assert!(!ata::lists(&[], 0) && !ata::lists(&list[..8], 1) && !ata::lists(&list[..9], 1));
    list[8] = 255;
    assert!(ata::lists(&list, 6), "a list that says more than it can have");
}
