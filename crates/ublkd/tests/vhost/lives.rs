//! VMs and servers that come, go, and come back.

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use raidcore::engine::Op;
use vhost::VhostBackend;

use crate::machine::{Data, READ, Vm, WRITE};
use crate::world::{BLOCKS, World, pattern};

#[test]
fn a_vm_is_reset_on_its_connection() {
    let world = World::new();
    let mut vm = world.vm(2);
    vm.write(0, &pattern(0, 1));
    assert_eq!(vm.stop(), [1, 0]);
    vm.reboot(1);
    vm.start();
    assert!(vm.read(0, 4096) == pattern(0, 1));
    assert_eq!(vm.stop(), [1]);
}

#[test]
fn a_queue_that_stops_has_nothing_under_way() {
    let world = World::new();
    let mut vm = world.vm(1);
    world.back_end.hold();
    let slots: Vec<u16> =
        (0..4).map(|lba| vm.ask(0, WRITE, lba * 8, Data::Out(&pattern(lba, 1)))).collect();
    world.back_end.wait_for_request();
    let back_end = world.back_end.clone();
    let stopped = thread::spawn(move || (vm.stop(), vm));
    back_end.release();
    let (places, vm) = stopped.join().expect("it stops");
    let ended = slots.iter().filter(|&&slot| vm.outcome(0, slot, 0).0 == 0).count();
    assert_eq!(places, [ended as u32]);
    let written = world.log().iter().filter(|asked| asked.op == Op::Write).count();
    assert_eq!(places, [written as u32], "what was begun has ended");
}

#[test]
fn a_queue_that_does_not_stop_in_time_is_left_as_it_is() {
    let mut world = World::with(|config| config.patience = Duration::from_millis(50));
    let mut vm = world.vm(1);
    world.back_end.hold();
    vm.ask(0, READ, 0, Data::In(4096));
    world.back_end.wait_for_request();
    let stopped = thread::spawn(move || (vm.front().get_vring_base(0).is_err(), vm));
    world.stop();
    let (is_cut, mut vm) = stopped.join().expect("it ends");
    assert!(is_cut);
    world.back_end.release();
    world.wait_for_all_buffers();
    assert!(vm.used(0).is_none(), "the connection had ended before");
}

#[test]
fn a_vmm_that_dies_leaves_the_disk_to_the_next_when_nothing_is_under_way() {
    let world = World::new();
    let mut dies = world.vm(1);
    world.back_end.hold();
    dies.ask(0, WRITE, 0, Data::Out(&pattern(9, 1)));
    world.back_end.wait_for_request();
    dies.disconnect();
    let mut next = world.vm(1);
    let slot = next.ask(0, READ, 0, Data::In(4096));
    world.back_end.release();
    next.wait(0);
    let (status, data) = next.outcome(0, slot, 4096);
    assert!(status == 0 && data == pattern(9, 1), "it sees what was under way before");
    assert!(dies.used(0).is_none(), "nobody has touched its memory since");
}

#[test]
fn a_second_vm_is_refused_and_the_first_goes_on() {
    let world = World::new();
    let mut first = world.vm(1);
    first.write(0, &pattern(0, 1));
    let mut second = Vm::new(1);
    second.connect(&world.path());
    assert_eq!(second.config()[..8], (64u64 << 11).to_le_bytes(), "it may ask");
    second.start();
    second.wait_for_end();
    assert!(first.read(0, 4096) == pattern(0, 1));
    let user = world.server.as_ref().expect("it runs").user().expect("a user");
    assert!(user.contains(&std::process::id().to_string()), "{user}");
}

#[test]
fn a_vm_that_is_paused_has_the_disk_until_it_is_gone() {
    let world = World::new();
    let mut paused = world.vm(1);
    paused.write(0, &pattern(0, 1));
    paused.stop();
    let mut second = Vm::new(1);
    second.boot(&world.path());
    second.wait_for_end();
    let server = world.server.as_ref().expect("it runs");
    assert!(server.shut(false).is_err(), "it is in use");
    paused.start();
    assert!(paused.read(0, 4096) == pattern(0, 1));
    paused.stop();
    paused.disconnect();
    world.assert_serves();
}

#[test]
fn a_vm_goes_on_with_the_next_server() {
    let mut world = World::new();
    let mut vm = world.vm(2);
    vm.write(0, &pattern(0, 8));
    world.stop();
    vm.wait_for_end();
    vm.disconnect();
    let slot = vm.ask(0, READ, 0, Data::In(8 * 4096));
    world.serve(|_| {});
    vm.boot(&world.path());
    vm.wait(0);
    let (status, data) = vm.outcome(0, slot, 8 * 4096);
    assert!(status == 0 && data == pattern(0, 8));
    vm.write(0, &pattern(5, 8));
}

