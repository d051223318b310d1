//! Threads that talk to the kernel for the array's thread: each has a ring, into which it puts the
//! entries that it is given, and tells what has completed.
//!
//! What a system call and the block layer cost is theirs, and so is the copying of the ublk driver.
//! What is done, and in which order, is decided by the array's thread alone.
//!
//! Invariants:
//! - An entry reaches the kernel, in order, unless the lease is over, or the array's thread is gone
//!   before it has [seen to that](Hand::reach_kernel).
//! - A hand looks once more for entries after it has said that it sleeps, as the array's thread does
//!   for completions: none sleeps while there is something to do.
//! - A side that finds no room on the way to the other keeps the rest, says so, and is woken when there is some.
//! - The array's thread never waits for the end of a hand, only for its ring to be let go of: a thread ends
//!   when the kernel's workers have, and one of those may be with a member that hangs.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};

use rtrb::{Consumer, Producer, RingBuffer};

use super::BELL;
use super::queue::{Completion, CompletionEntry, Entry, Queue};
use crate::thread::{become_io_flusher, mask_signals};
use crate::volume::Bell;

/// What a hand does with its ring besides I/O, and where its result goes.
struct Order<S: Entry, C: CompletionEntry> {
    #[expect(clippy::type_complexity)]
    what: Box<dyn FnOnce(&mut Queue<S, C>) -> io::Result<()> + Send>,
    reply: SyncSender<io::Result<()>>,
}

/// See the [module](self). When it is dropped, the thread lets go of its ring, and ends.
pub(super) struct Hand<S: Entry, C: CompletionEntry> {
    line: Option<Line<S>>,
    orders: Sender<Order<S, C>>,
    signs: Arc<Signs>,
    /// How it has ended, once its ring is gone.
    ended: Receiver<io::Result<()>>,
}

/// What both sides know.
struct Signs {
    /// Wakes the hand.
    bell: Bell,
    /// There are orders of which the hand may not know.
    is_ordered: AtomicBool,
    /// The hand has found no room for completions, and sleeps.
    wants_room: AtomicBool,
    /// The array's thread has found no room for entries.
    is_backed_up: AtomicBool,
}

/// To and from the thread.
struct Line<S> {
    entries: Producer<S>,
    /// Entries that have found no room.
    backlog: VecDeque<S>,
    /// Whether there are entries of which the thread may not know.
    fresh: bool,
    completions: Consumer<Completion>,
    /// Completions that belong to the pass that the array's thread is in.
    counted: usize,
}

impl<S: Entry, C: CompletionEntry> Hand<S, C> {
    /// A thread with a ring that hands over so many entries at once. It rings `asker` when something
    /// has completed.
    pub(super) fn new(number: usize, entries: u32, asker: &Arc<Bell>) -> io::Result<Self> {
        // As many entries of either kind as the kernel has room for completions.
        let room = entries as usize * 8;
        let (to_thread, given) = RingBuffer::new(room);
        let (told, completions) = RingBuffer::new(room);
        let signs = Arc::new(Signs {
            bell: Bell::new()?,
            is_ordered: AtomicBool::new(false),
            wants_room: AtomicBool::new(false),
            is_backed_up: AtomicBool::new(false),
        });
        let (orders, ordered) = channel();
        let (ready, begun) = sync_channel(1);
        let (end, ended) = sync_channel(1);
        let (its_signs, asker) = (Arc::clone(&signs), Arc::clone(asker));
        let serve = move || {
            become_io_flusher();
            mask_signals();
            let queue = match Queue::new(entries, its_signs.bell.fd()) {
                Ok(queue) => queue,
                Err(error) => {
                    // The receiver is there: it is what spawned this thread.
                    let _ = ready.send(Err(error));
                    return;
                }
            };
            let _ = ready.send(Ok(()));
            let worker =
                Worker { queue, given, told, ordered, signs: its_signs, asker: Arc::clone(&asker) };
            let how = catch_unwind(AssertUnwindSafe(|| worker.run()));
            let how = how.unwrap_or_else(|_| Err(io::Error::other(PANICKED)));
            // The array's thread may be gone.
            let _ = end.send(how);
            asker.ring();
        };
        std::thread::Builder::new().name(format!("io-{number}")).spawn(serve)?;
        begun.recv().map_err(|_| io::Error::other(PANICKED))??;
        let backlog = VecDeque::new();
        let line = Line { entries: to_thread, backlog, fresh: false, completions, counted: 0 };
        Ok(Self { line: Some(line), orders, signs, ended })
    }

