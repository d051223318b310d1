//! Where reads and writes go.

mod hedged;
mod staged;

use core::time::Duration;

use det::Instant;
use raidcore::engine::{Choice, Detour, Judged, Outcome, Redirect, SteeringPolicy, Way};
use raidcore::meta::PolicyName;
use raidcore::units::{Lba, MemberId};
use steering::hedge::Hedge;
use steering::hold::CACHES;
use steering::popularity::Popularity;
use steering::scheme::{SCHEMES, Scheme};
use steering::steer::{Known, Reconstruct, Steer};
use steering::trials::Trials;

/// A write of a block that no busy member delays, while the log is empty.
const CALM_WRITE: Redirect = Redirect {
    blocks: 1,
    data_busy: false,
    busy: false,
    rebuilds: false,
    staged: false,
    late: false,
    journaled: true,
    used: 0.0,
};

/// Members that tell and obey.
const BOTH: Known = Known { told: true, obeyed: true };

#[test]
fn detours_keep_to_their_budget() {
    let mut policy = Steer { reads: Some(Reconstruct::new(0.05)), ..Steer::default() };
    let (mut read, mut extra) = (0, 0);
    let mut refused = 0;
    for _ in 0..100_000 {
        read += 1;
        let detour = Detour { read, blocks: 1, extra: 3 };
        if policy.takes(Instant::ORIGIN, detour) {
            extra += 3;
        } else {
            refused += 1;
        }
    }
    let share = f64::from(extra) / read as f64;
    assert!((0.045..0.052).contains(&share) && refused > 0, "{share}, {refused} refused");
    assert!(policy.takes(Instant::ORIGIN, Detour { read, blocks: 1, extra: 0 }));
}

#[test]
fn what_was_earned_long_ago_is_spent() {
    let mut policy = Steer { reads: Some(Reconstruct::new(0.05)), ..Steer::default() };
    let detour = Detour { read: 1 << 40, blocks: 1, extra: 4 };
    let taken = (0..10_000).filter(|_| policy.takes(Instant::ORIGIN, detour)).count();
    assert_eq!(taken, 1024, "no more than 16 MiB at once");
}

#[test]
fn what_slows_nobody_down_costs_nothing() {
    let trials = Some(Trials::default());
    let mut policy = Steer { reads: Some(Reconstruct::new(0.0)), trials, ..Steer::default() };
    let detour = Detour { read: 0, blocks: 1, extra: 4 };
    let end = |way, took: u64, policy: &mut Steer| {
        let took = Duration::from_micros(took);
        policy.ended(ended(true, way, took));
    };
    for _ in 0..1000 {
        assert!(policy.takes(Instant::ORIGIN, detour));
        end(Way::Calm, 100, &mut policy);
        end(Way::Around, 200, &mut policy);
    }
    (0..100).for_each(|_| end(Way::Around, 1000, &mut policy));
    let taken = (0..1000).filter(|_| policy.takes(Instant::ORIGIN, detour)).count();
    assert!(taken <= 16, "{taken}");
}

#[test]
fn patience_ends_after_three_medians_and_where_one_read_in_four_takes_longer() {
    let mut policy = Steer { hedge: Some(Hedge::at_home()), ..Steer::default() };
    assert_eq!(policy.patience(Instant::ORIGIN, 1), None, "nothing is known yet");
    let mut after = |slow: u64| {
        for i in 0..4000 {
            let took = Duration::from_micros(if i % slow == 1 { 9_000 } else { 100 });
            policy.ended(ended(true, Way::Calm, took));
            policy.ended(ended(false, Way::Calm, took * 1000));
        }
        policy.patience(Instant::ORIGIN, 1).expect("enough have ended").as_micros()
    };
    let (rarely, often) = (after(5), after(3));
    assert!((270..330).contains(&rarely), "{rarely} us, three times what most take");
    assert!((8_000..10_000).contains(&often), "{often} us, as one in three does take that long");
    assert_eq!(policy.patience(Instant::ORIGIN, 256), None, "nothing is known of large ones");
}

/// Members that take no orders, as those that are sold; some tell when they collect.
const SOLD: [Known; 2] =
    [Known { told: false, obeyed: false }, Known { told: true, obeyed: false }];

/// Late reads, and the policy `evenkeel` that may hedge them.
struct Late {
    policy: Box<dyn SteeringPolicy>,
    read: u64,
}

impl Late {
    /// Of the small reads that have ended, one in five has taken 100 µs, the others as long as `most`.
    fn where_most_take(known: Known, budget: f64, most: u64) -> Self {
        let evenkeel = Scheme::named("evenkeel").expect("there is one");
        let mut policy = evenkeel.place(budget, known).expect("it steers");
        for i in 0..2000 {
            let took = Duration::from_micros(if i % 5 == 0 { 100 } else { most });
            // A detector says of one read in two that its member is busy.
            let way = if i % 2 == 0 { Way::Home } else { Way::Calm };
            policy.ended(ended(true, way, took));
        }
        Self { policy, read: 0 }
    }

