//! The requests of a connection that the volume has, and their way to the replies.
//!
//! Invariants:
//! - A request is in the table from [`Ledger::open`] until its last part has ended. A part ends
//!   once: the volume completes it, or it was never submitted because the request was dropped.
//! - A request's messages are sent under the table's lock, so its last message is sent last.
//! - A request is in flight from [`Ledger::admit`] until its last message is written, and a part
//!   keeps its place until its message is written.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use raidcore::engine::RequestError;
use raidcore::units::{BLOCK_BYTES, Lba};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::NbdLimits;
use super::session::Session;
use super::wire::{Errno, Head};
use crate::front::extent::Extent;
use crate::volume::{Buffer, Edges, Port, Share, Submit, Volume};

/// A place among the requests in flight; freed when it is dropped without an answer.
pub(super) type Permits<'a> = SemaphorePermit<'a>;

/// Something to write to the client.
pub(super) enum Outgoing {
    Message(Message),
    /// A read whose data has to be sent in order. Nothing else is in flight meanwhile.
    Stream(Stream),
}

/// A reply, or a part of one.
pub(super) struct Message {
    pub(super) head: Head,
    /// The data that go with it.
    pub(super) part: Option<Part>,
    /// Whether this message completes the request.
    pub(super) last: bool,
}

/// A part of what a request reads.
pub(super) struct Part {
    pub(super) handle: u64,
    pub(super) lba: Lba,
    pub(super) blocks: u32,
    pub(super) edges: Edges,
    /// Begins with the blocks; `None` if it was needed elsewhere.
    pub(super) buffer: Option<Buffer>,
}

impl Message {
    /// The bytes, one after the other.
    pub(super) fn slices(&self) -> [&[u8]; 3] {
        let [numbers, text] = self.head.parts();
        let data = self.part.as_ref().and_then(|part| {
            let buffer = part.buffer.as_ref()?;
            Some(&buffer[part.edges.within(part.blocks)])
        });
        [numbers, text, data.unwrap_or_default()]
    }

    /// How many they are.
    pub(super) fn bytes(&self) -> usize {
        self.slices().map(<[u8]>::len).iter().sum()
    }

    /// Whether its data was given back, and has to be read again.
    pub(super) fn is_incomplete(&self) -> bool {
        self.part.as_ref().is_some_and(|part| part.buffer.is_none())
    }

    /// Gives up the buffer.
    pub(super) fn give_back(&mut self) {
        if let Some(part) = &mut self.part {
            part.buffer = None;
        }
    }

    /// The data was read again.
    pub(super) fn take(&mut self, buffer: Buffer) {
        if let Some(part) = &mut self.part {
            part.buffer = Some(buffer);
        }
    }

    /// The data could not be read again: the client gets an error instead.
    pub(super) fn fail(&mut self, ledger: &Ledger, error: Errno) {
        if let Some(part) = &self.part {
            let head = ledger.session.failure(part.handle, error);
            self.head = if self.last { head } else { head.not_last() };
        }
    }
}

/// A read of more than a buffer as one piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    pub(super) handle: u64,
    pub(super) extent: Extent,
    /// As a chunk; otherwise as a simple reply.
    pub(super) structured: bool,
}

/// Replies that were begun elsewhere.
#[derive(Default)]
pub(super) struct Unsent {
    /// The rest of the first one, which goes without its buffer.
    pub(super) rest: Rest,
    /// The others.
    pub(super) messages: Vec<Message>,
}

/// The rest of a message of which some is sent.
#[derive(Default)]
pub(super) struct Rest {
    pub(super) bytes: Vec<u8>,
    /// How many requests and parts are done with it.
    pub(super) last: usize,
    pub(super) parts: usize,
}

/// See the [module](self).
pub(super) struct Ledger {
    session: Session,
    table: Mutex<Table>,
    out: UnboundedSender<Outgoing>,
    /// Free places for requests.
    requests: Semaphore,
    requests_max: u32,
    /// How many more parts may be under way, or wait for the client.
    parts: Semaphore,
    /// The volume's buffers of the connection.
    share: Share,
}

#[derive(Default)]
struct Table {
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Entry {
    handle: u64,
    /// Whether there are data to send.
    reads: bool,
    extent: Extent,
    /// Parts that have not ended.
    left: u32,
    error: Option<Errno>,
}

/// A request whose parts are being submitted. Parts that are not submitted when it is dropped fail.
pub(super) struct Request<'a> {
    ledger: &'a Ledger,
    slot: u32,
    submitted: u32,
    parts: u32,
}

impl Ledger {
    /// These replies of the connection are in flight already, at most as many as there may be.
    pub(super) fn new(
        session: Session,
        limits: &NbdLimits,
        share: Share,
        Unsent { rest, messages }: Unsent,
    ) -> (Arc<Self>, UnboundedReceiver<Outgoing>, Rest) {
        let (out, outgoing) = unbounded_channel();
        let requests = limits.requests.max(1);
        let ledger = Self {
            session,
            table: Mutex::default(),
            out,
            requests: Semaphore::new(requests.into()),
            requests_max: requests.into(),
            parts: Semaphore::new(limits.buffers.max(1).into()),
            share,
        };
        let last = rest.last + messages.iter().filter(|message| message.last).count();
        let parts = rest.parts + messages.iter().filter(|message| message.part.is_some()).count();
        ledger.requests.forget_permits(last);
        ledger.parts.forget_permits(parts);
        for message in messages {
            // The receiver is here.
            ledger.out.send(Outgoing::Message(message)).ok();
        }
        (Arc::new(ledger), outgoing, rest)
    }

    pub(super) fn session(&self) -> Session {
        self.session
    }

