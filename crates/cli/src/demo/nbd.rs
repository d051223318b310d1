//! A minimal NBD client: fixed newstyle handshake, simple replies, one request at a time (the NBD
//! protocol, doc/proto.md of the NetworkBlockDevice project). Numbers are big-endian.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use super::target::Target;

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
/// Fixed newstyle, and no padding after the handshake.
const CLIENT_FLAGS: u32 = 0b11;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const INFO_EXPORT: u16 = 0;
/// The longest reply to an option that makes sense.
const OPTION_REPLY_MAX: u32 = 4096;

#[derive(Clone, Copy)]
enum Command {
    Read = 0,
    Write = 1,
    Flush = 3,
}

/// A connection to an export.
pub(super) struct NbdClient {
    stream: UnixStream,
    bytes: u64,
    cookie: u64,
}

impl NbdClient {
    /// Connects to the export called `name`.
    pub(super) fn connect(socket: &Path, name: &str) -> io::Result<Self> {
        let mut client = Self { stream: UnixStream::connect(socket)?, bytes: 0, cookie: 0 };
        if client.number::<8>()? != MAGIC || client.number::<8>()? != OPTION_MAGIC {
            return Err(protocol("it is no NBD server"));
        }
        client.number::<2>()?;
        let mut hello = CLIENT_FLAGS.to_be_bytes().to_vec();
        hello.extend(OPTION_MAGIC.to_be_bytes());
        hello.extend(OPTION_GO.to_be_bytes());
        hello.extend((name.len() as u32 + 6).to_be_bytes());
        hello.extend((name.len() as u32).to_be_bytes());
        hello.extend(name.as_bytes());
        hello.extend(0u16.to_be_bytes());
        client.stream.write_all(&hello)?;
        client.finish_handshake()?;
        Ok(client)
    }

    /// The export's size.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn finish_handshake(&mut self) -> io::Result<()> {
        loop {
            if self.number::<8>()? != OPTION_REPLY_MAGIC {
                return Err(protocol("the reply to an option is none"));
            }
            self.number::<4>()?;
            let (kind, length) = (self.number::<4>()? as u32, self.number::<4>()? as u32);
            if length > OPTION_REPLY_MAX {
                return Err(protocol("the reply to an option is too long"));
            }
            let mut data = vec![0; length as usize];
            self.stream.read_exact(&mut data)?;
            match (kind, &data[..]) {
                (REPLY_ACK, _) => return Ok(()),
                (REPLY_INFO, [a, b, size @ .., _, _])
                    if u16::from_be_bytes([*a, *b]) == INFO_EXPORT =>
                {
                    let size = size.try_into().map_err(|_| protocol("a size is malformed"))?;
                    self.bytes = u64::from_be_bytes(size);
                }
                (REPLY_INFO, _) => {}
                _ => return Err(protocol("the server refuses the export")),
            }
        }
    }

    /// Sends a request, with its payload, and waits for the head of its reply.
    fn request(&mut self, command: Command, at: u64, length: usize, data: &[u8]) -> io::Result<()> {
        self.cookie += 1;
        let mut head = [0; 28];
        head[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        head[6..8].copy_from_slice(&(command as u16).to_be_bytes());
        head[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        head[16..24].copy_from_slice(&at.to_be_bytes());
        head[24..].copy_from_slice(&(length as u32).to_be_bytes());
        self.stream.write_all(&head)?;
        self.stream.write_all(data)?;
        let magic = self.number::<4>()? as u32;
        let (error, cookie) = (self.number::<4>()?, self.number::<8>()?);
        if magic != REPLY_MAGIC || cookie != self.cookie {
            return Err(protocol("the reply is of another request"));
        }
        match error {
            0 => Ok(()),
            errno => Err(io::Error::from_raw_os_error(errno as i32)),
        }
    }

    fn number<const N: usize>(&mut self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.stream.read_exact(&mut bytes[8 - N..])?;
        Ok(u64::from_be_bytes(bytes))
    }
}

impl Target for NbdClient {
    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.request(Command::Read, at, into.len(), &[])?;
        self.stream.read_exact(into)
    }

    fn write(&mut self, at: u64, from: &[u8]) -> io::Result<()> {
        self.request(Command::Write, at, from.len(), from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.request(Command::Flush, 0, 0, &[])
    }
}

fn protocol(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
