//! Which host and process this is.

use std::fs;
use std::io;

use raidcore::meta::{Holder, HostName};

use crate::random::random_uuid;

/// Names the host that this process is to act as: for tests of two hosts on one.
const PLAYED: &str = "EVENKEEL_PLAYED_HOST";

/// The host that this process acts as, if that is not the one that it is on. Such processes share the members
/// of one machine as hosts share them.
pub(crate) fn played_host() -> Option<String> {
    std::env::var(PLAYED).ok().filter(|name| !name.is_empty())
}

/// The name of this host.
#[must_use]
pub fn host_name() -> HostName {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    HostName::new(&played_host().unwrap_or(name))
}

/// This process, as the holder of a lease.
///
/// # Errors
/// If the kernel does not tell which boot this is, or gives no randomness.
pub(super) fn me() -> io::Result<Holder> {
    let instance = random_uuid()?;
    let name = host_name();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let boot = parse(&boot).ok_or_else(|| io::Error::other("the kernel's boot_id is no UUID"))?;
    if let Some(played) = played_host() {
        let mut host = [0; 16];
        host.iter_mut().zip(played.bytes()).for_each(|(to, byte)| *to = byte);
        // What it tells of times is by the clock of this boot.
        return Ok(Holder { host, boot, instance, name });
    }
    // Containers and the initramfs have none, or one of their own. The boot tells them apart.
    let machine = fs::read_to_string("/etc/machine-id").ok();
    let host = machine.as_deref().and_then(parse).unwrap_or(boot);
    Ok(Holder { host, boot, instance, name })
}

/// The bytes of a UUID, with or without hyphens.
fn parse(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.trim().bytes().filter(|&byte| byte != b'-').collect();
    if digits.len() != 32 {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = digits.as_chunks::<2>().0.iter();
    let bytes: Option<Vec<u8>> =
        pairs.map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_read_as_systems_write_them() {
        let bytes = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(parse("01234567-89ab-cdef-0000-000000000001\n"), Some(bytes));
        assert_eq!(parse("0123456789abcdef0000000000000001\n"), Some(bytes));
        for bad in ["", "uninitialized\n", "0123", "0123456789abcdef00000000000000012"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
