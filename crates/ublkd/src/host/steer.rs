//! The array's scheme at work: which members collect garbage, and whose turn it is. Only devices
//! that say so take part: modelled SSDs.

use det::Instant;
use raidcore::engine::{Engine, Input};
use raidcore::units::{DeviceId, Set};
use steering::Steward;
use steering::collect::{Flash, Limits, Order};
use steering::scheme::{SCHEMES, Scheme};

use crate::ring::Ring;

/// Blocks that may be read beyond what is asked for to go around busy members, per block that is.
const EXTRA_READS: f64 = 0.25;

/// What a member counts as that says nothing.
const SILENT: Flash = Flash { free: 1.0, collecting: false };

pub(super) struct Steering {
    scheme: Scheme,
    /// For these devices, by member. Another device has not been told what the last one was.
    steward: Option<(Vec<Option<DeviceId>>, Steward)>,
}

impl Steering {
    /// Begins with a scheme.
    pub(super) fn new(scheme: Scheme, engine: &mut Engine) -> Self {
        engine.set_place(scheme.place(EXTRA_READS));
        Self { scheme, steward: None }
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
        self.steward = None;
        engine.set_place(scheme.place(EXTRA_READS));
        for member in engine.members() {
            if let Some(device) = member.device {
                ring.order_gc(now, device, Order::Auto);
            }
        }
    }

    /// When [`Steering::look`] is to be called, though nothing has happened.
    pub(super) fn next(&self) -> Option<Instant> {
        self.steward.as_ref().and_then(|(_, steward)| steward.next())
    }

    /// Looks at the members; returns what the engine is to be told.
    pub(super) fn look(&mut self, now: Instant, engine: &Engine, ring: &mut Ring) -> Option<Input> {
        if self.scheme == SCHEMES[0] {
            return None;
        }
        let devices = || engine.members().map(|member| member.device);
        if !self.steward.as_ref().is_some_and(|(known, _)| devices().eq(known.iter().copied())) {
            let mut said = devices().flatten().filter_map(|device| Some(ring.steering(device)?.1));
            let limits = said.next().unwrap_or(Limits::default());
            let redundancy = engine.geometry().redundancy();
            let steward = Steward::new(self.scheme, limits, redundancy, now);
            self.steward = Some((devices().collect(), steward));
        }
        let (devices, steward) = self.steward.as_mut()?;
        let collects = |device: &Option<DeviceId>| device.is_some_and(|d| ring.is_collecting(d));
        let collecting = (0..devices.len()).filter(|&member| collects(&devices[member]));
        let collecting = collecting.fold(Set::EMPTY, Set::with);
        if steward.is_due(now, collecting) {
            let how = |device: &Option<DeviceId>| Some(ring.steering((*device)?)?.0);
            let members: Vec<Flash> = devices.iter().map(|d| how(d).unwrap_or(SILENT)).collect();
            steward.decide(now, &members, &mut |member, order| {
                if let Some(device) = devices[member] {
                    ring.order_gc(now, device, order);
                }
            });
        }
        steward.busy(collecting).map(Input::Busy)
    }
}
