//! The lease block of one member: read and written on a thread of its own, which may hang with the member.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};

use raidcore::lease::{Answer, Ask};
use raidcore::meta::{ArrayId, CodecError, LeaseBlock};
use raidcore::units::{BLOCK_BYTES, MemberId};

use super::file::LeaseFile;
use super::message::Message;
use crate::members::BlockBuffer;
use crate::thread::{become_io_flusher, mask_signals};

/// A thread that does a member's I/O. It ends when this is dropped, once it has done what it is doing.
#[derive(Debug)]
pub(super) struct Worker {
    /// Other than that of each worker before.
    pub(super) number: u64,
    asks: Sender<Ask>,
}

impl Worker {
    /// One for a member, which answers to `to`. If the operator has said that no other host runs the array, a
    /// block that is damaged counts as none.
    ///
    /// # Errors
    /// If there is no thread or no memory for it.
    pub(super) fn start(
        array: ArrayId,
        (member, number): (MemberId, u64),
        (file, fenced): (LeaseFile, bool),
        to: Sender<Message>,
    ) -> io::Result<Self> {
        let (asks, inbox) = channel();
        let buffer = BlockBuffer::new(BLOCK_BYTES)?;
        let work = move || work(array, (member, number), (&file, fenced), buffer, (&inbox, &to));
        std::thread::Builder::new().name(format!("lease {}", member.0)).spawn(work)?;
        Ok(Self { number, asks })
    }

    pub(super) fn ask(&self, ask: Ask) {
        // It ends only after this.
        let _ = self.asks.send(ask);
    }
}

fn work(
    array: ArrayId,
    (member, number): (MemberId, u64),
    (file, fenced): (&LeaseFile, bool),
    mut buffer: BlockBuffer,
    (inbox, to): (&Receiver<Ask>, &Sender<Message>),
) {
    become_io_flusher();
    mask_signals();
    while let Ok(ask) = inbox.recv() {
        let done = match ask {
            Ask::Read(_) => file.read(&mut buffer).map(|()| read(array, member, fenced, &buffer)),
            Ask::Write(_, block) => {
                block.encode(array, &mut buffer);
                file.write(&buffer).map(|()| Answer::Wrote)
            }
        };
        let answer = done.unwrap_or_else(|error| {
            tracing::debug!(member = member.0, %error, "the lease block");
            Answer::Failed
        });
        if to.send(Message::Answered { member, number, answer }).is_err() {
            return;
        }
    }
}

fn read(array: ArrayId, member: MemberId, fenced: bool, block: &[u8]) -> Answer {
    match LeaseBlock::decode(array, block) {
        Ok(block) => Answer::Read(block),
        Err(error @ (CodecError::Checksum | CodecError::Invalid(_))) if fenced => {
            tracing::warn!(
                member = member.0,
                "its lease block is damaged, and is written over: {error}"
            );
            Answer::Read(None)
        }
        Err(error) => {
            tracing::warn!(member = member.0, "its lease block can't be used: {error}");
            Answer::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_block_counts_as_none_only_where_the_operator_has_fenced_other_hosts() {
        let (array, member) = (ArrayId([3; 16]), MemberId::at(0));
        let mut block = [0; BLOCK_BYTES];
        assert_eq!(read(array, member, false, &block), Answer::Read(None));
        block[..8].copy_from_slice(b"EKlease\n");
        assert_eq!(read(array, member, false, &block), Answer::Failed);
        assert_eq!(read(array, member, true, &block), Answer::Read(None));
    }
}
