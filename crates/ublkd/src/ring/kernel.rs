//! What the kernel is asked: a ring, the registration of memory, and entries.
#![allow(unsafe_code)]

use std::io;

use io_uring::{IoUring, opcode, squeue, types};

use crate::arena::Arena;
use crate::ops::{Op, OpKind};

/// A ring with what this kernel has to offer to a single thread that waits in it.
pub(super) fn build(entries: u32) -> io::Result<IoUring> {
    let mut common = IoUring::builder();
    common.setup_clamp().setup_submit_all().setup_cqsize(entries.saturating_mul(8));
    let mut best = common.clone();
    best.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag();
    best.build(entries).or_else(|_| common.setup_coop_taskrun().build(entries))
}

/// Registers the arena's memory, or goes without.
pub(super) fn register_memory(uring: &IoUring, arena: &mut Arena) {
    let iovecs: Vec<_> = arena
        .spans()
        .iter()
        .map(|span| libc::iovec { iov_base: span.base.cast(), iov_len: span.bytes })
        .collect();
    // SAFETY: the spans are mapped; unmapping them while they are registered leaves the kernel with
    // pages of its own, not with ours.
    if let Err(error) = unsafe { uring.submitter().register_buffers(&iovecs) } {
        tracing::warn!(
            %error,
            "I/O memory can't be registered with the kernel and is a little slower; raise the \
             limit of locked memory (LimitMEMLOCK) to change that"
        );
        arena.forget_registration();
    }
}

/// The submission entry for what is left of an op.
pub(super) fn entry(op: &Op, fd: types::Fd, arena: &Arena) -> squeue::Entry {
    let base = op.base.wrapping_add(op.done);
    let left = (op.bytes - op.done) as u32;
    let at = op.offset + op.done as u64;
    let registered = op.pieces.first().and_then(|&piece| arena.registered(piece));
    match (op.kind, registered) {
        (OpKind::Read(_), Some(buffer)) => {
            opcode::ReadFixed::new(fd, base, left, buffer).offset(at).build()
        }
        (OpKind::Read(_), None) => opcode::Read::new(fd, base, left).offset(at).build(),
        (OpKind::Write { durable }, Some(buffer)) => {
            let write = opcode::WriteFixed::new(fd, base, left, buffer);
            write.offset(at).rw_flags(flags(durable)).build()
        }
        (OpKind::Write { durable }, None) => {
            opcode::Write::new(fd, base, left).offset(at).rw_flags(flags(durable)).build()
        }
        (OpKind::Gather, _) => {
            let parts = &op.iovecs[op.first..];
            let write = opcode::Writev::new(fd, parts.as_ptr(), parts.len() as u32);
            write.offset(at).rw_flags(flags(true)).build()
        }
        (OpKind::Flush, _) => opcode::Fsync::new(fd).flags(types::FsyncFlags::DATASYNC).build(),
        (OpKind::Discard, _) => opcode::Fallocate::new(fd, op.bytes as u64)
            .offset(at)
            .mode(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE)
            .build(),
    }
}

fn flags(durable: bool) -> i32 {
    if durable { libc::RWF_DSYNC } else { 0 }
}

/// Errors of handing over that pass by themselves: the time is over, a signal came, or completions
/// have to be taken in first.
pub(super) fn passing(result: io::Result<usize>) -> io::Result<()> {
    match result {
        Ok(_) => Ok(()),
        Err(e) => match e.raw_os_error() {
            Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY) => Ok(()),
            _ => Err(e),
        },
    }
}
