//! The front ends of a running array.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use raidcore::meta::ArrayId;

use crate::control::{Front, Manner};
use crate::front::fuse::{FuseError, FuseServer, Unmounted};
use crate::front::nbd::{NbdAddress, NbdConfig, NbdError, NbdServer, NbdTls};
use crate::front::ublk::{UblkError, UblkOptions, UblkServer};
use crate::front::vhost::{VhostConfig, VhostServer};
use crate::front::{LogicalBlock, SocketError, vhost};
use crate::host::HostHandle;
use crate::paths::shown;
use crate::users;
use crate::volume::Volume;

/// The kind of a block device among front ends.
const UBLK: &str = "ublk";

/// How an array is served.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FrontConfig {
    /// Over NBD on a Unix socket.
    pub nbd: bool,
    /// Which; `<name>.nbd` in the run directory if not given.
    pub nbd_socket: Option<PathBuf>,
    /// Over NBD on this address. Everyone who can reach it can read and write, unless clients must have
    /// certificates.
    pub nbd_tcp: Option<SocketAddr>,
    /// Whether other machines may reach that address although clients need no certificates.
    pub nbd_allow_remote: bool,
    /// TLS on that address, without which no client is served there then.
    pub nbd_tls: Option<NbdTls>,
    /// As a file in this directory.
    pub fuse: Option<PathBuf>,
    /// As a block device. A device that an earlier process left with its users is taken over
    /// anyway.
    pub ublk: bool,
    /// The number N of `/dev/ublkbN`; the first that is free if not given.
    pub ublk_id: Option<u32>,
    /// To virtual machines, by vhost-user-blk.
    pub vhost: bool,
    /// On which socket; `<name>.vhost` in the run directory if not given.
    pub vhost_socket: Option<PathBuf>,
    /// Over NBD and to virtual machines also if writes were lost that a process had acknowledged from memory:
    /// the operator has seen to it that no client from before goes on without them.
    pub accepts_lost_writes: bool,
    /// The logical block size for clients of NBD, virtual machines and users of the block device.
    pub logical_block: LogicalBlock,
}

/// Why a front end can't serve.
#[derive(Debug, thiserror::Error)]
pub enum FrontError {
    /// NBD can't.
    #[error(transparent)]
    Nbd(#[from] NbdError),
    /// FUSE can't.
    #[error(transparent)]
    Fuse(#[from] FuseError),
    /// vhost-user can't.
    #[error(transparent)]
    Vhost(#[from] SocketError),
    /// vhost-user is for other arrays.
    #[error(
        "a log volume keeps acknowledged writes in memory until they are flushed, and a virtual \
         machine would go on without them after a crash; serve it by another front end than --vhost"
    )]
    VhostOfLog,
    /// vhost-user is for other arrays.
    #[error(
        "with a write cache in memory a crash loses acknowledged writes, and a virtual machine would go \
         on without them; serve it by another front end than --vhost, or choose another cache"
    )]
    VhostOfCache,
    /// Clients from before may come by themselves.
    #[error(
        "a process that had a write cache in memory was not stopped cleanly: what was not flushed is lost, \
         and a client of {of} that connects again by itself would go on without it. Disconnect all of them \
         and check what they keep here, then start it with --accept-lost-writes"
    )]
    LostWrites {
        /// The front end.
        of: &'static str,
    },
    /// ublk can't.
    #[error(transparent)]
    Ublk(#[from] UblkError),
}

/// What front ends have to know of the array before they may serve it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Keeps {
    /// It is a log volume.
    pub(super) is_log: bool,
    /// It gets a write cache in memory.
    pub(super) is_cached: bool,
    /// Writes that a process had acknowledged from memory are lost, and that was not accepted.
    pub(super) has_lost: bool,
}

/// Whether front ends may serve the array.
///
/// # Errors
/// If one is not for such an array.
pub(super) fn permit(config: &FrontConfig, keeps: Keeps) -> Result<(), FrontError> {
    let Keeps { is_log, is_cached, has_lost } = keeps;
    if config.vhost && is_log {
        return Err(FrontError::VhostOfLog);
    }
    if config.vhost && is_cached {
        return Err(FrontError::VhostOfCache);
    }
    let nbd = (config.nbd || config.nbd_tcp.is_some()).then_some("NBD");
    match nbd.or(config.vhost.then_some("--vhost")) {
        Some(of) if has_lost && !config.accepts_lost_writes => Err(FrontError::LostWrites { of }),
        Some(_) | None => Ok(()),
    }
}

