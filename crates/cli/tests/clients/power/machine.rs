//! An array on disks that lose power.

use std::fs::{self, File};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::PathBuf;

use det::Prng;
use rustix::fs::{FlockOperation, OFlags, flock};
use serde_json::Value;

use crate::tools::{Loop, wait_for};
use crate::volatile::{Disks, Unflushed};
use crate::world::World;

/// The kind of the array's devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Devices {
    /// Files of FUSE.
    Files,
    /// The same, with the latencies of used SSDs, which are busy at times.
    Flash,
    /// Loop devices over files of FUSE.
    Loops,
}

/// The array `tank`. It is dropped before its disks.
pub(super) struct Machine {
    pub(super) world: World,
    pub(super) random: Prng,
    loops: Vec<Loop>,
    pub(super) disks: Disks,
    devices: Devices,
    count: usize,
}

impl Machine {
    /// With one more disk than there are members and staging devices.
    pub(super) fn new(
        options: &str,
        (members, staging): (usize, usize),
        bytes: u64,
        devices: Devices,
        seed: u64,
    ) -> Self {
        let count = members + staging + 1;
        let disks = Disks::new(count, bytes);
        let world = World::empty();
        fs::create_dir(world.path("disks")).expect("a directory");
        let loops: Vec<Loop> = match devices {
            Devices::Loops => (0..count).map(|disk| Loop::new(&disks.path(disk))).collect(),
            Devices::Files | Devices::Flash => Vec::new(),
        };
        let random = Prng::new(seed);
        let mut machine = Self { world, random, loops, disks, devices, count };
        (0..count).for_each(|disk| machine.plug(disk));
        let names: Vec<String> = (0..count - 1).map(|disk| machine.name(disk)).collect();
        let staging: Vec<String> =
            names[members..].iter().map(|name| format!("--staging dedicated:{name}")).collect();
        let (staging, members) = (staging.join(" "), names[..members].join(" "));
        machine.world.evenkeel(&format!("create tank {options} {staging} {members}"));
        machine.world.set_members("--name tank disks");
        machine
    }

    /// The name of a disk in commands.
    pub(super) fn name(&self, disk: usize) -> String {
        let model =
            if self.devices == Devices::Flash { "flash:mqsim+aged+told+obeys:" } else { "" };
        format!("{model}disks/d{disk}")
    }

    fn link(&self, disk: usize) -> PathBuf {
        self.world.path(&format!("disks/d{disk}"))
    }

    fn device(&self, disk: usize) -> PathBuf {
        match self.devices {
            Devices::Loops => self.loops[disk].device.as_str().into(),
            Devices::Files | Devices::Flash => self.disks.path(disk),
        }
    }

    fn plug(&self, disk: usize) {
        symlink(self.device(disk), self.link(disk)).expect("a link");
    }

    /// The process is killed, and the power fails.
    pub(super) fn fail(&mut self, unflushed: Unflushed) {
        self.world.kill();
        for disk in 0..self.count {
            // Until then the kernel may still have I/O of the process.
            wait_for("the disk is free", || self.is_free(disk).then_some(()));
        }
        self.disks.cut(&mut self.random, unflushed);
    }

    fn is_free(&self, disk: usize) -> bool {
        let mut how = File::options();
        how.read(true);
        if self.devices == Devices::Loops {
            return how.custom_flags(OFlags::EXCL.bits() as i32).open(self.device(disk)).is_ok();
        }
        let file = how.open(self.device(disk)).expect("a disk");
        flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
    }

    /// Starts it, without one disk if that is given; the disk is there again afterwards.
    pub(super) fn start(&mut self, options: &str, lost: Option<usize>) {
        if let Some(lost) = lost {
            fs::remove_file(self.link(lost)).expect("a link");
            self.world.start(&format!("{options} --degraded"));
            self.plug(lost);
        } else {
            self.world.start(options);
        }
    }

    /// The disk of each place of the array that has one.
    pub(super) fn placed(&self) -> Vec<Option<usize>> {
        let status = self.world.status();
        let members = status["members"].as_array().expect("members");
        members.iter().map(|member| number(&member["path"])).collect()
    }

    /// A disk that the array does not use: it was never used, or is stale.
    pub(super) fn unused(&self) -> usize {
        let status = self.world.status();
        let devices = |which: &str| status[which].as_array().expect("a list").clone();
        let used: Vec<usize> = [devices("members"), devices("spares")]
            .iter()
            .flatten()
            .filter_map(|device| number(&device["path"]))
            .collect();
        let unused = (0..self.count).find(|disk| !used.contains(disk));
        unused.unwrap_or_else(|| panic!("one more than members: {status:#}"))
    }

    /// Replaces missing members, and waits until all passes have ended.
    pub(super) fn make_whole(&self) {
        self.world.evenkeel("rebuild limit tank --min 1G --max 0");
        loop {
            // Fails if there is nothing to wait for, or a member is missing.
            self.world.try_evenkeel("rebuild status tank --wait");
            let status = self.world.status();
            let members = status["members"].as_array().expect("members");
            let Some(missing) = members.iter().position(|m| m["state"] == "failed") else {
                assert_eq!(status["health"], "online", "{status:#}");
                return;
            };
            let disk = self.name(self.unused());
            self.world.evenkeel(&format!("disk replace tank {missing} {disk} --force --wait"));
        }
    }
}

/// The number of a disk.
fn number(path: &Value) -> Option<usize> {
    path.as_str()?.rsplit_once("/d")?.1.parse().ok()
}
