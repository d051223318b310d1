//! The text that blkparse prints by default: `major,minor cpu sequence seconds pid action RWBS
//! sector + sectors [process]`.
//!
//! Lines of other events and the summary at the end are skipped. `RWBS` is a flush if it begins
//! with `F`. A write may follow it in the same word (`FWS`, `FWFS`): the line then gives two
//! records, a flush and a write. Writes with FUA (an `F` after the `W`) are writes.

use super::action::Action;
use super::input::Input;
use super::text::{Devices, Expected, length, number, sectors, time};
use super::{Reader, Record, TraceError};
use crate::arrival::Kind;

const RANGE: Expected = "sector + sectors, of less than 4 GiB, in columns 8 to 10";

/// Reads events of one kind.
pub(super) struct Blkparse {
    action: u8,
    /// The write of a line that began with a flush.
    pending: Option<Record>,
}

impl Blkparse {
    /// Without `action`: dispatches if the first bytes of the file have one, otherwise queued
    /// requests.
    pub(super) fn new(head: &[u8], action: Option<Action>) -> Self {
        let dispatches = || {
            let mut lines = head.split(|&byte| byte == b'\n');
            lines.any(|line| event(line).is_some_and(|event| event.action == b"D"))
        };
        let action = action.unwrap_or(if dispatches() { Action::D } else { Action::Q });
        Self { action: action.letter(), pending: None }
    }
}

/// Whether lines could be of this format.
pub(super) fn is_blkparse(lines: &[&[u8]]) -> bool {
    lines.iter().all(|line| event(line).is_some())
}

impl Reader for Blkparse {
    fn next(
        &mut self,
        input: &mut Input,
        devices: &mut Devices,
    ) -> Result<Option<Record>, TraceError> {
        if let Some(write) = self.pending.take() {
            return Ok(Some(write));
        }
        loop {
            let Some(line) = input.line()? else { return Ok(None) };
            if line.is_empty() {
                continue;
            }
            // The summary begins with a line per CPU, or with the one for all of them.
            if line.starts_with(b"CPU") || line.starts_with(b"Total") {
                return Ok(None);
            }
            match self.records(line, devices) {
                Ok(Some(record)) => return Ok(Some(record)),
                Ok(None) => {}
                Err(expected) => {
                    let line = line.to_vec();
                    return Err(input.malformed(expected, &line));
                }
            }
        }
    }
}

impl Blkparse {
    fn records(&mut self, line: &[u8], devices: &mut Devices) -> Result<Option<Record>, Expected> {
        let Some(event) = event(line) else {
            return Err("an event: major,minor cpu sequence seconds pid action RWBS …");
        };
        if event.action != [self.action] {
            return Ok(None);
        }
        let at = time(event.seconds, 1_000_000_000, "a time in seconds in column 4")?;
        let device = devices.index(event.device)?;
        let flush = Record { at, device, kind: Kind::Flush, offset: 0, bytes: 0 };
        let (flushes, kind) = operation(event.rwbs);
        let data = match (kind, event.range()?) {
            // A flush alone has no range, or an empty one.
            (Some(_), None | Some((_, 0))) if flushes => None,
            (Some(kind), Some((offset, bytes))) => Some(Record { at, device, kind, offset, bytes }),
            (Some(_), None) => return Err(RANGE),
            (None, _) => None,
        };
        if !flushes {
            return Ok(data);
        }
        self.pending = data;
        Ok(Some(flush))
    }
}

/// Whether there is a flush, and what the request does besides.
fn operation(rwbs: &[u8]) -> (bool, Option<Kind>) {
    let (flushes, rest) = match rwbs {
        [b'F', rest @ ..] => (true, rest),
        rest => (false, rest),
    };
    let kind = match rest.first() {
        Some(b'R') => Some(Kind::Read),
        Some(b'W') => Some(Kind::Write),
        Some(b'D') => Some(Kind::Discard),
        // Nothing, commands that are not for data, zones.
        _ => None,
    };
    (flushes, kind)
}

struct Event<'a> {
    device: &'a [u8],
    seconds: &'a [u8],
    action: &'a [u8],
    rwbs: &'a [u8],
    /// `sector + sectors`, unless it is something else.
    range: [&'a [u8]; 3],
}

fn event(line: &[u8]) -> Option<Event<'_>> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let device = fields.next()?;
    let comma = device.iter().position(|&byte| byte == b',')?;
    let (major, minor) = (&device[..comma], &device[comma + 1..]);
    let plain = |field| number(field, "").is_ok();
    if !(plain(major) && plain(minor) && plain(fields.next()?) && plain(fields.next()?)) {
        return None;
    }
    let seconds = fields.next().filter(|seconds| seconds.contains(&b'.'))?;
    plain(fields.next()?).then_some(())?;
    let action = fields.next()?;
    let mut next = || fields.next().unwrap_or(b"");
    Some(Event { device, seconds, action, rwbs: next(), range: [next(), next(), next()] })
}

impl Event<'_> {
    fn range(&self) -> Result<Option<(u64, u32)>, Expected> {
        let [sector, plus, count] = self.range;
        if plus != b"+" {
            return Ok(None);
        }
        Ok(Some((sectors(sector, RANGE)?, length(sectors(count, RANGE)?, RANGE)?)))
    }
}
