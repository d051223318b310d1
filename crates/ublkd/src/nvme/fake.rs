//! A drive with NVM sets, for tests: what it answers to which questions.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use super::ask::Question;
use super::latency::Unpredictable;
use super::windows::{Asker, Windows};

/// A controller whose NVM set 5 has the namespace 7.
pub(super) struct Drive {
    pub(super) attributes: u32,
    /// The NVM sets of namespaces.
    pub(super) sets: BTreeMap<u32, u16>,
    /// The log page of the set.
    pub(super) log: Vec<u8>,
    /// The opcode that it refuses.
    pub(super) refuses: Option<u8>,
    /// All that it was asked.
    pub(super) asked: Vec<Question>,
}

/// The log page of a set with this status: at most 5 s in its deterministic window, at least 2 s in the other
/// one after that, and never less than 300 ms. The rest of it is what must not be taken for either.
pub(super) fn log(status: u8) -> Vec<u8> {
    let mut log = vec![0xee; 512];
    log[0] = 0xf8 | status;
    for (at, milliseconds) in [(48, 5000), (56, 2000), (64, 300)] {
        log[at..at + 8].copy_from_slice(&u64::to_le_bytes(milliseconds));
    }
    log
}

impl Default for Drive {
    /// In its non-deterministic window.
    fn default() -> Self {
        let (attributes, sets) = (1 << 2 | 1 << 5, BTreeMap::from([(7, 5)]));
        Self { attributes, sets, log: log(2), refuses: None, asked: Vec::new() }
    }
}

impl Drive {
    pub(super) fn answer(&mut self, question: Question, into: &mut [u8]) -> io::Result<u32> {
        self.asked.push(question);
        if self.refuses == Some(question.opcode) {
            return Err(io::Error::other("no"));
        }
        match (question.opcode, question.dword10) {
            (0x06, 0) => {
                let set = self.sets[&question.namespace];
                into[100..102].copy_from_slice(&set.to_le_bytes());
            }
            (0x06, 1) => into[96..100].copy_from_slice(&self.attributes.to_le_bytes()),
            (0x06, 2) => {
                into.fill(0);
                let above = self.sets.keys().filter(|number| **number > question.namespace);
                for (number, into) in above.zip(into.chunks_mut(4)) {
                    into.copy_from_slice(&number.to_le_bytes());
                }
            }
            // 128 dwords, and events stay.
            (0x02, 0x007f_800a) => into.copy_from_slice(&self.log),
            // It goes where it is told to.
            (0x09, 0x14) => self.log[0] = 0xf8 | question.dword12 as u8,
            _ => panic!("an unknown question: {question:?}"),
        }
        Ok(0)
    }

    /// The windows that it was told to go to, since the last time.
    pub(super) fn told(&mut self) -> Vec<u32> {
        let asked = std::mem::take(&mut self.asked).into_iter();
        asked.filter(|question| question.opcode == 0x09).map(|question| question.dword12).collect()
    }
}

/// A drive that a thread asks.
#[derive(Clone, Default)]
pub(crate) struct Asked(Arc<(Mutex<Drive>, Condvar)>);

impl Asked {
    fn asker(&self) -> Asker {
        let Self(shared) = self.clone();
        Box::new(move |question, into| {
            let answer = shared.0.lock().expect("no test has panicked").answer(question, into);
            shared.1.notify_all();
            answer
        })
    }

    /// Its windows, if it takes orders.
    pub(crate) fn windows(&self) -> Result<Windows, Unpredictable> {
        Windows::of(Path::new("/dev/ng0n7"), (7, 5), self.asker())
    }

    pub(super) fn drive(&self) -> MutexGuard<'_, Drive> {
        self.0.0.lock().expect("no test has panicked")
    }

    /// From now on its mode is off.
    pub(crate) fn turn_off(&self) {
        self.drive().log = log(0);
    }

    /// Waits until it was told to go to these windows: 1 is the deterministic one, 2 the other.
    pub(crate) fn wait(&self, expected: &[u32]) {
        let told = |drive: &mut Drive| {
            let told = drive.asked.iter().filter(|question| question.opcode == 0x09);
            told.map(|question| question.dword12).ne(expected.iter().copied())
        };
        let _waited = self.0.1.wait_while(self.drive(), told).expect("no test has panicked");
    }
}
