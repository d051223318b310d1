//! A virtual machine without a processor: memory, queues in it, and a VMM that shares them.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use vhost::vhost_user::message::{
    VhostUserConfigFlags, VhostUserInflight, VhostUserProtocolFeatures,
};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{Bytes, FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::EventFd;

pub(crate) const READ: u32 = 0;
pub(crate) const WRITE: u32 = 1;
pub(crate) const FLUSH: u32 = 4;
pub(crate) const GET_ID: u32 = 8;
pub(crate) const DISCARD: u32 = 11;
pub(crate) const WRITE_ZEROES: u32 = 13;

/// Flags of descriptors.
pub(crate) const NEXT: u16 = 1;
pub(crate) const WRITABLE: u16 = 2;
pub(crate) const INDIRECT: u16 = 4;

const MIB: u64 = 1 << 20;
pub(crate) const MEMORY: u64 = 128 * MIB;
/// What the VMM calls the memory's first address.
const USER: u64 = 0x7f00_0000_0000;
/// Descriptors of a queue, three for each request.
pub(crate) const DESCRIPTORS: u16 = 64;
const SLOTS: u16 = DESCRIPTORS / 3;
const VHOST_PROTOCOL: u64 = 1 << 30;
const FLUSH_FEATURE: u64 = 1 << 9;

/// Longer than anything takes.
const HANGS: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };

/// A queue of the guest's.
struct Queue {
    at: u64,
    free: Vec<u16>,
    seen: u16,
    next: u16,
    kick: EventFd,
    call: EventFd,
    error: EventFd,
}

/// The guest, and what its VMM keeps while it is not connected.
pub(crate) struct Vm {
    pub(crate) file: File,
    pub(crate) memory: GuestMemoryMmap,
    pub(crate) front: Option<Frontend>,
    pub(crate) inflight: Option<(VhostUserInflight, File)>,
    queues: Vec<Queue>,
    /// Where the VMM is told of changes.
    notices: Option<UnixStream>,
    /// Whether flushes are known to the driver.
    pub(crate) flushes: bool,
    /// Whether the driver kicks only if the disk wants to be told, as those of guests do; if not, always.
    pub(crate) saves_kicks: bool,
}

/// `EFD_NONBLOCK`, as VMMs have it.
const NONBLOCK: i32 = 0o4000;

fn event() -> EventFd {
    EventFd::new(NONBLOCK).expect("an eventfd")
}

impl Vm {
    pub(crate) fn new(queues: u16) -> Self {
        let file = memfd_create("guest", MemfdFlags::CLOEXEC).expect("a memfd");
        let file = File::from(file);
        file.set_len(MEMORY).expect("memory");
        let mut vm = Self {
            memory: map(&file),
            file,
            front: None,
            inflight: None,
            queues: Vec::new(),
            notices: None,
            flushes: true,
            saves_kicks: false,
        };
        vm.reboot(queues);
        vm
    }

    /// New queues, in memory that is as it was.
    pub(crate) fn reboot(&mut self, queues: u16) {
        self.inflight = None;
        self.queues = (0..queues).map(|at| self.queue(u64::from(at) * 0x1_0000)).collect();
    }

    fn queue(&self, at: u64) -> Queue {
        self.memory.write_slice(&vec![0; 0x1_0000], GuestAddress(at)).expect("memory");
        let free = (0..SLOTS).rev().collect();
        Queue { at, free, seen: 0, next: 0, kick: event(), call: event(), error: event() }
    }

