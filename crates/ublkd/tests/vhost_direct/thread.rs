//! What is special about the volume's thread.

use std::path::PathBuf;

use det::Prng;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use ublkd::front::vhost::{VhostConfig, VhostServer, VhostThread};
use ublkd::host::HostHandle;
use ublkd::volume::Volume;
use vhost::VhostBackend;

use crate::VM_THREAD;
use crate::array::{start, start_again};
use crate::machine::{Data, READ, Vm, WRITE};
use crate::world::{World, config, pattern};

/// Asks for much while the volume's thread is busy: that takes nothing of it meanwhile, and a thread of the
/// VM's own does.
fn check(world: &World, own: bool) {
    let mut vm = world.vm(1);
    world.back_end.hold();
    vm.ask(0, READ, 0, Data::In(4096));
    world.back_end.wait_for_request();
    for _ in 0..10 {
        vm.ask(0, READ, 0, Data::In(4096));
    }
    let tags = usize::from(config().tags);
    let taken = |vm: &mut Vm| {
        vm.front().get_features().expect("features");
        tags - std::iter::from_fn(|| world.volume.try_buffer()).collect::<Vec<_>>().len()
    };
    assert!(own || taken(&mut vm) == 1, "it was busy");
    while own && taken(&mut vm) == 1 {}
    world.back_end.release();
    for _ in 0..11 {
        vm.wait(0);
    }
}

#[test]
fn queues_are_served_on_the_volumes_thread() {
    check(&World::new(), false);
    check(&World::with(|config| config.thread = VhostThread::Own), true);
}

#[test]
fn memory_that_may_be_swapped_out_is_not_waited_for_there() {
    let has_swap = rustix::system::sysinfo().totalswap > 0;
    check(&World::with(|config| config.thread = VhostThread::ByMemory), has_swap);
}

#[test]
fn whatever_a_vmm_says_meanwhile_every_request_is_answered() {
    for seed in 0..20 {
        let threads = [VM_THREAD, VhostThread::Own, VhostThread::ByMemory];
        let mut world = World::with(|config| config.thread = threads[seed as usize % 2 * 2]);
        let mut rng = Prng::new(seed);
        let mut vm = world.vm(3);
        let mut asked = [const { Vec::new() }; 3];
        for lba in 0..200u64 {
            let queue = rng.below(3) as usize;
            let slot = vm.ask(queue as u16, WRITE, lba * 8, Data::Out(&pattern(lba, 1)));
            asked[queue].push(slot);
            match rng.below(12) {
                0 => {
                    vm.disable(queue);
                    let slot = vm.ask(queue as u16, READ, 0, Data::In(4096));
                    asked[queue].push(slot);
                    vm.enable(queue);
                }
                1 => vm.replace_call(queue as u16),
                2 => drop(vm.config()),
                3 => {
                    vm.stop();
                    vm.start();
                }
                4 => {
                    world.stop();
                    vm.wait_for_end();
                    vm.disconnect();
                    world.serve(|config| {
                        config.thread = threads[rng.below(3) as usize];
                    });
                    vm.boot(&world.path());
                }
                // The volume's thread does not wait for a file, unless that is memory here.
                5 => vm.share(rng.below(2) == 0),
                _ => {}
            }
            if asked[queue].len() > 10 {
                for _ in &asked[queue] {
                    vm.wait(queue as u16);
                }
                for slot in asked[queue].drain(..) {
                    assert_eq!(vm.outcome(queue as u16, slot, 0).0, 0);
                }
            }
        }
        for (queue, slots) in (0..).zip(&asked) {
            for _ in slots {
                vm.wait(queue);
            }
        }
        assert!(vm.read(0, 200 * 4096) == pattern(0, 200));
    }
}

/// A VM's disk that is an array of files.
struct Array {
    volume: Volume,
    host: HostHandle,
    runtime: Runtime,
    dir: TempDir,
}

impl Array {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let (volume, host) = start(dir.path());
        Self { volume, host, runtime: Runtime::new().expect("a runtime"), dir }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("vhost.sock")
    }

    fn serve(&self) -> VhostServer {
        let config = VhostConfig { thread: VM_THREAD, ..VhostConfig::new(self.path()) };
        let server = VhostServer::start_at(self.volume.clone(), &self.host, config);
        self.runtime.block_on(server).expect("a server")
    }
}

#[test]
fn an_array_serves_several_queues() {
    let array = Array::new();
    let server = array.serve();
    let mut vm = Vm::new(4);
    vm.boot(&array.path());
    for round in 0..20u64 {
        let slots: Vec<_> = (0..40u64)
            .map(|at| {
                let data = pattern(round + at, 4);
                let queue = (at % 4) as u16;
                (queue, vm.ask(queue, WRITE, at * 32, Data::Out(&data)))
            })
            .collect();
        for &(queue, _) in &slots {
            vm.wait(queue);
        }
        for (queue, slot) in slots {
            assert_eq!(vm.outcome(queue, slot, 0).0, 0);
        }
        for at in 0..40 {
            assert!(vm.read(at * 32, 4 * 4096) == pattern(round + at, 4));
        }
        vm.flush();
    }
    array.runtime.block_on(server.stop());
    vm.wait_for_end();
    array.host.stop().wait().expect("a clean stop");
}

#[test]
fn what_an_array_did_not_answer_before_its_end_is_begun_again_by_the_next() {
    let mut array = Array::new();
    let server = array.serve();
    let mut vm = Vm::new(1);
    vm.boot(&array.path());
    vm.write(0, &pattern(0, 4));
    array.host.stop().wait().expect("a clean stop");
    let slot = vm.ask(0, WRITE, 32, Data::Out(&pattern(7, 4)));
    array.runtime.block_on(server.stop());
    vm.wait_for_end();
    vm.disconnect();
    assert!(vm.used(0).is_none(), "no answer that nobody can give");
    (array.volume, array.host) = start_again(array.dir.path());
    let _server = array.serve();
    vm.boot(&array.path());
    vm.wait(0);
    assert_eq!(vm.outcome(0, slot, 0).0, 0);
    assert!(vm.read(0, 4 * 4096) == pattern(0, 4));
    assert!(vm.read(32, 4 * 4096) == pattern(7, 4));
}
