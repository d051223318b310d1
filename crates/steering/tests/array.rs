//! A scheme at work on an array: which devices are asked and ordered, and when the engine gets a
//! new policy.

use std::collections::BTreeMap;
use std::time::Duration;

use det::Instant;
use raidcore::engine::{Action, Command, Config, Engine, Input};
use raidcore::geometry::{Level, Placement, Shares};
use raidcore::meta::{ArrayId, Assembled, Consistency, DeviceUuid, NewArray};
use raidcore::units::{DeviceId, MemberId, Set};
use steering::collect::{Flash, Limits, Order};
use steering::scheme::{SCHEMES, Scheme};
use steering::{Devices, Steering};

const MEMBERS: u32 = 4;

/// Devices of which some say when they collect, and some take orders.
#[derive(Default)]
struct Host {
    telling: Vec<u32>,
    obeying: Vec<u32>,
    limits: Limits,
    collecting: Vec<u32>,
    /// Devices that report nothing but whether they collect, and how long they have to be allowed to.
    windows: BTreeMap<u32, Duration>,
    version: u64,
    /// How much of its life a device has used, in percent.
    used: BTreeMap<u32, f64>,
    orders: BTreeMap<u32, Order>,
}

impl Devices for Host {
    fn flash(&self, DeviceId(device): DeviceId) -> Option<(Flash, Limits)> {
        let collecting = self.collecting.contains(&device);
        let (at_work, dirtiest, age) = (collecting, 0.0, 0.0);
        let flash = Flash { free: 0.5, collecting, at_work, dirtiest, age, in_flight: 0 };
        self.telling.contains(&device).then_some((flash, self.limits))
    }

    fn obeys(&self, DeviceId(device): DeviceId) -> bool {
        self.obeying.contains(&device)
    }

    fn is_collecting(&self, DeviceId(device): DeviceId) -> bool {
        let tells = self.telling.contains(&device) || self.windows.contains_key(&device);
        tells && self.collecting.contains(&device)
    }

