//! The cache and the engine below it as one machine.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use det::Instant;
use raidcore::engine::{self, Command, CommandError, Engine, Op, Request, RequestError};
use raidcore::units::{Mem, Tag};

use super::WriteCache;
use super::api::{Action, CacheConfig};
use crate::array::{self, STOP};
use crate::machine::{ONLY, Pool};

/// A command that tells whether writes are held, on its way.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// All that is held comes home first, unless a trip fails after so many that have failed before.
    Leaving { number: u64, failed: u64 },
    /// The engine puts it on record.
    Recording { number: u64, holds: bool },
}

/// An array behind a write cache in memory. Writes are held if its record says so when it is started, and as
/// [`Command::SetVolatile`] says from then on: after that is on record, or until it is.
pub struct CachedArray {
    cache: WriteCache,
    engine: Engine,
    /// Requests to the engine that have ended.
    ended: VecDeque<(Tag, Result<(), RequestError>)>,
    /// The number of the command that stops it, until the engine has it.
    stop: Option<u64>,
    /// The same of one that could not bring everything home.
    lost: Option<u64>,
    change: Option<Change>,
    /// Scratch space.
    above: Vec<Action>,
    below: Vec<engine::Action>,
}

impl CachedArray {
    /// The cache above an engine, which was configured by [`CachedArray::engine_config`].
    #[must_use]
    pub fn new(config: CacheConfig, engine: Engine, order: Option<Box<dyn engine::Hold>>) -> Self {
        let first = engine.scratch_buffers();
        let mut cache = WriteCache::new(config, engine.geometry(), first, order);
        cache.set_holds(engine.volatile().held);
        Self {
            cache,
            engine,
            ended: VecDeque::new(),
            stop: None,
            lost: None,
            change: None,
            above: Vec::new(),
            below: Vec::new(),
        }
    }

    /// The configuration of an engine below a cache.
    #[must_use]
    pub fn engine_config(config: &CacheConfig, engine: engine::Config) -> engine::Config {
        engine::Config { tags: config.tags + config.own_tags, ..engine }
    }

    /// The cache.
    #[must_use]
    pub fn cache(&self) -> &WriteCache {
        &self.cache
    }

    /// The engine, to look at and to encode its writes.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Processes an input at `now`; appends to `out` the actions to be begun, in this order, before
    /// the next call.
    ///
    /// # Panics
    /// If it gets the answer to a look, for which it never asks.
    pub fn step(&mut self, now: Instant, input: array::Input<'_>, out: &mut Vec<array::Action>) {
        match input {
            array::Input::Request(request) => self.request(now, request, out),
            array::Input::Array { input, .. } => self.tell(now, input, out),
            array::Input::Stop => self.stop(now, STOP, out),
            array::Input::Tick => self.tell(now, engine::Input::Tick, out),
            array::Input::Seen { .. } => panic!("a cache looks at nothing"),
        }
    }

    /// The same for an input of the engine.
    pub(crate) fn tell(
        &mut self,
        now: Instant,
        input: engine::Input,
        out: &mut Vec<array::Action>,
    ) {
        match input {
            engine::Input::Request(request) => return self.request(now, request, out),
            engine::Input::Command { number, command: Command::Stop } => {
                return self.stop(now, number, out);
            }
            engine::Input::Command { number, command: Command::SetVolatile(holds) } => {
                return self.set_volatile(now, number, holds, out);
            }
            engine::Input::Command { command: Command::BringHome, .. } => {
                self.with_cache(now, out, |cache, takes, above| {
                    cache.bring_home(now, takes, above)
                });
            }
            engine::Input::Tick => {
                self.with_cache(now, out, |cache, takes, above| cache.tick(now, takes, above));
            }
            engine::Input::IoDone { .. }
            | engine::Input::Computed(_)
            | engine::Input::DeviceGone(_)
            | engine::Input::DeviceShrunk(_)
            | engine::Input::Hung(_)
            | engine::Input::Busy(_)
            | engine::Input::Young(_)
            | engine::Input::Command { .. } => {}
        }
        self.pass(now, input, out);
        self.settle(now, out);
    }

    /// When it wants a tick.
    #[must_use]
    pub fn deadline(&self) -> Option<Instant> {
        let engine = self.engine.deadline().map(|(at, _)| at);
        engine.into_iter().chain(self.cache.deadline()).min()
    }

    fn request(&mut self, now: Instant, request: Request, out: &mut Vec<array::Action>) {
        let end = request.lba.0.checked_add(u64::from(request.blocks));
        let within = end.is_some_and(|end| end <= self.engine.capacity());
        let bad = request.op != Op::Flush && !within;
        if bad && self.stop.is_none() {
            // The engine says what is wrong.
            self.pass(now, engine::Input::Request(request), out);
        } else {
            self.with_cache(now, out, |cache, takes, above| {
                cache.request(now, request, takes, above);
            });
        }
        self.settle(now, out);
    }

    fn set_volatile(
        &mut self,
        now: Instant,
        number: u64,
        holds: bool,
        out: &mut Vec<array::Action>,
    ) {
        let refused = match (self.stop, self.change) {
            (Some(_), _) => Some(CommandError::Stopping),
            (None, Some(_)) => Some(CommandError::UnderWay),
            (None, None) => None,
        };
        if let Some(error) = refused {
            out.push(answer(number, Err(error)));
        } else if holds || !self.engine.is_serving() {
            self.record(now, number, holds, out);
        } else {
            self.cache.set_holds(false);
            let failed = self.cache.failed_trips();
            self.change = Some(Change::Leaving { number, failed });
            self.with_cache(now, out, |cache, takes, above| cache.bring_home(now, takes, above));
        }
        self.settle(now, out);
    }

