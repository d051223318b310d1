//! Maps a trace's addresses to a system that may be smaller than the traced one.

use std::collections::HashMap;

use det::Instant;
use serde::Deserialize;

use super::Record;
use crate::arrival::{Arrival, Kind};

/// How a trace is mapped that is larger than the system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fit {
    /// It is an error.
    #[default]
    Refuse,
    /// Addresses are taken modulo the capacity. Distinct places may coincide.
    Wrap,
    /// Extents of 64 KiB are packed in the order in which they are first read or written. Distinct
    /// places stay distinct, but not their distances. A request over extents that are no longer
    /// adjacent becomes several, at the same time.
    Compact,
}

/// Addresses within an extent stay together.
pub(super) const EXTENT: u64 = 64 << 10;

/// Why a request can't be mapped.
pub(super) enum Misfit {
    /// It ends here.
    Beyond(u64),
    /// There are more extents than in the system.
    Full,
}

/// Cuts records into requests for the system.
pub(super) struct Fitter {
    places: Places,
    capacity: u64,
    /// What is left of the last record.
    rest: Option<(Instant, Record)>,
}

enum Places {
    /// The start of each device; devices beyond the list start at 0.
    Refuse(Vec<u64>),
    Wrap(Vec<u64>),
    /// From device and extent to the extent of the system.
    Compact {
        merge: bool,
        extents: HashMap<(u32, u64), u64>,
    },
}

impl Fitter {
    /// `bases` has the start of each device; all start at 0 with `merge`.
    pub(super) fn new(fit: Fit, bases: Vec<u64>, merge: bool, capacity: u64) -> Self {
        let places = match fit {
            Fit::Refuse => Places::Refuse(bases),
            Fit::Wrap => Places::Wrap(bases),
            Fit::Compact => Places::Compact { merge, extents: HashMap::new() },
        };
        Self { places, capacity, rest: None }
    }

    /// Takes the next record, after all requests of the last one have been taken.
    pub(super) fn put(&mut self, at: Instant, record: Record) {
        self.rest = Some((at, record));
    }

    /// The next request of the record.
    pub(super) fn take(&mut self) -> Result<Option<Arrival>, Misfit> {
        while let Some((at, record)) = self.rest.take() {
            let kind = record.kind;
            if kind == Kind::Flush {
                return Ok(Some(Arrival { at, kind, offset: 0, bytes: 0 }));
            }
            let Record { device, offset, bytes, .. } = record;
            let base = |bases: &[u64]| bases.get(device as usize).copied().unwrap_or(0);
            let (place, length) = match &mut self.places {
                Places::Refuse(bases) => {
                    let place = base(bases).saturating_add(offset);
                    let end = place.saturating_add(u64::from(bytes));
                    if end > self.capacity {
                        return Err(Misfit::Beyond(end));
                    }
                    (place, bytes)
                }
                Places::Wrap(bases) => {
                    // Whole pages, to keep alignment.
                    let modulus = self.capacity / 4096 * 4096;
                    if modulus == 0 {
                        return Err(Misfit::Beyond(4096));
                    }
                    let place = u128::from(base(bases)) + u128::from(offset);
                    let place = (place % u128::from(modulus)) as u64;
                    (place, bytes_up_to(bytes, modulus - place))
                }
                Places::Compact { merge, extents } => {
                    let device = if *merge { 0 } else { device };
                    let (place, length) = compact(extents, self.capacity, device, record)?;
                    let Some(place) = place else {
                        // Discards of untouched extents have no effect.
                        self.rest = behind(record, length).map(|record| (at, record));
                        continue;
                    };
                    (place, length)
                }
            };
            self.rest = behind(record, length).map(|record| (at, record));
            return Ok(Some(Arrival { at, kind, offset: place, bytes: length }));
        }
        Ok(None)
    }
}

/// Where the first part of a record is, and its length; no place for a discard of an untouched
/// extent.
fn compact(
    extents: &mut HashMap<(u32, u64), u64>,
    capacity: u64,
    device: u32,
    record: Record,
) -> Result<(Option<u64>, u32), Misfit> {
    let Record { kind, offset, bytes, .. } = record;
    let mut place_of = |extent: u64| {
        let next = extents.len() as u64;
        match extents.get(&(device, extent)) {
            Some(&place) => Ok(Some(place)),
            None if kind == Kind::Discard => Ok(None),
            None if next >= capacity / EXTENT => Err(Misfit::Full),
            None => {
                extents.insert((device, extent), next);
                Ok(Some(next))
            }
        }
    };
    let (first, inside) = (offset / EXTENT, offset % EXTENT);
    let start = place_of(first)?;
    let mut length = bytes_up_to(bytes, EXTENT - inside);
    let mut ahead = 1;
    while length < bytes {
        let expected = start.map(|start| start + ahead);
        if place_of(first + ahead)? != expected {
            break;
        }
        length = length.saturating_add(EXTENT as u32).min(bytes);
        ahead += 1;
    }
    Ok((start.map(|start| start * EXTENT + inside), length))
}

/// The rest of a record after its first `length` bytes.
fn behind(record: Record, length: u32) -> Option<Record> {
    let bytes = record.bytes - length;
    let offset = record.offset + u64::from(length);
    (bytes > 0).then_some(Record { offset, bytes, ..record })
}

fn bytes_up_to(bytes: u32, most: u64) -> u32 {
    u32::try_from(most).unwrap_or(u32::MAX).min(bytes)
}
