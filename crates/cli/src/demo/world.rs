//! The demonstration's array: five modelled SSDs over files in a directory of their own, and the
//! process that serves them.
//!
//! Invariant: unless the array is to be kept, the process is stopped and the directory removed
//! however the demonstration ends, even by Ctrl-C.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use evenkeel_client::paths::shown;
use evenkeel_client::paths::to_text;
use evenkeel_client::{ArrayReport, Client, GcInterval, Request};
use raidcore::geometry::Level;
use raidcore::units::BLOCK_BYTES;
use serde_json::{Value, json};
use steering::scheme::Scheme;
use tempfile::TempDir;
use ublkd::attach::examine;
use ublkd::create::{CreateConfig, StagingSize, create};

use super::address::Address;
use crate::args::DemoArgs;
use crate::commands::start_in_background;
use crate::size::Size;

const NAME: &str = "demo";
const MEMBERS: usize = 5;

/// The members' profile.
const PROFILE: &str = "mqsim";

/// The staging log, where there is one.
const STAGING: StagingSize = StagingSize::Percent(10);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Whether Ctrl-C was pressed.
pub(super) fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

pub(super) struct World {
    dir: Option<TempDir>,
    members: Vec<PathBuf>,
    spare: PathBuf,
    run_dir: PathBuf,
    mount: Option<PathBuf>,
    size: Size,
    policy: Scheme,
}

impl World {
    /// It has a staging log if one of the requested policies needs it.
    pub(super) fn create(args: &DemoArgs, policy: Scheme, say: &dyn Fn(&str)) -> Result<Self> {
        let mut builder = tempfile::Builder::new();
        builder.prefix("evenkeel-demo-");
        let dir = match &args.dir {
            Some(parent) => builder.tempdir_in(parent).with_context(|| shown(&parent).to_string()),
            None => builder.tempdir().map_err(Into::into),
        }?;
        let path = |name: String| dir.path().join(name);
        let members: Vec<PathBuf> = (0..MEMBERS).map(|i| path(format!("member{i}"))).collect();
        let drives = members.iter().map(|path| as_drive(path)).collect();
        let mut config = CreateConfig::new(NAME, Level::Raid5, drives);
        config.file_blocks = Some(args.size.blocks());
        let stages = args.policy.iter().any(|policy| policy.needs_staging());
        config.staging = stages.then_some(STAGING);
        let created = create(&config)?;
        let capacity = Size(created.record.geometry.capacity() * BLOCK_BYTES as u64);
        say(&format!(
            "Made a RAID5 of {MEMBERS} files of {}, each a modelled SSD ({PROFILE}), in {}: {capacity} \
             usable.",
            args.size,
            shown(dir.path())
        ));
        let mount = Path::new("/dev/fuse").exists() && rustix::process::geteuid().is_root();
        let mount = mount.then(|| path("mnt".to_owned()));
        if let Some(mount) = &mount {
            fs::create_dir(mount)?;
        } else {
            say("There is no /dev/fuse, or no permission to mount: FUSE is left out.");
        }
        let world = Self {
            members,
            spare: path("spare".to_owned()),
            run_dir: path("run".to_owned()),
            mount,
            size: args.size,
            policy,
            dir: Some(dir),
        };
        world.end_at_interrupt()?;
        world.start()?;
        Ok(world)
    }

    pub(super) fn nbd(&self) -> Address {
        Address::Nbd(self.run_dir.join(format!("{NAME}.nbd")), NAME.to_owned())
    }

    pub(super) fn fuse(&self) -> Option<Address> {
        Some(Address::File(self.mount.as_ref()?.join(NAME)))
    }

    pub(super) fn client(&self) -> Result<Client> {
        Ok(Client::connect(&self.run_dir, NAME)?)
    }

    pub(super) fn call(&self, request: &Request) -> Result<()> {
        self.client()?.call(request)?;
        Ok(())
    }

    pub(super) fn status(&self) -> Result<ArrayReport> {
        Ok(self.client()?.status()?)
    }

    /// Puts a new file in a member's place.
    pub(super) fn replace(&self, member: u8) -> Result<()> {
        fs::File::create_new(&self.spare)?.set_len(self.size.0)?;
        let disk = member.to_string();
        self.call(&Request::DiskReplace { disk, with: as_drive(&self.spare), force: false })
    }

    /// When the members collected garbage since `since`, each in order.
    pub(super) fn gc_logs(&self, since: u64) -> Result<Vec<Vec<GcInterval>>> {
        let mut client = self.client()?;
        let members = client.status()?.members.into_iter();
        let drives = members.filter(|member| member.flash.is_some());
        drives.map(|drive| Ok(client.flash_log(drive.member, since)?.gc)).collect()
    }

