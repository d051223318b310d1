//! A device's label for people: its last path, and the serial number that is printed on it. It
//! tells which drive to pull when the device can't be accessed.
//!
//! Invariant: a [`DeviceLabel`] is printable ASCII, whatever bytes it was made from, and no label
//! keeps an array from starting.

use core::fmt;

use super::codec::Field;
use crate::units::MEMBERS_MAX;

/// The longest serial number, in bytes.
pub const SERIAL_MAX: usize = 30;

/// The most bytes that a path and a serial number have together.
pub const LABEL_MAX: usize = ENTRY_MAX - LENGTHS;

/// The bytes of an entry before its texts: their lengths.
const LENGTHS: usize = 2;

/// The longest entry.
const ENTRY_MAX: usize = 128;

/// The prefix of a path that was cut.
const CUT: &[u8] = b"...";

/// The table of the labels: as many entries as the array has slots.
pub(super) const LABEL_TABLE: Field<{ 56 * MEMBERS_MAX }> = Field { at: 2048 };

/// A device's path and serial number as they were when it was opened last.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct DeviceLabel {
    serial: u8,
    path: u8,
    /// The serial number, the path, and zeros.
    text: [u8; LABEL_MAX],
}

impl DeviceLabel {
    /// Nothing is known.
    pub const NONE: Self = Self { serial: 0, path: 0, text: [0; LABEL_MAX] };

    /// A device's label. A serial number that is too long loses its end, a path its beginning.
    /// Characters that are not printable become `?`.
    #[must_use]
    pub fn new(path: &str, serial: &str) -> Self {
        Self::fit(path.as_bytes(), serial.as_bytes(), LABEL_MAX)
    }

    /// The device's last path, a lasting name if it had one; empty if it is not known. A path that
    /// was cut begins with `...`.
    #[must_use]
    pub fn path(&self) -> &str {
        let start = usize::from(self.serial);
        text(&self.text[start..start + usize::from(self.path)])
    }

    /// Its serial number; empty if it has none, or that is not known.
    #[must_use]
    pub fn serial(&self) -> &str {
        text(&self.text[..usize::from(self.serial)])
    }

    /// As much of it as there is room for with `slots` slots.
    pub(super) fn of_slots(&self, slots: usize) -> Self {
        Self::fit(self.path().as_bytes(), self.serial().as_bytes(), entry_bytes(slots) - LENGTHS)
    }

    fn fit(path: &[u8], serial: &[u8], room: usize) -> Self {
        let serial = &serial[..serial.len().min(SERIAL_MAX)];
        let room = room - serial.len();
        let (cut, path) = match path.len().checked_sub(room) {
            None | Some(0) => (&[][..], path),
            Some(over) => (CUT, &path[over + CUT.len()..]),
        };
        let mut label = Self {
            serial: serial.len() as u8,
            path: (cut.len() + path.len()) as u8,
            text: [0; LABEL_MAX],
        };
        let printable = |&byte: &u8| if matches!(byte, b' '..=b'~') { byte } else { b'?' };
        let bytes = serial.iter().chain(cut).chain(path).map(printable);
        label.text.iter_mut().zip(bytes).for_each(|(to, byte)| *to = byte);
        label
    }

    fn encode(&self, into: &mut [u8]) {
        let length = usize::from(self.serial) + usize::from(self.path);
        into[0] = self.serial;
        into[1] = self.path;
        into[LENGTHS..LENGTHS + length].copy_from_slice(&self.text[..length]);
    }

    fn decode(entry: &[u8]) -> Self {
        let (lengths, text) = entry.split_at(LENGTHS);
        let serial = usize::from(lengths[0]).min(SERIAL_MAX);
        let path = usize::from(lengths[1]).min(text.len() - serial);
        Self::fit(&text[serial..serial + path], &text[..serial], text.len())
    }
}

/// Writes the labels of all slots.
///
/// # Panics
/// If one is longer than [`DeviceLabel::of_slots`] allows.
pub(super) fn encode_labels<'a>(
    labels: impl ExactSizeIterator<Item = &'a DeviceLabel>,
    into: &mut [u8],
) {
    let entry = entry_bytes(labels.len());
    let entries = into[LABEL_TABLE.at..LABEL_TABLE.end()].chunks_exact_mut(entry);
    entries.zip(labels).for_each(|(into, label)| label.encode(into));
}

/// The labels of so many slots.
pub(super) fn decode_labels(block: &[u8], slots: usize) -> impl Iterator<Item = DeviceLabel> {
    let entries = block[LABEL_TABLE.at..LABEL_TABLE.end()].chunks_exact(entry_bytes(slots));
    entries.take(slots).map(DeviceLabel::decode)
}

/// Bytes of the table for each of `slots` slots.
fn entry_bytes(slots: usize) -> usize {
    (56 * MEMBERS_MAX / slots).min(ENTRY_MAX)
}

fn text(bytes: &[u8]) -> &str {
    core::str::from_utf8(bytes).unwrap_or_default()
}

impl fmt::Debug for DeviceLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.path(), self.serial())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::String;

    use super::*;

    #[test]
    fn what_is_too_long_keeps_what_tells_drives_apart() {
        let path: String = core::iter::repeat_n('x', 200).chain("tail".chars()).collect();
        let label = DeviceLabel::new(&path, "0123456789012345678901234567890123");
        assert_eq!(label.serial(), "012345678901234567890123456789");
        assert_eq!(label.path().len(), LABEL_MAX - SERIAL_MAX);
        assert!(label.path().starts_with("...xx") && label.path().ends_with("tail"));
        for slots in 1..=MEMBERS_MAX {
            let room = label.of_slots(slots);
            assert_eq!(room.serial(), label.serial());
            assert!(room.path().starts_with("...x") && room.path().ends_with("tail"));
            assert_eq!(room.of_slots(slots), room);
        }
    }

    #[test]
    fn whatever_is_in_the_table_is_a_label() {
        for length in 0..=u8::MAX {
            let mut block = [0xc3; 4096];
            for entry in block[LABEL_TABLE.at..LABEL_TABLE.end()].chunks_exact_mut(56) {
                entry[..2].copy_from_slice(&[length, u8::MAX - length]);
            }
            for label in decode_labels(&block, MEMBERS_MAX) {
                assert!(label.path().bytes().chain(label.serial().bytes()).all(|b| b == b'?'));
                assert_eq!(label.of_slots(MEMBERS_MAX), label);
            }
        }
        assert!(decode_labels(&[0; 4096], 3).all(|label| label == DeviceLabel::NONE));
    }
}
