//! A device as one VM has it: its memory, its queues, and what is under way.
//!
//! Invariants:
//! - Queues are served only while the session has the disk ([`Device::turn`]).
//! - A queue that its driver breaks is told so, and is served no more until the VMM stops it. The
//!   others are not concerned.
//! - After the connection has ended nothing of the VM is touched ([`Device::forsake`]): its guest may
//!   have been reset, and use the memory for something else.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use raidcore::engine::Op;
use rustix::event::epoll;
use vhost::vhost_user::VhostUserProtocolFeatures;
use virtio_bindings::bindings::virtio_blk::VIRTIO_BLK_F_FLUSH;

use super::config::{self, QUEUES_MAX, SPACE_BYTES, has};
use super::control::Control;
use super::inflight::Inflight;
use super::jobs::{JOBS_MAX, Job, Jobs, Outcome};
use super::memory::Ram;
use super::notice::Channel;
use super::request::{Broken, FAILED, OK, What};
use super::ring::Ring;
use crate::front::LogicalBlock;
use crate::guests::Seldom;
use crate::volume::Volume;

/// The most chains that are taken from a queue before others have their turn.
const TURN: usize = 64;

/// The event numbers of queues begin here.
pub(super) const QUEUE_EVENTS: u64 = 2;

/// Says what drivers have broken, at intervals.
pub(super) struct Log {
    pub(super) peer: String,
    pub(super) seldom: Arc<Mutex<Seldom>>,
}

impl Log {
    fn unheard(&self, error: &io::Error) {
        let said = self.seldom.lock().unwrap_or_else(PoisonError::into_inner).say();
        if let Some(count) = said {
            let peer = &self.peer;
            tracing::warn!(
                count,
                "{peer} could not be told of the disk's size, and has it when its VM is started \
                 again: {error}"
            );
        }
    }

    fn broken(&self, at: u16, why: &Broken) {
        let said = self.seldom.lock().unwrap_or_else(PoisonError::into_inner).say();
        if let Some(count) = said {
            let peer = &self.peer;
            tracing::warn!(
                count,
                "queue {at} of {peer} is broken, and is not served until its guest resets the \
                 disk: {why}"
            );
        }
    }
}

/// See the [module](self).
pub(super) struct Device {
    pub(super) volume: Volume,
    logical_block: LogicalBlock,
    /// The blocks that the VMM knows the disk to have; none if it may know them from a connection of
    /// before.
    known: Option<u64>,
    channel: Option<Channel>,
    /// What the guest has taken.
    pub(super) features: u64,
    /// What the VMM has taken.
    pub(super) protocol: VhostUserProtocolFeatures,
    pub(super) ram: Ram,
    pub(super) rings: Vec<Ring>,
    pub(super) inflight: Option<Inflight>,
    pub(super) epoll: Arc<OwnedFd>,
    jobs: Jobs,
    control: Arc<Control>,
    log: Log,
}

impl Device {
    pub(super) fn new(
        volume: Volume,
        logical_block: LogicalBlock,
        (epoll, control): (Arc<OwnedFd>, Arc<Control>),
        log: Log,
    ) -> Self {
        Self {
            logical_block,
            known: None,
            channel: None,
            features: 0,
            protocol: VhostUserProtocolFeatures::empty(),
            ram: Ram::default(),
            rings: (0..QUEUES_MAX).map(Ring::new).collect(),
            inflight: None,
            epoll,
            jobs: Jobs::new(volume.clone(), Arc::clone(control.mailbox())),
            control,
            volume,
            log,
        }
    }

    /// The configuration as it is now, which the VMM knows from now on.
    pub(super) fn show_space(&mut self) -> [u8; SPACE_BYTES] {
        // Before, so that what it becomes meanwhile is told.
        self.known = Some(self.volume.blocks());
        config::space(&self.volume, self.logical_block)
    }

    /// How the VMM can be told of changes, if it can.
    pub(super) fn set_channel(&mut self, channel: Option<Channel>) {
        self.channel = channel;
    }

