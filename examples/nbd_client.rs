//! A client of an array that is served over NBD: the fixed newstyle handshake and simple replies,
//! with the standard library alone.
//!
//! `cargo run -p examples --example nbd_client -- /tmp/evenkeel/tank.nbd tank` prints the size of
//! `tank` and its first bytes. A text as the third argument is written there first.

use std::env;
use std::io::{self, Error, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// "NBDMAGIC" and "IHAVEOPT".
const GREETING: [u8; 16] = *b"NBDMAGICIHAVEOPT";
const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;

#[derive(Clone, Copy)]
enum Command {
    Read = 0,
    Write = 1,
    Disconnect = 2,
    Flush = 3,
}

struct Client {
    stream: UnixStream,
    bytes: u64,
}

impl Client {
    fn connect(socket: &Path, export: &str) -> io::Result<Self> {
        let mut client = Self { stream: UnixStream::connect(socket)?, bytes: 0 };
        let mut greeting = [0; 18];
        client.stream.read_exact(&mut greeting)?;
        if greeting[..16] != GREETING {
            return Err(Error::other("it is no NBD server"));
        }
        // Fixed newstyle, no zeros after the handshake; then NBD_OPT_GO for the export, without
        // information requests.
        let mut hello = 3u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT");
        hello.extend(7u32.to_be_bytes());
        hello.extend((export.len() as u32 + 6).to_be_bytes());
        hello.extend((export.len() as u32).to_be_bytes());
        hello.extend(export.as_bytes());
        hello.extend(0u16.to_be_bytes());
        client.stream.write_all(&hello)?;
        loop {
            let [magic, _, kind, length] =
                [client.number(8)?, client.number(4)?, client.number(4)?, client.number(4)?];
            let mut data = vec![0; length.min(4096) as usize];
            client.stream.read_exact(&mut data)?;
            match (magic, kind, &data[..]) {
                (OPTION_REPLY, 1, _) => return Ok(client),
                (OPTION_REPLY, 3, [0, 0, size @ .., _, _]) if size.len() == 8 => {
                    client.bytes = size.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
                }
                (OPTION_REPLY, 3, _) => {}
                _ => return Err(Error::other(format!("there is no export {export:?}"))),
            }
        }
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> io::Result<()> {
        self.request(Command::Read, at, into.len(), &[])?;
        self.stream.read_exact(into)
    }

    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.request(Command::Write, at, bytes.len(), bytes)
    }

    /// Everything written before is durable when this returns.
    fn flush(&mut self) -> io::Result<()> {
        self.request(Command::Flush, 0, 0, &[])
    }

    fn disconnect(mut self) -> io::Result<()> {
        self.send(Command::Disconnect, 0, 0, &[])
    }

    fn send(&mut self, command: Command, at: u64, length: usize, data: &[u8]) -> io::Result<()> {
        let mut request = REQUEST.to_be_bytes().to_vec();
        request.extend(0u16.to_be_bytes());
        request.extend((command as u16).to_be_bytes());
        // The cookie, by which a client with several requests under way matches replies.
        request.extend(1u64.to_be_bytes());
        request.extend(at.to_be_bytes());
        request.extend((length as u32).to_be_bytes());
        request.extend(data);
        self.stream.write_all(&request)
    }

    fn request(&mut self, command: Command, at: u64, length: usize, data: &[u8]) -> io::Result<()> {
        self.send(command, at, length, data)?;
        let [magic, error, _] = [self.number(4)?, self.number(4)?, self.number(8)?];
        match (magic, error) {
            (magic, 0) if magic == u64::from(REPLY) => Ok(()),
            (magic, error) if magic == u64::from(REPLY) => {
                Err(Error::from_raw_os_error(error as i32))
            }
            _ => Err(Error::other("this is no reply")),
        }
    }

    /// A number of `bytes` bytes, at most 8.
    fn number(&mut self, bytes: usize) -> io::Result<u64> {
        let mut number = [0; 8];
        self.stream.read_exact(&mut number[8 - bytes..])?;
        Ok(u64::from_be_bytes(number))
    }
}

/// The size of an array's logical block, unless it is started with `--logical-block 512`.
const BLOCK: usize = 4096;

fn main() -> io::Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (socket, export, text) = match &arguments[..] {
        [socket, export] => (socket, export, None),
        [socket, export, text] if text.len() <= BLOCK => (socket, export, Some(text)),
        _ => return Err(Error::other("say the socket, the export, and perhaps a short text")),
    };
    let mut client = Client::connect(Path::new(socket), export)?;
    let mut block = [0; BLOCK];
    if let Some(text) = text {
        block[..text.len()].copy_from_slice(text.as_bytes());
        client.write(0, &block)?;
        client.flush()?;
    }
    client.read(0, &mut block)?;
    println!(
        "{export} has {} bytes and begins with \"{}\"",
        client.bytes,
        block[..32].escape_ascii()
    );
    client.disconnect()
}

#[cfg(test)]
mod tests {
    use raidcore::engine::Op;
    use raidcore::units::BLOCK_BYTES;
    use tokio::runtime::Runtime;
    use ublkd::front::nbd::{NbdAddress, NbdConfig, NbdServer};
    use ublkd::volume::{Submissions, Volume, VolumeConfig};

    use super::*;

    /// A back end of 16 blocks in memory.
    fn serve(mut submissions: Submissions) {
        let mut content = vec![0; 16 * BLOCK_BYTES];
        while let Some(mut submission) = submissions.recv() {
            let request = submission.request;
            let start = request.lba.0 as usize * BLOCK_BYTES;
            let part = &mut content[start..start + request.blocks as usize * BLOCK_BYTES];
            match request.op {
                Op::Read => submission.buffer[..part.len()].copy_from_slice(part),
                Op::Write => part.copy_from_slice(&submission.buffer[..part.len()]),
                Op::Flush | Op::Discard | Op::WriteZeroes => {}
            }
            submission.complete(Ok(()));
        }
    }

    #[test]
    fn what_was_written_is_read() {
        let dir = tempfile::tempdir().expect("a directory");
        let socket = dir.path().join("nbd");
        let (volume, submissions) = Volume::channel(VolumeConfig {
            name: "tank".into(),
            blocks: 16,
            chunk_blocks: 4,
            stripe_blocks: 12,
            discard_blocks: 12,
            max_request_blocks: 8,
            tags: 4,
        });
        std::thread::spawn(|| serve(submissions));
        let runtime = Runtime::new().expect("a runtime");
        let config = NbdConfig::new(NbdAddress::Unix(socket.clone()));
        let server = runtime.block_on(NbdServer::start(volume, config)).expect("a server");

        assert!(Client::connect(&socket, "another").is_err(), "there is one export");
        let mut client = Client::connect(&socket, "tank").expect("the export");
        assert_eq!(client.bytes, 16 * BLOCK_BYTES as u64);
        let block = [7; BLOCK_BYTES];
        client.write(3 * BLOCK_BYTES as u64, &block).expect("a write");
        client.flush().expect("a flush");
        let mut read = [0; BLOCK_BYTES];
        client.read(3 * BLOCK_BYTES as u64, &mut read).expect("a read");
        assert_eq!(read, block);
        client.read(0, &mut read).expect("a read");
        assert_eq!(read, [0; BLOCK_BYTES]);
        assert!(client.read(16 * BLOCK_BYTES as u64, &mut read).is_err(), "behind the end");
        client.disconnect().expect("a connection");
        runtime.block_on(server.stop());
    }
}