    /// Connects the VMM, and lets it do all that comes before queues.
    pub(crate) fn connect(&mut self, path: &Path) {
        let stream = UnixStream::connect(path).expect("a server");
        let mut front = Frontend::from_stream(stream, self.queues.len() as u64);
        front.set_owner().expect("an owner");
        let offered = front.get_features().expect("features");
        let protocol = front.get_protocol_features().expect("features of the protocol");
        let wanted = VhostUserProtocolFeatures::MQ
            | VhostUserProtocolFeatures::CONFIG
            | VhostUserProtocolFeatures::REPLY_ACK
            | VhostUserProtocolFeatures::BACKEND_REQ
            | VhostUserProtocolFeatures::INFLIGHT_SHMFD;
        assert!(protocol.contains(wanted), "{protocol:?}");
        front.set_protocol_features(wanted).expect("they are offered");
        front.set_hdr_flags(vhost::vhost_user::message::VhostUserHeaderFlag::NEED_REPLY);
        let left = if self.flushes { 0 } else { FLUSH_FEATURE };
        front.set_features(offered & !left | VHOST_PROTOCOL).expect("they are offered");
        let (notices, theirs) = UnixStream::pair().expect("sockets");
        front.set_backend_request_fd(&theirs).expect("a channel");
        self.notices = Some(notices);
        self.front = Some(front);
    }

    /// Shares the memory, with a page of a file behind it or without.
    pub(crate) fn share(&mut self, with_file: bool) {
        let page = tempfile::tempfile().expect("a temporary file");
        page.set_len(4096).expect("a page");
        let region = |at, bytes, file: &File| VhostUserMemoryRegionInfo {
            guest_phys_addr: at,
            memory_size: bytes,
            userspace_addr: USER + at,
            mmap_offset: 0,
            mmap_handle: file.as_raw_fd(),
        };
        let regions = [region(0, MEMORY, &self.file), region(MEMORY, 4096, &page)];
        let shared = if with_file { &regions[..] } else { &regions[..1] };
        self.front().set_mem_table(shared).expect("memory");
    }

    /// Shares memory and queues, and starts these at the places that the guest has come to.
    pub(crate) fn start(&mut self) {
        self.share(false);
        let queues = self.queues.len() as u16;
        let front = self.front.as_mut().expect("it is connected");
        if self.inflight.is_none() {
            let asked = VhostUserInflight::new(0, 0, queues, DESCRIPTORS);
            self.inflight = Some(front.get_inflight_fd(&asked).expect("a region"));
        }
        let (told, file) = self.inflight.as_ref().expect("it was told");
        front.set_inflight_fd(told, file.as_raw_fd()).expect("a region");
        for at in 0..queues {
            self.start_queue(at);
        }
    }

    fn start_queue(&mut self, number: u16) {
        let base = self.used_index(number);
        let front = self.front.as_mut().expect("it is connected");
        let (queue, number) = (&self.queues[usize::from(number)], usize::from(number));
        front.set_vring_num(number, DESCRIPTORS).expect("a size");
        let config = VringConfigData {
            queue_max_size: DESCRIPTORS,
            queue_size: DESCRIPTORS,
            flags: 0,
            desc_table_addr: USER + queue.at,
            avail_ring_addr: USER + queue.at + 0x4000,
            used_ring_addr: USER + queue.at + 0x8000,
            log_addr: None,
        };
        front.set_vring_addr(number, &config).expect("addresses");
        front.set_vring_base(number, base).expect("a place");
        front.set_vring_call(number, &queue.call).expect("an event");
        front.set_vring_err(number, &queue.error).expect("an event");
        front.set_vring_kick(number, &queue.kick).expect("an event");
        front.set_vring_enable(number, true).expect("it runs");
    }

    /// Connects and starts.
    pub(crate) fn boot(&mut self, path: &Path) {
        self.connect(path);
        self.start();
    }

    /// Stops the queues, as for a reset of the guest.
    pub(crate) fn stop(&mut self) -> Vec<u32> {
        let front = self.front.as_ref().expect("it is connected");
        let queues = 0..self.queues.len();
        queues.map(|queue| front.get_vring_base(queue).expect("it stops")).collect()
    }

    /// The VMM's side of the connection.
    pub(crate) fn front(&mut self) -> &mut Frontend {
        self.front.as_mut().expect("it is connected")
    }

