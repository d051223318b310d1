//! What a start makes of an array's lease.

use super::assemble::Assembled;
use super::lease::{NoLease, Term};

impl Assembled {
    /// The array is started with a lease of this term from now on, or without one, which is on record when it
    /// serves.
    ///
    /// # Errors
    /// If it can't have one. It stays as it is then.
    pub fn begin_lease(&mut self, term: Option<Term>) -> Result<(), NoLease> {
        if term != self.record.lease {
            let before = self.record.clone();
            self.record.set_lease(term)?;
            // What is on disk stays one version, with one content.
            self.before.get_or_insert(before);
        }
        Ok(())
    }
}
