//! An array in 60 lines, with `Vec`s for disks: read this first.
//!
//! The engine decides and never does. A host tells it what happened ([`Input`]) and does what it
//! then asks for ([`Action`]): that is [`Array::tell`], and all there is to a host. Run it with
//! `cargo run -p raidcore --example tiny_array`.

use std::{array, collections::VecDeque, mem::take};

use det::Instant;
use raidcore::engine::{Action, Command, Config, Engine, Input, Io, IoError, IoOp, Op, Request};
use raidcore::geometry::Level;
use raidcore::meta::{ArrayId, AssembleOptions, Consistency, DeviceUuid, MemberImage};
use raidcore::meta::{NewArray, assemble};
use raidcore::plan::Step;
use raidcore::units::{BLOCK_BYTES, DeviceId, Lba, Mem, Tag};

const MEMBERS: usize = 5;
const CHUNK: u32 = 16;
const DISK_BLOCKS: u64 = 1024;

struct Array {
    engine: Engine,
    disks: [Vec<u8>; MEMBERS],
    dead: [bool; MEMBERS],
    memory: Memory,
}

/// What the engine names by [`Mem`]: the buffer of the one request that we have at a time, and
/// scratch buffers of a chunk each.
struct Memory {
    payload: Vec<u8>,
    scratch: Vec<Vec<u8>>,
}

impl Memory {
    fn of(&mut self, mem: Mem, blocks: u32) -> &mut [u8] {
        let (buffer, at) = match mem {
            Mem::Payload { at, .. } => (&mut self.payload, at),
            Mem::Scratch { buffer, at } => (&mut self.scratch[usize::from(buffer)], at),
            Mem::Zero => unreachable!("only write-zeroes, which we never ask for, needs zeros"),
        };
        &mut buffer[at as usize * BLOCK_BYTES..][..blocks as usize * BLOCK_BYTES]
    }
}

impl Array {
    /// Writes a new array's metadata to five empty disks, and starts it.
    fn new() -> Self {
        let new = NewArray {
            array: ArrayId(*b"the tiny array!!"),
            name: "tiny".into(),
            created: 0,
            level: Level::Raid5,
            chunk: CHUNK,
            consistency: Consistency::Bitmap,
            devices: (0..MEMBERS as u8).map(|m| DeviceUuid([m + 1; 16])).collect(),
            member_blocks: DISK_BLOCKS,
        };
        let record = new.record().expect("five disks of this size are enough");
        let disks: [_; MEMBERS] = array::from_fn(|member| {
            let mut disk = vec![0; DISK_BLOCKS as usize * BLOCK_BYTES];
            let superblocks = record.superblocks(record.slots[member].device);
            for (at, block) in record.new_maps(false).chain(superblocks) {
                disk[at.0 as usize * BLOCK_BYTES..][..BLOCK_BYTES].copy_from_slice(&block);
            }
            disk
        });
        // From here on it could as well be an array that was there before.
        let meta = record.areas.meta_blocks() as usize * BLOCK_BYTES;
        let images = disks.iter().zip('A'..).map(|(disk, label)| MemberImage {
            label: label.into(),
            blocks: DISK_BLOCKS,
            meta: disk[..meta].to_vec(),
            unreadable: Vec::new(),
        });
        let images: Vec<_> = images.collect();
        let assembled = assemble(&images, AssembleOptions::default()).expect("a whole array");
        let devices: Vec<_> = (0..MEMBERS as u32).map(|m| Some(DeviceId(m))).collect();
        let engine = Engine::new(Config::default(), assembled, &devices, Instant::ORIGIN, 0);
        let buffer = vec![0; CHUNK as usize * BLOCK_BYTES];
        let scratch = vec![buffer; engine.scratch_buffers().into()];
        let memory = Memory { payload: Vec::new(), scratch };
        let mut array = Self { engine, disks, dead: [false; MEMBERS], memory };
        array.tell(Input::Tick);
        array
    }

