//! The engine embedded in a program of your own: a RAID5 of four files, with a journal. It adds to
//! `tiny_array`: members are created and assembled, and the journal is replayed after a power
//! failure during a write.
//!
//! `cargo run -p examples --example file_array`

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use det::Instant;
use raidcore::engine::{Action, Config, Engine, Input, Io, IoError, IoOp, Op, Request};
use raidcore::geometry::{Level, Placement};
use raidcore::meta::{
    ArrayId, AssembleOptions, Consistency, DeviceUuid, MemberImage, NewArray, assemble, checksum,
};
use raidcore::parity::Kernels;
use raidcore::plan::BoundStep;
use raidcore::units::{BLOCK_BYTES, DeviceId, Lba, Mem, Tag};

const MEMBERS: u8 = 4;
const MEMBER_BLOCKS: u64 = 1024;

fn path(dir: &Path, member: u8) -> PathBuf {
    dir.join(format!("member{member}.img"))
}

/// New members: files of zeros, with maps and superblocks.
fn create(dir: &Path) -> io::Result<()> {
    let new = NewArray {
        array: ArrayId(*b"an array of file"),
        name: "files".into(),
        created: 0,
        level: Level::Raid5,
        placement: Placement::LeftSymmetric,
        chunk: 4,
        consistency: Consistency::Journal,
        devices: (1..=MEMBERS).map(|member| DeviceUuid([member; 16])).collect(),
        journal_blocks: 64,
        staging_blocks: 0,
        staging_devices: Vec::new(),
        staging_device_blocks: 0,
        distributed_spare: false,
        member_blocks: vec![MEMBER_BLOCKS; MEMBERS as usize],
    };
    let record = new.record().expect("a possible array");
    for (member, slot) in (0..MEMBERS).zip(&record.slots) {
        let file = File::create(path(dir, member))?;
        file.set_len(MEMBER_BLOCKS * BLOCK_BYTES as u64)?;
        for (at, block) in record.new_maps(false).chain(record.superblocks(slot.device)) {
            file.write_all_at(&block, at.0 * BLOCK_BYTES as u64)?;
        }
    }
    Ok(())
}

struct Array {
    engine: Engine,
    files: Vec<File>,
    /// The buffer of the single request, then the scratch buffers.
    memory: Vec<Vec<u8>>,
    /// How many blocks can be written before the power fails.
    power: u32,
}

/// The power has failed.
#[derive(Debug)]
struct Dark;

impl Array {
    /// Assembles the members that are there, and replays the journal.
    fn start(dir: &Path) -> io::Result<Self> {
        let (mut files, mut images) = (Vec::new(), Vec::new());
        for path in (0..MEMBERS).map(|member| path(dir, member)).filter(|path| path.exists()) {
            let (label, meta) = (path.display().to_string(), fs::read(&path)?);
            images.push(MemberImage { label, blocks: MEMBER_BLOCKS, meta, unreadable: Vec::new() });
            files.push(OpenOptions::new().read(true).write(true).open(path)?);
        }
        let options = AssembleOptions { degraded: true, force: false };
        let assembled = assemble(&images, options).map_err(io::Error::other)?;
        let device = |image: Option<usize>| image.map(|image| DeviceId(image as u32));
        let devices: Vec<_> = assembled.slots.iter().map(|&image| device(image)).collect();
        let engine = Engine::new(Config::default(), assembled, &devices, Instant::ORIGIN, 0);
        let buffer = vec![0; engine.geometry().chunk() as usize * BLOCK_BYTES];
        let memory = vec![buffer; 1 + usize::from(engine.scratch_buffers())];
        let mut array = Self { engine, files, memory, power: u32::MAX };
        array.tell(Input::Tick).expect("there is power");
        assert!(array.engine.is_serving(), "the start has ended");
        Ok(array)
    }

