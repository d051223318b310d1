//! The clients of a socket. Their number is limited; beyond it, the one that has been idle longest
//! is disconnected for a new one.
//!
//! Invariants:
//! - A busy client is never disconnected, and a disconnected one never becomes busy.
//! - At most two lines on clients are logged in [`QUIET`], however many clients there are.
//! - An error of accepting a client ends nothing, and the next attempt is delayed.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep};

/// The interval between log messages on disconnected clients.
const QUIET: Duration = Duration::from_secs(10);

/// The delay after an error of accepting, unless a client leaves.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// Clients, each served by a task.
pub(crate) struct Guests {
    /// Their kind, for the log.
    kind: &'static str,
    most: usize,
    tasks: JoinSet<()>,
    seats: Vec<Seat>,
    log: Seldom,
    /// Errors of accepting.
    failures: Seldom,
}

/// Held by a client's task as long as it serves.
pub(crate) struct Guest(Arc<Mutex<State>>);

/// A client that is served until this is dropped.
pub(crate) struct Busy<'a>(&'a Guest);

struct Seat {
    /// Gone with the task.
    state: Weak<Mutex<State>>,
    task: AbortHandle,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle(Instant),
    Busy,
    SentAway,
}

impl Guests {
    /// Room for `most` clients.
    pub(crate) fn new(kind: &'static str, most: usize) -> Self {
        let (log, failures) = (Seldom::default(), Seldom::default());
        Self { kind, most, tasks: JoinSet::new(), seats: Vec::new(), log, failures }
    }

    /// The next client from `accept`, however long that takes. `accept` may be dropped while it
    /// waits, if it has accepted nothing then; so may this.
    pub(crate) async fn newcomer<S, F>(&mut self, accept: impl Fn() -> F) -> S
    where
        F: Future<Output = io::Result<S>>,
    {
        loop {
            let error = tokio::select! {
                Some(()) = self.left() => continue,
                accepted = accept() => match accepted {
                    Ok(newcomer) => return newcomer,
                    Err(error) => error,
                },
            };
            if let Some(count) = self.failures.say() {
                tracing::warn!(clients = self.kind, %error, count, "could not accept a connection");
            }
            // Out of descriptors, most likely; a client that leaves gives one back.
            tokio::select! {
                Some(()) = self.left() => {}
                () = sleep(ACCEPT_AGAIN) => {}
            }
        }
    }

    /// Serves a new client, which is idle at first. If all are busy there is no room, and `serve`
    /// is dropped.
    pub(crate) fn admit<F>(&mut self, serve: impl FnOnce(Guest) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.seats.retain(|seat| seat.state.strong_count() > 0);
        if self.seats.len() >= self.most && !self.make_room() {
            self.tell("refused one: all are busy");
            return;
        }
        let state = Arc::new(Mutex::new(State::Idle(Instant::now())));
        let seat = Arc::downgrade(&state);
        let task = self.tasks.spawn(serve(Guest(state)));
        self.seats.push(Seat { state: seat, task });
    }

    /// When a client has left; `None` if there is none.
    pub(crate) async fn left(&mut self) -> Option<()> {
        if let Err(error) = self.tasks.join_next().await?
            && error.is_panic()
        {
            tracing::error!(clients = self.kind, %error, "a connection has ended early");
        }
        Some(())
    }

    /// Disconnects the client that has been idle longest; false if all are busy.
    fn make_room(&mut self) -> bool {
        let idle = self.seats.iter().enumerate().filter_map(|(at, seat)| {
            match *lock(&*seat.state.upgrade()?) {
                State::Idle(since) => Some((since, at)),
                State::Busy | State::SentAway => None,
            }
        });
        let Some((since, at)) = idle.min() else { return false };
        let seat = self.seats.swap_remove(at);
        if let Some(state) = seat.state.upgrade() {
            let mut state = lock(&state);
            if *state != State::Idle(since) {
                drop(state);
                self.seats.push(seat);
                return self.make_room();
            }
            *state = State::SentAway;
        }
        seat.task.abort();
        self.tell("an idle one gave way to another");
        true
    }

    fn tell(&mut self, what: &str) {
        if let Some(count) = self.log.say() {
            let most = self.most;
            tracing::warn!(clients = self.kind, most, count, "too many connections: {what}");
        }
    }
}

