//! The size of a SWAN array with which cleaning at the back never delays the front: the analytic
//! model of Kim et al., "Alleviating Garbage Collection Interference Through Spatial Separation in
//! All Flash Arrays" (USENIX ATC '19), section 3.5.
//!
//! In the model all blocks are equally likely to be overwritten. Reads, buffers in SSDs and their
//! own garbage collection are left out.

use flashsim::Profile;
use raidcore::geometry::Level;
use raidcore::units::MEMBERS_MAX;
use raidlog::Layout;

/// The times of an SSD for one segment, in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SegmentTimes {
    /// Erasing what holds a segment (Te).
    pub erase: f64,
    /// Writing a segment (Tw).
    pub write: f64,
    /// Reading a segment (Tr).
    pub read: f64,
}

impl SegmentTimes {
    /// From times of blocks, of which a segment has `blocks`.
    #[must_use]
    pub fn of_blocks(erase: f64, write_block: f64, read_block: f64, blocks: u32) -> Self {
        let blocks = f64::from(blocks);
        Self { erase, write: write_block * blocks, read: read_block * blocks }
    }

    /// For a modelled SSD, and segments of `bytes` bytes on it: the best that its dies, channels
    /// and link allow.
    #[must_use]
    pub fn of_profile(profile: &Profile, bytes: u64) -> Self {
        let sizes = profile.sizes();
        let dies = f64::from(sizes.dies);
        let of_pages = |pages: u32| f64::from(pages) * f64::from(sizes.page_bytes);
        let channels = profile.bus.map_or(f64::INFINITY, |bus| {
            let payload = 512.0 / (512.0 + f64::from(bus.oob_bytes));
            f64::from(sizes.channels) * bus.mb_per_s * 1e6 * payload
        });
        let way = channels.min(profile.link.map_or(f64::INFINITY, |link| link.mb_per_s * 1e6));
        let dies_do = |pages: u32, us: f64| dies * of_pages(pages) / (us * 1e-6);
        let bytes = bytes as f64;
        Self {
            erase: bytes / dies_do(sizes.pages_per_block, profile.nand.erase_us),
            write: bytes / way.min(dies_do(sizes.pages_per_program, profile.nand.program_us)),
            read: bytes / way.min(dies_do(sizes.pages_per_row, profile.nand.read_us)),
        }
    }
}

/// The live share of a segment when it is cleaned (u), if the share u_d of the space is in use: the
/// solution of u_d = (u − 1) / ln u (Menon and Stockmeyer).
///
/// Both are between 0 and 1.
#[must_use]
pub fn victim_utilisation(used: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    // Each step halves what is left; a double has no more bits.
    for _ in 0..64 {
        let middle = f64::midpoint(low, high);
        if (middle - 1.0) / libm::log(middle) < used { low = middle } else { high = middle }
    }
    low
}

/// The number of groups by the model, if cleaned segments have the live share `u`: the left side of
/// Eq 1.
#[must_use]
pub fn groups(times: &SegmentTimes, u: f64) -> f64 {
    times.erase / times.write / (1.0 - u) + groups_without_erase(times, u)
}

/// The same without the term for erasing. The paper's own example gives its 1.89 only this way.
#[must_use]
pub fn groups_without_erase(times: &SegmentTimes, u: f64) -> f64 {
    (times.read / times.write + 1.0) * u / (1.0 - u) + 1.0
}

/// The longest wait of users by the model, in seconds, until a group has freed `segments` segments
/// by cleaning and `written` segments have been written besides. As in Eq 1, freeing one segment
/// from segments with the live share `u` takes 1/(1 − u) erases, and their live blocks are read and
/// written.
#[must_use]
pub fn longest_wait(times: &SegmentTimes, u: f64, segments: u32, written: f64) -> f64 {
    let won = (times.erase + u * (times.read + times.write)) / (1.0 - u);
    f64::from(segments) * won + written * times.write
}

/// A SWAN array.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Swan {
    /// The part of the space that is in use.
    pub used: f64,
    /// The live share of segments that are cleaned.
    pub victim: f64,
    /// Eq 1 as printed.
    pub equation: f64,
    /// Eq 1 without its erase term.
    pub without_erase: f64,
    /// Groups: the equation's, rounded up, and at least two.
    pub groups: u32,
    /// Members of each group, parity included.
    pub members: u32,
    /// How many members of each group can be lost.
    pub parity: u32,
    /// The share of all SSDs' space that users have.
    pub given: f64,
}

