//! Requests as they arrive. A payload goes from the socket into the volume's buffer, except for what
//! was received with the request.
#![allow(unsafe_code)]

use std::io::{self, IoSliceMut};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::BorrowedFd;

use raidcore::engine::Op;
use rustix::net::{RecvAncillaryBuffer, RecvFlags, recvmsg};

use super::super::checks::{Checks, Task};
use super::super::wire::{Header, flag};
use super::Asked;
use crate::region::Region;
use crate::volume::{Buffer, Share, Submit};

/// The most that is received at once beside a payload: some small requests.
const ROOM: usize = (64 << 10) + 4096;

/// The same while payloads are large, as they are copied once more by that.
const LITTLE: usize = 1024;

/// A payload is large from this size on.
const LARGE: usize = 16 << 10;

/// The most that may have been read of a client that comes here.
pub(in super::super) const AHEAD_BYTES_MAX: usize = ROOM;

/// What is to be done with what was received.
pub(super) enum Next {
    /// A request for the volume.
    Request(Asked, Submit, Buffer),
    /// More has to be received first.
    More,
    /// There is no place or buffer for the next request now.
    Blocked,
    /// The next request is not for this thread, or none at all.
    NotHere,
}

/// What was received without waiting.
pub(super) enum Received {
    /// So many bytes, and there may be more.
    Some(usize),
    /// All that has arrived, which may be nothing.
    All,
    /// Nothing more will arrive.
    End,
}

/// A write whose payload arrives.
struct Filling {
    header: [u8; Header::BYTES],
    asked: Asked,
    submit: Submit,
    buffer: Buffer,
    /// Where the payload goes.
    to: Range<usize>,
    got: usize,
}

/// See the [module](self).
pub(in super::super) struct Incoming {
    memory: ManuallyDrop<Region>,
    /// Where what was received and not served is in the memory. It is empty while a payload arrives.
    bytes: Range<usize>,
    filling: Option<Box<Filling>>,
    /// The last payload was large.
    is_large: bool,
    /// How much the kernel is to receive.
    room: u32,
    /// How much it has received since that was last told.
    came: usize,
    /// The kernel may receive into the memory or a buffer for ever.
    is_leaked: bool,
}

impl Incoming {
    /// This was received already, at most [`AHEAD_BYTES_MAX`].
    ///
    /// # Errors
    /// If the kernel refuses memory.
    pub(in super::super) fn new(ahead: &[u8]) -> io::Result<Self> {
        let memory = ManuallyDrop::new(Region::new(ROOM)?);
        assert!(ahead.len() <= ROOM, "{} bytes are too many", ahead.len());
        // SAFETY: the region is as long, and nothing else uses it yet.
        unsafe { std::ptr::copy_nonoverlapping(ahead.as_ptr(), memory.at(0), ahead.len()) };
        let bytes = 0..ahead.len();
        Ok(Self {
            memory,
            bytes,
            filling: None,
            is_large: false,
            room: 0,
            came: 0,
            is_leaked: false,
        })
    }

    /// What was received and not served, beside a payload. The kernel must not be receiving.
    fn ahead(&self) -> &[u8] {
        let Range { start, end } = self.bytes;
        assert!(start <= end && end <= ROOM, "{:?}", self.bytes);
        // SAFETY: it is within the region, and the kernel has let go of it.
        unsafe { std::slice::from_raw_parts(self.memory.at(0).add(start), end - start) }
    }

    /// Whether a payload arrives.
    pub(super) fn fills(&self) -> bool {
        self.filling.is_some()
    }

    /// Whether a request has begun to arrive.
    pub(super) fn is_amid(&self) -> bool {
        self.fills() || !self.bytes.is_empty()
    }

