//! Signals to processes that tests have started.

use std::process::Child;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

/// Sends a signal to a child. After `STOP`, none of its threads runs when this returns.
pub(crate) fn signal(child: &Child, signal: Signal) {
    let pid = Pid::from_child(child);
    kill_process(pid, signal).expect("it is there");
    if signal == Signal::STOP {
        // One of its threads takes the signal, and the others go on until that one has run.
        let status = waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED).expect("a child");
        assert!(status.is_some_and(|status| status.stopped()), "it has not stopped");
    }
}
