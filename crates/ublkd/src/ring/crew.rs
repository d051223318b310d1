//! Threads that talk to the kernel for the array's thread: each has a ring, into which it puts the
//! entries that it is given, and tells what has completed.
//!
//! What a system call and the block layer cost is theirs, and so is the copying of the ublk driver.
//! What is done, and in which order, is decided by the array's thread alone.
//!
//! Invariants:
//! - An entry reaches the kernel, in order, unless the lease is over or the array's thread is gone.
//! - A hand looks once more for entries after it has said that it sleeps, as the array's thread does
//!   for completions: nobody sleeps while there is something to do.
//! - Who finds no room on the way to the other keeps the rest, and is woken when there is some.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use rtrb::{Consumer, Producer, RingBuffer};

use super::BELL;
use super::queue::{Completed, Completion, Entry, Queue};
use crate::thread::{become_io_flusher, mask_signals};
use crate::volume::Bell;

/// What a hand does with its ring besides I/O, and who waits for that.
struct Order<S: Entry, C: Completed> {
    #[expect(clippy::type_complexity)]
    what: Box<dyn FnOnce(&mut Queue<S, C>) -> io::Result<()> + Send>,
    reply: SyncSender<io::Result<()>>,
}

/// See the [module](self). When it is dropped, the thread hands over what it was given, and ends.
pub(super) struct Hand<S: Entry, C: Completed> {
    line: Option<Line<S>>,
    orders: Sender<Order<S, C>>,
    wake: Arc<Wake>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// What the thread is woken by.
struct Wake {
    bell: Bell,
    /// Whether there are orders of which it may not know.
    is_ordered: AtomicBool,
}

/// To and from the thread.
struct Line<S> {
    entries: Producer<S>,
    /// Entries that have found no room.
    backlog: VecDeque<S>,
    /// Whether there are entries of which the thread may not know.
    fresh: bool,
    completions: Consumer<Completion>,
}

impl<S: Entry, C: Completed> Hand<S, C> {
    /// A thread with a ring that hands over so many entries at once. It rings `asker` when something
    /// has completed.
    pub(super) fn new(number: usize, entries: u32, asker: &Arc<Bell>) -> io::Result<Self> {
        // As many entries of either kind as the kernel has room for completions.
        let room = entries as usize * 8;
        let (to_thread, given) = RingBuffer::new(room);
        let (told, completions) = RingBuffer::new(room);
        let wake = Arc::new(Wake { bell: Bell::new()?, is_ordered: AtomicBool::new(false) });
        let (orders, ordered) = channel();
        let (ready, begun) = sync_channel(1);
        let (its_wake, asker) = (Arc::clone(&wake), Arc::clone(asker));
        let serve = move || {
            become_io_flusher();
            mask_signals();
            let queue = match Queue::new(entries, its_wake.bell.fd()) {
                Ok(queue) => queue,
                Err(error) => {
                    // The receiver is there: it is what spawned this thread.
                    let _ = ready.send(Err(error));
                    return Ok(());
                }
            };
            let _ = ready.send(Ok(()));
            let worker =
                Worker { queue, given, told, ordered, wake: its_wake, asker: Arc::clone(&asker) };
            let end = catch_unwind(AssertUnwindSafe(|| worker.run()));
            // Its ends of the line are gone.
            asker.ring();
            end.unwrap_or_else(|_| Err(io::Error::other("a thread of the ring panicked")))
        };
        let thread = std::thread::Builder::new().name(format!("io-{number}")).spawn(serve)?;
        let began = begun.recv().map_err(|_| io::Error::other("a thread of the ring panicked"));
        let line = Line { entries: to_thread, backlog: VecDeque::new(), fresh: false, completions };
        let hand = Self { line: Some(line), orders, wake, thread: Some(thread) };
        began?.map(|()| hand)
    }

    /// Gives it an entry.
    ///
    /// # Safety
    /// As of [`Queue::push`].
    pub(super) unsafe fn push(&mut self, entry: S) {
        let Some(line) = &mut self.line else { return };
        line.fresh = true;
        if !line.backlog.is_empty() {
            line.backlog.push_back(entry);
        } else if let Err(rtrb::PushError::Full(entry)) = line.entries.push(entry) {
            line.backlog.push_back(entry);
        }
    }

