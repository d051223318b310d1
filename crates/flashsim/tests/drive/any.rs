//! Small drives of all kinds.

use flashsim::Profile;
use flashsim::profile::{
    Background, DieChoice, PlaneChoice, Preempt, ReadRetry, Scope, Suspend, Unit, Victim,
    WearLeveling, WriteBuffer,
};
use proptest::prelude::*;

use crate::small;

pub(crate) fn any_profile() -> impl Strategy<Value = Profile> {
    let ftl = (
        prop_oneof![
            Just(DieChoice::Static),
            Just(DieChoice::RoundRobin),
            Just(DieChoice::MostFree),
            Just(DieChoice::ShortestQueue)
        ],
        prop_oneof![
            Just(PlaneChoice::Static),
            Just(PlaneChoice::RoundRobin),
            Just(PlaneChoice::MostFree)
        ],
        0u32..3,
        proptest::bool::ANY,
        proptest::option::of(Just(WearLeveling { dynamic: true, static_gap: Some(3) })),
    );
    let gc = (
        prop_oneof![
            Just(Victim::Greedy),
            Just(Victim::Fifo),
            Just(Victim::DChoices(5)),
            Just(Victim::WindowedGreedy(9))
        ],
        prop_oneof![Just(Scope::Plane), Just(Scope::Chip), Just(Scope::Device)],
        prop_oneof![Just(Unit::Page), Just(Unit::Block), Just(Unit::Burst(3))],
        prop_oneof![Just(Preempt::Never), Just(Preempt::Page), Just(Preempt::Block)],
        proptest::bool::ANY,
        proptest::bool::ANY,
        0u32..3,
    );
    let extras = (
        proptest::option::of((16u32..200, proptest::bool::ANY)),
        proptest::bool::ANY,
        proptest::bool::ANY,
        proptest::bool::ANY,
        1u32..3,
    );
    (ftl, gc, extras).prop_map(|(ftl, gc, extras)| {
        let mut profile = small();
        profile.geometry.dies = extras.4;
        profile.geometry.chips = 2;
        profile.geometry.pages = 16;
        profile.ftl.spare = 0.25;
        (profile.ftl.die, profile.ftl.plane, profile.ftl.reads_first) = (ftl.0, ftl.1, ftl.2);
        (profile.gc.separate, profile.ftl.wear_leveling) = (ftl.3, ftl.4);
        (profile.gc.victim, profile.gc.scope, profile.gc.unit) = (gc.0, gc.1, gc.2);
        (profile.gc.preempt, profile.gc.only_when_waiting) = (gc.3, gc.4);
        profile.gc.host_turns = gc.6;
        if gc.5 {
            profile.gc.copy = flashsim::profile::CopyPath::Controller;
        }
        profile.buffer = extras.0.map(|(kib, power_safe)| WriteBuffer { kib, power_safe });
        if extras.1 {
            profile.suspend =
                Some(Suspend { erase: true, program: true, latency_us: 50.0, limit: 3 });
        }
        if extras.2 {
            profile.gc.background =
                Some(Background { start: 0.15, stop: None, idle_us: 100.0, gain: 0.1 });
        }
        if extras.3 {
            profile.read_retry = Some(ReadRetry { probability: 0.1, limit: 3 });
        }
        profile
    })
}
