//! The format of an NVMe namespace, as of the Identify Namespace data structure of the NVM Command Set
//! Specification.

/// How a namespace is formatted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    /// How many logical blocks it has.
    pub blocks: u64,
    /// The binary logarithm of a logical block's bytes.
    pub block_shift: u8,
    /// Whether blocks carry metadata, such as protection information.
    pub has_metadata: bool,
    /// The NVM set that it is in; 0 if it is in none.
    pub nvm_set: u16,
    /// The endurance group that it is in; 0 if it is in none.
    pub endurance_group: u16,
}

/// What the data structure tells; nothing if it is too short, or no format.
#[must_use]
pub fn parse(identify: &[u8]) -> Option<Format> {
    let blocks = u64::from_le_bytes(identify.get(..8)?.try_into().ok()?);
    let formats = usize::from(*identify.get(25)?) + 1;
    let formatted = usize::from(*identify.get(26)?);
    // Its upper bits count only where there are more formats than the lower ones can tell.
    let high = if formats > 16 { formatted >> 5 & 3 } else { 0 };
    let number = formatted & 0xf | high << 4;
    let format = identify.get(128 + number * 4..)?.get(..4)?;
    let metadata_bytes = u16::from_le_bytes([format[0], format[1]]);
    let block_shift = format[2];
    let protected = identify.get(29)? & 7 != 0;
    let nvm_set = nvm_set(identify)?;
    let endurance_group = u16::from_le_bytes(identify.get(102..104)?.try_into().ok()?);
    let is_format = number < formats && (9..32).contains(&block_shift);
    is_format.then_some(Format {
        blocks,
        block_shift,
        has_metadata: metadata_bytes > 0 || protected,
        nvm_set,
        endurance_group,
    })
}

/// The NVM set of a namespace, 0 if it is in none; nothing if the data structure is too short.
pub(super) fn nvm_set(identify: &[u8]) -> Option<u16> {
    Some(u16::from_le_bytes(identify.get(100..102)?.try_into().ok()?))
}
