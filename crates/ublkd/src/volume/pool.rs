//! Decides which waiter gets a free tag.
//!
//! A share without tags gets any free tag. A share with tags gets another only while more are free
//! than it holds, and more than a reserve. So a new share finds one, however many the others want
//! and however long they keep them, unless there are very many shares.
//!
//! Invariants:
//! - A tag is free, or in exactly one buffer.
//! - A waiter that may have a free tag gets it: after freeing a tag the queue is checked, and after
//!   joining the queue the tags are checked.
//! - Waiters are served in order, except those that hold too much.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use raidcore::units::Tag;
use tokio::sync::oneshot;

use super::tags::Tags;
use super::{Buffer, Shared};

/// One in this many tags is reserved for shares that hold none.
const TAGS_PER_RESERVED: usize = 8;

/// How many buffers a share holds; `None` counts as a share that never holds any.
pub(super) type Held = Option<Arc<AtomicUsize>>;

/// See the [module](self).
pub(super) struct Pool {
    tags: Tags,
    reserve: usize,
    /// The length of the queue.
    waiting: AtomicUsize,
    line: Mutex<VecDeque<Waiter>>,
}

struct Waiter {
    held: Held,
    told: oneshot::Sender<Buffer>,
}

impl Pool {
    pub(super) fn new(tags: u16) -> Self {
        let reserve = usize::from(tags) / TAGS_PER_RESERVED;
        Self {
            tags: Tags::new(tags),
            reserve,
            waiting: AtomicUsize::new(0),
            line: Mutex::default(),
        }
    }

    /// A tag for a share that holds `held` tags, if it may have another.
    fn take(&self, held: &Held) -> Option<Tag> {
        if !self.may_have(held) {
            return None;
        }
        let tag = self.tags.take()?;
        if let Some(held) = held {
            held.fetch_add(1, Ordering::SeqCst);
        }
        Some(tag)
    }

    fn may_have(&self, held: &Held) -> bool {
        let has = count(held);
        has == 0 || self.tags.free() > has.max(self.reserve)
    }

    fn line(&self) -> MutexGuard<'_, VecDeque<Waiter>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn count(held: &Held) -> usize {
    held.as_ref().map_or(0, |held| held.load(Ordering::SeqCst))
}

impl Shared {
    /// A buffer, if there is one to be had now.
    pub(super) fn try_buffer(self: &Arc<Self>, held: &Held) -> Option<Buffer> {
        let tag = self.pool.take(held)?;
        Some(Buffer { shared: Arc::clone(self), tag, held: held.clone() })
    }

    /// The buffer of a free tag, for giving back its memory.
    pub(super) fn buffer_of(self: &Arc<Self>, tag: Tag) -> Option<Buffer> {
        let free = self.pool.tags.take_this(tag);
        free.then(|| Buffer { shared: Arc::clone(self), tag, held: None })
    }

    /// The tags that were taken since the last call.
    pub(super) fn taken(&self, visit: impl FnMut(Tag)) {
        self.pool.tags.taken(visit);
    }

    /// A buffer, as soon as there is one to be had.
    pub(super) async fn buffer(self: &Arc<Self>, held: &Held) -> Buffer {
        let nobody_waits = self.pool.waiting.load(Ordering::SeqCst) == 0;
        if nobody_waits && let Some(buffer) = self.try_buffer(held) {
            return buffer;
        }
        let (told, buffer) = oneshot::channel();
        {
            let mut line = self.pool.line();
            line.push_back(Waiter { held: held.clone(), told });
            self.pool.waiting.store(line.len(), Ordering::SeqCst);
        }
        fence(Ordering::SeqCst);
        self.serve_line();
        match buffer.await {
            Ok(buffer) => buffer,
            Err(_) => unreachable!("who waits stays in the line until there is a buffer"),
        }
    }

    /// A buffer has let go of its tag.
    pub(super) fn free(self: &Arc<Self>, tag: Tag, held: &Held) {
        if let Some(held) = held {
            held.fetch_sub(1, Ordering::SeqCst);
        }
        self.pool.tags.put(tag);
        fence(Ordering::SeqCst);
        if self.pool.waiting.load(Ordering::Relaxed) > 0 {
            self.serve_line();
        }
    }

    /// Whether a share without any tag waits.
    pub(super) fn is_starved(&self) -> bool {
        if self.pool.waiting.load(Ordering::SeqCst) == 0 {
            return false;
        }
        let line = self.pool.line();
        line.iter().any(|waiter| count(&waiter.held) == 0 && !waiter.told.is_closed())
    }

    /// Gives tags to waiters, as far as they may have them.
    fn serve_line(self: &Arc<Self>) {
        while let Some((waiter, buffer)) = self.next_in_line() {
            // A waiter that has left drops the buffer, which serves the next.
            waiter.told.send(buffer).ok();
        }
    }

