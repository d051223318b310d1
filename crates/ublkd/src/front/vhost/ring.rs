//! One virtqueue.
//!
//! Invariants:
//! - It runs while it has a kick, is enabled, and its rings are in memory. A queue that is broken
//!   does nothing more until the VMM stops it.
//! - A head is under way at most once. So there are at most as many requests as descriptors.
//! - Nothing that the VMM passes is read, written, or waited for ([`super::event`]).

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::sync::atomic::Ordering;

use virtio_bindings::bindings::virtio_ring::VIRTIO_RING_F_EVENT_IDX;
use virtio_queue::{Queue, QueueOwnedT, QueueT};
use vm_memory::GuestAddress;

use super::config::{QUEUE_SIZE_MAX, has};
use super::event::Event;
use super::inflight::Inflight;
use super::memory::Ram;
use super::request::{Broken, Chain};

/// Addresses of the VMM's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Addresses {
    pub(super) descriptors: u64,
    pub(super) available: u64,
    pub(super) used: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Life {
    Stopped,
    Running,
    Broken,
}

/// What the guest is to be told.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum News {
    Nothing,
    /// Chains have ended. It is told if it wants to be.
    Ended,
    /// Chains may have ended of which it was not told, by a process that has died or without an
    /// event. What it wants to be told of may lie before them, so it is told anyway.
    Unsaid,
}

/// See the [module](self).
pub(super) struct Ring {
    number: u16,
    life: Life,
    size: u16,
    base: u16,
    addresses: Option<Addresses>,
    enabled: bool,
    kick: Option<File>,
    call: Event,
    error: Event,
    queue: Queue,
    /// The heads that are under way.
    begun: Vec<bool>,
    under_way: u16,
    /// Heads that the last process had begun, and that are to be begun again.
    again: VecDeque<u16>,
    /// The number of the next chain.
    next: u64,
    /// Whether there may be more in the ring.
    more: bool,
    news: News,
}

impl Ring {
    pub(super) fn new(number: u16) -> Self {
        Self {
            number,
            life: Life::Stopped,
            size: 0,
            base: 0,
            addresses: None,
            enabled: false,
            kick: None,
            call: Event::default(),
            error: Event::default(),
            queue: Queue::default(),
            begun: Vec::new(),
            under_way: 0,
            again: VecDeque::new(),
            next: 0,
            more: false,
            news: News::Nothing,
        }
    }

    /// How many descriptors it has.
    ///
    /// # Errors
    /// If it may not have so many.
    pub(super) fn set_size(&mut self, size: u32) -> io::Result<()> {
        let valid = u16::try_from(size).ok().filter(|size| size.is_power_of_two());
        self.size = valid.filter(|&size| size <= QUEUE_SIZE_MAX).ok_or_else(|| {
            io::Error::other(format!("a queue of {size} descriptors; {QUEUE_SIZE_MAX} are allowed"))
        })?;
        Ok(())
    }

    pub(super) fn set_base(&mut self, base: u16) {
        self.base = base;
    }

    pub(super) fn set_addresses(&mut self, addresses: Addresses) {
        self.addresses = Some(addresses);
    }

    pub(super) fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    pub(super) fn set_kick(&mut self, kick: File) {
        self.kick = Some(kick);
    }

    pub(super) fn set_call(&mut self, call: Option<File>) -> io::Result<()> {
        self.call.set(call.as_ref(), "call")?;
        self.news = News::Unsaid;
        Ok(())
    }

    pub(super) fn set_error(&mut self, error: Option<File>) -> io::Result<()> {
        self.error.set(error.as_ref(), "error")
    }

    /// What the guest writes to when there is something in the ring.
    pub(super) fn kick(&self) -> Option<&File> {
        self.kick.as_ref()
    }

    pub(super) fn is_running(&self) -> bool {
        self.life == Life::Running
    }

    /// The guest has put something into it.
    pub(super) fn kicked(&mut self) {
        self.more = self.is_running();
    }

    /// Whether the guest could not be told its news.
    pub(super) fn has_news(&self) -> bool {
        self.life == Life::Running && self.news != News::Nothing
    }

    /// Whether there may be chains to be had.
    pub(super) fn has_more(&self) -> bool {
        self.more && self.enabled
    }

    /// Whether all is there for it to run.
    pub(super) fn is_ready(&self) -> bool {
        let told = self.kick.is_some() && self.size > 0 && self.addresses.is_some();
        self.life == Life::Stopped && self.enabled && told
    }

    pub(super) fn under_way(&self) -> u16 {
        self.under_way
    }

    /// Begins to serve it. With a region of what is under way, it goes on where the last process
    /// was; chains that were begun are begun again.
    pub(super) fn start(
        &mut self,
        ram: &Ram,
        inflight: Option<&Inflight>,
        features: u64,
    ) -> Result<(), Broken> {
        let refused = |error: &dyn std::fmt::Display| Broken::Ring(error.to_string());
        self.queue = Queue::new(self.size).map_err(|error| refused(&error))?;
        self.queue.set_event_idx(has(features, VIRTIO_RING_F_EVENT_IDX));
        self.queue.set_ready(true);
        self.find(ram)?;
        let used = self.queue.used_idx(ram.view(), Ordering::Acquire);
        let used = used.map_err(|error| refused(&error))?.0;
        self.queue.set_next_used(used);
        self.queue.set_next_avail(self.base);
        self.begun = vec![false; self.size.into()];
        self.under_way = 0;
        self.again.clear();
        if let Some(inflight) = inflight {
            if !inflight.holds(self.number, self.size) {
                return Err(Broken::Ring("it has no place in the region in flight".to_owned()));
            }
            let begun = inflight.recover(self.number, used).map_err(|error| refused(&error))?;
            // Each was taken from the ring, and has not come back.
            self.queue.set_next_avail(used.wrapping_add(begun.heads.len() as u16));
            self.next = begun.next;
            self.again.extend(begun.heads);
        }
        (self.life, self.more, self.news) = (Life::Running, true, News::Unsaid);
        Ok(())
    }