    pub(crate) fn disable(&mut self, queue: usize) {
        self.front().set_vring_enable(queue, false).expect("it is told");
    }

    pub(crate) fn enable(&mut self, queue: usize) {
        // The answer may be the end of the connection.
        self.front().set_vring_enable(queue, true).ok();
    }

    /// Closes the connection.
    pub(crate) fn disconnect(&mut self) {
        self.front = None;
    }

    /// The disk's configuration.
    pub(crate) fn config(&mut self) -> Vec<u8> {
        let front = self.front.as_mut().expect("it is connected");
        let flags = VhostUserConfigFlags::WRITABLE;
        front.get_config(0, 60, flags, &[0; 60]).expect("its configuration").1
    }

    /// Writes a descriptor.
    pub(crate) fn describe(&self, queue: u16, index: u16, (at, bytes): (u64, u32), flags: u16) {
        let table = self.queues[usize::from(queue)].at;
        self.describe_at(table + 16 * u64::from(index), (at, bytes), flags, index + 1);
    }

    /// Writes a descriptor anywhere.
    pub(crate) fn describe_at(&self, place: u64, (at, bytes): (u64, u32), flags: u16, next: u16) {
        let rest = u64::from(bytes) | u64::from(flags) << 32 | u64::from(next) << 48;
        self.put(place, [at.to_le_bytes(), rest.to_le_bytes()].as_flattened());
    }

    pub(crate) fn put(&self, at: u64, bytes: &[u8]) {
        self.memory.write_slice(bytes, GuestAddress(at)).expect("memory");
    }

    pub(crate) fn get(&self, at: u64, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.memory.read_slice(&mut bytes, GuestAddress(at)).expect("memory");
        bytes
    }

    /// All queues are kicked by one event.
    pub(crate) fn share_kick(&mut self) {
        let kick = self.queues[0].kick.try_clone().expect("a descriptor");
        for queue in &mut self.queues {
            queue.kick = kick.try_clone().expect("a descriptor");
        }
    }

    /// Kicks, for nothing.
    pub(crate) fn kick(&self, queue: u16) {
        // A counter that is full has said it already.
        self.queues[usize::from(queue)].kick.write(1).ok();
    }

    /// Fills the counter by which a queue's guest is told of what comes back, of an event that has who
    /// writes to it wait for room.
    pub(crate) fn fill_call(&mut self, queue: u16) {
        let call = EventFd::new(0).expect("an eventfd");
        call.write(u64::MAX - 1).expect("there is room for so much");
        self.queues[usize::from(queue)].call = call;
        let (front, at) = (self.front.as_ref().expect("it is connected"), usize::from(queue));
        front.set_vring_call(at, &self.queues[at].call).expect("an event");
    }

    /// Makes a chain available, and kicks.
    pub(crate) fn offer(&mut self, queue: u16, head: u16) {
        let queue = &mut self.queues[usize::from(queue)];
        let ring = queue.at + 0x4000;
        let place = ring + 4 + 2 * u64::from(queue.next % DESCRIPTORS);
        self.memory.write_obj(head, GuestAddress(place)).expect("memory");
        let index = GuestAddress(ring + 2);
        self.memory.store(queue.next.wrapping_add(1), index, Ordering::SeqCst).expect("memory");
        // The disk is to be told of what becomes available at this place.
        let wanted = GuestAddress(queue.at + 0x8004 + 8 * u64::from(DESCRIPTORS));
        let wanted: u16 = self.memory.load(wanted, Ordering::SeqCst).expect("memory");
        if !self.saves_kicks || wanted == queue.next {
            // Its counter has room for all kicks of a test.
            queue.kick.write(1).expect("a kick");
        }
        queue.next = queue.next.wrapping_add(1);
    }