    /// Passes an input to the engine, and carries out its actions until there are none.
    fn tell(&mut self, input: Input) -> Result<(), Dark> {
        let (mut inputs, mut actions) = (vec![input], Vec::new());
        while let Some(input) = inputs.pop() {
            self.engine.step(Instant::ORIGIN, input, &mut actions);
            for action in actions.drain(..) {
                match action {
                    Action::Io(io) => {
                        let result = self.carry_out(io)?.map_err(|_| IoError::Medium);
                        inputs.push(Input::IoDone { id: io.id, result });
                    }
                    Action::Compute(job) => {
                        self.engine.steps(job, |step, n| compute(&mut self.memory, step, n));
                        inputs.push(Input::Computed(job));
                    }
                    Action::Complete { result, .. } => result.expect("the array serves"),
                    Action::Note(_) | Action::Answer { .. } | Action::Release(_) => {}
                }
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, io: Io) -> Result<io::Result<()>, Dark> {
        let file = &self.files[io.device.0 as usize];
        let at = io.at.0 * BLOCK_BYTES as u64;
        let bytes = match io.op {
            IoOp::Read(to) => {
                return Ok(file.read_exact_at(named(&mut self.memory, to, io.blocks), at));
            }
            IoOp::Flush => return Ok(file.sync_data()),
            IoOp::Discard => return Ok(Ok(())),
            IoOp::Write { from, .. } => named(&mut self.memory, from, io.blocks).to_vec(),
            IoOp::Store(page) => {
                let mut bytes = vec![0; BLOCK_BYTES];
                self.engine.encode(page, io.device, &mut bytes);
                bytes
            }
            IoOp::Journal => {
                let headers = self.engine.journal_header_blocks(io.id) as usize;
                let (engine, memory) = (&self.engine, &mut self.memory);
                let mut bytes = vec![0; headers * BLOCK_BYTES];
                engine.encode_journal(io.id, |mem| checksum(named(memory, mem, 1)), &mut bytes);
                engine.journal_payload(io.id, |mem, n| {
                    bytes.extend_from_slice(named(memory, mem, n));
                });
                bytes
            }
        };
        for (block, at) in bytes.chunks(BLOCK_BYTES).zip((at..).step_by(BLOCK_BYTES)) {
            self.power = self.power.checked_sub(1).ok_or(Dark)?;
            if let Err(error) = file.write_all_at(block, at) {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    /// A request for whole blocks.
    fn request(&mut self, op: Op, lba: u64, bytes: &[u8]) -> Result<&[u8], Dark> {
        let (lba, blocks) = (Lba(lba), (bytes.len() / BLOCK_BYTES) as u32);
        self.memory[0] = bytes.to_vec();
        self.tell(Input::Request(Request { tag: Tag(0), op, lba, blocks, fua: false }))?;
        Ok(&self.memory[0])
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

fn compute(memory: &mut [Vec<u8>], step: BoundStep<'_>, blocks: u32) {
    let mut bytes = |mem: Mem| named(memory, mem, blocks).to_vec();
    let (to, sum) = if let BoundStep::Xor { dst, srcs } = step {
        let srcs: Vec<_> = srcs.iter().map(|&src| bytes(src)).collect();
        let mut sum = bytes(dst);
        Kernels::best().xor(&mut sum, &srcs.iter().map(|src| &src[..]).collect::<Vec<_>>());
        (dst, sum)
    } else if let BoundStep::Add { dst, src } = step {
        let (mut sum, src) = (bytes(dst), bytes(src));
        Kernels::best().add(&mut sum, &src);
        (dst, sum)
    } else if let BoundStep::Delta { p: Some(p), index, old, new, .. } = step {
        let (mut sum, old, new) = (bytes(p), bytes(old), bytes(new));
        Kernels::best().delta(Some(&mut sum), None, index.into(), Some(&old), Some(&new));
        (p, sum)
    } else {
        unreachable!("{step:?} is for RAID6, mirrors and scrubs")
    };
    named(memory, to, blocks).copy_from_slice(&sum);
}

const OLD: [u8; BLOCK_BYTES] = [b'o'; BLOCK_BYTES];
const NEW: [u8; BLOCK_BYTES] = [b'n'; BLOCK_BYTES];
/// The blocks that are written first, from block 0 on: two stripes.
const BLOCKS: usize = 24;
/// The block that is being written when the power fails.
const LBA: usize = 5;
/// The member that has it.
#[cfg(test)]
const HOLDER: u8 = 1;

/// Writes a block, cuts the power after `power` blocks, loses a member, starts again, and returns
/// the blocks; `None` if the power was enough.
fn play(dir: &Path, power: u32, lost: u8) -> io::Result<Option<Vec<u8>>> {
    create(dir)?;
    let mut array = Array::start(dir)?;
    array.request(Op::Write, 0, &OLD.repeat(BLOCKS)).expect("there is power");
    array.request(Op::Flush, 0, &[]).expect("there is power");
    array.power = power;
    if array.request(Op::Write, LBA as u64, &NEW).is_ok() {
        return Ok(None);
    }
    drop(array);
    fs::remove_file(path(dir, lost))?;
    let mut array = Array::start(dir)?;
    let blocks = vec![0; BLOCKS * BLOCK_BYTES];
    let content = array.request(Op::Read, 0, &blocks).expect("there is power").to_vec();
    Ok(Some(content))
}

fn main() -> io::Result<()> {
    let dir = tempfile::tempdir()?;
    println!("Power for so many blocks of the write, and then a member is lost as well:");
    for power in 0.. {
        let Some(content) = play(dir.path(), power, 0)? else { break };
        let block = &content[LBA * BLOCK_BYTES..][..BLOCK_BYTES];
        println!("  {power}: the block is {}", if block == NEW { "new" } else { "old" });
        let around = content.chunks(BLOCK_BYTES).enumerate().filter(|(lba, _)| *lba != LBA);
        assert!(around.map(|(_, block)| block).all(|block| block == OLD), "others stay");
    }
    println!("All others are as they were, each time.");
    Ok(())
}

#[test]
fn a_power_failure_leaves_old_or_new_whatever_member_is_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    for lost in 0..MEMBERS {
        let mut seen = [false; 2];
        for power in 0.. {
            let Some(content) = play(dir.path(), power, lost).expect("files") else { break };
            for (lba, block) in content.chunks(BLOCK_BYTES).enumerate() {
                let new = block == NEW;
                assert!(block == OLD || lba == LBA && new, "block {lba}, {power}, {lost}");
                seen[usize::from(new)] |= lba == LBA;
            }
        }
        // The entry has parity without the block: if the block's own member is lost, the block is
        // new once parity has it, which ends the write.
        let expected = [true, lost != HOLDER];
        assert_eq!(seen, expected, "it ends before and after the entry is there");
    }
}
