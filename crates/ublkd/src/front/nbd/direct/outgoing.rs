//! Replies on their way to the client.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;

use rustix::io::Errno as SystemError;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use super::super::ledger::{Message, Rest, Unsent};

/// The most pieces of memory that are sent by one call: three of a message.
const SLICES: usize = 3 * 64;

/// See the [module](self).
#[derive(Default)]
pub(super) struct Outgoing {
    messages: VecDeque<Message>,
    /// Bytes of the first that are sent.
    sent: usize,
}

/// How far sending came.
pub(super) struct Sent {
    /// How many messages were sent to their end.
    pub(super) messages: usize,
    /// Whether none is left.
    pub(super) is_all: bool,
}

impl Outgoing {
    pub(super) fn push(&mut self, message: Message) {
        self.messages.push_back(message);
    }

    pub(super) fn len(&self) -> usize {
        self.messages.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Sends at most so many bytes, and what the socket takes of them without waiting. What is left of
    /// these can be sent when it takes more.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(super) fn send(
        &mut self,
        socket: BorrowedFd<'_>,
        mut budget: usize,
    ) -> Result<Sent, SystemError> {
        let mut messages = 0;
        while budget > 0 && !self.messages.is_empty() {
            let (bytes, asked) = match self.send_once(socket, budget) {
                Ok(sent) => sent,
                Err(SystemError::AGAIN) => break,
                Err(SystemError::INTR) => continue,
                Err(error) => return Err(error),
            };
            budget -= bytes;
            messages += self.advance(bytes);
            if bytes < asked {
                break;
            }
        }
        Ok(Sent { messages, is_all: self.messages.is_empty() })
    }

    /// Returns how many bytes were sent, and how many the socket could have taken.
    fn send_once(
        &self,
        socket: BorrowedFd<'_>,
        budget: usize,
    ) -> Result<(usize, usize), SystemError> {
        let mut slices = [IoSlice::new(&[]); SLICES];
        let (mut count, mut skipped, mut left) = (0, self.sent, budget);
        for slice in self.messages.iter().flat_map(Message::slices) {
            let skips = skipped.min(slice.len());
            skipped -= skips;
            let slice = &slice[skips..];
            let slice = &slice[..slice.len().min(left)];
            if slice.is_empty() {
                continue;
            }
            slices[count] = IoSlice::new(slice);
            (count, left) = (count + 1, left - slice.len());
            if count == SLICES || left == 0 {
                break;
            }
        }
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let mut nothing = SendAncillaryBuffer::default();
        let sent = sendmsg(socket, &slices[..count], &mut nothing, flags)?;
        Ok((sent, budget - left))
    }

    /// So many more bytes are sent; returns how many messages ended.
    fn advance(&mut self, bytes: usize) -> usize {
        self.sent += bytes;
        let mut ended = 0;
        while let Some(first) = self.messages.front() {
            let length = first.bytes();
            if self.sent < length {
                break;
            }
            self.sent -= length;
            self.messages.pop_front();
            ended += 1;
        }
        ended
    }

    /// Gives back the buffers of all but a message that has begun.
    pub(super) fn give_back(&mut self) {
        let begun = usize::from(self.sent > 0);
        self.messages.iter_mut().skip(begun).for_each(Message::give_back);
    }

    /// All that is not sent.
    pub(super) fn take(&mut self) -> Unsent {
        let mut unsent = Unsent::default();
        let sent = std::mem::take(&mut self.sent);
        if sent > 0
            && let Some(first) = self.messages.pop_front()
        {
            let bytes = first.slices().concat().split_off(sent);
            let (last, parts) = (first.last.into(), first.part.is_some().into());
            unsent.rest = Rest { bytes, last, parts };
        }
        unsent.messages = self.messages.drain(..).collect();
        unsent
    }
}
