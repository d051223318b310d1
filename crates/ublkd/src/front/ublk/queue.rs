//! One hardware queue of a device.
//!
//! Invariants:
//! - A tag is with the driver, or with the volume, or has ended, and so is its buffer. The driver
//!   copies written data into the buffer before it hands the tag over, and read data out of it when
//!   the tag is given back. There is no other copy.
//! - All commands of a queue come from one thread, as the driver demands.
//! - Once the driver has taken a tag back for good, nothing more is given to it.
//! - Requests that a stopping array does not complete are not answered: they stay for the next
//!   server.
#![allow(unsafe_code)]

use std::convert::Infallible;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use raidcore::engine::{Op, RequestError};

use super::abi::{self, IoCommand};
use super::descriptors::Descriptors;
use super::request;
use crate::resident::{Came, Command, Resident};
use crate::volume::Buffer;

/// Where a tag is.
enum Slot {
    /// With the driver, or about to be.
    Driver(Buffer),
    /// With the volume.
    Volume {
        /// The result for the driver on success.
        moved: i32,
        /// Where the read data begins in the buffer.
        at: u16,
    },
    /// The driver waits for it, and will get it from the next server.
    Left,
    /// The driver has no more use for it.
    Ended,
}

/// See the [module](self).
pub(super) struct Queue {
    descriptors: Descriptors,
    number: u16,
    /// By tag.
    slots: Vec<Slot>,
    ended: usize,
    device: Arc<OwnedFd>,
    /// Dropped last: a receiver that waits for that finds the device closed.
    _gone: Sender<Infallible>,
}

/// Outlives a queue.
#[derive(Debug)]
pub(super) struct Served(Receiver<Infallible>);

impl Served {
    /// Waits until the queue has let go of its device.
    pub(super) fn wait(self) {
        self.0.recv().ok();
    }
}

impl Queue {
    /// The device's queue, with a tag for each buffer.
    pub(super) fn new(
        device: Arc<OwnedFd>,
        number: u16,
        buffers: Vec<Buffer>,
    ) -> io::Result<(Self, Served)> {
        let descriptors = Descriptors::map(device.as_fd(), number, buffers.len() as u16)?;
        Ok(Self::with_descriptors(device, descriptors, number, buffers))
    }

    fn with_descriptors(
        device: Arc<OwnedFd>,
        descriptors: Descriptors,
        number: u16,
        buffers: Vec<Buffer>,
    ) -> (Self, Served) {
        let (gone, served) = channel();
        let slots = buffers.into_iter().map(Slot::Driver).collect();
        let queue = Self { descriptors, number, slots, ended: 0, device, _gone: gone };
        (queue, Served(served))
    }

    /// Gives a tag back to the driver, and asks for its next request.
    fn commit(&mut self, tag: u16, buffer: Buffer, result: i32) -> Option<Command> {
        if self.ended > 0 {
            self.end(tag);
            return None;
        }
        self.slots[usize::from(tag)] = Slot::Driver(buffer);
        Some(self.command(abi::Io::CommitAndFetch, tag, result))
    }

    fn end(&mut self, tag: u16) {
        self.slots[usize::from(tag)] = Slot::Ended;
        self.ended += 1;
    }

    fn command(&mut self, command: abi::Io, tag: u16, result: i32) -> Command {
        let Slot::Driver(buffer) = &mut self.slots[usize::from(tag)] else {
            unreachable!("tag {tag} has no buffer for the driver");
        };
        let arguments =
            IoCommand { queue: self.number, tag, result, address: buffer.as_mut_ptr() as u64 };
        // SAFETY: the memory is that of a buffer that stays in its slot until the command has
        // completed, and the slot until the ring is gone.
        unsafe { Command::new(tag, self.device.as_fd(), command as u32, arguments.encode()) }
    }
}

impl Resident for Queue {
    fn queue(&self) -> Option<u16> {
        Some(self.number)
    }

    fn begin(&mut self) -> Vec<Command> {
        (0..self.slots.len() as u16).map(|tag| self.command(abi::Io::Fetch, tag, 0)).collect()
    }

