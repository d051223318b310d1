use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rustix::fs::makedev;
use tempfile::TempDir;

use super::command::{self, Data, Ended, Extent, ended};
use super::passthrough::{Described, Places, Unfit};

/// A command's bytes, apart from those that are zeros: where they are, and what they are.
fn set(bytes: &[u8]) -> Vec<(usize, u8)> {
    let bytes = bytes.iter().copied().enumerate();
    bytes.filter(|&(_, byte)| byte != 0).collect()
}

#[test]
fn commands_have_the_bytes_of_the_specification() {
    let data = Data { address: 0x0102_0304_0506_0708, length: 0x2000 };
    let extent = Extent { from: 0x1_1122_3344, blocks: 16 };
    let read = command::read(7, extent, data);
    assert_eq!(read.len(), 80, "what an entry of 128 bytes has room for");
    #[rustfmt::skip]
    let expected = [
        (0, 0x02), (4, 7),
        (24, 8), (25, 7), (26, 6), (27, 5), (28, 4), (29, 3), (30, 2), (31, 1),
        (37, 0x20),
        // The first block in dwords 10 and 11, the number of blocks less one in dword 12.
        (40, 0x44), (41, 0x33), (42, 0x22), (43, 0x11), (44, 1), (48, 15),
    ];
    assert_eq!(set(&read), expected);
    let write = command::write(7, extent, data, false, None);
    assert_eq!(set(&write)[0], (0, 0x01));
    assert_eq!(set(&write)[1..], expected[1..]);
    let durable = command::write(7, extent, data, true, None);
    assert_eq!(set(&durable)[..expected.len()], set(&write));
    assert_eq!(set(&durable)[expected.len()..], [(51, 0x40)], "force unit access is bit 30");
    let placed = command::write(7, extent, data, true, Some(0x0a0b));
    assert_eq!(set(&placed)[..expected.len() - 1], set(&write)[..expected.len() - 1]);
    // The directive type is 2 in dword 12 from bit 20 on, its value in dword 13 from bit 16 on.
    assert_eq!(
        set(&placed)[expected.len() - 1..],
        [(48, 15), (50, 0x20), (51, 0x40), (54, 0x0b), (55, 0x0a)]
    );
    let first = command::write(7, extent, data, false, Some(0));
    assert_eq!(set(&first)[expected.len()..], [(50, 0x20)], "identifier 0 is one, too");
    assert_eq!(set(&command::flush(0x0102)), [(4, 2), (5, 1)]);
    let largest = command::read(1, Extent { from: 0, blocks: 1 << 16 }, data);
    assert_eq!(largest[48..52], [0xff, 0xff, 0, 0]);
}

#[test]
fn only_what_is_certain_is_judged_here() {
    assert_eq!(ended(0), Ended::Done);
    // Unrecovered read error and write fault, not to be retried.
    assert_eq!(ended(0x4281), Ended::Medium);
    assert_eq!(ended(0x6280), Ended::Medium, "there is more in the error log");
    // The same, which another try may read.
    assert_eq!(ended(0x0281), Ended::Otherwise);
    // What a field of the command says.
    assert_eq!(ended(0x4002), Ended::Unknown);
    // LBA out of range, capacity exceeded, an abort, a path error, a command of a vendor.
    for status in [0x4080, 0x4081, 0x0007, 0x0371, 0x47c0] {
        assert_eq!(ended(status), Ended::Otherwise, "{status:#x}");
    }
    // A reset, a removal.
    for errno in [libc::EINTR, libc::ENODEV, libc::EIO, libc::EAGAIN] {
        assert_eq!(ended(-errno), Ended::Otherwise);
    }
    for errno in [libc::EOPNOTSUPP, libc::EINVAL, libc::EACCES] {
        assert_eq!(ended(-errno), Ended::Refused);
    }
}

/// A system with a namespace: its directory, and what its files of the queue say.
struct System(TempDir);

