//! A device that has become smaller has lost an unknown part of its content.

use super::*;

#[test]
fn a_device_that_was_smaller_for_a_while_is_filled_as_a_whole() {
    for shrinks in [false, true] {
        let mut world = world(Level::Raid1, 3, Consistency::Bitmap);
        world.write_one(0);
        let device = DeviceId(1);
        world.disks[1].gone = true;
        let lost = if shrinks { Input::DeviceShrunk(device) } else { Input::DeviceGone(device) };
        world.step(lost);
        world.drain();
        for _ in 0..3 {
            world.now = world.now + Duration::from_secs(6);
            world.step(Input::Tick);
            world.drain();
        }
        let known = world.engine().status().members[1].missed.is_some();
        assert_eq!(known, !shrinks, "what it has missed is all that it lacks");
        world.disks[1].gone = false;
        let (_, returning) = world.returnable()[0];
        assert_eq!(returning.catches_up, !shrinks);
    }
}