impl Swan {
    /// The smallest array that always accepts `throughput` bytes of users' data a second. An SSD
    /// writes `rate` bytes a second, each group has `parity` members' worth of redundancy (0 to 2),
    /// and users fill `used` of the remaining space. A group has data on at least two members.
    #[must_use]
    pub fn new(times: &SegmentTimes, used: f64, throughput: f64, rate: f64, parity: u32) -> Self {
        let victim = victim_utilisation(used);
        let equation = groups(times, victim);
        let data = (throughput / rate).ceil().max(2.0) as u32;
        let members = data.saturating_add(parity);
        Self {
            used,
            victim,
            equation,
            without_erase: groups_without_erase(times, victim),
            groups: equation.ceil().max(2.0) as u32,
            members,
            parity,
            given: used * f64::from(data) / f64::from(members),
        }
    }

    /// SSDs of all groups.
    #[must_use]
    pub fn ssds(&self) -> u64 {
        u64::from(self.groups) * u64::from(self.members)
    }

    /// The same with one group less; none if no group would be left at the back.
    #[must_use]
    pub fn with_a_group_less(self) -> Option<Self> {
        (self.groups > 2).then(|| Self { groups: self.groups - 1, ..self })
    }

    /// The name of the layout with which such an array is created; none if it would be too large.
    #[must_use]
    pub fn layout(&self) -> Option<Layout> {
        let level = match self.parity {
            0 => Level::Raid0,
            1 => Level::Raid5,
            _ => Level::Raid6,
        };
        let (groups, members) = (u8::try_from(self.groups), u8::try_from(self.members));
        let layout = Layout { level, groups: groups.ok()?, members: Some(members.ok()?) };
        let has_name = layout.to_string().parse() == Ok(layout);
        (has_name && self.members as usize <= MEMBERS_MAX).then_some(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: f64, expected: f64, within: f64) {
        assert!((found - expected).abs() <= within, "{found} is not {expected}");
    }

    /// Section 3.5: 4 ms, 19.5 µs, 15.6 µs, 256 blocks.
    fn papers() -> SegmentTimes {
        SegmentTimes::of_blocks(4e-3, 19.5e-6, 15.6e-6, 256)
    }

    #[test]
    fn the_papers_example_is_reproduced_without_the_erase_term_only() {
        near(groups(&papers(), 0.33), 3.08, 0.005);
        near(groups_without_erase(&papers(), 0.33), 1.89, 0.005);
    }

    #[test]
    fn victims_are_as_full_as_menon_has_it() {
        for (used, victim) in [(0.5, 0.203), (0.6, 0.324), (0.7, 0.467), (0.8, 0.629)] {
            near(victim_utilisation(used), victim, 0.001);
        }
        assert!(victim_utilisation(0.999) < 1.0 && victim_utilisation(0.001) >= 0.0);
    }

    #[test]
    fn a_swan_has_whole_groups_and_members() {
        let swan = Swan::new(&papers(), 0.6, 1000e6, 400e6, 1);
        assert_eq!((swan.groups, swan.members), (4, 4));
        near(swan.given, 0.6 * 0.75, 1e-12);
        let small = SegmentTimes { erase: 0.0, ..papers() };
        let least = Swan::new(&small, 0.1, 1.0, 400e6, 0);
        assert_eq!((least.groups, least.members), (2, 2), "a front and a back, data on two");
        assert_eq!(least.with_a_group_less(), None);
        assert_eq!(swan.with_a_group_less().map(|less| less.groups), Some(3));
    }

    #[test]
    fn a_swan_has_the_name_of_its_layout_unless_it_is_too_large() {
        let name = |throughput, parity| {
            let layout = Swan::new(&papers(), 0.6, throughput, 400e6, parity).layout();
            layout.map(|layout| layout.to_string())
        };
        let names = [(1.0, 0, "swan0:4x2"), (1.0, 1, "swan5:4x3"), (1000e6, 2, "swan6:4x5")];
        for (throughput, parity, expected) in names {
            let layout = name(throughput, parity).unwrap();
            assert_eq!(layout, expected);
            assert!(layout.parse::<Layout>().is_ok(), "{layout}");
        }
        assert_eq!(name(32.0 * 400e6, 1), None);
        assert_eq!(name(1e30, 1), None);
    }

    #[test]
    fn a_profile_writes_what_its_slowest_part_lets_it() {
        let profile = Profile::builtin("sata-mlc").unwrap();
        let times = SegmentTimes::of_profile(&profile, 1 << 20);
        let link = profile.link.map(|link| link.mb_per_s * 1e6).unwrap();
        assert!(times.write >= (1 << 20) as f64 / link && times.read <= times.write);
        let twice = SegmentTimes::of_profile(&profile, 2 << 20);
        near(twice.erase, 2.0 * times.erase, 1e-12);
    }
}
