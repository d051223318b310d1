//! Predictable Latency Mode of an NVM set, as of the NVM Express Base Specification: whether a namespace's
//! set is in it, in which of its windows the set is, and how it is told.
//!
//! In the deterministic window (DTWIN) a drive does not collect garbage, in the non-deterministic one
//! (NDWIN) it may. It leaves the first by itself when that has been too long or too much was read or
//! written.

use std::io;
use std::time::Duration;

use super::ask::{Ask, CONTROLLER, IDENTIFY, IDENTIFY_BYTES, Question, attributes};
use super::namespace;
use crate::members::BlockBuffer;

/// The bits of a controller's attributes for drives with NVM sets and with Predictable Latency Mode.
const HAS_SETS: u32 = 1 << 2;
const HAS_MODE: u32 = 1 << 5;

/// Of command dword 10 of "Identify": the namespaces above a number.
const NAMESPACES: u32 = 2;

/// The admin command "Get Log Page", and of its dword 10 "Predictable Latency Per NVM Set", and that events
/// which others wait for stay.
const GET_LOG: u8 = 0x02;
const SET_LOG: u32 = 0x0a;
const RETAIN_EVENTS: u32 = 1 << 15;

/// How long that page is.
const LOG_BYTES: usize = 512;

/// Where in it the status is, and those of its bits that count.
const STATUS: usize = 0;
const STATUS_BITS: u8 = 7;

/// Where in it the times are, in milliseconds.
const DETERMINISTIC_MOST: usize = 48;
const OTHER_LEAST_HIGH: usize = 56;
const OTHER_LEAST_LOW: usize = 64;

/// The admin command "Set Features", and the feature "Predictable Latency Mode Window".
const SET_FEATURES: u8 = 0x09;
const WINDOW_FEATURE: u32 = 0x14;

/// Windows that have to be longer are of no use.
const LONGEST: Duration = Duration::from_secs(60);

/// Which window a set is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Window {
    /// It does not collect garbage.
    Deterministic,
    /// It may.
    NonDeterministic,
}

/// What a set tells of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Told {
    /// The window that it is in.
    pub window: Window,
    /// For how long it can be in the deterministic one.
    pub deterministic_most: Duration,
    /// For how long it has to be in the other one after that …
    pub other_least: Duration,
    /// … and at the least: it may put off a change before.
    pub other_stays: Duration,
}

/// Why a namespace can't be told when to collect garbage.
#[derive(Debug, thiserror::Error)]
pub enum Unpredictable {
    /// The drive does not know how.
    #[error("the drive has no Predictable Latency Mode")]
    Unsupported,
    /// It is in no set.
    #[error("it is in no NVM set")]
    NoSet,
    /// What it is told concerns another namespace, too.
    #[error("namespace {0} is in its NVM set, too")]
    Shared(u32),
    /// It knows how, and was not told to.
    #[error("Predictable Latency Mode is off in its NVM set")]
    Off,
    /// Its windows are too long to be of use.
    #[error("its non-deterministic windows have to be {} s long", .0.as_secs())]
    Long(Duration),
    /// What it tells is not as the specification has it.
    #[error("what it tells of its windows makes no sense")]
    Malformed,
    /// It can't be asked.
    #[error(transparent)]
    NotAsked(#[from] io::Error),
}

/// What the log page of a set tells.
///
/// # Errors
/// If the set is not in the mode, its windows are of no use, or the page is none.
pub fn parse(log: &[u8]) -> Result<Told, Unpredictable> {
    let time = |at: usize| {
        let bytes = log.get(at..).and_then(|bytes| bytes.first_chunk()).copied();
        bytes.map(u64::from_le_bytes).map(Duration::from_millis).ok_or(Unpredictable::Malformed)
    };
    let status = log.get(STATUS).ok_or(Unpredictable::Malformed)? & STATUS_BITS;
    let other_stays = time(OTHER_LEAST_LOW)?;
    let told = Told {
        window: match status {
            0 => return Err(Unpredictable::Off),
            1 => Window::Deterministic,
            2 => Window::NonDeterministic,
            _ => return Err(Unpredictable::Malformed),
        },
        deterministic_most: time(DETERMINISTIC_MOST)?,
        other_least: time(OTHER_LEAST_HIGH)?.max(other_stays),
        other_stays,
    };
    if told.deterministic_most.is_zero() {
        return Err(Unpredictable::Malformed);
    }
    if told.other_least > LONGEST {
        return Err(Unpredictable::Long(told.other_least));
    }
    Ok(told)
}

/// An NVM set by its identifier, which is not 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct NvmSet(u16);

impl NvmSet {
    /// The set that a namespace is in alone, if it is in the mode, and what it tells.
    ///
    /// # Errors
    /// If it can't be told when to collect garbage.
    pub(super) fn of(
        namespace: u32,
        nvm_set: u16,
        ask: &mut Ask<'_>,
    ) -> Result<(Self, Told), Unpredictable> {
        let mut answer = BlockBuffer::new(IDENTIFY_BYTES)?;
        let controller = Question { opcode: IDENTIFY, dword10: CONTROLLER, ..Question::default() };
        ask(controller, &mut answer)?;
        let has = HAS_SETS | HAS_MODE;
        if attributes(&answer) & has != has {
            return Err(Unpredictable::Unsupported);
        }
        if nvm_set == 0 {
            return Err(Unpredictable::NoSet);
        }
        let set = Self(nvm_set);
        let told = set.look(ask)?;
        match set.other_namespace(namespace, ask)? {
            Some(other) => Err(Unpredictable::Shared(other)),
            None => Ok((set, told)),
        }
    }