    fn next_in_line(self: &Arc<Self>) -> Option<(Waiter, Buffer)> {
        let mut line = self.pool.line();
        line.retain(|waiter| !waiter.told.is_closed());
        let at = line.iter().position(|waiter| self.pool.may_have(&waiter.held));
        let found = at.and_then(|at| Some((at, self.try_buffer(&line[at].held)?)));
        let served = found.and_then(|(at, buffer)| Some((line.remove(at)?, buffer)));
        self.pool.waiting.store(line.len(), Ordering::SeqCst);
        served
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::super::{Share, Volume, VolumeConfig};
    use super::*;

    fn volume(tags: u16) -> Volume {
        let config = VolumeConfig {
            name: "tank".to_owned(),
            blocks: 8,
            chunk_blocks: 1,
            stripe_blocks: 1,
            discard_blocks: 1,
            max_request_blocks: 1,
            tags,
        };
        Volume::channel(config).0
    }

    /// All that it can have.
    fn fill(share: &Share) -> Vec<Buffer> {
        std::iter::from_fn(|| share.try_buffer()).collect()
    }

    #[test]
    fn nobody_takes_more_than_is_left() {
        let volume = volume(128);
        let shares: Vec<_> = (0..5).map(|_| volume.share()).collect();
        let held: Vec<_> = shares.iter().map(fill).collect();
        let counts: Vec<_> = held.iter().map(Vec::len).collect();
        assert_eq!(counts, [64, 32, 16, 1, 1]);
        drop(held);
        assert_eq!((0..128).map_while(|_| volume.try_buffer()).count(), 128);
    }

    #[test]
    fn the_reserve_is_for_shares_that_hold_nothing() {
        let volume = volume(16);
        let greedy: Vec<_> = (0..3).map(|_| volume.share()).collect();
        let held: Vec<_> = greedy.iter().flat_map(fill).collect();
        let left = 16 - held.len();
        assert!(left > 0 && greedy.iter().all(|share| share.try_buffer().is_none()));
        let late: Vec<_> = (0..left).map(|_| volume.share()).collect();
        let got: Vec<_> = late.iter().filter_map(Share::try_buffer).collect();
        assert_eq!(got.len(), left, "each that comes finds one");
    }

    #[test]
    fn a_single_tag_is_everybodys() {
        let volume = volume(1);
        let (one, other) = (volume.share(), volume.share());
        let buffer = one.buffer_blocking();
        assert!(other.try_buffer().is_none() && !volume.is_starved());
        drop(buffer);
        assert!(other.try_buffer().is_some());
    }

    #[test]
    fn a_waiter_with_nothing_starves_and_is_served_first() {
        let volume = volume(2);
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (rich, poor) = (volume.share(), volume.share());
        let (first, second) = (rich.buffer_blocking(), volume.buffer_blocking());
        runtime.block_on(async {
            let (mut wants, mut needs) = (Box::pin(rich.buffer()), Box::pin(poor.buffer()));
            assert!(is_pending(&mut wants) && !volume.is_starved());
            assert!(is_pending(&mut needs) && volume.is_starved());
            drop(second);
            let got = needs.await;
            assert!(is_pending(&mut wants), "it has one already");
            drop((first, got));
            drop(wants.await);
        });
        assert!(!volume.is_starved());
    }

    /// Polls once, with no task to be woken.
    fn is_pending<F: Future + Unpin>(future: &mut F) -> bool {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        std::pin::Pin::new(future).poll(&mut context).is_pending()
    }

    #[test]
    fn a_waiter_that_leaves_keeps_nothing() {
        let volume = volume(1);
        let (one, other) = (volume.share(), volume.share());
        let buffer = volume.buffer_blocking();
        let mut leaves = Box::pin(one.buffer());
        let mut stays = Box::pin(other.buffer());
        assert!(is_pending(&mut leaves) && is_pending(&mut stays));
        drop(buffer);
        drop(leaves);
        assert!(!is_pending(&mut stays), "what the first was given goes to the next");
    }

    #[test]
    fn all_who_ask_are_served_in_the_end() {
        let volume = volume(5);
        thread::scope(|scope| {
            for user in 0..12 {
                let share = volume.share();
                scope.spawn(move || {
                    let mut kept = VecDeque::new();
                    for turn in 0..2000 {
                        kept.extend(share.try_buffer());
                        if kept.is_empty() {
                            kept.push_back(share.buffer_blocking());
                        }
                        if turn % (user + 1) == 0 {
                            kept.clear();
                        } else {
                            kept.truncate(1);
                        }
                    }
                });
            }
        });
        assert_eq!((0..5).map_while(|_| volume.try_buffer()).count(), 5);
    }
}
