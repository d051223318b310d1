//! I/O on a single device, one request for each thread at a time, to see how long it takes.
//!
//! A file that is modelled as an SSD takes as long as the model says; its state is stored in the end.

use std::collections::HashSet;
use std::io;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant as Clock};

use det::Instant;
use flashsim::real::{Io, RealTime};
use raidcore::units::{BLOCK_BYTES, Pba};

use crate::flash::{self, FlashError};
use crate::members::Device;

/// How long a thread waits at most before it looks at a model again.
const LOOK: Duration = Duration::from_millis(10);

/// How much is given back at a time in the end.
const PUNCHED: u64 = (256 << 20) / BLOCK_BYTES as u64;

/// A device that is probed.
#[derive(Debug)]
pub struct Target {
    device: Device,
    model: Option<Model>,
}

/// The SSD that a file is modelled as, by the clock.
#[derive(Debug)]
struct Model {
    began: Clock,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    drive: RealTime,
    tag: u64,
    done: HashSet<u64>,
}

impl Target {
    /// For a device.
    #[must_use]
    pub fn new(mut device: Device) -> Self {
        let model = device.take_flash().map(|ssd| {
            let drive = RealTime::new(*ssd, Instant::ORIGIN);
            let state = Mutex::new(State { drive, tag: 0, done: HashSet::new() });
            Model { began: Clock::now(), state, ended: Condvar::new() }
        });
        Self { device, model }
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether it is modelled as an SSD.
    #[must_use]
    pub fn is_modelled(&self) -> bool {
        self.model.is_some()
    }

    /// Reads whole blocks.
    ///
    /// # Errors
    /// As [`Device::read_at`].
    pub fn read(&self, at: Pba, into: &mut [u8]) -> io::Result<()> {
        let bytes = into.len();
        self.timed(Io::Read, at, bytes as u64, || self.device.read_at(at, into))
    }

    /// Writes whole blocks.
    ///
    /// # Errors
    /// As [`Device::write_at`].
    pub fn write(&self, at: Pba, from: &[u8]) -> io::Result<()> {
        let io = Io::Write { durable: false, stream: 0 };
        self.timed(io, at, from.len() as u64, || self.device.write_at(at, from))
    }

    /// Gives the first blocks back, so that nothing of what was written is left, and stores a model's state.
    ///
    /// # Errors
    /// If the state can't be stored. Where a device can't give blocks back, their content stays.
    pub fn finish(self, written: u64) -> Result<(), FlashError> {
        for at in (0..written).step_by(PUNCHED as usize) {
            let blocks = PUNCHED.min(written - at);
            let bytes = blocks * BLOCK_BYTES as u64;
            let punched =
                self.timed(Io::Discard, Pba(at), bytes, || self.device.punch(Pba(at), blocks));
            if let Err(error) = punched {
                tracing::debug!(%error, "could not give blocks back");
                break;
            }
        }
        let Some(model) = self.model.filter(|_| written > 0) else { return Ok(()) };
        let state = model.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        flash::store(self.device.path(), &state.drive.save())
    }

    /// Does an I/O, and ends when the model has ended it, too.
    fn timed(
        &self,
        io: Io,
        at: Pba,
        bytes: u64,
        work: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        let Some(model) = &self.model else { return work() };
        let tag = model.begin(io, at.0 * BLOCK_BYTES as u64, bytes);
        let done = work();
        model.wait(tag);
        done
    }
}

impl Model {
    fn now(&self) -> Instant {
        Instant::ORIGIN + self.began.elapsed()
    }

    fn begin(&self, io: Io, at: u64, bytes: u64) -> u64 {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.tag += 1;
        let tag = state.tag;
        state.drive.begin(self.now(), tag, io, at, bytes);
        tag
    }

    /// Until the model has ended a request. Whoever waits lets everything happen that is due.
    fn wait(&self, tag: u64) {
        let mut ended = Vec::new();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let now = self.now();
            state.drive.poll(now, &mut ended);
            if !ended.is_empty() {
                state.done.extend(ended.drain(..).map(|ended| ended.tag));
                self.ended.notify_all();
            }
            if state.done.remove(&tag) {
                return;
            }
            let next = state.drive.next().map_or(LOOK, |next| next - self.now());
            let waited = self.ended.wait_timeout(state, next.min(LOOK));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use flashsim::{Precondition, Profile, Ssd};

    use super::*;
    use crate::members::OpenOptions;

    #[test]
    fn a_modelled_file_takes_as_long_as_its_model_and_is_empty_afterwards() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("m");
        let file = std::fs::File::create(&path).expect("a file");
        file.set_len(16 << 20).expect("a sparse file");
        let profile = Profile::builtin("femu-ioda").and_then(|p| p.covering(16 << 20));
        let profile = profile.expect("a profile");
        let drive = Ssd::new(&profile, Precondition::Fresh, 1).expect("a drive");
        let device = Device::open(&path, OpenOptions::default()).expect("it is there");
        let target = Target::new(device.with_flash(path.clone(), drive));
        assert!(target.is_modelled());
        let began = Clock::now();
        let block = [7; BLOCK_BYTES];
        for at in 0..4 {
            target.write(Pba(at), &block).expect("it writes");
        }
        let least = Duration::from_secs_f64(4.0 * profile.nand.program_us / 1e6);
        assert!(began.elapsed() >= least, "the model programs four pages");
        let mut read = [0; BLOCK_BYTES];
        target.read(Pba(3), &mut read).expect("it reads");
        assert_eq!(read, block);
        target.finish(4).expect("its state is stored");
        assert!(std::fs::read(&path).expect("the file").iter().all(|&byte| byte == 0));
        let again = Device::open(&path, OpenOptions::default()).expect("it is there");
        assert_eq!(again.flash_profile(), Some(profile.name.as_str()));
    }
}
