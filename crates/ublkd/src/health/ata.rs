//! ATA: the device statistics (general purpose log 04h), as of ATA/ATAPI Command Set 3 and later. They
//! are the same for all makers, unlike the SMART attributes.
#![allow(unsafe_code)]

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use super::sectors::{SECTOR_BYTES, Sector};
use super::{DriveHealth, Source};

/// `SG_IO` of `scsi/sg.h`.
const SG_IO: u64 = 0x2285;

/// `SG_DXFER_FROM_DEV` of `scsi/sg.h`.
const FROM_DEVICE: i32 = -3;

/// `SG_INFO_CHECK` of `scsi/sg.h`: something is wrong with what was done.
const INFO_CHECK: u32 = 1;

/// How long the drive may take, in milliseconds.
const TIMEOUT_MS: u32 = 10_000;

/// The log that says which logs there are.
const LOG_DIRECTORY: u8 = 0x00;

/// The log of device statistics.
const STATISTICS: u8 = 0x04;

/// The page that says which pages of statistics there are.
const PAGE_LIST: u8 = 0x00;

/// The pages that are read.
const GENERAL: u8 = 0x01;
const ERRORS: u8 = 0x04;
const TEMPERATURE: u8 = 0x05;
const SOLID_STATE: u8 = 0x07;

/// Of a statistic's flags in its highest byte: it is supported, and its value is valid.
const SUPPORTED_AND_VALID: u64 = 0b1100_0000 << 56;

/// `struct sg_io_hdr` of `scsi/sg.h`.
#[repr(C)]
struct Transfer {
    interface_id: i32,
    dxfer_direction: i32,
    cmd_len: u8,
    mx_sb_len: u8,
    iovec_count: u16,
    dxfer_len: u32,
    dxferp: *mut c_void,
    cmdp: *const u8,
    sbp: *mut u8,
    timeout: u32,
    flags: u32,
    pack_id: i32,
    usr_ptr: *mut c_void,
    status: u8,
    masked_status: u8,
    msg_status: u8,
    sb_len_wr: u8,
    host_status: u16,
    driver_status: u16,
    resid: i32,
    duration: u32,
    info: u32,
}

/// As the kernel has it on 64-bit machines.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Transfer>() == 88);

/// What pages of device statistics tell, each of 512 bytes, in any order; nothing if they tell
/// nothing. Pages that are shorter, or that are not known here, are left out. Sectors written are counted
/// in the drive's logical blocks of `block_bytes` bytes.
#[must_use]
pub fn parse<'a>(
    pages: impl IntoIterator<Item = &'a [u8]>,
    block_bytes: u32,
) -> Option<DriveHealth> {
    let mut health = DriveHealth::silent(Source::AtaStatistics);
    for page in pages {
        let Some(page) = page.get(..SECTOR_BYTES) else { continue };
        match page[2] {
            GENERAL => {
                health.power_on_hours = statistic(page, 16, 4);
                let sectors = statistic(page, 24, 6);
                health.written_bytes = sectors.map(|n| n.saturating_mul(block_bytes.into()));
            }
            ERRORS => health.media_errors = statistic(page, 8, 4),
            TEMPERATURE => {
                let celsius = statistic(page, 8, 1).map(|byte| i32::from(byte as u8 as i8));
                // The drive has measured nothing.
                health.temperature_celsius =
                    celsius.filter(|&celsius| celsius != i32::from(i8::MIN));
            }
            SOLID_STATE => health.used_percent = statistic(page, 8, 1).map(|byte| byte as u8),
            _ => {}
        }
    }
    health.if_it_tells()
}

