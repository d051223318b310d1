//! Flexible Data Placement of an NVMe namespace, as of the NVM Express Base Specification: by which
//! identifiers writes go to which of the drive's reclaim unit handles.

use std::io;

use raidcore::engine::Stream;

use super::ask::{Ask, Asked, CONTROLLER, IDENTIFY, IDENTIFY_BYTES, Question, attributes};
use crate::members::BlockBuffer;

/// The bit of a controller's attributes for drives with Flexible Data Placement.
const HAS_PLACEMENT: u32 = 1 << 19;

/// The admin command "Get Features", and the feature "Flexible Data Placement" of an endurance group.
const GET_FEATURES: u8 = 0x0a;
const PLACEMENT_FEATURE: u32 = 0x1d;

/// The bit of its answer that says that it is on.
const IS_ON: u32 = 1;

/// The I/O command "I/O Management Receive", and of its dword 10 the operation "Reclaim Unit Handle Status".
const RECEIVE: u8 = 0x12;
const HANDLE_STATUS: u32 = 1;

/// What it answers with: a header that has the number of descriptors, and those.
const HEADER_BYTES: usize = 16;
const COUNT: usize = 14;
const DESCRIPTOR_BYTES: usize = 32;

/// The most handles of a namespace. One with more descriptors has one for each handle and reclaim group.
const HANDLES_MAX: usize = 128;

/// As many kinds of writes as there are.
const STREAMS: usize = 4;

/// Why writes of a namespace are not kept apart.
#[derive(Debug, thiserror::Error)]
pub enum NotPlaced {
    /// The drive does not know how.
    #[error("the drive has no Flexible Data Placement (FDP)")]
    Unsupported,
    /// It does, and was not told to.
    #[error("Flexible Data Placement is off in its endurance group")]
    Off,
    /// What is written can go to one place only.
    #[error("it has only one reclaim unit handle")]
    OneHandle,
    /// Its identifiers choose a part of the drive, too: a few of them are not all of it.
    #[error("the drive has several reclaim groups")]
    SeveralGroups,
    /// The answer is not as the specification has it.
    #[error("the status of its reclaim unit handles makes no sense")]
    Malformed,
    /// It can't be asked.
    #[error(transparent)]
    NotAsked(#[from] io::Error),
}

/// Where writes of a namespace can go, as far as that is used; nowhere in particular by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    identifiers: [u16; STREAMS],
    streams: u16,
}

impl Placement {
    /// How many streams it keeps apart: at least two, or none.
    #[must_use]
    pub fn streams(&self) -> u16 {
        self.streams
    }

    /// The placement identifier of a stream's writes, if streams are kept apart.
    #[must_use]
    pub fn of(&self, stream: Stream) -> Option<u16> {
        let number = usize::from(stream.number(self.streams));
        (self.streams > 0).then(|| self.identifiers[number])
    }
}

/// What the status of reclaim unit handles tells. The streams have the lowest identifiers, in order: without a
/// directive writes go to that of the lowest.
///
/// # Errors
/// If writes can't be kept apart, or the status is none.
pub fn parse(status: &[u8]) -> Result<Placement, NotPlaced> {
    let descriptors = status.get(HEADER_BYTES..bytes(status)?).ok_or(NotPlaced::Malformed)?;
    // The placement identifier, and the reclaim unit handle.
    let (mut identifiers, mut handles) = (Vec::new(), Vec::new());
    for descriptor in descriptors.chunks(DESCRIPTOR_BYTES) {
        identifiers.push(number(descriptor, 0)?);
        handles.push(number(descriptor, 2)?);
    }
    if has_twice(&mut identifiers) {
        return Err(NotPlaced::Malformed);
    }
    if has_twice(&mut handles) {
        return Err(NotPlaced::SeveralGroups);
    }
    if identifiers.len() < 2 {
        return Err(NotPlaced::OneHandle);
    }
    let mut placement = Placement::default();
    for (to, identifier) in placement.identifiers.iter_mut().zip(identifiers) {
        *to = identifier;
        placement.streams += 1;
    }
    Ok(placement)
}

/// How long a status is that has this header.
fn bytes(header: &[u8]) -> Result<usize, NotPlaced> {
    match usize::from(number(header, COUNT)?) {
        count @ ..=HANDLES_MAX => Ok(HEADER_BYTES + count * DESCRIPTOR_BYTES),
        _ => Err(NotPlaced::SeveralGroups),
    }
}

fn number(bytes: &[u8], at: usize) -> Result<u16, NotPlaced> {
    let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
    bytes.copied().map(u16::from_le_bytes).ok_or(NotPlaced::Malformed)
}

/// Sorts numbers, and tells whether one is there twice.
fn has_twice(numbers: &mut [u16]) -> bool {
    numbers.sort_unstable();
    numbers.windows(2).any(|pair| pair[0] == pair[1])
}

/// Finds out where writes of a namespace can go.
///
/// # Errors
/// If nowhere in particular.
pub(super) fn find(
    namespace: u32,
    endurance_group: u16,
    ask: &mut Ask<'_>,
) -> Result<Placement, NotPlaced> {
    let mut answer = BlockBuffer::new(IDENTIFY_BYTES)?;
    let controller = Question { opcode: IDENTIFY, dword10: CONTROLLER, ..Question::default() };
    ask(controller, &mut answer)?;
    if endurance_group == 0 || attributes(&answer) & HAS_PLACEMENT == 0 {
        return Err(NotPlaced::Unsupported);
    }
    let feature = Question {
        opcode: GET_FEATURES,
        dword10: PLACEMENT_FEATURE,
        dword11: endurance_group.into(),
        ..Question::default()
    };
    if ask(feature, &mut [])? & IS_ON == 0 {
        return Err(NotPlaced::Off);
    }
    // A drive may refuse a transfer that is longer than what it has to tell.
    let mut status = |bytes: usize| -> io::Result<BlockBuffer> {
        let mut answer = BlockBuffer::new(bytes)?;
        let question = Question {
            asked: Asked::Namespace,
            opcode: RECEIVE,
            namespace,
            dword10: HANDLE_STATUS,
            dword11: (bytes / size_of::<u32>() - 1) as u32,
            ..Question::default()
        };
        ask(question, &mut answer)?;
        Ok(answer)
    };
    let header = status(HEADER_BYTES)?;
    parse(&status(bytes(&header)?)?)
}

#[cfg(test)]
mod tests;
