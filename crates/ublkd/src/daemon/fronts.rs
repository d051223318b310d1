//! The front ends of a running array.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use raidcore::meta::ArrayId;

use crate::control::Front;
use crate::front::fuse::{FuseError, FuseServer, Unmounted};
use crate::front::nbd::{NbdAddress, NbdConfig, NbdError, NbdServer};
use crate::front::ublk::{UblkError, UblkOptions, UblkServer};
use crate::host::HostHandle;
use crate::volume::Volume;

/// How an array is served.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FrontConfig {
    /// Over NBD on a Unix socket.
    pub nbd: bool,
    /// Which; `<name>.nbd` in the run directory if not given.
    pub nbd_socket: Option<PathBuf>,
    /// Over NBD on this address. Whoever reaches it can read and write.
    pub nbd_tcp: Option<SocketAddr>,
    /// Whether that address may be one that other machines reach.
    pub nbd_allow_remote: bool,
    /// As a file in this directory.
    pub fuse: Option<PathBuf>,
    /// As a block device. An array that has left one with its users takes it over anyway.
    pub ublk: bool,
    /// The number N of `/dev/ublkbN`; the first that is free if not given.
    pub ublk_id: Option<u32>,
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
    /// ublk can't.
    #[error(transparent)]
    Ublk(#[from] UblkError),
}

/// Front ends that serve.
#[derive(Default)]
pub(super) struct Fronts {
    nbd: Vec<NbdServer>,
    fuse: Option<FuseServer>,
    ublk: Option<UblkServer>,
    list: Vec<Front>,
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

    /// Withdraws what can't be taken away from users who have it open.
    ///
    /// # Errors
    /// If somebody has; then everything goes on being served.
    pub(super) async fn withdraw(&mut self) -> Result<(), UblkError> {
        let Some(mut server) = self.ublk.take() else {
            return Ok(());
        };
        // This waits for the kernel.
        let stopped = tokio::task::spawn_blocking(move || (server.stop(), server)).await;
        let Ok((stopped, server)) = stopped else {
            tracing::error!("stopping a block device has panicked");
            return Ok(());
        };
        if stopped.is_err() {
            self.ublk = Some(server);
        }
        stopped
    }

    /// Withdraws the array from its users, as far as they let it: a block device in use is left to
    /// the array's next start.
    pub(super) async fn stop(mut self) {
        if let Err(error) = self.withdraw().await {
            tracing::warn!("{error}; its users wait until the array is started again");
        }
        for server in self.nbd {
            server.stop().await;
        }
        if let Some(server) = self.ublk {
            server.leave();
        }
        let Some(fuse) = self.fuse else {
            return;
        };
        if let Err(error) = tokio::task::spawn_blocking(move || unmount(fuse)).await {
            tracing::error!(%error, "stopping the front ends failed");
        }
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
            let mut nbd = NbdConfig::new(address);
            nbd.allow_remote = config.nbd_allow_remote;
            // However slow a client is, half of the buffers are left for the others.
            nbd.limits.buffers = nbd.limits.buffers.min(volume.tags() / 2).max(1);
            let server = NbdServer::start(volume.clone(), nbd).await?;
            self.add("nbd", server.uri());
            self.nbd.push(server);
        }
        if let Some(dir) = &config.fuse {
            let server = FuseServer::mount(dir, volume.clone())?;
            self.add("fuse", server.dir().join(volume.name()).display());
            self.fuse = Some(server);
        }
        let mark = owner.mark();
        if config.ublk || UblkServer::is_left(mark) {
            let options = UblkOptions {
                id: config.ublk_id,
                gives_up: owner.forgets,
                ..UblkOptions::of(mark)
            };
            let server = UblkServer::start(volume, host, options)?;
            self.add("ublk", server.disk().display());
            self.ublk = Some(server);
        }
        Ok(())
    }

    fn add(&mut self, kind: &str, address: impl std::fmt::Display) {
        self.list.push(Front { kind: kind.to_owned(), address: address.to_string() });
    }
}

fn unmount(server: FuseServer) {
    let dir = server.dir().to_path_buf();
    match server.unmount() {
        Ok(Unmounted::Clean) => {}
        Ok(Unmounted::Busy) => tracing::warn!(
            dir = %dir.display(),
            "the file is still in use; what its users do from now on fails"
        ),
        Err(error) => tracing::error!(%error, "could not unmount"),
    }
}

/// Whose the front ends are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owner {
    /// The array, or the log volume.
    pub(super) array: ArrayId,
    /// Writes were lost that had been acknowledged, as they were not flushed: users of the last
    /// process must not go on.
    pub(super) forgets: bool,
}

impl Owner {
    /// What a block device is known by. An identity of two equal halves must not be nobody.
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
    fn no_array_s_device_is_nobody_s() {
        let mark = |array| Owner { array: ArrayId(array), forgets: false }.mark();
        let mut array = [7; 16];
        assert_eq!(mark(array), NonZeroU64::MAX, "of equal halves");
        array[8] = 5;
        assert_eq!(mark(array).get(), 2);
    }
}