    /// Sees to it that what it was given reaches the kernel soon.
    ///
    /// # Errors
    /// If the thread has ended.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        let Some(line) = &mut self.line else { return Ok(()) };
        while let Some(entry) = line.backlog.pop_front() {
            if let Err(rtrb::PushError::Full(entry)) = line.entries.push(entry) {
                line.backlog.push_front(entry);
                break;
            }
            line.fresh = true;
        }
        if std::mem::take(&mut line.fresh) {
            self.wake.bell.ring();
        }
        if line.completions.is_abandoned() && line.completions.is_empty() {
            self.line = None;
            return self.join();
        }
        Ok(())
    }

    /// How many entries have completed that were not taken.
    pub(super) fn completions(&self) -> usize {
        self.line.as_ref().map_or(0, |line| line.completions.slots())
    }

    /// Whether there is something to do: take in entries that have completed or that the thread has
    /// ended, or give it what there was no room for.
    pub(super) fn has_news(&self) -> bool {
        let news = |line: &Line<S>| {
            !line.completions.is_empty()
                || line.completions.is_abandoned()
                || (!line.backlog.is_empty() && !line.entries.is_full())
        };
        self.line.as_ref().is_some_and(news)
    }

    /// An entry that has completed.
    pub(super) fn next_completion(&mut self) -> Option<Completion> {
        let completions = &mut self.line.as_mut()?.completions;
        let was_full = completions.slots() == completions.buffer().capacity();
        let completion = completions.pop().ok();
        if was_full {
            self.wake.bell.ring();
        }
        completion
    }

    /// Has it do something with its ring, and waits for that.
    ///
    /// # Errors
    /// What was done, or that the thread has ended.
    pub(super) fn order(
        &self,
        order: impl FnOnce(&mut Queue<S, C>) -> io::Result<()> + Send + 'static,
    ) -> io::Result<()> {
        let (reply, result) = sync_channel(1);
        // One that finds no thread is dropped, and so is its reply.
        let _ = self.orders.send(Order { what: Box::new(order), reply });
        self.wake.is_ordered.store(true, Ordering::SeqCst);
        self.wake.bell.ring();
        result.recv().map_err(|_| io::Error::other("a thread of the ring has ended"))?
    }

    fn join(&mut self) -> io::Result<()> {
        let Some(thread) = self.thread.take() else { return Ok(()) };
        // It has caught its panics.
        thread.join().unwrap_or(Ok(()))
    }
}

impl<S: Entry, C: Completed> Drop for Hand<S, C> {
    fn drop(&mut self) {
        // All that it was given is handed over.
        let has_more =
            |line: &Line<S>| !line.backlog.is_empty() && !line.completions.is_abandoned();
        while self.line.as_ref().is_some_and(has_more) && self.submit().is_ok() {
            std::thread::yield_now();
        }
        self.line = None;
        self.wake.bell.ring();
        if let Err(error) = self.join() {
            tracing::debug!(%error, "a thread of the ring");
        }
    }
}

/// What the thread has.
struct Worker<S: Entry, C: Completed> {
    queue: Queue<S, C>,
    given: Consumer<S>,
    told: Producer<Completion>,
    ordered: Receiver<Order<S, C>>,
    wake: Arc<Wake>,
    /// Of the array's thread.
    asker: Arc<Bell>,
}

impl<S: Entry, C: Completed> Worker<S, C> {
    /// Serves until the array's thread lets go of it.
    fn run(mut self) -> io::Result<()> {
        loop {
            // What is seen as abandoned first gets nothing after that.
            let is_over = self.given.is_abandoned();
            self.take();
            if self.wake.is_ordered.swap(false, Ordering::SeqCst) {
                while let Ok(Order { what, reply }) = self.ordered.try_recv() {
                    // Who has ordered it waits.
                    let _ = reply.send(what(&mut self.queue));
                }
            }
            if is_over {
                return self.finish();
            }
            self.tell();
            self.rest()?;
        }
    }

    /// Hands over all there is. What completes meanwhile is nobody's any more, but needs room.
    fn finish(&mut self) -> io::Result<()> {
        while self.queue.has_entries() {
            self.queue.submit()?;
            while self.queue.next_completion().is_some() {}
        }
        Ok(())
    }

