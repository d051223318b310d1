//! The data thread: what has happened goes into the engine, what it says is carried out.
//!
//! Invariants:
//! - A tag is in `in_flight` from before the engine hears of its request until the engine completes
//!   it.
//! - Residents go after the ring: no command outlives the memory that it names.
//! - All actions of a step are begun before the next step; arithmetic is carried out when it is
//!   asked for, and reported after the last action of that step.
//! - The thread sleeps only when there is nothing to take in, and everything begun is with the
//!   kernel.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::{Duration, SystemTime};

use det::Instant;
use raidcore::engine::{
    Action, Command, CommandError, Engine, Input, Io, IoOp, JobId, Note, Request, RequestError,
};
use raidcore::meta::{Assembled, DeviceUuid, checksum};
use raidcore::parity::Kernels;
use raidcore::plan::Found;
use raidcore::units::{BLOCK_BYTES, DeviceId, Set, Tag};

use super::handle::{End, HostError, Order, Reply, Shared, lock, reply};
use super::metrics::Metrics;
use super::steer::Steering;
use super::{Event, HostConfig};
use crate::arena::{Arena, ENTRY_BLOCKS};
use crate::compute;
use crate::members::Device;
use crate::resident::{Came, Resident};
use crate::ring::{Completed, Place, Ring, RingConfig, Source};
use crate::thread::{become_io_flusher, mask_signals};
use crate::volume::{Buffer, Submission, Submissions, Submit};

/// What the data thread begins with.
pub(super) struct Setup {
    pub(super) config: HostConfig,
    pub(super) assembled: Assembled,
    pub(super) devices: Vec<Option<Device>>,
    pub(super) submissions: Submissions,
    pub(super) shared: Arc<Shared>,
}

/// The data thread from its start, of which it tells `ready`, to its end.
pub(super) fn serve(setup: Setup, ready: SyncSender<io::Result<()>>) {
    become_io_flusher();
    mask_signals();
    let shared = Arc::clone(&setup.shared);
    let array = setup.assembled.record.name.clone();
    let mut data = match Data::new(setup) {
        Ok(data) => data,
        Err(error) => {
            shared.close(End::Died);
            // Whoever waits for it is there: it is what spawned us.
            let _ = ready.send(Err(error));
            return;
        }
    };
    let _ = ready.send(Ok(()));
    let end = match catch_unwind(AssertUnwindSafe(|| data.run())) {
        Ok(Ok(result)) => End::Stopped(result),
        Ok(Err(error)) => {
            tracing::error!(array, %error, "the kernel no longer takes I/O; the array is down");
            End::Died
        }
        Err(_) => {
            tracing::error!(array, "the data thread panicked; the array is down");
            End::Died
        }
    };
    if matches!(end, End::Died) {
        data.fail_requests();
    }
    let waiting = std::mem::take(&mut data.waiting);
    drop(data);
    shared.close(end);
    for answer in waiting {
        reply(answer, end.answer());
    }
}

/// A request that the engine has, and who is told when it has ended.
enum InFlight {
    /// A front end on a thread of its own.
    Submitted(Submission),
    /// One on this thread, which knows it by a command's number.
    Resident { place: Place, number: u16, buffer: Buffer },
}

/// Who waits for the engine's answer to a command.
enum Asker {
    Command(Reply<()>),
    Add(DeviceId, Reply<DeviceId>),
    Stop,
}

struct Data {
    engine: Engine,
    kernels: &'static Kernels,
    // The ring goes before the memory that it may use, the residents' among it.
    ring: Ring,
    /// By [`Place`].
    residents: Vec<Option<Box<dyn Resident>>>,
    arena: Arena,
    submissions: Submissions,
    shared: Arc<Shared>,
    now: Instant,
    /// By tag.
    in_flight: Vec<Option<InFlight>>,
    /// Scratch space.
    actions: Vec<Action>,
    orders: Vec<Order>,
    found: Vec<Found>,
    /// Arithmetic that was carried out in this step.
    computed: VecDeque<JobId>,
    /// Who is to be answered, by the command's number.
    askers: BTreeMap<u64, Asker>,
    next_number: u64,
    next_device: u32,
    steering: Steering,
    stopping: bool,
    /// The engine has stopped.
    stopped: Option<Result<(), CommandError>>,
    /// Who waits for the end.
    waiting: Vec<Reply<()>>,
}

