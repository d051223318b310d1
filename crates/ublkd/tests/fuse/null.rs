//! A null volume.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use ublkd::front::fuse::FuseServer;
use ublkd::null::Null;

use crate::world::{BLOCK, check_for_fuse, placed};

#[test]
fn whatever_is_written_a_null_volume_reads_as_zeros() {
    check_for_fuse();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let null = Null::start(2048, 8).expect("a volume");
    let server = FuseServer::mount(dir.path(), null.volume().clone()).expect("a mount");
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_DIRECT);
    let file = options.open(server.file()).expect("the file opens");
    for (at, blocks) in [(0, 1), (3, 300), (2047, 1)] {
        let bytes = vec![0x55; (blocks * BLOCK) as usize];
        let written = placed(0, &bytes, |data| file.write_at(data, at * BLOCK));
        assert_eq!(written.expect("a write"), bytes.len());
        let zeros = placed(0, &bytes, |data| {
            file.read_exact_at(data, at * BLOCK).expect("a read");
            data.iter().all(|byte| *byte == 0)
        });
        assert!(zeros, "{blocks} blocks at {at}");
    }
    file.sync_all().expect("a flush");
}
