//! What writes are said to be of is what lies where they go.

use raidcore::units::{MemberId, Stripe};

use super::*;
use crate::nvme::placement::{self, Placement};
use crate::nvme::{Begun, Passthrough};

const CHUNK: u64 = 4;

/// Identifiers of data, journal, staging log and parity.
const IDENTIFIERS: [u16; 4] = [11, 12, 13, 14];

fn placement() -> Placement {
    let mut status = vec![0; 16 + IDENTIFIERS.len() * 32];
    status[14] = IDENTIFIERS.len() as u8;
    for (descriptor, identifier) in status[16..].chunks_mut(32).zip(IDENTIFIERS) {
        descriptor[..2].copy_from_slice(&identifier.to_le_bytes());
        descriptor[2..4].copy_from_slice(&(identifier + 7).to_le_bytes());
    }
    placement::parse(&status).unwrap()
}

/// The writes among commands: the first block, and the placement identifier.
fn writes(begun: &Begun) -> Vec<(u64, u16)> {
    let begun = std::mem::take(&mut *begun.lock().unwrap());
    let writes = begun.iter().filter(|command| command.bytes[0] == 1);
    let number = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap());
    let write = |bytes: &[u8]| {
        assert_eq!(bytes[50] & 0xf0, 0x20, "it says where it goes");
        // Logical blocks of 512 bytes.
        (number(&bytes[40..48]) / 8, u16::from_ne_bytes([bytes[54], bytes[55]]))
    };
    writes.map(|command| write(&command.bytes)).collect()
}

#[test]
fn each_write_of_an_array_goes_to_the_place_of_its_stream() {
    for threads in [1, 3] {
        let mut begun = Vec::new();
        let (volume, host) = array_of(HostConfig { threads, ..HostConfig::default() }, |device| {
            let null = File::options().read(true).write(true).open("/dev/null").unwrap();
            let passthrough = Passthrough::to_file(null, 1 << 20, placement());
            begun.push(Begun::clone(passthrough.begun()));
            device.passing(passthrough)
        });
        // More than there are stripes of one kind; what it reads back is of no drive, and not looked at.
        let (checker, hears) = Checker::new(&volume, 20 * CHUNK);
        host.admit(checker).wait().unwrap();
        assert!(hears.iter().all(|(_, _, result, _)| result == Ok(())));
        host.stop().wait().unwrap();
        let record = new_array().record().unwrap();
        let (areas, geometry) = (record.areas, &record.geometry);
        let start = areas.data_start().0;
        let mut seen = [0; 4];
        for (member, begun) in (0..).map(MemberId).zip(&begun) {
            for (at, identifier) in writes(begun) {
                let home = at.checked_sub(start);
                let role = home.map(|at| geometry.role(Stripe(at / CHUNK), member));
                let kind = role.map_or(1, |role| if role == geometry.p() { 3 } else { 0 });
                assert_eq!(identifier, IDENTIFIERS[kind], "block {at} of {member:?}");
                seen[kind] += 1;
            }
        }
        assert!(seen[0] > 0 && seen[1] > 0 && seen[3] > 0, "{seen:?}");
    }
}
