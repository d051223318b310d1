//! The front ends of a running array.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use crate::control::Front;
use crate::front::fuse::{FuseError, FuseServer, Unmounted};
use crate::front::nbd::{NbdAddress, NbdConfig, NbdError, NbdServer};
use crate::front::ublk::{UblkError, UblkOptions, UblkServer};
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
    /// As a block device.
    pub ublk: bool,
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
    ) -> Result<Self, FrontError> {
        let mut fronts = Self::default();
        match fronts.add_all(config, run_dir, volume).await {
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

    /// Withdraws the array from its users.
    pub(super) async fn stop(self) {
        for server in self.nbd {
            server.stop().await;
        }
        // These wait for threads and for the kernel.
        let (fuse, ublk) = (self.fuse, self.ublk);
        let withdrawn = tokio::task::spawn_blocking(move || {
            if let Some(server) = fuse {
                unmount(server);
            }
            if let Some(server) = ublk {
                remove(server);
            }
        });
        if let Err(error) = withdrawn.await {
            tracing::error!(%error, "stopping the front ends failed");
        }
    }

    async fn add_all(
        &mut self,
        config: &FrontConfig,
        run_dir: &Path,
        volume: &Volume,
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
        if config.ublk {
            let server = UblkServer::start(volume, UblkOptions::default())?;
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

fn remove(mut server: UblkServer) {
    if let Err(error) = server.stop() {
        tracing::error!(%error, "could not remove the block device");
    }
}
