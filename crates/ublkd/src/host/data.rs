//! The data thread: passes events to the engine, and carries out its actions.
//!
//! Invariants:
//! - A tag is in `in_flight` from before the engine hears of its request until the engine completes
//!   it.
//! - Residents go after the ring, so no command is begun whose memory has gone. The kernel may still
//!   carry out one of a socket for a while after that: its resident leaks the memory that it names.
//! - The thread sleeps only when there is nothing to take in, and everything begun is with the
//!   kernel.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use det::Instant;
use raidcore::engine::{CommandError, Engine, Input, Request, RequestError};
use raidcore::units::{DeviceId, Mem, Tag};
use raidlog::host::{self, Work};
use raidlog::{GroupId, Machine, ONLY, array};
use steering::Steering;

use super::askers::Askers;
use super::cache;
use super::clock::{now, wall_seconds};
use super::former::Former;
use super::handle::{End, Order, Reply, Shared, lock, reply};
use super::leased::Leased;
use super::log::{self, Begin, Log};
use super::notes::{Event, Happened};
use super::partial::{Partials, Table, Todo};
use super::requests::RequestCounter;
use super::{Group, HostConfig};
use crate::arena::Arena;
use crate::label::label;
use crate::lease::Leash;
use crate::resident::Resident;
use crate::ring::{CommandSlot, Ring, RingConfig};
use crate::thread::{become_io_flusher, mask_signals};
use crate::topology::Site;
use crate::volume::{Buffer, Submission, Submissions, Submit};

/// What the data thread starts with.
pub(super) struct Setup {
    pub(super) config: HostConfig,
    /// The arrays: one, or those of a log volume's groups.
    pub(super) groups: Vec<Group>,
    /// How the log volume begins, if there is one.
    pub(super) begin: Option<Begin>,
    pub(super) submissions: Submissions,
    pub(super) site: Site,
    pub(super) shared: Arc<Shared>,
    pub(super) lease: Option<Leash>,
}

/// Runs the data thread; `ready` gets the result of its start.
pub(super) fn serve(setup: Setup, ready: SyncSender<io::Result<()>>) {
    become_io_flusher();
    mask_signals();
    let shared = Arc::clone(&setup.shared);
    let array = setup.submissions.config().name.clone();
    let mut data = match Data::new(setup) {
        Ok(data) => data,
        Err(error) => {
            shared.close(End::Died);
            // The receiver is there: it is what spawned us.
            let _ = ready.send(Err(error));
            return;
        }
    };
    let _ = ready.send(Ok(()));
    let end = match catch_unwind(AssertUnwindSafe(|| data.run())) {
        Ok(Ok(result)) => End::Stopped(result),
        Ok(Err(error)) => data.lease.as_ref().and_then(Leased::why).map_or_else(
            || {
                tracing::error!(array, %error, "the kernel no longer takes I/O; the array is down");
                End::Died
            },
            |why| {
                tracing::error!(array, "the array runs here no more: {why}");
                End::Lease(why)
            },
        ),
        Err(_) => {
            tracing::error!(array, "the data thread panicked; the array is down");
            End::Died
        }
    };
    if !matches!(end, End::Stopped(_)) {
        data.fail_requests();
    }
    data.lease.take().into_iter().for_each(|lease| lease.end(false));
    let waiting = std::mem::take(&mut data.waiting);
    drop(data);
    shared.close(end);
    for answer in waiting {
        reply(answer, end.answer());
    }
}

/// A request that the engine has, with the receiver of its result.
pub(super) enum InFlight {
    /// From a front end on a thread of its own.
    Submitted(Submission),
    /// From a front end on this thread, which knows it by a command's number.
    Resident { place: CommandSlot, number: u16, buffer: Buffer, asked: Submit },
}

impl InFlight {
    fn asked(&self) -> Submit {
        match self {
            Self::Submitted(submission) => submission.request,
            Self::Resident { asked, .. } => *asked,
        }
    }
}

impl Table for Vec<Option<InFlight>> {
    fn tags(&self) -> u16 {
        self.len() as u16
    }

    fn asked(&self, tag: Tag) -> Option<Submit> {
        self[usize::from(tag.0)].as_ref().map(InFlight::asked)
    }

    fn buffer(&mut self, tag: Tag) -> &mut [u8] {
        match self[usize::from(tag.0)].as_mut().expect("a request that is under way") {
            InFlight::Submitted(submission) => &mut submission.buffer,
            InFlight::Resident { buffer, .. } => buffer,
        }
    }
}

