//! An NBD client with one request at a time, with FUA on demand; or with many reads whose replies it
//! does not take.

use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::rounds::user::Refusal;

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;
const FUA: u16 = 1;

/// A connection.
pub(crate) struct Nbd {
    stream: UnixStream,
    handle: u64,
}

impl Nbd {
    pub(crate) fn connect(socket: &Path, export: &str) -> Self {
        let stream = UnixStream::connect(socket).expect("the server is there");
        let hangs = Some(Duration::from_secs(60));
        stream.set_read_timeout(hangs).expect("a timeout");
        stream.set_write_timeout(hangs).expect("a timeout");
        let mut nbd = Self { stream, handle: 0 };
        nbd.negotiate(export).expect("the server stays");
        nbd
    }

    fn negotiate(&mut self, export: &str) -> Result<(), Refusal> {
        assert_eq!(&self.take::<16>()?, b"NBDMAGICIHAVEOPT");
        assert_eq!(self.take::<2>()?, [0, 3], "fixed newstyle, no zeroes");
        let mut go = 3u32.to_be_bytes().to_vec();
        go.extend(b"IHAVEOPT");
        go.extend(7u32.to_be_bytes());
        go.extend((export.len() as u32 + 6).to_be_bytes());
        go.extend((export.len() as u32).to_be_bytes());
        go.extend(export.as_bytes());
        go.extend([0, 0]);
        self.send(&go)?;
        loop {
            self.take::<12>()?;
            let kind = u32::from_be_bytes(self.take()?);
            let length = u32::from_be_bytes(self.take()?);
            self.take_all(length as usize)?;
            match kind {
                1 => return Ok(()),
                3 => {}
                refused => panic!("GO is answered with {refused:#x}"),
            }
        }
    }

    pub(crate) fn read(&mut self, offset: u64, length: u32) -> Result<Vec<u8>, Refusal> {
        self.request(READ, 0, offset, length, &[])?;
        self.take_all(length as usize)
    }

    /// Asks for so many bytes, so many times, and takes no reply: the server has to keep them.
    pub(crate) fn ask(&mut self, times: u32, length: u32) -> Result<(), Refusal> {
        (0..times)
            .try_for_each(|n| self.ask_for(READ, 0, u64::from(n) * u64::from(length), length, &[]))
    }

    /// With `fua`, the data is durable when this returns.
    pub(crate) fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), Refusal> {
        let flags = if fua { FUA } else { 0 };
        self.request(WRITE, flags, offset, data.len() as u32, data)
    }

    /// Writes zeros.
    pub(crate) fn zero(&mut self, offset: u64, length: u32) -> Result<(), Refusal> {
        self.request(WRITE_ZEROES, 0, offset, length, &[])
    }

    /// Discards; an array's discarded blocks are zeros.
    pub(crate) fn discard(&mut self, offset: u64, length: u32) -> Result<(), Refusal> {
        self.request(TRIM, 0, offset, length, &[])
    }

    /// All acknowledged writes are durable when this returns.
    pub(crate) fn flush(&mut self) -> Result<(), Refusal> {
        self.request(FLUSH, 0, 0, 0, &[])
    }

    fn request(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> Result<(), Refusal> {
        self.ask_for(command, flags, offset, length, data)?;
        assert_eq!(u32::from_be_bytes(self.take()?), 0x6744_6698, "a simple reply");
        let error = u32::from_be_bytes(self.take()?);
        assert_eq!(u64::from_be_bytes(self.take()?), self.handle, "the reply's handle");
        if error == 0 { Ok(()) } else { Err(Refusal::Refused(error)) }
    }

    fn ask_for(
        &mut self,
        command: u16,
        flags: u16,
        offset: u64,
        length: u32,
        data: &[u8],
    ) -> Result<(), Refusal> {
        self.handle += 1;
        let mut request = 0x2560_9513u32.to_be_bytes().to_vec();
        request.extend(flags.to_be_bytes());
        request.extend(command.to_be_bytes());
        request.extend(self.handle.to_be_bytes());
        request.extend(offset.to_be_bytes());
        request.extend(length.to_be_bytes());
        request.extend(data);
        self.send(&request)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), Refusal> {
        self.stream.write_all(bytes).map_err(gone)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Refusal> {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).map_err(gone)?;
        Ok(bytes)
    }

    fn take_all(&mut self, count: usize) -> Result<Vec<u8>, Refusal> {
        let mut bytes = vec![0; count];
        self.stream.read_exact(&mut bytes).map_err(gone)?;
        Ok(bytes)
    }
}

fn gone(error: io::Error) -> Refusal {
    let closed = [ErrorKind::UnexpectedEof, ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
    assert!(closed.contains(&error.kind()), "the server hangs: {error}");
    Refusal::Gone
}