    /// Waits for a place for a request.
    pub(super) async fn admit(&self) -> Permits<'_> {
        self.places(1).await
    }

    /// Waits until only the request with this place is in flight; nothing else is admitted until it
    /// is done.
    pub(super) async fn admit_alone<'a>(&'a self, mut place: Permits<'a>) -> Permits<'a> {
        place.merge(self.places(self.requests_max - 1).await);
        place
    }

    /// Waits until nothing is in flight.
    pub(super) async fn settled(&self) {
        drop(self.places(self.requests_max).await);
    }

    async fn places(&self, count: u32) -> Permits<'_> {
        match self.requests.acquire_many(count).await {
            Ok(places) => places,
            Err(_) => unreachable!("the semaphore is never closed"),
        }
    }

    /// The connection's share of the volume's buffers.
    pub(super) fn share(&self) -> &Share {
        &self.share
    }

    /// Waits for a buffer for a part.
    pub(super) async fn buffer(&self) -> Buffer {
        if let Ok(place) = self.parts.acquire().await {
            place.forget();
        }
        self.share.buffer().await
    }

    /// Begins a request.
    pub(super) fn open(
        &self,
        place: Permits<'_>,
        handle: u64,
        reads: bool,
        extent: Extent,
    ) -> Request<'_> {
        place.forget();
        let parts = extent.pieces();
        let slot = self.table().insert(Entry { handle, reads, extent, left: parts, error: None });
        Request { ledger: self, slot, submitted: 0, parts }
    }

    /// Answers a request at once.
    pub(super) fn answer(&self, place: Permits<'_>, head: Head) {
        place.forget();
        self.send(head, None, true);
    }

    /// Leaves a request that was admitted alone to the writer of replies.
    pub(super) fn stream(&self, place: Permits<'_>, stream: Stream) {
        place.forget();
        // Without a receiver the connection is ending.
        self.out.send(Outgoing::Stream(stream)).ok();
    }

    /// Some messages were written: `last` requests and `parts` parts are done.
    pub(super) fn written(&self, last: usize, parts: usize) {
        self.requests.add_permits(last);
        self.parts.add_permits(parts);
    }

    /// A stream was written.
    pub(super) fn streamed(&self) {
        self.requests.add_permits(self.requests_max as usize);
    }

    fn send(&self, head: Head, part: Option<Part>, last: bool) {
        let message = Message { head, part, last };
        // Without a receiver the connection is ending.
        self.out.send(Outgoing::Message(message)).ok();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the data of a part, and after the last part the end of the request.
    fn reply(&self, entry: &Entry, part: u32, buffer: Buffer) {
        let last = entry.left == 0 && entry.error.is_none();
        let (lba, blocks, edges) = entry.extent.piece(part);
        let bytes = edges.within(blocks);
        let offset = lba.0 * BLOCK_BYTES as u64 + u64::from(edges.front);
        let head = self.session.data(entry.handle, last, offset, bytes.len() as u32);
        let part = Part { handle: entry.handle, lba, blocks, edges, buffer: Some(buffer) };
        self.send(head, Some(part), last);
    }
}

impl Port for Ledger {
    fn completed(&self, cookie: u64, buffer: Buffer, result: Result<(), RequestError>) {
        let (slot, part) = (cookie as u32, (cookie >> 32) as u32);
        let mut table = self.table();
        let Some(entry) = table.end(slot, 1, result.err().map(Errno::from)) else {
            tracing::error!(cookie, "an answer to no NBD request");
            return;
        };
        let (ended, reads) = (entry.left == 0, entry.reads);
        let (handle, error) = (entry.handle, entry.error);
        if reads && result.is_ok() {
            self.reply(entry, part, buffer);
        } else {
            drop(buffer);
            self.parts.add_permits(1);
        }
        if !ended {
            return;
        }
        table.remove(slot);
        match error {
            Some(error) => self.send(self.session.failure(handle, error), None, true),
            None if reads => {}
            None => self.send(self.session.success(handle, false), None, true),
        }
    }
}

impl Request<'_> {
    /// Submits the next part.
    pub(super) fn submit(
        &mut self,
        volume: &Volume,
        port: &Arc<dyn Port>,
        request: Submit,
        buffer: Buffer,
    ) {
        let cookie = u64::from(self.submitted) << 32 | u64::from(self.slot);
        self.submitted += 1;
        volume.submit(port, cookie, request, buffer);
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let missing = self.parts - self.submitted;
        if missing == 0 {
            return;
        }
        let mut table = self.ledger.table();
        let Some(entry) = table.end(self.slot, missing, Some(Errno::Shutdown)) else {
            return;
        };
        if entry.left == 0 {
            let (handle, error) = (entry.handle, entry.error);
            table.remove(self.slot);
            let head = self.ledger.session.failure(handle, error.unwrap_or(Errno::Shutdown));
            self.ledger.send(head, None, true);
        }
    }
}

impl Table {
    fn insert(&mut self, entry: Entry) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            // At most as many as there are requests in flight.
            (self.entries.len() - 1) as u32
        });
        self.entries[slot as usize] = Some(entry);
        slot
    }

    /// Ends parts of a request, and returns it.
    fn end(&mut self, slot: u32, parts: u32, error: Option<Errno>) -> Option<&Entry> {
        let entry = self.entries.get_mut(slot as usize)?.as_mut()?;
        assert!(entry.left >= parts, "a part ended twice: {entry:?}");
        entry.left -= parts;
        entry.error = entry.error.or(error);
        Some(entry)
    }

    fn remove(&mut self, slot: u32) {
        self.entries[slot as usize] = None;
        self.free.push(slot);
    }
}