    /// How many of so many are hedged. They take 450 µs then, and so much longer at home.
    fn hedged(
        &mut self,
        count: u32,
        (blocks, extra): (u32, u32),
        mut spared: impl FnMut() -> u64,
    ) -> u32 {
        let mut hedged = 0;
        for _ in 0..count {
            self.read += u64::from(blocks);
            let detour = Detour { read: self.read, blocks, extra };
            if self.policy.takes(Instant::ORIGIN, detour) {
                hedged += 1;
                let took = Duration::from_micros(450);
                self.policy.hedged(blocks, took, took + Duration::from_micros(spared()));
            }
        }
        hedged
    }

    /// What is found of small reads, and of large ones.
    fn judged(&self) -> [Judged; 2] {
        let mut judged = Vec::new();
        self.policy.tell(&mut |found| judged.push(found));
        assert_eq!(
            judged.len(),
            7,
            "small and large reads, writes, late writes, and hedged writes"
        );
        for (found, small) in judged.iter().zip([true, false]) {
            assert_eq!(found.choice, Choice::Detour { reads: true, small });
        }
        [judged[0], judged[1]]
    }
}

#[test]
fn hedging_has_to_spare_more_than_it_costs_others() {
    for known in SOLD {
        // Most reads wait for 100 µs, so four more cost 400.
        let mut late = Late::where_most_take(known, 4.0, 200);
        assert_eq!(late.hedged(3000, (8, 32), || 500), 3000, "500 us are spared for 400");
        let [small, _] = late.judged();
        assert!(small.on && small.since.is_none());
        assert!(small.calm.is_some_and(|calm| calm.as_micros().abs_diff(180) < 20), "{small:?}");
        assert_eq!(small.around, Some(Duration::from_micros(450)));
        assert!(small.home.is_some_and(|home| home.as_micros().abs_diff(950) < 2), "{small:?}");

        let rests = late.hedged(40_000, (8, 32), || 300);
        assert!(rests < 10_000, "{rests} of 40,000, which are spared 300 us for 400");
        let [small, large] = late.judged();
        assert!(!small.on && small.since.is_some() && large.on, "{small:?}");
        assert_eq!(late.hedged(1600, (1, 4), || 300), 100, "one in 16 finds out when that changes");
        assert_eq!(late.hedged(100, (64, 256), || 300), 100, "nothing is known of large ones");
        let again = late.hedged(60_000, (1, 4), || 900);
        assert!(again > 30_000, "{again} of 60,000, which are spared 900 us");
    }
}

#[test]
fn hedging_costs_nothing_where_no_read_waits_for_others() {
    for known in SOLD {
        let mut late = Late::where_most_take(known, 4.0, 100);
        assert_eq!(late.hedged(10_000, (1, 4), || 0), 10_000);
    }
}

#[test]
fn a_few_reads_that_are_spared_a_lot_pay_for_many() {
    // 1000 µs in the mean, for 400, at random.
    for seed in 0..8 {
        let mut prng = det::Prng::new(seed);
        let mut late = Late::where_most_take(SOLD[0], 4.0, 200);
        let spared = || if prng.below(200) == 0 { 200_000 } else { 0 };
        let count = late.hedged(50_000, (1, 4), spared);
        assert!(count > 40_000, "seed {seed}: {count} of 50,000");
    }
}

#[test]
fn a_hedge_that_rests_uses_up_no_budget() {
    // It begins with 64 blocks, and earns none.
    let mut late = Late::where_most_take(SOLD[0], 0.0, 200);
    late.hedged(1000, (1, 0), || 0);
    assert_eq!(late.hedged(16 * 16, (1, 4), || 0), 16);
    assert_eq!(late.hedged(16 * 16, (1, 4), || 0), 0);
}

#[test]
fn detours_of_members_that_take_orders_are_not_judged_as_hedges() {
    let mut late = Late::where_most_take(Known { told: false, obeyed: true }, 4.0, 200);
    assert_eq!(late.hedged(10_000, (1, 4), || 0), 10_000, "each comes in the place of a read");
}

#[test]
fn schemes_have_names_of_their_own() {
    for scheme in SCHEMES {
        for cache in CACHES {
            let scheme = scheme.with(*cache);
            let name = scheme.to_string();
            assert_eq!(Scheme::named(&name), Some(scheme));
            assert!(PolicyName::new(&name).is_some(), "{name} can be put on record");
        }
    }
    for name in ["none of them", "plain/none", "plain/", "/log", "evenkeel/log/log"] {
        assert_eq!(Scheme::named(name), None, "{name}");
    }
}

