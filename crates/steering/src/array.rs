//! A scheme at work on an array, or on each group of a log volume. The daemon and the laboratory
//! share it.
//!
//! Invariant: the controller's devices are those that the engine had at the last
//! [`Steering::keep_up`]. A new device in a member's place has been given no order, and nothing is
//! known of it.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use det::Instant;
use raidcore::engine::{ArrayHealth, Engine, Io, IoId, SteeringPolicy};
use raidcore::units::{DeviceId, MemberId, Set};

use crate::collect::{Flash, Limits, Order, Windows};
use crate::detect::{Mood, Score};
use crate::scheme::Scheme;
use crate::steer::Known;
use crate::wear::optimal_ages;
use crate::young::young;
use crate::{Controller, Members};

/// How often ages are looked at. Drives change theirs in hours.
const AGES_EVERY: Duration = Duration::from_secs(1);

/// The state that is assumed of a member that reports none, or takes no orders: it needs no turn.
const SILENT: Flash =
    Flash { free: 1.0, collecting: false, at_work: false, dirtiest: 0.0, age: 0.0, in_flight: 0 };

/// A host's devices, as steering sees them.
pub trait Devices {
    /// A device's state and its limits, if it reports them.
    fn flash(&self, device: DeviceId) -> Option<(Flash, Limits)>;

    /// Whether the device takes orders when to collect. It may do so without reporting anything.
    fn obeys(&self, device: DeviceId) -> bool;

    /// If the device takes orders and reports nothing but whether it [collects](Devices::is_collecting): how
    /// long it has to be allowed to at the least.
    fn window(&self, _device: DeviceId) -> Option<Duration> {
        None
    }

    /// A number that changes whenever a device begins or ends to report or to take orders.
    fn version(&self) -> u64 {
        0
    }

    /// Whether the device reports that it collects garbage.
    fn is_collecting(&self, device: DeviceId) -> bool;

    /// How much of its life the device has used, in percent, if it tells.
    fn used_percent(&self, device: DeviceId) -> Option<f64>;

    /// Orders it when to collect.
    fn order(&mut self, now: Instant, device: DeviceId, order: Order);
}

/// A scheme at work: a [`Controller`] for the array's current devices, and the budget of reads that
/// go around busy ones.
pub struct Steering {
    scheme: Scheme,
    /// The budget in extra blocks for each block that is requested; `None` for the default.
    extra_reads: Option<f64>,
    /// The controller and its devices, by member.
    controller: Option<(Vec<Option<DeviceId>>, Controller)>,
    /// The devices' version of which the controller knows.
    version: u64,
    /// The young members, as the engine was told.
    young: Set<MemberId>,
    /// When ages are looked at next.
    ages_at: Instant,
}

impl Steering {
    /// Begins with a scheme. `extra_reads` is the budget of reads that go around busy members, in
    /// extra blocks for each block that is requested. The default depends on whether all members
    /// say when they are busy.
    #[must_use]
    pub fn new(scheme: Scheme, extra_reads: Option<f64>) -> Self {
        let (young, ages_at) = (Set::EMPTY, Instant::ORIGIN);
        Self { scheme, extra_reads, controller: None, version: 0, young, ages_at }
    }

    /// The scheme.
    #[inline]
    #[must_use]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The controller and its devices, by member; none if nothing is steered yet.
    #[must_use]
    pub fn controller(&self) -> Option<(&[Option<DeviceId>], &Controller)> {
        self.controller.as_ref().map(|(devices, controller)| (&**devices, controller))
    }

    /// Changes the scheme. The caller has to remove the engine's policy, so that no member is young to it,
    /// and to tell it that none is busy. Reads under way end as they began.
    pub fn set(
        &mut self,
        now: Instant,
        scheme: Scheme,
        engine: &Engine,
        devices: &mut dyn Devices,
    ) {
        *self = Self::new(scheme, self.extra_reads);
        for device in engine.devices().flatten() {
            devices.order(now, device, Order::Auto);
        }
    }

    /// An I/O begins.
    #[inline]
    pub fn began(&mut self, now: Instant, io: &Io) {
        let Some((devices, controller)) = &mut self.controller else { return };
        if let Some(member) = devices.iter().position(|device| *device == Some(io.device)) {
            controller.began(now, MemberId::at(member), io);
        }
    }

    /// An I/O has ended, well or not.
    #[inline]
    pub fn ended(&mut self, now: Instant, io: IoId, well: bool) {
        if let Some((_, controller)) = &mut self.controller {
            controller.ended(now, io, well);
        }
    }

    /// When [`Steering::look`] is to be called, though no event has happened.
    #[inline]
    #[must_use]
    pub fn next(&self) -> Option<Instant> {
        self.controller.as_ref().and_then(|(_, controller)| controller.next())
    }

    /// Takes note of devices that were replaced, or report or obey otherwise: to be called before each [`Steering::look`]. Returns the
    /// engine's new policy, if it changes.
    pub fn keep_up(
        &mut self,
        now: Instant,
        engine: &Engine,
        host: &dyn Devices,
    ) -> Option<Option<Box<dyn SteeringPolicy>>> {
        if self.scheme.is_plain() {
            return None;
        }
        let known = self.controller.as_ref().map(|(devices, _)| devices);
        let is_same = known.is_some_and(|known| engine.devices().eq(known.iter().copied()));
        let version = mem::replace(&mut self.version, host.version());
        if is_same && version == self.version {
            return None;
        }
        let devices: Vec<Option<DeviceId>> = engine.devices().collect();
        let members = self.members(&devices, engine, host);
        let known = Known { told: members.all_tell(), obeyed: !members.obeying.is_empty() };
        if let Some((known, controller)) = &mut self.controller {
            let is_other = |member: &MemberId| devices[member.index()] != known[member.index()];
            let other = Set::first(devices.len()).filter(is_other);
            controller.changed(now, members, other.collect());
            *known = devices;
        } else {
            self.controller = Some((devices, Controller::new(self.scheme, members, now)));
        }
        let budget = || self.scheme.budget(engine.geometry().data(), known);
        Some(self.scheme.place(self.extra_reads.unwrap_or_else(budget), known))
    }

