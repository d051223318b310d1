//! The block in which the host that runs an array says so, on each member, where several hosts reach them.
//!
//! The [protocol](crate::lease) decides what is written and what is believed. Here are the bytes, and which
//! arrays can have a lease.

use core::fmt;
use core::time::Duration;

use super::codec::{CodecError, Field, PREFIX_BYTES, open, seal};
use super::record::{ArrayId, ArrayRecord, Features, SlotState};
use crate::geometry::Level;
use crate::units::{MEMBERS_MAX, MemberId, Set};

const MAGIC: [u8; 8] = *b"EKlease\n";

const GENERATION: Field<8> = Field { at: PREFIX_BYTES };
const COUNTER: Field<8> = GENERATION.then();
const HOST: Field<16> = COUNTER.then();
const BOOT: Field<16> = HOST.then();
const INSTANCE: Field<16> = BOOT.then();
const BEGUN: Field<8> = INSTANCE.then();
const EVENTS: Field<8> = BEGUN.then();
const TERM: Field<4> = EVENTS.then();
const VOTERS: Field<4> = TERM.then();
const HELD: Field<1> = VOTERS.then();
const NAME_LENGTH: Field<1> = HELD.then();
const NAME: Field<{ HostName::BYTES }> = NAME_LENGTH.then();

const _: () = assert!(NAME.end() == 186 && MEMBERS_MAX <= 32);

/// The term, in the superblock.
const LEASE_TERM: Field<4> = Field { at: 4026 };

/// The name of a host, for people: what does not fit or is not printable is left out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HostName {
    bytes: [u8; Self::BYTES],
    length: u8,
}

impl HostName {
    /// The most bytes of a name.
    pub const BYTES: usize = 64;

    /// This name, as far as it can be one.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let mut new = Self { bytes: [0; Self::BYTES], length: 0 };
        let good = name.bytes().filter(u8::is_ascii_graphic).take(Self::BYTES);
        for (place, byte) in new.bytes.iter_mut().zip(good) {
            *place = byte;
            new.length += 1;
        }
        new
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or("")
    }

    fn decode(length: u8, bytes: [u8; Self::BYTES]) -> Self {
        let bytes = bytes.get(..usize::from(length)).unwrap_or(&[]);
        Self::new(core::str::from_utf8(bytes).unwrap_or(""))
    }
}

impl fmt::Debug for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// What a lease can be held by: a process that runs the array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    /// Its host.
    pub host: [u8; 16],
    /// The run of that host's kernel: other after each boot.
    pub boot: [u8; 16],
    /// The process: other after each start of it.
    pub instance: [u8; 16],
    /// The host's name.
    pub name: HostName,
}

impl Holder {
    /// Whether both are, or were, processes of one running kernel.
    #[must_use]
    pub fn shares_kernel_with(&self, other: &Self) -> bool {
        (self.host, self.boot) == (other.host, other.boot)
    }
}

/// For how long a holder may act on a renewal, counted from before it was written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Term(u32);

impl Term {
    /// The shortest: a second.
    pub const MIN: Self = Self(1000);

    /// The longest: an hour.
    pub const MAX: Self = Self(3_600_000);

    /// A term of whole milliseconds from [`Term::MIN`] to [`Term::MAX`]; nothing if it is another.
    #[must_use]
    pub fn new(term: Duration) -> Option<Self> {
        let millis = u32::try_from(term.as_millis()).ok().map(Self)?;
        let is_whole = millis.duration() == term;
        (is_whole && (Self::MIN..=Self::MAX).contains(&millis)).then_some(millis)
    }

    /// How long it is.
    #[must_use]
    pub fn duration(self) -> Duration {
        Duration::from_millis(self.0.into())
    }
}

/// Why an array can't have a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoLease {
    /// It is a group of a log volume.
    #[error("log volumes can't have a lease")]
    LogVolume,
    /// It has a distributed spare, by which it runs with fewer members than it would otherwise.
    #[error("arrays with a distributed spare can't have a lease")]
    DistributedSpare,
    /// It has two members: neither alone is a majority.
    #[error(
        "a mirror of two can't have a lease: when one member fails, the other is no majority, and the array would \
         end. A mirror of three and the other levels go on with a lease when they lose a member"
    )]
    MirrorOfTwo,
    /// Its stripes are becoming others.
    #[error(
        "an array that is being reshaped can't have a lease; it can when the reshape has ended"
    )]
    Reshape,
}