    /// Another namespace of the controller that is in the set, if there is one.
    fn other_namespace(
        self,
        namespace: u32,
        ask: &mut Ask<'_>,
    ) -> Result<Option<u32>, Unpredictable> {
        let mut list = BlockBuffer::new(IDENTIFY_BYTES)?;
        let mut answer = BlockBuffer::new(IDENTIFY_BYTES)?;
        let mut last = 0;
        loop {
            let above = Question {
                opcode: IDENTIFY,
                dword10: NAMESPACES,
                namespace: last,
                ..Question::default()
            };
            ask(above, &mut list)?;
            let (numbers, _) = list.as_chunks();
            for number in numbers.iter().copied().map(u32::from_le_bytes) {
                if number == 0 {
                    return Ok(None);
                }
                if number <= last {
                    return Err(Unpredictable::Malformed);
                }
                last = number;
                if number == namespace {
                    continue;
                }
                ask(
                    Question { opcode: IDENTIFY, namespace: number, ..Question::default() },
                    &mut answer,
                )?;
                if namespace::nvm_set(&answer) == Some(self.0) {
                    return Ok(Some(number));
                }
            }
        }
    }

    /// What it tells now.
    ///
    /// # Errors
    /// As from [`parse`], or if it can't be asked.
    pub(super) fn look(self, ask: &mut Ask<'_>) -> Result<Told, Unpredictable> {
        let mut answer = BlockBuffer::new(LOG_BYTES)?;
        let dwords = (LOG_BYTES / size_of::<u32>() - 1) as u32;
        let question = Question {
            opcode: GET_LOG,
            dword10: SET_LOG | RETAIN_EVENTS | dwords << 16,
            dword11: u32::from(self.0) << 16,
            ..Question::default()
        };
        ask(question, &mut answer)?;
        parse(&answer[..LOG_BYTES])
    }

    /// Has it go to a window. It is there when this returns, which it may put off for as long as
    /// [`Told::other_stays`].
    ///
    /// # Errors
    /// If it refuses, or can't be asked.
    pub(super) fn go(self, window: Window, told: &Told, ask: &mut Ask<'_>) -> io::Result<()> {
        let (select, put_off) = match window {
            Window::Deterministic => (1, told.other_stays),
            Window::NonDeterministic => (2, Duration::ZERO),
        };
        let question = Question {
            opcode: SET_FEATURES,
            dword10: WINDOW_FEATURE,
            dword11: self.0.into(),
            dword12: select,
            put_off,
            ..Question::default()
        };
        ask(question, &mut []).map(drop)
    }
}

#[cfg(test)]
mod tests;
