//! Writes replies to the client.
//!
//! Invariants:
//! - Messages are written in the order in which they came, several at once if they are there.
//! - Data goes from the volume's buffer into the socket, and the buffer is given back right
//!   afterwards.
//! - Buffers whose data the client does not take are given back if others have none. At most one
//!   message is copied for that. The data of the others is read again when their turn comes. That
//!   is correct: their replies have not begun, so these reads may still take place now.
//! - Nothing waits for a buffer while it holds others.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use raidcore::engine::{Op, RequestError};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::ledger::{Ledger, Message, Outgoing, Rest, Stream};
use super::pace::{Pace, Waited};
use super::wire::{Errno, Head};
use crate::volume::{Buffer, Edges, Port, Submit, Volume};

/// The most messages that are written at once.
const BATCH: usize = 32;

/// The writing half of a connection.
pub(super) struct Replies<W> {
    writer: W,
    volume: Volume,
    ledger: Arc<Ledger>,
    outgoing: UnboundedReceiver<Outgoing>,
    /// Messages before that, without buffers.
    backlog: VecDeque<Outgoing>,
    /// What comes before all of them.
    rest: Rest,
    pace: Pace,
}

impl<W: AsyncWrite + Unpin> Replies<W> {
    pub(super) fn new(
        writer: W,
        volume: Volume,
        ledger: &Arc<Ledger>,
        (outgoing, rest): (UnboundedReceiver<Outgoing>, Rest),
        pace: Pace,
    ) -> Self {
        let backlog = VecDeque::new();
        Self { writer, volume, ledger: Arc::clone(ledger), outgoing, backlog, rest, pace }
    }

    pub(super) fn into_writer(self) -> W {
        self.writer
    }