    /// Gives it an entry.
    ///
    /// # Safety
    /// As of [`Queue::push`].
    pub(super) unsafe fn push(&mut self, entry: S) {
        let Some(line) = &mut self.line else { return };
        line.fresh = true;
        line.backlog.push_back(entry);
        if line.backlog.len() == 1 {
            line.pass_on(&self.signs);
        }
    }

    /// Sees to it that what it was given reaches the kernel soon.
    ///
    /// # Errors
    /// If the thread has ended.
    pub(super) fn submit(&mut self) -> io::Result<()> {
        let Some(line) = &mut self.line else { return Err(io::Error::other(ENDED)) };
        line.pass_on(&self.signs);
        // Only this side takes it back: the hand could take back what was said anew.
        if line.backlog.is_empty() && self.signs.is_backed_up.load(Ordering::Relaxed) {
            self.signs.is_backed_up.store(false, Ordering::SeqCst);
        }
        // That room was made is seen by the hand, or this is, before this thread sleeps.
        let makes_room = self.signs.wants_room.load(Ordering::SeqCst)
            && line.completions.slots() < line.completions.buffer().capacity();
        if std::mem::take(&mut line.fresh) || makes_room {
            self.signs.bell.ring();
        }
        if line.completions.is_abandoned() && line.completions.is_empty() {
            self.line = None;
            return self.ended.recv().unwrap_or(Ok(())).and(Err(io::Error::other(ENDED)));
        }
        Ok(())
    }

    /// Counts the entries that have completed and were not taken. Those that complete later belong to the
    /// next pass.
    pub(super) fn count(&mut self) -> usize {
        let Some(line) = &mut self.line else { return 0 };
        line.counted = line.completions.slots();
        line.counted
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

    /// An entry that has completed and was counted.
    pub(super) fn next_completion(&mut self) -> Option<Completion> {
        let line = self.line.as_mut()?;
        line.counted = line.counted.checked_sub(1)?;
        line.completions.pop().ok()
    }

    /// Has it do something with its ring, when it has taken all that it was given before.
    pub(super) fn order(
        &self,
        order: impl FnOnce(&mut Queue<S, C>) -> io::Result<()> + Send + 'static,
    ) -> Ordered {
        let (reply, result) = sync_channel(1);
        // One that finds no thread is dropped, and so is its reply.
        let _ = self.orders.send(Order { what: Box::new(order), reply });
        self.signs.is_ordered.store(true, Ordering::SeqCst);
        self.signs.bell.ring();
        Ordered(result)
    }

    /// Returns when all that it was given is with the kernel.
    ///
    /// # Errors
    /// If the kernel does not take it, or the thread has ended.
    pub(super) fn reach_kernel(&mut self) -> io::Result<()> {
        let has_more =
            |line: &Line<S>| !line.backlog.is_empty() && !line.completions.is_abandoned();
        while self.line.as_ref().is_some_and(has_more) {
            self.submit()?;
            std::thread::yield_now();
        }
        self.order(Queue::submit_all).wait()
    }
}

impl<S: Entry, C: CompletionEntry> Drop for Hand<S, C> {
    fn drop(&mut self) {
        // Its end of the line goes.
        let is_there = self.line.take().is_some();
        self.signs.bell.ring();
        if is_there && let Ok(Err(error)) = self.ended.recv() {
            tracing::debug!(%error, "a thread of the ring");
        }
    }
}

impl<S> Line<S> {
    /// Gives the thread what there is room for.
    fn pass_on(&mut self, signs: &Signs) {
        while let Some(entry) = self.backlog.pop_front() {
            if let Err(rtrb::PushError::Full(entry)) = self.entries.push(entry) {
                self.backlog.push_front(entry);
                // Seen by the hand when it has made room, or the room is seen before this thread sleeps.
                signs.is_backed_up.store(true, Ordering::SeqCst);
                return;
            }
            self.fresh = true;
        }
    }
}

/// Something that a hand was told to do.
pub(super) struct Ordered(Receiver<io::Result<()>>);

impl Ordered {
    /// Waits until it is done.
    ///
    /// # Errors
    /// Its own, or that the thread has ended.
    pub(super) fn wait(self) -> io::Result<()> {
        self.0.recv().map_err(|_| io::Error::other(ENDED))?
    }
}

/// Why a hand is no more.
const ENDED: &str = "a thread of the ring has ended";
const PANICKED: &str = "a thread of the ring panicked";

/// What the thread has.
struct Worker<S: Entry, C: CompletionEntry> {
    queue: Queue<S, C>,
    given: Consumer<S>,
    told: Producer<Completion>,
    ordered: Receiver<Order<S, C>>,
    signs: Arc<Signs>,
    /// Of the array's thread.
    asker: Arc<Bell>,
}

impl<S: Entry, C: CompletionEntry> Worker<S, C> {
    /// Serves until the array's thread lets go of it.
    fn run(mut self) -> io::Result<()> {
        loop {
            let is_ordered = self.signs.is_ordered.swap(false, Ordering::SeqCst);
            self.take();
            if is_ordered {
                while let Ok(Order { what, reply }) = self.ordered.try_recv() {
                    // More may have been given before it than before the first.
                    self.take();
                    // The array's thread waits for it.
                    let _ = reply.send(what(&mut self.queue));
                }
            }
            if self.given.is_abandoned() {
                return Ok(());
            }
            self.tell();
            self.rest()?;
        }
    }