impl Data {
    fn new(setup: Setup) -> io::Result<Self> {
        let Setup { config, assembled, devices, submissions, shared } = setup;
        let numbered = (0u32..).map(DeviceId).zip(devices);
        let devices: Vec<_> = numbered.map(|(id, d)| d.map(|d| (id, d))).collect();
        let ids: Vec<_> = devices.iter().map(|d| d.as_ref().map(|d| d.0)).collect();
        let now = now();
        let engine = Engine::new(config.engine, assembled, &ids, now, wall_seconds());
        let mut arena = Arena::new(
            submissions.payload_memory(),
            engine.scratch_buffers(),
            engine.geometry().chunk(),
        )?;
        let ring_config = RingConfig {
            entries: config.ring_entries,
            io_timeout: config.io_timeout,
            register_memory: config.register_memory,
        };
        let mut ring = Ring::new(ring_config, &mut arena, submissions.bell().fd())?;
        for (id, device) in devices.into_iter().flatten() {
            ring.open(now, id, device)?;
        }
        let steering = Steering::new(config.scheme, config.signals);
        Ok(Self {
            engine,
            kernels: Kernels::best(),
            ring,
            residents: Vec::new(),
            arena,
            in_flight: (0..submissions.config().tags).map(|_| None).collect(),
            submissions,
            shared,
            now,
            actions: Vec::new(),
            orders: Vec::new(),
            found: Vec::new(),
            computed: VecDeque::new(),
            askers: BTreeMap::new(),
            next_number: 0,
            next_device: ids.len() as u32,
            steering,
            stopping: false,
            stopped: None,
            waiting: Vec::new(),
        })
    }

    /// Serves until the array is stopped; returns what came of recording that.
    fn run(&mut self) -> io::Result<Result<(), CommandError>> {
        self.feed(Input::Tick);
        loop {
            self.take_in();
            if let Some(result) = self.stopped
                && self.ring.outstanding() == 0
            {
                // What residents have just answered is with the kernel before the ring goes.
                self.ring.submit()?;
                self.ring.close_all();
                return Ok(result);
            }
            self.rest()?;
        }
    }

