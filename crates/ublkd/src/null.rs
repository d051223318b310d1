//! A volume without an array: a function answers its requests at once. If that stores nothing, what a
//! request costs is the cost of its front end. Its thread is woken as an array's is, and takes front ends on
//! as one.

use std::io;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use det::Instant;
use raidcore::engine::{Op, RequestError};

use crate::arena::Arena;
use crate::host::seat;
use crate::resident::{Came, Resident, Todo};
use crate::ring::{CommandSlot, Completed, Ring, RingConfig};
use crate::thread::mask_signals;
use crate::volume::{Bell, Submissions, Submit, Volume, VolumeConfig};

/// The largest request, in blocks: 1 MiB, as of an array.
const REQUEST_BLOCKS: u32 = 256;

/// What answers a request, with the memory of its buffer.
type Answer = Box<dyn FnMut(Submit, &mut [u8]) -> Result<(), RequestError> + Send>;

/// A volume that a thread serves until the last handle is gone.
#[derive(Clone)]
pub struct Null {
    volume: Volume,
    newcomers: Newcomers,
}

/// Front ends that the thread is to take on.
#[derive(Clone)]
struct Newcomers {
    /// None when the thread takes on no more.
    line: Arc<Mutex<Option<Vec<Newcomer>>>>,
    bell: Arc<Bell>,
}

struct Newcomer {
    resident: Box<dyn Resident>,
    /// Told when the kernel has its first commands, or why not.
    begun: SyncSender<io::Result<()>>,
}

impl Newcomers {
    fn line(&self) -> MutexGuard<'_, Option<Vec<Newcomer>>> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_empty(&self) -> bool {
        self.line().as_ref().is_none_or(Vec::is_empty)
    }
}

impl Null {
    /// Serves so many blocks of 4 KiB, at most `tags` requests at a time. All of them read as zeros, whatever
    /// is written, by clients of NBD, VMs and users of a file. A block device's reads are not filled at all.
    ///
    /// # Errors
    /// If the kernel refuses a thread, an io_uring or memory.
    pub fn start(blocks: u64, tags: u16) -> io::Result<Self> {
        let shape = VolumeConfig {
            name: "null".to_owned(),
            blocks,
            chunk_blocks: 1,
            stripe_blocks: REQUEST_BLOCKS,
            discard_blocks: 1,
            max_request_blocks: REQUEST_BLOCKS,
            tags,
        };
        Self::start_with(shape, None)
    }

    /// Serves a volume of this shape by a function, which other requests wait for.
    ///
    /// # Errors
    /// If the kernel refuses a thread, an io_uring or memory.
    pub fn serving(
        shape: VolumeConfig,
        answer: impl FnMut(Submit, &mut [u8]) -> Result<(), RequestError> + Send + 'static,
    ) -> io::Result<Self> {
        Self::start_with(shape, Some(Box::new(answer)))
    }

    fn start_with(shape: VolumeConfig, answer: Option<Answer>) -> io::Result<Self> {
        let (volume, submissions) = Volume::try_channel(shape)?;
        let line = Arc::new(Mutex::new(Some(Vec::new())));
        let newcomers = Newcomers { line, bell: Arc::clone(submissions.bell()) };
        let (ready, begun) = sync_channel(1);
        let line = newcomers.clone();
        let serve = move || serve(submissions, line, answer, &ready);
        std::thread::Builder::new().name("null".to_owned()).spawn(serve)?;
        begun.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))?;
        Ok(Self { volume, newcomers })
    }

    /// The volume.
    #[must_use]
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Takes a front end on. The answer can be received once; there is none, and the front end is
    /// dropped, if the thread has ended.
    pub(crate) fn admit(
        &self,
        resident: Box<dyn Resident>,
    ) -> std::sync::mpsc::Receiver<io::Result<()>> {
        let (begun, answer) = sync_channel(1);
        let newcomer = Newcomer { resident, begun };
        match &mut *self.newcomers.line() {
            Some(line) => line.push(newcomer),
            None => drop(newcomer),
        }
        self.newcomers.bell.ring();
        answer
    }
}

