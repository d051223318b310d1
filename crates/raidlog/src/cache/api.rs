//! The interface of the write cache.

use core::time::Duration;

use det::Instant;
use raidcore::engine::{Request, RequestError};
use raidcore::units::{Mem, Tag};

/// The sizes of a write cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheConfig {
    /// Requests that users can have in flight; their tags are below it.
    pub tags: u16,
    /// Requests of its own that it can have in flight; their tags follow those of users.
    pub own_tags: u16,
    /// Its memory in blocks: for what is held, and, of that at most a quarter, for what is on its way home.
    pub blocks: u32,
    /// The most blocks of a write that is held.
    pub most_blocks: u32,
    /// How long what is held may stay when no room is wanted.
    pub linger: Duration,
}

impl Default for CacheConfig {
    /// 64 MiB, writes of up to 64 KiB, for up to 5 s.
    fn default() -> Self {
        Self {
            tags: 128,
            own_tags: 512,
            blocks: 16_384,
            most_blocks: 16,
            linger: Duration::from_secs(5),
        }
    }
}

/// What a write cache wants done, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// Ask the array for this, and tell [`WriteCache::ended`](super::WriteCache::ended). Its tag is a user's if it
    /// is a user's request; the bytes of others are in memory of the cache.
    Ask(Request),
    /// Copy blocks.
    Copy {
        /// The bytes.
        from: Mem,
        /// Where they go.
        to: Mem,
        /// How many blocks.
        blocks: u32,
    },
    /// A user's request has ended; its tag is free.
    Complete {
        /// Which.
        tag: Tag,
        /// How.
        result: Result<(), RequestError>,
    },
}

/// How a write cache is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CacheStatus {
    /// How many blocks can be held.
    pub room: u32,
    /// How many are.
    pub held: u32,
    /// When the oldest write was acknowledged of which something is not at home.
    pub oldest: Option<Instant>,
    /// Whether writes are held.
    pub holds: bool,
    /// Blocks that could not be brought home: every flush fails until they are.
    pub stuck: u32,
    /// Writes that wait for room.
    pub waiting: u32,
    /// Whether what was held at a time when that was asked for is still coming home.
    pub flushing: bool,
    /// What it has done.
    pub counters: CacheCounters,
}

/// What a write cache has done since the start, in blocks where nothing else is said.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheCounters {
    /// Written to memory.
    pub held_blocks: u64,
    /// Of these, those that took the place of what was held of the block: it goes home once.
    pub rewritten_blocks: u64,
    /// Read from memory.
    pub read_blocks: u64,
    /// Brought home.
    pub home_blocks: u64,
    /// Groups of which blocks were brought home.
    pub trips: u64,
    /// Trips that failed.
    pub failed_trips: u64,
    /// Dropped since they were written over, or discarded, by requests that went past the cache.
    pub dropped_blocks: u64,
    /// Writes, discards and write-zeroes that went past the cache.
    pub past_requests: u64,
    /// How often writes began to wait for room.
    pub waits: u64,
}