/// Whether front ends could serve, as far as that shows while another process serves in their place.
///
/// # Errors
/// If one can't.
pub(super) fn check(config: &FrontConfig) -> Result<(), FrontError> {
    if let Some(dir) = config.fuse.as_ref().filter(|dir| !dir.is_dir()) {
        return Err(FuseError::NotADirectory { dir: dir.clone() }.into());
    }
    config.nbd_tls.as_ref().map_or(Ok(()), NbdTls::check).map_err(NbdError::from)?;
    let lost = |path: &Path| path.parent().is_some_and(|dir| dir != Path::new("") && !dir.is_dir());
    if let Some(path) = config.nbd_socket.as_ref().filter(|path| lost(path)) {
        let (path, source) = (path.clone(), io::ErrorKind::NotFound.into());
        return Err(NbdError::from(SocketError::Listen { path, source }).into());
    }
    if let Some(path) = config.vhost_socket.as_ref().filter(|path| lost(path)) {
        let (path, source) = (path.clone(), io::ErrorKind::NotFound.into());
        return Err(SocketError::Listen { path, source }.into());
    }
    Ok(())
}

/// Front ends that serve.
#[derive(Default)]
pub(super) struct Fronts {
    nbd: Vec<NbdServer>,
    vhost: Option<VhostServer>,
    devices: Devices,
    list: Vec<Front>,
}

/// Front ends whose users the kernel knows.
#[derive(Default)]
struct Devices {
    fuse: Option<FuseServer>,
    ublk: Option<UblkServer>,
}

impl Devices {
    fn file_users(&self) -> Vec<String> {
        self.fuse.as_ref().map(FuseServer::users).unwrap_or_default()
    }

    /// Withdraws the front ends that must have no users, if they have none. `clients` use other
    /// front ends.
    fn withdraw(&mut self, clients: Vec<String>, manner: Manner) -> Result<(), Vec<String>> {
        let mut users = clients;
        users.extend(self.file_users());
        let ublk = self.ublk.as_mut().filter(|_| manner == Manner::IfUnused);
        users.extend(ublk.as_ref().and_then(|ublk| ublk.user()));
        if !users.is_empty() {
            return Err(users);
        }
        // A user may have come meanwhile.
        let withdrawn = self.fuse.as_ref().map_or(Ok(()), FuseServer::withdraw_unused);
        withdrawn.map_err(|user| vec![user])?;
        let stopped = ublk.map_or(Ok(()), UblkServer::stop);
        stopped.map_err(|error| vec![error.to_string()])
    }

    /// The array has grown to so many blocks: tells their users. Returns why those of the block
    /// device don't see it.
    fn grow(&self, blocks: u64) -> Option<UblkError> {
        if let Some(fuse) = &self.fuse
            && let Err(error) = fuse.tell_size()
        {
            tracing::warn!(file = %shown(fuse.file()), "its users don't see its new size yet: {error}");
        }
        self.ublk.as_ref()?.fit(blocks).err()
    }

    /// Withdraws all, even from users, except a block device in use.
    fn end(&mut self) {
        if let Some(mut ublk) = self.ublk.take()
            && let Err(error) = ublk.stop()
        {
            tracing::warn!("{error}; its users wait until the array is started again");
            ublk.leave();
        }
        if let Some(fuse) = self.fuse.take() {
            unmount(fuse);
        }
    }
}

fn connected(clients: Vec<String>) -> Vec<String> {
    let clients = clients.into_iter();
    clients.map(|client| format!("an NBD client is connected, {client}")).collect()
}

fn used_by(vm: String) -> String {
    format!("a virtual machine uses it, {vm}")
}

impl Fronts {
    /// Starts those that are asked for; all or none.
    pub(super) async fn start(
        config: &FrontConfig,
        run_dir: &Path,
        volume: &Volume,
        host: &HostHandle,
        owner: Owner,
    ) -> Result<Self, FrontError> {
        let mut fronts = Self::default();
        match fronts.add_all(config, run_dir, volume, host, owner).await {
            Ok(()) => Ok(fronts),
            Err(error) => {
                fronts.stop().await;
                Err(error)
            }
        }
    }

    /// How the array can be reached.
    pub(super) fn list(&self) -> Vec<Front> {
        self.list.clone()
    }

    /// The array has grown to so many blocks. VMs are told by their own server. The protocol of NBD has
    /// no way to tell: its clients see the size when they connect.
    pub(super) async fn grow(&mut self, blocks: u64) {
        for client in self.nbd.iter().flat_map(|server| connected(server.clients())) {
            tracing::warn!("{client}, which sees that the array has grown when it connects again");
        }
        let behind = self.with_devices(move |devices| devices.grow(blocks)).await.flatten();
        self.is_behind(behind);
    }

