//! The ublk front end's messages, compared with libublk's view of the kernel's header.
//!
//! The front end's own tests define which numbers it means. This test uses an independent
//! definition.
#![cfg(test)]
// Only part of the interface is used here.
#[allow(dead_code)]
#[path = "../../../crates/ublkd/src/front/ublk/abi.rs"]
mod abi;

use abi::{Control, ControlCommand, Descriptor, DeviceInfo, Io, IoCommand, Params};
use libublk_rs_sys as sys;

/// Structures of the kernel for which any bytes are a valid value.
///
/// # Safety
/// Any bytes must be a valid value.
unsafe trait Plain: Copy {}

// SAFETY: all of their fields are numbers.
unsafe impl Plain for sys::ublksrv_ctrl_cmd {}
// SAFETY: as above.
unsafe impl Plain for sys::ublksrv_ctrl_dev_info {}
// SAFETY: as above.
unsafe impl Plain for sys::ublksrv_io_cmd {}
// SAFETY: as above.
unsafe impl Plain for sys::ublksrv_io_desc {}
// SAFETY: as above.
unsafe impl Plain for sys::ublk_params {}

/// The value that the kernel reads from these bytes. Missing bytes at the end are zero, as in the
/// driver.
fn taken<T: Plain>(bytes: &[u8]) -> T {
    let mut whole = vec![0; size_of::<T>()];
    whole[..bytes.len()].copy_from_slice(bytes);
    // SAFETY: the bytes are as many as the structure has, and any are a valid value.
    unsafe { whole.as_ptr().cast::<T>().read_unaligned() }
}

/// The bytes that the kernel sends.
fn sent<T: Plain, const N: usize>(value: T) -> [u8; N] {
    assert_eq!(size_of::<T>(), N);
    let mut bytes = [0; N];
    // SAFETY: there is room, and none of the structures has padding.
    unsafe { bytes.as_mut_ptr().cast::<T>().write_unaligned(value) };
    bytes
}

#[test]
fn commands_have_the_same_numbers() {
    let control = [
        (Control::GetDeviceInfo, sys::UBLK_U_CMD_GET_DEV_INFO),
        (Control::AddDevice, sys::UBLK_U_CMD_ADD_DEV),
        (Control::DeleteDevice, sys::UBLK_U_CMD_DEL_DEV),
        (Control::StartDevice, sys::UBLK_U_CMD_START_DEV),
        (Control::StopDevice, sys::UBLK_U_CMD_STOP_DEV),
        (Control::SetParams, sys::UBLK_U_CMD_SET_PARAMS),
        (Control::GetParams, sys::UBLK_U_CMD_GET_PARAMS),
        (Control::StartUserRecovery, sys::UBLK_U_CMD_START_USER_RECOVERY),
        (Control::EndUserRecovery, sys::UBLK_U_CMD_END_USER_RECOVERY),
        (Control::GetFeatures, sys::UBLK_U_CMD_GET_FEATURES),
        (Control::DeleteDeviceAsync, sys::UBLK_U_CMD_DEL_DEV_ASYNC),
        (Control::UpdateSize, sys::UBLK_U_CMD_UPDATE_SIZE),
        (Control::TryStopDevice, sys::UBLK_U_CMD_TRY_STOP_DEV),
    ];
    for (ours, theirs) in control {
        assert_eq!(ours as u32, theirs, "{ours:?}");
    }
    let io = [
        (Io::Fetch, sys::UBLK_U_IO_FETCH_REQ),
        (Io::CommitAndFetch, sys::UBLK_U_IO_COMMIT_AND_FETCH_REQ),
    ];
    for (ours, theirs) in io {
        assert_eq!(ours as u32, theirs, "{ours:?}");
    }
}

#[test]
fn features_results_and_limits_are_the_same() {
    let features = [
        (abi::FEATURE_USER_RECOVERY, sys::UBLK_F_USER_RECOVERY),
        (abi::FEATURE_USER_RECOVERY_REISSUE, sys::UBLK_F_USER_RECOVERY_REISSUE),
        (abi::FEATURE_IOCTL_ENCODE, sys::UBLK_F_CMD_IOCTL_ENCODE),
        (abi::FEATURE_UPDATE_SIZE, sys::UBLK_F_UPDATE_SIZE),
        (abi::FEATURE_SAFE_STOP, sys::UBLK_F_SAFE_STOP_DEV),
    ];
    for (ours, theirs) in features {
        assert_eq!(ours, u64::from(theirs));
    }
    assert_eq!(abi::RESULT_REQUEST, sys::UBLK_IO_RES_OK as i32);
    assert_eq!(abi::RESULT_ABORT, sys::UBLK_IO_RES_ABORT);
    assert_eq!(u32::from(abi::DEPTH_MAX), sys::UBLK_MAX_QUEUE_DEPTH);
    assert_eq!(abi::REQUEST_BYTES_MAX, 1 << sys::UBLK_IO_BUF_BITS);
    assert_eq!(u32::from(DeviceInfo::DEAD), sys::UBLK_S_DEV_DEAD);
    let queue = abi::descriptors_at(1, 1, 4096).0;
    let theirs = size_of::<sys::ublksrv_io_desc>() as u64 * u64::from(sys::UBLK_MAX_QUEUE_DEPTH);
    assert_eq!((queue, sys::UBLKSRV_CMD_BUF_OFFSET), (theirs, 0));
}

