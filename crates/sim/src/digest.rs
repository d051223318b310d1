//! A run as one number.

/// A sum over all events: two runs with the same sum were the same run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn add(&mut self, what: u64) {
        self.0 = (self.0.rotate_left(5) ^ what).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }
}
