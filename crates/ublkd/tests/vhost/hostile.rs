//! Hostile guests and VMMs. Whatever they do, the next VM is served.

use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use raidcore::engine::{Op, RequestError};
use raidcore::units::Lba;
use ublkd::volume::{Buffer, Edges, Port, Submit};
use vhost::vhost_user::VhostUserFrontend;
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::sock_ctrl_msg::ScmSocket;

use crate::machine::{DESCRIPTORS, Data, INDIRECT, MEMORY, NEXT, READ, Vm, WRITABLE, WRITE, place};
use crate::world::{World, pattern};

/// Breaks a queue, and checks that the other one and the next VM are served.
fn breaks(what: &str, hostile: impl FnOnce(&mut Vm)) {
    let world = World::new();
    let mut vm = world.vm(2);
    vm.write(0, &pattern(0, 1));
    hostile(&mut vm);
    vm.wait_for_error(0);
    let slot = vm.ask(1, READ, 0, Data::In(4096));
    vm.wait(1);
    assert!(vm.outcome(1, slot, 4096) == (0, pattern(0, 1)), "{what}");
    vm.stop();
    vm.reboot(1);
    vm.start();
    assert!(vm.read(0, 4096) == pattern(0, 1), "{what}, and it was reset");
    vm.disconnect();
    world.assert_serves();
}

#[test]
fn chains_that_are_none_break_their_queue() {
    let head = (place(0, 0), 16);
    breaks("a loop", |vm| {
        vm.describe_at(0, head, NEXT, 0);
        vm.offer(0, 0);
    });
    breaks("a loop of what may be written", |vm| {
        vm.describe_at(0, head, NEXT, 1);
        vm.describe_at(16, head, NEXT | WRITABLE, 2);
        vm.describe_at(32, head, NEXT | WRITABLE, 1);
        vm.offer(0, 0);
    });
    breaks("out of the table", |vm| {
        vm.describe_at(0, head, NEXT, DESCRIPTORS);
        vm.offer(0, 0);
    });
    breaks("a head out of the table", |vm| vm.offer(0, u16::MAX));
    breaks("no place for a status", |vm| {
        vm.describe_at(0, head, 0, 0);
        vm.offer(0, 0);
    });
    breaks("a status of no bytes", |vm| {
        vm.describe_at(0, head, NEXT, 1);
        vm.describe_at(16, (place(0, 0), 0), WRITABLE, 0);
        vm.offer(0, 0);
    });
    breaks("a short head", |vm| {
        vm.describe_at(0, (place(0, 0), 15), NEXT, 1);
        vm.describe_at(16, (place(0, 0), 1), WRITABLE, 0);
        vm.offer(0, 0);
    });
    breaks("memory to read from behind memory to write to", |vm| {
        vm.describe_at(0, (place(0, 0), 1), NEXT | WRITABLE, 1);
        vm.describe_at(16, head, 0, 0);
        vm.offer(0, 0);
    });
}

#[test]
fn tables_that_are_none_break_their_queue() {
    let table = place(1, 0);
    breaks("a table in a table", |vm| {
        vm.describe_at(0, (table, 16), INDIRECT, 0);
        vm.describe_at(table, (table, 16), INDIRECT, 0);
        vm.offer(0, 0);
    });
    for bytes in [0, 15, 17] {
        breaks("a table of no size", |vm| {
            vm.describe_at(0, (table, bytes), INDIRECT, 0);
            vm.offer(0, 0);
        });
    }
    for at in [MEMORY - 8, MEMORY, u64::MAX - 15, u64::MAX] {
        breaks("a table that is not in memory", |vm| {
            vm.describe_at(0, (at, 32), INDIRECT, 0);
            vm.offer(0, 0);
        });
    }
}

