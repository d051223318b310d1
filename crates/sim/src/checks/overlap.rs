//! Overlap: no I/O under way on a disk touches blocks that another one is writing.

use raidcore::engine::{Io, IoOp};
use raidlog::GroupId;

use crate::under_way::Pending;

/// `io` of a group begins while `others` are under way.
pub(crate) fn begins<B>(group: GroupId, io: &Io, others: &[Pending<B>]) {
    let writes = |io: &Io| !matches!(io.op, IoOp::Read(_));
    let end = |io: &Io| io.at.0 + u64::from(io.blocks);
    if io.op == IoOp::Flush {
        return;
    }
    let others = others.iter().filter(|other| other.group == group);
    for other in others.map(|other| &other.io) {
        let conflict = other.device == io.device
            && other.op != IoOp::Flush
            && (io.at.0 < end(other) && other.at.0 < end(io))
            && (writes(io) || writes(other));
        assert!(!conflict, "{io:?} begins while {other:?} is under way");
    }
}
