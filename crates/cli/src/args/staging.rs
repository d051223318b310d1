//! The arguments for a staging log.

use std::path::PathBuf;

use ublkd::create::StagingSize;

use crate::size::Size;

/// A place of a staging log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum StagingArg {
    /// A part of each member.
    Reserved(StagingSize),
    /// A staging device.
    Dedicated(PathBuf),
}

/// `reserved:64M`, or `reserved:10%` of the smallest member, or `dedicated:PATH`.
pub(crate) fn staging(text: &str) -> Result<StagingArg, String> {
    let usage = "write reserved:64M, or reserved:10% of the smallest member, or dedicated:PATH";
    if let Some(path) = text.strip_prefix("dedicated:").filter(|path| !path.is_empty()) {
        return Ok(StagingArg::Dedicated(path.into()));
    }
    let amount = text.strip_prefix("reserved:").ok_or(usage)?;
    let Some(percent) = amount.strip_suffix('%') else {
        let size: Size = amount.parse()?;
        return Ok(StagingArg::Reserved(StagingSize::Blocks(size.blocks())));
    };
    let percent = percent.parse().ok().filter(|percent| (1..100).contains(percent));
    let percent = percent.map(|percent| StagingArg::Reserved(StagingSize::Percent(percent)));
    percent.ok_or_else(|| format!("it takes 1% to 99%; {usage}"))
}

/// The size of the reserved part, if there is one, and the staging devices.
///
/// # Errors
/// If more than one size is given.
pub(crate) fn places(args: &[StagingArg]) -> Result<(Option<StagingSize>, Vec<PathBuf>), String> {
    let (mut reserved, mut dedicated) = (None, Vec::new());
    for arg in args {
        match arg {
            StagingArg::Reserved(_) if reserved.is_some() => {
                return Err("--staging reserved:SIZE can be given only once".to_owned());
            }
            StagingArg::Reserved(size) => reserved = Some(*size),
            StagingArg::Dedicated(path) => dedicated.push(path.clone()),
        }
    }
    Ok((reserved, dedicated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_percentages_and_devices_are_read_and_all_else_refused() {
        let blocks = StagingArg::Reserved(StagingSize::Blocks(16384));
        assert_eq!(staging("reserved:64M"), Ok(blocks.clone()));
        let percent = StagingArg::Reserved(StagingSize::Percent(10));
        assert_eq!(staging("reserved:10%"), Ok(percent.clone()));
        let device = StagingArg::Dedicated("/dev/sdx".into());
        assert_eq!(staging("dedicated:/dev/sdx"), Ok(device.clone()));
        let refused = |text: &str| staging(text).expect_err(text);
        for text in ["", "64M", "reserved", "reserved:0%", "reserved:100%", "dedicated:"] {
            assert!(refused(text).contains("reserved:64M"), "{text}");
        }
        assert!(refused("reserved:much").contains("is not a size"));
        let both = places(&[blocks.clone(), device.clone(), device.clone()]);
        let paths = vec![PathBuf::from("/dev/sdx"); 2];
        assert_eq!(both, Ok((Some(StagingSize::Blocks(16384)), paths)));
        assert!(places(&[blocks, percent]).is_err());
    }
}
