//! Which VM uses the disk.
//!
//! Invariants:
//! - One session has the disk at a time: two VMs would destroy each other's file systems.
//! - A session that has served queues has it until its connection ends, even if they have stopped:
//!   the VM may only be paused.
//! - It has it until nothing of it is under way, even if its VMM is gone: what its successor begins
//!   again does not meet it.
//! - Once it is shut, no session gets it until it is opened again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The disk.
#[derive(Clone, Default, Debug)]
pub(super) struct Disk(Arc<Mutex<State>>);

#[derive(Default, Debug)]
struct State {
    is_shut: bool,
    user: Option<User>,
}

#[derive(Debug)]
struct User {
    name: String,
    /// Whether it can go on with another process.
    can_wait: bool,
    /// Whether it is about to end.
    leaves: bool,
}

/// The use of the disk, until this is dropped.
#[derive(Debug)]
pub(super) struct Claim(Disk);

/// What becomes of a session that wants the disk.
#[derive(Debug)]
pub(super) enum Entry {
    /// It has it.
    In(Claim),
    /// It gets it soon, or there will be another process.
    Soon,
    /// Another one has it.
    Taken(String),
}

impl Disk {
    /// Takes it. `can_wait` says whether the VMM can go on with another process.
    pub(super) fn enter(&self, name: &str, can_wait: bool) -> Entry {
        let mut state = self.lock();
        match &state.user {
            Some(user) if !user.leaves => return Entry::Taken(user.name.clone()),
            Some(_) => return Entry::Soon,
            None if state.is_shut => return Entry::Soon,
            None => {}
        }
        state.user = Some(User { name: name.to_owned(), can_wait, leaves: false });
        drop(state);
        Entry::In(Claim(self.clone()))
    }

    /// Who has it.
    pub(super) fn user(&self) -> Option<String> {
        self.lock().user.as_ref().map(|user| user.name.clone())
    }

    /// Gives it to no session from now on, if none has it, or if the one that has it can wait and may
    /// (`may_wait`); else returns the name.
    pub(super) fn shut(&self, may_wait: bool) -> Result<(), String> {
        let mut state = self.lock();
        match &state.user {
            Some(user) if !(may_wait && user.can_wait) => Err(user.name.clone()),
            Some(_) | None => {
                state.is_shut = true;
                Ok(())
            }
        }
    }

    /// Undoes [`Disk::shut`].
    pub(super) fn reopen(&self) {
        self.lock().is_shut = false;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    /// It is about to end.
    pub(super) fn leaves(&self) {
        if let Some(user) = &mut self.0.lock().user {
            user.leaves = true;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.lock().user = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_it_and_the_next_waits_for_its_end() {
        let disk = Disk::default();
        let Entry::In(one) = disk.enter("one", false) else { panic!("no VM has it") };
        assert!(matches!(disk.enter("two", true), Entry::Taken(name) if name == "one"));
        assert_eq!(disk.shut(true), Err("one".to_owned()), "it can't wait");
        one.leaves();
        assert!(matches!(disk.enter("two", true), Entry::Soon));
        drop(one);
        let Entry::In(two) = disk.enter("two", true) else { panic!("it is free") };
        assert_eq!((disk.user(), disk.shut(false)), (Some("two".into()), Err("two".into())));
        assert_eq!(disk.shut(true), Ok(()));
        drop(two);
        assert!(matches!(disk.enter("three", true), Entry::Soon), "it is shut");
        disk.reopen();
        assert!(matches!(disk.enter("three", true), Entry::In(_)));
    }
}
