//! A device as one VM has it: its memory, its queues, and what is under way.
//!
//! Invariants:
//! - Queues are served only while the session has the disk ([`Device::turn`]), by one thread at a time:
//!   the session's, or the volume's ([`Device::hand`]).
//! - A queue that its driver breaks is told so, and is served no more until the VMM stops it. The
//!   others are not concerned.
//! - After the connection has ended nothing of the VM is touched ([`Device::forsake`]): its guest may
//!   have been reset, and use the memory for something else.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use raidcore::engine::Op;
use vhost::vhost_user::VhostUserProtocolFeatures;
use virtio_bindings::bindings::virtio_blk::VIRTIO_BLK_F_FLUSH;

use super::config::{self, QUEUES_MAX, SPACE_BYTES, has};
use super::control::Control;
use super::inflight::Inflight;
use super::jobs::{JOBS_MAX, Job, Jobs, Outcome};
use super::memory::{self, Ram};
use super::notice::Channel;
use super::request::{Broken, FAILED, OK, What};
use super::ring::Ring;
use crate::front::LogicalBlock;
use crate::guests::Seldom;
use crate::volume::Volume;

/// The most chains that are taken from queues in a turn.
const TURN: usize = 128;

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

/// A time for which the volume's thread serves a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Hand(u64);

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
    /// The VMM has named none of the queues from here on, so there is nothing to be done for them.
    named: usize,
    pub(super) inflight: Option<Inflight>,
    jobs: Jobs,
    pub(super) control: Arc<Control>,
    log: Log,
    /// Queues that were broken, which is not logged yet.
    broken: Vec<(u16, Broken)>,
    /// Whose turn comes first.
    first: usize,
    /// None while the session's thread serves it.
    hand: Option<Hand>,
    hands: u64,
}

impl Device {
    pub(super) fn new(
        volume: Volume,
        logical_block: LogicalBlock,
        control: Arc<Control>,
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
            named: 0,
            inflight: None,
            jobs: Jobs::new(volume.clone(), Arc::clone(control.mailbox())),
            control,
            volume,
            log,
            broken: Vec::new(),
            first: 0,
            hand: None,
            hands: 0,
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
            && self.rings[..self.named].iter().any(Ring::is_running)
    }

    /// The VMM names this queue.
    pub(super) fn name(&mut self, at: usize) {
        self.named = self.named.max(at + 1);
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
        self.rings[..self.named].iter().any(|ring| ring.is_ready() || ring.is_running())
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

    /// The time for which the volume's thread serves it, if it does.
    pub(super) fn hand(&self) -> Option<Hand> {
        self.hand
    }

    /// Leaves it to the volume's thread.
    pub(super) fn hand_over(&mut self) -> Hand {
        self.hands += 1;
        *self.hand.insert(Hand(self.hands))
    }

    /// Takes it back.
    pub(super) fn take_back(&mut self) {
        self.hand = None;
    }

    /// Whether what the VMM shares is memory, which the kernel does not move elsewhere now.
    pub(super) fn stays_in_memory(&self) -> bool {
        let is_memory =
            self.ram.is_memory() && self.inflight.as_ref().is_none_or(Inflight::is_memory);
        is_memory && !memory::has_swap()
    }

    /// Begins to serve queues that are ready.
    pub(super) fn start_rings(&mut self) {
        for (at, ring) in (0..).zip(&mut self.rings[..self.named]) {
            if ring.is_ready()
                && let Err(why) = ring.start(&self.ram, self.inflight.as_ref(), self.features)
            {
                fail(ring, at, why, &mut self.broken);
            }
        }
    }

    /// Whether queues were broken, which is to be logged: not by the volume's thread, as that may wait.
    pub(super) fn has_news(&self) -> bool {
        !self.broken.is_empty()
    }

    /// Logs what was broken.
    pub(super) fn tell_broken(&mut self) {
        for (at, why) in std::mem::take(&mut self.broken) {
            self.log.broken(at, &why);
        }
    }

    /// Looks at what has ended, and takes up new requests if `takes`. Whether there is more to be
    /// done at once: it takes no more than [`TURN`] chains, and moves no more than a piece beyond
    /// [`crate::front::MOVE_BYTES`] each way.
    pub(super) fn turn(&mut self, takes: bool) -> bool {
        let Self { control, rings, .. } = self;
        for queue in control.events().take() {
            rings[queue].kicked();
        }
        self.collect();
        if takes {
            self.take_some();
        }
        self.submit();
        for (at, ring) in (0..).zip(&mut self.rings[..self.named]) {
            if let Err(why) = ring.tell(&self.ram) {
                fail(ring, at, why, &mut self.broken);
            }
        }
        let takes_more = takes && self.jobs.count() < JOBS_MAX;
        let has_more = |ring: &Ring| ring.has_news() || takes_more && ring.has_more();
        self.jobs.has_more() || self.rings[..self.named].iter().any(has_more)
    }

    /// Takes chains from queues, the first of which is another one each time.
    fn take_some(&mut self) {
        let (count, mut left) = (self.named, TURN);
        self.first = (self.first + 1).checked_rem(count).unwrap_or(0);
        for at in (self.first..count).chain(0..self.first) {
            while left > 0 && self.rings[at].has_more() && self.jobs.count() < JOBS_MAX {
                self.take(at);
                left -= 1;
            }
        }
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
            fail(&mut self.rings[at], number, why, &mut self.broken);
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
            self.control.events().remove(kick);
        }
    }

    /// Finds the queues in memory that has changed.
    pub(super) fn find_rings(&mut self) {
        for (at, ring) in (0..).zip(&mut self.rings) {
            if ring.is_running()
                && let Err(why) = ring.find(&self.ram)
            {
                fail(ring, at, why, &mut self.broken);
            }
        }
    }

    /// The VMM is gone. What the volume has is waited for, and how it ends is not told.
    pub(super) fn forsake(&mut self) {
        loop {
            self.jobs.collect(None, |_, _| {});
            self.jobs.submit(None, |_, _| {});
            if self.jobs.count() == 0 {
                break;
            }
            self.wait(|| false);
        }
        // Whichever thread lets go of the device last has little to do.
        (self.ram, self.inflight, self.channel) = (Ram::default(), None, None);
        self.named = 0;
        self.rings.clear();
        self.jobs.want_nothing();
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
        let Self { jobs, rings, ram, inflight, broken, .. } = self;
        jobs.collect(Some(ram), |job, outcome| {
            finish((rings, ram, inflight.as_ref()), &job, outcome, broken);
        });
    }

    fn submit(&mut self) {
        let Self { jobs, rings, ram, inflight, broken, .. } = self;
        jobs.submit(Some(ram), |job, outcome| {
            finish((rings, ram, inflight.as_ref()), &job, outcome, broken);
        });
    }

    /// Takes a chain from a queue.
    fn take(&mut self, at: usize) {
        if let Err(why) = self.try_take(at) {
            fail(&mut self.rings[at], at as u16, why, &mut self.broken);
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
    broken: &mut Vec<(u16, Broken)>,
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
        fail(ring, job.ring, why, broken);
    }
}

/// A driver has broken a queue.
fn fail(ring: &mut Ring, at: u16, why: Broken, broken: &mut Vec<(u16, Broken)>) {
    if ring.is_running() || ring.is_ready() {
        broken.push((at, why));
    }
    ring.fail();
}
