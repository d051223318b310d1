//! Marks of the write-intent bitmap that few members have.

use raidcore::meta::{AssembleError, AssembleOptions, MetaPage, assemble};

use super::*;
use crate::disk::FOR_GOOD;

fn is_mark(io: &Io) -> bool {
    matches!(io.op, IoOp::Store(MetaPage::Bitmap { .. }))
}

/// Only one member has the newest page when the power fails, and it is lost while the next start stores
/// that on the others, and tears what it writes over: not what was durable.
#[test]
fn a_start_leaves_the_marks_that_were_durable() {
    let mut world = play(1, scenario(Level::Raid5, 3, Consistency::Bitmap));
    world.write_one(0);
    world.ask(0, Op::Write, 100, 1);
    world.end_all(|io| !is_mark(io));
    let newest = world.ios.iter().map(|p| p.io).find(is_mark).expect("a mark is being stored");
    world.end_one(|io| is_mark(io) && io.device == newest.device);
    world.cut_power();
    world.end_all(|io| !is_mark(io));
    let storing: Vec<Io> = world.ios.iter().map(|p| p.io).filter(is_mark).collect();
    assert_eq!(storing.len(), 3, "all members get it");
    let has_it = newest.device.0 as usize;
    for io in storing {
        world.disks[io.device.0 as usize].bad.insert(io.at.0, FOR_GOOD);
    }
    let left: Vec<_> = (0..3).filter(|&d| d != has_it).map(|d| &world.disks[d]).collect();
    let options = AssembleOptions { degraded: true, force: false };
    assert_eq!(assemble(&left, options), Err(AssembleError::DirtyDegraded));
}
