//! The stages of a job.

/// What a job does when nothing of it is outstanding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    Lock,
    Plan,
    Store,
    Buffers,
    Read,
    AfterRead,
    Compute,
    Keep,
    Locate,
    Judge,
    Mend,
    Intend,
    Write,
    Harden,
    Unzero,
    Invalidate,
    Record,
    Finish,
}

/// Whether a read or write waits for its stripe's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Turn {
    /// As it comes: beside a writer if that does it no harm.
    Any,
    /// It reads beside a writer, or writes to the staging log beside others.
    Beside,
    /// It waits for others, whatever they do.
    InLine,
}
