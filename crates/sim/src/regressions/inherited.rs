//! A device in a member's place has nothing of what was there before.

use super::phases::is_flush;
use super::*;
use crate::checks;

impl World {
    /// A device without any of this array's data.
    pub(super) fn noisy_spare(&mut self) -> (Command, DeviceId) {
        let spare = self.new_spare();
        let Command::AddSpare { device, .. } = spare else { unreachable!() };
        self.disks[device.0 as usize].soil(&mut Source::seed(1));
        (spare, device)
    }
}

/// A member is replaced while it is being filled and a flush is under way that will record its
/// watermark. The power fails before anything is written to the new device.
#[test]
fn what_was_filled_of_one_device_is_not_on_record_of_the_next() {
    let mut world = world(Level::Raid5, 3, Consistency::Journal);
    for lba in 0..world.engine().geometry().capacity() {
        world.write_one(lba);
    }
    let member = MemberId(1);
    world.command(Command::SetPace(Pace { min: 1 << 14, max: 1 << 14 }));
    world.command(Command::Fail(member));
    let (spare, _) = world.noisy_spare();
    world.command(spare);
    let done = |world: &World| world.engine().pass().map_or(0, |pass| pass.done);
    while done(&world) < 6 || !world.ios.iter().any(|p| is_flush(&p.io)) {
        world.proceed();
    }
    let (spare, device) = world.noisy_spare();
    world.command(spare);
    world.command(Command::Replace { member, spare: device });
    let fills = |io: &Io| matches!(io.op, IoOp::Write { .. }) && io.device == device;
    world.end_all(|io| !fills(io) && !is_flush(io));
    world.end_all(|io| !fills(io));
    world.cut_power();
    world.drain();
    world.verify();
}

/// Writes use all scratch memory, and others wait for some, when the member is replaced that the
/// last one is to read.
#[test]
fn a_write_that_waits_for_memory_does_not_read_another_device_in_a_members_place() {
    let mut little = scenario(Level::Raid5, 3, Consistency::Bitmap);
    little.scratch_blocks = 40;
    let mut world = play(1, little);
    for lba in 0..64 {
        world.write_one(lba);
    }
    let lost = world.engine().geometry().member(Stripe(7), Role(1));
    (0..8).for_each(|tag| world.ask(tag, Op::Write, u64::from(tag) * 8, 1));
    world.command(Command::Fail(lost));
    let (spare, _) = world.noisy_spare();
    world.command(spare);
    world.drain();
    world.copy_on();
    checks::parity::agrees(&world);
    world.verify();
}
