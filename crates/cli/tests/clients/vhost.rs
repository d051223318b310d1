//! A virtual machine's driver, whose disk is an array that is restarted and killed.

use crate::machine::{Data, READ, Vm, WRITE};
use crate::world::World;

const BLOCK: usize = 4096;

fn block(number: u64) -> Vec<u8> {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes().repeat(BLOCK / 8)
}

/// Its memory of what it has written last.
fn assert_reads(vm: &mut Vm, blocks: u64, round: u64) {
    for lba in 0..blocks {
        assert!(vm.read(lba * 8, BLOCK as u32) == block(lba + 1000 * round), "block {lba}");
    }
}

#[test]
fn a_vm_goes_on_after_restarts_and_kills() {
    let mut world = World::new("raid5", 3, 64);
    let ready = world.start("--vhost");
    let fronts = ready["fronts"].as_array().expect("fronts").clone();
    let socket = world.path("run/tank.vhost");
    let told = |front: &serde_json::Value| {
        front["kind"] == "vhost-user" && front["address"] == socket.display().to_string()
    };
    assert!(fronts.iter().any(told), "{fronts:?}");
    let mut vm = Vm::new(2);
    vm.boot(&socket);
    (0..8).for_each(|lba| vm.write(lba * 8, &block(lba)));
    let refused = world.try_evenkeel("stop tank");
    assert!(refused.stderr.contains("a virtual machine uses it"), "{}", refused.stderr);
    for round in 1..6 {
        // As many as fit into the queues are under way when it dies.
        let asked: Vec<(u16, u16)> = (0..16u64)
            .map(|lba| {
                let data = block(lba % 8 + 1000 * round);
                let queue = (lba % 2) as u16;
                (queue, vm.ask(queue, WRITE, lba % 8 * 8, Data::Out(&data)))
            })
            .collect();
        world.kill();
        vm.wait_for_end();
        vm.disconnect();
        world.start("--vhost");
        vm.boot(&socket);
        for &(queue, _) in &asked {
            vm.wait(queue);
        }
        for (queue, slot) in asked {
            assert_eq!(vm.outcome(queue, slot, 0).0, 0, "round {round}");
        }
        assert_reads(&mut vm, 8, round);
    }
    vm.flush();
    vm.stop();
    world.stop();
    world.start("--vhost");
    vm.disconnect();
    vm.boot(&socket);
    assert_reads(&mut vm, 8, 5);
    let slot = vm.ask(1, READ, 0, Data::In(BLOCK as u32));
    vm.wait(1);
    assert!(vm.outcome(1, slot, BLOCK) == (0, block(5000)));
    vm.stop();
    world.assert_sound();
}

#[test]
fn a_log_volume_is_not_served_to_vms() {
    let mut world = World::of("--layout log-raid5", 3, 64);
    let refused = world.try_evenkeel("start --vhost m0 m1 m2");
    assert!(refused.stderr.contains("another front end than --vhost"), "{}", refused.stderr);
    assert!(!world.path("run/tank.vhost").exists());
    world.start("");
    world.stop();
}
