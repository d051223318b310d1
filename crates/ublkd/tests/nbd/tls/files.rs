//! A server's files that can't be used, and what it may do with those that can.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use ublkd::front::nbd::{NbdConfig, NbdTls};

use super::{at, tls};
use crate::certificates::{Authority, Of, ServerFiles, write_key};
use crate::run::run;
use crate::sockets::refusal;

/// What is said of a server's files.
fn complaint(tls: &NbdTls) -> String {
    tls.check().expect_err("they can't be used").to_string()
}

#[test]
fn files_that_can_not_be_used_are_named_and_it_is_said_why() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::new("ours");
    let tls = tls(&ServerFiles::write(dir.path(), &authority, Of::Server));
    assert!(tls.check().is_ok());
    let says = |tls: &NbdTls, path: &Path, words: &[&str]| {
        let complaint = complaint(tls);
        let path = path.display().to_string();
        for word in words.iter().copied().chain([&path[..]]) {
            assert!(complaint.contains(word), "{word}: {complaint}");
        }
    };
    let file = |name: &str, content: &str| {
        let path = dir.path().join(name);
        fs::remove_file(&path).ok();
        write_key(&path, content);
        path
    };
    let with_certificate = |path: &Path| NbdTls { certificate: path.to_owned(), ..tls.clone() };
    let with_key = |path: &Path| NbdTls { key: path.to_owned(), ..tls.clone() };
    let with_clients = |path: &Path| NbdTls { clients: Some(path.to_owned()), ..tls.clone() };
    type With<'a> = &'a dyn Fn(&Path) -> NbdTls;
    let each: [With<'_>; 3] = [&with_certificate, &with_key, &with_clients];

    let empty = file("empty", "");
    let torn = file("torn", "-----BEGIN CERTIFICATE-----\nMIIB\n");
    let no_der = file("no-der", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    for with in each {
        says(&with(&dir.path().join("absent")), &dir.path().join("absent"), &["No such file"]);
        says(&with(dir.path()), dir.path(), &[]);
        says(&with(&empty), &empty, &["PEM"]);
        says(&with(&torn), &torn, &[]);
        says(&with(&no_der), &no_der, &[]);
    }
    says(&with_certificate(&tls.key), &tls.key, &["no certificate"]);
    says(&with_key(&tls.certificate), &tls.certificate, &["no private key"]);
    let (_, foreign) = authority.sign(Of::Server);
    let foreign = file("foreign", &foreign);
    says(&with_key(&foreign), &foreign, &["is not that of", "server-cert.pem"]);
    for (of, words) in [
        (Of::OldServer, &["expired", "days ago"][..]),
        (Of::YoungServer, &["not valid yet", "clock"]),
        (Of::Client, &["first certificate", "server authentication"]),
    ] {
        let (certificate, _) = authority.sign(of);
        let certificate = file("certificate", &certificate);
        says(&with_certificate(&certificate), &certificate, words);
    }
    let huge = file("huge", &"x".repeat((1 << 20) + 1));
    says(&with_certificate(&huge), &huge, &["1 MiB"]);
    run(Command::new("mkfifo").arg(dir.path().join("pipe")), "coreutils");
    says(&with_certificate(&dir.path().join("pipe")), &dir.path().join("pipe"), &["no file"]);
}

#[test]
fn a_key_that_others_may_read_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let tls = tls(&ServerFiles::write(dir.path(), &Authority::new("ours"), Of::Server));
    let set = |mode| {
        fs::set_permissions(&tls.key, fs::Permissions::from_mode(mode)).expect("it is ours");
        tls.check()
    };
    assert!(set(0o600).is_ok() && set(0o400).is_ok());
    for mode in [0o644, 0o604, 0o660, 0o620, 0o602] {
        let error = set(mode).expect_err("others may").to_string();
        assert!(error.contains(&format!("{mode:04o}")) && error.contains("chmod 600"), "{error}");
    }
    let is_roots = fs::metadata(&tls.key).expect("a file").uid() == 0;
    assert_eq!(set(0o640).is_ok(), is_roots, "root's may be for a group");
}

#[test]
fn other_machines_are_served_if_clients_must_have_certificates() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let files = ServerFiles::write(dir.path(), &Authority::new("ours"), Of::Server);
    let asks = NbdConfig { tls: Some(tls(&files)), ..at("0.0.0.0:0") };
    let open = NbdConfig { tls: Some(NbdTls { clients: None, ..tls(&files) }), ..at("0.0.0.0:0") };
    assert!(refusal(asks).is_none());
    let said = refusal(open.clone()).expect("whoever reaches it can write");
    assert!(said.contains("certificates of clients"), "{said}");
    assert!(refusal(NbdConfig { allow_remote: true, ..open }).is_none());
}