    /// Whether the VMM is to be told of the disk's size: it takes that while queues run.
    pub(super) fn is_behind(&self) -> bool {
        self.channel.is_some()
            && self.protocol.contains(VhostUserProtocolFeatures::CONFIG)
            && self.known != Some(self.volume.blocks())
            && self.rings.iter().any(Ring::is_running)
    }

    /// Tells the VMM of the disk's size, if it may have another.
    pub(super) fn tell_size(&mut self) {
        if !self.is_behind() {
            return;
        }
        self.known = Some(self.volume.blocks());
        let told = self.channel.as_ref().map_or(Ok(()), Channel::say_changed);
        if let Err(error) = told {
            self.log.unheard(&error);
            self.channel = None;
        }
    }

    /// Whether there are queues to be served.
    pub(super) fn wants_the_disk(&self) -> bool {
        self.rings.iter().any(|ring| ring.is_ready() || ring.is_running())
    }

    /// Whether the VMM keeps what is under way for the next process.
    pub(super) fn can_wait(&self) -> bool {
        self.inflight.is_some()
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.jobs.count() == 0
    }

    /// Whether nothing of the volume waits to be looked at. A buffer that has come is told once.
    pub(super) fn is_quiet(&self) -> bool {
        self.jobs.is_quiet()
    }

    /// Whether memory of the VM has vanished.
    pub(super) fn is_lost(&self) -> bool {
        self.ram.is_lost() || self.inflight.as_ref().is_some_and(Inflight::is_lost)
    }

    /// The guest has put something into a queue.
    pub(super) fn kicked(&mut self, event: u64) {
        let at = event.checked_sub(QUEUE_EVENTS).and_then(|at| usize::try_from(at).ok());
        if let Some(ring) = at.and_then(|at| self.rings.get_mut(at)) {
            ring.kicked();
        }
    }

    /// Begins to serve queues that are ready.
    pub(super) fn start_rings(&mut self) {
        let ready: Vec<u16> =
            (0..QUEUES_MAX).filter(|&at| self.rings[usize::from(at)].is_ready()).collect();
        for at in ready {
            let ring = &mut self.rings[usize::from(at)];
            if let Err(why) = ring.start(&self.ram, self.inflight.as_ref(), self.features) {
                fail(ring, at, &why, &self.log);
            }
        }
    }

    /// Looks at what has ended, and takes up new requests if `takes`. Whether there is more to be
    /// done at once.
    pub(super) fn turn(&mut self, takes: bool) -> bool {
        self.collect();
        self.submit();
        if takes {
            for at in 0..self.rings.len() {
                for _ in 0..TURN {
                    if !self.rings[at].has_more() || self.jobs.count() >= JOBS_MAX {
                        break;
                    }
                    self.take(at);
                }
            }
            self.submit();
        }
        for (at, ring) in (0..).zip(&mut self.rings) {
            if let Err(why) = ring.tell(&self.ram) {
                fail(ring, at, &why, &self.log);
            }
        }
        takes && self.jobs.count() < JOBS_MAX && self.rings.iter().any(Ring::has_more)
    }

    /// Waits until nothing of a queue is under way; false if the session must end before. Chains
    /// that were begun by the last process are begun again before.
    pub(super) fn drain(&mut self, at: usize) -> bool {
        while self.rings[at].repeats() {
            self.take(at);
        }
        loop {
            if self.control.is_cut() || self.is_lost() {
                return false;
            }
            self.collect();
            self.submit();
            if self.rings[at].under_way() == 0 {
                break;
            }
            self.wait(|| self.control.is_cut());
        }
        let number = at as u16;
        if let Err(why) = self.rings[at].tell(&self.ram) {
            fail(&mut self.rings[at], number, &why, &self.log);
        }
        true
    }

    /// Stops serving a queue; returns where it would go on.
    pub(super) fn stop_ring(&mut self, at: usize) -> u16 {
        self.drop_kick(at);
        self.rings[at].stop()
    }

    /// Hears no more of a queue.
    pub(super) fn drop_kick(&mut self, at: usize) {
        if let Some(kick) = self.rings[at].kick() {
            // It would stay, as the VMM has it open, too. It is not there if it could not be added.
            epoll::delete(&*self.epoll, kick).ok();
        }
    }

