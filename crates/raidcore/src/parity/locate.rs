//! Finds the wrong block when redundancy does not agree: by two parities together, or by the
//! majority of several copies.
//!
//! One wrong chunk shows in the *syndromes*. A syndrome is the sum of a stored parity and the one
//! computed from the data. An error `e` in D_z makes them Ps = e and Qs = 2ᶻ·e (H. Peter Anvin,
//! "The mathematics of RAID-6", 2011, section 4). Two wrong chunks can have the same syndromes, but
//! hardly ever in more than a byte or two.
//!
//! Invariant: a block counts as wrong only if all bytes agree on it.

use super::gf;

/// The one chunk that explains why two parities don't match the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Culprit {
    /// The stored P.
    P,
    /// The stored Q.
    Q,
    /// A data chunk, by its index. Its error is P's syndrome.
    Data(usize),
    /// No single chunk.
    Unknown,
}

/// Which of `data` data chunks, P and Q is wrong, by the syndromes `p` and `q`. `None` if none is
/// wrong: both are all zero.
///
/// # Panics
/// If `p` and `q` differ in length.
#[must_use]
pub fn culprit(p: &[u8], q: &[u8], data: usize) -> Option<Culprit> {
    assert!(p.len() == q.len(), "syndromes of {} and {} bytes", p.len(), q.len());
    let pairs = || p.iter().copied().zip(q.iter().copied());
    let suspect = match pairs().find(|&pair| pair != (0, 0))? {
        (_, 0) => Culprit::P,
        (0, _) => Culprit::Q,
        (p, q) => Culprit::Data(gf::log2(gf::mul(q, gf::inv(p)))),
    };
    let guilty = match suspect {
        Culprit::P => pairs().all(|(_, q)| q == 0),
        Culprit::Q => pairs().all(|(p, _)| p == 0),
        Culprit::Data(index) => {
            let weight = gf::pow2(index);
            index < data && pairs().all(|(p, q)| gf::mul(weight, p) == q)
        }
        Culprit::Unknown => false,
    };
    Some(if guilty { suspect } else { Culprit::Unknown })
}

/// The first copy that equals more than half of the copies that are there.
#[must_use]
pub fn majority(copies: &[Option<&[u8]>]) -> Option<usize> {
    let there = || copies.iter().enumerate().filter_map(|(index, copy)| Some((index, (*copy)?)));
    // Boyer and Moore's majority vote: pairs of different copies cancel out, and a majority is
    // left.
    let (mut left, mut lead) = (None, 0_usize);
    for (_, copy) in there() {
        match left {
            Some(candidate) if lead > 0 => {
                lead = if copy == candidate { lead + 1 } else { lead - 1 };
            }
            Some(_) | None => (left, lead) = (Some(copy), 1),
        }
    }
    let candidate = left?;
    let agreeing = || there().filter(|&(_, copy)| copy == candidate);
    let first = agreeing().next().map(|(index, _)| index);
    first.filter(|_| 2 * agreeing().count() > there().count())
}
