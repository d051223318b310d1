//! Silent corruption, and the scrub that has to find it.

use std::collections::BTreeSet;

use raidcore::engine::Note;
use raidcore::geometry::{Level, Role};
use raidcore::units::{Lba, Pba, Stripe};

use crate::checks;
use crate::model::version_of;
use crate::world::World;

impl World {
    /// Corrupts a block in some stripes, and checks that a scrub finds each. Where redundancy tells
    /// which block is wrong, the data is right afterwards; elsewhere the data is believed.
    pub(crate) fn corrupt_and_scrub(&mut self) {
        let geometry = *self.engine().geometry();
        if geometry.redundancy() == 0 {
            return;
        }
        let mut hit = BTreeSet::new();
        for _ in 0..1 + self.source.below(3) {
            let stripe = Stripe(self.source.below(geometry.stripes()));
            if !self.engine().is_discarded(stripe) && hit.insert(stripe) {
                self.corrupt(stripe);
            }
        }
        self.notes.clear();
        self.scrub(true);
        let found = self.notes.iter().filter_map(|note| {
            if let Note::Mismatch { stripe, .. } | Note::BlocksWrong { stripe, .. } = note {
                Some(*stripe)
            } else {
                None
            }
        });
        assert_eq!(
            found.collect::<BTreeSet<_>>(),
            hit,
            "a scrub finds what is wrong, and only that"
        );
        checks::parity::agrees(self);
        self.summary.faults.silent += hit.len() as u64;
    }

    fn corrupt(&mut self, stripe: Stripe) {
        let geometry = *self.engine().geometry();
        let role = self.source.below(geometry.width() as u64) as usize;
        let row = self.source.below(geometry.chunk().into());
        let (member, home) = self.engine().layout().place(stripe, Role::at(role));
        let device = self.engine().members().nth(member.index()).and_then(|member| member.device);
        // At home, or one of the copies on the distributed spare, of which the others tell.
        let (disk, Pba(start), told) = match device {
            Some(device) => {
                let told = match geometry.level() {
                    Level::Raid6 => true,
                    Level::Raid1 => geometry.width() >= 3,
                    Level::Raid0 | Level::Raid4 | Level::Raid5 | Level::Raid10 => false,
                };
                (device.0 as usize, home, told)
            }
            None => {
                let copies = self.copies_on_spare(stripe);
                let (disk, at) = copies[self.source.below(copies.len() as u64) as usize];
                (disk, at, copies.len() > 1)
            }
        };
        self.trace(format_args!("disk {disk} corrupts {}", start + row));
        self.disks[disk].corrupt(&mut self.source, start + row);
        // The first copy of a mirror is believed.
        if role < geometry.data() && !told {
            let lba = stripe.0 * u64::from(geometry.stripe_blocks())
                + role as u64 * u64::from(geometry.chunk())
                + row;
            debug_assert_eq!(geometry.locate(Lba(lba)).0, stripe);
            // A block that was corrupted before may have its old content again.
            let found = version_of(lba, self.disks[disk].data(start + row));
            self.model.adopt(lba, found);
        }
    }
}
