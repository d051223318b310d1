use std::os::unix::fs::MetadataExt;

use super::*;

fn file(dir: &tempfile::TempDir, name: &str, blocks: u64) -> PathBuf {
    let path = dir.path().join(name);
    File::create(&path).unwrap().set_len(blocks * BLOCK_BYTES as u64 + 100).unwrap();
    path
}

#[test]
fn a_file_is_opened_once() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "a", 8);
    let link = dir.path().join("b");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let device = Device::open(&path, OpenOptions::default()).unwrap();
    assert_eq!((device.blocks(), device.kind()), (8, Kind::File));
    let again = Device::open(&link, OpenOptions::default());
    assert!(matches!(again, Err(OpenError::InUse { .. })), "{again:?}");
    let look = OpenOptions { read_only: true, ..OpenOptions::default() };
    let looked = Device::open(&link, look).unwrap();
    assert_eq!(looked.identity(), device.identity());
    assert!(looked.write_at(Pba(0), &[0; BLOCK_BYTES]).is_err());
    drop((device, looked));
    Device::open(&link, OpenOptions::default()).unwrap();
}

#[test]
fn what_is_no_device_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let open = |path: &Path| Device::open(path, OpenOptions::default());
    assert!(matches!(open(dir.path()), Err(OpenError::WrongKind { .. })));
    assert!(matches!(open(Path::new("/dev/zero")), Err(OpenError::WrongKind { .. })));
    assert!(matches!(open(&dir.path().join("none")), Err(OpenError::Refused { .. })));
}

#[test]
fn unaligned_memory_is_read_and_written() {
    let dir = tempfile::tempdir().unwrap();
    for direct in [false, true] {
        let path = file(&dir, "a", 600);
        let options = OpenOptions { direct, read_only: false };
        let device = Device::open(&path, options).unwrap();
        let bytes: Vec<u8> = (0..300 * BLOCK_BYTES + 1).map(|i| (i / 7) as u8).collect();
        device.write_at(Pba(2), &bytes[1..]).unwrap();
        device.sync().unwrap();
        let mut read = vec![0; bytes.len()];
        device.read_at(Pba(2), &mut read[1..]).unwrap();
        assert!(read[1..] == bytes[1..]);
        let end = device.read_at(Pba(599), &mut read[..2 * BLOCK_BYTES]);
        assert_eq!(end.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn space_is_taken_and_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, "a", 64);
    let device = Device::open(&path, OpenOptions::default()).unwrap();
    let used = || std::fs::metadata(&path).unwrap().blocks();
    assert_eq!(used(), 0);
    device.preallocate(32).unwrap();
    let taken = used();
    assert!(taken >= 32 * 8);
    device.punch(Pba(0), 16).unwrap();
    assert!(used() < taken);
    assert_eq!(device.blocks(), 64);
}
