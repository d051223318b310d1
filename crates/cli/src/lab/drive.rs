//! The SSDs of a planned array.

use lab::system::{DriveSpec, Use};

use crate::args::SwanArgs;

/// The SSD, as it is.
pub(super) fn drive(args: &SwanArgs) -> DriveSpec {
    DriveSpec {
        profile: args.profile.clone(),
        blocks: None,
        used: Use::Fresh,
        overwrites: 0.0,
        told: None,
        obeys: None,
        streams: None,
        set: toml::Table::new(),
    }
}
