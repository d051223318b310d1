//! Reads requests from the connection and submits them to the volume.
//!
//! Invariants:
//! - A payload is read from the socket into the volume's buffer, except for bytes that were read
//!   ahead.
//! - A buffer is taken when its part of the payload has begun to arrive, and the rest of that part
//!   must follow in time. If others have no buffer meanwhile, the received bytes are set aside.
//! - The payload of a refused request is skipped, so that the next request is found.
//! - A client that goes to the volume's thread has nothing in flight.

use std::io;
use std::ops::Range;
use std::pin::pin;
use std::sync::Arc;

use raidcore::engine::Op;
use raidcore::units::BLOCK_BYTES;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::checks::{Checks, Task};
use super::handshake::ALLOCATION_ID;
use super::ledger::{Ledger, Request};
use super::pace::{Pace, Waited};
use super::wire::{Command, Errno, Head, Header, flag};
use super::{PAYLOAD_BYTES_MAX, Stop, direct};
use crate::front::extent::Extent;
use crate::volume::{Buffer, Port, Submit};

/// Places on the volume's thread.
#[derive(Clone)]
pub(super) struct Places {
    pub(super) free: Arc<Semaphore>,
    /// A client goes there when so many requests in a row were for it.
    pub(super) after: u32,
}

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

/// How a client was served to the end.
pub(super) enum End {
    /// It has no more requests, or the server stops.
    Left,
    /// It goes to the volume's thread, where it has this place.
    Direct(OwnedSemaphorePermit),
}

/// The reading half of a connection.
pub(super) struct Requests<R> {
    reader: BufReader<R>,
    checks: Checks,
    ledger: Arc<Ledger>,
    port: Arc<dyn Port>,
    pace: Pace,
    stop: Stop,
    /// Free places on the volume's thread; none if it takes no clients.
    places: Option<Places>,
    /// How many requests for it there were in a row.
    suited: u32,
}

impl<R: AsyncRead + Unpin> Requests<R> {
    pub(super) fn new(
        reader: BufReader<R>,
        checks: Checks,
        ledger: Arc<Ledger>,
        pace: Pace,
        stop: Stop,
        places: Option<Places>,
    ) -> Self {
        let port: Arc<dyn Port> = Arc::<Ledger>::clone(&ledger);
        Self { reader, checks, port, ledger, pace, stop, places, suited: 0 }
    }

    /// With all that was read.
    pub(super) fn into_reader(self) -> BufReader<R> {
        self.reader
    }

    /// Until the client has no more requests, or goes to the volume's thread, or the server stops and
    /// nothing is in flight.
    pub(super) async fn run(&mut self) -> Result<End, Cut> {
        let stop = self.stop.clone();
        let ledger = Arc::clone(&self.ledger);
        let mut stopping = pin!(stop.wait());
        let buffer_blocks = self.checks.volume.max_request_blocks();
        let buffer_bytes = u64::from(buffer_blocks) * BLOCK_BYTES as u64;
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
                () = quiet => return Ok(End::Left),
            };
            match header {
                None => return Ok(End::Left),
                Some(header) if header.command == Command::Disconnect => return Ok(End::Left),
                Some(header) => {
                    let suits = direct::suits(&header, buffer_bytes);
                    self.suited = if suits { self.suited.saturating_add(1) } else { 0 };
                    self.take(header).await?;
                }
            }
            if self.places.as_ref().is_some_and(|places| self.suited >= places.after)
                && let Some(place) = self.place().await
            {
                return Ok(End::Direct(place));
            }
        }
    }

    /// A place on the volume's thread, if there is one.
    async fn place(&mut self) -> Option<OwnedSemaphorePermit> {
        self.suited = 0;
        let free = Arc::clone(&self.places.as_ref()?.free);
        let place = free.try_acquire_owned().ok().filter(|_| !self.stop.is_set())?;
        self.ledger.settled().await;
        Some(place)
    }

    async fn take(&mut self, header: Header) -> Result<(), Cut> {
        let writes = header.command == Command::Write;
        if writes && header.length > PAYLOAD_BYTES_MAX {
            return Err(Cut::Oversize(header.length));
        }
        let ledger = Arc::clone(&self.ledger);
        let place = ledger.admit().await;
        let task =
            if self.stop.is_set() { Err(Errno::Shutdown) } else { self.checks.check(&header) };
        if writes && task.is_err() {
            self.skip(header.length).await?;
        }
        let (handle, session) = (header.handle, ledger.session());
        match task {
            Err(error) => ledger.answer(place, session.failure(handle, error)),
            Ok(Task::Nothing) => {
                let reads = header.command == Command::Read;
                ledger.answer(place, session.success(handle, reads));
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
            request.submit(&self.checks.volume, &self.port, submit, buffer);
        }
        Ok(())
    }

    /// Reads payload into this range of the buffer, or of another one if the buffer is needed
    /// elsewhere while the payload does not arrive.
    async fn receive(&mut self, mut buffer: Buffer, to: Range<usize>) -> Result<Buffer, Cut> {
        let mut got = 0;
        let waited = {
            let filling = pin!(fill(&mut self.reader, &mut buffer[to.clone()], &mut got));
            self.pace.wait(&self.checks.volume, 1, filling).await
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
