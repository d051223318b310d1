//! Write caches: the staging log, which takes writes that nothing would keep waiting, or memory; and in which
//! order what they hold comes home.

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
    keeps: Keeps,
}

/// Where it keeps what it holds, with its destage order.
#[derive(Clone, Copy, Debug)]
enum Keeps {
    /// Nowhere: the log takes no more than the scheme wants it to.
    Nothing,
    /// In the staging log.
    InLog(Order),
    /// In memory: what is not flushed is lost with it.
    InMemory(Order),
}

/// Makes a destage order; none is needed for the oldest first.
type Order = fn() -> Option<Box<dyn Hold>>;

/// All write caches. The first takes nothing.
pub const CACHES: &[Cache] = &[
    Cache {
        name: "none",
        about: "the staging log takes only what the policy stages",
        keeps: Keeps::Nothing,
    },
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
    volatile(
        "volatile",
        "small writes are acknowledged in memory, and lost with it unless flushed, as by a disk's own cache; \
         of the least recently written stripes the one with the most blocks goes home first",
        || Some(Box::new(Lrw::largest_of(16))),
    ),
    volatile("vol:lrw", "as volatile; the least recently written stripe goes home first", || {
        Some(Box::new(Lrw::largest_of(1)))
    }),
    volatile("vol:wow-4", "as volatile; WOW, four stripes at a time", || {
        Some(Box::new(Wow::new(4)))
    }),
];

const fn row(name: &'static str, about: &'static str, order: Order) -> Cache {
    Cache { name, about, keeps: Keeps::InLog(order) }
}

const fn volatile(name: &'static str, about: &'static str, order: Order) -> Cache {
    Cache { name, about, keeps: Keeps::InMemory(order) }
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

    /// Whether it is one at all.
    #[must_use]
    pub fn is_some(&self) -> bool {
        !matches!(self.keeps, Keeps::Nothing)
    }

    /// Whether the staging log takes writes that no busy member would delay.
    #[inline]
    #[must_use]
    pub fn takes(&self) -> bool {
        matches!(self.keeps, Keeps::InLog(_))
    }

    /// Whether it is in memory.
    #[must_use]
    pub fn is_volatile(&self) -> bool {
        matches!(self.keeps, Keeps::InMemory(_))
    }

    /// In which order what the staging log holds comes home; the oldest first if none.
    #[must_use]
    pub fn order(&self) -> Option<Box<dyn Hold>> {
        if let Keeps::InLog(order) = self.keeps { order() } else { None }
    }

    /// In which order what is in memory goes home; the oldest first if none.
    #[must_use]
    pub fn order_in_memory(&self) -> Option<Box<dyn Hold>> {
        if let Keeps::InMemory(order) = self.keeps { order() } else { None }
    }
}
