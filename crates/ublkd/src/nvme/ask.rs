//! Commands that ask an NVMe drive or one of its namespaces, by the kernel's pass-through.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// `NVME_IOCTL_ADMIN_CMD` of `linux/nvme_ioctl.h`: `_IOWR('N', 0x41, struct nvme_admin_cmd)`.
const ADMIN_COMMAND: u64 = 0xc048_4e41;

/// `NVME_IOCTL_IO_CMD`: `_IOWR('N', 0x43, struct nvme_passthru_cmd)`, which is the same structure.
const IO_COMMAND: u64 = 0xc048_4e43;

/// `NVME_IOCTL_ID`: `_IO('N', 0x40)`. Returns the number of a namespace.
const NAMESPACE: u64 = 0x4e40;

/// How long the drive may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// The admin command "Identify"; of dword 10 it takes 0 for a namespace.
pub(super) const IDENTIFY: u8 = 0x06;

/// … and this for the controller.
pub(super) const CONTROLLER: u32 = 1;

/// What it answers.
pub(super) const IDENTIFY_BYTES: usize = 4096;

/// Where in it a controller's attributes are (CTRATT).
const ATTRIBUTES: usize = 96;

/// `struct nvme_passthru_cmd` of `linux/nvme_ioctl.h`.
#[repr(C)]
#[derive(Default)]
struct Command {
    opcode: u8,
    flags: u8,
    rsvd1: u16,
    nsid: u32,
    cdw2: u32,
    cdw3: u32,
    metadata: u64,
    addr: u64,
    metadata_len: u32,
    data_len: u32,
    cdw10: u32,
    cdw11: u32,
    cdw12: u32,
    cdw13: u32,
    cdw14: u32,
    cdw15: u32,
    timeout_ms: u32,
    result: u32,
}

/// The ioctl's number has the size.
const _: () = assert!(size_of::<Command>() as u64 == ADMIN_COMMAND >> 16 & 0x3fff);

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Asked {
    /// The controller, by an admin command.
    #[default]
    Controller,
    /// The namespace, by an I/O command.
    Namespace,
}

/// A question to a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Question {
    /// What is asked.
    pub(crate) asked: Asked,
    /// The command.
    pub(crate) opcode: u8,
    /// Of which namespace.
    pub(crate) namespace: u32,
    /// Command dword 10.
    pub(crate) dword10: u32,
    /// Command dword 11.
    pub(crate) dword11: u32,
    /// Command dword 12.
    pub(crate) dword12: u32,
    /// For how long it may put off the answer, besides the time that each may take.
    pub(crate) put_off: Duration,
}

/// How a drive is asked: as by [`ask`].
pub(super) type Ask<'a> = dyn FnMut(Question, &mut [u8]) -> io::Result<u32> + 'a;

/// A controller's attributes, of what it answers to "Identify"; none if that is too short.
pub(super) fn attributes(controller: &[u8]) -> u32 {
    let bits = controller.get(ATTRIBUTES..).and_then(|bytes| bytes.first_chunk());
    bits.copied().map_or(0, u32::from_le_bytes)
}

/// Asks a drive, through any of its namespaces, for as many bytes as `answer` has, which are whole
/// dwords. Returns dword 0 of the completion, which is the answer to some questions.
///
/// # Errors
/// As from the kernel, which needs CAP_SYS_ADMIN for some; or if the drive refuses.
pub(crate) fn ask(drive: &File, question: Question, answer: &mut [u8]) -> io::Result<u32> {
    let code = match question.asked {
        Asked::Controller => ADMIN_COMMAND,
        Asked::Namespace => IO_COMMAND,
    };
    let mut command = Command {
        opcode: question.opcode,
        nsid: question.namespace,
        addr: answer.as_mut_ptr().expose_provenance() as u64,
        data_len: answer.len() as u32,
        cdw10: question.dword10,
        cdw11: question.dword11,
        cdw12: question.dword12,
        timeout_ms: u32::try_from((TIMEOUT + question.put_off).as_millis()).unwrap_or(u32::MAX),
        ..Command::default()
    };
    // SAFETY: the command is as the kernel defines it, and `answer` is as long as it says. Both are
    // there until the call returns, after which the kernel touches neither.
    let status = unsafe { libc::ioctl(drive.as_raw_fd(), code as _, &raw mut command) };
    match status {
        0 => Ok(command.result),
        ..0 => Err(io::Error::last_os_error()),
        status => Err(io::Error::other(format!("the drive refuses with NVMe status {status:#x}"))),
    }
}

/// The number of the namespace that a device node is.
///
/// # Errors
/// As from the kernel, if it is none.
pub(crate) fn namespace(node: &File) -> io::Result<u32> {
    // SAFETY: takes no argument.
    let number = unsafe { libc::ioctl(node.as_raw_fd(), NAMESPACE as _) };
    u32::try_from(number).map_err(|_| io::Error::last_os_error())
}
