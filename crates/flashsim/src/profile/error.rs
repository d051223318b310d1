use thiserror::Error;

/// Pages are numbered in 31 bits; the last bit marks pages in the write buffer.
pub(super) const PAGES_MAX: u64 = 1 << 31;

/// Why a profile can't be used.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// The file can't be read.
    #[error("{origin}: {error}")]
    File {
        /// Its path.
        origin: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// It is not a profile in TOML.
    #[error("{origin}: {message}")]
    Syntax {
        /// Its path or name.
        origin: String,
        /// Line, column, and what was expected.
        message: String,
    },
    /// The text is a profile, but no drive can be like that.
    #[error("{origin}, line {line}: {error}")]
    InText {
        /// Its path or name.
        origin: String,
        /// The line.
        line: usize,
        /// What is impossible.
        error: Box<Self>,
    },
    /// No profile of that name comes with the crate.
    #[error("there is no profile {name:?}; there are {}", names())]
    UnknownName {
        /// The name.
        name: String,
    },
    /// A number is out of range.
    #[error("{key} is {value}, but must be {expected}")]
    Range {
        /// The key.
        key: &'static str,
        /// What it is.
        value: f64,
        /// What it could be.
        expected: &'static str,
    },
    /// A size is not a multiple of another.
    #[error("{what} ({value}) must be a multiple of {unit} ({divisor})")]
    NotAMultiple {
        /// The size that is wrong.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What it has to be a multiple of.
        unit: &'static str,
        /// Its value.
        divisor: u64,
    },
    /// More pages than can be numbered.
    #[error(
        "the drive has {pages} pages of mapping_bytes, at most {PAGES_MAX} are possible: make it \
         smaller with fewer blocks, or map more bytes at a time"
    )]
    TooLarge {
        /// How many it has.
        pages: u64,
    },
    /// Garbage collection would have to keep more blocks free than there can be.
    #[error(
        "{key} keeps {free} blocks of a plane free, but only {spare} are spare: when the drive is \
         full, no garbage is left to collect before that (it must be at most {most}){}",
        larger(*enough)
    )]
    NoRoomToCollect {
        /// The key.
        key: &'static str,
        /// Blocks that it keeps free.
        free: u32,
        /// Blocks that are spare.
        spare: u32,
        /// How many it can keep free.
        most: u32,
        /// Blocks of a plane with which the same shares leave room, if there is such a number.
        enough: Option<u32>,
    },
    /// Collecting a block of a full drive could win nothing.
    #[error(
        "a block has {block} pages and a program {program}: when the drive is full, no block may \
         have so much garbage that moving the rest saves a program. More pages in a block, or a \
         larger ftl.spare, is possible"
    )]
    NoGain {
        /// Pages of data in a block.
        block: u32,
        /// Pages of a program.
        program: u32,
    },
    /// Thresholds contradict each other.
    #[error("{higher} must not be below {lower}")]
    Order {
        /// The key that has to be the higher one.
        higher: &'static str,
        /// The key that has to be the lower one.
        lower: &'static str,
    },
    /// Pages that are programmed together can't be placed one by one.
    #[error(
        "{key} is \"static\", which tells single pages where to go, but the flash programs {pages} \
         at once: choose another way, like \"round-robin\""
    )]
    NoStaticPlace {
        /// The key.
        key: &'static str,
        /// Pages of `mapping_bytes` in a program.
        pages: u64,
    },
    /// The flash can't program single pages, and there is no buffer to gather them in.
    #[error(
        "the flash programs {pages} pages at once, so there must be a [buffer] of at least \
         {least} KiB to gather them in, those of each stream by themselves"
    )]
    NeedsBuffer {
        /// Pages of `mapping_bytes` in a program.
        pages: u64,
        /// The smallest possible buffer.
        least: u64,
    },
}

impl ProfileError {
    /// The key that the error is about, if it is about one.
    #[must_use]
    pub fn key(&self) -> Option<&'static str> {
        match self {
            Self::Range { key, .. }
            | Self::NoRoomToCollect { key, .. }
            | Self::NoStaticPlace { key, .. } => Some(key),
            Self::NotAMultiple { what, .. } => Some(what),
            Self::Order { higher, .. } => Some(higher),
            Self::TooLarge { .. } => Some("geometry"),
            Self::NeedsBuffer { .. } | Self::NoGain { .. } => Some("nand.program_pages"),
            Self::File { .. }
            | Self::Syntax { .. }
            | Self::InText { .. }
            | Self::UnknownName { .. } => None,
        }
    }
}

fn larger(blocks: Option<u32>) -> String {
    blocks.map_or_else(String::new, |blocks| {
        format!("; with {blocks} blocks in a plane the same shares leave enough")
    })
}

fn names() -> String {
    let names: Vec<_> = super::BUILTIN.iter().map(|builtin| builtin.name).collect();
    names.join(", ")
}

pub(super) fn range(
    key: &'static str,
    value: f64,
    least: f64,
    most: f64,
    expected: &'static str,
) -> Result<(), ProfileError> {
    if (least..=most).contains(&value) {
        Ok(())
    } else {
        Err(ProfileError::Range { key, value, expected })
    }
}

pub(super) fn multiple(
    what: &'static str,
    value: u64,
    unit: &'static str,
    divisor: u64,
) -> Result<(), ProfileError> {
    if value.is_multiple_of(divisor) {
        Ok(())
    } else {
        Err(ProfileError::NotAMultiple { what, value, unit, divisor })
    }
}
