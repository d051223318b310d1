//! Bytes that a drive is saved in, and drawing numbers from such bytes that may be anything.
//!
//! ```text
//! 0   8  "EKFLASH" 0
//! 8   4  version, 1
//! 12  4  length of the text
//! 16     text: profile and counters as TOML
//!        state: numbers of 4 and 8 bytes, in the order in which `save` functions write them
//! -4  4  CRC-32C of all before
//! ```
//!
//! Numbers are little-endian.
//!
//! Invariants:
//! - What is restored keeps the invariants of a drive, whatever the bytes are.
//! - The memory that is taken for a drive is at most a few dozen times the number of bytes.

use det::Prng;
use thiserror::Error;

use crate::profile::ProfileError;

const MAGIC: [u8; 8] = *b"EKFLASH\0";
const VERSION: u32 = 1;
const CRC_BYTES: usize = 4;

/// Times and counters are below this: there is room to go on from any.
const COUNT_MAX: u64 = 1 << 62;

/// Why bytes can't be made a drive of.
#[derive(Debug, Error)]
pub enum RestoreError {
    /// They are something else.
    #[error("this is not the state of a drive")]
    Alien,
    /// They were saved by another release.
    #[error("its format is {0}, only {VERSION} is known")]
    Version(u32),
    /// They are not what was saved.
    #[error("it is damaged: the checksum does not match, or a part is missing")]
    Damaged,
    /// The text in them is not one.
    #[error("its profile can't be read: {0}")]
    Text(String),
    /// The drive is impossible.
    #[error("its profile is impossible: {0}")]
    Profile(#[from] ProfileError),
    /// No drive can be in that state.
    #[error("no drive can be in this state: {0}")]
    Impossible(&'static str),
}

/// Writes numbers.
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new(text: &str) -> Self {
        let mut writer = Self(MAGIC.to_vec());
        writer.u32(VERSION);
        writer.u32(text.len() as u32);
        writer.0.extend_from_slice(text.as_bytes());
        writer
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn prng(&mut self, prng: &Prng) {
        prng.state().into_iter().for_each(|word| self.u64(word));
    }

    /// Numbers, and before them how many there are.
    pub(crate) fn list(&mut self, values: impl Iterator<Item = u32>) {
        let at = self.0.len();
        self.u32(0);
        values.for_each(|value| self.u32(value));
        let count = (self.0.len() - at) / 4 - 1;
        self.0[at..at + 4].copy_from_slice(&(count as u32).to_le_bytes());
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        let crc = checksum(&self.0);
        self.u32(crc);
        self.0
    }
}

/// Reads what a [`Writer`] may have written.
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A reader of what comes after the text, and the text.
    pub(crate) fn open(bytes: &'a [u8]) -> Result<(Self, &'a str), RestoreError> {
        let mut reader = Self(bytes);
        if !reader.take().is_ok_and(|magic| magic == MAGIC) {
            return Err(RestoreError::Alien);
        }
        let version = reader.u32()?;
        if version != VERSION {
            return Err(RestoreError::Version(version));
        }
        let (rest, crc) = reader.0.split_last_chunk().ok_or(RestoreError::Damaged)?;
        if checksum(&bytes[..bytes.len() - CRC_BYTES]) != u32::from_le_bytes(*crc) {
            return Err(RestoreError::Damaged);
        }
        reader.0 = rest;
        let length = reader.u32()? as usize;
        let (text, rest) = reader.0.split_at_checked(length).ok_or(RestoreError::Damaged)?;
        let text = str::from_utf8(text).map_err(|error| RestoreError::Text(error.to_string()))?;
        Ok((Self(rest), text))
    }

    /// Bytes that are left.
    pub(crate) fn left(&self) -> u64 {
        self.0.len() as u64
    }

    pub(crate) fn u32(&mut self) -> Result<u32, RestoreError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u32, what: &'static str) -> Result<u32, RestoreError> {
        let value = self.u32()?;
        if value < end { Ok(value) } else { Err(RestoreError::Impossible(what)) }
    }

    /// A time, or how many of something there were.
    pub(crate) fn count(&mut self) -> Result<u64, RestoreError> {
        let value = u64::from_le_bytes(self.take()?);
        let error = RestoreError::Impossible("a counter or time is beyond all bounds");
        if value < COUNT_MAX { Ok(value) } else { Err(error) }
    }

    pub(crate) fn prng(&mut self) -> Result<Prng, RestoreError> {
        let mut state = [0; 4];
        for word in &mut state {
            *word = u64::from_le_bytes(self.take()?);
        }
        Prng::from_state(state).ok_or(RestoreError::Impossible("its randomness has run dry"))
    }

    /// The length of a list of at most `most` numbers.
    pub(crate) fn length(&mut self, most: u32) -> Result<u32, RestoreError> {
        let length = self.u32()?;
        if length <= most {
            Ok(length)
        } else {
            Err(RestoreError::Impossible("there is more of something than there can be"))
        }
    }

    /// That all has been read.
    pub(crate) fn finish(self) -> Result<(), RestoreError> {
        if self.0.is_empty() { Ok(()) } else { Err(RestoreError::Damaged) }
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], RestoreError> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(RestoreError::Damaged)?;
        self.0 = rest;
        Ok(*taken)
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}
