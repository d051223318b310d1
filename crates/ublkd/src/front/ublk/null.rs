//! A null block device, which answers at once and stores nothing. It measures the cost of a request
//! without an array.

use std::io;
use std::path::Path;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use det::Instant;

use super::{UblkError, UblkOptions, UblkServer};
use crate::arena::Arena;
use crate::resident::{Came, Resident};
use crate::ring::{CommandSlot, Ring, RingConfig};
use crate::thread::mask_signals;
use crate::volume::{Submissions, Volume, VolumeConfig};

/// The largest request, in blocks: 1 MiB, as of an array.
const REQUEST_BLOCKS: u32 = 256;

/// Serves such a device. Dropping it stops the device.
#[derive(Debug)]
pub struct NullServer(UblkServer);

impl NullServer {
    /// Serves a device of so many blocks of 4 KiB, on a thread of its own.
    ///
    /// # Errors
    /// As from [`UblkServer::start`].
    pub fn start(blocks: u64, options: UblkOptions) -> Result<Self, UblkError> {
        let (volume, submissions) = Volume::channel(VolumeConfig {
            name: "null".to_owned(),
            blocks,
            chunk_blocks: 1,
            stripe_blocks: REQUEST_BLOCKS,
            discard_blocks: 1,
            max_request_blocks: REQUEST_BLOCKS,
            tags: options.depth,
        });
        let submissions = std::cell::Cell::new(Some(submissions));
        let admit = |queue: Box<dyn Resident>| {
            // More queues would not be served by the same thread.
            let submissions = submissions.take().expect("a device has one queue");
            let (ready, begun) = sync_channel(1);
            let serve = move || serve(queue, &submissions, &ready);
            std::thread::Builder::new()
                .name("null".to_owned())
                .spawn(serve)
                .and_then(|_| begun.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into())))
                .map_err(UblkError::Queue)
        };
        UblkServer::start_at(&volume, &admit, options).map(Self)
    }

    /// The block device.
    #[must_use]
    pub fn disk(&self) -> &Path {
        self.0.disk()
    }
}

/// Tells `ready` when the driver has the first commands, or why it has not.
fn serve(
    mut queue: Box<dyn Resident>,
    submissions: &Submissions,
    ready: &SyncSender<io::Result<()>>,
) {
    mask_signals();
    let served = (|| {
        let mut arena = Arena::new(submissions.payload_memory(), &[])?;
        let config = RingConfig {
            entries: 256,
            large_entries: false,
            io_timeout: Duration::MAX,
            register_memory: false,
        };
        let mut ring = Ring::new(config, &arena, submissions.bell().fd())?;
        let place = CommandSlot(0);
        for command in queue.begin() {
            ring.command(place, command);
        }
        ring.submit(Instant::ORIGIN, &mut arena)?;
        // The receiver is there: it is what spawned us.
        ready.send(Ok(())).ok();
        while !queue.has_ended() {
            ring.submit_and_sleep(Instant::ORIGIN, &mut arena, None)?;
            ring.reap(Instant::ORIGIN, &mut arena);
            while let Some(done) = ring.next_completed() {
                let next = match queue.came(done.number, done.result) {
                    Came::Request(_, buffer) => queue.answered(done.number, buffer, Ok(())),
                    Came::Again(command) => Some(command),
                    Came::Nothing => None,
                };
                if let Some(command) = next {
                    ring.command(place, command);
                }
            }
        }
        Ok(())
    })();
    if let Err(error) = served {
        tracing::error!(%error, "the null device is served no more");
        ready.try_send(Err(error)).ok();
    }
}
