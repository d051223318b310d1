//! What an NVMe namespace tells of itself, from its bytes.

use proptest::prelude::*;
use ublkd::nvme::namespace::{Format, parse};
use ublkd::nvme::{latency, placement};

/// The data structure of a namespace of `blocks` blocks, with the format number `number` of `formats`,
/// which has `block_shift`.
fn identify(blocks: u64, (number, formats): (u8, u8), block_shift: u8) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    bytes[..8].copy_from_slice(&blocks.to_le_bytes());
    bytes[25] = formats - 1;
    bytes[26] = number & 0xf | number >> 4 << 5;
    bytes[128 + usize::from(number) * 4 + 2] = block_shift;
    bytes
}

#[test]
fn a_format_is_read() {
    let format = |blocks, block_shift| Format {
        blocks,
        block_shift,
        has_metadata: false,
        nvm_set: 0,
        endurance_group: 0,
    };
    assert_eq!(parse(&identify(1 << 40, (0, 1), 9)), Some(format(1 << 40, 9)));
    assert_eq!(parse(&identify(77, (6, 7), 12)), Some(format(77, 12)));
    assert_eq!(parse(&identify(77, (0x2b, 64), 12)), Some(format(77, 12)));
    // The upper bits mean nothing where there are few formats.
    let mut few = identify(77, (3, 16), 12);
    few[26] |= 0x60;
    assert_eq!(parse(&few), Some(format(77, 12)));
}

#[test]
fn blocks_with_more_than_data_are_noticed() {
    let has_metadata = |bytes: &[u8]| parse(bytes).expect("a format").has_metadata;
    let mut bytes = identify(77, (1, 2), 12);
    assert!(!has_metadata(&bytes));
    // That of another format.
    bytes[128] = 8;
    assert!(!has_metadata(&bytes));
    bytes[132] = 8;
    assert!(has_metadata(&bytes));
    let mut bytes = identify(77, (1, 2), 12);
    bytes[29] = 1;
    assert!(has_metadata(&bytes), "protection information");
}

#[test]
fn an_nvm_set_and_an_endurance_group_are_read() {
    let mut bytes = identify(77, (0, 1), 12);
    bytes[100..104].copy_from_slice(&[1, 2, 3, 4]);
    let format = parse(&bytes).expect("a format");
    assert_eq!((format.nvm_set, format.endurance_group), (0x0201, 0x0403));
}

#[test]
fn what_is_no_format_is_none() {
    assert_eq!(parse(&identify(77, (2, 2), 12)), None, "one that does not exist");
    for block_shift in [0, 8, 32, 255] {
        assert_eq!(parse(&identify(77, (0, 1), block_shift)), None);
    }
    assert_eq!(parse(&identify(77, (6, 7), 12)[..150]), None, "it is cut off");
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Some(format) = parse(&bytes) {
            prop_assert!((9..32).contains(&format.block_shift));
        }
    }

    #[test]
    fn any_status_of_handles_is_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        if let Ok(placement) = placement::parse(&bytes) {
            prop_assert!((2..=4).contains(&placement.streams()));
        }
    }

    #[test]
    fn any_log_of_an_nvm_set_is_read_without_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..160),
        status in 0..4u8,
    ) {
        let mut bytes = bytes;
        if let Some(first) = bytes.first_mut() {
            *first = status;
        }
        // Most times are too long to be of use.
        bytes.iter_mut().skip(50).for_each(|byte| *byte &= 1);
        if let Ok(told) = latency::parse(&bytes) {
            prop_assert!(told.other_stays <= told.other_least);
            prop_assert!(told.other_least.as_secs() <= 60 && !told.deterministic_most.is_zero());
        }
    }
}