    /// The driver hands a tag over.
    fn came(&mut self, tag: u16, result: i32) -> Came {
        let slot = std::mem::replace(&mut self.slots[usize::from(tag)], Slot::Ended);
        let Slot::Driver(buffer) = slot else {
            unreachable!("tag {tag} was not with the driver");
        };
        if result != abi::RESULT_REQUEST {
            if result != abi::RESULT_ABORT {
                let error = io::Error::from_raw_os_error(-result);
                tracing::error!(queue = self.number, tag, %error, "ublk refuses a command");
            }
            self.end(tag);
            return Came::Nothing;
        }
        match request::translate(self.descriptors.get(tag)) {
            Ok((request, moved)) => {
                let mut buffer = buffer;
                let bytes = request.edges.within(request.blocks);
                let at = if request.op == Op::Read { request.edges.front } else { 0 };
                // The volume refuses requests that don't fit.
                if request.op == Op::Write && bytes.start > 0 && bytes.end <= buffer.len() {
                    buffer.copy_within(..bytes.len(), bytes.start);
                }
                self.slots[usize::from(tag)] = Slot::Volume { moved, at };
                Came::Request(request, buffer)
            }
            Err(errno) => self.commit(tag, buffer, errno).map_or(Came::Nothing, Came::Again),
        }
    }

