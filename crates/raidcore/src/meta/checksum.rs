//! CRC-32C (Castagnoli; RFC 3720, section 12.1), as all checksums on disk.

/// The checksum of some bytes.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    checksum_of([bytes])
}

/// The checksum of bytes that are in several places, one after the other.
#[cfg(feature = "std")]
pub(super) fn checksum_of<const N: usize>(parts: [&[u8]; N]) -> u32 {
    let mut sum = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    parts.iter().for_each(|part| sum.update(part));
    sum.finalize() as u32
}

#[cfg(not(feature = "std"))]
pub(super) use checksum_by_table as checksum_of;

/// The same without any instruction that a CPU may not have.
#[cfg(any(test, not(feature = "std")))]
pub(super) fn checksum_by_table<const N: usize>(parts: [&[u8]; N]) -> u32 {
    static TABLE: crc::Crc<u32, crc::Table<16>> =
        crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISCSI);
    let mut sum = TABLE.digest();
    parts.iter().for_each(|part| sum.update(part));
    sum.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc32c() {
        for (bytes, sum) in
            [(&b"123456789"[..], 0xe306_9283), (&[0; 32], 0x8a91_36aa), (&[0xff; 32], 0x62a8_ab43)]
        {
            assert_eq!(checksum(bytes), sum);
            assert_eq!(checksum_by_table([bytes]), sum);
            assert_eq!(checksum_of([&bytes[..5], &[], &bytes[5..]]), sum);
        }
    }
}
