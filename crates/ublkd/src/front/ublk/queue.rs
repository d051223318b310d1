//! One hardware queue of a device, on a thread of its own.
//!
//! Invariants:
//! - A tag is with the driver, or with the volume, or has ended. Its buffer goes with it: the driver
//!   copies written data into it before it hands the tag over, and read data out of it when the tag
//!   is given back, so there is no other copy.
//! - All commands of a queue come from the thread that made its ring.
//! - Once the driver has taken a tag back for good, nothing more is given to it.
//! - What an array that stops leaves undone is not answered: it stays for the next server.
//! - The ring goes before the buffers: no command outlives the memory that it names.
#![allow(unsafe_code)]

use std::io;
use std::io::ErrorKind::{Interrupted, ResourceBusy, WouldBlock};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use raidcore::engine::RequestError;

use super::abi::{self, IoCommand};
use super::descriptors::Descriptors;
use super::inbox::{Done, Inbox};
use super::request;
use crate::volume::{Buffer, Port, Volume};

/// The completion that means that something is in the inbox.
const BELL: u64 = u64::MAX;

/// Where a tag is.
enum Slot {
    /// With the driver, or about to be.
    Driver(Buffer),
    /// With the volume; the driver will be told this if all goes well.
    Volume(i32),
    /// The driver waits for it, and gets it from the next server.
    Left,
    /// The driver has no more use for it.
    Ended,
}

/// See the [module](self).
pub(super) struct Queue {
    ring: IoUring,
    device: Arc<OwnedFd>,
    descriptors: Descriptors,
    number: u16,
    volume: Volume,
    /// By tag.
    slots: Vec<Slot>,
    ended: usize,
    inbox: Arc<Inbox>,
    port: Arc<dyn Port>,
    /// Room for what is looked at, kept for its allocation.
    done: Vec<Done>,
    events: Vec<cqueue::Entry>,
}

/// A ring for a queue of the calling thread, which alone may use it.
pub(super) fn ring(depth: u16) -> io::Result<IoUring> {
    // Every tag has one command at most, and the bell one more.
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_taskrun_flag()
        .build((u32::from(depth) + 1).next_power_of_two())
}

impl Queue {
    /// The device's queue, with a tag for each buffer.
    pub(super) fn new(
        ring: IoUring,
        device: Arc<OwnedFd>,
        number: u16,
        volume: Volume,
        buffers: Vec<Buffer>,
    ) -> io::Result<Self> {
        let descriptors = Descriptors::map(device.as_fd(), number, buffers.len() as u16)?;
        Self::with_descriptors(ring, device, descriptors, number, volume, buffers)
    }

    fn with_descriptors(
        ring: IoUring,
        device: Arc<OwnedFd>,
        descriptors: Descriptors,
        number: u16,
        volume: Volume,
        buffers: Vec<Buffer>,
    ) -> io::Result<Self> {
        let inbox = Arc::new(Inbox::new()?);
        Ok(Self {
            ring,
            device,
            descriptors,
            number,
            volume,
            done: Vec::with_capacity(buffers.len()),
            events: Vec::with_capacity(buffers.len() + 1),
            slots: buffers.into_iter().map(Slot::Driver).collect(),
            ended: 0,
            port: Arc::<Inbox>::clone(&inbox),
            inbox,
        })
    }

    /// Asks for requests, of all tags.
    pub(super) fn fetch(&mut self) -> io::Result<()> {
        self.listen();
        for tag in 0..self.slots.len() as u16 {
            self.command(abi::Io::Fetch, tag, 0);
        }
        self.ring.submit()?;
        Ok(())
    }

    /// Serves until the driver has no more use for any tag.
    pub(super) fn run(&mut self) -> io::Result<()> {
        while !self.has_ended() {
            self.turn()?;
        }
        Ok(())
    }

    fn has_ended(&self) -> bool {
        self.ended == self.slots.len()
    }