    /// Takes in all that has happened.
    fn take_in(&mut self) {
        self.now = now();
        self.ring.reap(self.now, &mut self.arena);
        if let Some(devices) = self.ring.next_hung() {
            self.hung(&devices);
        }
        while let Some((id, result)) = self.ring.next_done() {
            self.steering.ended(self.now, id, result.is_ok());
            self.feed(Input::IoDone { id, result });
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
        if self.engine.deadline().is_some_and(|(at, _)| at <= self.now) {
            self.feed(Input::Tick);
        }
        if let Some(busy) = self.steering.look(self.now, &mut self.engine, &mut self.ring) {
            self.feed(busy);
        }
    }

    /// Hands over what was begun, and sleeps if there is nothing else to do.
    fn rest(&mut self) -> io::Result<()> {
        let wake = self.engine.deadline().map(|(at, _)| at);
        let wake = wake.into_iter().chain(self.ring.deadline()).chain(self.steering.next()).min();
        let limit = wake.map(|at| at.since(self.now));
        if self.ring.has_done() || limit == Some(Duration::ZERO) {
            return self.ring.submit();
        }
        let bell = self.submissions.bell();
        if !bell.park(|| self.submissions.has_work() || self.shared.has_orders()) {
            return self.ring.submit();
        }
        let result = self.ring.submit_and_sleep(limit);
        bell.unpark();
        result
    }

    /// These devices do not answer any more, all others do.
    fn hung(&mut self, devices: &[DeviceId]) {
        let mut hung = Set::EMPTY;
        for &device in devices {
            match self.engine.members().find(|m| m.device == Some(device)) {
                Some(member) => hung = hung.with(member.member.index()),
                None => self.ring.give_up(&mut self.arena, device),
            }
        }
        self.feed(Input::Hung(hung));
    }

    fn request(&mut self, tag: Tag, asked: Submit, asker: InFlight) {
        let before = self.in_flight[usize::from(tag.0)].replace(asker);
        assert!(before.is_none(), "{tag:?} is in flight twice");
        self.feed(Input::Request(Request {
            tag,
            op: asked.op,
            lba: asked.lba,
            blocks: asked.blocks,
            fua: asked.fua,
        }));
    }

    /// Lets a front end live on this thread. Answered when the kernel has its first commands.
    fn admit(&mut self, mut resident: Box<dyn Resident>, answer: Reply<()>) {
        let free = self.residents.iter().position(Option::is_none);
        let at = free.unwrap_or_else(|| {
            self.residents.push(None);
            self.residents.len() - 1
        });
        for command in resident.begin() {
            self.ring.command(Place(at as u16), command);
        }
        self.residents[at] = Some(resident);
        // A kernel that refuses it refuses what follows, too: this thread is about to end.
        reply(answer, self.ring.submit().map_err(|_| HostError::Died));
    }

    fn command_completed(&mut self, Completed { place, number, result }: Completed) {
        let at = usize::from(place.0);
        let Some(resident) = &mut self.residents[at] else {
            unreachable!("a resident stays until its last command has completed");
        };
        match resident.came(number, result) {
            Came::Request(asked, buffer)
                if asked.fits(self.submissions.config().max_request_blocks) =>
            {
                let tag = buffer.tag();
                self.request(tag, asked, InFlight::Resident { place, number, buffer });
            }
            Came::Request(_, buffer) => {
                self.answer_resident(place, number, buffer, Err(RequestError::OutOfRange));
            }
            Came::Again(command) => self.ring.command(place, command),
            Came::Nothing => self.let_go_if_ended(at),
        }
    }

    fn answer_resident(
        &mut self,
        place: Place,
        number: u16,
        buffer: Buffer,
        result: Result<(), RequestError>,
    ) {
        let at = usize::from(place.0);
        let Some(resident) = &mut self.residents[at] else {
            unreachable!("a resident stays while it has a request");
        };
        match resident.answered(number, buffer, result) {
            Some(command) => self.ring.command(place, command),
            None => self.let_go_if_ended(at),
        }
    }

    fn let_go_if_ended(&mut self, at: usize) {
        self.residents[at].take_if(|resident| resident.has_ended());
    }

    fn order(&mut self, order: Order) {
        match order {
            Order::Command(command, answer) => self.command(command, Asker::Command(answer)),
            Order::Status(answer) => reply(answer, Ok(self.engine.status())),
            Order::Flash(answer) => reply(answer, Ok(self.ring.flash_reports(self.now))),
            Order::FlashLog { device, since, answer } => {
                reply(answer, Ok(self.ring.flash_log(self.now, device, since)));
            }
            Order::SetScheme(scheme, answer) => {
                self.steering.set(self.now, scheme, &mut self.engine, &mut self.ring);
                self.feed(Input::Busy(Set::EMPTY));
                reply(answer, Ok(()));
            }
            Order::Scheme(answer) => reply(answer, Ok(self.steering.scheme())),
            Order::Why(answer) => {
                reply(answer, Ok(self.steering.why(self.now, wall_seconds(), &self.engine)));
            }
            Order::Metrics(answer) => {
                let metrics = Metrics::new(self.now, &self.engine, &self.steering, &mut self.ring);
                reply(answer, Ok(metrics));
            }
            Order::Add { device, uuid, answer } => self.add(device, uuid, answer),
            Order::Gone(device) => self.feed(Input::DeviceGone(device)),
            Order::Admit(resident, answer) => self.admit(resident, answer),
            Order::Join(answer) => self.waiting.push(answer),
            Order::Stop(answer) => {
                self.waiting.extend(answer);
                if !std::mem::replace(&mut self.stopping, true) {
                    self.command(Command::Stop, Asker::Stop);
                }
            }
        }
    }

    fn command(&mut self, command: Command, asker: Asker) {
        let number = self.next_number;
        self.next_number += 1;
        self.askers.insert(number, asker);
        self.feed(Input::Command { number, command });
    }

    fn add(&mut self, opened: Device, uuid: DeviceUuid, answer: Reply<DeviceId>) {
        let device = DeviceId(self.next_device);
        self.next_device += 1;
        let (blocks, path) = (opened.blocks(), opened.path().to_path_buf());
        if let Err(error) = self.ring.open(self.now, device, opened) {
            reply(answer, Err(HostError::Device(error)));
            return;
        }
        self.shared.name_device(device, path);
        let command = Command::AddSpare { device, uuid, blocks };
        self.command(command, Asker::Add(device, answer));
    }

    fn answer(&mut self, number: u64, result: Result<(), CommandError>) {
        match self.askers.remove(&number) {
            Some(Asker::Command(answer)) => reply(answer, result.map_err(HostError::from)),
            Some(Asker::Add(device, answer)) => {
                if result.is_err() {
                    self.ring.close(&mut self.arena, device);
                }
                reply(answer, result.map(|()| device).map_err(HostError::from));
            }
            Some(Asker::Stop) => self.stopped = Some(result),
            None => unreachable!("command {number} was answered twice"),
        }
    }

    /// Tells the engine, and carries out what it says until it says nothing more.
    fn feed(&mut self, input: Input) {
        self.step(input);
        while let Some(job) = self.computed.pop_front() {
            self.step(Input::Computed(job));
        }
    }

    fn step(&mut self, input: Input) {
        let mut actions = std::mem::take(&mut self.actions);
        self.engine.step(self.now, input, &mut actions);
        if cfg!(debug_assertions) {
            self.engine.check();
        }
        for action in actions.drain(..) {
            self.carry_out(action);
        }
        self.actions = actions;
    }

    fn carry_out(&mut self, action: Action) {
        match action {
            Action::Io(io) => {
                self.steering.began(self.now, &io);
                self.begin(io);
            }
            Action::Compute(job) => self.compute(job),
            Action::Complete { tag, result } => self.complete(tag, result),
            Action::Answer { number, result } => self.answer(number, result),
            Action::Note(note) => self.note(note),
            Action::Release(device) => self.ring.close(&mut self.arena, device),
        }
    }

    fn begin(&mut self, io: Io) {
        let (now, who, range) = (self.now, (io.id, io.device), (io.at, io.blocks));
        let (ring, arena) = (&mut self.ring, &mut self.arena);
        match io.op {
            IoOp::Read(to) => ring.read(now, arena, who, to, range),
            IoOp::Write { from, fua } => {
                ring.write(now, arena, who, Source::Mem(from), fua, range);
            }
            IoOp::Store(page) => {
                let pages = arena.take_pages(1);
                arena.fill_pages(pages, 1, |_, into| {
                    self.engine.encode(page, io.device, into);
                });
                ring.write(now, arena, who, Source::Pages(pages), true, range);
            }
            IoOp::Journal => self.journal(io),
            IoOp::Flush => ring.flush(now, arena, who),
            IoOp::Discard => ring.discard(now, arena, who, range),
        }
    }

    /// Begins to write an entry of the journal: in one piece if it is small, since copying a few
    /// blocks into registered memory takes less than the kernel takes to find scattered ones.
    fn journal(&mut self, io: Io) {
        let header = self.engine.journal_header_blocks(io.id);
        let mut blocks = header;
        self.engine.journal_payload(io.id, |_, payload| blocks += payload);
        let copied = blocks <= ENTRY_BLOCKS;
        let taken = if copied { blocks } else { header };
        let (engine, arena) = (&self.engine, &mut self.arena);
        let pages = arena.take_pages(taken);
        arena.fill_pages(pages, taken, |arena, into| {
            let (head, mut rest) = into.split_at_mut(header as usize * BLOCK_BYTES);
            // A ring that was dropped meanwhile has no header to encode: what the pages held before
            // must not be taken for one.
            head.fill(0);
            engine.encode_journal(io.id, |mem| checksum(arena.blocks(mem, 1)), head);
            if copied {
                engine.journal_payload(io.id, |mem, blocks| {
                    let from = arena.blocks(mem, blocks);
                    let (to, after) = std::mem::take(&mut rest).split_at_mut(from.len());
                    to.copy_from_slice(from);
                    rest = after;
                });
            }
        });
        let (now, who) = (self.now, (io.id, io.device));
        if copied {
            self.ring.write(now, arena, who, Source::Pages(pages), true, (io.at, blocks));
        } else {
            self.ring.gather(now, arena, who, (pages, header), io.at, |visit| {
                engine.journal_payload(io.id, visit);
            });
        }
    }

    fn compute(&mut self, job: JobId) {
        let mut found = std::mem::take(&mut self.found);
        self.engine.steps(job, |step, blocks| {
            found.extend(compute::run(self.kernels, &mut self.arena, step, blocks));
        });
        found.drain(..).for_each(|found| self.engine.found(job, found));
        self.found = found;
        self.computed.push_back(job);
    }

    fn complete(&mut self, tag: Tag, result: Result<(), RequestError>) {
        match self.in_flight[usize::from(tag.0)].take() {
            Some(InFlight::Submitted(submission)) => submission.complete(result),
            Some(InFlight::Resident { place, number, buffer }) => {
                self.answer_resident(place, number, buffer, result);
            }
            None => unreachable!("{tag:?} was completed twice"),
        }
    }

    fn note(&self, note: Note) {
        let at = wall_seconds();
        lock(&self.shared.log).push(Event { at, note });
    }

    /// Ends the requests that the engine will never complete. Those of residents stay with whoever
    /// they serve, who notices when the ring is gone.
    fn fail_requests(&mut self) {
        // Gives up all I/O, so that no device touches memory that a front end gets back.
        let given_up = AssertUnwindSafe(|| self.ring.give_up_all(self.now, &mut self.arena));
        if catch_unwind(given_up).is_err() {
            tracing::error!("I/O could not be given up");
        }
        for asker in self.in_flight.iter_mut().filter_map(Option::take) {
            let InFlight::Submitted(submission) = asker else { continue };
            // A port that panics must not keep the others from hearing.
            let told = AssertUnwindSafe(|| submission.complete(Err(RequestError::Io)));
            if catch_unwind(told).is_err() {
                tracing::error!("a front end panicked as it was told of a completion");
            }
        }
    }
}

/// The system's monotonic clock, which others can read as well.
fn now() -> Instant {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let time = Duration::try_from(time).expect("the monotonic clock began at zero");
    Instant::ORIGIN + time
}

/// The time in seconds since 1970.
fn wall_seconds() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
