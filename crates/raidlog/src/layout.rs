//! The names of layouts.

use core::fmt;
use core::str::FromStr;

use raidcore::geometry::Level;

use crate::shape::GROUPS_MAX;

/// A layout of a log array: `log-raid5` is one group of all members, `swan4:3x3` is three R-groups
/// of three members each.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// The level of each group.
    pub level: Level,
    /// How many groups.
    pub groups: u8,
    /// Members of each group, if the layout tells.
    pub members: Option<u8>,
}

/// Why a text is not the name of a layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LayoutNameError {
    /// Neither of the two kinds.
    #[error(
        "a log array is log-raid0, -raid4, -raid5 or -raid6, or R-groups times members, like \
         swan4:3x3"
    )]
    Unknown,
    /// Without a group at the back there is no room to clean in.
    #[error("SWAN takes 2 to {GROUPS_MAX} R-groups, not {0}")]
    Groups(u8),
}

/// The levels that a group can have, by their numbers.
const LEVELS: [(&str, Level); 4] =
    [("0", Level::Raid0), ("4", Level::Raid4), ("5", Level::Raid5), ("6", Level::Raid6)];

impl FromStr for Layout {
    type Err = LayoutNameError;

    fn from_str(name: &str) -> Result<Self, LayoutNameError> {
        let level = |number: &str| {
            let found = LEVELS.iter().find(|(name, _)| *name == number);
            found.map(|(_, level)| *level).ok_or(LayoutNameError::Unknown)
        };
        if let Some(number) = name.strip_prefix("log-raid") {
            return Ok(Self { level: level(number)?, groups: 1, members: None });
        }
        let parts = name.strip_prefix("swan").and_then(|rest| rest.split_once(':'));
        let (number, shape) = parts.ok_or(LayoutNameError::Unknown)?;
        let (groups, members) = shape.split_once('x').ok_or(LayoutNameError::Unknown)?;
        let count = |text: &str| text.parse::<u8>().map_err(|_| LayoutNameError::Unknown);
        let (level, groups, members) = (level(number)?, count(groups)?, count(members)?);
        if !(2..=GROUPS_MAX).contains(&usize::from(groups)) {
            return Err(LayoutNameError::Groups(groups));
        }
        Ok(Self { level, groups, members: Some(members) })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = LEVELS.iter().find(|(_, level)| *level == self.level);
        let number = number.map_or("", |(number, _)| number);
        match self.members {
            None => write!(f, "log-raid{number}"),
            Some(members) => write!(f, "swan{number}:{}x{members}", self.groups),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn names_come_back_as_they_were() {
        for name in ["log-raid0", "log-raid6", "swan4:3x3", "swan0:4x2", "swan5:32x32"] {
            assert_eq!(name.parse::<Layout>().map(|layout| layout.to_string()), Ok(name.into()));
        }
        let swan = Layout { level: Level::Raid4, groups: 3, members: Some(2) };
        assert_eq!("swan4:3x2".parse(), Ok(swan));
    }

    #[test]
    fn what_is_no_layout_is_refused() {
        let unknown = ["", "raid5", "log-raid1", "log-raid", "swan:3x3", "swan4:3", "swan4:3x256"];
        for name in unknown {
            assert_eq!(name.parse::<Layout>(), Err(LayoutNameError::Unknown), "{name}");
        }
        assert_eq!("swan4:1x3".parse::<Layout>(), Err(LayoutNameError::Groups(1)));
        assert_eq!("swan4:33x3".parse::<Layout>(), Err(LayoutNameError::Groups(33)));
    }
}
