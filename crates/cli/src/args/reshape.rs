//! What an array is to become: as people say it, and in one word for the process that begins it.

use clap::{Args, ValueEnum};
use raidcore::geometry::{Placement, Shares};
use raidcore::meta::Target;
use raidcore::units::BLOCK_BYTES;
use ublkd::becomes::Becomes;

use super::create::{LevelArg, chunk, parity_shares, placement};

#[derive(Args, Debug)]
pub(crate) struct ReshapeArgs {
    /// The array's name
    pub(crate) name: String,
    /// How many members it is to have: all of them, or how many more, like +1. They are taken from
    /// its spares
    #[arg(long, value_name = "COUNT", required_unless_present_any = ["level", "chunk", "parity_shares", "placement", "size"])]
    pub(crate) members: Option<Members>,
    /// Its level: raid4, raid5 or raid6
    #[arg(long)]
    pub(crate) level: Option<LevelArg>,
    /// How much of a member is written before the next one's turn: 4K to 1M, a power of two
    #[arg(long, value_name = "SIZE", value_parser = chunk)]
    pub(crate) chunk: Option<u32>,
    /// How much of the parity each member is to hold, in percent, like 5,10,15,70
    #[arg(long, value_name = "PERCENT,…", value_parser = parity_shares, conflicts_with = "placement")]
    pub(crate) parity_shares: Option<Shares>,
    /// How chunks are to lie; md's default of the level is left-symmetric for RAID5 and RAID6
    #[arg(long, value_name = "NAME", value_parser = placement)]
    pub(crate) placement: Option<Placement>,
    /// How much of each member it is to use: max, all that the smallest of them has. Nothing is moved for
    /// that, and it takes no time
    #[arg(long, value_name = "max", value_enum,
          conflicts_with_all = ["members", "level", "chunk", "parity_shares", "placement"])]
    pub(crate) size: Option<SizeArg>,
    /// Begin although NBD or FUSE is in use, as with `stop`
    #[arg(long, short)]
    pub(crate) force: bool,
}

/// How much of each member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum SizeArg {
    /// All that the smallest one has
    Max,
}

/// The word for an array that becomes as large as its members.
const LARGER: &str = "max";

/// How many members.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Members {
    /// In all.
    All(usize),
    /// More than there are.
    More(usize),
}

impl std::str::FromStr for Members {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, more) = text.strip_prefix('+').map_or((text, false), |more| (more, true));
        let number = number.parse().map_err(|_| "it is a number, or how many more, like +1")?;
        Ok(if more { Self::More(number) } else { Self::All(number) })
    }
}

impl ReshapeArgs {
    /// What an array of so many members is to become, as [`becomes`] understands it.
    pub(crate) fn word(&self, count: usize) -> String {
        if self.size.is_some() {
            return LARGER.to_owned();
        }
        let level = self.level.and_then(|level| level.to_possible_value());
        let members = self.members.map(|members| match members {
            Members::All(all) => all,
            Members::More(more) => count + more,
        });
        let shares = self.parity_shares.map(|shares| {
            let percent: Vec<_> = shares.percent().iter().map(u8::to_string).collect();
            percent.join(",")
        });
        let lies = self.placement.map(|placement| placement.name().to_owned()).or(shares);
        [
            level.map(|level| level.get_name().to_owned()),
            members.map(|members| members.to_string()),
            self.chunk.map(|blocks| (u64::from(blocks) * BLOCK_BYTES as u64).to_string()),
            lies,
        ]
        .map(Option::unwrap_or_default)
        .join(":")
    }
}

/// What an array is to become: level, members, bytes of a chunk, and placement or shares of parity, with
/// colons between. What is empty stays.
pub(crate) fn becomes(word: &str) -> Result<Becomes, String> {
    if word == LARGER {
        return Ok(Becomes::Larger);
    }
    let wrong = || format!("\"{word}\" is not what an array can become");
    let [level, members, size, lies] = word.split(':').collect::<Vec<_>>()[..] else {
        return Err(wrong());
    };
    let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let level = given(level).map(|level| LevelArg::from_str(&level, true)).transpose()?;
    let members = given(members).map(|members| members.parse()).transpose();
    let lies = given(lies).map(|lies| {
        let shares = || parity_shares(&lies).map(Placement::Uneven);
        placement(&lies).or_else(|_| shares())
    });
    Ok(Becomes::Other(Target {
        level: level.map(Into::into),
        members: members.map_err(|_| wrong())?,
        chunk: given(size).map(|size| chunk(&size)).transpose()?,
        placement: lies.transpose()?,
    }))
}

#[cfg(test)]
mod tests {
    use raidcore::geometry::Level;

    use super::*;

    fn args() -> ReshapeArgs {
        ReshapeArgs {
            name: "tank".to_owned(),
            members: None,
            level: None,
            chunk: None,
            parity_shares: None,
            placement: None,
            size: None,
            force: false,
        }
    }

    #[test]
    fn the_word_says_what_was_asked_for() {
        let more =
            ReshapeArgs { members: Some(Members::More(2)), level: Some(LevelArg::Raid6), ..args() };
        let other = |args: &ReshapeArgs| match becomes(&args.word(4)) {
            Ok(Becomes::Other(target)) => target,
            wrong => panic!("{wrong:?}"),
        };
        let stays = Target::default();
        let wanted = Target { level: Some(Level::Raid6), members: Some(6), ..stays };
        assert_eq!(other(&more), wanted);

        let shares = Shares::new(&[5, 10, 15, 70]).expect("they are all of it");
        let placement = Some(Placement::Uneven(shares));
        let uneven = ReshapeArgs { parity_shares: Some(shares), ..args() };
        assert_eq!(other(&uneven), Target { placement, ..stays });

        let placement = Some(Placement::LeftSymmetric);
        let even = ReshapeArgs { placement, ..args() };
        assert_eq!(other(&even), Target { placement, ..stays });

        let chunk = ReshapeArgs { chunk: Some(32), ..args() };
        assert_eq!(other(&chunk), Target { chunk: Some(32), ..stays });

        let larger = ReshapeArgs { size: Some(SizeArg::Max), ..args() };
        assert_eq!(becomes(&larger.word(4)), Ok(Becomes::Larger));
        let wrong = ["raid6", "raid7:::", ":x::", ":::sideways", "::5000:", "raid6:4:"];
        assert!(wrong.iter().all(|word| becomes(word).is_err()));
    }
}
