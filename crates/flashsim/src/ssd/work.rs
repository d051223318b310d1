//! The operations of a die.

/// No job, command, plane or slot.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Reading the array for a job: the transfer follows.
    HostRead { job: u32 },
    /// The last part of a job.
    Host { job: u32 },
    /// Reading rows for garbage collection: transfers and the program follow.
    MoveRead { pages: u32, filled: bool },
    /// Programming what garbage collection moved.
    Move,
    /// Erasing the victim.
    Erase,
    /// Getting ready to read instead of what was suspended.
    Suspending,
}