    /// Stops the array, examines all members, and starts it again.
    pub(super) fn restart(&mut self) -> Result<()> {
        let report = self.status()?;
        self.members = report.members.into_iter().filter_map(|member| member.path).collect();
        self.call(&Request::Stop { force: true })?;
        for path in &self.members {
            let examined = examine(path)?;
            let shown = shown(path);
            let superblock = examined.superblock.with_context(|| shown.to_string())?;
            if !superblock.record.clean || examined.intact_copies != 4 {
                bail!("{shown} was not stopped cleanly");
            }
        }
        self.start()
    }

    /// Leaves the array running; returns its parts.
    pub(super) fn keep(mut self) -> Option<Kept> {
        let dir = self.dir.take()?.keep();
        Some(Kept { dir, run_dir: self.run_dir.clone(), mount: self.mount.clone() })
    }

    /// Stops the array and removes its files.
    pub(super) fn end(mut self, say: &dyn Fn(&str)) -> Result<()> {
        self.call(&Request::Stop { force: true })?;
        say("\nStopped cleanly.");
        match self.dir.take() {
            Some(dir) => dir.close().context("removing the files"),
            None => Ok(()),
        }
    }

    fn start(&self) -> Result<()> {
        let mut arguments: Vec<OsString> =
            vec!["--run-dir".into(), self.run_dir.clone().into(), "start".into(), "--nbd".into()];
        if let Some(mount) = &self.mount {
            arguments.extend(["--fuse".into(), mount.clone().into()]);
        }
        arguments.extend(["--policy".into(), self.policy.name.into()]);
        arguments.extend(self.members.iter().map(|path| path.clone().into()));
        arguments.push("--detached".into());
        let here = Path::new(".");
        start_in_background(arguments, &self.members, Some(NAME), &self.run_dir, here)?;
        if is_interrupted() {
            bail!("interrupted");
        }
        Ok(())
    }

    /// The array's process does not get the terminal's Ctrl-C, so this one stops it; further
    /// requests to the array then fail, which ends the demonstration.
    fn end_at_interrupt(&self) -> Result<()> {
        let run_dir = self.run_dir.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        std::thread::Builder::new().name("interrupt".to_owned()).spawn(move || {
            if runtime.block_on(tokio::signal::ctrl_c()).is_ok() {
                INTERRUPTED.store(true, Ordering::SeqCst);
                stop(&run_dir);
            }
        })?;
        Ok(())
    }
}

/// An array that goes on serving.
pub(super) struct Kept {
    dir: PathBuf,
    run_dir: PathBuf,
    mount: Option<PathBuf>,
}

impl Kept {
    pub(super) fn json(&self) -> Value {
        json!({ "name": NAME, "directory": to_text(&self.dir), "run_directory": to_text(&self.run_dir) })
    }

    /// How to use it.
    pub(super) fn text(&self) -> String {
        let run_dir = shown(&self.run_dir);
        let mut lines = vec![
            "\nThe array goes on serving. To look at it:".to_owned(),
            format!("  evenkeel --run-dir {run_dir} status"),
            format!("  nbdinfo 'nbd+unix:///{NAME}?socket={run_dir}/{NAME}.nbd'"),
            format!("  nbd-client -unix {run_dir}/{NAME}.nbd -name {NAME} /dev/nbd0"),
        ];
        lines.extend(self.mount.as_ref().map(|mount| {
            let file = mount.join(NAME);
            let file = shown(file);
            format!("  losetup --find --show --direct-io=on --sector-size 4096 {file}")
        }));
        lines.push("To stop it and to remove its files:".to_owned());
        lines.push(format!("  evenkeel --run-dir {run_dir} stop {NAME}"));
        lines.push(format!("  rm -r {}", shown(&self.dir)));
        lines.join("\n")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.dir.is_some() {
            stop(&self.run_dir);
        }
    }
}

/// The file as a modelled SSD that has been written once, so that it soon collects garbage.
fn as_drive(path: &Path) -> PathBuf {
    let mut name = OsString::from(format!("flash:{PROFILE}+filled+told+obeys:"));
    name.push(path);
    name.into()
}

/// Stops the array if it runs.
fn stop(run_dir: &Path) {
    if let Ok(mut client) = Client::connect(run_dir, NAME)
        && let Err(error) = client.call(&Request::Stop { force: true })
    {
        eprintln!("error: {error}");
    }
}
