//! A host without disks, memory or arithmetic, which completes every action of the engine at once.
//! Only the engine's own work is left.

use std::collections::VecDeque;
use std::time::Duration;

use det::{Instant, Prng};
use raidcore::engine::{
    Action, Config, Detour, Engine, Input, Op, Redirect, Request, SteeringPolicy,
};
use raidcore::geometry::{Level, Placement};
use raidcore::meta::{ArrayId, Assembled, Consistency, DeviceUuid, JOURNAL_BLOCKS, NewArray};
use raidcore::units::{DeviceId, Lba, MemberId, Set, Tag};

/// Members: four data chunks a stripe with RAID5.
pub(crate) const MEMBERS: u32 = 5;
/// 64 KiB, the default.
pub(crate) const CHUNK: u32 = 16;
/// 64 GiB.
const MEMBER_BLOCKS: u64 = 1 << 24;
/// The part of the array that is used, so that regions are marked once and not for every request.
const STRIPES_USED: u64 = 4096;
/// As much is written over and over.
const STRIPES_HOT: u64 = 4;
/// Time that passes from one step to the next.
const STEP: Duration = Duration::from_nanos(100);

/// Reads go home, writes are staged.
struct Stages;

impl SteeringPolicy for Stages {
    fn takes(&mut self, _: Instant, _: Detour) -> bool {
        false
    }

    fn stages(&mut self, _: Instant, _: Redirect) -> bool {
        true
    }
}

/// The kinds of requests that tests and benchmarks share.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// 4 KiB, anywhere.
    Read,
    /// 4 KiB, anywhere.
    Write,
    /// 4 KiB, anywhere in four stripes.
    HotWrite,
    /// A whole stripe.
    StripeWrite,
    /// Everything.
    Flush,
}

/// The engine and its host.
pub(crate) struct NullHost {
    engine: Engine,
    now: Instant,
    prng: Prng,
    /// In the order in which it was asked for.
    todo: VecDeque<Action>,
    actions: Vec<Action>,
    completed: u32,
}

impl NullHost {
    /// Starts a new array.
    pub(crate) fn new(level: Level, consistency: Consistency) -> Self {
        Self::with_log(level, consistency, 0)
    }

    /// Starts a new array with so many blocks of staging log on each member, and memory for a part of what is
    /// staged.
    pub(crate) fn with_log(level: Level, consistency: Consistency, log: u64) -> Self {
        let new = NewArray {
            array: ArrayId(*b"nothing but this"),
            name: "null".into(),
            created: 0,
            level,
            placement: Placement::of(level),
            chunk: CHUNK,
            consistency,
            devices: (1..=MEMBERS as u8).map(|member| DeviceUuid([member; 16])).collect(),
            journal_blocks: JOURNAL_BLOCKS,
            staging_blocks: log,
            staging_devices: Vec::new(),
            staging_device_blocks: 0,
            distributed_spare: false,
            member_blocks: vec![MEMBER_BLOCKS; MEMBERS as usize],
        };
        let record = new.record().expect("a possible array");
        let devices: Vec<_> = (0..MEMBERS).map(|device| Some(DeviceId(device))).collect();
        let now = Instant::ORIGIN;
        let assembled = Assembled::of_new(record, false);
        let config = Config { staged_blocks: (log / 4) as u32, ..Config::default() };
        let mut host = Self {
            engine: Engine::new(config, assembled, &devices, now, 0),
            now,
            prng: Prng::new(1),
            todo: VecDeque::with_capacity(4096),
            actions: Vec::with_capacity(4096),
            completed: 0,
        };
        host.tell(Input::Tick);
        host.finish();
        assert!(host.engine.is_serving());
        host
    }

    /// Makes member 0 busy for good, and stages writes to it until the log is nearly half full. If
    /// it were fuller, blocks would come home.
    pub(crate) fn fill_log(&mut self) {
        self.engine.set_steering(Some(Box::new(Stages)));
        self.tell(Input::Busy(Set::one(MemberId(0))));
        let log = |host: &Self| host.engine.staging_status().expect("there is a log");
        while 5 * log(self).used < 2 * log(self).capacity {
            self.run(Kind::Write, 1);
        }
        assert!(log(self).dirty > 1000, "it stays there");
    }

    /// Takes a device away.
    pub(crate) fn lose(&mut self, device: u32) {
        self.tell(Input::DeviceGone(DeviceId(device)));
        self.finish();
    }

    /// The engine, to look at.
    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Carries out `count` requests that are under way together.
    pub(crate) fn run(&mut self, kind: Kind, count: u16) {
        let before = self.completed;
        for tag in 0..count {
            let request = self.request(kind, Tag(tag));
            self.tell(Input::Request(request));
        }
        self.finish();
        assert_eq!(self.completed - before, u32::from(count));
    }

    fn request(&mut self, kind: Kind, tag: Tag) -> Request {
        let width = self.engine.geometry().stripe_blocks();
        let (op, blocks) = match kind {
            Kind::Read => (Op::Read, 1),
            Kind::Write | Kind::HotWrite => (Op::Write, 1),
            Kind::StripeWrite => (Op::Write, width),
            Kind::Flush => (Op::Flush, 0),
        };
        let stripes = if let Kind::HotWrite = kind { STRIPES_HOT } else { STRIPES_USED };
        let places = stripes * u64::from(width / blocks.max(1));
        let lba = Lba(self.prng.below(places) * u64::from(blocks));
        Request { tag, op, lba, blocks, fua: false }
    }

    fn tell(&mut self, input: Input) {
        self.now = self.now + STEP;
        self.engine.step(self.now, input, &mut self.actions);
        for action in self.actions.drain(..) {
            match action {
                Action::Io(_) | Action::Compute(_) => self.todo.push_back(action),
                Action::Complete { result, .. } => {
                    result.expect("nothing fails");
                    self.completed += 1;
                }
                Action::Answer { .. } | Action::Note(_) | Action::Release(_) => {}
            }
        }
    }

    /// Does all that is to be done.
    fn finish(&mut self) {
        while let Some(action) = self.todo.pop_front() {
            match action {
                Action::Io(io) => self.tell(Input::IoDone { id: io.id, result: Ok(()) }),
                Action::Compute(job) => self.tell(Input::Computed(job)),
                Action::Complete { .. }
                | Action::Answer { .. }
                | Action::Note(_)
                | Action::Release(_) => unreachable!("they were taken note of"),
            }
        }
    }
}