#[test]
fn what_is_not_in_memory_breaks_its_queue() {
    for at in [MEMORY - 8, MEMORY, u64::MAX - 3, u64::MAX] {
        breaks("a head that is not in memory", |vm| {
            vm.describe_at(0, (at, 16), NEXT, 1);
            vm.describe_at(16, (place(0, 0), 1), WRITABLE, 0);
            vm.offer(0, 0);
        });
    }
    for (at, bytes) in [(MEMORY, 1), (u64::MAX, 1), (u64::MAX, 2), (MEMORY - 1, u32::MAX)] {
        breaks("a status that is not in memory", |vm| {
            vm.put(place(0, 0), &[4; 1]);
            vm.put(place(0, 0) + 1, &[0; 15]);
            vm.describe_at(0, (place(0, 0), 16), NEXT, 1);
            vm.describe_at(16, (at, bytes), WRITABLE, 0);
            vm.offer(0, 0);
        });
    }
}

#[test]
fn rings_of_garbage_break_their_queue() {
    breaks("more than there is room for", |vm| vm.set_available(0, 1000));
    breaks("backwards", |vm| vm.set_available(0, 0));
    breaks("one chain twice", |vm| {
        let head = place(0, 0);
        vm.put(head, &[0; 16]);
        vm.describe_at(0, (head, 16), NEXT, 1);
        vm.describe_at(16, (head + 4096, 4096), NEXT | WRITABLE, 2);
        vm.describe_at(32, (head + 16, 1), WRITABLE, 0);
        // Made available by one index, so that both are seen together.
        vm.put(0x4004 + 2, &[0, 0, 0, 0]);
        vm.set_available(0, 3);
    });
}

#[test]
fn data_that_are_not_in_memory_fail_their_request() {
    let world = World::new();
    let mut vm = world.vm(1);
    for (kind, flags) in [(READ, NEXT | WRITABLE), (WRITE, NEXT)] {
        for at in [MEMORY - 512, MEMORY, u64::MAX - 511, u64::MAX] {
            let head = place(0, 0);
            vm.put(head, &[0; 16]);
            vm.put(head, &kind.to_le_bytes());
            vm.put(head + 16, &[0xff]);
            vm.describe_at(0, (head, 16), NEXT, 1);
            vm.describe_at(16, (at, 1024), flags, 2);
            vm.describe_at(32, (head + 16, 1), WRITABLE, 0);
            vm.offer(0, 0);
            vm.wait(0);
            assert_eq!(vm.get(head + 16, 1), [1], "{kind} at {at:x}");
        }
    }
    vm.disconnect();
    assert!(world.log().iter().all(|asked| asked.op != Op::Write));
    world.assert_serves();
}

#[test]
fn lengths_that_overflow_are_only_too_long() {
    let world = World::new();
    let mut vm = world.vm(1);
    let head = place(0, 0);
    vm.put(head, &[0; 16]);
    vm.describe_at(0, (head, 16), NEXT, 1);
    for index in 1..60 {
        vm.describe_at(16 * u64::from(index), (0, u32::MAX), NEXT | WRITABLE, index + 1);
    }
    vm.describe_at(16 * 60, (head + 16, 1), WRITABLE, 0);
    vm.offer(0, 0);
    vm.wait(0);
    assert_eq!(vm.get(head + 16, 1), [1], "not so much is there to be read");
    vm.disconnect();
    world.assert_serves();
}

#[test]
fn memory_that_vanishes_ends_its_connection_only() {
    let world = World::new();
    for in_flight in [false, true] {
        let mut vm = world.vm(1);
        vm.write(0, &pattern(0, 1));
        if in_flight {
            world.back_end.hold();
            vm.ask(0, READ, 0, Data::In(4096));
            world.back_end.wait_for_request();
        } else {
            // In the ring, and not looked at before the memory is gone.
            vm.disable(0);
            vm.ask(0, WRITE, 0, Data::Out(&pattern(1, 1)));
        }
        vm.file.set_len(0).expect("it is not sealed");
        if in_flight {
            world.back_end.release();
        } else {
            vm.enable(0);
        }
        vm.wait_for_end();
        world.wait_for_all_buffers();
    }
    let mut vm = world.vm(1);
    assert!(vm.read(0, 4096) == pattern(0, 1), "nothing was written of what was gone");
    vm.disconnect();
    world.assert_serves();
}

