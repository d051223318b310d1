//! The array's scheme at work: which members are busy, and whose turn it is to collect garbage. Modelled SSDs
//! say when they collect, and let themselves be told; of others it is detected from how long their
//! I/Os take.

use std::time::Duration;

use det::Instant;
use raidcore::engine::{Engine, Input, Io, IoId};
use raidcore::units::{DeviceId, MemberId, Set};
use steering::collect::{Flash, Limits, Order};
use steering::detect::{Mood, Score};
use steering::scheme::{SCHEMES, Scheme};
use steering::{Controller, Members, Source};

use super::diagnosis::WhyReport;
use crate::ring::Ring;

/// Blocks that may be read beyond what is asked for to go around busy members, per block that is,
/// where all members say themselves when they are.
const EXTRA_READS_TOLD: f64 = 0.25;

/// Which part of the reads may go around busy members, or be tried twice, where some are watched,
/// which is sometimes wrong. Each takes as many reads as a stripe has data.
const DETOURS_DETECTED: f64 = 0.05;

/// What a member counts as that says nothing.
const SILENT: Flash = Flash { free: 1.0, collecting: false, in_flight: 0 };

pub(super) struct Steering {
    scheme: Scheme,
    source: Source,
    /// For these devices, by member. Another device has not been told what the last one was.
    controller: Option<(Vec<Option<DeviceId>>, Controller)>,
}

impl Steering {
    /// Begins with a scheme.
    pub(super) fn new(scheme: Scheme, source: Source) -> Self {
        Self { scheme, source, controller: None }
    }

    /// The scheme.
    pub(super) fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Goes over to another scheme. Reads that are under way end as they were begun.
    pub(super) fn set(
        &mut self,
        now: Instant,
        scheme: Scheme,
        engine: &mut Engine,
        ring: &mut Ring,
    ) {
        self.scheme = scheme;
        self.controller = None;
        engine.set_steering(None);
        for member in engine.members() {
            if let Some(device) = member.device {
                ring.order_gc(now, device, Order::Auto);
            }
        }
    }

    /// An I/O begins.
    pub(super) fn began(&mut self, now: Instant, io: &Io) {
        let Some((devices, controller)) = &mut self.controller else { return };
        if let Some(member) = devices.iter().position(|device| *device == Some(io.device)) {
            controller.began(now, MemberId::at(member), io);
        }
    }

    /// An I/O has ended, well or not.
    pub(super) fn ended(&mut self, now: Instant, io: IoId, well: bool) {
        if let Some((_, controller)) = &mut self.controller {
            controller.ended(now, io, well);
        }
    }

    /// When [`Steering::look`] is to be called, though nothing has happened.
    pub(super) fn next(&self) -> Option<Instant> {
        self.controller.as_ref().and_then(|(_, controller)| controller.next())
    }

    /// Looks at the members; returns what the engine is to be told.
    pub(super) fn look(
        &mut self,
        now: Instant,
        engine: &mut Engine,
        ring: &mut Ring,
    ) -> Option<Input> {
        if self.scheme == SCHEMES[0] {
            return None;
        }
        self.keep_up(now, engine, ring);
        let (devices, controller) = self.controller.as_mut()?;
        let mut collecting = Set::EMPTY;
        if controller.asks() {
            let collects = |member: &MemberId| {
                devices[member.index()].is_some_and(|device| ring.is_collecting(device))
            };
            collecting = Set::first(devices.len()).filter(collects).collect();
        }
        if controller.is_due(now, collecting) {
            let how = |device: &Option<DeviceId>| Some(ring.steering((*device)?)?.0);
            let in_flight = |member| engine.in_hand(MemberId(member));
            let members = (0u8..).zip(devices.iter()).map(|(member, device)| Flash {
                in_flight: in_flight(member),
                ..how(device).unwrap_or(SILENT)
            });
            let members: Vec<Flash> = members.collect();
            let totals = engine.latency_totals();
            controller.decide(now, &members, &totals, &mut |member, order| {
                if let Some(device) = devices[member] {
                    ring.order_gc(now, device, order);
                }
            });
        }
        controller.busy(now, collecting).map(Input::Busy)
    }

    /// What is thought of the members at `now`, which is `wall` in seconds since 1970, and why.
    pub(super) fn why(&self, now: Instant, wall: u64, engine: &Engine) -> WhyReport {
        let controller =
            self.controller.as_ref().map(|(devices, controller)| (&**devices, controller));
        WhyReport::new((now, wall), self.scheme, controller, engine)
    }

    /// Whether reads go around a member and for how long they have, if they do at all.
    pub(super) fn busy(&self, now: Instant, member: MemberId) -> Option<(bool, Duration)> {
        let (_, controller) = self.controller.as_ref().filter(|_| self.scheme.goes_around())?;
        Some((controller.who_is_busy().has(member), controller.busy_time(now, member)))
    }

    /// Whether a member is thought to be busy, and how often that was right, if it is watched.
    pub(super) fn score(&self, member: MemberId) -> Option<(bool, Score)> {
        let (_, controller) = self.controller.as_ref()?;
        let signals = controller.signals().filter(|signals| !signals.telling().has(member))?;
        let detector = signals.detector();
        Some((detector.mood(member) == Mood::Busy, detector.log().score_of(member)))
    }

    /// Takes note of members that are other devices than before.
    fn keep_up(&mut self, now: Instant, engine: &mut Engine, ring: &Ring) {
        let devices = || engine.members().map(|member| member.device);
        let known = self.controller.as_ref().map(|(devices, _)| devices);
        if known.is_some_and(|known| devices().eq(known.iter().copied())) {
            return;
        }
        let devices: Vec<Option<DeviceId>> = devices().collect();
        let members = self.members(&devices, engine.geometry().redundancy(), ring);
        if let Some((known, controller)) = &mut self.controller {
            let is_other = |member: &MemberId| devices[member.index()] != known[member.index()];
            let other = Set::first(devices.len()).filter(is_other);
            controller.changed(now, members, other.collect());
            *known = devices;
        } else {
            self.controller = Some((devices, Controller::new(self.scheme, members, now)));
        }
        let told = members.all_tell();
        let detected = DETOURS_DETECTED * engine.geometry().data() as f64;
        let budget = if told { EXTRA_READS_TOLD } else { detected };
        engine.set_steering(self.scheme.place(budget, told));
    }

    /// What matters of the members. Where there is no device there is nothing to be watched either.
    fn members(&self, devices: &[Option<DeviceId>], redundancy: usize, ring: &Ring) -> Members {
        let says = |member: &MemberId| match devices[member.index()] {
            None => true,
            Some(device) => self.source == Source::Told && ring.steering(device).is_some(),
        };
        let telling = Set::first(devices.len()).filter(says);
        let mut limits = devices.iter().flatten().filter_map(|&device| ring.steering(device));
        Members {
            count: devices.len(),
            redundancy,
            telling: telling.collect(),
            limits: limits.next().map_or(Limits::default(), |(_, limits)| limits),
        }
    }
}