impl Guest {
    /// The client is busy from now on; `None` if it was disconnected.
    pub(crate) fn busy(&self) -> Option<Busy<'_>> {
        let mut state = lock(&self.0);
        if *state == State::SentAway {
            return None;
        }
        *state = State::Busy;
        drop(state);
        Some(Busy(self))
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        *lock(&self.0.0) = State::Idle(Instant::now());
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Limits how often a message is logged, and counts it.
#[derive(Default)]
pub(crate) struct Seldom {
    said: Option<Instant>,
    unsaid: u64,
}

impl Seldom {
    /// How often it happened since the last message, if a message is due.
    pub(crate) fn say(&mut self) -> Option<u64> {
        self.say_at(Instant::now())
    }

    fn say_at(&mut self, now: Instant) -> Option<u64> {
        self.unsaid += 1;
        if self.said.is_some_and(|said| now.duration_since(said) < QUIET) {
            return None;
        }
        self.said = Some(now);
        Some(std::mem::take(&mut self.unsaid))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::ready;

    use tokio::sync::oneshot;

    use super::*;

    /// A client that becomes busy on a signal; its name is sent when it leaves.
    fn client(guests: &mut Guests, busy: bool) -> oneshot::Receiver<()> {
        let (gone, left) = oneshot::channel();
        guests.admit(|guest| async move {
            let _gone = gone;
            let _busy = busy.then(|| guest.busy());
            std::future::pending().await
        });
        left
    }

    #[tokio::test]
    async fn the_oldest_idle_one_gives_way_and_a_busy_one_never() {
        let mut guests = Guests::new("test", 3);
        let mut busy = client(&mut guests, true);
        let mut old = client(&mut guests, false);
        tokio::task::yield_now().await;
        let mut young = client(&mut guests, false);
        let mut newcomer = client(&mut guests, true);
        assert!((&mut old).await.is_err(), "it is sent away");
        let mut last = client(&mut guests, true);
        assert!((&mut young).await.is_err());
        let refused = client(&mut guests, true);
        assert!(refused.await.is_err(), "all are busy");
        for stays in [&mut busy, &mut newcomer, &mut last] {
            assert_eq!(stays.try_recv(), Err(oneshot::error::TryRecvError::Empty));
        }
    }

    #[tokio::test]
    async fn a_client_that_leaves_makes_room() {
        let mut guests = Guests::new("test", 1);
        guests.admit(|guest| async move { drop(guest.busy()) });
        guests.left().await;
        let mut next = client(&mut guests, true);
        tokio::task::yield_now().await;
        assert_eq!(next.try_recv(), Err(oneshot::error::TryRecvError::Empty));
    }

    /// Out of descriptors.
    fn full() -> io::Error {
        io::Error::from_raw_os_error(libc::EMFILE)
    }

    /// The test's clock moves on when all tasks wait for it.
    #[tokio::test(start_paused = true)]
    async fn what_can_not_be_accepted_is_tried_again_and_not_at_once() {
        let mut guests = Guests::new("test", 3);
        let (tries, start) = (Cell::new(0), Instant::now());
        let accept = || {
            tries.set(tries.get() + 1);
            ready(if tries.get() <= 50 { Err(full()) } else { Ok("it") })
        };
        assert_eq!(guests.newcomer(accept).await, "it");
        assert_eq!((tries.get(), start.elapsed()), (51, 50 * ACCEPT_AGAIN));
    }

    #[tokio::test(start_paused = true)]
    async fn who_leaves_makes_room_for_what_could_not_be_accepted() {
        let mut guests = Guests::new("test", 3);
        let (leave, told) = oneshot::channel::<()>();
        guests.admit(|_| async move { drop(told.await) });
        let (leave, start) = (Cell::new(Some(leave)), Instant::now());
        let accept = || ready(if leave.take().is_some() { Err(full()) } else { Ok("it") });
        assert_eq!(guests.newcomer(accept).await, "it");
        assert_eq!(start.elapsed(), Duration::ZERO);
    }

    #[test]
    fn what_happens_often_is_said_seldom_and_counted() {
        let (mut log, start) = (Seldom::default(), Instant::now());
        assert_eq!(log.say_at(start), Some(1));
        let soon = start + QUIET - Duration::from_millis(1);
        assert_eq!((0..100).find_map(|_| log.say_at(soon)), None);
        assert_eq!(log.say_at(start + QUIET), Some(101));
    }
}