    /// Whether users of the block device see all of the array.
    fn is_behind(&mut self, why: Option<UblkError>) {
        if let Some(why) = &why {
            tracing::warn!("{why}");
        }
        for front in self.list.iter_mut().filter(|front| front.kind == UBLK) {
            front.behind = why.as_ref().map(ToString::to_string);
        }
    }

    /// Prepares for the end, if users permit it: unused front ends accept no new users.
    ///
    /// # Errors
    /// The users that prevent an end in this manner. Then everything is still served, except for a
    /// file or block device that was withdrawn before a user of the other one appeared.
    pub(super) async fn release(&mut self, manner: Manner) -> Result<(), Vec<String>> {
        if manner == Manner::Force {
            self.release_by_force().await;
            return Ok(());
        }
        let shut = self.nbd.iter().map(|server| server.shut().map_err(connected));
        let clients = shut.filter_map(Result::err).flatten();
        let vm = self.vhost.as_ref().map(|server| server.shut(manner == Manner::Leave));
        let clients = clients.chain(vm.and_then(Result::err).map(used_by)).collect();
        let withdrawn = self.with_devices(move |devices| devices.withdraw(clients, manner)).await;
        let released = withdrawn.unwrap_or(Ok(()));
        if released.is_err() {
            self.nbd.iter().for_each(NbdServer::reopen);
            self.vhost.iter().for_each(VhostServer::reopen);
        }
        released
    }

    /// Prepares for the end, even if there are users. This machine's file systems that may be on
    /// the array write what they hold. Users that lose the array are logged.
    pub(super) async fn release_by_force(&mut self) {
        let clients: Vec<String> = self.nbd.iter().flat_map(|s| connected(s.clients())).collect();
        let vms = self.vhost.as_ref().and_then(VhostServer::user).map(used_by);
        self.with_devices(move |devices| {
            let carried = devices.fuse.as_ref().is_some_and(FuseServer::carries_disks);
            let carries = carried || !clients.is_empty() && users::has_nbd_devices();
            for user in clients.into_iter().chain(vms).chain(devices.file_users()) {
                tracing::warn!("{user}, and the array is stopped");
            }
            if carries {
                users::write_back();
            }
        })
        .await;
    }

    /// Withdraws the array from its users as far as possible: a block device in use is left to the
    /// array's next start.
    pub(super) async fn stop(mut self) {
        for server in std::mem::take(&mut self.nbd) {
            server.stop().await;
        }
        if let Some(server) = self.vhost.take() {
            server.stop().await;
        }
        self.with_devices(Devices::end).await;
    }

    /// Runs work on the front ends of the kernel on a thread that may block.
    async fn with_devices<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&mut Devices) -> T + Send + 'static,
    ) -> Option<T> {
        let mut devices = std::mem::take(&mut self.devices);
        let worked = tokio::task::spawn_blocking(move || (work(&mut devices), devices)).await;
        let worked = worked.inspect_err(|error| {
            tracing::error!(%error, "withdrawing a front end failed");
        });
        let (done, devices) = worked.ok()?;
        self.devices = devices;
        Some(done)
    }

    async fn add_all(
        &mut self,
        config: &FrontConfig,
        run_dir: &Path,
        volume: &Volume,
        host: &HostHandle,
        owner: Owner,
    ) -> Result<(), FrontError> {
        let socket = config.nbd_socket.clone();
        let socket = socket.unwrap_or_else(|| run_dir.join(format!("{}.nbd", volume.name())));
        let unix = config.nbd.then_some(NbdAddress::Unix(socket));
        for address in unix.into_iter().chain(config.nbd_tcp.map(NbdAddress::Tcp)) {
            // The Unix socket is for this user only.
            let is_tcp = matches!(address, NbdAddress::Tcp(_));
            let mut nbd = NbdConfig::new(address);
            nbd.tls = config.nbd_tls.clone().filter(|_| is_tcp);
            nbd.allow_remote = config.nbd_allow_remote;
            nbd.logical_block = config.logical_block;
            let server = NbdServer::start_at(volume.clone(), host, nbd).await?;
            self.add("nbd", server.uri());
            self.nbd.push(server);
        }
        if config.vhost {
            let socket = config.vhost_socket.clone();
            let socket = socket.unwrap_or_else(|| run_dir.join(format!("{}.vhost", volume.name())));
            let mut vhost = VhostConfig::new(socket);
            vhost.logical_block = config.logical_block;
            let server = VhostServer::start_at(volume.clone(), host, vhost).await?;
            self.add(vhost::KIND, server.path().display());
            self.vhost = Some(server);
        }
        if let Some(dir) = &config.fuse {
            let server = FuseServer::mount(dir, volume.clone())?;
            self.add("fuse", server.dir().join(volume.name()).display());
            self.devices.fuse = Some(server);
        }
        let mark = owner.mark();
        if config.ublk || owner.taken.is_some() || UblkServer::is_left(mark) {
            let options = UblkOptions {
                id: config.ublk_id.filter(|&id| owner.taken != Some(id)),
                gives_up: owner.forgets,
                logical_block: config.logical_block,
                ..UblkOptions::of(mark, host.threads())
            };
            let server = UblkServer::start(volume, host, options)?;
            self.add(UBLK, server.disk().display());
            // One that was left has the size that the array had.
            self.is_behind(server.fit(volume.blocks()).err());
            self.devices.ublk = Some(server);
        }
        Ok(())
    }

    fn add(&mut self, kind: &str, address: impl std::fmt::Display) {
        let (kind, address) = (kind.to_owned(), address.to_string());
        self.list.push(Front { kind, address, behind: None });
    }
}