    /// The next request that was received. It may have one if there `is_room` for it.
    pub(super) fn next(&mut self, checks: &Checks, share: &Share, is_room: bool) -> Next {
        if let Some(filling) = self.filling.take_if(|filling| filling.got == filling.to.len()) {
            let Filling { asked, submit, buffer, .. } = *filling;
            return Next::Request(asked, submit, buffer);
        }
        if self.fills() {
            return Next::More;
        }
        let Some((&head, payload)) = self.ahead().split_first_chunk() else { return Next::More };
        let Some(header) = Header::decode(&head) else { return Next::NotHere };
        let Ok(Task::Volume { op, extent }) = checks.check(&header) else { return Next::NotHere };
        if extent.pieces() > 1 {
            return Next::NotHere;
        }
        let buffer = is_room.then(|| share.try_buffer()).flatten();
        let Some(mut buffer) = buffer else { return Next::Blocked };
        let (lba, blocks, edges) = extent.piece(0);
        let fua = header.flags & flag::FUA != 0;
        let asked = Asked { handle: header.handle, op, extent };
        let submit = Submit { op, lba, blocks, fua, edges };
        let to = if op == Op::Write { edges.within(blocks) } else { 0..0 };
        let got = payload.len().min(to.len());
        buffer[to.start..to.start + got].copy_from_slice(&payload[..got]);
        self.bytes.start += Header::BYTES + got;
        if op == Op::Write {
            self.is_large = to.len() >= LARGE;
        }
        if got < to.len() {
            let filling = Filling { header: head, asked, submit, buffer, to, got };
            self.filling = Some(Box::new(filling));
            return Next::More;
        }
        Next::Request(asked, submit, buffer)
    }

    /// The memory behind what was received and not served.
    fn free(&mut self) -> Range<usize> {
        let Range { start, end } = self.bytes;
        if start > 0 {
            // SAFETY: both are within the region, and the kernel is not receiving.
            unsafe { std::ptr::copy(self.memory.at(0).add(start), self.memory.at(0), end - start) };
            self.bytes = 0..end - start;
        }
        let room = if self.is_large { LITTLE } else { ROOM };
        // A request that is incomplete is a part of a header, so there is room for more.
        self.bytes.end..room.max(self.bytes.end + 1).min(ROOM)
    }

    /// Where the kernel may receive at most so many bytes: of a payload, or of what comes next.
    pub(super) fn room(&mut self, most: usize) -> (*mut u8, u32) {
        let free = self.free();
        let (to, bytes) = match &mut self.filling {
            Some(filling) => {
                let payload = &mut filling.buffer[filling.to.clone()][filling.got..];
                (payload.as_mut_ptr(), payload.len())
            }
            None => (self.memory.at(free.start), free.len()),
        };
        self.room = bytes.min(most) as u32;
        (to, self.room)
    }

    /// The kernel has received so many bytes.
    pub(super) fn received(&mut self, bytes: usize) {
        match &mut self.filling {
            Some(filling) => filling.got += bytes,
            None => self.bytes.end += bytes,
        }
        self.came = bytes;
    }

    /// How many bytes of `most` are left to be received now: none if nothing more of a payload was there a
    /// moment ago.
    pub(super) fn left_of(&mut self, most: usize) -> usize {
        let came = std::mem::take(&mut self.came);
        let is_drained = self.fills() && came > 0 && came < self.room as usize;
        if is_drained { 0 } else { most.saturating_sub(came) }
    }

    /// Receives what has arrived of a payload, at most so many bytes, and of what follows it. An error
    /// of the socket shows again. The kernel must not be receiving.
    pub(super) fn receive_now(&mut self, socket: BorrowedFd<'_>, most: usize) -> Received {
        let free = self.free();
        let Some(filling) = self.filling.as_mut() else { return Received::All };
        let payload = &mut filling.buffer[filling.to.clone()][filling.got..];
        let behind = free.len().min(most.saturating_sub(payload.len()));
        let most = payload.len().min(most);
        // SAFETY: it is within the region, and the kernel is not receiving.
        let behind = unsafe { std::slice::from_raw_parts_mut(self.memory.at(free.start), behind) };
        let mut slices = [IoSliceMut::new(&mut payload[..most]), IoSliceMut::new(behind)];
        let mut nothing = RecvAncillaryBuffer::default();
        let received = recvmsg(socket, &mut slices, &mut nothing, RecvFlags::DONTWAIT);
        let Ok(bytes) = received.map(|received| received.bytes) else { return Received::All };
        let of_payload = bytes.min(most);
        filling.got += of_payload;
        self.bytes.end += bytes - of_payload;
        match bytes {
            0 => Received::End,
            bytes if bytes < most => Received::All,
            bytes => Received::Some(bytes),
        }
    }

    /// All that was received and not served. The kernel must not be receiving.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        if let Some(filling) = self.filling.take() {
            all.extend(filling.header);
            all.extend(&filling.buffer[filling.to.clone()][..filling.got]);
        }
        all.extend(self.ahead());
        self.bytes = 0..0;
        all
    }

    /// The kernel may receive for ever.
    pub(super) fn leak(&mut self) {
        self.is_leaked = true;
        std::mem::forget(self.filling.take());
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        if !self.is_leaked {
            // SAFETY: the kernel has nothing of it, and it is not used again.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}