#[test]
fn a_control_command_is_taken_as_it_is_meant() {
    let ours = ControlCommand { device: 7, memory: (0x1234_5678_9abc_def0, 60), data: 4711 };
    let theirs: sys::ublksrv_ctrl_cmd = taken(&ours.encode()[..size_of::<sys::ublksrv_ctrl_cmd>()]);
    assert_eq!((theirs.dev_id, theirs.queue_id), (7, u16::MAX));
    assert_eq!((theirs.addr, theirs.len), ours.memory);
    assert_eq!(theirs.data, [4711]);
    assert_eq!((theirs.dev_path_len, theirs.pad, theirs.reserved), (0, 0, 0));
}

#[test]
fn an_io_command_is_taken_as_it_is_meant() {
    let ours = IoCommand { queue: 3, tag: 60, result: -5, address: 0x1234_5678_9abc_def0 };
    let theirs: sys::ublksrv_io_cmd = taken(&ours.encode());
    assert_eq!((theirs.q_id, theirs.tag, theirs.result), (3, 60, -5));
    assert_eq!(theirs.addr, ours.address);
}

#[test]
fn a_devices_information_is_taken_as_it_is_meant_and_back() {
    let ours = DeviceInfo {
        queues: 2,
        depth: 64,
        state: 1,
        request_bytes: 1 << 20,
        id: 7,
        features: 0x1_0000_0058,
        owner: 0x1234_5678_9abc_def0,
    };
    let theirs: sys::ublksrv_ctrl_dev_info = taken(&ours.encode());
    assert_eq!((theirs.nr_hw_queues, theirs.queue_depth, theirs.state), (2, 64, 1));
    assert_eq!((theirs.max_io_buf_bytes, theirs.dev_id), (1 << 20, 7));
    assert_eq!((theirs.flags, theirs.ublksrv_flags), (ours.features, ours.owner));
    assert_eq!((theirs.ublksrv_pid, theirs.owner_uid, theirs.owner_gid), (0, 0, 0));
    assert_eq!(DeviceInfo::decode(&sent(theirs)), ours);
}

#[test]
fn parameters_are_taken_as_they_are_meant() {
    let ours = Params {
        logical_shift: 9,
        block_shift: 12,
        io_min_shift: 16,
        io_opt_shift: 18,
        max: 2048,
        boundary: 384,
        capacity: 1 << 33,
        discard_granularity: 1 << 18,
        max_range: 1 << 21,
    };
    let bytes = ours.encode();
    let theirs: sys::ublk_params = taken(&bytes);
    assert_eq!(theirs.len as usize, bytes.len());
    assert_eq!(theirs.types, sys::UBLK_PARAM_TYPE_BASIC | sys::UBLK_PARAM_TYPE_DISCARD);
    let (basic, discard) = (theirs.basic, theirs.discard);
    assert_eq!(basic.attrs, sys::UBLK_ATTR_VOLATILE_CACHE | sys::UBLK_ATTR_FUA);
    assert_eq!((basic.logical_bs_shift, basic.physical_bs_shift), (9, 12));
    assert_eq!((basic.io_min_shift, basic.io_opt_shift), (16, 18));
    assert_eq!((basic.max_sectors, basic.chunk_sectors), (2048, 384));
    assert_eq!((basic.dev_sectors, basic.virt_boundary_mask), (1 << 33, 0));
    assert_eq!((discard.discard_alignment, discard.discard_granularity), (0, 1 << 18));
    assert_eq!((discard.max_discard_sectors, discard.max_write_zeroes_sectors), (1 << 21, 1 << 21));
    assert_eq!((discard.max_discard_segments, discard.reserved0), (1, 0));
    // Only the filled parts are sent.
    let end = std::mem::offset_of!(sys::ublk_params, discard) + size_of_val(&discard);
    assert_eq!(bytes.len(), end);
    assert_eq!(Params::capacity(&bytes), 1 << 33);
}

#[test]
fn a_request_is_read_as_it_is_meant() {
    let operations = [
        (Descriptor::READ, sys::UBLK_IO_OP_READ),
        (Descriptor::WRITE, sys::UBLK_IO_OP_WRITE),
        (Descriptor::FLUSH, sys::UBLK_IO_OP_FLUSH),
        (Descriptor::DISCARD, sys::UBLK_IO_OP_DISCARD),
        (Descriptor::WRITE_ZEROES, sys::UBLK_IO_OP_WRITE_ZEROES),
    ];
    for (ours, theirs) in operations {
        assert_eq!(u32::from(ours), theirs);
        for fua in [0, sys::UBLK_IO_F_FUA] {
            let told: sys::ublksrv_io_desc =
                taken(&[theirs | fua, 8, 4096, 0, 0, 0].map(u32::to_ne_bytes).concat());
            let ours = Descriptor::decode(&sent(told));
            assert_eq!((u32::from(ours.op()), ours.fua()), (theirs, fua != 0));
            assert_eq!((ours.sectors, ours.start), (told.nr_sectors, told.start_sector));
        }
    }
}