fn unmount(server: FuseServer) {
    let dir = server.dir().to_path_buf();
    match server.unmount() {
        Ok(Unmounted::Clean) => {}
        Ok(Unmounted::Busy) => tracing::warn!(
            dir = %shown(dir),
            "the file is still in use; what its users do from now on fails"
        ),
        Err(error) => tracing::error!(%error, "could not unmount"),
    }
}

/// The owner of the front ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    /// The array, or the log volume.
    pub(super) array: ArrayId,
    /// Acknowledged writes that were not flushed were lost: users of the last process must not
    /// continue.
    pub(super) forgets: bool,
    /// The number of the block device that was taken away from them.
    pub(super) taken: Option<u32>,
}

impl Owner {
    /// Takes the block device away from the users of a process that has lost writes. That comes before the
    /// array is started: then its record tells of the loss, and not any more which users were there.
    ///
    /// # Errors
    /// If the driver refuses, or may not be asked. Where the loss is accepted no users are left.
    pub(super) fn without_users(self, accepts: bool) -> Result<Self, FrontError> {
        if !self.forgets {
            return Ok(self);
        }
        match UblkServer::give_up(self.mark()) {
            Ok(taken) => Ok(Self { taken, ..self }),
            Err(error) if accepts => {
                tracing::warn!("users of a block device from before may be left: {error}");
                Ok(self)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The owner's mark on a block device. It must not be zero, even if both halves of the identity
    /// are equal.
    fn mark(self) -> NonZeroU64 {
        let (halves, _) = self.array.0.as_chunks();
        let mark = halves.iter().fold(0, |mark, &half| mark ^ u64::from_le_bytes(half));
        NonZeroU64::new(mark).unwrap_or(NonZeroU64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_connect_by_themselves_do_not_go_on_above_lost_writes() {
        let serves = |kind, keeps, accepts_lost_writes| {
            let (nbd, vhost) = (kind == "nbd", kind == "vhost");
            let config = FrontConfig { nbd, vhost, accepts_lost_writes, ..FrontConfig::default() };
            permit(&config, keeps)
        };
        let lost = Keeps { has_lost: true, ..Keeps::default() };
        for kind in ["nbd", "vhost"] {
            let error = serves(kind, lost, false).expect_err("it may have clients");
            assert!(error.to_string().contains("--accept-lost-writes"), "{error}");
            assert!(
                serves(kind, lost, true).is_ok() && serves(kind, Keeps::default(), false).is_ok()
            );
        }
        assert!(serves("ublk or fuse", lost, false).is_ok(), "their users are known");
        let cached = Keeps { is_cached: true, ..Keeps::default() };
        assert!(matches!(serves("vhost", cached, true), Err(FrontError::VhostOfCache)));
        assert!(serves("nbd", cached, false).is_ok());
    }

    #[test]
    fn no_array_s_device_is_nobody_s() {
        let mark = |array| Owner { array: ArrayId(array), forgets: false, taken: None }.mark();
        let mut array = [7; 16];
        assert_eq!(mark(array), NonZeroU64::MAX, "of equal halves");
        array[8] = 5;
        assert_eq!(mark(array).get(), 2);
    }
}
