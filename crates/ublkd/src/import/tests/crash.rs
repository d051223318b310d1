//! Crashes between any two writes of an import, its commit and its undoing, which tear the last one by
//! sectors, and lose any of those that no flush had made durable.

use det::Prng;
use raidcore::meta::AssembleOptions;
use raidcore::units::BLOCK_BYTES;

use super::members::{MdMembers, MdShape};
use crate::attach::attach;
use crate::import::rounds::{self, Round, Write};
use crate::import::*;

const SECTOR: usize = 512;

/// What a crash must leave.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Phase {
    /// md, with nothing changed that it needs.
    Mds,
    /// md; or a commit that goes on or is undone; or an array that starts.
    Commit,
}

/// What a round has written when its power fails: of each write, which sectors.
fn cuts(round: &Round, chance: &mut Prng) -> Vec<Vec<u8>> {
    let mut cuts = Vec::new();
    for last in 0..round.len() {
        // The writes before are whole, those after it are lost; this one is torn.
        let torn = if last.is_multiple_of(2) { 0x01 } else { chance.next_u64() as u8 };
        let before = std::iter::repeat_n(0xff, last);
        let after = std::iter::repeat_n(0, round.len() - last - 1);
        cuts.push(before.chain([torn]).chain(after).collect());
    }
    for _ in 0..4 {
        let any = (0..round.len()).map(|_| match chance.below(3) {
            0 => 0,
            1 => 0xff,
            _ => chance.next_u64() as u8,
        });
        cuts.push(any.collect());
    }
    cuts
}

fn apply(disks: &mut [Vec<u8>], round: &Round, sectors: &[u8]) {
    for (Write { device, at, bytes }, sectors) in round.iter().zip(sectors) {
        for sector in (0..BLOCK_BYTES / SECTOR).filter(|sector| sectors >> sector & 1 != 0) {
            let from = sector * SECTOR;
            let to = at.0 as usize * BLOCK_BYTES + from;
            disks[*device][to..to + SECTOR].copy_from_slice(&bytes[from..from + SECTOR]);
        }
    }
}

fn starts(members: &MdMembers) -> bool {
    attach(&members.paths, AssembleOptions::default()).is_ok()
}

/// What is true in every state, and what has to be possible from there on.
fn check(members: &MdMembers, disks: &[Vec<u8>], original: &[Vec<u8>], phase: Phase) {
    members.restore(disks);
    let starts_now = starts(members);
    let intact = members.md().iter().filter(|md| md.is_ok()).count();
    assert!(!starts_now || intact == 0, "both could use it");
    match phase {
        Phase::Mds => assert!(members.is_mds() && !starts_now, "md lacks something"),
        Phase::Commit => {}
    }
    // Forward.
    match commit(&members.config()) {
        Ok(_) => assert!(!starts_now, "an array that starts was changed"),
        Err(ImportError::Taken { .. }) => assert!(starts_now, "nothing can be done"),
        Err(other) => panic!("{other}"),
    }
    assert!(starts(members), "it does not start after the commit");
    assert!(members.md().iter().all(Result::is_err), "md could use it, too");
    // Back.
    members.restore(disks);
    match undo(&members.paths) {
        Ok(()) => assert!(!starts_now, "an array that starts was given away"),
        Err(ImportError::Taken { .. }) => {
            assert!(starts_now, "nothing can be done");
            return;
        }
        Err(other) => panic!("{other}"),
    }
    assert!(members.is_mds() && !starts(members), "md does not get it back");
    let now = members.without_maps(&members.whole());
    assert!(now == members.without_maps(original), "something is left");
}

/// Carries rounds out, with a crash at each place.
fn crash(
    members: &MdMembers,
    disks: &mut [Vec<u8>],
    rounds: &[Round],
    phase: Phase,
    chance: &mut Prng,
) {
    let original = members_original(members);
    for round in rounds {
        for cut in cuts(round, chance) {
            let mut torn = disks.to_vec();
            apply(&mut torn, round, &cut);
            check(members, &torn, &original, phase);
        }
        apply(disks, round, &vec![0xff; round.len()]);
        check(members, disks, &original, phase);
    }
}

/// What the members were in the beginning: the same data for the same shape.
fn members_original(members: &MdMembers) -> Vec<Vec<u8>> {
    MdMembers::new(members.shape.clone()).whole()
}

fn found(members: &MdMembers) -> Vec<Found> {
    find(&members.paths, |path| Ok(open(path)?)).expect("they can be opened")
}

#[test]
fn a_crash_leaves_it_to_md_or_to_evenkeel() {
    let members = MdMembers::new(MdShape::default());
    let mut chance = Prng::new(3);
    let mut disks = members.whole();
    let plan = Plan::of(&members.config(), found(&members)).expect("it can be imported");
    let prepared = rounds::prepare(&plan.record, &plan.found, plan.needs_resync);
    let record = plan.record.clone();
    drop(plan);
    crash(&members, &mut disks, &prepared, Phase::Mds, &mut chance);

    // Prepared once more, over what is there.
    members.restore(&disks);
    let plan = Plan::of(&members.config(), found(&members)).expect("it can be imported");
    let again = rounds::prepare(&plan.record, &plan.found, plan.needs_resync);
    drop(plan);
    crash(&members, &mut disks.clone(), &again, Phase::Mds, &mut chance);

    members.restore(&disks);
    let undone = rounds::undo(&found(&members)).expect("it can be undone");
    crash(&members, &mut disks.clone(), &undone, Phase::Mds, &mut chance);

    // Undone when a commit has made some of md's superblocks void.
    let committed = rounds::commit(&record.taken_over());
    let mut begun = disks.clone();
    apply(&mut begun, &committed[0], &[0xff, 0xff, 0, 0]);
    members.restore(&begun);
    let undone = rounds::undo(&found(&members)).expect("it can be undone");
    crash(&members, &mut begun.clone(), &undone, Phase::Commit, &mut chance);

    crash(&members, &mut disks, &committed, Phase::Commit, &mut chance);
    members.restore(&disks);
    assert!(starts(&members));
}
