//! What was told, so that another process does not tell it again: until the next boot.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use evenkeel_client::paths::shown;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};
use ublkd::run_dir;

use super::message::Message;
use super::ways::Way;

/// For how long something has to be gone until it is told again, in seconds.
const FORGET: u64 = 3600;

/// For how long a mail or webhook that fails is tried again, in seconds.
const TRIED: u64 = 86_400;

/// How many wait to be tried again.
const WAITING_MAX: usize = 100;

/// What is known of the arrays of a machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct State {
    #[serde(default)]
    pub(super) arrays: BTreeMap<String, Known>,
    /// What could not be sent.
    #[serde(default)]
    waiting: Vec<Waiting>,
}

/// What is known of an array.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Known {
    pub(super) uuid: Option<String>,
    /// Up to which entry its history was read.
    pub(super) number: u64,
    /// Since when it gives no answer, in seconds since 1970.
    pub(super) silent_since: Option<u64>,
    /// What was told, and until when it was seen.
    told: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Waiting {
    way: Way,
    message: Message,
    since: u64,
}

impl Known {
    /// Whether something that is seen now is new.
    pub(super) fn is_new(&mut self, key: &str, now: u64) -> bool {
        self.told.insert(key.to_owned(), now).is_none()
    }

    /// Something that is seen now is not told.
    pub(super) fn has_told(&self, is_it: impl Fn(&str) -> bool) -> bool {
        self.told.keys().any(|key| is_it(key))
    }

    /// Forgets what was not seen for long.
    pub(super) fn forget(&mut self, now: u64) {
        self.told.retain(|_, seen| now.saturating_sub(*seen) < FORGET);
    }
}

impl State {
    /// A message about an occurrence was told; `next` is the state when all of a round is.
    pub(super) fn told(&mut self, (key, message): (&str, &Message), next: &Self, now: u64) {
        let number = next.arrays.get(&message.array).map_or(0, |next| next.number);
        let known = self.arrays.entry(message.array.clone());
        let known = known.or_insert_with(|| Known { number, ..Known::default() });
        known.is_new(key, now);
    }

    /// A round is over: all that is new is told.
    pub(super) fn follow(&mut self, next: Self) {
        self.arrays = next.arrays;
    }

    /// A message that could not be sent is tried again. Hooks are not: they may have done a part.
    pub(super) fn try_again(&mut self, way: Way, message: &Message, now: u64) {
        if !matches!(way, Way::Hook(_)) && self.waiting.len() < WAITING_MAX {
            self.waiting.push(Waiting { way, message: message.clone(), since: now });
        }
    }

    /// What is tried again now; `send` tells whether it went.
    pub(super) fn retry(&mut self, now: u64, mut send: impl FnMut(&Message, &Way) -> bool) {
        self.waiting.retain(|waiting| {
            now.saturating_sub(waiting.since) < TRIED && !send(&waiting.message, &waiting.way)
        });
    }
}

/// The file of the state, which one process alone has.
#[derive(Debug)]
pub(super) struct Store {
    path: PathBuf,
    /// It is locked until the process ends.
    _lock: File,
}

impl Store {
    /// # Errors
    /// If another process has it, or it can't be read.
    pub(super) fn open(run_dir: &Path) -> Result<(Self, State)> {
        run_dir::prepare(run_dir)?;
        let at = |name: &str| run_dir.join(name);
        let lock = at("monitor.lock");
        let lock = options().create(true).open(&lock).with_context(|| shown(&lock).to_string())?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => bail!(
                "another `evenkeel monitor` watches the arrays of {}; `evenkeel monitor --once` tells what \
                 is wrong now beside it",
                shown(run_dir)
            ),
            Err(TryLockError::Error(error)) => return Err(error.into()),
        }
        let path = at("monitor.json");
        let state = match fs::read(&path) {
            // What a crash has torn is told again.
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => State::default(),
            Err(error) => return Err(error).with_context(|| shown(&path).to_string()),
        };
        Ok((Self { path, _lock: lock }, state))
    }

    /// # Errors
    /// If it can't be written.
    pub(super) fn save(&self, state: &State) -> Result<()> {
        let new = self.path.with_extension("json.new");
        let write = || -> io::Result<()> {
            options()
                .create(true)
                .truncate(true)
                .open(&new)?
                .write_all(&serde_json::to_vec(state)?)?;
            fs::rename(&new, &self.path)
        };
        write().with_context(|| shown(&self.path).to_string())
    }
}

/// Webhooks' URLs may be secrets.
fn options() -> OpenOptions {
    let mut options = File::options();
    options.write(true).mode(0o600).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}