/// The earlier of two times, if there is one.
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

pub(super) struct Data {
    pub(super) machine: Machine,
    /// If it is a log volume.
    pub(super) log: Option<Log>,
    // The ring goes before the memory that it may use, the residents' among it: nothing more is
    // begun by then.
    pub(super) ring: Ring,
    /// By [`CommandSlot`].
    pub(super) residents: Vec<Option<Box<dyn Resident>>>,
    pub(super) arena: Arena,
    pub(super) submissions: Submissions,
    /// Blocks of the array that front ends know of.
    pub(super) capacity: u64,
    pub(super) shared: Arc<Shared>,
    pub(super) now: Instant,
    /// By tag.
    in_flight: Vec<Option<InFlight>>,
    pub(super) requests: RequestCounter,
    partials: Partials,
    pub(super) work: Work,
    /// Scratch space.
    orders: Vec<Order>,
    /// Of the last entry of a journal in this step, in which no memory changes that it is made of.
    pub(super) checksums: Vec<(Mem, u32)>,
    pub(super) askers: Askers,
    next_device: u32,
    pub(super) former: Former,
    /// When idle memory is looked at next.
    pub(super) look_at: Option<Instant>,
    /// By group.
    pub(super) steering: Vec<Steering>,
    pub(super) stopping: bool,
    /// The machine has stopped.
    pub(super) stopped: Option<Result<(), CommandError>>,
    /// The machine does not match the superblocks, and was not started.
    pub(super) broken: bool,
    /// The senders that wait for the stop.
    pub(super) waiting: Vec<Reply<()>>,
    /// The array's lease, if it has one.
    pub(super) lease: Option<Leased>,
}

impl Data {
    fn new(setup: Setup) -> io::Result<Self> {
        let Setup { config, groups, begin, submissions, site, shared, lease } = setup;
        site.enter()?;
        let now = now();
        let mut numbers = (0u32..).map(DeviceId);
        let mut devices = Vec::new();
        let part = groups.first().and_then(|group| group.assembled.record.volume);
        let events = groups.first().map_or(0, |group| group.assembled.record.events);
        let engine_config = config.engine_of(groups.len(), begin.is_some());
        let engines = groups.into_iter().map(|group| {
            let numbered = numbers.by_ref().zip(group.devices);
            let numbered: Vec<_> = numbered.map(|(id, d)| d.map(|d| (id, d))).collect();
            let ids: Vec<_> = numbered.iter().map(|d| d.as_ref().map(|d| d.0)).collect();
            let mut engine = Engine::new(engine_config, group.assembled, &ids, now, wall_seconds());
            for (id, device) in numbered.iter().flatten() {
                engine.label(*id, label(device.path()));
            }
            devices.extend(numbered);
            engine
        });
        let mut engines: Vec<Engine> = engines.collect();
        let machine = match begin.zip(part) {
            Some((begin, part)) => log::machine(config.log_config(), part, begin, engines),
            None => cache::machine(&config, engines.swap_remove(0)),
        };
        let log = machine.log().and(part).map(Log::new);
        let pools = machine.pools(part.map_or(0, |part| part.segment));
        let next_device = devices.len() as u32;
        let arena = Arena::new(submissions.payload_memory(), &pools)?;
        let arena = arena.near(site.node).in_huge_pages(config.huge_pages);
        let ring_config = RingConfig {
            entries: config.ring_entries,
            threads: config.threads,
            io_timeout: config.io_timeout,
            register_memory: config.register_memory,
            large_entries: devices
                .iter()
                .flatten()
                .any(|(_, device)| device.passthrough().is_some()),
        };
        let mut ring = Ring::new(ring_config, &arena, submissions.bell())?;
        ring.readings = shared.readings().clone();
        if let Some(lease) = &lease {
            ring.under(lease.permit.clone());
        }
        for (id, device) in devices.into_iter().flatten() {
            ring.open(now, id, device)?;
        }
        let steering = |_| Steering::new(config.scheme, None);
        let steering = machine.groups().map(steering).collect();
        Ok(Self {
            machine,
            log,
            ring,
            residents: Vec::new(),
            arena,
            in_flight: (0..submissions.config().tags).map(|_| None).collect(),
            requests: RequestCounter::new(now, submissions.config().tags),
            partials: Partials::default(),
            capacity: submissions.config().blocks,
            submissions,
            shared,
            now,
            work: Work::default(),
            orders: Vec::new(),
            checksums: Vec::new(),
            askers: Askers::default(),
            next_device,
            former: Former::default(),
            look_at: None,
            steering,
            stopping: false,
            stopped: None,
            broken: false,
            waiting: Vec::new(),
            lease: lease.map(|lease| Leased::new(lease, events)),
        })
    }

