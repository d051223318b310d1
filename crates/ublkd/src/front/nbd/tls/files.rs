//! Reading certificates and keys.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, RootCertStore};

use super::TlsError;

/// A bundle of all public authorities has 200 KiB.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// What shows that a file is another, or has another content. A directory entry or a symbolic link
/// that is replaced shows, too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Seconds and nanoseconds.
    changed: (i64, i64),
}

/// `None` if there is no file.
pub(super) fn stamp(path: &Path) -> Option<Stamp> {
    let file = fs::metadata(path).ok()?;
    let changed = (file.ctime(), file.ctime_nsec());
    Some(Stamp { device: file.dev(), inode: file.ino(), bytes: file.len(), changed })
}

/// All certificates of a file, at least one. All are valid now.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let content = read(path, open(path)?)?;
    let certificates = CertificateDer::pem_slice_iter(&content).collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(|error| unusable(path, "certificate", &error))?;
    if certificates.is_empty() {
        let path = path.to_owned();
        return Err(TlsError::Absent { path, what: "certificate", more: "" });
    }
    for certificate in &certificates {
        check_time(path, certificate)?;
    }
    Ok(certificates)
}

/// The private key of a file that is for its owner only. As for other servers' keys, root's may be
/// for a group to read.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let file = open(path)?;
    let status = file.metadata().map_err(|source| failed(path, source))?;
    let content = read(path, file)?;
    let key = PrivateKeyDer::from_pem_slice(&content).map_err(|error| {
        if !matches!(error, pem::Error::NoItemsFound) {
            return unusable(path, "private key", &error);
        }
        let more = ", without a passphrase";
        TlsError::Absent { path: path.to_owned(), what: "private key", more }
    })?;
    let others = if status.uid() == 0 { 0o037 } else { 0o077 };
    if status.mode() & others != 0 {
        return Err(TlsError::Exposed { path: path.to_owned(), mode: status.mode() & 0o7777 });
    }
    Ok(key)
}

/// Whether a certificate is one of a server.
pub(super) fn check_server(path: &Path, certificate: &CertificateDer<'_>) -> Result<(), TlsError> {
    match verdict(certificate) {
        Some(
            error @ (CertificateError::InvalidPurpose
            | CertificateError::InvalidPurposeContext { .. }),
        ) => Err(unusable(path, "first certificate", &error)),
        _ => Ok(()),
    }
}

fn check_time(path: &Path, certificate: &CertificateDer<'_>) -> Result<(), TlsError> {
    let path = || path.to_owned();
    let between = |from: UnixTime, to: UnixTime| {
        Duration::from_secs(to.as_secs().saturating_sub(from.as_secs()))
    };
    match verdict(certificate) {
        Some(CertificateError::ExpiredContext { time, not_after }) => {
            Err(TlsError::Expired { path: path(), ago: between(not_after, time) })
        }
        Some(CertificateError::NotValidYetContext { time, not_before }) => {
            Err(TlsError::Early { path: path(), after: between(time, not_before) })
        }
        Some(error @ CertificateError::BadEncoding) => {
            Err(unusable(&path(), "certificate", &error))
        }
        _ => Ok(()),
    }
}

/// What is wrong with a certificate by itself. No authority is trusted here, so something is: of several
/// errors, the first is its time, then its purpose.
fn verdict(certificate: &CertificateDer<'_>) -> Option<CertificateError> {
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms;
    let verified = ParsedCertificate::try_from(certificate).and_then(|parsed| {
        let none = RootCertStore::empty();
        let (now, algorithms) = (UnixTime::now(), algorithms.all);
        verify_server_cert_signed_by_trust_anchor(&parsed, &none, &[], now, algorithms)
    });
    match verified {
        Err(Error::InvalidCertificate(error)) => Some(error),
        _ => None,
    }
}

/// Does not wait for a pipe's other end.
fn open(path: &Path) -> Result<File, TlsError> {
    let mut options = OpenOptions::new();
    let file = options.read(true).custom_flags(libc::O_NONBLOCK).open(path);
    file.map_err(|source| failed(path, source))
}

fn read(path: &Path, file: File) -> Result<Vec<u8>, TlsError> {
    let unlikely = || TlsError::Unlikely { path: path.to_owned() };
    let status = file.metadata().map_err(|source| failed(path, source))?;
    if !status.is_file() {
        return Err(unlikely());
    }
    let mut content = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut content);
    read.map_err(|source| failed(path, source))?;
    if content.len() as u64 > FILE_BYTES_MAX { Err(unlikely()) } else { Ok(content) }
}

fn failed(path: &Path, source: io::Error) -> TlsError {
    TlsError::Read { path: path.to_owned(), source }
}

fn unusable(path: &Path, what: &'static str, why: &dyn fmt::Display) -> TlsError {
    TlsError::Unusable { path: path.to_owned(), what, why: why.to_string() }
}
