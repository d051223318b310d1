//! How long everything takes, in nanoseconds.

use crate::geometry::Geometry;
use crate::profile::{Commands, CopyPath, Profile};

const SECTOR_BYTES: f64 = 512.0;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    pub(crate) read: u64,
    pub(crate) program: u64,
    pub(crate) erase: u64,
    /// A page over the channel.
    pub(crate) page_transfer: u64,
    /// Programming the summary page of a block that has been filled, with its transfer.
    pub(crate) summary: u64,
    /// Bringing a command to a die: of a read, for each further plane of it, of a program, of an
    /// erase.
    pub(crate) read_command: u64,
    pub(crate) plane_command: u64,
    pub(crate) program_command: u64,
    pub(crate) erase_command: u64,
    /// Whether a die waits for its channel before it begins something.
    pub(crate) commands: bool,
    /// Over the channel, or within the plane.
    pub(crate) copy: CopyPath,
    /// Whether a channel has several dies, which then wait for each other, or brings commands.
    pub(crate) shared_channel: bool,
    /// A page over the host interface.
    link_page: f64,
    pub(crate) overhead: u64,
    pub(crate) suspend: u64,
    pub(crate) idle: u64,
}

impl Timing {
    pub(crate) fn new(profile: &Profile, g: &Geometry) -> Self {
        let per_byte = profile.bus.map_or(0.0, |bus| 1000.0 / bus.mb_per_s);
        let oob = profile.bus.map_or(0, |bus| bus.oob_bytes);
        let commands = profile.bus.and_then(|bus| bus.commands);
        let command = |time: fn(Commands) -> f64| commands.map_or(0, |times| nanos(time(times)));
        let transfer =
            |bytes: f64| (bytes * (1.0 + f64::from(oob) / SECTOR_BYTES) * per_byte).round() as u64;
        let program = nanos(profile.nand.program_us);
        let summary = if profile.ftl.summary { program + transfer(SECTOR_BYTES) } else { 0 };
        Self {
            read: nanos(profile.nand.read_us),
            program,
            erase: nanos(profile.nand.erase_us),
            page_transfer: transfer(f64::from(g.page_bytes)),
            summary,
            read_command: command(|times| times.read_us),
            plane_command: command(|times| times.plane_us),
            program_command: command(|times| times.program_us),
            erase_command: command(|times| times.erase_us),
            commands: commands.is_some(),
            copy: profile.gc.copy,
            shared_channel: g.dies > g.channels && profile.bus.is_some() || commands.is_some(),
            link_page: profile
                .link
                .map_or(0.0, |link| f64::from(g.page_bytes) * 1000.0 / link.mb_per_s),
            overhead: profile.link.map_or(0, |link| nanos(link.overhead_us)),
            suspend: profile.suspend.map_or(0, |suspend| nanos(suspend.latency_us)),
            idle: profile.gc.background.map_or(0, |background| nanos(background.idle_us)),
        }
    }

    /// `pages` pages over the host interface.
    pub(crate) fn link(&self, pages: u32) -> u64 {
        rounded(self.link_page * f64::from(pages))
    }
}

/// What is not negative, rounded: [`f64::round`] takes a call of a function on most machines, and this is asked for
/// each command.
fn rounded(number: f64) -> u64 {
    let whole = number as u64;
    whole.saturating_add(u64::from(number - whole as f64 >= 0.5))
}

fn nanos(micros: f64) -> u64 {
    (micros * 1000.0).round() as u64
}