    /// Writes replies until an error.
    pub(super) async fn run(&mut self) -> io::Error {
        if let Err(error) = self.begin().await {
            return error;
        }
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            // This side holds a sender, too, so the channel never closes.
            self.outgoing.recv_many(&mut batch, BATCH).await;
            if let Err(error) = self.write(&mut batch).await {
                return error;
            }
        }
    }

    /// Writes the rest of a reply that was begun elsewhere, if there is one.
    async fn begin(&mut self) -> io::Result<()> {
        let Rest { bytes, last, parts } = std::mem::take(&mut self.rest);
        if bytes.is_empty() {
            return Ok(());
        }
        self.write_rest(bytes).await?;
        self.ledger.written(last, parts);
        self.write_backlog().await
    }

    async fn write(&mut self, batch: &mut Vec<Outgoing>) -> io::Result<()> {
        let mut messages = Vec::with_capacity(batch.len());
        for outgoing in batch.drain(..) {
            match outgoing {
                // What comes behind one whose buffer was given back holds none while that one waits for a buffer.
                Outgoing::Message(mut message)
                    if message.is_incomplete() || !self.backlog.is_empty() =>
                {
                    message.give_back();
                    self.backlog.push_back(Outgoing::Message(message));
                }
                Outgoing::Message(message) => messages.push(message),
                // It comes last, as nothing else is in flight.
                Outgoing::Stream(_) => self.backlog.push_back(outgoing),
            }
        }
        self.write_messages(messages).await?;
        self.write_backlog().await
    }

    async fn write_backlog(&mut self) -> io::Result<()> {
        while let Some(outgoing) = self.backlog.pop_front() {
            match outgoing {
                Outgoing::Message(mut message) => {
                    self.complete(&mut message).await;
                    self.write_messages(vec![message]).await?;
                }
                Outgoing::Stream(stream) => {
                    self.write_stream(stream).await?;
                    self.ledger.streamed();
                }
            }
        }
        Ok(())
    }

    async fn write_messages(&mut self, messages: Vec<Message>) -> io::Result<()> {
        let mut slices = Vec::with_capacity(3 * messages.len());
        slices.extend(messages.iter().flat_map(Message::slices).map(IoSlice::new));
        let times = messages.len() as u32;
        let pushed = push(&mut self.writer, &mut slices, self.pace, &self.volume, times).await?;
        drop(slices);
        match pushed {
            Pushed::All => {
                let last = messages.iter().filter(|message| message.last).count();
                let parts = messages.iter().filter(|message| message.part.is_some()).count();
                drop(messages);
                self.ledger.written(last, parts);
                Ok(())
            }
            Pushed::Some(bytes) => self.give_back(messages, bytes).await,
        }
    }

    /// Gives back the buffers of messages of which `written` bytes are written, and writes the rest
    /// of the first that is incomplete.
    async fn give_back(&mut self, messages: Vec<Message>, mut written: usize) -> io::Result<()> {
        let (mut last, mut parts) = (0, 0);
        let mut rest = Vec::new();
        let mut left = Vec::new();
        for mut message in messages {
            if !rest.is_empty() {
                message.give_back();
                left.push(Outgoing::Message(message));
                continue;
            }
            last += usize::from(message.last);
            parts += usize::from(message.part.is_some());
            for slice in message.slices() {
                let skipped = written.min(slice.len());
                written -= skipped;
                rest.extend(&slice[skipped..]);
            }
        }
        for outgoing in left.into_iter().rev() {
            self.backlog.push_front(outgoing);
        }
        self.write_rest(rest).await?;
        self.ledger.written(last, parts);
        Ok(())
    }

    /// Writes bytes that hold no buffer.
    async fn write_rest(&mut self, rest: Vec<u8>) -> io::Result<()> {
        let Self { writer, volume, outgoing, backlog, pace, .. } = self;
        let (mut slices, mut written) = ([IoSlice::new(&rest)], 0);
        let mut writing = pin!(write_all(writer, &mut slices, &mut written));
        let ended = timeout(pace.patience, async {
            loop {
                match pace.wait(volume, 1, writing.as_mut()).await {
                    Waited::Ended(ended) => return ended,
                    Waited::Starved => set_aside(outgoing, backlog),
                    Waited::Late => return Err(late()),
                }
            }
        });
        ended.await.unwrap_or_else(|_| Err(late()))
    }

    /// Reads a message's data again if its buffer was given back.
    async fn complete(&mut self, message: &mut Message) {
        let Some(part) = message.part.as_ref().filter(|_| message.is_incomplete()) else { return };
        let request = Submit {
            op: Op::Read,
            lba: part.lba,
            blocks: part.blocks,
            fua: false,
            edges: Edges::NONE,
        };
        let buffer = self.buffer().await;
        match self.ask(request, buffer).await {
            Ok((buffer, Ok(()))) => message.take(buffer),
            Ok((_, Err(error))) => message.fail(&self.ledger, error.into()),
            Err(_) => message.fail(&self.ledger, Errno::Io),
        }
    }

    /// A buffer of the connection's share.
    async fn buffer(&mut self) -> Buffer {
        let share = self.ledger.share().clone();
        let mut asked = pin!(share.buffer());
        loop {
            if let Ok(buffer) = timeout(self.pace.linger, asked.as_mut()).await {
                return buffer;
            }
            set_aside(&mut self.outgoing, &mut self.backlog);
        }
    }

    /// An error in the first piece is reported as such. A later one can't be: a chunk is filled
    /// with zeros and followed by the error, and a simple reply can only be cut off.
    async fn write_stream(&mut self, stream: Stream) -> io::Result<()> {
        let Stream { handle, extent, structured } = stream;
        let pieces = extent.pieces();
        let mut failed = None;
        let mut ahead = None;
        for piece in 0..pieces {
            let waiting = match ahead.take() {
                Some(waiting) => waiting,
                None => {
                    let buffer = self.buffer().await;
                    self.read(stream, piece, buffer)
                }
            };
            if piece + 1 < pieces {
                let free = self.ledger.share().try_buffer();
                ahead = free.map(|buffer| self.read(stream, piece + 1, buffer));
            }
            let ended = waiting.await.ok();
            let (buffer, error) = match ended {
                Some((buffer, Ok(()))) => (Some(buffer), None),
                Some((buffer, Err(error))) => (Some(buffer), Some(error.into())),
                None => (None, Some(Errno::Io)),
            };
            if let (Some(error), 0) = (error, piece) {
                return self.write_head(self.ledger.session().failure(handle, error)).await;
            }
            let Some(mut buffer) = buffer else {
                return Err(io::Error::other("the volume has dropped a read"));
            };
            let (_, blocks, edges) = extent.piece(piece);
            let data = &mut buffer[edges.within(blocks)];
            if let Some(error) = error {
                if !structured {
                    return Err(io::Error::other("a read failed amid its reply"));
                }
                failed = failed.or(Some(error));
                data.fill(0);
            }
            let head = (piece == 0).then(|| {
                if structured {
                    Head::data(handle, false, extent.offset(), extent.bytes())
                } else {
                    Head::simple(handle, None)
                }
            });
            let head = head.as_ref().map_or([&[][..], &[]], Head::parts);
            let mut slices = [head[0], head[1], &*data].map(IoSlice::new);
            let pushed = push(&mut self.writer, &mut slices, self.pace, &self.volume, 1).await?;
            if let Pushed::Some(written) = pushed {
                let rest = [head[0], head[1], &*data].concat().split_off(written);
                drop(buffer);
                // The piece that was read ahead is read again; its buffer goes back when that read
                // ends.
                ahead = None;
                self.write_rest(rest).await?;
            }
        }
        match failed {
            Some(error) => self.write_head(Head::error(handle, error)).await,
            None if structured => self.write_head(Head::none(handle)).await,
            None => Ok(()),
        }
    }

    async fn write_head(&mut self, head: Head) -> io::Result<()> {
        self.write_rest(head.parts().concat()).await
    }

    /// Requests a piece of a stream.
    fn read(&self, stream: Stream, piece: u32, buffer: Buffer) -> oneshot::Receiver<Ended> {
        let (lba, blocks, _) = stream.extent.piece(piece);
        self.ask(Submit { op: Op::Read, lba, blocks, fua: false, edges: Edges::NONE }, buffer)
    }

    fn ask(&self, request: Submit, buffer: Buffer) -> oneshot::Receiver<Ended> {
        let (sender, receiver) = oneshot::channel();
        let port: Arc<dyn Port> = Arc::new(Single(Mutex::new(Some(sender))));
        self.volume.submit(&port, 0, request, buffer);
        receiver
    }
}

