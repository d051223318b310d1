//! Writes through the block layer name their stream where the kernel has said that there are some.

use super::{Member, Ring};
use crate::ops::{Next, OpId, OpKind};
use crate::paths::shown;

impl Member {
    /// The stream that an op through the block layer names, of those that count from 1 on; 0 is none.
    pub(super) fn stream_of(&self, kind: OpKind) -> u8 {
        match kind {
            OpKind::Write { stream, .. } | OpKind::Gather { stream } if self.block_streams > 0 => {
                stream.number(self.block_streams.into()) as u8 + 1
            }
            OpKind::Write { .. }
            | OpKind::Gather { .. }
            | OpKind::Read(_)
            | OpKind::Flush
            | OpKind::Discard
            | OpKind::Trim
            | OpKind::Look => 0,
        }
    }
}

impl Ring {
    /// An entry was refused that names a stream. Its device has none any more, as after a change of its
    /// settings: what is written to it names none from now on.
    pub(super) fn unnamed(&mut self, id: OpId, result: i32) -> Next {
        let op = self.ops.get(id);
        if let Some(member) = &mut self.members[usize::from(op.member.0)]
            && std::mem::take(&mut member.block_streams) > 0
        {
            tracing::warn!(
                "{path}: writes are not kept apart from now on: the kernel refuses them with error {}",
                -result,
                path = shown(member.device.path())
            );
        }
        Next::Again
    }
}
