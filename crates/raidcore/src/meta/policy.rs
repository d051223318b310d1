//! The name of the policy that an array is to follow, on record. Only hosts know its meaning, and
//! one host may not know the name that another has recorded. So any bytes are a valid name, and no
//! name keeps an array from starting.
//!
//! Invariant: a [`PolicyName`] is printable, and two with the same text are equal.

use core::fmt;

/// The longest name of a policy, in bytes.
pub const POLICY_NAME_MAX: usize = 31;

/// A policy's name: 1 to [`POLICY_NAME_MAX`] printable ASCII characters without blanks.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PolicyName {
    length: u8,
    /// Zeros after the name.
    bytes: [u8; POLICY_NAME_MAX],
}

/// Which policy an array is to follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Its name.
    pub name: PolicyName,
    /// Since when, in seconds since 1970.
    pub since: u64,
}

impl PolicyName {
    /// The name, if `name` is a valid one.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let mut bytes = [0; POLICY_NAME_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        let printable = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
        printable.then_some(Self { length: name.len() as u8, bytes })
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }

    /// Decodes a superblock's field: a length, and as many bytes. `None` if the length is 0.
    pub(super) fn decode(length: u8, mut bytes: [u8; POLICY_NAME_MAX]) -> Option<Self> {
        let length = usize::from(length).min(POLICY_NAME_MAX);
        for byte in bytes[..length].iter_mut().filter(|byte| !byte.is_ascii_graphic()) {
            *byte = b'?';
        }
        bytes[length..].fill(0);
        (length > 0).then_some(Self { length: length as u8, bytes })
    }

    pub(super) fn encode(&self) -> (u8, [u8; POLICY_NAME_MAX]) {
        (self.length, self.bytes)
    }
}

impl fmt::Display for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for PolicyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.as_str())
    }
}
