//! A trace as a workload.

use std::fmt;
use std::path::{Path, PathBuf};

use det::Instant;
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer};

use super::fit::{EXTENT, Fit, Fitter, Misfit};
use super::{Action, Format, Selection, Trace, TraceError};
use crate::workload::{Arrival, Closed, Pace, WorkloadError};

/// A trace as a workload: the selected requests, their times and addresses.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// The trace; a relative path begins at the experiment's directory.
    pub file: PathBuf,
    /// Its format; found out by name and content if absent.
    pub format: Option<Format>,
    /// Which events of a blkparse trace are taken as requests.
    pub action: Option<Action>,
    /// Only these devices, by their names in the trace.
    pub devices: Option<Vec<Device>>,
    /// Whether all devices start at the start of the system. Otherwise each starts behind the one
    /// that was seen before it.
    #[serde(default)]
    pub merge: bool,
    /// How many requests to skip.
    #[serde(default)]
    pub skip: u64,
    /// The most requests of each pass.
    pub limit: Option<u64>,
    /// How many times faster than recorded.
    pub speed: Option<f64>,
    /// Requests a second in the mean, instead of `speed`.
    pub rate: Option<f64>,
    /// If given, requests come in a closed loop, not at their times.
    pub closed: Option<Closed>,
    /// How a trace is mapped that is larger than the system.
    #[serde(default)]
    pub fit: Fit,
    /// How many passes.
    #[serde(default, rename = "loop")]
    pub repeat: Repeat,
}

/// The name of a device: an integer or a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device(pub String);

/// How many times a trace is replayed: an integer, or `"forever"`. The mean time between requests
/// lies between the end of a pass and the start of the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// So often.
    Times(u64),
    /// Without end.
    Forever,
}

impl Default for Repeat {
    fn default() -> Self {
        Self::Times(1)
    }
}

impl Replay {
    pub(crate) fn check(&self) -> Result<(), WorkloadError> {
        let range = |key, value: f64, fits, expected| {
            if fits { Ok(()) } else { Err(WorkloadError::Range { key, value, expected }) }
        };
        for (key, value) in [("trace.speed", self.speed), ("trace.rate", self.rate)] {
            let value = value.unwrap_or(1.0);
            range(key, value, value > 0.0 && value.is_finite(), "above 0")?;
        }
        if self.speed.is_some() && self.rate.is_some() {
            return Err(WorkloadError::Both { one: "trace.speed", other: "trace.rate" });
        }
        range("trace.limit", 0.0, self.limit != Some(0), "at least 1")?;
        range("trace.loop", 0.0, self.repeat != Repeat::Times(0), "at least 1")?;
        self.closed.as_ref().map_or(Ok(()), Closed::check)
    }

    pub(crate) fn pace(&self) -> Pace {
        self.closed.as_ref().map_or(Pace::Open, Closed::pace)
    }

    /// The selected part of the trace.
    #[must_use]
    pub fn selection(&self) -> Selection {
        let names =
            |devices: &Vec<Device>| devices.iter().map(|Device(name)| name.clone()).collect();
        Selection {
            format: self.format,
            action: self.action,
            devices: self.devices.as_ref().map(names),
            skip: self.skip,
            limit: self.limit,
        }
    }

    /// Opens it for a system of `capacity` bytes.
    ///
    /// The trace is first read once if its rate or the sizes of its devices are needed.
    pub(crate) fn open(&self, capacity: u64, base: &Path) -> Result<Player, TraceError> {
        let path = base.join(&self.file);
        let selection = self.selection();
        let layout = match self.fit {
            Fit::Refuse => true,
            Fit::Wrap => !self.merge,
            Fit::Compact => false,
        };
        let survey = match layout || self.rate.is_some() {
            true => Survey::of(&path, &selection)?,
            false => Survey::default(),
        };
        let (bases, need) = survey.bases(self.merge);
        if self.fit == Fit::Refuse && need > capacity {
            return Err(TraceError::Beyond { path, need, capacity });
        }
        let speed = match self.rate {
            Some(_) if survey.nanos == 0 => return Err(TraceError::NoDuration { path }),
            Some(rate) => rate * survey.nanos as f64 / (survey.requests - 1) as f64 / 1e9,
            None => self.speed.unwrap_or(1.0),
        };
        Ok(Player {
            trace: Trace::open(&path, &selection)?,
            path,
            selection,
            fitter: Fitter::new(self.fit, bases, self.merge, capacity),
            capacity,
            closed: self.closed.is_some(),
            speed,
            repeat: self.repeat,
            begun: 0,
            latest: 0,
            requests: 0,
            failed: false,
        })
    }
}

