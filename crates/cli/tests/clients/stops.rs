//! Stopping an array that is in use.

use std::fs::{self, File};

use crate::tools::{Loop, Mount, assert_same, pattern, run};
use crate::world::World;

/// A file system on the array, by FUSE and a loop device, with unwritten data.
struct Files {
    device: Loop,
    mount: Option<Mount>,
}

const CONTENT: usize = 3 << 20;

impl Files {
    fn new(world: &World) -> Self {
        let device = Loop::new(&world.fuse());
        run("e2fsprogs", &format!("mkfs.ext4 -q -F {}", device.device));
        // It writes back by itself only after longer than the test runs.
        let options = format!("-o commit=300 {}", device.device);
        let mount = Some(Mount::new(&options, &world.path("files")));
        fs::write(world.path("files/file"), pattern(7, CONTENT)).expect("the file is written");
        Self { device, mount }
    }

    /// Unmounts what has lost its array.
    fn forget(mut self, world: &World) {
        self.mount.take();
        drop(self.device);
        fs::remove_dir(world.path("files")).ok();
    }
}

/// The file system's data is in the array.
fn assert_kept(world: &mut World) {
    world.start("");
    let device = Loop::new(&world.fuse());
    let dir = world.path("again");
    let mounted = Mount::new(&device.device, &dir);
    let found = fs::read(dir.join("file")).expect("the file is there");
    assert_same(&found, &pattern(7, CONTENT), "what was written before the stop");
    mounted.unmount();
    run("e2fsprogs", &format!("fsck.ext4 -f -n {}", device.device));
    drop(device);
    world.stop();
}

fn this_process() -> String {
    format!("(process {})", std::process::id())
}

#[test]
fn a_stop_is_refused_under_a_file_system_and_by_force_keeps_what_it_holds() {
    let mut world = World::new("raid5", 3, 40).started();
    let files = Files::new(&world);
    let device = files.device.device.clone();
    let force = "evenkeel stop tank --force";
    let refused = world.try_evenkeel("stop tank");
    refused.refused(&["mnt/tank is in use by the loop device", &device, force]);
    assert_eq!(world.status()["health"], "online", "it runs on");
    world.evenkeel("stop tank --force");
    world.wait();
    files.forget(&world);
    assert_kept(&mut world);
}

#[test]
fn a_service_manager_s_stop_keeps_what_a_file_system_holds() {
    let mut world = World::new("raid5", 3, 40).started();
    let files = Files::new(&world);
    world.stop();
    let told = world.log().contains("is in use by the loop device");
    assert!(told, "whose array is gone is in the log: {}", world.log());
    files.forget(&world);
    assert_kept(&mut world);
}

#[test]
fn who_uses_an_array_is_told_and_nobody_else_keeps_it_from_stopping() {
    let mut world = World::new("raid5", 3, 40).started();
    let refused = |world: &World, words: &[&str]| {
        world.try_evenkeel("stop tank").refused(&["tank is in use", &this_process()]);
        world.try_evenkeel("stop tank").refused(words);
    };
    let file = File::open(world.fuse()).expect("the file opens");
    refused(&world, &["mnt/tank is in use by "]);
    let mut nbd = world.nbd();
    refused(&world, &["mnt/tank is in use by ", "an NBD client is connected, "]);
    drop(file);
    refused(&world, &["an NBD client is connected, "]);
    assert_eq!(nbd.write(0, &[7; 4096], false), Ok(()), "it is served as before");
    drop(nbd);
    // Another array of the machine, or a file of the same name, is not affected.
    fs::write(world.path("tank"), "").expect("a file");
    let other = File::open(world.path("tank")).expect("a file of that name");
    crate::tools::wait_for("the client's end is seen", || {
        let ended = world.try_evenkeel("stop tank");
        (ended.code == Some(0)).then_some(())
    });
    drop(other);
    world.wait();
    assert_eq!(world.examine("m0")["clean"], true);
}
