//! Blocks that change without a word, and the scrub that has to find them.

use std::collections::BTreeSet;

use raidcore::engine::Note;
use raidcore::geometry::{Level, Role};
use raidcore::units::{Lba, Pba, Stripe};

use crate::checks;
use crate::model::version_of;
use crate::world::World;

impl World {
    /// Changes a block in some stripes, and sees a scrub find each. Where redundancy tells which
    /// block is wrong, the data is right afterwards; elsewhere the data is believed.
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
        let role = self.source.below(geometry.members() as u64) as usize;
        let row = self.source.below(geometry.chunk().into());
        let member = geometry.member(stripe, Role::at(role));
        let device = self.engine().members().nth(member.index()).and_then(|member| member.device);
        // At home, or one of the copies on the distributed spare, of which the others tell.
        let (disk, Pba(start), told) = match device {
            Some(device) => {
                let told = match geometry.level() {
                    Level::Raid6 => true,
                    Level::Raid1 => geometry.members() >= 3,
                    Level::Raid0 | Level::Raid4 | Level::Raid5 => false,
                };
                (device.0 as usize, geometry.place(stripe, self.areas.data_start()), told)
            }
            None => {
                let copies = self.copies_on_spare(stripe);
                let (disk, at) = copies[self.source.below(copies.len() as u64) as usize];
                (disk, at, copies.len() > 1)
            }
        };
        self.trace(format_args!("disk {disk} corrupts {}", start + row));
        self.disks[disk].corrupt(&mut self.source, start + row);
        // The first copy of a mirror is the one that is believed.
        if role < geometry.data() && !told {
            let lba = stripe.0 * u64::from(geometry.stripe_blocks())
                + role as u64 * u64::from(geometry.chunk())
                + row;
            debug_assert_eq!(geometry.locate(Lba(lba)).0, stripe);
            // What was changed before may be as it was again.
            let found = version_of(lba, self.disks[disk].data(start + row));
            self.model.adopt(lba, found);
        }
    }
}