    fn answered(
        &mut self,
        tag: u16,
        mut buffer: Buffer,
        result: Result<(), RequestError>,
    ) -> Option<Command> {
        let Slot::Volume { moved, at } = self.slots[usize::from(tag)] else {
            unreachable!("tag {tag} was not with the volume");
        };
        match result {
            Err(RequestError::Stopping) => {
                self.slots[usize::from(tag)] = Slot::Left;
                None
            }
            Err(error) => self.commit(tag, buffer, request::errno(error)),
            Ok(()) => {
                if at > 0 {
                    // The driver takes the result's number of bytes from the buffer's beginning.
                    let at = usize::from(at);
                    buffer.copy_within(at..at + moved as usize, 0);
                }
                self.commit(tag, buffer, moved)
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.ended == self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    use raidcore::units::{BLOCK_BYTES, Lba};

    use super::*;
    use crate::volume::{Edges, Submit, Volume, VolumeConfig};

    const DEPTH: u16 = 4;

    struct World {
        queue: Queue,
        served: Served,
        volume: Volume,
    }

    /// A queue of a driver with these requests (operation, sectors, start), by tag.
    fn world(asks: impl Fn(u16) -> (u32, u32, u64)) -> World {
        let (volume, _) = Volume::channel(VolumeConfig {
            name: "tank".to_owned(),
            blocks: 100,
            chunk_blocks: 1,
            stripe_blocks: 2,
            discard_blocks: 2,
            max_request_blocks: 2,
            tags: DEPTH,
        });
        let buffers = (0..DEPTH).map(|_| volume.buffer_blocking()).collect();
        let shared = tempfile::tempfile().expect("a file");
        shared.set_len(1 << 16).expect("a size");
        for tag in 0..DEPTH {
            let (op, sectors, start) = asks(tag);
            let at = u64::from(tag) * 24;
            shared.write_all_at(&op.to_ne_bytes(), at).expect("a write");
            shared.write_all_at(&sectors.to_ne_bytes(), at + 4).expect("a write");
            shared.write_all_at(&start.to_ne_bytes(), at + 8).expect("a write");
        }
        let descriptors = Descriptors::map(shared.as_fd(), 0, DEPTH).expect("a mapping");
        let null = Arc::new(OwnedFd::from(File::open("/dev/null").expect("/dev/null")));
        let (queue, served) = Queue::with_descriptors(null, descriptors, 3, buffers);
        World { queue, served, volume }
    }

    impl World {
        fn command(&self, code: abi::Io, tag: u16, result: i32, address: u64) -> Command {
            let arguments = IoCommand { queue: 3, tag, result, address }.encode();
            // SAFETY: it is only compared.
            unsafe { Command::new(tag, self.queue.device.as_fd(), code as u32, arguments) }
        }

        fn request(&mut self, tag: u16) -> (Submit, Buffer) {
            match self.queue.came(tag, abi::RESULT_REQUEST) {
                Came::Request(request, buffer) => (request, buffer),
                Came::Again(_) | Came::Several | Came::Nothing => {
                    panic!("tag {tag} brought no request")
                }
            }
        }

        /// Whether its tags' buffers are back.
        fn has_all_buffers(&self) -> bool {
            let all: Vec<_> = (0..DEPTH).map_while(|_| self.volume.try_buffer()).collect();
            all.len() == usize::from(DEPTH)
        }
    }

    #[test]
    fn a_tag_comes_again_when_it_was_given_back() {
        let mut world = world(|tag| (1, 8 * u32::from(tag), u64::from(tag) * 8));
        let commands = world.queue.begin();
        assert_eq!(commands.len(), usize::from(DEPTH));
        for round in 0..10 {
            for tag in (0..DEPTH).rev() {
                let (request, mut buffer) = world.request(tag);
                let (lba, blocks) = (Lba(tag.into()), tag.into());
                assert_eq!(
                    request,
                    Submit { op: Op::Write, lba, blocks, fua: false, edges: Edges::NONE }
                );
                let address = buffer.as_mut_ptr() as u64;
                if round == 0 {
                    let fetch = world.command(abi::Io::Fetch, tag, 0, address);
                    assert_eq!(commands[usize::from(tag)], fetch);
                }
                let moved = i32::from(tag) * BLOCK_BYTES as i32;
                let commit = world.command(abi::Io::CommitAndFetch, tag, moved, address);
                assert_eq!(world.queue.answered(tag, buffer, Ok(())), Some(commit));
            }
        }
    }

    #[test]
    fn sectors_are_where_the_volume_and_the_driver_look_for_them() {
        let mut world = world(|tag| (u32::from(tag % 2), 3, 6));
        world.queue.begin();
        for tag in [1, 3] {
            let Slot::Driver(buffer) = &mut world.queue.slots[usize::from(tag)] else {
                panic!("tag {tag} is with the driver");
            };
            buffer[..3 * 512].fill(tag as u8);
            let (write, buffer) = world.request(tag);
            assert_eq!((write.lba, write.blocks), (Lba(0), 2));
            let meant = write.edges.within(write.blocks);
            assert_eq!(meant, 6 * 512..9 * 512);
            assert!(buffer[meant].iter().all(|&byte| byte == tag as u8));
            world.queue.answered(tag, buffer, Ok(()));
        }
        let (read, mut buffer) = world.request(0);
        buffer[read.edges.within(read.blocks)].fill(9);
        world.queue.answered(0, buffer, Ok(()));
        let Slot::Driver(buffer) = &world.queue.slots[0] else { panic!("it is given back") };
        assert!(buffer[..3 * 512].iter().all(|&byte| byte == 9));
    }

    #[test]
    fn what_fails_is_told_to_the_driver() {
        let mut world = world(|_| (2, 0, 0));
        world.queue.begin();
        let (_, mut buffer) = world.request(2);
        let address = buffer.as_mut_ptr() as u64;
        let commit = world.command(abi::Io::CommitAndFetch, 2, -libc::EIO, address);
        assert_eq!(world.queue.answered(2, buffer, Err(RequestError::Io)), Some(commit));
    }

    #[test]
    fn what_makes_no_sense_never_reaches_the_volume() {
        let mut world = world(|tag| (u32::from(tag) + 8, 8, 0));
        world.queue.begin();
        for tag in [0, 1, 2, 3, 0, 3] {
            let came = world.queue.came(tag, abi::RESULT_REQUEST);
            let Came::Again(commit) = came else { panic!("tag {tag} is not given back") };
            assert_eq!(commit.number(), tag);
        }
    }

    #[test]
    fn what_a_stop_leaves_undone_is_not_answered() {
        let mut world = world(|_| (0, 8, 0));
        world.queue.begin();
        for tag in 0..DEPTH {
            let (_, buffer) = world.request(tag);
            assert_eq!(world.queue.answered(tag, buffer, Err(RequestError::Stopping)), None);
        }
        assert!(!world.queue.has_ended(), "the driver waits for them");
        assert!(world.has_all_buffers());
    }

    #[test]
    fn after_an_abort_nothing_is_given_to_the_driver() {
        let mut world = world(|_| (0, 8, 0));
        world.queue.begin();
        let buffers: Vec<_> = (1..DEPTH).map(|tag| world.request(tag).1).collect();
        assert!(matches!(world.queue.came(0, abi::RESULT_ABORT), Came::Nothing));
        for (tag, buffer) in (1..).zip(buffers) {
            assert!(!world.queue.has_ended());
            assert_eq!(world.queue.answered(tag, buffer, Ok(())), None);
        }
        assert!(world.queue.has_ended());
        assert!(world.has_all_buffers());
        drop(world.queue);
        world.served.wait();
    }
}
