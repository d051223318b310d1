//! From the volume back to the client.
//!
//! Invariants:
//! - Messages are written in the order in which they came, several at once if they are there.
//! - Data go from the volume's buffer into the socket, and the buffer goes back right afterwards.
//! - A stream is written while nothing else of the connection is in flight, and holds one buffer
//!   while it waits for another only if that one was free: so streams can't wait for each other.

use std::io::{self, IoSlice};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use raidcore::engine::{Op, RequestError};
use raidcore::units::BLOCK_BYTES;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::ledger::{Ledger, Message, Outgoing, Stream};
use super::wire::{Errno, Head};
use crate::volume::{Buffer, Port, Submit, Volume};

/// The most messages that are written at once.
const BATCH: usize = 32;

/// The writing half of a connection.
pub(super) struct Replies<W> {
    writer: W,
    volume: Volume,
    ledger: Arc<Ledger>,
    outgoing: UnboundedReceiver<Outgoing>,
    patience: Duration,
}

impl<W: AsyncWrite + Unpin> Replies<W> {
    pub(super) fn new(
        writer: W,
        volume: Volume,
        ledger: &Arc<Ledger>,
        outgoing: UnboundedReceiver<Outgoing>,
        patience: Duration,
    ) -> Self {
        Self { writer, volume, ledger: Arc::clone(ledger), outgoing, patience }
    }

    pub(super) fn into_writer(self) -> W {
        self.writer
    }

    /// Writes until that fails.
    pub(super) async fn run(&mut self) -> io::Error {
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            // We hold a sender ourselves, so there is always a message to come.
            self.outgoing.recv_many(&mut batch, BATCH).await;
            if let Err(error) = self.write(&mut batch).await {
                return error;
            }
        }
    }

    async fn write(&mut self, batch: &mut Vec<Outgoing>) -> io::Result<()> {
        let mut messages = Vec::with_capacity(batch.len());
        let mut streams = Vec::new();
        for outgoing in batch.drain(..) {
            match outgoing {
                Outgoing::Message(message) => messages.push(message),
                Outgoing::Stream(stream) => streams.push(stream),
            }
        }
        self.write_messages(messages).await?;
        for stream in streams {
            self.write_stream(stream).await?;
            self.ledger.streamed();
        }
        Ok(())
    }

    async fn write_messages(&mut self, messages: Vec<Message>) -> io::Result<()> {
        let mut slices = Vec::with_capacity(3 * messages.len());
        for message in &messages {
            slices.extend(message.head.parts().map(IoSlice::new));
            if let Some((buffer, bytes)) = &message.data {
                slices.push(IoSlice::new(&buffer[..*bytes]));
            }
        }
        let patience = self.patience.saturating_mul(messages.len() as u32);
        in_time(patience, write_all(&mut self.writer, &mut slices)).await?;
        let last = messages.iter().filter(|message| message.last).count();
        let buffers = messages.iter().filter(|message| message.data.is_some());
        let buffers = buffers.count();
        drop(messages);
        self.ledger.written(last, buffers);
        Ok(())
    }

    /// An error in the first piece is reported as such. Later it is too late for that: a chunk is
    /// filled with zeros and followed by the error, while a simple reply can only be cut off.
    async fn write_stream(&mut self, stream: Stream) -> io::Result<()> {
        let Stream { handle, extent, structured } = stream;
        let pieces = extent.pieces();
        let mut failed = None;
        let mut ahead = None;
        for piece in 0..pieces {
            let waiting = match ahead.take() {
                Some(waiting) => waiting,
                None => self.read(stream, piece, self.volume.buffer().await),
            };
            if piece + 1 < pieces {
                let free = self.volume.try_buffer();
                ahead = free.map(|buffer| self.read(stream, piece + 1, buffer));
            }
            let ended = waiting.await.ok();
            let (buffer, error) = match ended {
                Some((buffer, Ok(()))) => (Some(buffer), None),
                Some((buffer, Err(error))) => (Some(buffer), Some(error.into())),
                None => (None, Some(Errno::Io)),
            };
            if let (Some(error), 0) = (error, piece) {
                let head = if structured {
                    Head::error(handle, error)
                } else {
                    Head::simple(handle, Some(error))
                };
                return self.write_head(head).await;
            }
            let Some(mut buffer) = buffer else {
                return Err(io::Error::other("the volume has dropped a read"));
            };
            let (_, blocks) = extent.piece(piece);
            let data = &mut buffer[..blocks as usize * BLOCK_BYTES];
            if let Some(error) = error {
                if !structured {
                    return Err(io::Error::other("a read failed amid its reply"));
                }
                failed = failed.or(Some(error));
                data.fill(0);
            }
            if piece == 0 {
                let head = if structured {
                    Head::data(handle, false, extent.offset(), extent.bytes())
                } else {
                    Head::simple(handle, None)
                };
                self.write_head(head).await?;
            }
            in_time(self.patience, self.writer.write_all(data)).await?;
        }
        match failed {
            Some(error) => self.write_head(Head::error(handle, error)).await,
            None if structured => self.write_head(Head::none(handle)).await,
            None => Ok(()),
        }
    }

    async fn write_head(&mut self, head: Head) -> io::Result<()> {
        let mut slices = head.parts().map(IoSlice::new);
        in_time(self.patience, write_all(&mut self.writer, &mut slices)).await
    }

    /// Asks for a piece of a stream.
    fn read(&self, stream: Stream, piece: u32, buffer: Buffer) -> oneshot::Receiver<Ended> {
        let (lba, blocks) = stream.extent.piece(piece);
        let (sender, receiver) = oneshot::channel();
        let port: Arc<dyn Port> = Arc::new(Single(Mutex::new(Some(sender))));
        let request = Submit { op: Op::Read, lba, blocks, fua: false };
        self.volume.submit(&port, 0, request, buffer);
        receiver
    }
}

type Ended = (Buffer, Result<(), RequestError>);

/// Passes one completion on.
struct Single(Mutex<Option<oneshot::Sender<Ended>>>);

impl Port for Single {
    fn completed(&self, _cookie: u64, buffer: Buffer, result: Result<(), RequestError>) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // Without a receiver the connection has ended, and the buffer goes back.
            sender.send((buffer, result)).ok();
        }
    }
}

async fn in_time<T>(
    patience: Duration,
    writing: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    timeout(patience, writing).await.unwrap_or_else(|_| {
        let text = "the client did not take its replies in time";
        Err(io::Error::new(io::ErrorKind::TimedOut, text))
    })
}

async fn write_all<W: AsyncWrite + Unpin>(
    writer: &mut W,
    mut slices: &mut [IoSlice<'_>],
) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match writer.write_vectored(slices).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => IoSlice::advance_slices(&mut slices, written),
        }
    }
    Ok(())
}