#[test]
fn a_counter_that_is_full_is_not_waited_for() {
    let world = World::new();
    let mut vm = world.vm(2);
    // The queue is served from here on: what is asked of one that is stopped first stays there.
    vm.ask(1, WRITE, 160, Data::Out(&pattern(0, 1)));
    vm.wait(1);
    vm.fill_call(1);
    for lba in 0..3 {
        vm.ask(1, WRITE, lba * 8, Data::Out(&pattern(lba, 1)));
    }
    for lba in 0..3 {
        vm.write(80 + lba * 8, &pattern(lba, 1));
    }
    vm.stop();
    assert!((0..3).all(|_| vm.used(1).is_some()), "they have ended all the same");
    vm.disconnect();
    world.assert_serves();
}

/// Where another user's answers come.
struct Answers(Sender<Result<(), RequestError>>);

impl Port for Answers {
    fn completed(&self, _: u64, _: Buffer, result: Result<(), RequestError>) {
        self.0.send(result).expect("the user waits");
    }
}

#[test]
fn a_guest_that_kicks_without_an_end_keeps_no_other_user_waiting() {
    let world = World::new();
    let mut vm = Vm::new(64);
    // One for all: each kick is of all queues.
    vm.share_kick();
    vm.boot(&world.path());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    vm.kick(0);
                }
            });
        }
        let (told, answers) = channel();
        let port: Arc<dyn Port> = Arc::new(Answers(told));
        let flush =
            Submit { op: Op::Flush, lba: Lba(0), blocks: 0, fua: false, edges: Edges::default() };
        for _ in 0..100 {
            world.volume.submit(&port, 0, flush, world.volume.buffer_blocking());
            answers.recv().expect("an answer").expect("a flush");
        }
        over.store(true, Ordering::Relaxed);
    });
    vm.disconnect();
    world.assert_serves();
}

#[test]
fn who_says_nothing_keeps_nobody_out() {
    let world = World::new();
    let silent: Vec<UnixStream> =
        (0..20).map(|_| UnixStream::connect(world.path()).expect("it listens")).collect();
    world.assert_serves();
    drop(silent);
}

#[test]
fn half_a_message_is_not_waited_for() {
    let world = World::with(|config| config.patience = Duration::from_millis(50));
    for half in [&[1, 0, 0, 0][..], &[1, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 1]] {
        let mut slow = UnixStream::connect(world.path()).expect("it listens");
        slow.write_all(half).expect("it is taken");
        let mut rest = Vec::new();
        slow.read_to_end(&mut rest).ok();
        assert!(rest.is_empty());
    }
    world.assert_serves();
}

#[test]
fn more_descriptors_than_are_taken_keep_nobody_out() {
    let world = World::with(|config| config.connections = 1);
    let file = std::fs::File::open("/dev/null").expect("it is there");
    let get_features = [1u32, 1, 0].map(u32::to_ne_bytes).concat();
    let mut stuck = UnixStream::connect(world.path()).expect("it listens");
    let sent = stuck.send_with_fds(&[&get_features[..]], &[file.as_raw_fd(); 33]);
    sent.expect("the kernel takes so many");
    world.assert_serves();
    let mut rest = Vec::new();
    stuck.read_to_end(&mut rest).ok();
    assert!(rest.is_empty());
}

#[test]
fn messages_of_garbage_end_their_connection() {
    let world = World::new();
    let garbage: [&[u8]; 4] = [
        &[0xff; 64],
        &[0; 64],
        &[1, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
        b"GET / HTTP/1.1\r\n\r\n",
    ];
    for garbage in garbage {
        let mut stream = UnixStream::connect(world.path()).expect("it listens");
        stream.write_all(garbage).expect("it is taken");
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).ok();
    }
    world.assert_serves();
}

