//! Bytes from outside against everything that reads them: metadata blocks, `assemble`, NBD, the
//! queues of virtual machines, the control socket, drives' health. A target is a function over bytes, for a fuzzer (`fuzz/`) and for plain tests.
//!
//! Invariants:
//! - A target panics if what it tests breaks a promise, and only then.
//! - A target's bytes decide what it does. Threads and the kernel may change the order of events,
//!   but not the required result.
//! - A target touches no file but its own temporary ones, whatever its bytes say.

mod answer;
mod assemble;
mod choices;
mod control;
mod drive;
mod journal;
mod memory;
mod nbd;
mod page;
mod shared;
mod superblock;
mod transcript;
mod vm;

#[expect(dead_code, reason = "the tests of NBD use more of it")]
#[path = "../../ublkd/tests/tools/back_end.rs"]
mod back_end;
#[expect(dead_code, reason = "the tests of NBD use more of it")]
#[path = "../../ublkd/tests/nbd/client.rs"]
mod client;
#[expect(dead_code, reason = "the tests of metadata use more of it")]
#[path = "../../raidcore/tests/meta/world.rs"]
mod images;
#[expect(dead_code, reason = "the tests of virtual machines use more of it")]
#[path = "../../ublkd/tests/tools/machine.rs"]
mod machine;
#[expect(dead_code, reason = "the tests of virtual machines use more of it")]
#[path = "../../ublkd/tests/vhost/world.rs"]
mod machines;
#[path = "../../ublkd/tests/tools/store.rs"]
mod store;
#[expect(dead_code, reason = "the tests of NBD use more of it")]
#[path = "../../ublkd/tests/nbd/world.rs"]
mod world;

pub use answer::answer;
pub use assemble::assemble;
pub use control::control;
pub use drive::drive;
pub use journal::journal;
pub use nbd::nbd;
pub use page::page;
pub use shared::shared;
pub use superblock::superblock;
pub use vm::vm;

/// Where virtual machines are served unless a target says otherwise.
const VM_THREAD: ublkd::front::vhost::VhostThread = ublkd::front::vhost::VhostThread::Own;

/// A function that must not panic, whatever the bytes.
pub type Target = fn(&[u8]);

/// All targets by name. The corpus of each is in `fuzz/corpus/` under that name.
pub const TARGETS: [(&str, Target); 10] = [
    ("superblock", superblock),
    ("page", page),
    ("journal", journal),
    ("shared", shared),
    ("assemble", assemble),
    ("nbd", nbd),
    ("control", control),
    ("answer", answer),
    ("drive", drive),
    ("vm", vm),
];

/// Makes a write to a closed connection an error instead of the end of the process, as the runtime
/// of a Rust program does. A fuzzer's program starts in C++.
pub fn ignore_broken_pipes() {
    // SAFETY: ignoring a signal runs no code of ours.
    #[allow(unsafe_code)]
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN)
    };
}