    /// Sets the index of what is available.
    pub(crate) fn set_available(&mut self, queue: u16, index: u16) {
        let queue = &self.queues[usize::from(queue)];
        let place = GuestAddress(queue.at + 0x4002);
        self.memory.store(index, place, Ordering::SeqCst).expect("memory");
        queue.kick.write(1).expect("a kick");
    }

    /// Asks for something; returns its slot.
    pub(crate) fn ask(&mut self, queue: u16, kind: u32, sector: u64, data: Data<'_>) -> u16 {
        let slot = self.queues[usize::from(queue)].free.pop().expect("a free slot");
        let (head, at) = (slot * 3, place(queue, slot));
        let request = [u64::from(kind).to_le_bytes(), sector.to_le_bytes(), [0xff; 8]];
        self.put(at, &request.as_flattened()[..17]);
        let (bytes, flags) = match data {
            Data::None => (0, 0),
            Data::Out(bytes) => {
                self.put(at + 4096, bytes);
                (bytes.len() as u32, NEXT)
            }
            Data::In(bytes) => (bytes, NEXT | WRITABLE),
        };
        if bytes == 0 {
            self.describe(queue, head, (at, 16), NEXT);
            self.describe(queue, head + 1, (at + 16, 1), WRITABLE);
        } else {
            self.describe(queue, head, (at, 16), NEXT);
            self.describe(queue, head + 1, (at + 4096, bytes), flags);
            self.describe(queue, head + 2, (at + 16, 1), WRITABLE);
        }
        self.offer(queue, head);
        slot
    }

    /// The next chain that has come back, if there is one: its head, and how much was written.
    pub(crate) fn used(&mut self, queue: u16) -> Option<(u16, u32)> {
        if self.used_index(queue) == self.queues[usize::from(queue)].seen {
            return None;
        }
        let queue = &mut self.queues[usize::from(queue)];
        let place = queue.at + 0x8004 + 8 * u64::from(queue.seen % DESCRIPTORS);
        queue.seen = queue.seen.wrapping_add(1);
        let [head, written]: [u32; 2] = self.memory.read_obj(GuestAddress(place)).expect("memory");
        let slot = head as u16 / 3;
        if !queue.free.contains(&slot) {
            queue.free.push(slot);
        }
        Some((head as u16, written))
    }

    fn used_index(&self, queue: u16) -> u16 {
        let place = GuestAddress(self.queues[usize::from(queue)].at + 0x8002);
        self.memory.load(place, Ordering::SeqCst).expect("memory")
    }

    /// Waits until a chain comes back.
    pub(crate) fn wait(&mut self, queue: u16) -> (u16, u32) {
        loop {
            self.want_call(queue);
            if let Some(used) = self.used(queue) {
                return used;
            }
            self.wait_for_call(queue);
        }
    }

    /// Says that the next chain that comes back is to be told.
    fn want_call(&self, queue: u16) {
        let queue = &self.queues[usize::from(queue)];
        let place = queue.at + 0x4004 + 2 * u64::from(DESCRIPTORS);
        self.memory.store(queue.seen, GuestAddress(place), Ordering::SeqCst).expect("memory");
    }

    /// Waits until the disk tells that there is something.
    pub(crate) fn wait_for_call(&self, queue: u16) {
        let call = &self.queues[usize::from(queue)].call;
        wait_for(call, "the disk does not answer");
        call.read().ok();
    }

    /// Gives a queue another event for what comes back.
    pub(crate) fn replace_call(&mut self, queue: u16) {
        self.queues[usize::from(queue)].call = event();
        let (front, at) = (self.front.as_ref().expect("it is connected"), usize::from(queue));
        front.set_vring_call(at, &self.queues[at].call).expect("an event");
    }

    /// Waits until the disk says that the queue is broken.
    pub(crate) fn wait_for_error(&self, queue: u16) {
        wait_for(&self.queues[usize::from(queue)].error, "the disk does not complain");
    }

