//! The staging log as a write cache: whether it takes writes that nothing would keep waiting, and in
//! which order what it holds comes home.

mod groups;
mod lrw;
mod wow;

use alloc::boxed::Box;

use raidcore::engine::Hold;

pub use lrw::Lrw;
pub use wow::Wow;

/// A row of the table of write caches.
#[derive(Clone, Copy, Debug)]
pub struct Cache {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// Its destage order; without one the log takes no more than the scheme wants it to.
    order: Option<Order>,
}

/// Makes a destage order; none is needed for the oldest first, which is the log's own.
type Order = fn() -> Option<Box<dyn Hold>>;

/// All write caches. The first takes nothing.
pub const CACHES: &[Cache] = &[
    Cache { name: "none", about: "the staging log takes only what the policy stages", order: None },
    row(
        "log",
        "small writes are acknowledged by the staging log; what was staged first comes home first",
        || None,
    ),
    row(
        "log:most",
        "as log; of the least recently written stripes the one with the most blocks comes home first",
        || Some(Box::new(Lrw::largest_of(16))),
    ),
    row("log:lrw", "as log; the least recently written stripe comes home first", || {
        Some(Box::new(Lrw::largest_of(1)))
    }),
    row("log:wow", "as log; WOW, one stripe at a time", || Some(Box::new(Wow::new(1)))),
    row("log:wow-4", "as log; WOW, four stripes at a time", || Some(Box::new(Wow::new(4)))),
    row("log:wow-16", "as log; WOW, sixteen stripes at a time", || Some(Box::new(Wow::new(16)))),
];

const fn row(name: &'static str, about: &'static str, order: Order) -> Cache {
    Cache { name, about, order: Some(order) }
}

impl PartialEq for Cache {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Cache {}

impl Default for Cache {
    /// The one that takes nothing.
    fn default() -> Self {
        CACHES[0]
    }
}

impl Cache {
    /// The cache of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        CACHES.iter().copied().find(|cache| cache.name == name)
    }

    /// Whether it takes writes that no busy member would delay.
    #[inline]
    #[must_use]
    pub fn takes(&self) -> bool {
        self.order.is_some()
    }

    /// In which order what it holds comes home; the oldest first if none.
    #[must_use]
    pub fn order(&self) -> Option<Box<dyn Hold>> {
        self.order.and_then(|order| order())
    }
}
