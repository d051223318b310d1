//! Named groups of numbers.

use std::ops::Add;

use serde::{Deserialize, Serialize};

macro_rules! counts {
    ($(#[$about:meta])* $name:ident { $(#[$of_first:meta])* $first:ident, $(#[$of_second:meta])* $second:ident }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub struct $name {
            $(#[$of_first])*
            pub $first: u64,
            $(#[$of_second])*
            pub $second: u64,
        }

        impl Add for $name {
            type Output = Self;

            fn add(self, other: Self) -> Self {
                Self { $first: self.$first + other.$first, $second: self.$second + other.$second }
            }
        }

        impl From<(u64, u64)> for $name {
            fn from(($first, $second): (u64, u64)) -> Self {
                Self { $first, $second }
            }
        }
    };
}

counts! {
    /// How many of all items are marked.
    Marked {
        /// So many are.
        marked,
        /// So many there are.
        total
    }
}

counts! {
    /// Users' requests since the start.
    Requests {
        /// Completed without an error.
        completed,
        /// Completed with an error.
        failed
    }
}

counts! {
    /// Reads that went around busy members, since the start.
    Detours {
        /// So many reads.
        reads,
        /// Blocks that these have read beyond what was requested.
        extra_blocks
    }
}

counts! {
    /// Reads that were hedged.
    Hedged {
        /// So many reads.
        reads,
        /// Reads for which the other way was faster.
        won
    }
}

counts! {
    /// Writes that were staged, since the start.
    StagedWrites {
        /// So many writes.
        writes,
        /// Their blocks.
        blocks
    }
}

counts! {
    /// A range of bytes of the array.
    ByteRange {
        /// Where it begins.
        offset_bytes,
        /// How much it is.
        bytes
    }
}