#[test]
fn what_is_read_again_soon_is_popular_within_a_tenth_of_what_is_read() {
    let mut popular = Popularity::default();
    let mut reads = |member, first, blocks| popular.reads(MemberId(member), Lba(first), blocks);
    assert!(!reads(0, 8, 4), "nobody has read it yet");
    assert!(!reads(1, 8, 4), "nor from that member");
    assert!(reads(0, 8, 4));
    assert!(!reads(0, 10, 4), "a part of it is new");
    assert!(reads(0, 9, 2));
    assert!(!reads(0, 512, 64) && !reads(0, 512, 64), "much at once is not often");
    // What was read long ago is forgotten.
    (0..1 << 20).for_each(|other| {
        reads(0, 4096 + other, 1);
    });
    assert!(!reads(0, 8, 4));
    let copied: u32 = (0..100_000).map(|i| u32::from(reads(0, i % 64, 1))).sum();
    assert!((10_000..=11_024).contains(&copied), "{copied} of 100,000");
}

#[test]
fn as_the_paper_has_it_rebuilds_are_spared_and_no_other() {
    let redirect = Redirect { rebuilds: true, used: 0.5, ..CALM_WRITE };
    let stages = |scheme: &str, redirect| {
        let scheme = Scheme::named(scheme).expect("it exists");
        let mut policy = scheme.place(0.05, BOTH).expect("it has a policy");
        policy.stages(Instant::ORIGIN, redirect)
    };
    assert!(stages("gc-steering", redirect));
    assert!(!stages("gc-steering", Redirect { rebuilds: false, ..redirect }));
    assert!(!stages("gc-steering", Redirect { used: 0.95, ..redirect }), "some room is kept");
    assert!(!stages("evenkeel", redirect));
}

#[test]
fn a_log_takes_small_writes_that_wait_for_nobody_while_half_of_it_is_free() {
    let calm = Redirect { blocks: 16, used: 0.4, ..CALM_WRITE };
    for name in ["plain/log", "evenkeel/log:wow"] {
        let scheme = Scheme::named(name).expect("it exists");
        assert!(scheme.needs_staging());
        let mut policy = scheme.place(0.05, BOTH).expect("it has a policy");
        assert!(policy.stages_calm());
        let mut stages = |redirect| policy.stages(Instant::ORIGIN, redirect);
        assert!(stages(calm), "{name}");
        assert!(!stages(Redirect { blocks: 17, ..calm }), "{name}: a large write goes home");
        assert!(!stages(Redirect { used: 0.5, ..calm }), "{name}: half is kept for busy times");
        let busy = Redirect { busy: true, blocks: 64, used: 0.8, ..calm };
        assert_eq!(stages(busy), name != "plain/log", "that is up to the scheme");
        assert!(stages(Redirect { staged: true, blocks: 64, used: 0.8, ..calm }), "{name}");
    }
    let evenkeel = Scheme::named("evenkeel").and_then(|scheme| scheme.place(0.05, BOTH));
    assert!(!evenkeel.expect("it has a policy").stages_calm());
}

/// `evenkeel` on members of each kind.
fn evenkeel() -> impl Iterator<Item = (Known, Box<dyn SteeringPolicy>)> {
    let scheme = Scheme::named("evenkeel").expect("it exists");
    let kinds = [(true, true), (true, false), (false, true), (false, false)];
    kinds.into_iter().map(move |(told, obeyed)| {
        let known = Known { told, obeyed };
        (known, scheme.place(0.05, known).expect("it has a policy"))
    })
}

/// More of those that take no orders can be busy at a time than can be gone around, and one that collects with one
/// chip of many need not be.
#[test]
fn reads_go_around_at_once_only_where_members_take_orders() {
    for (known, mut policy) in evenkeel() {
        assert_eq!(policy.detours(), known.obeyed, "{known:?}");
        let detour = Detour { read: 1, blocks: 1, extra: 3 };
        assert!(policy.takes(Instant::ORIGIN, detour), "{known:?}");
        let took = Duration::from_micros(100);
        let outcome = ended(true, Way::Calm, took);
        (0..1000).for_each(|_| policy.ended(outcome));
        let hedged = policy.patience(Instant::ORIGIN, 1).is_some();
        assert_eq!(hedged, !(known.told && known.obeyed), "{known:?}");
    }
}

#[test]
fn large_writes_are_staged_only_where_members_collect_when_they_are_told_to() {
    for (known, mut policy) in evenkeel() {
        let redirect =
            |blocks, staged| Redirect { blocks, data_busy: true, busy: true, staged, ..CALM_WRITE };
        let mut stages = |blocks, staged| policy.stages(Instant::ORIGIN, redirect(blocks, staged));
        assert!(stages(16, false), "{known:?}");
        assert_eq!(stages(17, false), known.obeyed, "{known:?}");
        assert!(
            stages(17, true),
            "{known:?}: over what is staged, which a write at home waits for"
        );
    }
}

#[test]
fn what_is_staged_waits_for_a_lull_unless_members_take_turns() {
    for (known, policy) in evenkeel() {
        assert_eq!(policy.lull().is_zero(), known.told && known.obeyed, "{known:?}");
    }
}

fn ended(read: bool, way: Way, took: Duration) -> Outcome {
    Outcome { read, blocks: 1, way, took, late: None, hedged: false }
}
