//! Choices made by bytes, so that a fuzzer that changes a byte changes a choice. When the bytes
//! have run out, every choice is the first one.

/// What is left of the bytes.
pub(crate) struct Choices<'a> {
    bytes: &'a [u8],
}

impl<'a> Choices<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// A number in `0..bound`, from as few bytes as that takes.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        let bytes = match bound {
            0..=0x100 => 1,
            0x101..=0x1_0000 => 2,
            _ => 8,
        };
        let number = self.take(bytes).iter().rev().fold(0, |n, &byte| n << 8 | u64::from(byte));
        number % bound
    }

    /// The same, as an index.
    pub(crate) fn index(&mut self, bound: usize) -> usize {
        self.below(bound as u64) as usize
    }

    /// False if there are no more bytes.
    pub(crate) fn flag(&mut self) -> bool {
        self.below(2) == 1
    }

    /// True for one byte in `bytes`, and never if there are none left.
    pub(crate) fn rarely(&mut self, bytes: u64) -> bool {
        self.below(bytes) == bytes - 1
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    pub(crate) fn number(&mut self) -> u64 {
        let bytes = self.take(8);
        bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
    }

    /// At most `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(count.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    /// All that are left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        self.take(usize::MAX)
    }
}
