//! Certificates for tests, in files as clients want them.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// Whose certificate it is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    /// A server at 127.0.0.1.
    Server,
    Client,
    /// A server whose certificate has expired.
    OldServer,
    /// A server whose certificate is not valid yet.
    YoungServer,
}

/// An authority that signs certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: Certificate,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = params(name, vec![]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        Self { issuer: Issuer::new(params, key), certificate }
    }

    /// Its own certificate, in PEM.
    pub(crate) fn pem(&self) -> String {
        pem("CERTIFICATE", self.certificate.der())
    }

    /// A new certificate and its key, in PEM.
    pub(crate) fn sign(&self, of: Of) -> (String, String) {
        let mut params =
            params("evenkeel test", vec!["127.0.0.1".to_owned(), "localhost".to_owned()]);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let purpose = match of {
            Of::Client => ExtendedKeyUsagePurpose::ClientAuth,
            Of::Server | Of::OldServer | Of::YoungServer => ExtendedKeyUsagePurpose::ServerAuth,
        };
        params.extended_key_usages = vec![purpose];
        match of {
            Of::OldServer => params.not_after = date_time_ymd(2001, 1, 1),
            Of::YoungServer => params.not_before = date_time_ymd(3001, 1, 1),
            Of::Server | Of::Client => {}
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        (pem("CERTIFICATE", certificate.der()), pem("PRIVATE KEY", key.serialized_der()))
    }

    /// Makes a directory with what a client needs, by the names that GnuTLS's programs look for.
    pub(crate) fn client_dir(&self, dir: &Path) {
        let (certificate, key) = self.sign(Of::Client);
        fs::create_dir_all(dir).expect("a directory");
        fs::write(dir.join("ca-cert.pem"), self.pem()).expect("a file");
        fs::write(dir.join("client-cert.pem"), certificate).expect("a file");
        write_key(&dir.join("client-key.pem"), &key);
    }
}

/// The files of a server that takes clients of one authority.
pub(crate) struct ServerFiles {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) clients: PathBuf,
}

impl ServerFiles {
    /// Writes them, or replaces those that are there, each at once.
    pub(crate) fn write(dir: &Path, authority: &Authority, of: Of) -> Self {
        let (certificate, key) = authority.sign(of);
        let files = Self {
            certificate: dir.join("server-cert.pem"),
            key: dir.join("server-key.pem"),
            clients: dir.join("clients.pem"),
        };
        let new = dir.join("new");
        let replace = |path: &Path| fs::rename(&new, path).expect("it is renamed");
        fs::write(&new, certificate).expect("a file");
        replace(&files.certificate);
        write_key(&new, &key);
        replace(&files.key);
        fs::write(&new, authority.pem()).expect("a file");
        replace(&files.clients);
        files
    }
}

/// Writes a file that only its owner may read.
pub(crate) fn write_key(path: &Path, key: &str) {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    file.expect("a file").write_all(key.as_bytes()).expect("a file");
}

fn params(name: &str, names: Vec<String>) -> CertificateParams {
    let mut params = CertificateParams::new(names).expect("names");
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(2000, 1, 1);
    params
}

fn pem(what: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).map(|line| str::from_utf8(line).expect("ASCII")).collect();
    format!("-----BEGIN {what}-----\n{}\n-----END {what}-----\n", lines.join("\n"))
}