/// Takes the messages to be written without their buffers.
fn set_aside(from: &mut UnboundedReceiver<Outgoing>, to: &mut VecDeque<Outgoing>) {
    while let Ok(mut outgoing) = from.try_recv() {
        if let Outgoing::Message(message) = &mut outgoing {
            message.give_back();
        }
        to.push_back(outgoing);
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

/// How far writing came.
enum Pushed {
    All,
    /// This many bytes were written; the buffers are needed elsewhere.
    Some(usize),
}

async fn push<W: AsyncWrite + Unpin>(
    writer: &mut W,
    slices: &mut [IoSlice<'_>],
    pace: Pace,
    volume: &Volume,
    times: u32,
) -> io::Result<Pushed> {
    let mut written = 0;
    {
        let writing = pin!(write_all(writer, slices, &mut written));
        match pace.wait(volume, times, writing).await {
            Waited::Ended(ended) => return ended.map(|()| Pushed::All),
            Waited::Late => return Err(late()),
            Waited::Starved => {}
        }
    }
    Ok(Pushed::Some(written))
}

async fn write_all<W: AsyncWrite + Unpin>(
    writer: &mut W,
    mut slices: &mut [IoSlice<'_>],
    written: &mut usize,
) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match writer.write_vectored(slices).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            bytes => {
                *written += bytes;
                IoSlice::advance_slices(&mut slices, bytes);
            }
        }
    }
    // TLS keeps what the socket does not take.
    writer.flush().await
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the client did not take its replies in time")
}