impl ArrayRecord {
    /// The same array, with a lease of this term, or without one.
    ///
    /// # Errors
    /// If it can't have one.
    pub fn set_lease(&mut self, term: Option<Term>) -> Result<(), NoLease> {
        if term.is_some() {
            self.may_get_lease()?;
        }
        self.lease = term;
        self.features.incompatible &= !Features::LEASE;
        self.features.incompatible |= if term.is_some() { Features::LEASE } else { 0 };
        Ok(())
    }

    /// Whether such an array may be given a lease. One that has it keeps it, and it can be taken away.
    ///
    /// # Errors
    /// If it can't have one.
    pub fn may_get_lease(&self) -> Result<(), NoLease> {
        self.may_be_leased()?;
        if self.geometry.members() == 2 && self.least_members() < 2 {
            return Err(NoLease::MirrorOfTwo);
        }
        Ok(())
    }

    /// Whether the lease's rules hold for such an array.
    ///
    /// # Errors
    /// If they don't.
    pub fn may_be_leased(&self) -> Result<(), NoLease> {
        if self.volume.is_some() {
            return Err(NoLease::LogVolume);
        }
        if self.areas.has_distributed_spare() {
            return Err(NoLease::DistributedSpare);
        }
        if self.reshape.is_some() {
            return Err(NoLease::Reshape);
        }
        Ok(())
    }

    /// The members that are in service: those that decide who holds a lease.
    #[must_use]
    pub fn serving(&self) -> Set<MemberId> {
        let members = self.slots.iter().take(self.geometry.members());
        let up = members.enumerate().filter(|(_, slot)| slot.state == SlotState::Up);
        up.map(|(index, _)| MemberId::at(index)).collect()
    }

    /// With how few members the array may run, whichever these are.
    #[must_use]
    pub fn least_members(&self) -> usize {
        let members = self.geometry.members();
        match self.geometry.level() {
            Level::Raid0 => members,
            Level::Raid1 => 1,
            Level::Raid4 | Level::Raid5 => members - 1,
            Level::Raid6 => members - 2,
            // One of each pair.
            Level::Raid10 => members / 2,
        }
    }
}

pub(super) fn encode_term(term: Option<Term>, into: &mut [u8]) {
    LEASE_TERM.put(into, term.map_or(0, |term| term.0).to_le_bytes());
}

pub(super) fn decode_term(block: &[u8], features: &Features) -> Result<Option<Term>, CodecError> {
    if features.incompatible & Features::LEASE == 0 {
        return Ok(None);
    }
    let term = Term(LEASE_TERM.u32(block));
    let is_one = (Term::MIN..=Term::MAX).contains(&term);
    if is_one { Ok(Some(term)) } else { Err(CodecError::Invalid("lease term")) }
}

/// What a member's lease block says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseBlock {
    /// Counts how often the lease was claimed.
    pub generation: u64,
    /// Counts the renewals of this generation; 0 is a claim.
    pub counter: u64,
    /// The process that has written it.
    pub holder: Holder,
    /// When the renewal was begun, in nanoseconds since the holder's kernel was booted.
    pub begun: u64,
    /// The term.
    pub term: Term,
    /// The members whose blocks decide who holds the lease.
    pub voters: Set<MemberId>,
    /// As of which change of the array's record, so that a host is noticed which goes by an older one.
    pub events: u64,
    /// Whether the lease is claimed or held; otherwise it was given up.
    pub held: bool,
}