    /// Finds the rings in memory that has changed.
    pub(super) fn find(&mut self, ram: &Ram) -> Result<(), Broken> {
        let refused = |error: virtio_queue::Error| Broken::Ring(error.to_string());
        let Some(addresses) = self.addresses else { return Err(Broken::NoMemory) };
        let guest = |user| ram.guest_address(user).map(GuestAddress).ok_or(Broken::NoMemory);
        let queue = &mut self.queue;
        queue.try_set_desc_table_address(guest(addresses.descriptors)?).map_err(refused)?;
        queue.try_set_avail_ring_address(guest(addresses.available)?).map_err(refused)?;
        queue.try_set_used_ring_address(guest(addresses.used)?).map_err(refused)?;
        if queue.is_valid(ram.view()) { Ok(()) } else { Err(Broken::NoMemory) }
    }

    /// Serves it no more. Returns where it would go on.
    pub(super) fn stop(&mut self) -> u16 {
        if self.life != Life::Stopped {
            self.base = self.queue.next_avail();
        }
        (self.life, self.more, self.news) = (Life::Stopped, false, News::Nothing);
        self.kick = None;
        self.again.clear();
        self.under_way = 0;
        self.base
    }

    /// The driver has broken it.
    pub(super) fn fail(&mut self) {
        (self.life, self.more) = (Life::Broken, false);
        // It is not told if the kernel has no memory, and finds out when it resets the disk.
        self.error.tell();
    }

    /// The next chain, and its head; none if there is none now.
    pub(super) fn next(
        &mut self,
        ram: &Ram,
        inflight: Option<&Inflight>,
    ) -> Result<Option<(u16, Chain)>, Broken> {
        let Some(head) = self.next_head(ram)? else { return Ok(None) };
        match self.begun.get_mut(usize::from(head)) {
            None => return Err(Broken::Outside),
            Some(true) => return Err(Broken::Twice),
            Some(begun) => *begun = true,
        }
        self.under_way += 1;
        if let Some(inflight) = inflight {
            inflight.begin(self.number, head, self.next);
        }
        self.next = self.next.wrapping_add(1);
        let (table, size) = (self.queue.desc_table(), self.queue.size());
        let chain = Chain::follow(ram.view(), table, size, head);
        chain.map(|chain| Some((head, chain))).inspect_err(|_| self.leave())
    }

    fn next_head(&mut self, ram: &Ram) -> Result<Option<u16>, Broken> {
        if let Some(head) = self.again.pop_front() {
            return Ok(Some(head));
        }
        let refused = |error: virtio_queue::Error| Broken::Ring(error.to_string());
        // A guest can have it look again without an end: that is at its next turn.
        for _ in 0..2 {
            let index = self.queue.avail_idx(ram.view(), Ordering::Acquire).map_err(refused)?.0;
            let mut available = self.queue.iter(ram.view()).map_err(refused)?;
            if let Some(chain) = available.next() {
                return Ok(Some(chain.head_index()));
            }
            if index != self.queue.next_avail() {
                // There is one, and it can't be read.
                return Err(Broken::NoMemory);
            }
            if !self.queue.enable_notification(ram.view()).map_err(refused)? {
                self.more = false;
                break;
            }
        }
        Ok(None)
    }

    /// A chain has ended: the guest gets it back, with so many bytes written.
    pub(super) fn end(
        &mut self,
        ram: &Ram,
        inflight: Option<&Inflight>,
        head: u16,
        written: u32,
    ) -> Result<(), Broken> {
        self.under_way = self.under_way.saturating_sub(1);
        if self.life != Life::Running {
            return Ok(());
        }
        if let Some(inflight) = inflight {
            inflight.ending(self.number, head);
        }
        let added = self.queue.add_used(ram.view(), head, written);
        added.map_err(|error| Broken::Ring(error.to_string()))?;
        if let Some(inflight) = inflight {
            inflight.ended(self.number, head, self.queue.next_used());
        }
        if let Some(begun) = self.begun.get_mut(usize::from(head)) {
            *begun = false;
        }
        self.news = self.news.max(News::Ended);
        Ok(())
    }

    /// A chain that was begun is left to the next process.
    pub(super) fn leave(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Whether there are chains that are to be begun again.
    pub(super) fn repeats(&self) -> bool {
        self.life == Life::Running && !self.again.is_empty()
    }

    /// Tells the guest its news.
    pub(super) fn tell(&mut self, ram: &Ram) -> Result<(), Broken> {
        if self.life != Life::Running || self.news == News::Nothing {
            return Ok(());
        }
        let news = std::mem::replace(&mut self.news, News::Nothing);
        let wants = self.queue.needs_notification(ram.view());
        let wants = wants.map_err(|error| Broken::Ring(error.to_string()))?;
        if (wants || news == News::Unsaid) && !self.call.tell() {
            self.news = News::Unsaid;
        }
        Ok(())
    }
}