    /// Hands over what there is, and sleeps if there is nothing to do.
    fn rest(&mut self) -> io::Result<()> {
        let Signs { bell, is_ordered, wants_room, .. } = &*self.signs;
        let is_full = self.told.is_full();
        wants_room.store(is_full, Ordering::SeqCst);
        let has_work = || {
            let is_given = !self.given.is_empty() || self.given.is_abandoned();
            is_given || is_ordered.load(Ordering::SeqCst) || (is_full && !self.told.is_full())
        };
        if !bell.park(has_work) {
            let is_over = self.given.is_abandoned();
            return if is_over { Ok(()) } else { self.queue.submit() };
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
        while let Ok(entry) = self.given.pop() {
            // SAFETY: as the array's thread has promised.
            unsafe { self.queue.push(entry) };
        }
        fence(Ordering::SeqCst);
        if self.signs.is_backed_up.load(Ordering::Relaxed) {
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
            } else if hand.count() > 0 {
                continue;
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
        assert_eq!(hand.count(), 0);
    }

    #[test]
    fn what_it_is_ordered_is_done_while_nobody_takes_completions() {
        let asker = Arc::new(Bell::new().expect("an eventfd"));
        let mut hand = Small::new(1, 2, &asker).expect("a thread");
        // SAFETY: it names no memory.
        (0..100).for_each(|name| unsafe { hand.push(nop(name)) });
        hand.submit().expect("it goes on");
        hand.order(|_| Ok(())).wait().expect("it is done");
        let error = hand.order(|_| Err(io::Error::other("no"))).wait().expect_err("it is told");
        assert_eq!(error.to_string(), "no");
        assert_eq!(take(&mut hand, &asker, 100).len(), 100);
    }

    #[test]
    fn a_thread_that_has_panicked_is_told_and_keeps_nobody_waiting() {
        let asker = Arc::new(Bell::new().expect("an eventfd"));
        let mut hand = Small::new(1, 2, &asker).expect("a thread");
        hand.order(|_| panic!("as this test wants")).wait().expect_err("there is no answer");
        while asker.park(|| hand.has_news()) {
            asker.listen();
            asker.unpark();
        }
        let error = hand.submit().expect_err("it has ended");
        assert!(error.to_string().contains("panicked"), "{error}");
        hand.submit().expect_err("and stays so");
        assert!(!hand.has_news(), "nobody is kept awake by it");
    }

    #[test]
    fn all_that_it_was_given_reaches_the_kernel_when_that_is_waited_for() {
        let asker = Arc::new(Bell::new().expect("an eventfd"));
        let mut hand = Small::new(1, 2, &asker).expect("a thread");
        let (mut reader, writer) = io::pipe().expect("a pipe");
        let (begun, begins) = channel();
        let (goes_on, go_on) = channel();
        // What is given while it is about an earlier order is not overtaken by a later one, either.
        let earlier = hand.order(move |_| {
            begun.send(()).expect("the test waits");
            go_on.recv().map_err(io::Error::other)
        });
        begins.recv().expect("it begins");
        for byte in &[7u8; 4] {
            let file = io_uring::types::Fd(writer.as_raw_fd());
            // SAFETY: the byte is static.
            unsafe { hand.push(opcode::Write::new(file, byte, 1).build()) };
        }
        let later = hand.order(Queue::submit_all);
        goes_on.send(()).expect("it waits");
        earlier.wait().and(later.wait()).expect("it goes on");
        // A pipe is written when the kernel has the entry.
        let mut buffer = [0; 128];
        rustix::io::ioctl_fionbio(&reader, true).expect("a pipe");
        assert_eq!(reader.read(&mut buffer).expect("something is there"), 4);
        // More than there is room for.
        for byte in &[7u8; 100] {
            let file = io_uring::types::Fd(writer.as_raw_fd());
            // SAFETY: the byte is static.
            unsafe { hand.push(opcode::Write::new(file, byte, 1).build()) };
        }
        hand.reach_kernel().expect("it goes on");
        assert_eq!(reader.read(&mut buffer).expect("something is there"), 100);
    }
}