#[test]
fn a_guest_is_told_of_what_it_may_have_missed() {
    let mut world = World::new();
    let mut vm = world.vm(1);
    let slot = vm.ask(0, READ, 0, Data::In(4096));
    // As if the server had died, or the event had been another one, before this was told.
    vm.wait_for_call(0);
    vm.replace_call(0);
    vm.wait_for_call(0);
    world.stop();
    vm.wait_for_end();
    vm.disconnect();
    world.serve(|_| {});
    vm.boot(&world.path());
    vm.wait_for_call(0);
    assert_eq!(vm.used(0), Some((slot * 3, 4097)));
}

#[test]
fn what_a_server_did_not_end_is_begun_again_in_its_order() {
    let ends = World::new();
    let mut vm = ends.vm(2);
    vm.write(0, &pattern(0, 1));
    ends.back_end.hold();
    let slots: Vec<(u16, u16)> = [(0, 1), (1, 2), (0, 3), (1, 4)]
        .map(|(queue, lba): (u16, u64)| {
            (queue, vm.ask(queue, WRITE, lba * 8, Data::Out(&pattern(lba, 1))))
        })
        .into();
    ends.back_end.wait_for_request();
    ends.back_end.end();
    ends.back_end.release();
    drop(ends);
    vm.wait_for_end();
    vm.disconnect();
    assert!(vm.used(0).is_none() && vm.used(1).is_none(), "no answer that nobody can give");
    let next = World::new();
    vm.boot(&next.path());
    for queue in [0, 1, 0, 1] {
        vm.wait(queue);
    }
    for (queue, slot) in slots {
        assert_eq!(vm.outcome(queue, slot, 0).0, 0);
    }
    assert!(vm.read(8, 4 * 4096) == pattern(1, 4));
    assert_eq!(next.log().iter().filter(|asked| asked.op == Op::Write).count(), 4, "each once");
    let lbas: Vec<u64> = next.log().iter().take(4).map(|asked| asked.lba.0).collect();
    let place = |lba| lbas.iter().position(|&at| at == lba).expect("it was written");
    assert!(place(1) < place(3) && place(2) < place(4), "{lbas:?}");
}

#[test]
fn a_disk_in_use_is_not_shut_but_for_who_can_wait() {
    let world = World::new();
    let server = world.server.as_ref().expect("it runs");
    let mut vm = world.vm(1);
    vm.write(0, &pattern(0, 1));
    let user = server.shut(false).expect_err("it is in use");
    assert!(user.contains("process"), "{user}");
    vm.write(8, &pattern(1, 1));
    assert_eq!(server.shut(true), Ok(()), "its VMM keeps what is under way");
    vm.write(16, &pattern(2, 1));
    server.reopen();
    vm.stop();
    vm.reboot(1);
    assert_eq!(server.shut(true), Ok(()));
    let silent = UnixStream::connect(world.path()).expect("it listens");
    server.reopen();
    vm.start();
    vm.write(0, &pattern(3, 1));
    drop(silent);
}

#[test]
fn a_vm_is_told_when_the_disk_has_grown() {
    let mut world = World::new();
    let mut vm = world.vm(1);
    let sectors = |vm: &mut Vm| {
        let config = vm.config();
        u64::from_le_bytes(std::array::from_fn(|i| config[i]))
    };
    // It has not asked since it is connected: it could know another size.
    vm.wait_for_notice();
    assert_eq!(sectors(&mut vm), BLOCKS * 8);
    assert_ne!(vm.request(READ, BLOCKS * 8, Data::In(4096)).0, 0, "behind the end");

    world.volume.size().grow(BLOCKS + 100);
    vm.wait_for_notice();
    assert_eq!(sectors(&mut vm), (BLOCKS + 100) * 8);
    vm.write(BLOCKS * 8, &pattern(BLOCKS, 100));
    assert!(vm.read((BLOCKS + 99) * 8, 4096) == pattern(BLOCKS + 99, 1));
    assert!(!vm.has_notice(), "once");

    // A VMM does not ask again when it comes back.
    world.stop();
    vm.wait_for_end();
    vm.disconnect();
    world.volume.size().grow(BLOCKS + 200);
    world.serve(|_| {});
    vm.boot(&world.path());
    vm.wait_for_notice();
    assert_eq!(sectors(&mut vm), (BLOCKS + 200) * 8);
    vm.flush();
    assert!(!vm.has_notice());
}

#[test]
fn a_vmm_that_asks_before_its_queues_run_is_not_told() {
    let world = World::new();
    let mut vm = Vm::new(1);
    vm.connect(&world.path());
    world.volume.size().grow(BLOCKS + 100);
    vm.config();
    vm.start();
    vm.write(0, &pattern(0, 1));
    assert!(!vm.has_notice());
}
