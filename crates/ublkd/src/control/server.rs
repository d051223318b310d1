//! The control socket.
//!
//! Invariants:
//! - Only its owner can ever reach the socket: it gets its mode under another name, and is renamed
//!   then.
//! - A socket that a server answers on is never replaced.
//! - An idle client does not block others: it is disconnected after [`IDLE_TIME`], or when there
//!   are [`CLIENTS_MAX`] and another comes. A client that does not take its answer in
//!   [`ANSWER_TIME`] is disconnected, too.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evenkeel_client::{LINE_BYTES_MAX, Refusal, decode_request, encode_reply, socket_path};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::service::Service;
use crate::guests::{Guest, Guests};
use crate::history::By;
use crate::paths::shown;
use crate::run_dir::{self, RunDirError};

/// How many clients there are at once.
pub const CLIENTS_MAX: usize = 32;

/// How long a client may be idle, or take to send a request.
const IDLE_TIME: Duration = Duration::from_secs(300);

/// How long a client may take to receive an answer.
const ANSWER_TIME: Duration = Duration::from_secs(10);

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// An array of this name runs.
    #[error(
        "an array named \"{name}\" is already running (it answers on {path})",
        path = shown(.path)
    )]
    Running {
        /// The name.
        name: String,
        /// Its socket.
        path: PathBuf,
    },
    /// The run directory is not safe.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// The system refused.
    #[error("{path}: {source}; the run directory can be chosen by --run-dir", path = shown(.path))]
    Io {
        /// The socket, or its directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// A control socket that listens. Removed when dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    /// The path no longer belongs to this server.
    withdrawn: bool,
    listener: Option<UnixListener>,
    closing: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl Server {
    /// Makes the socket of the array called `name`. Clients wait until [`Server::serve`].
    ///
    /// # Errors
    /// If an array of this name runs, or the system refuses.
    pub fn bind(run_dir: &Path, name: &str) -> Result<Self, BindError> {
        let at = |path: &Path, source| BindError::Io { path: path.to_path_buf(), source };
        run_dir::prepare(run_dir)?;
        let path = socket_path(run_dir, name);
        if BlockingStream::connect(&path).is_ok() {
            return Err(BindError::Running { name: name.to_owned(), path });
        }
        let hidden = run_dir.join(format!(".{name}.{}", std::process::id()));
        let make = || {
            remove_if_there(&hidden)?;
            let listener = UnixListener::bind(&hidden)?;
            fs::set_permissions(&hidden, Permissions::from_mode(0o600))?;
            fs::rename(&hidden, &path)?;
            Ok(listener)
        };
        let listener = make().map_err(|e| at(&path, e))?;
        let closing = watch::Sender::new(false);
        Ok(Self { path, withdrawn: false, listener: Some(listener), closing, task: None })
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Answers clients from now on.
    pub fn serve(&mut self, service: Arc<Service>) {
        if let Some(listener) = self.listener.take() {
            let closing = self.closing.subscribe();
            self.task = Some(tokio::spawn(accept(listener, service, closing)));
        }
    }

    /// Removes the socket's path: a client that learns that the array is stopped can start another
    /// one of its name at once.
    pub fn withdraw(&mut self) {
        if std::mem::replace(&mut self.withdrawn, true) {
            return;
        }
        if let Err(error) = remove_if_there(&self.path) {
            tracing::warn!(path = %shown(&self.path), %error, "could not remove the socket");
        }
    }

    /// Takes no more requests, and ends when those under way are answered.
    pub async fn close(mut self) {
        self.closing.send_replace(true);
        if let Some(task) = self.task.take()
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the control socket's task failed");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.withdraw();
    }
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

async fn accept(listener: UnixListener, service: Arc<Service>, closing: watch::Receiver<bool>) {
    let mut clients = Guests::new("control", CLIENTS_MAX);
    let mut shut = closing.clone();
    loop {
        tokio::select! {
            (stream, _) = clients.newcomer(|| listener.accept()) => {
                let (service, closing) = (Arc::clone(&service), closing.clone());
                clients.admit(|guest| talk(stream, service, closing, guest));
            }
            () = closed(&mut shut) => break,
        }
    }
    while clients.left().await.is_some() {}
}

/// Ends when the socket closes, or its server is gone.
async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

/// Serves one client until it leaves, misbehaves, or the socket closes.
async fn talk(
    stream: UnixStream,
    service: Arc<Service>,
    mut closing: watch::Receiver<bool>,
    guest: Guest,
) {
    let by = stream.peer_cred().ok();
    let by = by.map(|by| By::process(by.uid(), by.pid().map_or(0, i32::unsigned_abs)));
    let (reader, mut writer) = stream.into_split();
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut reader).take(LINE_BYTES_MAX as u64 + 1);
        let read = tokio::select! {
            read = limited.read_until(b'\n', &mut line) => read,
            () = closed(&mut closing) => return,
            () = tokio::time::sleep(IDLE_TIME) => return,
        };
        let Some(busy) = guest.busy() else { return };
        let too_long = line.len() > LINE_BYTES_MAX;
        let reply = match read {
            Ok(0) | Err(_) => return,
            Ok(_) if too_long => {
                let message = format!("a request has at most {LINE_BYTES_MAX} bytes");
                encode_reply(Err(Refusal::new("bad-request", message)))
            }
            Ok(_) => match decode_request(&line) {
                Ok(request) => encode_reply(service.answer_to(request, by).await),
                Err(refusal) => encode_reply(Err(refusal)),
            },
        };
        drop(busy);
        let written = timeout(ANSWER_TIME, writer.write_all(reply.as_bytes())).await;
        if !matches!(written, Ok(Ok(()))) || too_long {
            return;
        }
    }
}
