//! How large a volume is.

use tokio::sync::watch;

/// The size of a volume, which only grows. Clones are handles of the same volume's.
#[derive(Clone, Debug)]
pub struct Size(watch::Sender<u64>);

impl Size {
    pub(super) fn new(blocks: u64) -> Self {
        Self(watch::Sender::new(blocks))
    }

    /// In blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        *self.0.borrow()
    }

    /// The volume has so many blocks from now on, unless it has more. Requests for them must be
    /// served already: front ends tell their users at once.
    pub fn grow(&self, blocks: u64) {
        self.0.send_if_modified(|now| {
            let grows = blocks > *now;
            *now = blocks.max(*now);
            grows
        });
    }

    /// Follows it: what it becomes after this call is a change.
    #[must_use]
    pub fn follow(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_and_its_followers_are_told() {
        let size = Size::new(8);
        let mut follower = size.follow();
        size.grow(8);
        size.grow(5);
        assert_eq!((size.blocks(), follower.has_changed().ok()), (8, Some(false)));
        size.clone().grow(9);
        assert_eq!((size.blocks(), follower.has_changed().ok()), (9, Some(true)));
        assert_eq!(*follower.borrow_and_update(), 9);
    }
}
