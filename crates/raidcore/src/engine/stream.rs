//! Which writes of a device belong together: blocks of one stream become void at about the same time, and
//! drives that can keep streams apart move less when they collect garbage.

/// What a write is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stream {
    /// Data at home. It lives for as long as users let it.
    Data,
    /// The journal, which is written in a circle, and metadata: superblocks and maps.
    Journal,
    /// The staging log, also written in a circle, as far as what is staged has come home.
    Staging,
    /// Parity at home, whole chunks. It is written whenever data of its stripe is.
    Parity,
}

impl Stream {
    /// Its number on a device that keeps `streams` of them apart, from 0 on. A device that keeps fewer than
    /// there are gives one number to those that live for about as long: first to parity and data, then to
    /// both logs, then to all. Data has number 0, as writes have that say nothing.
    #[must_use]
    pub fn number(self, streams: u16) -> u16 {
        let (number, shares) = match self {
            Self::Data => return 0,
            Self::Journal => (1, Self::Data),
            Self::Staging => (2, Self::Journal),
            Self::Parity => (3, Self::Data),
        };
        if number < streams { number } else { shares.number(streams) }
    }
}

#[cfg(test)]
mod tests {
    use super::Stream;

    #[test]
    fn what_lives_for_as_long_shares_a_number() {
        let all = [Stream::Data, Stream::Journal, Stream::Staging, Stream::Parity];
        let numbers = |streams| all.map(|stream| stream.number(streams));
        assert_eq!(numbers(0), [0; 4]);
        assert_eq!(numbers(1), [0; 4]);
        assert_eq!(numbers(2), [0, 1, 1, 0]);
        assert_eq!(numbers(3), [0, 1, 2, 0]);
        assert_eq!(numbers(4), [0, 1, 2, 3]);
        assert_eq!(numbers(u16::MAX), [0, 1, 2, 3]);
    }
}
