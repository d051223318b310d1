//! A resource that serves one at a time, first come, first served: a channel, or the interface to
//! the host.

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lane {
    free_at: u64,
}

impl Lane {
    /// Occupies it for `length` as soon as it is free; returns when that ends.
    pub(crate) fn take(&mut self, now: u64, length: u64) -> u64 {
        self.free_at = self.free_at.max(now) + length;
        self.free_at
    }

    pub(crate) fn free_at(&self) -> u64 {
        self.free_at
    }
}

/// The interface to the host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostLink {
    to_drive: Lane,
    to_host: Lane,
    full_duplex: bool,
}

impl HostLink {
    pub(crate) fn new(full_duplex: bool) -> Self {
        Self { to_drive: Lane::default(), to_host: Lane::default(), full_duplex }
    }

    pub(crate) fn receive(&mut self, now: u64, length: u64) -> u64 {
        self.to_drive.take(now, length)
    }

    pub(crate) fn send(&mut self, now: u64, length: u64) -> u64 {
        if self.full_duplex { self.to_host.take(now, length) } else { self.receive(now, length) }
    }
}