const QUEUE: [(&str, &str); 5] = [
    ("max_hw_sectors_kb", "512\n"),
    ("max_segments", "127\n"),
    ("write_cache", "write back\n"),
    ("fua", "1\n"),
    ("zoned", "none\n"),
];

impl System {
    fn new(above: &str, name: &str) -> Self {
        let system = Self(tempfile::tempdir().expect("a temporary directory"));
        let at = |path: &str| system.0.path().join(path);
        let rest = name.trim_start_matches("nvme");
        let (disk, generic) = (format!("{above}/{name}"), format!("{above}/ng{rest}"));
        for dir in [&format!("{disk}/queue"), &generic, "block", "generic"] {
            fs::create_dir_all(at(dir)).expect("a directory");
        }
        fs::write(at(&format!("{generic}/dev")), "240:3\n").expect("a file");
        symlink(at(&disk), at("block/259:1")).expect("a link");
        symlink(at(&generic), at(&format!("generic/ng{rest}"))).expect("a link");
        for (file, text) in QUEUE {
            system.say(file, text);
        }
        system
    }

    fn disk(&self) -> std::path::PathBuf {
        self.0.path().join("block/259:1")
    }

    fn say(&self, file: &str, text: &str) {
        fs::write(self.disk().join("queue").join(file), text).expect("a file");
    }

    fn describe(&self) -> Result<Described, Unfit> {
        let (blocks, generic) = (self.0.path().join("block"), self.0.path().join("generic"));
        let places = Places { blocks: Path::new(&blocks), generic: Path::new(&generic) };
        places.describe(makedev(259, 1))
    }
}

#[test]
fn a_whole_namespace_is_found() {
    let system = System::new("pci/nvme/nvme2", "nvme2n1");
    let expected = Described {
        name: "ng2n1".to_owned(),
        number: makedev(240, 3),
        max_bytes: 127 * 4096,
        caches: true,
    };
    assert_eq!(system.describe().expect("it is one"), expected);
    system.say("max_hw_sectors_kb", "128\n");
    system.say("write_cache", "write through\n");
    // Without a volatile cache no write has to be durable by itself.
    system.say("fua", "0\n");
    let expected = Described { max_bytes: 128 << 10, caches: false, ..expected };
    assert_eq!(system.describe().expect("it is one"), expected);
}

#[test]
fn what_only_the_block_layer_handles_is_left_to_it() {
    let system = System::new("pci/nvme/nvme2", "nvme2n1");
    fs::write(system.disk().join("partition"), "1\n").expect("a file");
    assert!(matches!(system.describe(), Err(Unfit::Partition)));
    let other = System::new("virtual/block", "dm-0");
    assert!(matches!(other.describe(), Err(Unfit::NotNvme)));
    let paths = System::new("virtual/nvme-subsystem/nvme-subsys0", "nvme0n1");
    assert!(matches!(paths.describe(), Err(Unfit::Multipath)));
    for (file, text, why) in [
        ("zoned", "host-managed\n", "it is zoned"),
        ("fua", "0\n", "the kernel does not use its durable writes (FUA)"),
        (
            "write_cache",
            "perhaps\n",
            "the kernel does not tell its \"write_cache\" in a way that is known",
        ),
        (
            "max_segments",
            "\n",
            "the kernel does not tell its \"max_segments\" in a way that is known",
        ),
    ] {
        let system = System::new("pci/nvme/nvme2", "nvme2n1");
        system.say(file, text);
        assert_eq!(system.describe().expect_err("unfit").to_string(), why);
    }
    // A character device of that name which is of another controller.
    let system = System::new("pci/nvme/nvme2", "nvme2n1");
    let generic = system.0.path().join("generic/ng2n1");
    let other = system.0.path().join("pci/nvme/nvme3/ng2n1");
    fs::create_dir_all(&other).expect("a directory");
    fs::write(other.join("dev"), "240:3\n").expect("a file");
    fs::remove_file(&generic).expect("it is there");
    symlink(&other, &generic).expect("a link");
    assert!(matches!(system.describe(), Err(Unfit::Unknown("character device"))));
}
