//! The thread that takes a lease, renews it and gives it up.
//!
//! Invariants:
//! - A member is asked for one thing at a time, and answers of a device that has left are dropped.
//! - Whatever ends the agent, the gate is closed before, unless the array has no lease any more.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use det::Instant;
use raidcore::lease::{Answer, Ask, Candidate, Keeper, Taker, Wait};
use raidcore::meta::{ArrayId, Holder, HostName, Term};
use raidcore::units::{DeviceId, MEMBERS_MAX, MemberId, Set};
use tokio::sync::watch;

use super::clock::boot_time;
use super::file::LeaseFile;
use super::message::{Ending, Message, Serve};
use super::permit::{LeaseLost, LeaseView, Permit, Shared};
use super::worker::Worker;
use crate::thread::{become_io_flusher, mask_signals};

/// The longest sleep of the agent.
const REST: Duration = Duration::from_secs(60);

/// How far a lease is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Progress {
    /// Something is waited for.
    Waits(Wait),
    /// It is held, and this host had it before, if one had.
    Held(Option<HostName>),
    /// The agent has ended.
    Ended,
}

/// What the array's threads have of its lease.
#[derive(Clone)]
pub(crate) struct Leash {
    to: Sender<Message>,
    pub(crate) permit: Permit,
    thread: Arc<Mutex<Option<JoinHandle<()>>>>,
    /// Whether the next process of this host is to go on with it.
    kept: Arc<AtomicBool>,
}

impl std::fmt::Debug for Leash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Leash").field(&self.permit).finish()
    }
}

impl Leash {
    /// The record tells that other members serve.
    pub(crate) fn serve(&self, serve: Serve) {
        self.tell(Message::Serve(serve));
    }

    /// The array has no lease any more, which is on record.
    pub(crate) fn free(&self) {
        self.tell(Message::Free);
    }

    /// Whether the next process of this host is to go on with the lease after a stop.
    pub(crate) fn keep(&self, kept: bool) {
        self.kept.store(kept, Ordering::Relaxed);
    }

    /// How it is to end after a stop.
    pub(crate) fn after_stop(&self) -> Ending {
        if self.kept.load(Ordering::Relaxed) { Ending::Leave } else { Ending::GiveUp }
    }

    /// Ends it, and waits for that.
    pub(crate) fn end(&self, how: Ending) {
        self.tell(Message::End(how));
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if thread.is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the lease's agent has panicked");
        }
    }

    fn tell(&self, message: Message) {
        // An agent that has ended needs to know nothing.
        let _ = self.to.send(message);
    }
}

/// A lease that is being taken or is held. Dropped, it is given up, unless an array has used it.
#[derive(Debug)]
pub(crate) struct Agent {
    leash: Leash,
    pub(super) progress: watch::Receiver<Progress>,
    is_used: bool,
}

impl Agent {
    /// Begins to take an array's lease. `files` are those of the members that are there, whose devices have
    /// their places as numbers.
    ///
    /// # Errors
    /// If there is no thread or no memory.
    pub(super) fn start(
        array: ArrayId,
        candidate: Candidate,
        files: Vec<(MemberId, LeaseFile)>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let (to, inbox) = channel();
        let taker = Box::new(Taker::new(boot_time(), candidate));
        let (tells, progress) = watch::channel(Progress::Waits(taker.waits_for()));
        let mut run = Run {
            array,
            me: candidate.me,
            fenced: candidate.fenced,
            before: None,
            machine: Machine::Takes(taker),
            shared: Arc::clone(&shared),
            workers: (0..MEMBERS_MAX).map(|_| None).collect(),
            next: 0,
            inbox,
            outbox: to.clone(),
            tells,
            ending: None,
            is_free: false,
        };
        for (member, file) in files {
            run.open(member, DeviceId(member.index() as u32), Some(file))?;
        }
        let thread = std::thread::Builder::new().name("lease".to_owned());
        let thread = thread.spawn(move || {
            become_io_flusher();
            mask_signals();
            run.run();
        })?;
        let thread = Arc::new(Mutex::new(Some(thread)));
        let leash =
            Leash { to, permit: Permit(shared), thread, kept: Arc::new(AtomicBool::new(false)) };
        Ok(Self { leash, progress, is_used: false })
    }

