//! A stop ends, whatever the engine is about when it is asked for.

use std::time::Duration;

use det::Instant;
use raidcore::engine::{Action, Command, Config, Engine, Input, Io, IoOp, Op, Request};
use raidcore::geometry::Level;
use raidcore::meta::{ArrayId, Assembled, Consistency, DeviceUuid, NewArray};
use raidcore::units::{DeviceId, Lba, Tag};

/// A host that carries out I/O when it is told to.
struct Host {
    engine: Engine,
    now: Instant,
    ios: Vec<Io>,
    answered: bool,
}

impl Host {
    fn new() -> Self {
        let new = NewArray {
            array: ArrayId([1; 16]),
            name: "stops".into(),
            created: 0,
            level: Level::Raid5,
            chunk: 4,
            consistency: Consistency::Bitmap,
            devices: (1..=3).map(|member| DeviceUuid([member; 16])).collect(),
            member_blocks: 4096,
        };
        let assembled = Assembled::of_new(new.record().expect("a possible array"), false);
        let devices: Vec<_> = (0..3).map(|device| Some(DeviceId(device))).collect();
        let now = Instant::ORIGIN;
        let engine = Engine::new(Config::default(), assembled, &devices, now, 0);
        let mut host = Self { engine, now, ios: Vec::new(), answered: false };
        host.tell(Input::Tick);
        host.carry_out(|_| true);
        assert!(host.engine.is_serving());
        host
    }

    fn tell(&mut self, input: Input) {
        let mut inputs = vec![input];
        while let Some(input) = inputs.pop() {
            let mut actions = Vec::new();
            self.engine.step(self.now, input, &mut actions);
            for action in actions {
                match action {
                    Action::Io(io) => self.ios.push(io),
                    Action::Compute(job) => inputs.push(Input::Computed(job)),
                    Action::Answer { result, .. } => {
                        result.expect("nothing fails");
                        self.answered = true;
                    }
                    Action::Complete { .. } | Action::Note(_) | Action::Release(_) => {}
                }
            }
        }
    }

    /// Carries out I/O of one kind as long as there is some.
    fn carry_out(&mut self, which: impl Fn(&IoOp) -> bool) {
        while let Some(index) = self.ios.iter().position(|io| which(&io.op)) {
            let io = self.ios.remove(index);
            self.tell(Input::IoDone { id: io.id, result: Ok(()) });
        }
    }
}

#[test]
fn a_stop_ends_when_a_flush_finds_nothing_to_settle() {
    let mut host = Host::new();
    let is_flush = |op: &IoOp| matches!(op, IoOp::Flush);
    let (lba, op) = (Lba(0), Op::Write);
    host.tell(Input::Request(Request { tag: Tag(0), op, lba, blocks: 1, fua: false }));
    host.carry_out(|op| !matches!(op, IoOp::Write { .. }));
    // The region is written to while it is to be settled, so the flush settles nothing.
    host.now = host.now + Duration::from_secs(6);
    host.tell(Input::Tick);
    assert!(host.ios.iter().any(|io| is_flush(&io.op)));
    host.tell(Input::Command { number: 1, command: Command::Stop });
    host.carry_out(|op| !matches!(op, IoOp::Flush));
    host.carry_out(|_| true);
    assert!(host.answered, "the stop hangs");
}
