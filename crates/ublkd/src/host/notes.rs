//! Events for operators, with their times, for all that follow them.

use std::collections::VecDeque;

use raidcore::engine::Note;
use raidlog::GroupId;
use tokio::sync::broadcast::{self, error::RecvError};

use crate::volume::block_on;

/// How many are kept for later followers, and how far a follower can lag.
const KEPT: usize = 256;

/// Something that happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Happened {
    /// To an array.
    Array {
        /// Which group of a log volume it is; the first if it is none.
        group: GroupId,
        /// What.
        note: Note,
    },
    /// To the log volume.
    Volume(raidlog::Note),
}

/// An event and its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// In seconds since 1970.
    pub at: u64,
    /// What happened.
    pub what: Happened,
}

/// An array's events: the latest 256, then those to come.
#[derive(Debug)]
pub struct Notes {
    past: VecDeque<Event>,
    live: Option<broadcast::Receiver<Event>>,
}

impl Notes {
    /// The kept events that were not followed yet.
    pub fn past(&self) -> impl Iterator<Item = &Event> {
        self.past.iter()
    }

    /// The next event, once there is one; `None` when the data thread has ended. A follower that
    /// lags by more than 256 misses events.
    pub async fn next(&mut self) -> Option<Event> {
        if let Some(event) = self.past.pop_front() {
            return Some(event);
        }
        let live = self.live.as_mut()?;
        loop {
            match live.recv().await {
                Ok(event) => return Some(event),
                Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// The same; the thread sleeps until then.
    pub fn next_blocking(&mut self) -> Option<Event> {
        block_on(self.next())
    }
}

/// Where events are put.
#[derive(Debug)]
pub(super) struct Log {
    past: VecDeque<Event>,
    /// None when there will be no more.
    live: Option<broadcast::Sender<Event>>,
}

impl Log {
    pub(super) fn new() -> Self {
        Self { past: VecDeque::with_capacity(KEPT), live: Some(broadcast::Sender::new(KEPT)) }
    }

    pub(super) fn push(&mut self, event: Event) {
        if self.past.len() == KEPT {
            self.past.pop_front();
        }
        self.past.push_back(event);
        if let Some(live) = &self.live {
            // An error only says that there is no receiver.
            let _ = live.send(event);
        }
    }

    pub(super) fn subscribe(&self) -> Notes {
        Notes {
            past: self.past.clone(),
            live: self.live.as_ref().map(broadcast::Sender::subscribe),
        }
    }

    pub(super) fn end(&mut self) {
        self.live = None;
    }
}
