//! The other end of the control socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::paths::shown;
use crate::protocol::{Outcome, Reply, encode_request};
use crate::{
    ArrayReport, FlashLog, Launch, Page, Refusal, Request, VERSION, WhyReport, socket_path,
};

/// The longest answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

/// How long an array may take to answer. Stopping flushes everything, and a device that is added
/// may be slow, so this is generous.
const PATIENCE: Duration = Duration::from_secs(600);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The array is not running.
    #[error(
        "the array \"{name}\" is not running (nobody answers on {path})",
        path = shown(.path)
    )]
    NotRunning {
        /// Its name.
        name: String,
        /// Where its socket would be.
        path: PathBuf,
        /// Arrays of the same run directory that answer.
        others: Vec<String>,
    },
    /// The socket belongs to another user.
    #[error(
        "{path} can't be opened: {source}; run this as the user who started the array",
        path = shown(.path)
    )]
    Denied {
        /// The socket.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The conversation broke off.
    #[error("the array \"{name}\" gave no answer: {source}; see its log")]
    Broken {
        /// Its name.
        name: String,
        /// Why.
        source: io::Error,
    },
    /// The answer makes no sense.
    #[error("the array \"{name}\" answered in a way that is not understood; use its release")]
    NotUnderstood {
        /// Its name.
        name: String,
    },
    /// The array refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
}

/// A connection to a running array.
#[derive(Debug)]
pub struct Client {
    name: String,
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the array called `name`.
    ///
    /// # Errors
    /// If it is not running or belongs to another user.
    pub fn connect(run_dir: &Path, name: &str) -> Result<Self, ClientError> {
        let path = socket_path(run_dir, name);
        let stream = UnixStream::connect(&path).map_err(|source| {
            if source.kind() == io::ErrorKind::PermissionDenied {
                return ClientError::Denied { path, source };
            }
            let answers = |other: &String| UnixStream::connect(socket_path(run_dir, other)).is_ok();
            let others = running(run_dir).unwrap_or_default().into_iter().filter(answers);
            ClientError::NotRunning { name: name.to_owned(), path, others: others.collect() }
        })?;
        let client = Self { name: name.to_owned(), stream: BufReader::new(stream) };
        let patience = client.stream.get_ref().set_read_timeout(Some(PATIENCE));
        patience.map_err(|source| client.broken(source))?;
        Ok(client)
    }

    /// The same, for who does not wait for an answer any longer than `patience`.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_for(
        run_dir: &Path,
        name: &str,
        patience: Duration,
    ) -> Result<Self, ClientError> {
        let client = Self::connect(run_dir, name)?;
        let patience = client.stream.get_ref().set_read_timeout(Some(patience));
        patience.map_err(|source| client.broken(source))?;
        Ok(client)
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// If the array refuses, or the conversation breaks off.
    pub fn call(&mut self, request: &Request) -> Result<Value, ClientError> {
        let line = encode_request(request).map_err(|e| self.broken(e.into()))?;
        let sent = self.stream.get_mut().write_all(line.as_bytes());
        sent.map_err(|source| self.broken(source))?;
        let mut answer = Vec::new();
        let read = (&mut self.stream).take(ANSWER_BYTES_MAX).read_until(b'\n', &mut answer);
        read.map_err(|source| self.broken(source))?;
        if answer.is_empty() {
            return Err(self.broken(io::ErrorKind::UnexpectedEof.into()));
        }
        match serde_json::from_slice(&answer) {
            Ok(Reply { v: VERSION, outcome: Outcome::Ok(value) }) => Ok(value),
            Ok(Reply { outcome: Outcome::Error(refusal), .. }) => Err(refusal.into()),
            Ok(Reply { .. }) | Err(_) => {
                Err(ClientError::NotUnderstood { name: self.name.clone() })
            }
        }
    }

    /// The same, as what the request's documentation says that it is answered with.
    ///
    /// # Errors
    /// As [`Client::call`], or if it is something else.
    pub fn ask<T: DeserializeOwned>(&mut self, request: &Request) -> Result<T, ClientError> {
        let value = self.call(request)?;
        serde_json::from_value(value)
            .map_err(|_| ClientError::NotUnderstood { name: self.name.clone() })
    }

    /// How the array can be started again.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub fn launch(&mut self) -> Result<Launch, ClientError> {
        self.ask(&Request::Launch)
    }

    /// The array's state.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn status(&mut self) -> Result<ArrayReport, ClientError> {
        self.ask(&Request::Status)
    }

    /// The array's metrics, in Prometheus' text format.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn metrics(&mut self) -> Result<String, ClientError> {
        Ok(self.ask::<Page>(&Request::Metrics)?.page)
    }

    /// The members' moods, and the reasons.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn why(&mut self) -> Result<WhyReport, ClientError> {
        self.ask(&Request::Why)
    }

    /// What a member that is a modelled SSD did since `since`, in nanoseconds of the system's
    /// monotonic clock.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub fn flash_log(&mut self, member: u8, since: u64) -> Result<FlashLog, ClientError> {
        self.ask(&Request::FlashLog { disk: member.to_string(), since })
    }

    fn broken(&self, source: io::Error) -> ClientError {
        ClientError::Broken { name: self.name.clone(), source }
    }
}

/// The names of the arrays that have a socket in `run_dir`, whether or not they answer, sorted.
///
/// # Errors
/// If the directory is there and can't be read.
pub fn running(run_dir: &Path) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(run_dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let is_socket = path.extension().is_some_and(|extension| extension == "sock");
        if let Some(name) = path.file_stem().and_then(|name| name.to_str()).filter(|_| is_socket) {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}