    /// Finds the queues in memory that has changed.
    pub(super) fn find_rings(&mut self) {
        for (at, ring) in (0..).zip(&mut self.rings) {
            if ring.is_running()
                && let Err(why) = ring.find(&self.ram)
            {
                fail(ring, at, &why, &self.log);
            }
        }
    }

    /// The VMM is gone. What the volume has is waited for, and how it ends is not told.
    pub(super) fn forsake(&mut self) {
        loop {
            self.jobs.collect(None, |_, _| {});
            self.jobs.submit(None, |_, _| {});
            if self.jobs.count() == 0 {
                return;
            }
            self.wait(|| false);
        }
    }

    /// Waits for the volume, unless there is something else.
    fn wait(&self, is_called: impl FnOnce() -> bool) {
        let bell = self.control.mailbox().bell();
        if bell.park(|| !self.jobs.is_quiet() || is_called()) {
            bell.listen();
            bell.unpark();
        }
    }

    fn collect(&mut self) {
        let Self { jobs, rings, ram, inflight, log, .. } = self;
        jobs.collect(Some(ram), |job, outcome| {
            finish((rings, ram, inflight.as_ref()), &job, outcome, log);
        });
    }

    fn submit(&mut self) {
        let Self { jobs, rings, ram, inflight, log, .. } = self;
        jobs.submit(Some(ram), |job, outcome| {
            finish((rings, ram, inflight.as_ref()), &job, outcome, log);
        });
    }

    /// Takes a chain from a queue.
    fn take(&mut self, at: usize) {
        if let Err(why) = self.try_take(at) {
            fail(&mut self.rings[at], at as u16, &why, &self.log);
        }
    }

    fn try_take(&mut self, at: usize) -> Result<(), Broken> {
        let Self { rings, ram, inflight, volume, .. } = self;
        let (ring, inflight) = (&mut rings[at], inflight.as_ref());
        let Some((head, chain)) = ring.next(ram, inflight)? else { return Ok(()) };
        let asked = chain.request(ram, volume).inspect_err(|_| ring.leave())?;
        let (status, written) = match asked.what {
            What::Volume { op, range } => {
                // Without flushes a driver takes what has ended for durable.
                let writes = matches!(op, Op::Write | Op::Discard | Op::WriteZeroes);
                let fua = writes && !has(self.features, VIRTIO_BLK_F_FLUSH);
                let data = (asked.data, asked.skip, asked.status);
                self.jobs.begin(Job::new(volume, (at as u16, head), (op, fua), range, data));
                return Ok(());
            }
            What::Id => match ram.write(&asked.data, 0, &config::id(volume)) {
                true => (OK, config::ID_BYTES as u32),
                false => (FAILED, 0),
            },
            What::Answered(status) => (status, 0),
        };
        if !ram.write(&[asked.status], 0, &[status]) {
            ring.leave();
            return Err(Broken::NoPlace);
        }
        ring.end(ram, inflight, head, written + 1)
    }
}

/// Gives a chain back to the guest.
fn finish(
    (rings, ram, inflight): (&mut [Ring], &Ram, Option<&Inflight>),
    job: &Job,
    outcome: Outcome,
    log: &Log,
) {
    let ring = &mut rings[usize::from(job.ring)];
    let status = match outcome {
        Outcome::Status(status) => status,
        Outcome::Left if inflight.is_some() => return ring.leave(),
        Outcome::Left => FAILED,
    };
    let moved = if job.op == Op::Read && status == OK { job.bytes() } else { 0 };
    let ended = if ram.write(&[job.status], 0, &[status]) {
        ring.end(ram, inflight, job.head, moved.saturating_add(1))
    } else {
        ring.leave();
        Err(Broken::NoPlace)
    };
    if let Err(why) = ended {
        fail(ring, job.ring, &why, log);
    }
}

/// A driver has broken a queue.
fn fail(ring: &mut Ring, at: u16, why: &Broken, log: &Log) {
    if ring.is_running() || ring.is_ready() {
        log.broken(at, why);
    }
    ring.fail();
}