    /// Serves until the array is stopped; returns the result of recording the stop.
    fn run(&mut self) -> io::Result<Result<(), CommandError>> {
        self.tick();
        loop {
            self.take_in();
            if let Some(lease) = &mut self.lease {
                lease.keep(self.machine.engine(ONLY), &self.ring)?;
            }
            if self.broken {
                return Err(io::Error::other("what was found is not what was expected"));
            }
            if let Some(result) = self.stopped
                && self.ring.outstanding() == 0
            {
                // So do answers that residents have just given, before the ring is dropped.
                self.ring.reach_kernel(self.now, &mut self.arena)?;
                let rests = self.ring.is_at_rest();
                self.lease.take().into_iter().for_each(|lease| lease.end(rests));
                self.ring.close_all();
                return Ok(result);
            }
            self.rest()?;
        }
    }

    /// Processes everything that has happened.
    fn take_in(&mut self) {
        self.now = now();
        self.ring.reap(self.now, &mut self.arena);
        if let Some(devices) = self.ring.next_hung() {
            self.hung(&devices);
        }
        while let Some(device) = self.ring.next_gone() {
            self.device_lost(Input::DeviceShrunk(device));
        }
        while let Some((name, result)) = self.ring.next_done() {
            self.steering[name.group.index()].ended(self.now, name.id, result.is_ok());
            self.feed_group(name.group, Input::IoDone { id: name.id, result });
        }
        while let Some(completed) = self.ring.next_completed() {
            self.command_completed(completed);
        }
        while let Some(submission) = self.submissions.pop() {
            let (tag, asked) = (submission.buffer.tag(), submission.request);
            self.request(tag, asked, InFlight::Submitted(submission));
        }
        let mut orders = std::mem::take(&mut self.orders);
        self.shared.take_orders(&mut orders);
        for order in orders.drain(..) {
            self.order(order);
        }
        self.orders = orders;
        self.look_at_memory();
        if self.machine.deadline().is_some_and(|at| at <= self.now) {
            self.tick();
        }
        for index in 0..self.steering.len() {
            if !self.steering[index].scheme().is_plain() {
                self.steer(GroupId::at(index));
            }
        }
        self.settle_residents();
    }

    /// Hands over everything begun, and sleeps if there is nothing else to do.
    fn rest(&mut self) -> io::Result<()> {
        let mut wake = earlier(self.machine.deadline(), self.ring.deadline());
        wake = self.steering.iter().map(Steering::next).fold(wake, earlier);
        wake = earlier(wake, self.next_look());
        let limit = wake.map(|at| at.since(self.now));
        if self.ring.has_done() || limit == Some(Duration::ZERO) {
            return self.ring.submit(self.now, &mut self.arena);
        }
        // Before this thread may be woken for what comes of it.
        self.ring.hand_over(self.now, &mut self.arena)?;
        let bell = self.submissions.bell();
        let is_over = || self.lease.as_ref().is_some_and(Leased::is_lost);
        let has_work = || self.submissions.has_work() || self.ring.has_news();
        if !bell.park(|| has_work() || self.shared.has_orders() || is_over()) {
            return self.ring.submit(self.now, &mut self.arena);
        }
        let result = self.ring.submit_and_sleep(self.now, &mut self.arena, limit);
        bell.unpark();
        result
    }

    /// Tells a group's engine which members are busy or young, and whose turn it is.
    fn steer(&mut self, group: GroupId) {
        let (now, ring) = (self.now, &mut self.ring);
        let steering = &mut self.steering[group.index()];
        if let Some(policy) = steering.keep_up(now, self.machine.engine(group), ring) {
            self.machine.set_steering(group, policy);
        }
        let young = steering.young(now, ring).map(Input::Young);
        let busy = steering.look(now, self.machine.engine(group), ring).map(Input::Busy);
        young.into_iter().chain(busy).for_each(|input| self.feed_group(group, input));
    }

    /// Tells the engines that a device is lost.
    pub(super) fn device_lost(&mut self, input: Input) {
        for group in self.machine.groups() {
            self.feed_group(group, input);
        }
    }

