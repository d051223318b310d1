//! Which block is wrong when redundancy does not agree: what two parities tell together, and what most of
//! several copies have in common.
//!
//! One wrong chunk leaves a trace of its own in the *syndromes*, which are the sums of a stored
//! parity and the one that the data gives: a wrong D_z by `e` makes them Ps = e and Qs = 2ᶻ·e (H.
//! Peter Anvin, "The mathematics of RAID-6", 2011, section 4). Two wrong chunks can leave the same
//! trace, but hardly ever in more than a byte or two.
//!
//! Invariant: a block counts as wrong only if all bytes agree on it.

use super::gf;

/// The one chunk that accounts for two parities that don't match the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Culprit {
    /// The stored P.
    P,
    /// The stored Q.
    Q,
    /// A data chunk, by its index. It lacks what P's syndrome is.
    Data(usize),
    /// None alone.
    Unknown,
}

/// Which is wrong among `data` data chunks, P and Q, by the syndromes `p` and `q` of as many bytes;
/// `None` if none is, as all bytes of both are zero.
///
/// # Panics
/// If `p` and `q` are not of one length.
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

/// The first of the copies that are there that more than half of them are equal to.
#[must_use]
pub fn majority(copies: &[Option<&[u8]>]) -> Option<usize> {
    let there = || copies.iter().enumerate().filter_map(|(index, copy)| Some((index, (*copy)?)));
    // The vote of Boyer and Moore: what outnumbers all others is left when equals are paired off
    // against others.
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