    fn window(&self, DeviceId(device): DeviceId) -> Option<Duration> {
        self.windows.get(&device).copied()
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn used_percent(&self, DeviceId(device): DeviceId) -> Option<f64> {
        self.used.get(&device).copied()
    }

    fn order(&mut self, _: Instant, DeviceId(device): DeviceId, order: Order) {
        self.orders.insert(device, order);
    }
}

fn named(name: &str) -> Scheme {
    Scheme::named(name).expect("a scheme")
}

/// A started RAID5 without a journal.
fn engine() -> Engine {
    started(Consistency::Resync, Placement::of(Level::Raid5))
}

fn started(consistency: Consistency, placement: Placement) -> Engine {
    let new = NewArray {
        array: ArrayId([1; 16]),
        name: "any".into(),
        created: 0,
        level: Level::Raid5,
        placement,
        chunk: 1,
        consistency,
        devices: (1..=MEMBERS as u8).map(|n| DeviceUuid([n; 16])).collect(),
        journal_blocks: 0,
        staging_blocks: 0,
        staging_devices: Vec::new(),
        staging_device_blocks: 0,
        distributed_spare: false,
        member_blocks: vec![4096; MEMBERS as usize],
    };
    let assembled = Assembled::of_new(new.record().expect("a shape"), false);
    let devices: Vec<_> = (0..MEMBERS).map(|device| Some(DeviceId(device))).collect();
    let mut engine = Engine::new(Config::default(), assembled, &devices, Instant::ORIGIN, 0);
    tell(&mut engine, Input::Tick);
    assert!(engine.is_serving());
    engine
}

/// Nothing that the engine wants fails.
fn tell(engine: &mut Engine, input: Input) {
    let mut inputs = vec![input];
    while let Some(input) = inputs.pop() {
        let mut actions = Vec::new();
        engine.step(Instant::ORIGIN, input, &mut actions);
        inputs.extend(actions.into_iter().filter_map(|action| match action {
            Action::Io(io) => Some(Input::IoDone { id: io.id, result: Ok(()) }),
            Action::Compute(job) => Some(Input::Computed(job)),
            Action::Complete { .. }
            | Action::Answer { .. }
            | Action::Note(_)
            | Action::Release(_) => None,
        }));
    }
}

#[test]
fn devices_that_report_nothing_but_whether_they_collect_have_windows() {
    for name in ["evenkeel", "rotate+reconstruct", "window"] {
        let engine = engine();
        let seconds = |seconds| Duration::from_secs(seconds);
        let windows = [(0, seconds(1)), (1, seconds(3)), (2, seconds(2)), (3, seconds(1))];
        let mut host =
            Host { obeying: vec![0, 1, 2, 3], windows: windows.into(), ..Host::default() };
        let mut steering = Steering::new(named(name), None);
        let at = |millis| Instant::ORIGIN + Duration::from_millis(millis);
        let mut look = |host: &mut Host, millis| {
            let policy = steering.keep_up(at(millis), &engine, host).is_some();
            host.orders.clear();
            let busy = steering.look(at(millis), &engine, host);
            let (_, controller) = steering.controller().expect("they are steered");
            (policy, busy, host.orders.clone(), controller.signals().is_some())
        };
        let first = [0, 1, 2, 3]
            .map(|device| (device, if device == 0 { Order::Reach(1.0) } else { Order::Hold }));
        // All tell when they are busy, so none is watched.
        assert_eq!(look(&mut host, 0), (true, None, first.into(), false), "{name}");
        // While its window is open, requests go around it, collecting or not.
        host.collecting = vec![0];
        let busy = Set::first(1);
        assert_eq!(look(&mut host, 1), (false, Some(busy), BTreeMap::new(), false), "{name}");
        assert_eq!(look(&mut host, 2970).2, BTreeMap::new(), "{name}: as long as one needs it");
        let second = [(0, Order::Hold), (1, Order::Reach(1.0))];
        assert_eq!(look(&mut host, 3000).2, second.into(), "{name}");
        // One neither tells nor obeys any more: from then on it is watched.
        host.windows.remove(&2);
        host.obeying.retain(|&device| device != 2);
        assert!(!look(&mut host, 3001).0, "{name}");
        host.version = 1;
        let (policy, _, orders, watched) = look(&mut host, 3002);
        assert!(policy && watched, "{name}");
        assert_eq!(orders.get(&0), Some(&Order::Reach(1.0)), "{name}: windows begin anew");
        assert!(!look(&mut host, 3003).0, "{name}");
    }
}

#[test]
fn a_policy_is_made_once_and_anew_when_a_member_is_another_device() {
    let (mut engine, now) = (engine(), Instant::ORIGIN);
    let host = Host { telling: vec![0, 1, 2, 3, 9], ..Host::default() };
    let mut steering = Steering::new(named("reconstruct"), None);
    assert!(steering.controller().is_none());
    let policy = steering.keep_up(now, &engine, &host).expect("the first one");
    engine.set_steering(policy);
    assert!(engine.steering_policy().is_some());
    assert!(steering.keep_up(now, &engine, &host).is_none(), "they are the same devices");

    let uuid = DeviceUuid([9; 16]);
    let add = Command::AddSpare { device: DeviceId(9), uuid, blocks: 4096 };
    for (number, command) in [(1, Command::Fail(MemberId(2))), (2, add)] {
        tell(&mut engine, Input::Command { number, command });
    }
    assert!(steering.keep_up(now, &engine, &host).is_some(), "there is another device");
    assert!(steering.keep_up(now, &engine, &host).is_none());
    let (devices, _) = steering.controller().expect("it is steered");
    assert_eq!(devices[2], Some(DeviceId(9)));
}

#[test]
fn members_that_say_that_they_collect_are_busy_and_the_others_are_watched() {
    let (engine, now) = (engine(), Instant::ORIGIN);
    for (telling, busy, watched) in [
        (vec![0, 1, 2, 3], Some(Set::one(MemberId(1))), false),
        (vec![1], Some(Set::one(MemberId(1))), true),
        (vec![], None, true),
    ] {
        let mut host = Host { telling, collecting: vec![1], ..Host::default() };
        let mut steering = Steering::new(named("reconstruct"), None);
        let policy = steering.keep_up(now, &engine, &host);
        assert!(policy.flatten().is_some());
        assert_eq!(steering.look(now, &engine, &mut host), busy, "{:?}", host.telling);
        assert_eq!(steering.score(MemberId(0)).is_some(), watched, "{:?}", host.telling);
        assert!(host.orders.is_empty(), "by this scheme members collect as they like");
    }
}

#[test]
fn another_scheme_lets_devices_collect_as_they_like_until_it_tells_them() {
    let (engine, now) = (engine(), Instant::ORIGIN);
    let all = vec![0, 1, 2, 3];
    let mut host = Host { telling: all.clone(), obeying: all, ..Host::default() };
    let mut steering = Steering::new(named("rotate+reconstruct"), None);
    steering.keep_up(now, &engine, &host);
    steering.look(now, &engine, &mut host);
    assert!(host.orders.values().any(|&order| order != Order::Auto), "{:?}", host.orders);

    steering.set(now, SCHEMES[0], &engine, &mut host);
    assert_eq!(host.orders.len(), MEMBERS as usize);
    assert!(host.orders.values().all(|&order| order == Order::Auto), "{:?}", host.orders);
    assert!(steering.keep_up(now, &engine, &host).is_none(), "there is nothing to be steered");
    assert_eq!(steering.look(now, &engine, &mut host), None);
    assert_eq!((steering.scheme(), steering.next()), (SCHEMES[0], None));
}

/// What the devices were ordered until their second windows would begin.
fn orders(scheme: &str, telling: &[u32], obeying: &[u32]) -> BTreeMap<u32, Vec<Order>> {
    let (engine, mut now) = (engine(), Instant::ORIGIN);
    let limits = Limits { start: 0.6, stop: 0.7, hard: 0.01, spare: 0.8 };
    let (telling, obeying) = (telling.to_vec(), obeying.to_vec());
    let mut host = Host { telling, obeying, limits, ..Host::default() };
    let mut steering = Steering::new(named(scheme), None);
    steering.keep_up(now, &engine, &host);
    let mut given: BTreeMap<u32, Vec<Order>> = BTreeMap::new();
    for _ in 0..80 {
        steering.look(now, &engine, &mut host);
        for (device, order) in std::mem::take(&mut host.orders) {
            given.entry(device).or_default().push(order);
        }
        now = now + Duration::from_millis(5);
    }
    given
}

#[test]
fn only_devices_that_obey_get_orders() {
    let gives = SCHEMES.iter().filter(|scheme| scheme.gives_orders());
    for name in gives.map(|scheme| scheme.name) {
        for telling in [&[][..], &[0, 1, 2, 3]] {
            assert!(orders(name, telling, &[]).is_empty(), "{name}, telling {telling:?}");
        }
    }
    // A device that takes no orders is not waited for: its turn does not come.
    let turns = orders("rotate", &[0, 1, 2, 3], &[1, 3]);
    let has_turn = |order: &Order| matches!(order, Order::Reach(_));
    assert!(turns[&1].iter().chain(&turns[&3]).any(has_turn), "{turns:?}");
}

#[test]
fn devices_that_obey_and_tell_nothing_collect_in_windows() {
    for name in ["rotate", "window", "evenkeel"] {
        let given = orders(name, &[], &[0, 1, 2, 3]);
        assert_eq!(given[&0], [Order::Auto, Order::Hold], "{name}");
        assert_eq!(given[&2], [Order::Hold, Order::Auto, Order::Hold], "{name}");
    }
    // Nothing is known of when one collects, and by which thresholds.
    for name in ["ggc", "preempt", "age-aware"] {
        assert!(orders(name, &[], &[0, 1, 2, 3]).is_empty(), "{name}");
    }
}

/// Which members are busy after each of these sets of devices collects.
fn busy(scheme: &str, obeying: &[u32], collecting: &[&[u32]]) -> Vec<Vec<usize>> {
    let (engine, now) = (engine(), Instant::ORIGIN);
    let (telling, obeying) = (vec![0, 1, 2, 3], obeying.to_vec());
    let mut host = Host { telling, obeying, ..Host::default() };
    let mut steering = Steering::new(named(scheme), None);
    steering.keep_up(now, &engine, &host);
    let mut busy = Set::EMPTY;
    let look = |collecting: &&[u32]| {
        host.collecting = collecting.to_vec();
        busy = steering.look(now, &engine, &mut host).unwrap_or(busy);
        busy.map(MemberId::index).collect()
    };
    collecting.iter().map(look).collect()
}

#[test]
fn where_members_collect_as_they_like_evenkeel_goes_around_as_many_as_it_can() {
    let collecting: [&[u32]; 4] = [&[1, 3], &[0, 1, 3], &[0, 3], &[]];
    let one_at_a_time = [vec![1], vec![1], vec![0], vec![]];
    assert_eq!(busy("evenkeel", &[], &collecting), one_at_a_time);
    let all = [vec![1, 3], vec![0, 1, 3], vec![0, 3], vec![]];
    assert_eq!(busy("steering+reconstruct", &[], &collecting), all);
    assert_eq!(busy("evenkeel", &[0, 1, 2, 3], &collecting), all, "more is a matter of bursts");
}

#[test]
fn the_first_scheme_alone_does_nothing() {
    let plain: Vec<_> = SCHEMES.iter().map(Scheme::is_plain).collect();
    assert!(plain[0] && !plain[1..].contains(&true), "{plain:?}");
}

#[test]
fn the_engine_is_told_which_members_are_young_when_that_changes() {
    let (engine, now) = (engine(), Instant::ORIGIN);
    let used = [(0, 20.0), (1, 19.0), (2, 20.0), (3, 20.0)].into();
    let mut host = Host { used, ..Host::default() };
    let mut steering = Steering::new(named("steering+age"), None);
    assert_eq!(steering.young(now, &host), None, "nothing is steered yet");
    assert!(steering.keep_up(now, &engine, &host).is_some());
    assert_eq!(steering.young(now, &host), Some(Set::one(MemberId(1))));
    host.used.insert(1, 20.0);
    let soon = now + Duration::from_millis(1);
    assert_eq!(steering.young(soon, &host), None, "ages change slowly");
    let later = now + Duration::from_secs(1);
    assert_eq!(steering.young(later, &host), Some(Set::EMPTY));
    assert_eq!(steering.young(later + Duration::from_secs(1), &host), None, "that is known");
    let mut steering = Steering::new(named("steering+reconstruct"), None);
    assert!(steering.keep_up(now, &engine, &host).is_some());
    assert_eq!(steering.young(now, &host), None, "it does not go by ages");
}

#[test]
fn ages_of_members_that_obey_are_evened_out_by_their_orders() {
    let (engine, now) = (engine(), Instant::ORIGIN);
    let limits = Limits { start: 0.05, stop: 0.06, hard: 0.01, spare: 0.1 };
    let used = [(0, 20.0), (1, 19.0), (2, 20.0), (3, 18.0)].into();
    let (telling, obeying) = (vec![0, 3], vec![0, 3]);
    let host = Host { telling, obeying, limits, used, ..Host::default() };
    for (name, young) in [("evenkeel+age", vec![1]), ("gc-steering+age", vec![1, 3])] {
        let mut steering = Steering::new(named(name), None);
        assert!(steering.keep_up(now, &engine, &host).is_some());
        let young = young.into_iter().map(MemberId).collect();
        assert_eq!(steering.young(now, &host), Some(young), "{name}");
    }
}

#[test]
fn it_tells_from_which_share_of_free_blocks_on_devices_collect() {
    let (engine, now) = (engine(), Instant::ORIGIN);
    let limits = Limits { start: 0.05, stop: 0.06, hard: 0.01, spare: 0.1 };
    let all = vec![0, 1, 2, 3];
    let host = Host { telling: all.clone(), obeying: all, limits, ..Host::default() };
    for (name, threshold) in [("preempt", Some(0.05)), ("reconstruct", None)] {
        let mut steering = Steering::new(named(name), None);
        assert_eq!(steering.threshold(DeviceId(0)), None, "nothing is steered yet");
        assert!(steering.keep_up(now, &engine, &host).is_some());
        assert_eq!(steering.threshold(DeviceId(0)), threshold, "{name}");
        assert_eq!(steering.threshold(DeviceId(9)), None, "it is no member's");
    }
}

#[test]
fn optimal_ages_count_the_journal_but_where_turns_stage() {
    let placement = Placement::Uneven(Shares::new(&[10, 20, 30, 40]).expect("shares"));
    for (consistency, on_parity) in
        [(Consistency::Resync, 1.0), (Consistency::Bitmap, 1.0), (Consistency::Journal, 3.0)]
    {
        let engine = started(consistency, placement);
        for (name, on_parity) in [
            ("preempt+age", on_parity),
            ("age-aware", on_parity),
            ("gc-steering+age", on_parity),
            ("steering+age", on_parity),
            ("evenkeel+age", 1.0),
        ] {
            let mut steering = Steering::new(named(name), None);
            steering.keep_up(Instant::ORIGIN, &engine, &Host::default());
            let (_, controller) = steering.controller().expect("it is steered");
            let written =
                [0.1, 0.2, 0.3, 0.4].map(|part: f64| (1.0 - part) / 3.0 + on_parity * part);
            let expected = written.map(|one| one / written[3]);
            let found = controller.optimal();
            let is_near = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9;
            let are_near = found.len() == 4 && found.iter().zip(&expected).all(is_near);
            assert!(are_near, "{name}, {consistency:?}: {found:?}, not {expected:?}");
        }
    }
}
