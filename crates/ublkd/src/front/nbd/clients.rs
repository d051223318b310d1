//! The clients that are connected.
//!
//! Invariant: a client that [`Clients::shut`] does not name can't complete the negotiation until
//! [`Clients::reopen`].

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The connections that have chosen the export.
#[derive(Clone, Default, Debug)]
pub(super) struct Clients(Arc<Mutex<State>>);

#[derive(Default, Debug)]
struct State {
    is_shut: bool,
    next: u64,
    names: BTreeMap<u64, String>,
}

/// A connection, in the list for as long as this lives.
pub(super) struct Connected {
    clients: Clients,
    number: u64,
}

impl Clients {
    /// Takes a client in, unless none is let in any more.
    pub(super) fn enter(&self, name: String) -> Option<Connected> {
        let mut state = self.lock();
        if state.is_shut {
            return None;
        }
        let number = state.next;
        state.next += 1;
        state.names.insert(number, name);
        drop(state);
        Some(Connected { clients: self.clone(), number })
    }

    /// What the clients are called.
    pub(super) fn names(&self) -> Vec<String> {
        self.lock().names.values().cloned().collect()
    }

    /// Lets no more clients in, if there are none; else returns their names.
    pub(super) fn shut(&self) -> Result<(), Vec<String>> {
        let mut state = self.lock();
        if state.names.is_empty() {
            state.is_shut = true;
            return Ok(());
        }
        Err(state.names.values().cloned().collect())
    }

    /// Lets clients in again.
    pub(super) fn reopen(&self) {
        self.lock().is_shut = false;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connected {
    fn drop(&mut self) {
        self.clients.lock().names.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_comes_in_between_the_question_and_the_end() {
        let clients = Clients::default();
        let (one, two) = (clients.enter("one".into()), clients.enter("two".into()));
        assert_eq!(clients.shut(), Err(vec!["one".to_owned(), "two".to_owned()]));
        drop(one);
        assert!(clients.enter("three".into()).is_some(), "it goes on after a refusal");
        assert_eq!(clients.names(), ["two"]);
        drop(two);
        assert_eq!(clients.shut(), Ok(()));
        assert!(clients.enter("four".into()).is_none());
        clients.reopen();
        assert!(clients.enter("five".into()).is_some());
    }
}
