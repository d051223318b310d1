//! Reads requests from the connection and submits them to the volume.
//!
//! Invariants:
//! - A payload is read from the socket into the volume's buffer, except for bytes that were read
//!   ahead.
//! - A buffer is taken when its part of the payload has begun to arrive, and the rest of that part
//!   must follow in time. If others have no buffer meanwhile, the received bytes are set aside.
//! - The payload of a refused request is skipped, so that the next request is found.

use std::io;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

use raidcore::engine::Op;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::time::timeout;

use super::handshake::ALLOCATION_ID;
use super::ledger::{Ledger, Request, Stream};
use super::pace::{Pace, Waited};
use super::wire::{Command, Errno, Head, Header, flag};
use super::{PAYLOAD_BYTES_MAX, Stop};
use crate::front::extent::Extent;
use crate::front::{LogicalBlock, RANGE_BLOCKS_MAX};
use crate::volume::{Buffer, Port, Submit, Touched, Volume};

/// Why a connection was cut.
#[derive(Debug, thiserror::Error)]
pub(super) enum Cut {
    #[error("the connection failed: {0}")]
    Connection(#[from] io::Error),
    #[error("the client sent something that is no request")]
    Magic,
    #[error("the client sent a write of {0} bytes; {PAYLOAD_BYTES_MAX} are allowed")]
    Oversize(u32),
    #[error("the client did not send a payload in time")]
    Slow,
}

/// The task of a valid request.
enum Task {
    Volume {
        op: Op,
        extent: Extent,
    },
    Stream(Stream),
    /// Nothing: it has no bytes.
    Nothing,
    Status,
}

/// The reading half of a connection.
pub(super) struct Requests<R> {
    reader: BufReader<R>,
    volume: Volume,
    ledger: Arc<Ledger>,
    port: Arc<dyn Port>,
    pace: Pace,
    logical_block: LogicalBlock,
    stop: Stop,
}

impl<R: AsyncRead + Unpin> Requests<R> {
    pub(super) fn new(
        reader: BufReader<R>,
        volume: Volume,
        ledger: Arc<Ledger>,
        pace: Pace,
        logical_block: LogicalBlock,
        stop: Stop,
    ) -> Self {
        Self {
            reader,
            volume,
            port: Arc::<Ledger>::clone(&ledger),
            ledger,
            pace,
            logical_block,
            stop,
        }
    }

    /// Until the client has no more requests, or the server stops and nothing is in flight.
    pub(super) async fn run(&mut self) -> Result<(), Cut> {
        let stop = self.stop.clone();
        let ledger = Arc::clone(&self.ledger);
        let mut stopping = pin!(stop.wait());
        loop {
            let quiet = async {
                if !stop.is_set() {
                    stopping.as_mut().await;
                }
                ledger.settled().await;
            };
            let header = tokio::select! {
                biased;
                header = read_header(&mut self.reader) => header?,
                () = quiet => return Ok(()),
            };
            match header {
                None => return Ok(()),
                Some(header) if header.command == Command::Disconnect => return Ok(()),
                Some(header) => self.take(header).await?,
            }
        }
    }

    async fn take(&mut self, header: Header) -> Result<(), Cut> {
        let writes = header.command == Command::Write;
        if writes && header.length > PAYLOAD_BYTES_MAX {
            return Err(Cut::Oversize(header.length));
        }
        let ledger = Arc::clone(&self.ledger);
        let place = ledger.admit().await;
        let task = if self.stop.is_set() { Err(Errno::Shutdown) } else { self.check(&header) };
        if writes && task.is_err() {
            self.skip(header.length).await?;
        }
        let handle = header.handle;
        match task {
            Err(error) => ledger.answer(place, ledger.failure(handle, error)),
            Ok(Task::Nothing) => {
                let reads = header.command == Command::Read;
                ledger.answer(place, ledger.success(handle, reads));
            }
            Ok(Task::Status) => {
                let head = Head::all_data(handle, ALLOCATION_ID, header.length);
                ledger.answer(place, head);
            }
            Ok(Task::Stream(stream)) => {
                let place = ledger.admit_alone(place).await;
                ledger.stream(place, stream);
            }
            Ok(Task::Volume { op, extent }) => {
                let request = ledger.open(place, handle, op == Op::Read, extent);
                let fua = header.flags & flag::FUA != 0;
                self.submit(request, op, extent, fua).await?;
            }
        }
        Ok(())
    }

