//! What can be typed for the size of a staging log.

use ublkd::create::StagingSize;

use crate::size::Size;

/// `reserved:64M`, or `reserved:10%` of the smallest member.
pub(crate) fn staging(text: &str) -> Result<StagingSize, String> {
    let usage = "write reserved:64M, or reserved:10% of the smallest member";
    if text.starts_with("dedicated:") {
        let what = "a device of its own for the staging log is not supported yet: the log is on the \
                    members";
        return Err(format!("{what}; {usage}"));
    }
    let amount = text.strip_prefix("reserved:").ok_or(usage)?;
    let Some(percent) = amount.strip_suffix('%') else {
        let size: Size = amount.parse()?;
        return Ok(StagingSize::Blocks(size.blocks()));
    };
    let percent = percent.parse().ok().filter(|percent| (1..100).contains(percent));
    percent.map(StagingSize::Percent).ok_or_else(|| format!("it takes 1% to 99%; {usage}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_percentages_are_read_and_all_else_refused() {
        assert_eq!(staging("reserved:64M"), Ok(StagingSize::Blocks(16384)));
        assert_eq!(staging("reserved:10%"), Ok(StagingSize::Percent(10)));
        let refused = |text: &str| staging(text).expect_err(text);
        assert!(refused("dedicated:/dev/sdx").contains("not supported yet"));
        for text in ["", "64M", "reserved", "reserved:0%", "reserved:100%", "reserved:-1%"] {
            assert!(refused(text).contains("reserved:64M"), "{text}");
        }
        assert!(refused("reserved:much").contains("is not a size"));
    }
}
