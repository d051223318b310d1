//! The disks of the array: new ones, missing ones, and those that come back.

use std::fs;

use serde_json::Value;

use super::{Life, Lost, MEMBER_BYTES, lost, word};
use crate::world::{World, json};

impl Life {
    /// A device for the array: a new one, or one that it has used before and no longer uses.
    pub(super) fn new_disk(&mut self) -> String {
        let status = self.world.status();
        let used = status["members"].as_array().into_iter().chain(status["spares"].as_array());
        let used: Vec<&str> = used.flatten().filter_map(|disk| disk["path"].as_str()).collect();
        let mut unused = files(&self.world, "disks");
        unused.retain(|name| !used.iter().any(|used| used.ends_with(&format!("/{name}"))));
        if unused.is_empty() || self.random.chance(1, 2) {
            self.disks += 1;
            let name = format!("disks/d{}", self.disks - 1);
            self.world.file(&name, MEMBER_BYTES);
            return name;
        }
        let disk = self.random.below(unused.len() as u64) as usize;
        format!("disks/{} --force", unused[disk])
    }

    /// The members that don't serve, in words, from the newest superblock.
    pub(super) fn lost_on_disk(&self) -> Lost {
        lost(&newest(&self.examined())["members"], "device")
    }

    /// The stripe where a rebuild would continue after a kill; 0 if there is none.
    pub(super) fn watermark(&self) -> u64 {
        let examined = self.examined();
        let members = newest(&examined)["members"].as_array().into_iter().flatten();
        let watermark = |member: &Value| {
            let state = word(&member["state"]).strip_prefix("rebuilding (at stripe ")?;
            state.strip_suffix(')')?.parse().ok()
        };
        members.filter_map(watermark).max().unwrap_or(0)
    }

    /// The superblocks of all disks that have one.
    fn examined(&self) -> Vec<Value> {
        let names = files(&self.world, "disks").into_iter();
        let names: Vec<String> = names.map(|name| format!("disks/{name}")).collect();
        // Fails if a disk has none.
        let examined = self.world.try_evenkeel(&format!("examine --json {}", names.join(" ")));
        let Value::Array(mut examined) = json(&examined.stdout)["result"]["members"].take() else {
            panic!("{examined:?}");
        };
        examined.retain(|disk| disk["events"].is_u64());
        examined
    }

    /// Disks that serve go missing, as many as the array can do without. Adds them to `lost`, and
    /// returns them.
    pub(super) fn disks_go_missing(&mut self, lost: &mut Lost) -> Vec<String> {
        let examined = self.examined();
        let record = newest(&examined);
        let redundancy = record["array"]["redundancy"].as_u64().expect("a number");
        let mut missing = Vec::new();
        while self.journal && self.random.chance(1, 3) {
            let full = lost.len() as u64 >= redundancy;
            let spared = |device: &str| match lost.get(device) {
                None => !full,
                Some(why) => why == "rebuilding",
            };
            let members = record["members"].as_array().into_iter().flatten().skip(1);
            let spared: Vec<&str> =
                members.map(|m| word(&m["device"])).filter(|d| spared(d)).collect();
            let mut disks = examined.iter().filter(|d| spared.contains(&word(&d["device"])));
            let count = disks.clone().count() as u64;
            let Some(disk) = disks.nth(self.random.below(count.max(1)) as usize) else {
                break;
            };
            let (name, device) = (file_name(disk), word(&disk["device"]).to_owned());
            self.tell(&format!("{name}, {}, is missing", word(&disk["role"])));
            self.move_disk(&name, "disks", "shelf");
            self.story.missing += 1;
            lost.insert(device.clone(), "missing".to_owned());
            missing.push(device);
        }
        missing
    }

    /// Disks that have been missing for a round come back, wiped or unchanged. Returns those that
    /// the array has to leave out.
    pub(super) fn disks_come_back(&mut self) -> Vec<String> {
        let mut back = Vec::new();
        for name in files(&self.world, "shelf") {
            if self.random.chance(1, 2) {
                continue;
            }
            self.move_disk(&name, "shelf", "disks");
            self.story.back += 1;
            if self.random.chance(1, 2) {
                self.world.file(&format!("disks/{name}"), MEMBER_BYTES);
            } else {
                back.push(name);
            }
        }
        self.tell(&format!("back as they were: {back:?}"));
        back
    }

    fn move_disk(&self, name: &str, from: &str, to: &str) {
        let path = |dir: &str| self.world.path(dir).join(name);
        fs::rename(path(from), path(to)).expect("it is moved");
    }
}

/// The record with the most events.
fn newest(examined: &[Value]) -> &Value {
    examined.iter().max_by_key(|disk| disk["events"].as_u64()).expect("a member")
}

fn file_name(disk: &Value) -> String {
    word(&disk["path"]).rsplit('/').next().expect("a name").to_owned()
}

/// The names of the files in a directory, in order.
pub(super) fn files(world: &World, dir: &str) -> Vec<String> {
    let entries = fs::read_dir(world.path(dir)).expect("a directory");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> =
        entries.map(|entry| name(entry).into_string().expect("a name")).collect();
    names.sort();
    names
}