    fn record(&mut self, now: Instant, number: u64, holds: bool, out: &mut Vec<array::Action>) {
        self.change = Some(Change::Recording { number, holds });
        let command = Command::SetVolatile(holds);
        self.pass(now, engine::Input::Command { number, command }, out);
    }

    /// Goes on with leaving the cache.
    fn leave(&mut self, now: Instant, out: &mut Vec<array::Action>) {
        let Some(Change::Leaving { number, failed }) = self.change else { return };
        if self.cache.is_empty() {
            self.record(now, number, false, out);
        } else if self.cache.failed_trips() > failed || !self.engine.takes_writes() {
            self.change = None;
            self.cache.set_holds(true);
            out.push(answer(number, Err(CommandError::NotHome)));
        }
    }

    /// Stops the engine once everything is at home.
    fn stop(&mut self, now: Instant, number: u64, out: &mut Vec<array::Action>) {
        self.stop = Some(number);
        if let Some(Change::Leaving { number, .. }) = self.change {
            self.change = None;
            out.push(answer(number, Err(CommandError::Stopping)));
        }
        self.with_cache(now, out, |cache, takes, above| cache.stop(now, takes, above));
        self.settle(now, out);
    }

    /// Tells the cache something, and whether the array takes writes, and carries out its actions.
    fn with_cache(
        &mut self,
        now: Instant,
        out: &mut Vec<array::Action>,
        tell: impl FnOnce(&mut WriteCache, bool, &mut Vec<Action>),
    ) {
        let mut above = core::mem::take(&mut self.above);
        tell(&mut self.cache, self.engine.takes_writes(), &mut above);
        for action in above.drain(..) {
            match action {
                Action::Ask(request) => {
                    self.pass(now, engine::Input::Request(request), out);
                }
                Action::Copy { from, to, blocks } => {
                    out.push(array::Action::Copy { from, to, blocks });
                }
                Action::Complete { tag, result } => {
                    out.push(array::Action::Complete { tag, result });
                }
            }
        }
        self.above = above;
    }

    /// Passes an input to the engine.
    fn pass(&mut self, now: Instant, input: engine::Input, out: &mut Vec<array::Action>) {
        self.engine.step(now, input, &mut self.below);
        for action in self.below.drain(..) {
            match action {
                engine::Action::Complete { tag, result } => self.ended.push_back((tag, result)),
                engine::Action::Io(mut io) => {
                    if let engine::IoOp::Read(mem) | engine::IoOp::Write { from: mem, .. } =
                        &mut io.op
                    {
                        *mem = self.cache.place(*mem);
                    }
                    let action = engine::Action::Io(io);
                    out.push(array::Action::Array { group: ONLY, action });
                }
                engine::Action::Answer { number, result } => {
                    let is_lost = self.lost == Some(number) && result.is_ok();
                    let result = if is_lost { Err(CommandError::NotHome) } else { result };
                    if let Some(Change::Recording { number: change, holds }) = self.change
                        && change == number
                    {
                        self.change = None;
                        if result.is_ok() {
                            self.cache.set_holds(holds);
                        }
                    }
                    out.push(answer(number, result));
                }
                action @ (engine::Action::Compute(_)
                | engine::Action::Note(_)
                | engine::Action::Release(_)) => {
                    out.push(array::Action::Array { group: ONLY, action });
                }
            }
        }
    }

    /// Tells the cache what has ended, until nothing is left.
    fn settle(&mut self, now: Instant, out: &mut Vec<array::Action>) {
        while let Some((tag, result)) = self.ended.pop_front() {
            self.with_cache(now, out, |cache, takes, above| {
                cache.ended(now, tag, result, takes, above);
            });
        }
        self.leave(now, out);
        let Some(number) = self.stop else { return };
        if !self.cache.is_at_rest() {
            if !self.cache.has_given_up() {
                return;
            }
            self.engine.writes_are_lost();
            self.lost = Some(number);
        }
        self.stop = None;
        let stop = engine::Input::Command { number, command: Command::Stop };
        self.pass(now, stop, out);
        self.settle(now, out);
    }

    /// See [`WriteCache::set_order`].
    pub(crate) fn set_order(&mut self, order: Option<Box<dyn engine::Hold>>) {
        self.cache.set_order(order);
    }

    /// The scratch buffers that the host provides, in the order of their numbers.
    pub(crate) fn pools(&self) -> impl Iterator<Item = Pool> + use<> {
        core::iter::once(Pool::of(&self.engine)).chain(self.cache.pools())
    }

    /// Those that are in no use.
    pub(crate) fn free_buffers(&self) -> impl Iterator<Item = u16> + '_ {
        self.engine.free_scratch().chain(self.cache.free_buffers())
    }

    /// Where the memory is that the engine names.
    pub(crate) fn place(&self, mem: Mem) -> Mem {
        self.cache.place(mem)
    }

    /// The users' requests that an I/O of the engine is for.
    pub(crate) fn waiting_for(&self, io: engine::IoId) -> impl Iterator<Item = Tag> + '_ {
        self.engine.waiting_for(io).filter_map(|tag| self.cache.user_of(tag))
    }
}

fn answer(number: u64, result: Result<(), CommandError>) -> array::Action {
    if number == STOP {
        return array::Action::Stopped(result);
    }
    let action = engine::Action::Answer { number, result };
    array::Action::Array { group: ONLY, action }
}
