//! TLS: the server's certificate, and whose certificates clients must have.
//!
//! Invariants:
//! - Files that don't fit together, or whose time is not now, are refused at the start. Later they
//!   are not used: what was read before goes on.
//! - Files that have changed are read for the next client, on a thread that may block, and on one
//!   at a time: on which file system they are concerns only clients that begin TLS.
//! - No session is resumed: every connection shows its certificates, and they are checked by the
//!   files of that moment.

mod files;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::guests::Seldom;
use crate::paths::shown;
use files::{Stamp, certificates, private_key, stamp};

/// The files of a server's TLS, in PEM. They are read again when they have changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NbdTls {
    /// The server's certificate, and those between it and the one that clients trust.
    pub certificate: PathBuf,
    /// Its private key, without a passphrase, for its owner only.
    pub key: PathBuf,
    /// Certificates of authorities: a client must have one that one of them has signed. Without
    /// it every client is served.
    pub clients: Option<PathBuf>,
}

impl NbdTls {
    /// Whether the server could begin with these files.
    ///
    /// # Errors
    /// If they can't be read, don't fit together, or are not valid now.
    pub fn check(&self) -> Result<(), TlsError> {
        load(self).map(drop)
    }

    fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        [&self.certificate, &self.key].into_iter().chain(&self.clients)
    }
}

/// Why TLS can't be had with these files.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file can't be read.
    #[error("{}: it can't be read: {source}", shown(.path))]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is too large for what it should be.
    #[error("{}: it is no file of at most 1 MiB, so it is not the right one", shown(.path))]
    Unlikely {
        /// The file.
        path: PathBuf,
    },
    /// It does not have what it should have.
    #[error("{}: there is no {what} in it; one in PEM is needed{more}", shown(.path))]
    Absent {
        /// The file.
        path: PathBuf,
        /// What is missing.
        what: &'static str,
        /// What else is needed.
        more: &'static str,
    },
    /// What it has is damaged, or of a kind that is not known.
    #[error("{}: the {what} in it can't be used: {why}", shown(.path))]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What can't be used.
        what: &'static str,
        /// Why.
        why: String,
    },
    /// Others know the key, or could replace it.
    #[error(
        "{}: others than its owner may read or change this private key (its mode is {mode:04o}): \
         `chmod 600` it, and get a new one if others may have read it",
        shown(.path)
    )]
    Exposed {
        /// The key's file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The key is another certificate's.
    #[error(
        "the key in {} is not that of the first certificate in {}",
        shown(.key),
        shown(.certificate)
    )]
    Foreign {
        /// The key's file.
        key: PathBuf,
        /// The certificate's.
        certificate: PathBuf,
    },
    /// A certificate is too old.
    #[error(
        "{}: a certificate in it expired {} days ago, and clients would refuse it: renew it, or set \
         the clock right",
        shown(.path),
        .ago.as_secs() / 86_400
    )]
    Expired {
        /// The certificate's file.
        path: PathBuf,
        /// For how long it has not been valid.
        ago: Duration,
    },
    /// A certificate is too young.
    #[error(
        "{}: a certificate in it is not valid yet, but will be in {} days: is the clock right?",
        shown(.path),
        .after.as_secs().div_ceil(86_400)
    )]
    Early {
        /// The certificate's file.
        path: PathBuf,
        /// When it will be.
        after: Duration,
    },
}

/// TLS of a server.
pub(super) struct Tls(Arc<Mutex<Loaded>>);

struct Loaded {
    files: NbdTls,
    /// What they were like when they were read.
    stamps: Vec<Option<Stamp>>,
    config: Arc<ServerConfig>,
    /// Files that can't be used are logged at intervals.
    log: Seldom,
}

impl Tls {
    /// # Errors
    /// As from [`NbdTls::check`].
    pub(super) async fn open(files: NbdTls) -> Result<Self, TlsError> {
        let path = files.certificate.clone();
        let opened = spawn_blocking(move || {
            // The other order would miss a change in between.
            let stamps = files.paths().map(|path| stamp(path)).collect();
            let config = load(&files)?;
            Ok(Loaded { files, stamps, config, log: Seldom::default() })
        });
        let loaded = opened.await.map_err(|error| TlsError::Read { path, source: error.into() })?;
        Ok(Self(Arc::new(Mutex::new(loaded?))))
    }

    /// How to begin TLS now.
    ///
    /// # Errors
    /// If the runtime ends.
    pub(super) async fn config(&self) -> io::Result<Arc<ServerConfig>> {
        let mut loaded = Arc::clone(&self.0).lock_owned().await;
        Ok(spawn_blocking(move || loaded.renewed()).await?)
    }
}

impl Loaded {
    fn renewed(&mut self) -> Arc<ServerConfig> {
        let stamps: Vec<_> = self.files.paths().map(|path| stamp(path)).collect();
        if stamps != self.stamps {
            match load(&self.files) {
                Ok(config) => {
                    (self.config, self.stamps) = (config, stamps);
                    tracing::info!(
                        certificate = %shown(&self.files.certificate),
                        "the files of TLS have changed, and were read again"
                    );
                }
                Err(error) => {
                    if let Some(count) = self.log.say() {
                        tracing::warn!(
                            %error, count,
                            "the files of TLS have changed and can't be used; \
                             what was read before goes on"
                        );
                    }
                }
            }
        }
        Arc::clone(&self.config)
    }
}

fn load(files: &NbdTls) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = certificates(&files.certificate)?;
    files::check_server(&files.certificate, &chain[0])?;
    let unusable = |path: &PathBuf, what, error: rustls::Error| {
        let (path, why) = (path.clone(), error.to_string());
        TlsError::Unusable { path, what, why }
    };
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&files.certificate, "certificate", error))?;
    let builder = match &files.clients {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates(path)? {
                let added = roots.add(certificate);
                added.map_err(|error| unusable(path, "certificate", error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().map_err(|error| {
                let (path, why) = (path.clone(), error.to_string());
                TlsError::Unusable { path, what: "certificate", why }
            })?)
        }
    };
    let key = private_key(&files.key)?;
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        if !matches!(error, rustls::Error::InconsistentKeys(_)) {
            return unusable(&files.key, "private key", error);
        }
        TlsError::Foreign { key: files.key.clone(), certificate: files.certificate.clone() }
    })?;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}
