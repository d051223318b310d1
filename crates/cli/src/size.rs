//! Sizes as people write them: `64K`, `1M`, `10G`, in powers of 1024.

use std::fmt;
use std::str::FromStr;

use lab::units::Bytes;
use raidcore::units::BLOCK_BYTES;

const UNITS: [(&str, u32); 5] = [("K", 10), ("M", 20), ("G", 30), ("T", 40), ("P", 50)];

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Size(pub(crate) u64);

impl Size {
    /// In blocks of 4 KiB, rounded down.
    pub(crate) fn blocks(self) -> u64 {
        self.0 / BLOCK_BYTES as u64
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Bytes(bytes) = Bytes::from_str(text)?;
        // Linux counts the bytes of files and devices in 63 bits.
        if i64::try_from(bytes).is_err() {
            return Err("no file or device is so large: it has to be less than 8192P".to_owned());
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((name, shift)) = UNITS.iter().rev().find(|(_, shift)| self.0 >> shift > 0) else {
            return write!(f, "{} B", self.0);
        };
        let value = self.0 as f64 / (1u64 << shift) as f64;
        let digits = if value >= 100.0 || self.0.trailing_zeros() >= *shift { 0 } else { 1 };
        write!(f, "{value:.digits$} {name}iB")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written() {
        for (text, bytes) in [
            ("4096", 4096),
            ("64K", 64 << 10),
            ("64k", 64 << 10),
            ("1MiB", 1 << 20),
            ("10GB", 10 << 30),
            ("1 G", 1 << 30),
            ("0", 0),
        ] {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "K", "1.5G", "-1", "10X", "1 G B", "8192P", "8E", "99999999P", "é", "1é"]
        {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
        assert_eq!(Size(512).to_string(), "512 B");
        assert_eq!(Size(64 << 10).to_string(), "64 KiB");
        assert_eq!(Size((3 << 30) + (1 << 29)).to_string(), "3.5 GiB");
        assert_eq!(Size(u64::MAX).to_string(), "16384 PiB");
    }
}