    /// Hands over what there is, and sleeps if there is nothing to do.
    fn rest(&mut self) -> io::Result<()> {
        let is_full = self.told.is_full();
        let Wake { bell, is_ordered } = &*self.wake;
        let has_work = || {
            let is_given = !self.given.is_empty() || self.given.is_abandoned();
            is_given || is_ordered.load(Ordering::SeqCst)
        };
        if !bell.park(has_work) {
            return self.queue.submit();
        }
        let slept = if is_full {
            // The array's thread makes room.
            self.queue.submit().map(|()| bell.listen())
        } else {
            self.queue.submit_and_sleep(None)
        };
        bell.unpark();
        slept
    }

    /// Takes the entries that it was given.
    fn take(&mut self) {
        let was_full = self.given.slots() == self.given.buffer().capacity();
        while let Ok(entry) = self.given.pop() {
            // SAFETY: as the array's thread has promised.
            unsafe { self.queue.push(entry) };
        }
        if was_full {
            self.asker.ring();
        }
    }

    /// Passes on what has completed, as far as there is room.
    fn tell(&mut self) {
        let mut is_told = false;
        while !self.told.is_full() {
            let Some(completion) = self.queue.next_completion() else { break };
            if completion.name != BELL {
                is_told = self.told.push(completion).is_ok();
            }
        }
        if is_told {
            self.asker.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsRawFd;

    use io_uring::{cqueue, opcode, squeue};

    use super::*;

    type Small = Hand<squeue::Entry, cqueue::Entry>;

    fn nop(name: u64) -> squeue::Entry {
        opcode::Nop::new().build().user_data(name)
    }

    /// Takes so many completions.
    fn take(hand: &mut Small, asker: &Bell, count: usize) -> Vec<u64> {
        let mut names = Vec::new();
        while names.len() < count {
            if let Some(completion) = hand.next_completion() {
                names.push(completion.name);
            } else if asker.park(|| hand.has_news()) {
                asker.listen();
                asker.unpark();
            }
            hand.submit().expect("it goes on");
        }
        names
    }

    #[test]
    fn all_that_is_given_completes_in_order_whatever_room_there_is() {
        let asker = Arc::new(Bell::new().expect("an eventfd"));
        let mut hand = Small::new(1, 2, &asker).expect("a thread");
        for _ in 0..20 {
            // More than there is room for, in either direction.
            // SAFETY: it names no memory.
            (0..100).for_each(|name| unsafe { hand.push(nop(name)) });
            hand.submit().expect("it goes on");
            assert_eq!(take(&mut hand, &asker, 100), (0..100).collect::<Vec<_>>());
        }
        assert_eq!(hand.completions(), 0);
    }

    #[test]
    fn what_it_is_ordered_is_done_while_nobody_takes_completions() {
        let asker = Arc::new(Bell::new().expect("an eventfd"));
        let mut hand = Small::new(1, 2, &asker).expect("a thread");
        // SAFETY: it names no memory.
        (0..100).for_each(|name| unsafe { hand.push(nop(name)) });
        hand.submit().expect("it goes on");
        hand.order(|_| Ok(())).expect("it is done");
        let error = hand.order(|_| Err(io::Error::other("no"))).expect_err("it is told");
        assert_eq!(error.to_string(), "no");
        assert_eq!(take(&mut hand, &asker, 100).len(), 100);
    }

    #[test]
    fn a_thread_that_has_panicked_is_told_and_keeps_nobody_waiting() {
        let asker = Arc::new(Bell::new().expect("an eventfd"));
        let mut hand = Small::new(1, 2, &asker).expect("a thread");
        hand.order(|_| panic!("as this test wants")).expect_err("there is no answer");
        while asker.park(|| hand.has_news()) {
            asker.listen();
            asker.unpark();
        }
        hand.submit().expect_err("it has ended");
        assert!(!hand.has_news(), "that is told once");
        hand.submit().expect("nothing is left to be told");
    }

    #[test]
    fn what_it_was_given_before_it_is_dropped_reaches_the_kernel() {
        let asker = Arc::new(Bell::new().expect("an eventfd"));
        let mut hand = Small::new(1, 2, &asker).expect("a thread");
        let (mut reader, writer) = io::pipe().expect("a pipe");
        for byte in &[7u8; 100] {
            let file = io_uring::types::Fd(writer.as_raw_fd());
            // SAFETY: the byte outlives the hand.
            unsafe { hand.push(opcode::Write::new(file, byte, 1).build()) };
        }
        drop((hand, writer));
        let mut found = Vec::new();
        reader.read_to_end(&mut found).expect("it is read");
        assert_eq!(found, [7; 100]);
    }
}
