//! Imports of members that a test writes as md would.

mod crash;
mod members;
mod refusals;

use std::process::Command;

use raidcore::geometry::{Level, Placement};
use raidcore::meta::{AssembleError, AssembleOptions, Consistency};

use super::*;
use crate::attach::{AttachError, attach};
use members::{MdMembers, MdShape};

/// Levels of md with the layouts that Evenkeel has, and what they are there.
const SHAPES: [(i32, u32, Level, Placement); 13] = [
    (0, 0, Level::Raid0, Placement::ParityLast),
    (1, 0, Level::Raid1, Placement::ParityLast),
    (4, 0, Level::Raid4, Placement::ParityLast),
    (5, 0, Level::Raid5, Placement::LeftAsymmetric),
    (5, 1, Level::Raid5, Placement::RightAsymmetric),
    (5, 2, Level::Raid5, Placement::LeftSymmetric),
    (5, 3, Level::Raid5, Placement::RightSymmetric),
    (5, 4, Level::Raid5, Placement::ParityFirst),
    (5, 5, Level::Raid5, Placement::ParityLast),
    (6, 2, Level::Raid6, Placement::LeftSymmetric),
    (6, 3, Level::Raid6, Placement::RightSymmetric),
    (6, 5, Level::Raid6, Placement::ParityLast),
    (10, 0x102, Level::Raid10, Placement::Near),
];

#[test]
fn each_shape_becomes_evenkeels_and_lies_where_it_was() {
    for (level, layout, expected, placement) in SHAPES {
        let members = MdMembers::new(MdShape { level, layout, ..MdShape::default() });
        let before = members.data();
        let import = commit(&members.config()).expect("it can be imported");
        assert_eq!(import.stage, Stage::Committed);
        assert_eq!(import.needs_resync, expected != Level::Raid0, "{level} {layout}");
        let attached = attach(&members.paths, AssembleOptions::default()).expect("it starts");
        let geometry = &attached.record().geometry;
        assert_eq!((geometry.level(), geometry.placement()), (expected, placement));
        assert_eq!(attached.record().areas.data_start(), members.data_start());
        let marked = attached.groups[0].assembled.bitmap.count() > 0;
        assert_eq!(marked, import.needs_resync);
        assert_eq!(members.data(), before);
        assert!(members.md().iter().all(Result::is_err), "md would assemble it");
    }
}

#[test]
fn members_are_found_in_any_order() {
    let members = MdMembers::new(MdShape::default());
    let mut config = members.config();
    config.paths.reverse();
    let import = plan(&config).expect("it can be imported");
    assert_eq!(import.paths, members.paths);
    assert_eq!((import.record.name.as_str(), import.stage), ("data", Stage::Planned));
}

#[test]
fn a_plan_changes_nothing() {
    let members = MdMembers::new(MdShape::default());
    let before = members.whole();
    plan(&members.config()).expect("it can be imported");
    assert!(members.whole() == before, "something was written");
}

#[test]
fn what_is_prepared_does_not_start_and_can_be_undone() {
    let members = MdMembers::new(MdShape::default());
    let before = members.whole();
    prepare(&members.config()).expect("it can be imported");
    assert!(members.is_mds());
    match attach(&members.paths, AssembleOptions { degraded: true, force: true }) {
        Err(AttachError::Assemble(AssembleError::Pending { name })) => assert_eq!(name, "data"),
        other => panic!("{other:?}"),
    }
    undo(&members.paths).expect("it can be undone");
    assert!(members.without_maps(&members.whole()) == members.without_maps(&before));
    undo(&members.paths).expect("there is nothing left to do");
    // And once more, from what that has left.
    commit(&members.config()).expect("it can be imported");
    attach(&members.paths, AssembleOptions::default()).expect("it starts");
    let late = undo(&members.paths).expect_err("it is Evenkeel's");
    assert!(matches!(late, ImportError::Taken { .. }), "{late}");
}

#[test]
fn a_commit_takes_what_was_prepared_unless_md_went_on() {
    let members = MdMembers::new(MdShape::default());
    let config =
        ImportConfig { name: Some("other".into()), assume_clean: true, ..members.config() };
    let prepared = prepare(&config).expect("it can be imported");
    let plain = ImportConfig { consistency: Some(Consistency::Bitmap), ..members.config() };
    let committed = commit(&plain).expect("it is committed");
    assert_eq!(committed.record.array, prepared.record.array);
    assert_eq!((committed.needs_resync, &*committed.record.name), (false, "other"));

    let members = MdMembers::new(MdShape::default());
    let prepared = prepare(&config_of(&config, &members)).expect("it can be imported");
    members.rewrite(|shape| shape.events += 2);
    let committed = commit(&members.config()).expect("it is committed");
    assert_ne!(committed.record.array, prepared.record.array);
    assert!(committed.needs_resync, "md may have written anything");
    assert_eq!(committed.record.name, "other");
}

fn config_of(config: &ImportConfig, members: &MdMembers) -> ImportConfig {
    ImportConfig { paths: members.paths.clone(), ..config.clone() }
}

#[test]
fn a_commit_that_md_came_between_is_only_undone() {
    let members = MdMembers::new(MdShape::default());
    prepare(&members.config()).expect("it can be imported");
    // A crash amid the commit, and md went on without the first member.
    members.erase(0);
    members.rewrite_from(1, |shape| shape.events += 2);
    let refused = commit(&members.config()).expect_err("the first member is out of date");
    assert!(matches!(refused, ImportError::UsedSince { .. }), "{refused}");
    undo(&members.paths).expect("md gets it back");
    let events: Vec<_> = members.md().into_iter().map(|md| md.expect("intact").events).collect();
    assert_eq!(events, [7, 9, 9, 9], "md can tell which one is older");
}

/// What the tests write is what mdadm reads, if it is there.
#[test]
fn mdadm_reads_what_the_tests_write() {
    let members = MdMembers::new(MdShape::default());
    let mdadm = Command::new("/usr/sbin/mdadm").arg("--examine").arg(&members.paths[1]).output();
    let Ok(output) = mdadm else { return };
    let told = String::from_utf8_lossy(&output.stdout);
    for line in [
        "Version : 1.2",
        "Raid Level : raid5",
        "Raid Devices : 4",
        "Data Offset : 4096 sectors",
        "State : clean",
        "- correct",
        "Events : 7",
        "Layout : left-symmetric",
        "Chunk Size : 32K",
        "Device Role : Active device 1",
        "Array State : AAAA",
    ] {
        assert!(told.contains(line), "no {line} in {told}");
    }
}
