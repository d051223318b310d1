//! What is counted.

/// What the engine has done since it started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counters {
    /// Requests completed without error.
    pub requests: u64,
    /// Requests completed with an error.
    pub errors: u64,
    /// Stripe writes that needed no read.
    pub full_stripe_writes: u64,
    /// Of these, those that went past the journal.
    pub unjournaled_writes: u64,
    /// Stripe writes by read-modify-write.
    pub delta_writes: u64,
    /// Stripe writes by reconstruct-write.
    pub reconstruct_writes: u64,
    /// Writes that were carried out together with another of the same stripe.
    pub merged_writes: u64,
    /// Blocks of old data and parity that writes found in memory, and did not read.
    pub warm_blocks: u64,
    /// Reads served by reconstruction.
    pub reconstructed_reads: u64,
    /// Of these, those that went around busy members.
    pub detours: u64,
    /// Blocks that those, and hedged reads, have read beyond what was asked for.
    pub detour_blocks: u64,
    /// Reads that took so long that another way was tried, too.
    pub hedged_reads: u64,
    /// Of these, those that the other way had first.
    pub hedges_won: u64,
    /// Writes that were staged on other members.
    pub staged_writes: u64,
    /// Of these, those that were written with another, and have no header of their own.
    pub staged_together: u64,
    /// Blocks of those that were staged.
    pub staged_blocks: u64,
    /// Of these, blocks that were staged already and not at home yet: they come home once less.
    pub staged_again: u64,
    /// How often a staged write took so long that others got it, too.
    pub hedged_writes: u64,
    /// Writes that took so long at home that they were staged as well.
    pub hedged_home_writes: u64,
    /// Of these blocks, those that came home meanwhile, and need not come home again.
    pub home_meanwhile: u64,
    /// Blocks read from the staging log.
    pub staged_reads: u64,
    /// Blocks of it that were found in memory, and not read there.
    pub kept_reads: u64,
    /// Blocks of which copies were made, as they are read often.
    pub copied_blocks: u64,
    /// Reads served from copies, as home was busy.
    pub copy_reads: u64,
    /// Writes that would have been staged, but there was no room.
    pub staging_full: u64,
    /// Blocks brought home from the staging log.
    pub reclaimed_blocks: u64,
    /// Void blocks of the staging log, of each member that had them, that were discarded.
    pub trimmed_blocks: u64,
    /// Members whose device returned, and was filled only with what it had missed.
    pub returned_members: u64,
    /// Journal entries written.
    pub journal_entries: u64,
    /// Metadata blocks stored.
    pub meta_stores: u64,
}
