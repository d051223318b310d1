//! Bringing home what is staged (the paper's reclaim, section III-D): stripe by stripe, oldest
//! first, all that is staged of a stripe at once, so that what follows each other is one write.

/// Stripes that are reclaimed at once if room is wanted; one if not, and users want nothing or what
/// they write has gone home for a while.
pub(in crate::engine) const HASTE: usize = 8;

/// Entries that are looked at for one whose members are calm.
pub(in crate::engine) const LOOK: usize = 64;

/// How much room in the log is wanted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) enum Haste {
    /// There is enough: busy members are left alone, and users too.
    No,
    /// There will not be enough: as much comes home as can without busy members.
    Soon,
    /// There is not enough: it comes home even if members are busy.
    Now,
}