#[test]
fn who_takes_no_replies_is_cut_off() {
    let world = World::new();
    let mut deaf = UnixStream::connect(world.path()).expect("it listens");
    let get_features = [1u32, 1, 0].map(u32::to_ne_bytes).concat();
    while deaf.write_all(&get_features).is_ok() {}
    world.assert_serves();
}

#[test]
fn a_vmm_that_asks_for_what_is_not_offered_is_refused() {
    type Hostile = fn(&mut Vm) -> bool;
    let tries: [Hostile; 13] = [
        |vm| vm.front().set_vring_num(0, 3).is_err(),
        |vm| vm.front().set_vring_num(0, 2048).is_err(),
        |vm| vm.front().set_features(1 << 63).is_err(),
        |vm| vm.front().set_vring_base(0, 7).is_err(),
        |vm| {
            let region = region(&vm.file, MEMORY + 4096, 0);
            vm.front().set_mem_table(&[region]).is_err()
        },
        |vm| {
            let region = region(&vm.file, 4096, MEMORY);
            vm.front().set_mem_table(&[region]).is_err()
        },
        |vm| {
            let regions = [region(&vm.file, 8192, 0), region(&vm.file, 8192, 4096)];
            vm.front().set_mem_table(&regions).is_err()
        },
        |vm| {
            let region = region(&vm.file, 4096 + 2048, 0);
            vm.front().set_mem_table(&[region]).is_err()
        },
        |vm| {
            let region =
                VhostUserMemoryRegionInfo { guest_phys_addr: 512, ..region(&vm.file, 4096, 0) };
            vm.front().set_mem_table(&[region]).is_err()
        },
        |vm| {
            // Of a file that is as large as it says.
            vm.file.set_len(5 << 40).expect("a sparse file");
            let region = region(&vm.file, 5 << 40, 0);
            vm.front().set_mem_table(&[region]).is_err()
        },
        |vm| {
            let asked = vhost::vhost_user::message::VhostUserInflight::new(0, 0, 1000, 1024);
            vm.front().get_inflight_fd(&asked).is_err()
        },
        |vm| {
            let none = no_eventfd();
            vm.front().set_vring_call(0, &none).is_err()
        },
        |vm| {
            let none = no_eventfd();
            vm.front().set_vring_kick(0, &none).is_err()
        },
    ];
    let world = World::new();
    for (number, hostile) in tries.into_iter().enumerate() {
        let mut vm = world.vm(1);
        vm.write(0, &pattern(0, 1));
        assert!(hostile(&mut vm), "{number}");
        drop(vm);
        world.assert_serves();
    }
}

/// Something else that can be written and waited for.
fn no_eventfd() -> EventFd {
    let (_reader, writer) = std::io::pipe().expect("a pipe");
    #[allow(unsafe_code)]
    // SAFETY: the descriptor is open, and given away.
    unsafe {
        EventFd::from_raw_fd(writer.into_raw_fd())
    }
}

fn region(file: &std::fs::File, bytes: u64, offset: u64) -> VhostUserMemoryRegionInfo {
    VhostUserMemoryRegionInfo {
        guest_phys_addr: 0,
        memory_size: bytes,
        userspace_addr: 0x1000,
        mmap_offset: offset,
        mmap_handle: file.as_raw_fd(),
    }
}

#[test]
fn rings_that_are_not_in_memory_are_not_served() {
    let world = World::new();
    for address in [0, 0x10, u64::MAX - 0xff, 0x7f00_0000_0000 + MEMORY - 16, 0x7f00_0000_0008] {
        let mut vm = world.vm(1);
        let config = VringConfigData {
            queue_max_size: DESCRIPTORS,
            queue_size: DESCRIPTORS,
            flags: 0,
            desc_table_addr: address,
            avail_ring_addr: address,
            used_ring_addr: address,
            log_addr: None,
        };
        // Whether this is refused or breaks the queue does not matter.
        vm.front().set_vring_addr(0, &config).ok();
        drop(vm);
        world.assert_serves();
    }
}