/// Facts that are known only at the end of a trace.
#[derive(Default)]
struct Survey {
    /// Where each device ends.
    ends: Vec<u64>,
    requests: u64,
    nanos: u64,
}

impl Survey {
    fn of(path: &Path, selection: &Selection) -> Result<Self, TraceError> {
        let mut survey = Self::default();
        for record in Trace::open(path, selection)? {
            let record = record?;
            let device = record.device as usize;
            if survey.ends.len() <= device {
                survey.ends.resize(device + 1, 0);
            }
            let end = record.offset + u64::from(record.bytes);
            survey.ends[device] = survey.ends[device].max(end);
            survey.requests += 1;
            survey.nanos = record.at.0;
        }
        Ok(survey)
    }

    /// Where each device begins, and where the last one ends.
    fn bases(&self, merge: bool) -> (Vec<u64>, u64) {
        if merge {
            return (Vec::new(), self.ends.iter().copied().max().unwrap_or(0));
        }
        let (mut next, mut last) = (0u64, 0);
        let bases = self.ends.iter().map(|&end| {
            let base = next;
            last = base.saturating_add(end);
            next = last.checked_next_multiple_of(EXTENT).unwrap_or(u64::MAX);
            base
        });
        (bases.collect(), last)
    }
}

/// The requests of a [`Replay`].
pub(crate) struct Player {
    path: PathBuf,
    selection: Selection,
    trace: Trace,
    fitter: Fitter,
    capacity: u64,
    closed: bool,
    speed: f64,
    repeat: Repeat,
    /// When this pass began, its latest request, and how many it had so far.
    begun: u64,
    latest: u64,
    requests: u64,
    failed: bool,
}

impl Player {
    fn advance(&mut self) -> Result<Option<Arrival>, TraceError> {
        loop {
            if let Some(arrival) = self.fitter.take().map_err(|misfit| self.misfit(misfit))? {
                return Ok(Some(arrival));
            }
            match self.trace.next() {
                Some(record) => {
                    let record = record?;
                    let at = (record.at.0 as f64 / self.speed) as u64;
                    self.latest = self.begun.saturating_add(at);
                    self.requests += 1;
                    let at = if self.closed { 0 } else { self.latest };
                    self.fitter.put(Instant(at), record);
                }
                None if self.again()? => {}
                None => return Ok(None),
            }
        }
    }

    /// Begins the next pass, if there is one.
    fn again(&mut self) -> Result<bool, TraceError> {
        if let Repeat::Times(left) = &mut self.repeat {
            *left -= 1;
            if *left == 0 {
                return Ok(false);
            }
        }
        let gap = (self.latest - self.begun) / self.requests.saturating_sub(1).max(1);
        self.begun = self.latest.saturating_add(gap.max(1));
        self.requests = 0;
        self.trace = Trace::open(&self.path, &self.selection)?;
        Ok(true)
    }

    fn misfit(&self, misfit: Misfit) -> TraceError {
        let (path, capacity) = (self.path.clone(), self.capacity);
        match misfit {
            Misfit::Beyond(need) => TraceError::Beyond { path, need, capacity },
            Misfit::Full => TraceError::Wider { path, capacity },
        }
    }
}

impl Iterator for Player {
    type Item = Result<Arrival, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let arrival = self.advance();
        self.failed = !matches!(arrival, Ok(Some(_)));
        arrival.transpose()
    }
}

impl fmt::Debug for Player {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Player").field("trace", &self.trace).finish_non_exhaustive()
    }
}

impl<'de> Deserialize<'de> for Device {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match deserializer.deserialize_any(IntegerOrText("a device: 0, \"hm_1\" or \"8,16\""))? {
            Either::Integer(number) => Ok(Self(number.to_string())),
            Either::Text(name) => Ok(Self(name)),
        }
    }
}

impl<'de> Deserialize<'de> for Repeat {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a number of passes, or \"forever\"";
        match deserializer.deserialize_any(IntegerOrText(expected))? {
            Either::Integer(times) => Ok(Self::Times(times)),
            Either::Text(text) if text == "forever" => Ok(Self::Forever),
            Either::Text(_) => Err(D::Error::custom(format!("expected {expected}"))),
        }
    }
}

enum Either {
    Integer(u64),
    Text(String),
}

struct IntegerOrText(&'static str);

impl Visitor<'_> for IntegerOrText {
    type Value = Either;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Either, E> {
        Ok(Either::Integer(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Either, E> {
        let negative = |_| E::custom(format!("expected {}", self.0));
        u64::try_from(value).map(Either::Integer).map_err(negative)
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Either, E> {
        Ok(Either::Text(value.into()))
    }
}