    /// These devices hang; all others answer.
    fn hung(&mut self, devices: &[DeviceId]) {
        for &device in devices {
            let has = |group| {
                let mut members = self.machine.engine(group).members();
                members.any(|member| member.device == Some(device))
            };
            if !self.machine.groups().any(has) {
                self.ring.give_up(&mut self.arena, device);
            }
        }
        for group in self.machine.groups() {
            let members = self.machine.engine(group).members();
            let hangs =
                members.filter(|m| m.device.is_some_and(|device| devices.contains(&device)));
            let hung = hangs.map(|m| m.member).collect();
            self.feed_group(group, Input::Hung(hung));
        }
    }

    pub(super) fn request(&mut self, tag: Tag, asked: Submit, asker: InFlight) {
        let before = self.in_flight[usize::from(tag.0)].replace(asker);
        assert!(before.is_none(), "{tag:?} is in flight twice");
        self.requests.came(self.now, tag);
        self.arena.stir();
        if self.partials.lets_pass(asked) {
            self.ask(tag, asked);
        } else {
            self.partials.came(tag, asked);
        }
        self.follow_up();
    }

    /// Passes a request of whole blocks to the machine.
    fn ask(&mut self, tag: Tag, asked: Submit) {
        let Submit { op, lba, blocks, fua, .. } = asked;
        host::step(self, array::Input::Request(Request { tag, op, lba, blocks, fua }));
    }

    /// Continues requests for parts of blocks, as far as possible.
    fn go_on(&mut self) -> bool {
        match self.partials.next(&mut self.in_flight) {
            Some(Todo::Ask(tag, asked)) => self.ask(tag, asked),
            Some(Todo::Answer(tag, result)) => self.answer_request(tag, result),
            None => return false,
        }
        true
    }

    fn tick(&mut self) {
        self.feed(array::Input::Tick);
    }

    /// The number of a new device.
    pub(super) fn new_device(&mut self) -> DeviceId {
        let device = DeviceId(self.next_device);
        self.next_device += 1;
        device
    }

    /// Passes an input to the machine, and carries out all that follows.
    pub(super) fn feed(&mut self, input: array::Input<'_>) {
        host::step(self, input);
        self.follow_up();
    }

    /// The same for an input of a group's engine.
    pub(super) fn feed_group(&mut self, group: GroupId, input: Input) {
        host::tell(self, group, input);
        self.follow_up();
    }

    fn follow_up(&mut self) {
        while host::settle(self) || (!self.partials.is_empty() && self.go_on()) {}
    }

    pub(super) fn request_ended(&mut self, tag: Tag, result: Result<(), RequestError>) {
        self.arena.let_go(tag);
        if self.partials.is_empty() || !self.partials.ended(tag, result) {
            self.answer_request(tag, result);
        }
    }

    fn answer_request(&mut self, tag: Tag, result: Result<(), RequestError>) {
        let may = self.lease.as_ref().is_none_or(Leased::lets_answer);
        let result = result.and(if may { Ok(()) } else { Err(RequestError::Io) });
        let asker = self.in_flight[usize::from(tag.0)].take();
        if let (Some(asker), Ok(())) = (&asker, result) {
            let Submit { op, blocks, .. } = asker.asked();
            self.requests.done(self.now, tag, op, blocks);
        }
        match asker {
            Some(InFlight::Submitted(submission)) => submission.complete(result),
            Some(InFlight::Resident { place, number, buffer, .. }) => {
                self.answer_resident(place, number, buffer, result);
            }
            None => unreachable!("{tag:?} was completed twice"),
        }
    }

    pub(super) fn note(&self, what: Happened) {
        let at = wall_seconds();
        lock(&self.shared.log).push(Event { at, what });
    }

    /// Ends the requests that the engine will never complete. Residents are not told: a driver notices
    /// when the ring is gone, and a client when its socket is closed.
    fn fail_requests(&mut self) {
        // Gives up all I/O, so that no device touches memory that goes back to a front end.
        let given_up = AssertUnwindSafe(|| self.ring.give_up_all(self.now, &mut self.arena));
        if catch_unwind(given_up).is_err() {
            tracing::error!("I/O could not be given up");
        }
        for asker in self.in_flight.iter_mut().filter_map(Option::take) {
            let InFlight::Submitted(submission) = asker else { continue };
            // A port that panics must not keep the others from being answered.
            let told = AssertUnwindSafe(|| submission.complete(Err(RequestError::Io)));
            if catch_unwind(told).is_err() {
                tracing::error!("a front end panicked as it was told of a completion");
            }
        }
    }
}
