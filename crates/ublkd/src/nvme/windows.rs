//! The windows of a drive in Predictable Latency Mode: a thread that has it follow orders when to collect
//! garbage, and looks whether it does. Nothing else waits for the drive.
//!
//! Invariants:
//! - A drive that was never given an order is told nothing.
//! - Whoever gives orders is not kept by the drive: no lock is held while it is asked.
//! - At its end the drive is in its non-deterministic window, as far as it can be told.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use super::ask::{Ask, Question, TIMEOUT};
use super::latency::{NvmSet, Told, Unpredictable, Window};
use crate::paths::shown;

/// How often a drive that has orders is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// After so many failures in a row nothing more is expected of it.
const TRIES: u32 = 3;

/// How the thread asks its drive.
pub(super) type Asker = Box<dyn FnMut(Question, &mut [u8]) -> io::Result<u32> + Send>;

/// When a drive is to collect garbage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// As it likes.
    LeftAlone,
    /// Not now.
    Hold,
    /// Now.
    Collect,
}

impl Order {
    fn window(self) -> Window {
        match self {
            Self::Hold => Window::Deterministic,
            Self::LeftAlone | Self::Collect => Window::NonDeterministic,
        }
    }
}

/// What became of a drive after a round.
#[derive(Debug)]
enum Next {
    /// It is to be seen to again at this time.
    At(Instant),
    /// Only after another order.
    Ordered,
    /// It takes no orders any more.
    Lost(Unpredictable),
}

/// What is known of a drive, and what is done about it.
struct Drive {
    path: PathBuf,
    set: NvmSet,
    told: Told,
    /// It is not asked for its deterministic window before: it would put it off.
    not_before: Instant,
    /// Failures in a row.
    failures: u32,
    /// Whether it was told to go to a window.
    was_told: bool,
    /// Whether it has left its deterministic window by itself.
    has_left: bool,
}

impl Drive {
    fn new(path: &Path, set: NvmSet, told: Told, now: Instant) -> Self {
        let path = path.to_path_buf();
        let (was_told, has_left) = (false, false);
        Self { path, set, told, not_before: now, failures: 0, was_told, has_left }
    }

    /// Sees to it that an order is followed.
    fn round(&mut self, now: Instant, order: Order, ask: &mut Ask<'_>) -> Next {
        match self.follow(now, order, ask) {
            Ok(next) => {
                self.failures = 0;
                next
            }
            // As after a reset of its controller.
            Err(off @ Unpredictable::Off) => Next::Lost(off),
            Err(why) if self.failures + 1 >= TRIES => Next::Lost(why),
            Err(why) => {
                self.failures += 1;
                tracing::debug!("{}: of its windows: {why}", shown(&self.path));
                Next::At(now + LOOK_EVERY)
            }
        }
    }

    fn follow(
        &mut self,
        now: Instant,
        order: Order,
        ask: &mut Ask<'_>,
    ) -> Result<Next, Unpredictable> {
        let window = order.window();
        if self.told.window != window {
            if window == Window::Deterministic && now < self.not_before {
                return Ok(Next::At(self.not_before));
            }
            self.was_told = true;
            self.set.go(window, &self.told, ask)?;
            self.told.window = window;
            if window == Window::NonDeterministic {
                self.not_before = now + self.told.other_stays;
            }
        } else if order != Order::LeftAlone {
            self.look(now, ask)?;
        }
        if order == Order::LeftAlone {
            return Ok(Next::Ordered);
        }
        Ok(Next::At(now + LOOK_EVERY))
    }

    /// Finds out where it is.
    fn look(&mut self, now: Instant, ask: &mut Ask<'_>) -> Result<(), Unpredictable> {
        let before = std::mem::replace(&mut self.told, self.set.look(ask)?).window;
        if (before, self.told.window) == (Window::Deterministic, Window::NonDeterministic) {
            self.not_before = now + self.told.other_least;
            if !std::mem::replace(&mut self.has_left, true) {
                tracing::info!(
                    "{}: it has left its deterministic window by itself, and may again: too much was \
                     read or written, or the windows of the others take longer than the {} ms that it \
                     can be in it",
                    shown(&self.path),
                    self.told.deterministic_most.as_millis()
                );
            }
        }
        Ok(())
    }

    /// Leaves it as it was found.
    fn leave(&self, ask: &mut Ask<'_>) {
        if !self.was_told {
            return;
        }
        if let Err(error) = self.set.go(Window::NonDeterministic, &self.told, ask) {
            tracing::debug!(
                path = %shown(&self.path), %error,
                "it stays in its deterministic window until it leaves that by itself"
            );
        }
    }
}

/// What the thread and whoever gives orders share.
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The last order, if there was one.
    order: Option<Order>,
    /// The window that the drive was last known to be in.
    window: Window,
    /// It takes no orders any more.
    is_lost: bool,
    /// It is to be left.
    ends: bool,
    /// The thread has ended.
    is_over: bool,
}