    /// For the array's threads, which end it from now on.
    pub(crate) fn leash(&mut self) -> Leash {
        self.is_used = true;
        self.leash.clone()
    }

    pub(crate) fn permit(&self) -> &Permit {
        &self.leash.permit
    }

    /// As [`Leash::free`].
    pub(crate) fn free(&self) {
        self.leash.free();
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.leash.end(if self.is_used { Ending::Leave } else { Ending::GiveUp });
    }
}

/// What decides.
#[derive(Debug)]
enum Machine {
    Takes(Box<Taker>),
    Holds(Box<Keeper>),
}

/// The agent's thread.
struct Run {
    array: ArrayId,
    me: Holder,
    /// No other host runs the array, as the operator says.
    fenced: bool,
    before: Option<HostName>,
    machine: Machine,
    shared: Arc<Shared>,
    /// By member, with the device that each is for.
    workers: Vec<Option<(DeviceId, Option<Worker>)>>,
    next: u64,
    inbox: Receiver<Message>,
    outbox: Sender<Message>,
    tells: watch::Sender<Progress>,
    ending: Option<Ending>,
    is_free: bool,
}

impl Run {
    fn run(mut self) {
        loop {
            let now = boot_time();
            self.advance(now);
            if self.is_over(now) {
                break;
            }
            let rest = self.deadline().map_or(REST, |at| at.since(now).min(REST));
            match self.inbox.recv_timeout(rest) {
                Ok(message) => self.hear(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if !self.is_free {
            self.shared.gate.close();
        }
        self.tells.send_replace(Progress::Ended);
    }

    /// Does what is to be done now.
    fn advance(&mut self, now: Instant) {
        match &mut self.machine {
            Machine::Takes(taker) => {
                taker.tick(now);
                if let Some((keeper, before)) = taker.held() {
                    self.before = before.map(|holder| holder.name);
                    self.machine = Machine::Holds(Box::new(keeper));
                    self.renewed(now);
                    self.tells.send_replace(Progress::Held(self.before));
                    return self.advance(now);
                }
                let progress = Progress::Waits(taker.waits_for());
                self.tells.send_if_modified(|told| std::mem::replace(told, progress) != progress);
            }
            Machine::Holds(keeper) => {
                keeper.tick(now);
                self.renewed(now);
            }
        }
        while let Some(ask) = self.next_ask() {
            let (Ask::Read(member) | Ask::Write(member, _)) = ask;
            match &self.workers[member.index()] {
                Some((_, Some(worker))) => worker.ask(ask),
                Some((_, None)) | None => self.answered(boot_time(), member, Answer::Failed),
            }
        }
    }

    /// The gate is as the keeper says, and so is what is shown.
    fn renewed(&mut self, now: Instant) {
        let Machine::Holds(keeper) = &self.machine else { return };
        // What the agent itself has decided is for good.
        if self.is_free || self.permit_lost() {
            return;
        }
        let term: Term = keeper.term();
        self.shared.show(Some(LeaseView {
            holder: self.me,
            term,
            generation: keeper.generation(),
            renewed: keeper.renewed(),
            voters: keeper.voters(),
            silent: keeper.silent(now, term.renews()),
            before: self.before,
        }));
        match keeper.lost() {
            Some(why) => self.shared.lost(why, term),
            None => self.shared.gate.open(keeper.until()),
        }
    }

    fn next_ask(&mut self) -> Option<Ask> {
        match &mut self.machine {
            Machine::Takes(taker) => taker.next_ask(),
            Machine::Holds(keeper) => keeper.next_ask(),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match &self.machine {
            Machine::Takes(taker) => taker.deadline(),
            Machine::Holds(keeper) => keeper.deadline(),
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        match (&self.machine, self.ending) {
            (_, Some(Ending::Leave)) | (Machine::Takes(_), Some(Ending::GiveUp)) => true,
            (Machine::Takes(_), None) => false,
            (Machine::Holds(keeper), ending) => {
                let given_up = ending.is_some() || self.is_free;
                keeper.lost().is_some() || self.permit_lost() || given_up && keeper.is_given_up(now)
            }
        }
    }

    fn permit_lost(&self) -> bool {
        Permit(Arc::clone(&self.shared)).lost().is_some()
    }

    fn hear(&mut self, message: Message) {
        let now = boot_time();
        match message {
            Message::Answered { member, number, answer } => {
                let worker = self.workers[member.index()].as_ref();
                let is_its = worker
                    .and_then(|(_, worker)| worker.as_ref())
                    .is_some_and(|worker| worker.number == number);
                if is_its {
                    self.answered(now, member, answer);
                }
            }
            Message::Serve(serve) => self.serve(now, serve),
            Message::Free => self.free(now),
            Message::End(how) => {
                self.ending = Some(how);
                if how == Ending::GiveUp {
                    self.give_up(now);
                }
            }
        }
    }

    fn answered(&mut self, now: Instant, member: MemberId, answer: Answer) {
        match &mut self.machine {
            Machine::Takes(taker) => taker.answered(now, member, answer),
            Machine::Holds(keeper) => keeper.answered(now, member, answer),
        }
    }

    /// The array has no lease any more, if it still has it.
    fn free(&mut self, now: Instant) {
        if self.permit_lost() {
            return;
        }
        let Machine::Holds(keeper) = &mut self.machine else { return };
        keeper.tick(now);
        keeper.give_up(now);
        if keeper.lost().is_some() {
            return self.renewed(now);
        }
        // The gate is never closed meanwhile: the array serves.
        self.is_free = true;
        self.shared.gate.open(Instant(u64::MAX));
        self.shared.show(None);
    }

    /// The gate closes with it.
    fn give_up(&mut self, now: Instant) {
        if let Machine::Holds(keeper) = &mut self.machine {
            keeper.tick(now);
            keeper.give_up(now);
            self.renewed(now);
        }
    }

    /// Other members serve, which the lease's blocks have to tell soon.
    fn serve(&mut self, now: Instant, Serve { at, events, members }: Serve) {
        let Machine::Holds(keeper) = &self.machine else { return };
        if self.is_free {
            return;
        }
        if now.since(at) > keeper.term().learns() {
            return self.shared.lose(LeaseLost::Slow);
        }
        let (mut serve, mut fresh): (Set<MemberId>, Set<MemberId>) = (Set::EMPTY, Set::EMPTY);
        for (member, device, file) in members {
            serve = serve.with(member);
            let known = self.workers[member.index()].as_ref().map(|(device, _)| *device);
            if let Some(device) = device.filter(|device| known != Some(*device)) {
                fresh = fresh.with(member);
                if let Err(error) = self.open(member, device, file) {
                    tracing::error!(member = member.0, %error, "the lease can't be renewed there");
                }
            }
        }
        // Else a device that has left would stay locked.
        let gone = self.workers.iter_mut().zip((0..).map(MemberId::at));
        gone.filter(|(_, member)| !serve.has(*member)).for_each(|(worker, _)| *worker = None);
        if let Machine::Holds(keeper) = &mut self.machine {
            keeper.set_members(now, serve, fresh, events);
        }
    }

    /// A device is the member from now on.
    fn open(
        &mut self,
        member: MemberId,
        device: DeviceId,
        file: Option<LeaseFile>,
    ) -> io::Result<()> {
        self.next += 1;
        self.workers[member.index()] = Some((device, None));
        if let Some(file) = file {
            let (of, file) = ((member, self.next), (file, self.fenced));
            let worker = Worker::start(self.array, of, file, self.outbox.clone())?;
            self.workers[member.index()] = Some((device, Some(worker)));
        }
        Ok(())
    }
}
