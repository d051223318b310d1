//! A virtual machine whose driver writes anything into its queues: its disk answers or gives up the
//! queue, and the next machine is served all the same.

use ublkd::front::vhost::VhostThread;
use vhost::VhostBackend;

use crate::choices::Choices;
use crate::machine::{DESCRIPTORS, MEMORY, Vm, place};
use crate::machines::World;

/// The requests that have a head.
const HEADS: u64 = 4;

/// The bytes choose descriptors, heads of requests, and what is made available.
pub fn vm(bytes: &[u8]) {
    for thread in [VhostThread::Own, VhostThread::Volume] {
        play(bytes, &World::on(thread, |config| config.thread = thread));
    }
}

fn play(bytes: &[u8], world: &World) {
    let mut choices = Choices::new(bytes);
    let mut vm = world.vm(1);
    for index in 0..DESCRIPTORS {
        descriptor(&mut choices, &vm, 16 * u64::from(index));
    }
    for slot in 0..HEADS {
        let kind = choices.pick(&[0u32, 1, 4, 8, 11, 13, 2, u32::MAX]);
        let sector = if choices.rarely(4) { choices.number() } else { choices.below(1 << 17) };
        let head = [u64::from(kind).to_le_bytes(), sector.to_le_bytes()].concat();
        vm.put(place(0, slot as u16), &head);
    }
    for _ in 0..choices.below(24) {
        let beyond = if choices.rarely(16) { u16::MAX.into() } else { u64::from(DESCRIPTORS) };
        vm.offer(0, choices.below(beyond) as u16);
    }
    if choices.rarely(8) {
        vm.set_available(0, choices.number() as u16);
    }
    // What is kicked before a message is looked at before the answer to the one after it. An error
    // means that the connection was cut.
    let front = vm.front();
    front.get_features().and_then(|_| front.get_features()).ok();
    vm.disconnect();
    world.assert_serves();
}

/// A descriptor that is plausible most of the time.
fn descriptor(choices: &mut Choices<'_>, vm: &Vm, at: u64) {
    let slot = choices.below(HEADS) as u16;
    let memory = match choices.below(8) {
        0..3 => place(0, slot),
        3..6 => place(0, slot) + 4096,
        6 => choices.below(MEMORY + 4096),
        _ => choices.number(),
    };
    let bytes = match choices.below(4) {
        0 => 16,
        1 => 1,
        2 => 512 * choices.below(600) as u32,
        _ => choices.number() as u32,
    };
    let flags = choices.pick(&[1u16, 3, 2, 0, 4, 5, 7, 0xffff]);
    let next = choices.below(u64::from(DESCRIPTORS) + 1) as u16;
    vm.describe_at(at, (memory, bytes), flags, next);
}
