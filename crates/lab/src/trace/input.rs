//! Reads a file, decompressed, as lines or records with their positions.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use super::{Position, TraceError};

/// Enough to tell a format by.
const HEAD: u64 = 64 << 10;
/// No format has longer ones.
const LINE_MAX: u64 = 16 << 10;
/// The memory limit for decompression; `xz -9` needs 65 MiB.
const XZ_MEMORY_KIB: u32 = 256 << 10;
const ZSTD_WINDOW: u64 = 256 << 20;

pub(super) struct Input {
    path: PathBuf,
    bytes: BufReader<Box<dyn Read>>,
    head: Vec<u8>,
    /// What was read last.
    last: Vec<u8>,
    position: Position,
}

impl Input {
    pub(super) fn open(path: &Path) -> Result<Self, TraceError> {
        let at_open = |error| TraceError::Open { path: path.into(), error };
        let mut bytes = File::open(path).and_then(decompressed).map_err(at_open)?;
        let mut head = Vec::new();
        (&mut bytes).take(HEAD).read_to_end(&mut head).map_err(at_open)?;
        let whole: Box<dyn Read> = Box::new(Cursor::new(head.clone()).chain(bytes));
        let bytes = BufReader::with_capacity(128 << 10, whole);
        Ok(Self { path: path.into(), bytes, head, last: Vec::new(), position: Position::Line(0) })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The first 64 KiB.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// The next line, without its end.
    pub(super) fn line(&mut self) -> Result<Option<&[u8]>, TraceError> {
        let Position::Line(number) = &mut self.position else { return Ok(None) };
        self.last.clear();
        match (&mut self.bytes).take(LINE_MAX).read_until(b'\n', &mut self.last) {
            Ok(0) => return Ok(None),
            Ok(_) => *number += 1,
            Err(error) => return Err(self.unreadable(error)),
        }
        if self.last.len() as u64 == LINE_MAX && self.last.last() != Some(&b'\n') {
            return Err(self.malformed("a line of less than 16 KiB", &self.last));
        }
        Ok(Some(self.last.trim_ascii()))
    }

    /// The next record of `N` bytes.
    pub(super) fn record<const N: usize>(&mut self) -> Result<Option<[u8; N]>, TraceError> {
        self.position = match self.position {
            Position::Line(_) => Position::Record { number: 1, byte: 0 },
            Position::Record { number, byte } => {
                Position::Record { number: number + 1, byte: byte + N as u64 }
            }
        };
        self.last.clear();
        let read = (&mut self.bytes).take(N as u64).read_to_end(&mut self.last);
        if let Err(error) = read {
            return Err(self.unreadable(error));
        }
        match <[u8; N]>::try_from(&self.last[..]) {
            Ok(record) => Ok(Some(record)),
            Err(_) if self.last.is_empty() => Ok(None),
            Err(_) => {
                let found = format!("the end of the file after {} of {N} bytes", self.last.len());
                Err(self.fault("a whole record", found))
            }
        }
    }

    /// The error for a record that has `found` where `expected` should be.
    pub(super) fn malformed(&self, expected: &'static str, found: &[u8]) -> TraceError {
        const SHOWN: usize = 60;
        let shown = found.get(..SHOWN).unwrap_or(found).escape_ascii();
        let rest = if found.len() > SHOWN { "…" } else { "" };
        self.fault(expected, format!("\"{shown}{rest}\""))
    }

    fn fault(&self, expected: &'static str, found: String) -> TraceError {
        let path = self.path.clone();
        TraceError::Malformed { path, position: self.position, expected, found }
    }

    fn unreadable(&self, error: io::Error) -> TraceError {
        TraceError::Read { path: self.path.clone(), position: self.position, error }
    }
}

/// By the first bytes of the file.
fn decompressed(file: File) -> io::Result<Box<dyn Read>> {
    let mut file = BufReader::with_capacity(128 << 10, file);
    let magic = file.fill_buf()?;
    Ok(if magic.starts_with(&[0x1f, 0x8b]) {
        Box::new(MultiGzDecoder::new(file))
    } else if magic.starts_with(b"\xfd7zXZ\0") {
        Box::new(XzReader::new_mem_limit(file, true, XZ_MEMORY_KIB))
    } else if magic.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        Box::new(ZstdFrames::new(file))
    } else {
        Box::new(file)
    })
}

/// A zstd file is one frame or several; the library decodes one.
struct ZstdFrames {
    file: BufReader<File>,
    frame: FrameDecoder,
    begun: bool,
}

impl ZstdFrames {
    fn new(file: BufReader<File>) -> Self {
        let mut frame = FrameDecoder::new();
        frame.set_max_window_size(ZSTD_WINDOW);
        Self { file, frame, begun: false }
    }
}

impl Read for ZstdFrames {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while !into.is_empty() && self.frame.can_collect() == 0 {
            if self.begun && !self.frame.is_finished() {
                let some = BlockDecodingStrategy::UptoBlocks(1);
                self.frame.decode_blocks(&mut self.file, some).map_err(io::Error::other)?;
                continue;
            }
            if self.begun {
                let stored = self.frame.get_checksum_from_data();
                if stored.is_some() && stored != self.frame.get_calculated_checksum() {
                    return Err(io::Error::other("the checksum of a zstd frame is wrong"));
                }
            }
            if self.file.fill_buf()?.is_empty() {
                return Ok(0);
            }
            self.frame.reset(&mut self.file).map_err(io::Error::other)?;
            self.begun = true;
        }
        self.frame.read(into)
    }
}
