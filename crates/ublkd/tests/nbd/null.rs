//! A null volume.

use std::process::Command;

use tokio::runtime::Runtime;
use ublkd::front::nbd::{NbdAddress, NbdConfig, NbdServer};
use ublkd::null::Null;

use crate::run::run;

#[test]
fn whatever_is_written_a_null_volume_reads_as_zeros() {
    let runtime = Runtime::new().expect("a runtime");
    let dir = tempfile::tempdir().expect("a temporary directory");
    let null = Null::start(64 << 8, 8).expect("a volume");
    let config = NbdConfig::new(NbdAddress::Unix(dir.path().join("nbd.sock")));
    let server = runtime.block_on(NbdServer::start_null(null, config)).expect("a server");
    // qemu-io fails if a pattern is not what it reads.
    let commands = [
        "write -P 0x11 0 4M",
        "read -P 0 0 4M",
        "write -f -P 0x22 60M 64k",
        "write -z 1M 64k",
        "discard 2M 64k",
        "flush",
        "read -P 0 60M 1M",
        "read -P 0 4k 4k",
    ];
    let mut qemu_io = Command::new("qemu-io");
    qemu_io.args(["-f", "raw", server.uri()]);
    for command in commands {
        qemu_io.args(["-c", command]);
    }
    let print = run(&mut qemu_io, "qemu-utils");
    assert!(!print.contains("failed") && !print.contains("rror"), "{print}");
    runtime.block_on(server.stop());
}