impl LeaseBlock {
    /// Writes it into one block.
    ///
    /// # Panics
    /// If `into` is shorter than a block.
    pub fn encode(&self, array: ArrayId, into: &mut [u8]) {
        into.fill(0);
        GENERATION.put(into, self.generation.to_le_bytes());
        COUNTER.put(into, self.counter.to_le_bytes());
        HOST.put(into, self.holder.host);
        BOOT.put(into, self.holder.boot);
        INSTANCE.put(into, self.holder.instance);
        BEGUN.put(into, self.begun.to_le_bytes());
        EVENTS.put(into, self.events.to_le_bytes());
        TERM.put(into, self.term.0.to_le_bytes());
        VOTERS.put(into, (self.voters.bits() as u32).to_le_bytes());
        HELD.put(into, [u8::from(self.held)]);
        NAME_LENGTH.put(into, [self.holder.name.length]);
        NAME.put(into, self.holder.name.bytes);
        seal(into, MAGIC, array);
    }

    /// What a block says; nothing if no lease of the array was ever written there.
    ///
    /// # Errors
    /// If a block is damaged, of a later format, or has impossible values.
    pub fn decode(array: ArrayId, block: &[u8]) -> Result<Option<Self>, CodecError> {
        match open(block, MAGIC) {
            Ok(found) if found == array => {}
            // Of an array that the device was a member of before.
            Ok(_) | Err(CodecError::NoMagic) => return Ok(None),
            Err(error) => return Err(error),
        }
        let term = Term(TERM.u32(block));
        if !(Term::MIN..=Term::MAX).contains(&term) {
            return Err(CodecError::Invalid("term"));
        }
        let held = match HELD.u8(block) {
            0 => false,
            1 => true,
            _ => return Err(CodecError::Invalid("held")),
        };
        let holder = Holder {
            host: HOST.get(block),
            boot: BOOT.get(block),
            instance: INSTANCE.get(block),
            name: HostName::decode(NAME_LENGTH.u8(block), NAME.get(block)),
        };
        Ok(Some(Self {
            generation: GENERATION.count(block, "generation")?,
            counter: COUNTER.count(block, "counter")?,
            holder,
            begun: BEGUN.u64(block),
            term,
            voters: Set::from_bits(VOTERS.u32(block).into()),
            events: EVENTS.count(block, "events")?,
            held,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::BLOCK_BYTES;

    const ARRAY: ArrayId = ArrayId([3; 16]);

    fn block() -> LeaseBlock {
        LeaseBlock {
            generation: 7,
            counter: 9,
            holder: Holder {
                host: [1; 16],
                boot: [2; 16],
                instance: [3; 16],
                name: HostName::new("node one\n"),
            },
            begun: 55,
            term: Term::MIN,
            voters: Set::first(3),
            events: 66,
            held: true,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let mut bytes = [0xff; BLOCK_BYTES];
        block().encode(ARRAY, &mut bytes);
        let read = LeaseBlock::decode(ARRAY, &bytes).expect("it is intact").expect("it is there");
        assert_eq!((read, read.holder.name.as_str()), (block(), "nodeone"));
    }

    #[test]
    fn a_lease_that_was_never_written_or_is_of_another_array_is_none_and_a_damaged_one_an_error() {
        let mut bytes = [0; BLOCK_BYTES];
        assert_eq!(LeaseBlock::decode(ARRAY, &bytes), Ok(None));
        block().encode(ArrayId([4; 16]), &mut bytes);
        assert_eq!(LeaseBlock::decode(ARRAY, &bytes), Ok(None));
        block().encode(ARRAY, &mut bytes);
        for byte in [12, 40, 100, 4095] {
            bytes[byte] ^= 1;
            assert!(LeaseBlock::decode(ARRAY, &bytes).is_err(), "byte {byte}");
            bytes[byte] ^= 1;
        }
        for (at, what) in [(HELD.at, "held"), (TERM.at + 3, "term")] {
            block().encode(ARRAY, &mut bytes);
            bytes[at] = 9;
            seal(&mut bytes, MAGIC, ARRAY);
            assert_eq!(LeaseBlock::decode(ARRAY, &bytes), Err(CodecError::Invalid(what)));
        }
    }

    #[test]
    fn a_term_is_whole_milliseconds_within_bounds() {
        let of = |nanos| Term::new(Duration::from_nanos(nanos)).map(Term::duration);
        assert_eq!(of(1_500_000_000), Some(Duration::from_millis(1500)));
        assert_eq!([of(999_000_000), of(3_601_000_000_000), of(2_000_000_001)], [None; 3]);
    }
}