    /// Waits until the disk says that its configuration has changed.
    pub(crate) fn wait_for_notice(&mut self) {
        let notices = self.notices.as_mut().expect("it was connected");
        wait_for(notices, "the disk does not say that it has changed");
        let mut message = [0; 12];
        notices.read_exact(&mut message).expect("a message");
        // CONFIG_CHANGE_MSG of version 1, which wants no reply and has no body.
        assert_eq!(message.as_chunks().0, [2, 1, 0].map(u32::to_ne_bytes));
    }

    /// Whether the disk has said anything.
    pub(crate) fn has_notice(&self) -> bool {
        let notices = self.notices.as_ref().expect("it was connected");
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::new(notices, PollFlags::IN)], Some(&at_once)).expect("a poll") > 0
    }

    /// Waits until the server closes the connection.
    pub(crate) fn wait_for_end(&self) {
        let front = self.front.as_ref().expect("it was connected");
        wait_for(front, "the server does not close the connection");
        let gone = front.get_features();
        assert!(gone.is_err(), "{gone:?}");
    }

    /// The status of a slot, and its data.
    pub(crate) fn outcome(&self, queue: u16, slot: u16, bytes: usize) -> (u8, Vec<u8>) {
        let at = place(queue, slot);
        let status = self.memory.read_obj(GuestAddress(at + 16)).expect("memory");
        (status, if bytes == 0 { Vec::new() } else { self.get(at + 4096, bytes) })
    }

    /// Asks, and waits.
    pub(crate) fn request(&mut self, kind: u32, sector: u64, data: Data<'_>) -> (u8, Vec<u8>) {
        let bytes = if let Data::In(bytes) = data { bytes as usize } else { 0 };
        let slot = self.ask(0, kind, sector, data);
        let (head, written) = self.wait(0);
        assert_eq!(head, slot * 3, "one at a time");
        let (status, data) = self.outcome(0, slot, bytes);
        let moved = if status == 0 { bytes } else { 0 };
        assert_eq!(written as usize, moved + 1);
        (status, data)
    }

    pub(crate) fn read(&mut self, sector: u64, bytes: u32) -> Vec<u8> {
        let (status, data) = self.request(READ, sector, Data::In(bytes));
        assert_eq!(status, 0);
        data
    }

    pub(crate) fn write(&mut self, sector: u64, data: &[u8]) {
        assert_eq!(self.request(WRITE, sector, Data::Out(data)).0, 0);
    }

    pub(crate) fn flush(&mut self) {
        assert_eq!(self.request(FLUSH, 0, Data::None).0, 0);
    }

    /// A discard, or zeros.
    pub(crate) fn range(&mut self, kind: u32, sector: u64, sectors: u32, flags: u32) -> u8 {
        let mut range = sector.to_le_bytes().to_vec();
        range.extend(sectors.to_le_bytes());
        range.extend(flags.to_le_bytes());
        self.request(kind, 0, Data::Out(&range)).0
    }
}

/// A request's data.
#[derive(Clone, Copy)]
pub(crate) enum Data<'a> {
    None,
    Out(&'a [u8]),
    In(u32),
}

/// Where a slot's head, status and data are; the data are 1 MiB at most.
pub(crate) fn place(queue: u16, slot: u16) -> u64 {
    8 * MIB + (u64::from(queue) * u64::from(SLOTS) + u64::from(slot)) * (MIB + 8192)
}

fn wait_for(event: &impl AsRawFd, why: &str) {
    #[allow(unsafe_code)]
    // SAFETY: the descriptor is open for as long as `event` is borrowed.
    let fd = unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) };
    let ready = poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&HANGS)).expect("a poll");
    assert_eq!(ready, 1, "{why}");
}

/// The guest's own view of its memory.
fn map(file: &File) -> GuestMemoryMmap {
    let file = file.try_clone().expect("a descriptor");
    let range = (GuestAddress(0), MEMORY as usize, Some(FileOffset::new(file, 0)));
    GuestMemoryMmap::from_ranges_with_files([range]).expect("a mapping")
}
