//! Users' reads of which some blocks are held, and others not.

use alloc::vec::Vec;

use raidcore::engine::RequestError;
use raidcore::units::Tag;

use super::api::Action;

/// A read under way.
#[derive(Clone, Copy, Debug)]
struct Reading {
    /// How many parts the array has.
    left: u32,
    result: Result<(), RequestError>,
}

/// See the [module](self).
pub(super) struct Reads {
    /// By tag.
    reading: Vec<Option<Reading>>,
}

impl Reads {
    pub(super) fn new(tags: u16) -> Self {
        Self { reading: alloc::vec![None; tags.into()] }
    }

    /// A read has come, of which the array was asked for so many parts.
    pub(super) fn came(&mut self, tag: Tag, parts: u32, out: &mut Vec<Action>) {
        if parts == 0 {
            out.push(Action::Complete { tag, result: Ok(()) });
        } else {
            self.reading[usize::from(tag.0)] = Some(Reading { left: parts, result: Ok(()) });
        }
    }

    /// A part of a read has ended.
    pub(super) fn part_ended(
        &mut self,
        tag: Tag,
        result: Result<(), RequestError>,
        out: &mut Vec<Action>,
    ) {
        let place = &mut self.reading[usize::from(tag.0)];
        let Some(reading) = place else { return };
        reading.left -= 1;
        reading.result = reading.result.and(result);
        if reading.left == 0 {
            let result = reading.result;
            *place = None;
            out.push(Action::Complete { tag, result });
        }
    }
}
