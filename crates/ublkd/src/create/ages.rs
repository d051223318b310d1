//! Where parity lies if the members are to wear out one after the other: by how worn they are now.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

use raidcore::geometry::{Geometry, Level, Placement, Shares};
use raidcore::meta::{Consistency, Entries, LayoutError};
use raidcore::units::DeviceId;
use steering::stagger::{self, REPLACED_AT};
use steering::wear::{Wear, percents};

use super::{CreateConfig, CreateError, CreateNote};
use crate::flash::Named;
use crate::health::Readings;
use crate::members::Device;

/// Small writes wear members by their shares of parity, large ones all alike: shares are chosen as if all were small.
const SMALL: f64 = 1.0;

/// Checks that so many members of a level can have unequal shares of parity.
pub(super) fn check(level: Level, members: usize) -> Result<(), CreateError> {
    let geometry = Geometry::new(level, members, 1, 1).map_err(LayoutError::from)?;
    let even = shares_of(&vec![1.0; members])?;
    geometry.placed(Placement::Uneven(even)).map_err(LayoutError::from)?;
    Ok(())
}

/// The placement for these members, and why it is that. `named` begins with the members; those that exist are
/// `opened`.
pub(super) fn placement(
    config: &CreateConfig,
    opened: &[Device],
    named: &[Named],
    readings: &Readings,
) -> Result<(Placement, CreateNote), CreateError> {
    let members = &named[..config.paths.len()];
    let device = |named: &Named| opened.iter().find(|device| device.path() == named.path);
    let drives = (0..).map(DeviceId).zip(members);
    let drives = drives.filter_map(|(id, named)| Some((id, device(named)?.identity())));
    let drives = drives.filter_map(|(id, identity)| Some((id, identity.block_device()?)));
    let drives: BTreeMap<DeviceId, u64> = drives.collect();
    for (_, thread) in readings.ask(&drives, Instant::now()) {
        // One that has ended in another way has no reading.
        let _ = thread.join();
    }
    let used = |(id, named): (DeviceId, &Named)| {
        let modelled = device(named).and_then(Device::flash_used);
        let new = || named.flash.as_ref().map(|_| 0);
        modelled.or_else(new).or_else(|| readings.of(id)?.health.used_percent)
    };
    let used: Vec<Option<u8>> = (0..).map(DeviceId).zip(members).map(used).collect();
    let silent = used.iter().zip(&config.paths).filter(|(used, _)| used.is_none());
    let silent: Vec<PathBuf> = silent.map(|(_, path)| path.clone()).collect();
    if !silent.is_empty() {
        return Err(CreateError::Ageless { paths: silent });
    }
    by_age(config.level, config.consistency, used.into_iter().flatten().collect())
}

/// The placement for members that have used so many percent of their lives.
fn by_age(
    level: Level,
    consistency: Consistency,
    used: Vec<u8>,
) -> Result<(Placement, CreateNote), CreateError> {
    let geometry = Geometry::new(level, used.len(), 1, 1).map_err(LayoutError::from)?;
    let wear = Wear::new(&geometry, Entries::of_new(consistency, &geometry), SMALL);
    let lives: Vec<f64> = used.iter().copied().map(f64::from).collect();
    let gap = stagger::gap(used.len(), REPLACED_AT);
    let parts = stagger::shares(wear, &lives, REPLACED_AT.into(), gap.into());
    let shares = shares_of(&parts)?;
    let most = shares.percent().iter().max();
    // The level's own placement is as even, and md can read it.
    let is_even =
        most.zip(shares.percent().iter().min()).is_none_or(|(most, least)| most - least <= 1);
    if is_even {
        return Ok((Placement::of(level), CreateNote::EvenByAge { used, gap }));
    }
    let speed = (100.0 * wear.speed(&parts)).round() as u8;
    Ok((Placement::Uneven(shares), CreateNote::UnevenByAge { used, shares, gap, speed }))
}

fn shares_of(parts: &[f64]) -> Result<Shares, CreateError> {
    let shares = Shares::new(&percents(parts));
    shares.map_err(|error| LayoutError::from(raidcore::geometry::GeometryError::from(error)).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(level: Level, consistency: Consistency, used: [u8; 4]) -> (Placement, String) {
        let (placement, note) = by_age(level, consistency, used.to_vec()).expect("it can be");
        (placement, note.to_string())
    }

    #[test]
    fn members_that_are_alike_get_unequal_shares_and_those_that_are_apart_even_ones() {
        let shares = |consistency| {
            let (placement, told) = placed(Level::Raid5, consistency, [3; 4]);
            let Placement::Uneven(shares) = placement else { panic!("{placement:?}") };
            assert!(shares.percent().iter().is_sorted_by(|a, b| a >= b), "{shares:?}");
            for word in ["have used 3, 3, 3, 3%", "up to 15% apart", "times as fast"] {
                assert!(told.contains(word), "{told}");
            }
            shares.percent()[0]
        };
        assert!(
            shares(Consistency::Journal) < shares(Consistency::Bitmap),
            "a journal is written where parity is"
        );
        assert_eq!(shares(Consistency::Bitmap), shares(Consistency::Resync));
        let (placement, told) = placed(Level::Raid5, Consistency::Journal, [10, 60, 25, 40]);
        assert_eq!(placement, Placement::of(Level::Raid5));
        assert!(told.contains("10, 60, 25, 40%") && told.contains("15% apart already"), "{told}");
    }

    #[test]
    fn no_member_has_more_than_half_of_two_parities() {
        for consistency in [Consistency::Journal, Consistency::Resync] {
            let (placement, _) = placed(Level::Raid6, consistency, [50, 50, 50, 0]);
            let geometry = Geometry::new(Level::Raid6, 4, 1, 1).expect("it is possible");
            geometry.placed(placement).expect("the shares are possible");
        }
    }

    #[test]
    fn levels_that_can_t_share_parity_unevenly_are_refused() {
        for (level, members) in [(Level::Raid0, 3), (Level::Raid1, 2), (Level::Raid4, 3)] {
            let refused = check(level, members).expect_err("it has no such placement");
            assert!(refused.to_string().contains("has no placement uneven"), "{refused}");
        }
        check(Level::Raid5, 3).and_then(|()| check(Level::Raid6, 4)).expect("they have");
    }
}
