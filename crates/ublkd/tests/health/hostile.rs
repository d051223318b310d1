//! Bytes that no drive should give: they are read to their end.

use proptest::collection::vec;
use proptest::prelude::*;
use ublkd::health::{DriveHealth, Expected, ata, nvme, smartctl};

use crate::smartctl::{ATA, NVME, SCSI};

/// What is done with whatever was read.
fn used(health: Option<DriveHealth>, at: u64) {
    if let Some(health) = health {
        let dates = Expected::of(&health, at);
        assert!(dates.is_none_or(|dates| at <= dates.replace_at));
        assert!(dates.is_none_or(|dates| dates.replace_at <= dates.worn_out_at));
        let json = serde_json::to_string(&health).expect("it can be written");
        assert_eq!(serde_json::from_str::<DriveHealth>(&json).expect("and read"), health);
    }
}

proptest! {
    #[test]
    fn logs_of_any_bytes(bytes in vec(any::<u8>(), 0..1100), blocks: u32, at: u64) {
        used(nvme::parse(&bytes), at);
        used(ata::parse(bytes.chunks(512), blocks), at);
        used(smartctl::parse(&bytes), at);
        let listed = ata::lists(&bytes, 7);
        prop_assert!(!listed || bytes.contains(&7));
    }

    #[test]
    fn pages_of_any_statistics(
        page in prop::sample::select(vec![1u8, 4, 5, 7]),
        words in vec(any::<u64>(), 63),
        blocks: u32,
    ) {
        let words: Vec<(usize, u64)> =
            words.into_iter().enumerate().map(|(at, word)| (8 * (at + 1), word)).collect();
        used(ata::parse([&crate::ata::page(page, &words)[..]], blocks), 0);
    }

    #[test]
    fn outputs_with_other_bytes(
        which in 0usize..3,
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut output = [NVME, ATA, SCSI][which].as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at.index(output.len());
            output[at] = byte;
        }
        used(smartctl::parse(&output), 0);
    }

    #[test]
    fn outputs_that_are_cut_off(which in 0usize..3, end: prop::sample::Index) {
        let output = [NVME, ATA, SCSI][which].trim_end().as_bytes();
        prop_assert_eq!(smartctl::parse(&output[..end.index(output.len())]), None);
    }

    #[test]
    fn outputs_with_other_values(value in prop::sample::select(vec![
        "null", "true", "-1", "1e400", "18446744073709551616", "\"83\"", "[]", "{}", "1.5",
    ])) {
        for (output, from) in [(NVME, ": 83,"), (ATA, ": 21000\n"), (SCSI, ": 11,")] {
            prop_assert!(output.contains(from));
            let end = &from[from.len() - 1..];
            used(smartctl::parse(output.replace(from, &format!(": {value}{end}")).as_bytes()), 0);
        }
    }
}
