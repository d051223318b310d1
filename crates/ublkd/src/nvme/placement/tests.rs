//! What drives answer, and what is asked of which.

use super::*;

/// The status of reclaim unit handles: a placement identifier and a handle each. The rest of a descriptor is
/// what must not be taken for either.
fn status(handles: &[(u16, u16)]) -> Vec<u8> {
    let mut bytes = vec![0xee; 14];
    bytes.extend((handles.len() as u16).to_le_bytes());
    for (identifier, handle) in handles {
        bytes.extend(identifier.to_le_bytes());
        bytes.extend(handle.to_le_bytes());
        bytes.extend([0xee; 28]);
    }
    bytes
}

/// A drive with a namespace 7 in endurance group 3.
struct Drive {
    attributes: u32,
    feature: u32,
    status: Vec<u8>,
    /// The question that it refuses, by its number.
    refuses: Option<usize>,
    asked: Vec<Question>,
}

impl Drive {
    fn new(status: Vec<u8>) -> Self {
        Self { attributes: 1 << 19, feature: 1, status, refuses: None, asked: Vec::new() }
    }

    fn answer(&mut self, question: Question, into: &mut [u8]) -> io::Result<u32> {
        self.asked.push(question);
        if self.refuses == Some(self.asked.len() - 1) {
            return Err(io::Error::other("no"));
        }
        match self.asked.len() {
            1 => into[96..100].copy_from_slice(&self.attributes.to_le_bytes()),
            2 => return Ok(self.feature),
            _ => {
                assert!(into.len() <= self.status.len(), "more than there is to be told");
                into.copy_from_slice(&self.status[..into.len()]);
            }
        }
        Ok(0)
    }

    fn find(&mut self, group: u16) -> Result<Placement, NotPlaced> {
        find(7, group, &mut |question, into: &mut [u8]| self.answer(question, into))
    }
}

/// The identifiers of all streams.
fn identifiers(placement: Placement) -> [Option<u16>; 4] {
    [Stream::Data, Stream::Journal, Stream::Staging, Stream::Parity].map(|it| placement.of(it))
}

#[test]
fn a_drive_is_asked_step_by_step() {
    let mut drive = Drive::new(status(&[(0, 5), (1, 2), (2, 7), (3, 1)]));
    let placement = drive.find(3).expect("it has handles");
    assert_eq!(placement.streams(), 4);
    assert_eq!(identifiers(placement), [Some(0), Some(1), Some(2), Some(3)]);
    let none = Question::default();
    let status =
        Question { asked: Asked::Namespace, opcode: 0x12, namespace: 7, dword10: 1, ..none };
    let expected = [
        Question { opcode: 0x06, dword10: 1, ..none },
        Question { opcode: 0x0a, dword10: 0x1d, dword11: 3, ..none },
        // As many dwords as the header has, less one, and as it has with four descriptors.
        Question { dword11: 3, ..status },
        Question { dword11: 4 + 4 * 8 - 1, ..status },
    ];
    assert_eq!(drive.asked, expected);
}

#[test]
fn a_drive_without_placement_is_asked_no_further() {
    let handles = status(&[(0, 0), (1, 1)]);
    let mut drive = Drive::new(handles.clone());
    drive.attributes = !(1 << 19);
    assert!(matches!(drive.find(3), Err(NotPlaced::Unsupported)));
    assert_eq!(drive.asked.len(), 1);
    let mut drive = Drive::new(handles.clone());
    assert!(matches!(drive.find(0), Err(NotPlaced::Unsupported)), "it is in no group");
    assert_eq!(drive.asked.len(), 1);
    let mut drive = Drive::new(handles.clone());
    // The configuration's number says nothing.
    drive.feature = 0xff00;
    assert!(matches!(drive.find(3), Err(NotPlaced::Off)));
    assert_eq!(drive.asked.len(), 2);
    for refuses in 0..4 {
        let mut drive = Drive::new(handles.clone());
        drive.refuses = Some(refuses);
        assert!(matches!(drive.find(3), Err(NotPlaced::NotAsked(_))));
        assert_eq!(drive.asked.len(), refuses + 1);
    }
}

#[test]
fn streams_have_the_lowest_identifiers_in_order() {
    let of = |handles: &[(u16, u16)]| parse(&status(handles)).expect("it has handles");
    let some = of(&[(0x300, 9), (0x100, 0xffff), (0x200, 4)]);
    assert_eq!(some.streams(), 3);
    // Parity is data's, as there is no fourth.
    assert_eq!(identifiers(some), [Some(0x100), Some(0x200), Some(0x300), Some(0x100)]);
    let two = of(&[(6, 0), (5, 1)]);
    assert_eq!(two.streams(), 2);
    assert_eq!(identifiers(two), [Some(5), Some(6), Some(6), Some(5)]);
    let all: Vec<_> = (0..128).map(|number| (0xffff - number, number)).collect();
    let most = of(&all);
    assert_eq!(most.streams(), 4);
    assert_eq!(identifiers(most), [Some(0xff80), Some(0xff81), Some(0xff82), Some(0xff83)]);
}

#[test]
fn what_keeps_nothing_apart_has_no_identifiers() {
    assert_eq!(identifiers(Placement::default()), [None; 4]);
    assert!(matches!(parse(&status(&[])), Err(NotPlaced::OneHandle)));
    assert!(matches!(parse(&status(&[(0, 0)])), Err(NotPlaced::OneHandle)));
    // The same handles in two groups: the identifiers' upper bits are the group's number.
    let groups = [(0, 4), (0x8000, 4), (1, 5), (0x8001, 5)];
    assert!(matches!(parse(&status(&groups)), Err(NotPlaced::SeveralGroups)));
    let many: Vec<_> = (0..129).map(|number| (number, number)).collect();
    assert!(matches!(parse(&status(&many)), Err(NotPlaced::SeveralGroups)));
    let mut drive = Drive::new(status(&many));
    assert!(matches!(drive.find(3), Err(NotPlaced::SeveralGroups)));
    assert_eq!(drive.asked.len(), 3, "they are not asked for");
}

#[test]
fn a_status_that_makes_no_sense_is_refused() {
    let whole = status(&[(0, 0), (1, 1)]);
    for bytes in 0..whole.len() {
        assert!(matches!(parse(&whole[..bytes]), Err(NotPlaced::Malformed)), "{bytes} bytes");
    }
    assert!(parse(&whole).is_ok());
    let mut more = whole;
    more[14] = 3;
    assert!(matches!(parse(&more), Err(NotPlaced::Malformed)), "one more than there are");
    assert!(matches!(parse(&status(&[(1, 0), (2, 1), (1, 2)])), Err(NotPlaced::Malformed)));
    // The drive says that there are four, and tells two, the rest of it zeros.
    let mut drive = Drive::new(status(&[(0, 0), (1, 1)]));
    drive.status[14] = 4;
    drive.status.extend([0; 64]);
    assert!(matches!(drive.find(3), Err(NotPlaced::Malformed)));
}
