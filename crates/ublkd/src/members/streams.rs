//! Devices that keep streams of writes apart.

use std::fs;
use std::path::Path;

use super::Device;

/// The most streams that an entry of io_uring can name.
const STREAMS_MAX: u64 = u8::MAX as u64;

impl Device {
    /// How many streams of writes it keeps apart; at least two, or none.
    pub(crate) fn write_streams(&self) -> u16 {
        match self.passthrough() {
            Some(passthrough) => passthrough.placement().streams(),
            None => self.block_streams.into(),
        }
    }

    /// The same of what goes through the block layer.
    pub(crate) fn block_streams(&self) -> u8 {
        self.block_streams
    }

    /// Finds out about the block layer. Only direct writes keep what is said of them.
    pub(super) fn find_block_streams(&self) -> u8 {
        let number = self.identity.block_device().filter(|_| self.direct);
        number.map_or(0, |number| of_queue(Path::new("/sys/dev/block"), number))
    }
}

/// How many write streams the block device of a number has, as the kernel tells from Linux 6.16 on; one or
/// none keep nothing apart, and are 0. A partition has no queue of its own, and the kernel refuses its streams.
fn of_queue(sys: &Path, number: u64) -> u8 {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let file = sys.join(format!("{major}:{minor}/queue/max_write_streams"));
    let most = fs::read_to_string(file).ok().and_then(|text| text.trim().parse::<u64>().ok());
    most.filter(|&most| most >= 2).map_or(0, |most| most.min(STREAMS_MAX) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_how_many_streams_a_whole_block_device_has() {
        let sys = tempfile::tempdir().expect("a temporary directory");
        let number = rustix::fs::makedev(259, 3);
        let queue = sys.path().join("259:3/queue");
        fs::create_dir_all(sys.path().join("259:3")).expect("a directory");
        assert_eq!(of_queue(sys.path(), number), 0, "a partition");
        fs::create_dir(&queue).expect("a directory");
        assert_eq!(of_queue(sys.path(), number), 0, "a kernel that knows none");
        for (text, streams) in [
            ("0\n", 0),
            ("1\n", 0),
            ("2\n", 2),
            ("7\n", 7),
            ("127\n", 127),
            ("65535\n", 255),
            ("-1\n", 0),
            ("many\n", 0),
            ("", 0),
        ] {
            fs::write(queue.join("max_write_streams"), text).expect("a file");
            assert_eq!(of_queue(sys.path(), number), streams, "{text:?}");
        }
        assert_eq!(of_queue(sys.path(), rustix::fs::makedev(259, 4)), 0, "another device");
    }
}
