//! An array in about 60 lines, with `Vec`s for disks: read this first.
//!
//! The engine decides and does no I/O. Its host passes events to it ([`Input`]) and carries out its
//! actions ([`Action`]): [`Array::tell`] does that, and is all that a host needs.

use det::Instant;
use raidcore::engine::{Action, Config, Engine, Input, Io, IoError, IoOp, Op, Request};
use raidcore::geometry::{Level, Placement};
use raidcore::meta::{ArrayId, Assembled, Consistency, DeviceUuid, JOURNAL_BLOCKS, NewArray};
use raidcore::plan::BoundStep;
use raidcore::units::{BLOCK_BYTES, DeviceId, Lba, Mem, Tag};

struct Array {
    engine: Engine,
    disks: Vec<Vec<u8>>,
    /// The buffer of the single request, then the scratch buffers.
    memory: Vec<Vec<u8>>,
}

impl Array {
    fn new(new: NewArray) -> Self {
        let disk = |&blocks: &u64| vec![0; blocks as usize * BLOCK_BYTES];
        let disks: Vec<_> = new.member_blocks.iter().map(disk).collect();
        let devices: Vec<_> = (0..disks.len() as u32).map(|disk| Some(DeviceId(disk))).collect();
        let assembled = Assembled::of_new(new.record().expect("a possible array"), false);
        let engine = Engine::new(Config::default(), assembled, &devices, Instant::ORIGIN, 0);
        let buffer = vec![0; engine.geometry().chunk() as usize * BLOCK_BYTES];
        let memory = vec![buffer; 1 + usize::from(engine.scratch_buffers())];
        let mut array = Self { engine, disks, memory };
        array.tell(Input::Tick);
        array
    }

    /// Passes an input to the engine, and carries out its actions until there are none.
    fn tell(&mut self, input: Input) {
        let (mut inputs, mut actions) = (vec![input], Vec::new());
        while let Some(input) = inputs.pop() {
            self.engine.step(Instant::ORIGIN, input, &mut actions);
            for action in actions.drain(..) {
                match action {
                    Action::Io(io) => {
                        inputs.push(Input::IoDone { id: io.id, result: self.carry_out(io) });
                    }
                    Action::Compute(job) => {
                        self.engine.steps(job, |step, n| compute(&mut self.memory, step, n));
                        inputs.push(Input::Computed(job));
                    }
                    Action::Complete { result, .. } => result.expect("the array serves"),
                    Action::Note(note) => println!("    the engine notes: {note:?}"),
                    Action::Answer { .. } | Action::Release(_) => {}
                }
            }
        }
    }

    fn carry_out(&mut self, io: Io) -> Result<(), IoError> {
        let start = io.at.0 as usize * BLOCK_BYTES;
        let range = start..start + io.blocks as usize * BLOCK_BYTES;
        let bytes = self.disks[io.device.0 as usize].get_mut(range).ok_or(IoError::Gone)?;
        match io.op {
            IoOp::Read(to) => named(&mut self.memory, to, io.blocks).copy_from_slice(bytes),
            IoOp::Write { from, .. } => {
                bytes.copy_from_slice(named(&mut self.memory, from, io.blocks));
            }
            IoOp::Store(page) => self.engine.encode(page, io.device, bytes),
            IoOp::Flush | IoOp::Discard => {}
            IoOp::Journal => unreachable!("this array keeps a bitmap instead"),
        }
        Ok(())
    }

    fn request(&mut self, op: Op, lba: u64, bytes: &[u8]) -> &[u8] {
        let (lba, blocks) = (Lba(lba), (bytes.len() / BLOCK_BYTES) as u32);
        self.memory[0] = bytes.to_vec();
        self.tell(Input::Request(Request { tag: Tag(0), op, lba, blocks, fua: false }));
        &self.memory[0]
    }
}

/// The memory that the engine refers to.
fn named(memory: &mut [Vec<u8>], mem: Mem, blocks: u32) -> &mut [u8] {
    let (buffer, at) = match mem {
        Mem::Payload { at, .. } => (0, at),
        Mem::Scratch { buffer, at } => (1 + usize::from(buffer), at),
        Mem::Zero => unreachable!("only discards and write-zeroes need it"),
    };
    &mut memory[buffer][at as usize * BLOCK_BYTES..][..blocks as usize * BLOCK_BYTES]
}

/// The parity of RAID5 is a sum, and a sum is an exclusive or. `raidcore::parity` has fast kernels.
fn compute(memory: &mut [Vec<u8>], step: BoundStep<'_>, blocks: u32) {
    let (sum, parts) = if let BoundStep::Xor { dst, srcs } = step {
        (dst, srcs)
    } else if let BoundStep::Delta { p: Some(p), old, new, .. } = step {
        (p, &[p, old, new][..])
    } else {
        unreachable!("{step:?} is for RAID6 and scrubs")
    };
    let mut bytes = vec![0; blocks as usize * BLOCK_BYTES];
    for &part in parts {
        bytes.iter_mut().zip(named(memory, part, blocks)).for_each(|(sum, byte)| *sum ^= *byte);
    }
    named(memory, sum, blocks).copy_from_slice(&bytes);
}

fn main() {
    let mut array = Array::new(NewArray {
        array: ArrayId(*b"the tiny array!!"),
        name: "tiny".into(),
        created: 0,
        level: Level::Raid5,
        placement: Placement::LeftSymmetric,
        chunk: 4,
        consistency: Consistency::Bitmap,
        devices: (1..=5).map(|disk| DeviceUuid([disk; 16])).collect(),
        journal_blocks: JOURNAL_BLOCKS,
        staging_blocks: 0,
        staging_devices: Vec::new(),
        staging_device_blocks: 0,
        distributed_spare: false,
        member_blocks: vec![1024; 5],
    });
    println!("An array of {} blocks on 5 disks.", array.engine.geometry().capacity());

    let text: Vec<u8> = (0..50 * BLOCK_BYTES).map(|i| (i % 251) as u8).collect();
    array.request(Op::Write, 7, &text);
    println!("Wrote 50 blocks; reading them back.");
    assert_eq!(array.request(Op::Read, 7, &vec![0; text.len()]), text);

    println!("Disk 2 dies; reading them again.");
    array.disks[2] = Vec::new();
    assert_eq!(array.request(Op::Read, 7, &vec![0; text.len()]), text);

    let status = array.engine.status();
    println!("The same bytes. The array is {:?} and has done this:", status.health);
    println!("{:#?}", status.counters);
}

#[test]
fn what_was_written_outlives_a_disk() {
    main();
}