    /// Tells the engine something, and does what it asks for until it asks for nothing more.
    fn tell(&mut self, input: Input) {
        let (mut inputs, mut actions) = (VecDeque::from([input]), Vec::new());
        while let Some(input) = inputs.pop_front() {
            self.engine.step(Instant::ORIGIN, input, &mut actions);
            for action in actions.drain(..) {
                match action {
                    Action::Io(io) => {
                        inputs.push_back(Input::IoDone { id: io.id, result: self.io(io) });
                    }
                    Action::Compute(job) => {
                        self.engine.steps(job, |step, blocks| {
                            compute(&mut self.memory, step, blocks);
                        });
                        inputs.push_back(Input::Computed(job));
                    }
                    Action::Complete { result, .. } => result.expect("the array serves"),
                    Action::Answer { result, .. } => result.expect("the command is possible"),
                    Action::Note(note) => println!("    the engine notes: {note:?}"),
                    Action::Release(_) => {}
                }
            }
        }
    }

    /// Carries out an I/O.
    fn io(&mut self, io: Io) -> Result<(), IoError> {
        let disk = io.device.0 as usize;
        if self.dead[disk] {
            return Err(IoError::Gone);
        }
        let bytes = io.at.0 as usize * BLOCK_BYTES..;
        let bytes = &mut self.disks[disk][bytes][..io.blocks as usize * BLOCK_BYTES];
        match io.op {
            IoOp::Read(into) => self.memory.of(into, io.blocks).copy_from_slice(bytes),
            IoOp::Write { from, .. } => bytes.copy_from_slice(self.memory.of(from, io.blocks)),
            IoOp::Store(page) => self.engine.encode(page, io.device, bytes),
            IoOp::Flush | IoOp::Discard => {}
            IoOp::Journal => unreachable!("this array has a bitmap instead"),
        }
        Ok(())
    }

    fn request(&mut self, op: Op, lba: u64, bytes: Vec<u8>) -> Vec<u8> {
        let blocks = (bytes.len() / BLOCK_BYTES) as u32;
        self.memory.payload = bytes;
        self.tell(Input::Request(Request { tag: Tag(0), op, lba: Lba(lba), blocks, fua: false }));
        take(&mut self.memory.payload)
    }
}

/// RAID5 is nothing but sums, and a sum is an exclusive or. `raidcore::parity` does it faster.
fn compute(memory: &mut Memory, step: Step<&[Mem]>, blocks: u32) {
    let (dst, srcs) = match step {
        Step::Xor { dst, srcs } => (dst, srcs),
        Step::Delta { p: Some(p), old, new, .. } => (p, &[p, old, new][..]),
        other => unreachable!("{other:?} is for RAID6 and scrubs"),
    };
    let mut sum = vec![0; blocks as usize * BLOCK_BYTES];
    for &src in srcs {
        sum.iter_mut().zip(memory.of(src, blocks)).for_each(|(sum, byte)| *sum ^= *byte);
    }
    memory.of(dst, blocks).copy_from_slice(&sum);
}

fn main() {
    let mut array = Array::new();
    println!("An array of {} blocks on {MEMBERS} disks.", array.engine.geometry().capacity());

    // Longer than a stripe, so that some of it is written whole and some by read-modify-write.
    let text: Vec<u8> = (0..100 * BLOCK_BYTES).map(|i| (i % 251) as u8).collect();
    array.request(Op::Write, 7, text.clone());
    println!("Wrote 100 blocks; reading them back.");
    assert_eq!(array.request(Op::Read, 7, vec![0; text.len()]), text);

    println!("Disk 2 dies; reading again.");
    array.dead[2] = true;
    assert_eq!(array.request(Op::Read, 7, vec![0; text.len()]), text);

    array.tell(Input::Command { number: 0, command: Command::Stop });
    let status = array.engine.status();
    println!("The same bytes. The array is {:?}; it has done this:", status.health);
    println!("{:#?}", status.counters);
}
