//! The lease of the data thread's array: whether it is held, and who serves.

use std::io;

use raidcore::engine::Engine;
use raidcore::meta::DeviceUuid;
use raidcore::units::DeviceId;

use crate::lease::{Ending, LeaseLost, Leash, Serve, boot_time};
use crate::ring::Ring;

/// The lease of an array that runs.
pub(super) struct Leased {
    leash: Leash,
    /// The changes of the record that the lease was told of.
    told: u64,
    /// The devices that it was told of.
    known: Vec<(DeviceUuid, DeviceId)>,
}

impl Leased {
    /// The lease was taken for an array whose record had so many changes.
    pub(super) fn new(leash: Leash, events: u64) -> Self {
        Self { leash, told: events, known: Vec::new() }
    }

    /// Whether it is known to be lost.
    pub(super) fn is_lost(&self) -> bool {
        self.leash.permit.lost().is_some()
    }

    /// Whether a request may be answered as done.
    pub(super) fn lets_answer(&self) -> bool {
        self.leash.permit.is_given()
    }

    /// Why the array may be run no more, if it may not.
    pub(super) fn why(&self) -> Option<LeaseLost> {
        self.leash.permit.why()
    }

    /// Tells the lease who serves, if the record of an array tells something else than before.
    ///
    /// # Errors
    /// If the lease is over.
    pub(super) fn keep(&mut self, engine: &Engine, ring: &Ring) -> io::Result<()> {
        self.leash.permit.ask()?;
        let Some(record) = engine.on_record().filter(|record| record.events != self.told) else {
            return Ok(());
        };
        let (at, events) = (boot_time(), record.events);
        let now = engine.members().filter_map(|of| Some((of.uuid, of.device?)));
        let mut known: Vec<_> = now.chain(self.known.iter().copied()).collect();
        known.retain(|(uuid, _)| record.serving.iter().any(|(_, serving)| serving == uuid));
        let members = record.serving.iter().map(|&(member, uuid)| {
            // One that has left since is still that of the record.
            let device = known.iter().find(|(of, _)| *of == uuid).map(|&(_, device)| device);
            (member, device, device.and_then(|device| ring.lease_file(device)))
        });
        let members = members.collect();
        self.leash.serve(Serve { at, events, members });
        (self.told, self.known) = (events, known);
        Ok(())
    }

    /// The array has ended. If it was stopped, and the kernel has no I/O left, others may have it at once.
    pub(super) fn end(self, is_over: bool) {
        self.leash.end(if is_over { self.leash.after_stop() } else { Ending::Leave });
    }
}