/// Reads the statistics that the drive has, whose logical blocks have `block_bytes` bytes.
///
/// # Errors
/// As from the kernel, which needs CAP_SYS_RAWIO for it; or if the drive refuses.
pub(super) fn read(drive: &File, block_bytes: u32) -> io::Result<Option<DriveHealth>> {
    // A drive counts commands that it does not know as errors, so only what it has is read.
    let directory = read_log(drive, LOG_DIRECTORY, 0)?;
    let at = usize::from(STATISTICS) * 2;
    if directory.0[at..at + 2] == [0, 0] {
        return Ok(None);
    }
    let list = read_log(drive, STATISTICS, PAGE_LIST)?;
    let mut pages = Vec::new();
    for page in [GENERAL, ERRORS, TEMPERATURE, SOLID_STATE] {
        if lists(&list.0, page) {
            pages.push(read_log(drive, STATISTICS, page)?);
        }
    }
    Ok(parse(pages.iter().map(|page| &page.0[..]), block_bytes))
}

/// Whether a list of pages, page 00h of the statistics, has this one.
#[must_use]
pub fn lists(list: &[u8], page: u8) -> bool {
    let entries = list.get(8).map_or(0, |&entries| usize::from(entries));
    list.iter().skip(9).take(entries).any(|&listed| listed == page)
}

/// The lowest `bytes` bytes of the statistic at byte `at` of a page, if the drive supports it and says
/// that it is valid.
fn statistic(page: &[u8], at: usize, bytes: u32) -> Option<u64> {
    let word = u64::from_le_bytes(page.get(at..at + 8)?.try_into().ok()?);
    let known = word & SUPPORTED_AND_VALID == SUPPORTED_AND_VALID;
    known.then_some(word & ((1 << (8 * bytes)) - 1))
}

/// READ LOG EXT, as a SCSI command: ATA PASS-THROUGH (16) of SCSI / ATA Translation.
fn command(log: u8, page: u8) -> [u8; 16] {
    let mut command = [0; 16];
    command[0] = 0x85;
    // 48-bit, and the data comes by PIO.
    command[1] = 4 << 1 | 1;
    // From the device, in blocks, as many as the count says.
    command[2] = 1 << 3 | 1 << 2 | 2;
    command[6] = 1;
    command[8] = log;
    command[10] = page;
    command[14] = 0x2f;
    command
}

/// Reads a page of a log.
fn read_log(drive: &File, log: u8, page: u8) -> io::Result<Sector> {
    let (mut sector, mut sense) = (Sector::new(), [0u8; 32]);
    let command = command(log, page);
    let mut transfer = Transfer {
        interface_id: i32::from(b'S'),
        dxfer_direction: FROM_DEVICE,
        cmd_len: command.len() as u8,
        mx_sb_len: sense.len() as u8,
        iovec_count: 0,
        dxfer_len: SECTOR_BYTES as u32,
        dxferp: sector.0.as_mut_ptr().cast(),
        cmdp: command.as_ptr(),
        sbp: sense.as_mut_ptr(),
        timeout: TIMEOUT_MS,
        flags: 0,
        pack_id: 0,
        usr_ptr: ptr::null_mut(),
        status: 0,
        masked_status: 0,
        msg_status: 0,
        sb_len_wr: 0,
        host_status: 0,
        driver_status: 0,
        resid: 0,
        duration: 0,
        info: 0,
    };
    // SAFETY: the header is as the kernel defines it, and the command, the sector and the sense buffer are
    // as long as it says. All are there until the call returns, after which the kernel touches none.
    if unsafe { libc::ioctl(drive.as_raw_fd(), SG_IO as _, &raw mut transfer) } < 0 {
        return Err(io::Error::last_os_error());
    }
    if transfer.info & INFO_CHECK != 0 || transfer.resid != 0 {
        let (status, host, driver) =
            (transfer.status, transfer.host_status, transfer.driver_status);
        return Err(io::Error::other(format!(
            "page {page:#04x} of log {log:#04x} can't be read: SCSI status {status:#x}, host \
             {host:#x}, driver {driver:#x}, {} bytes missing",
            transfer.resid
        )));
    }
    Ok(sector)
}
