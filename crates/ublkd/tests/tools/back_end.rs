//! A volume's back end in memory, which tests can hold, break and end.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;

use raidcore::engine::RequestError;
use raidcore::units::Lba;
use ublkd::null::Null;
use ublkd::volume::{Submissions, Submit, VolumeConfig};

use crate::store;

/// Blocks in memory; a block that is not there reads as zeros.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) blocks: BTreeMap<u64, Vec<u8>>,
    pub(crate) log: Vec<Submit>,
    /// Requests that touch one of these fail.
    pub(crate) broken: Vec<u64>,
    /// Whether requests have to wait.
    held: bool,
    /// Requests that wait.
    waiting: usize,
    /// Whether the back end is gone at the next request.
    ended: bool,
}

impl Memory {
    fn serve(&mut self, request: Submit, buffer: &mut [u8]) -> Result<(), RequestError> {
        let Submit { lba: Lba(lba), blocks, .. } = request;
        self.log.push(request);
        let end = lba + u64::from(blocks);
        if self.broken.iter().any(|block| (lba..end).contains(block)) {
            return Err(RequestError::Io);
        }
        store::serve(&mut self.blocks, request, buffer);
        Ok(())
    }
}

/// The handle of the back end outside its thread.
#[derive(Clone, Default)]
pub(crate) struct BackEnd {
    shared: Arc<(Mutex<Memory>, Condvar)>,
}

impl BackEnd {
    pub(crate) fn start(mut submissions: Submissions) -> Self {
        let back_end = Self::default();
        let served = back_end.clone();
        thread::spawn(move || {
            while let Some(mut submission) = submissions.recv() {
                let mut memory = served.admit();
                if memory.ended {
                    submission.complete(Err(RequestError::Stopping));
                    break;
                }
                let result = memory.serve(submission.request, &mut submission.buffer);
                drop(memory);
                submission.complete(result);
            }
        });
        back_end
    }

    /// On a thread that takes front ends on.
    pub(crate) fn start_direct(shape: VolumeConfig) -> (Self, Null) {
        let back_end = Self::default();
        let served = back_end.clone();
        let null = Null::serving(shape, move |request, buffer| {
            let mut memory = served.admit();
            if memory.ended { Err(RequestError::Stopping) } else { memory.serve(request, buffer) }
        });
        (back_end, null.expect("a volume"))
    }

    pub(crate) fn memory(&self) -> MutexGuard<'_, Memory> {
        self.shared.0.lock().expect("no panic")
    }

    /// Serves nothing from now on.
    pub(crate) fn hold(&self) {
        self.memory().held = true;
    }

    /// Waits until a request is waiting.
    pub(crate) fn wait_for_request(&self) {
        let (_, changed) = &*self.shared;
        let waiting = changed.wait_while(self.memory(), |memory| memory.waiting == 0);
        drop(waiting.expect("no panic"));
    }

    /// Serves again.
    pub(crate) fn release(&self) {
        self.memory().held = false;
        self.shared.1.notify_all();
    }

    /// Goes away at the next request.
    pub(crate) fn end(&self) {
        self.memory().ended = true;
    }

    /// Waits until requests are served.
    fn admit(&self) -> MutexGuard<'_, Memory> {
        let (_, changed) = &*self.shared;
        let mut memory = self.memory();
        memory.waiting += 1;
        changed.notify_all();
        let mut memory = changed.wait_while(memory, |memory| memory.held).expect("no panic");
        memory.waiting -= 1;
        memory
    }
}
