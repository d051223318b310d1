//! The log of Linux's dm-log-writes: a sector with the number of entries, then each entry in a
//! sector of its own, followed by its data. The sector size is that of the device. The format is
//! defined in the kernel's drivers/md/dm-log-writes.c.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use anyhow::{Result, ensure};
use raidcore::units::BLOCK_BYTES;

const MAGIC: u64 = 0x006a_7366_7773_6872;
const DISCARD: u64 = 1 << 2;
const MARK: u64 = 1 << 3;

/// A log, read from its beginning.
pub(crate) struct Log {
    file: File,
    left: u64,
    /// In bytes.
    at: u64,
}

/// A logged operation. Places and sizes are in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// This was written.
    Write { at: u64, data: Vec<u8> },
    /// This was given back.
    Discard { at: u64, bytes: u64 },
    /// Earlier writes became durable.
    Flush,
    /// The log was marked.
    Mark(String),
}

impl Log {
    pub(crate) fn open(file: File) -> Result<Self> {
        let mut sector = [0; BLOCK_BYTES];
        file.read_exact_at(&mut sector, 0)?;
        let [magic, version, left, sector_bytes] = words(&sector);
        ensure!(magic == MAGIC && version == 1, "not a log of dm-log-writes");
        // Four bytes, with nothing behind them.
        ensure!(sector_bytes == BLOCK_BYTES as u64, "sectors of {sector_bytes} bytes");
        Ok(Self { file, left, at: sector_bytes })
    }

    fn next_entry(&mut self) -> io::Result<Option<Entry>> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let mut sector = [0; BLOCK_BYTES];
        self.file.read_exact_at(&mut sector, self.at)?;
        self.at += BLOCK_BYTES as u64;
        let [at, sectors, flags, text] = words(&sector);
        let (at, bytes) = (at * BLOCK_BYTES as u64, sectors * BLOCK_BYTES as u64);
        let entry = match bytes {
            _ if flags & MARK != 0 => {
                let text = sector.get(32..32 + text as usize).ok_or(io::ErrorKind::InvalidData)?;
                Entry::Mark(String::from_utf8_lossy(text).into_owned())
            }
            _ if flags & DISCARD != 0 => Entry::Discard { at, bytes },
            0 => Entry::Flush,
            _ => {
                let mut data = vec![0; bytes as usize];
                self.file.read_exact_at(&mut data, self.at)?;
                self.at += bytes;
                Entry::Write { at, data }
            }
        };
        Ok(Some(entry))
    }
}

impl Iterator for Log {
    type Item = io::Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_entry().transpose()
    }
}

fn words(sector: &[u8; BLOCK_BYTES]) -> [u64; 4] {
    std::array::from_fn(|index| {
        let word = sector[index * 8..].first_chunk().expect("a sector is longer");
        u64::from_le_bytes(*word)
    })
}