    /// Looks at the members and gives orders to some. Returns the busy ones, if the engine is to be
    /// told.
    pub fn look(
        &mut self,
        now: Instant,
        engine: &Engine,
        host: &mut dyn Devices,
    ) -> Option<Set<MemberId>> {
        let (devices, controller) = self.controller.as_mut()?;
        let mut collecting = Set::EMPTY;
        if controller.asks() {
            let collects = |member: &MemberId| {
                devices[member.index()].is_some_and(|device| host.is_collecting(device))
            };
            collecting = Set::first(devices.len()).filter(collects).collect();
        }
        if controller.is_due(now, collecting) {
            let how = |device: &Option<DeviceId>| {
                let device = device.filter(|&device| host.obeys(device))?;
                Some(host.flash(device)?.0)
            };
            let open = collecting.and(controller.windows());
            let members = (0u8..).map(MemberId).zip(devices.iter()).map(|(member, device)| Flash {
                in_flight: engine.in_hand(member),
                ..how(device).unwrap_or(Flash { collecting: open.has(member), ..SILENT })
            });
            let members: Vec<Flash> = members.collect();
            let missing = engine.array_health() != ArrayHealth::Online;
            let totals = engine.latency_totals();
            controller.decide(now, &members, missing, &totals, &mut |member, order| {
                if let Some(device) = devices[member] {
                    host.order(now, device, order);
                }
            });
        }
        controller.busy(now, collecting)
    }

    /// Looks at how worn the members are, if it is time. Returns the young ones, if the engine is to be told.
    pub fn young(&mut self, now: Instant, host: &dyn Devices) -> Option<Set<MemberId>> {
        if now < self.ages_at || !self.scheme.prefers_young() {
            return None;
        }
        let (devices, controller) = self.controller.as_ref()?;
        self.ages_at = now + AGES_EVERY;
        let is_ordered = |device: DeviceId| self.scheme.gives_orders() && host.obeys(device);
        let used = |device: &Option<DeviceId>| {
            let device = device.filter(|&device| !is_ordered(device));
            device.and_then(|device| host.used_percent(device))
        };
        let used: Vec<Option<f64>> = devices.iter().map(used).collect();
        let young = young(&used, controller.optimal());
        (mem::replace(&mut self.young, young) != young).then_some(young)
    }

    /// Whether reads go around a member now, and for how long they have in all; `None` if the
    /// scheme has none go around.
    #[must_use]
    pub fn busy(&self, now: Instant, member: MemberId) -> Option<(bool, Duration)> {
        let (_, controller) = self.controller.as_ref().filter(|_| self.scheme.goes_around())?;
        Some((controller.who_is_busy().has(member), controller.busy_time(now, member)))
    }

    /// Whether a member is thought to be busy, and how often that was right, if it is watched.
    #[must_use]
    pub fn score(&self, member: MemberId) -> Option<(bool, Score)> {
        let (_, controller) = self.controller.as_ref()?;
        let signals = controller.signals().filter(|signals| !signals.telling().has(member))?;
        let detector = signals.detector();
        Some((detector.mood(member) == Mood::Busy, detector.log().score_of(member)))
    }

    /// The share of free blocks from which on the scheme has a device collect, if it is steered and the scheme
    /// goes by one now.
    #[must_use]
    pub fn threshold(&self, device: DeviceId) -> Option<f64> {
        let (devices, controller) = self.controller.as_ref()?;
        let member = devices.iter().position(|known| *known == Some(device))?;
        controller.threshold(MemberId::at(member))
    }

    /// What a controller has to know of the members. A member without a device is not watched.
    fn members(
        &self,
        devices: &[Option<DeviceId>],
        engine: &Engine,
        host: &dyn Devices,
    ) -> Members {
        let says = |member: &MemberId| match devices[member.index()] {
            None => true,
            Some(device) => host.flash(device).is_some() || host.window(device).is_some(),
        };
        let telling = Set::first(devices.len()).filter(says);
        let obeys = |&device: &DeviceId| host.obeys(device);
        let obeying = |member: &MemberId| devices[member.index()].as_ref().is_some_and(obeys);
        let obeying = Set::first(devices.len()).filter(obeying);
        let window = |member: MemberId| host.window(devices[member.index()].filter(obeys)?);
        let windows = |member: &MemberId| window(*member).is_some();
        let windows: Set<MemberId> = Set::first(devices.len()).filter(windows).collect();
        let least = windows.filter_map(window).max().unwrap_or_default();
        let limits = |device: &Option<DeviceId>| Some(host.flash(device.filter(obeys)?)?.1);
        let limits = devices.iter().map(|device| limits(device).unwrap_or_default());
        let geometry = engine.geometry();
        let entries = self.scheme.ages_by(engine.entries());
        let optimal = || optimal_ages(geometry, entries);
        Members {
            count: devices.len(),
            redundancy: geometry.redundancy(),
            telling: telling.collect(),
            obeying: obeying.collect(),
            windows: Windows { members: windows, least },
            limits: limits.collect(),
            optimal: if self.scheme.has_ages() { optimal() } else { Vec::new() },
        }
    }
}