    async fn submit(
        &mut self,
        mut request: Request<'_>,
        op: Op,
        extent: Extent,
        fua: bool,
    ) -> Result<(), Cut> {
        for part in 0..extent.pieces() {
            let (lba, blocks, edges) = extent.piece(part);
            if op == Op::Write {
                let begun = timeout(self.pace.patience, self.reader.fill_buf()).await;
                if begun.map_err(|_| Cut::Slow)??.is_empty() {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
            }
            let mut buffer = self.ledger.buffer().await;
            if op == Op::Write {
                buffer = self.receive(buffer, edges.within(blocks)).await?;
            }
            let submit = Submit { op, lba, blocks, fua, edges };
            request.submit(&self.volume, &self.port, submit, buffer);
        }
        Ok(())
    }

    /// Reads payload into this range of the buffer, or of another one if the buffer is needed
    /// elsewhere while the payload does not arrive.
    async fn receive(&mut self, mut buffer: Buffer, to: Range<usize>) -> Result<Buffer, Cut> {
        let mut got = 0;
        let waited = {
            let filling = pin!(fill(&mut self.reader, &mut buffer[to.clone()], &mut got));
            self.pace.wait(&self.volume, 1, filling).await
        };
        match waited {
            Waited::Ended(filled) => return Ok(filled.map(|()| buffer)?),
            Waited::Late => return Err(Cut::Slow),
            Waited::Starved => {}
        }
        let mut aside = buffer[to.clone()].to_vec();
        drop(buffer);
        let filling = fill(&mut self.reader, &mut aside, &mut got);
        timeout(self.pace.patience, filling).await.map_err(|_| Cut::Slow)??;
        let mut buffer = self.ledger.share().buffer().await;
        buffer[to].copy_from_slice(&aside);
        Ok(buffer)
    }

    /// Reads a payload and drops it.
    async fn skip(&mut self, length: u32) -> Result<(), Cut> {
        let mut payload = (&mut self.reader).take(length.into());
        let mut nowhere = tokio::io::sink();
        let skipping = tokio::io::copy_buf(&mut payload, &mut nowhere);
        let skipped = timeout(self.pace.patience, skipping).await;
        if skipped.map_err(|_| Cut::Slow)?? < u64::from(length) {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        Ok(())
    }

    /// The task of a request, if it is valid.
    fn check(&self, header: &Header) -> Result<Task, Errno> {
        let session = self.ledger.session();
        let set = |flag: u16| header.flags & flag != 0;
        let check = |own_flags: u16, beyond| {
            if header.flags & !(flag::FUA | own_flags) != 0 {
                return Err(Errno::Invalid);
            }
            self.check_range(header, beyond)
        };
        match header.command {
            Command::Read => {
                let df = if session.structured { flag::DF } else { 0 };
                let range = check(df, Errno::Invalid)?;
                self.read(header, range, !session.structured || set(flag::DF))
            }
            Command::Write => {
                let range = check(0, Errno::NoSpace)?;
                Ok(self.task(Op::Write, range))
            }
            Command::Trim => {
                let range = check(0, Errno::Invalid)?;
                Ok(self.task(Op::Discard, range))
            }
            Command::WriteZeroes => {
                let range = check(flag::NO_HOLE | flag::FAST_ZERO, Errno::NoSpace)?;
                if set(flag::FAST_ZERO) && !self.are_stripes(range) {
                    return Err(Errno::NotSupported);
                }
                // With NO_HOLE members keep the space, otherwise they may free it; the blocks are
                // zeros either way.
                let op = if set(flag::NO_HOLE) { Op::WriteZeroes } else { Op::Discard };
                Ok(self.task(op, range))
            }
            Command::BlockStatus => {
                let range = check(flag::REQ_ONE, Errno::Invalid)?;
                if !session.allocation || range.blocks == 0 {
                    return Err(Errno::Invalid);
                }
                Ok(Task::Status)
            }
            Command::Flush => {
                check(0, Errno::Invalid)?;
                if (header.offset, header.length) != (0, 0) {
                    return Err(Errno::Invalid);
                }
                let extent = Extent::new(Touched::default(), 1, &self.volume);
                Ok(Task::Volume { op: Op::Flush, extent })
            }
            Command::Disconnect | Command::Other(_) => Err(Errno::Invalid),
        }
    }

    /// A read; `whole` if its data has to be sent in one piece.
    fn read(&self, header: &Header, range: Touched, whole: bool) -> Result<Task, Errno> {
        let structured = self.ledger.session().structured;
        if header.length > PAYLOAD_BYTES_MAX {
            return Err(if structured { Errno::Overflow } else { Errno::Invalid });
        }
        let task = self.task(Op::Read, range);
        if let Task::Volume { extent, .. } = task
            && whole
            && extent.pieces() > 1
        {
            return Ok(Task::Stream(Stream { handle: header.handle, extent, structured }));
        }
        Ok(task)
    }

    fn task(&self, op: Op, range: Touched) -> Task {
        let most = match op {
            Op::Read | Op::Write => self.volume.max_request_blocks(),
            Op::Flush | Op::Discard | Op::WriteZeroes => RANGE_BLOCKS_MAX,
        };
        if range.blocks == 0 {
            return Task::Nothing;
        }
        let extent = Extent::new(range, most, &self.volume);
        Task::Volume { op, extent }
    }

    /// Whether a discard is of whole stripes, for which only a map is written.
    fn are_stripes(&self, Touched { lba, blocks, edges }: Touched) -> bool {
        let unit = u64::from(self.volume.discard_blocks().max(1));
        edges.is_none() && lba.is_multiple_of(unit) && blocks.is_multiple_of(unit)
    }

    /// The blocks of a request, if they are logical blocks; the error `beyond` if they are past the
    /// end.
    fn check_range(&self, header: &Header, beyond: Errno) -> Result<Touched, Errno> {
        let (unit, length) = (u64::from(self.logical_block.bytes()), u64::from(header.length));
        if !header.offset.is_multiple_of(unit) || !length.is_multiple_of(unit) {
            return Err(Errno::Invalid);
        }
        let range = Touched::by(header.offset, length).ok_or(beyond)?;
        if range.lba + range.blocks > self.volume.blocks() {
            return Err(beyond);
        }
        Ok(range)
    }
}

/// Reads the rest of a payload.
async fn fill<R: AsyncRead + Unpin>(
    reader: &mut R,
    payload: &mut [u8],
    got: &mut usize,
) -> io::Result<()> {
    while *got < payload.len() {
        match reader.read(&mut payload[*got..]).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => *got += bytes,
        }
    }
    Ok(())
}

/// The next request; `None` if the client sends no more.
async fn read_header<R: AsyncRead + Unpin>(
    reader: &mut BufReader<R>,
) -> Result<Option<Header>, Cut> {
    match reader.fill_buf().await {
        Ok([]) => return Ok(None),
        // TLS was not ended as it should be: the client was killed, or just leaves.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Ok(_) => {}
        Err(error) => return Err(error.into()),
    }
    let mut bytes = [0; Header::BYTES];
    reader.read_exact(&mut bytes).await?;
    Header::decode(&bytes).map(Some).ok_or(Cut::Magic)
}