    /// Tells the driver what has ended, waits for something to do, and does it.
    fn turn(&mut self) -> io::Result<()> {
        self.commit_done();
        if self.has_ended() {
            return Ok(());
        }
        let parked = self.inbox.park();
        let waited = self.ring.submit_and_wait(parked.into());
        self.inbox.unpark();
        if let Err(error) = waited
            && !matches!(error.kind(), Interrupted | WouldBlock | ResourceBusy)
        {
            return Err(error);
        }
        let mut events = std::mem::take(&mut self.events);
        events.extend(self.ring.completion());
        for event in events.drain(..) {
            match event.user_data() {
                BELL if cqueue::more(event.flags()) => {}
                BELL => self.listen(),
                // Tags are 16 bits.
                tag => self.came(tag as u16, event.result()),
            }
        }
        self.events = events;
        Ok(())
    }

    /// The driver hands a tag over.
    fn came(&mut self, tag: u16, result: i32) {
        let slot = std::mem::replace(&mut self.slots[usize::from(tag)], Slot::Ended);
        let Slot::Driver(buffer) = slot else {
            unreachable!("tag {tag} was not with the driver");
        };
        if result != abi::RESULT_REQUEST {
            if result != abi::RESULT_ABORT {
                let error = io::Error::from_raw_os_error(-result);
                tracing::error!(queue = self.number, tag, %error, "ublk refuses a command");
            }
            self.ended += 1;
            return;
        }
        match request::translate(self.descriptors.get(tag)) {
            Ok((request, result)) => {
                self.slots[usize::from(tag)] = Slot::Volume(result);
                self.volume.submit(&self.port, tag.into(), request, buffer);
            }
            Err(errno) => self.commit(tag, buffer, errno),
        }
    }

    fn commit_done(&mut self) {
        let mut done = std::mem::take(&mut self.done);
        self.inbox.take(&mut done);
        for Done { tag, buffer, result } in done.drain(..) {
            let Slot::Volume(moved) = self.slots[usize::from(tag)] else {
                unreachable!("tag {tag} was not with the volume");
            };
            match result {
                Err(RequestError::Stopping) => self.slots[usize::from(tag)] = Slot::Left,
                Err(error) => self.commit(tag, buffer, request::errno(error)),
                Ok(()) => self.commit(tag, buffer, moved),
            }
        }
        self.done = done;
    }

    /// Gives a tag back to the driver, and asks for its next request.
    fn commit(&mut self, tag: u16, buffer: Buffer, result: i32) {
        if self.ended > 0 {
            self.slots[usize::from(tag)] = Slot::Ended;
            self.ended += 1;
            return;
        }
        self.slots[usize::from(tag)] = Slot::Driver(buffer);
        self.command(abi::Io::CommitAndFetch, tag, result);
    }

    fn command(&mut self, command: abi::Io, tag: u16, result: i32) {
        let Slot::Driver(buffer) = &mut self.slots[usize::from(tag)] else {
            unreachable!("tag {tag} has no buffer for the driver");
        };
        let arguments =
            IoCommand { queue: self.number, tag, result, address: buffer.as_mut_ptr() as u64 };
        let fd = types::Fd(self.device.as_raw_fd());
        let entry = opcode::UringCmd16::new(fd, command as u32).cmd(arguments.encode());
        self.push(entry.build().user_data(tag.into()));
    }

    fn listen(&mut self) {
        let fd = types::Fd(self.inbox.bell());
        let entry = opcode::PollAdd::new(fd, libc::POLLIN as u32).multi(true);
        self.push(entry.build().user_data(BELL));
    }