/// What the thread has.
struct Server {
    // The ring goes before the memory that it may use, the residents' among it.
    ring: Ring,
    /// By [`CommandSlot`].
    residents: Vec<Option<Box<dyn Resident>>>,
    arena: Arena,
    submissions: Submissions,
    newcomers: Newcomers,
    /// None if nothing is stored.
    answer: Option<Answer>,
}

/// Tells `ready` when requests are answered, or why none are.
fn serve(
    submissions: Submissions,
    newcomers: Newcomers,
    answer: Option<Answer>,
    ready: &SyncSender<io::Result<()>>,
) {
    mask_signals();
    let served = Server::new(submissions, newcomers, answer).and_then(|mut server| {
        // The receiver is there: it is what spawned us.
        ready.send(Ok(())).ok();
        server.run()
    });
    if let Err(error) = served {
        tracing::error!(%error, "the null volume is served no more");
        ready.try_send(Err(error)).ok();
    }
}

impl Server {
    fn new(
        submissions: Submissions,
        newcomers: Newcomers,
        answer: Option<Answer>,
    ) -> io::Result<Self> {
        let arena = Arena::new(submissions.payload_memory(), &[])?;
        let config = RingConfig {
            entries: 256,
            threads: 1,
            large_entries: false,
            io_timeout: Duration::MAX,
            register_memory: false,
        };
        let ring = Ring::new(config, &arena, submissions.bell())?;
        Ok(Self { ring, residents: Vec::new(), arena, submissions, newcomers, answer })
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            self.ring.reap(Instant::ORIGIN, &mut self.arena);
            while let Some(completed) = self.ring.next_completed() {
                self.completed(completed);
            }
            while let Some(mut submission) = self.submissions.pop() {
                let result = answer(&mut self.answer, submission.request, &mut submission.buffer);
                submission.complete(result);
            }
            self.take_on()?;
            self.settle();
            let (submissions, newcomers) = (&self.submissions, &self.newcomers);
            // A front end may be all that is left of the volume's users.
            let serves = self.residents.iter().any(Option::is_some);
            let is_over = || !serves && submissions.is_abandoned();
            if is_over() {
                return Ok(());
            }
            let has_work = || submissions.has_work() || !newcomers.is_empty();
            let bell = submissions.bell();
            if bell.park(|| has_work() || is_over()) {
                let slept = self.ring.submit_and_sleep(Instant::ORIGIN, &mut self.arena, None);
                bell.unpark();
                slept?;
            } else {
                self.ring.submit(Instant::ORIGIN, &mut self.arena)?;
            }
        }
    }

    fn take_on(&mut self) -> io::Result<()> {
        let newcomers = self.newcomers.line().as_mut().map(std::mem::take).unwrap_or_default();
        for Newcomer { resident, begun } in newcomers {
            seat(&mut self.residents, &mut self.ring, resident);
            self.ring.submit(Instant::ORIGIN, &mut self.arena)?;
            // Not everyone waits for it.
            begun.send(Ok(())).ok();
        }
        Ok(())
    }

    fn completed(&mut self, Completed { place, number, result }: Completed) {
        let resident = &mut self.residents[usize::from(place.0)];
        let Some(served) = resident else {
            unreachable!("a resident stays until its last command has completed");
        };
        let next = match served.came(number, result) {
            Came::Request(request, mut buffer) => {
                // Of a driver, which reads nothing that is not stored.
                let result =
                    self.answer.as_mut().map_or(Ok(()), |answer| answer(request, &mut buffer));
                served.answered(number, buffer, result)
            }
            Came::Again(command) => Some(command),
            Came::Several => return self.carry_on(place),
            Came::Nothing => None,
        };
        match next {
            Some(command) => self.ring.command(place, command),
            None => drop(resident.take_if(|resident| resident.has_ended())),
        }
    }

    /// The end of a pass, for all residents: what one asks for concerns no other.
    fn settle(&mut self) {
        for at in 0..self.residents.len() {
            let resident = self.residents[at].as_mut();
            if resident.is_some_and(|resident| resident.settle()) {
                self.carry_on(CommandSlot(at as u16));
            }
        }
    }

    /// Does what a resident wants.
    fn carry_on(&mut self, place: CommandSlot) {
        let resident = &mut self.residents[usize::from(place.0)];
        while let Some(served) = resident
            && let Some(todo) = served.next()
        {
            let command = match todo {
                Todo::Request(number, request, mut buffer) => {
                    let result = answer(&mut self.answer, request, &mut buffer);
                    served.answered(number, buffer, result)
                }
                Todo::Command(command) => Some(command),
            };
            if let Some(command) = command {
                self.ring.command(place, command);
            }
        }
        drop(resident.take_if(|resident| resident.has_ended()));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Whatever the thread ended by, no caller waits for it. They are dropped after the lock.
        let newcomers = self.newcomers.line().take();
        drop(newcomers);
    }
}

