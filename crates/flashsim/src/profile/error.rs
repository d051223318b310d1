use thiserror::Error;

use super::thresholds::thresholds;
use super::{Commands, DieChoice, PlaneChoice, Profile, Unit, Victim};

/// Pages are numbered in 31 bits; the last bit marks pages in the write buffer.
const PAGES_MAX: u64 = 1 << 31;

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
         full, no garbage is left to collect before that (it must be at most {}){}",
        spare.saturating_sub(3),
        larger(*enough)
    )]
    NoRoomToCollect {
        /// The key.
        key: &'static str,
        /// Blocks that it keeps free.
        free: u32,
        /// Blocks that are spare.
        spare: u32,
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
         {least} KiB to gather them in"
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

pub(super) fn check(p: &Profile) -> Result<(), ProfileError> {
    sizes(p)?;
    times(p)?;
    multiples(p)?;
    thresholds(p)
}

fn sizes(p: &Profile) -> Result<(), ProfileError> {
    let g = &p.geometry;
    for (key, value) in [
        ("geometry.channels", g.channels),
        ("geometry.chips", g.chips),
        ("geometry.dies", g.dies),
        ("geometry.planes", g.planes),
        ("geometry.pages", g.pages),
        ("nand.program_planes", p.nand.program_planes),
        ("nand.program_pages", p.nand.program_pages),
    ] {
        range(key, value.into(), 1.0, 65_536.0, "from 1 to 65536")?;
    }
    range("geometry.blocks", g.blocks.into(), 8.0, 1e9, "at least 8")?;
    range("geometry.page_bytes", g.page_bytes.into(), 512.0, 1e6, "from 512 to 1000000")?;
    range("ftl.mapping_bytes", p.mapping_bytes().into(), 512.0, 1e6, "from 512 to 1000000")?;
    range("ftl.spare", p.ftl.spare, 0.001, 0.9, "from 0.001 to 0.9")?;
    match p.gc.victim {
        Victim::DChoices(d) => {
            range("gc.victim.d-choices", d.into(), 1.0, 1e6, "from 1 to 1000000")?;
        }
        Victim::WindowedGreedy(w) => {
            range("gc.victim.windowed-greedy", w.into(), 1.0, 1e6, "from 1 to 1000000")?;
        }
        Victim::Greedy | Victim::Fifo => {}
    }
    if let Some(buffer) = p.buffer {
        range("buffer.kib", buffer.kib.into(), 1.0, 4_194_304.0, "from 1 to 4194304")?;
    }
    if let Unit::Burst(blocks) = p.gc.unit {
        range("gc.unit.burst", blocks.into(), 1.0, 1e9, "at least 1")?;
    }
    Ok(())
}

fn times(p: &Profile) -> Result<(), ProfileError> {
    let mut limits = vec![
        ("nand.read_us", p.nand.read_us),
        ("nand.program_us", p.nand.program_us),
        ("nand.erase_us", p.nand.erase_us),
    ];
    if let Some(suspend) = p.suspend {
        limits.push(("suspend.latency_us", suspend.latency_us));
    }
    if let Some(background) = p.gc.background {
        limits.push(("gc.background.idle_us", background.idle_us));
    }
    if let Some(link) = p.link {
        limits.push(("link.overhead_us", link.overhead_us));
        range("link.mb_per_s", link.mb_per_s, 1.0, 1e9, "from 1 to 1000000000")?;
    }
    if let Some(bus) = p.bus {
        range("bus.mb_per_s", bus.mb_per_s, 1.0, 1e9, "from 1 to 1000000000")?;
        range("bus.oob_bytes", bus.oob_bytes.into(), 0.0, 512.0, "from 0 to 512")?;
        limits.extend(bus.commands.iter().flat_map(Commands::times));
    }
    for (key, value) in limits {
        range(key, value, 0.0, 1e9, "from 0 to 1000000000")?;
    }
    if let Some(retry) = p.read_retry {
        range("read_retry.probability", retry.probability, 0.0, 1.0, "from 0 to 1")?;
        range("read_retry.limit", retry.limit.into(), 0.0, 1000.0, "from 0 to 1000")?;
    }
    Ok(())
}

fn multiples(p: &Profile) -> Result<(), ProfileError> {
    let (g, n) = (&p.geometry, &p.nand);
    let mapping = u64::from(p.mapping_bytes());
    multiple("geometry.page_bytes", g.page_bytes.into(), "ftl.mapping_bytes", mapping)?;
    multiple("geometry.planes", g.planes.into(), "nand.program_planes", n.program_planes.into())?;
    let summary = u32::from(p.ftl.summary);
    let data = u64::from(g.pages - summary.min(g.pages));
    range("pages with data in a block", data as f64, 1.0, 65_535.0, "from 1 to 65535")?;
    multiple("pages with data in a block", data, "nand.program_pages", n.program_pages.into())?;
    let in_row = u64::from(n.program_planes) * u64::from(g.page_bytes) / mapping;
    let in_block = u64::from(g.pages) * in_row;
    range("pages of mapping_bytes in a block", in_block as f64, 1.0, 65_535.0, "from 1 to 65535")?;
    let dies = u64::from(g.channels) * u64::from(g.chips) * u64::from(g.dies);
    let planes = dies.saturating_mul(u64::from(g.planes / n.program_planes));
    let pages = planes.saturating_mul(u64::from(g.blocks)).saturating_mul(in_block);
    if pages > PAGES_MAX {
        return Err(ProfileError::TooLarge { pages });
    }
    let in_program = u64::from(n.program_pages) * in_row;
    let buffered = p.buffer.map_or(0, |buffer| u64::from(buffer.kib) * 1024 / mapping);
    if (p.buffer.is_some() || in_program > 1) && buffered < in_program {
        let least = (in_program * mapping).div_ceil(1024);
        return Err(ProfileError::NeedsBuffer { pages: in_program, least });
    }
    for (key, is_static, places) in [
        ("ftl.die", p.ftl.die == DieChoice::Static, dies),
        ("ftl.plane", p.ftl.plane == PlaneChoice::Static, u64::from(g.planes / n.program_planes)),
    ] {
        if in_program > 1 && is_static && places > 1 {
            return Err(ProfileError::NoStaticPlace { key, pages: in_program });
        }
    }
    Ok(())
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

fn multiple(
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