/// See the [module](self).
pub(crate) struct Windows {
    shared: Arc<Shared>,
    least: Duration,
}

/// A look at them from elsewhere.
#[derive(Clone)]
pub(crate) struct View(Arc<Shared>);

impl fmt::Debug for Windows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Windows").field("least", &self.least).finish_non_exhaustive()
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("View").field(&self.window()).finish()
    }
}

impl PartialEq for View {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for View {}

impl View {
    /// The window that the drive is in; nothing if it takes no orders any more.
    pub(crate) fn window(&self) -> Option<Window> {
        let state = self.0.lock();
        (!state.is_lost && !state.ends).then_some(state.window)
    }
}

impl Windows {
    /// Those of the NVM set of a namespace. One that an earlier process has left in its deterministic window
    /// is taken out of it.
    ///
    /// # Errors
    /// If it can't be told when to collect garbage.
    pub(super) fn of(
        path: &Path,
        (namespace, nvm_set): (u32, u16),
        mut ask: Asker,
    ) -> Result<Self, Unpredictable> {
        let (set, mut told) = NvmSet::of(namespace, nvm_set, &mut ask)?;
        if told.window == Window::Deterministic {
            set.go(Window::NonDeterministic, &told, &mut ask)?;
            told.window = Window::NonDeterministic;
        }
        Ok(Self::begin(Drive::new(path, set, told, Instant::now()), ask)?)
    }

    fn begin(mut drive: Drive, mut ask: Asker) -> io::Result<Self> {
        let state = State {
            order: None,
            window: drive.told.window,
            is_lost: false,
            ends: false,
            is_over: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let (at_end, least) = (Over(Arc::clone(&shared)), drive.told.other_least);
        Builder::new().name("latency windows".to_owned()).spawn(move || {
            let Over(shared) = &at_end;
            shared.serve(&mut drive, &mut ask);
        })?;
        Ok(Self { shared, least })
    }

    /// How long a window has to be in which it collects; nothing if it takes no orders any more.
    pub(crate) fn least(&self) -> Option<Duration> {
        (!self.shared.lock().is_lost).then_some(self.least)
    }

    /// Whether it may collect now, as far as it takes orders.
    pub(crate) fn is_collecting(&self) -> bool {
        let state = self.shared.lock();
        match state.order {
            _ if state.is_lost => false,
            None | Some(Order::LeftAlone) => false,
            Some(Order::Collect) => true,
            Some(Order::Hold) => state.window == Window::NonDeterministic,
        }
    }

    /// Orders it when to collect. This does not wait for it.
    pub(crate) fn order(&self, order: Order) {
        self.shared.lock().order = Some(order);
        self.shared.changed.notify_all();
    }

    /// It is to be left as it was found. This does not wait for it.
    pub(crate) fn end(&self) {
        self.shared.lock().ends = true;
        self.shared.changed.notify_all();
    }

    /// Whether it is left.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.lock().is_over
    }

    /// For looks from elsewhere.
    pub(crate) fn view(&self) -> View {
        View(Arc::clone(&self.shared))
    }
}

impl Drop for Windows {
    /// Waits until it is left, but not for a drive that does not answer.
    fn drop(&mut self) {
        self.end();
        let state = self.shared.lock();
        let waited = self.shared.changed.wait_timeout_while(state, TIMEOUT, |state| !state.is_over);
        if waited.is_ok_and(|(_, waited)| waited.timed_out()) {
            tracing::warn!("a drive does not answer that was to leave its deterministic window");
        }
    }
}

impl Shared {
    /// The state is consistent even after a panic.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, drive: &mut Drive, ask: &mut Ask<'_>) {
        let (mut next, mut followed) = (Next::Ordered, None);
        while let Some(order) = self.next_order(followed, &next) {
            followed = Some(order);
            next = drive.round(Instant::now(), order, ask);
            self.lock().window = drive.told.window;
            self.changed.notify_all();
            if let Next::Lost(why) = &next {
                tracing::warn!(
                    "{}: it is not told any more when to collect garbage: {why}",
                    shown(&drive.path)
                );
                self.lock().is_lost = true;
                break;
            }
        }
        drive.leave(ask);
    }

    /// What it is to follow now, after it has followed another order; nothing if it is to be left.
    fn next_order(&self, followed: Option<Order>, next: &Next) -> Option<Order> {
        let mut state = self.lock();
        loop {
            if state.ends {
                return None;
            }
            let left = match next {
                Next::At(at) => Some(at.saturating_duration_since(Instant::now())),
                Next::Ordered | Next::Lost(_) => None,
            };
            if state.order != followed || left == Some(Duration::ZERO) {
                return state.order;
            }
            state = match left {
                Some(left) => {
                    let waited = self.changed.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// Says that the thread has ended, however it has.
struct Over(Arc<Shared>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.lock().is_over = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