/// Carries a request out. What is not stored reads as zeros.
fn answer(by: &mut Option<Answer>, request: Submit, buffer: &mut [u8]) -> Result<(), RequestError> {
    match by {
        Some(by) => by(request, buffer),
        None if request.op == Op::Read => {
            buffer[request.edges.within(request.blocks)].fill(0);
            Ok(())
        }
        None => Ok(()),
    }
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use io_uring::types::Timespec;

    use super::*;
    use crate::resident::Command;
    use crate::volume::Buffer;

    /// A front end with an error, which ends the thread.
    struct Panics;

    impl Resident for Panics {
        fn begin(&mut self) -> Vec<Command> {
            panic!("a front end panics, as this test wants");
        }

        fn came(&mut self, _: u16, _: i32) -> Came {
            Came::Nothing
        }

        fn answered(&mut self, _: u16, _: Buffer, _: Result<(), RequestError>) -> Option<Command> {
            None
        }

        fn has_ended(&self) -> bool {
            false
        }
    }

    /// Counts the passes of the thread until a time has passed, and tells them then.
    struct Counts {
        passes: u64,
        limit: Box<Timespec>,
        told: Option<SyncSender<u64>>,
    }

    impl Resident for Counts {
        fn begin(&mut self) -> Vec<Command> {
            // SAFETY: it is boxed, and stays until the command has completed.
            vec![unsafe { Command::wait(0, &self.limit) }]
        }

        fn came(&mut self, _: u16, _: i32) -> Came {
            self.told.take().expect("one command").send(self.passes).expect("the test waits");
            Came::Nothing
        }

        fn answered(&mut self, _: u16, _: Buffer, _: Result<(), RequestError>) -> Option<Command> {
            None
        }

        fn settle(&mut self) -> bool {
            self.passes += 1;
            false
        }

        fn has_ended(&self) -> bool {
            self.told.is_none()
        }
    }

    #[test]
    fn a_thread_sleeps_while_a_front_end_is_all_that_is_left() {
        let null = Null::start(1024, 4).expect("a volume");
        let (told, passes) = sync_channel(1);
        let limit = Box::new(Timespec::from(Duration::from_millis(50)));
        null.admit(Box::new(Counts { passes: 0, limit, told: Some(told) }));
        drop(null);
        // One that does not sleep makes some thousands.
        let passes = passes.recv().expect("it is served");
        assert!(passes < 100, "{passes}");
    }

    #[test]
    fn a_thread_that_has_ended_keeps_no_caller_waiting() {
        let null = Null::start(1024, 4).expect("a volume");
        for _ in 0..3 {
            let answer = null.admit(Box::new(Panics));
            answer.recv().expect_err("no answer comes");
        }
    }
}