    fn push(&mut self, entry: squeue::Entry) {
        // SAFETY: a command names the memory of a buffer that stays in its slot until the command
        // ends, or until after the ring is gone; a poll names none.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        assert!(pushed.is_ok(), "the ring has room for all tags and the bell");
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use raidcore::engine::Op;
    use raidcore::units::Lba;

    use super::*;
    use crate::volume::{Submissions, VolumeConfig};

    const DEPTH: u16 = 4;

    /// A queue of a driver that hands every tag over at once, which is what /dev/null does with
    /// commands; `ask` is what it asks for.
    fn queue(ask: &File) -> (Queue, Submissions) {
        let (volume, submissions) = Volume::channel(VolumeConfig {
            name: "tank".to_owned(),
            blocks: 100,
            chunk_blocks: 1,
            stripe_blocks: 2,
            max_request_blocks: 2,
            tags: DEPTH,
        });
        let buffers = (0..DEPTH).map(|_| volume.buffer_blocking()).collect();
        let descriptors = Descriptors::map(ask.as_fd(), 0, DEPTH).expect("a mapping");
        let null = Arc::new(OwnedFd::from(File::open("/dev/null").expect("/dev/null")));
        let ring = ring(DEPTH).expect("a ring");
        let queue = Queue::with_descriptors(ring, null, descriptors, 0, volume, buffers);
        (queue.expect("a queue"), submissions)
    }

    fn descriptors(of: impl Fn(u16) -> (u32, u32, u64)) -> File {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(1 << 16).expect("a size");
        for tag in 0..DEPTH {
            let (op, sectors, start) = of(tag);
            let at = u64::from(tag) * 24;
            file.write_all_at(&op.to_ne_bytes(), at).expect("a write");
            file.write_all_at(&sectors.to_ne_bytes(), at + 4).expect("a write");
            file.write_all_at(&start.to_ne_bytes(), at + 8).expect("a write");
        }
        file
    }

    fn asked(submissions: &mut Submissions) -> Vec<(u64, Op, Lba)> {
        let queued = std::iter::from_fn(|| submissions.pop());
        let mut asked: Vec<_> = queued
            .map(|submission| {
                let asked = (submission.cookie, submission.request.op, submission.request.lba);
                submission.complete(Ok(()));
                asked
            })
            .collect();
        asked.sort_by_key(|&(tag, ..)| tag);
        asked
    }

    #[test]
    fn a_tag_comes_again_when_it_was_given_back() {
        let (mut queue, mut submissions) = queue(&descriptors(|tag| (1, 8, u64::from(tag) * 8)));
        queue.fetch().expect("fetches");
        let all: Vec<_> = (0..4).map(|tag| (tag, Op::Write, Lba(tag))).collect();
        for _ in 0..10 {
            queue.turn().expect("a turn");
            assert_eq!(asked(&mut submissions), all);
        }
    }

    #[test]
    fn a_sleeping_thread_is_woken_by_a_completion() {
        let (mut queue, mut submissions) = queue(&descriptors(|_| (2, 0, 0)));
        queue.fetch().expect("fetches");
        queue.turn().expect("a turn");
        let back_end = std::thread::spawn(move || {
            while let Some(submission) = submissions.recv() {
                submission.complete(Err(RequestError::Io));
            }
        });
        for _ in 0..100 {
            queue.turn().expect("a turn, and no sleep without end");
        }
        drop(queue);
        back_end.join().expect("no panic");
    }

    #[test]
    fn what_makes_no_sense_never_reaches_the_volume() {
        let (mut queue, mut submissions) = queue(&descriptors(|tag| (u32::from(tag) + 8, 8, 0)));
        queue.fetch().expect("fetches");
        for _ in 0..3 {
            queue.turn().expect("a turn");
        }
        assert!(submissions.pop().is_none());
    }

    #[test]
    fn what_a_stop_leaves_undone_is_not_answered() {
        let (mut queue, submissions) = queue(&descriptors(|_| (0, 8, 0)));
        queue.fetch().expect("fetches");
        queue.turn().expect("a turn");
        drop(submissions);
        queue.commit_done();
        assert_eq!(queue.ring.submission().len(), 0, "nothing is committed");
        assert!(queue.slots.iter().all(|slot| matches!(slot, Slot::Left)));
    }

    #[test]
    fn after_an_abort_nothing_is_given_to_the_driver() {
        let (mut queue, mut submissions) = queue(&descriptors(|_| (0, 8, 0)));
        for tag in 1..DEPTH {
            queue.came(tag, abi::RESULT_REQUEST);
        }
        queue.came(0, abi::RESULT_ABORT);
        assert_eq!(asked(&mut submissions).len(), 3);
        queue.run().expect("an end");
        assert_eq!(queue.ring.submission().len(), 0);
        assert!(queue.volume.try_buffer().is_some(), "the buffers are free");
    }
}
