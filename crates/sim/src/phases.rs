//! A run: lives with faults, each checked by the next, and a last one without faults, in which
//! everything has to recover.

use raidcore::engine::{ArrayHealth, Command, CommandError, HomeWaits, Input, Pace, PassKind};
use raidcore::units::{DeviceId, Set};

use crate::checks;
use crate::checks::progress::Bound;
use crate::fuse::Fuse;
use crate::power::Outage;
use crate::world::World;

impl World {
    /// The whole run.
    pub(crate) fn run(&mut self) {
        for life in 1..=self.scenario.lives {
            self.live();
            let cut = matches!(self.fuse, Fuse::Blown(_));
            if !cut && self.source.chance(1, 4) {
                self.drain();
                self.verify();
            }
            let last = life == self.scenario.lives;
            if last && !self.beyond && !cut {
                break;
            }
            let reshapes = !cut && !self.beyond && self.prepares_to_reshape();
            if !cut && !self.beyond && (reshapes || self.source.chance(1, 4)) && self.stops() {
                self.power_off();
                self.power_on(Outage::Quiet);
                self.drain();
                self.verify();
            } else {
                self.crash();
                self.drain();
                self.verify_after_crash();
            }
        }
        self.converge();
        self.end();
    }

    /// Safety: serves users, with faults.
    fn live(&mut self) {
        let mut left = self.scenario.requests / self.scenario.lives;
        let mut bound = Bound::new("a life is over", 1_000_000);
        while left > 0 && !matches!(self.fuse, Fuse::Blown(_)) && !self.source.chance(1, 1000) {
            left -= u32::from(self.turn());
            bound.spend(self);
        }
    }

    /// One event; returns whether it was a new request.
    fn turn(&mut self) -> bool {
        if self.scenario.busy > 0 && self.source.chance(self.scenario.busy, 100) {
            self.say_who_is_busy();
        }
        match self.source.below(100) {
            rate if rate < self.scenario.faults.rate => self.fault(),
            _ if self.something_hangs() && self.source.chance(1, 50) => self.hang_ends(),
            _ if !self.given_up.is_empty() && self.source.chance(1, 50) => {
                let first = self.given_up.remove(0);
                self.write_some(&first);
            }
            rate if rate < 45 => return self.submit(),
            45..=48 => self.pass_time(),
            _ => self.proceed(),
        }
        false
    }

    /// The power fails, and sometimes again while the array starts.
    fn crash(&mut self) {
        let mut outage = if self.beyond { Outage::Healing } else { Outage::Lossy };
        loop {
            self.power_off();
            self.power_on(outage);
            if !self.source.chance(1, 3) {
                return;
            }
            for _ in 0..self.source.below(60) {
                self.proceed();
            }
            outage = Outage::Lossy;
        }
    }

    /// A stop during activity, unless the power fails before it is done; returns whether it was
    /// clean.
    pub(crate) fn stops(&mut self) -> bool {
        let number = self.command(Command::Stop);
        let mut bound = Bound::new("the array has stopped", 1_000_000);
        loop {
            let answered = self.answers.iter().find(|(answered, _)| *answered == number);
            if let Some(&(_, result)) = answered {
                assert_eq!(result, Ok(()), "a stop: {:?}", self.notes);
                break;
            }
            if self.source.chance(1, 200) {
                return false;
            }
            self.proceed();
            bound.spend(self);
        }
        let staged = self.engine().staging_status().map_or(0, |log| log.dirty);
        assert!(staged == 0 || self.beyond, "{staged} staged blocks are not at home after a stop");
        let io = self.ios.first().map(|pending| pending.io);
        assert_eq!(io, None, "nothing is under way after a stop");
        let waiting = self.requests.iter().flatten().count();
        assert_eq!(waiting, 0, "every request has ended");
        if !self.beyond {
            let now = self.model.now();
            self.model.flushed(now, now);
            self.adopted.clear();
        }
        let refused = self.command(Command::Pause);
        assert!(self.answers.contains(&(refused, Err(CommandError::Stopping))));
        true
    }

    /// Liveness: from now on there are no faults, and everything recovers.
    fn converge(&mut self) {
        self.heal(Self::is_online);
        self.drain();
        checks::leaks::none(self);
        checks::metadata::agrees(self);
        checks::parity::agrees(self);
        self.verify();
        // The distributed spare may be replacing a member.
        if !self.is_whole() {
            self.scrub_all();
        }
        self.heal(Self::is_whole);
        self.is_reshaped();
        checks::parity::agrees(self);
        self.verify();
        self.scrub_all();
    }

    /// What is staged comes home after a lull, if it waits for one.
    fn come_home(&mut self) {
        let mut bound = Bound::new("what is staged is at home", 100_000);
        let waits = |world: &Self| {
            let log = world.engine().staging_status();
            log.is_some_and(|log| log.waits == Some(HomeWaits::Users))
        };
        while self.is_busy() || waits(self) {
            bound.spend(self);
            if self.is_busy() {
                self.complete_any();
            } else {
                self.pass_time();
            }
        }
    }

    /// Compares everything, including blocks that were corrupted silently.
    fn scrub_all(&mut self) {
        if self.scenario.faults.silent && self.scenario.volatile.is_some() {
            // What is at home does not matter while the block is held. It may be staged then.
            self.begin_flush();
            self.drain();
        }
        // What came home later could be written over what is corrupted.
        self.come_home();
        if self.scenario.faults.silent {
            self.corrupt_and_scrub();
        }
        self.scrub(false);
        let found = self.engine().status().last_scrub.map_or(0, |scrub| scrub.rows);
        assert_eq!(found, 0, "redundancy does not match: {:?}", self.notes);
        self.verify();
    }

    pub(crate) fn is_online(&self) -> bool {
        self.engine().array_health() == ArrayHealth::Online
    }

    /// Repairs the array.
    pub(crate) fn heal(&mut self, is_healthy: fn(&Self) -> bool) {
        for disk in &mut self.disks {
            disk.bad.clear();
            (disk.sick, disk.stalled_until, disk.hangs) = (None, 0, false);
            disk.unwritable.clear();
            disk.full.clear();
        }
        self.command(Command::SetPace(Pace::default()));
        self.step(Input::Busy(Set::EMPTY));
        self.step(Input::Hung(Set::EMPTY));
        self.sweep();
        let mut bound = Bound::new("the array is whole again", 1_000_000);
        loop {
            bound.spend(self);
            if self.is_busy() {
                self.complete_any();
                continue;
            }
            let healthy = is_healthy(self);
            let pass = self.engine().pass();
            if pass.is_none() && self.engine().is_serving() && healthy {
                return;
            }
            if pass.is_some_and(|p| p.paused || p.stuck.is_some()) {
                self.command(Command::Resume);
            }
            let need = self.areas.member_blocks();
            let fits = |spare: DeviceId| self.disks[spare.0 as usize].size() >= need;
            let spare = self.engine().spares().any(fits);
            if !healthy && pass.is_none() && !spare {
                let returns = self.source.chance(3, 4) && self.return_a_disk();
                if !returns {
                    let spare = self.new_spare();
                    self.command(spare);
                }
            }
            self.pass_time();
            self.sweep();
        }
    }

    /// Finds disks whose loss was not noticed.
    fn sweep(&mut self) {
        for disk in 0..self.disks.len() {
            if self.disks[disk].gone {
                self.step(Input::DeviceGone(DeviceId(disk as u32)));
            }
        }
    }

    /// Compares everything.
    pub(crate) fn scrub(&mut self, repair: bool) {
        if self.redundancy() == 0 {
            return;
        }
        let number = self.command(Command::Scrub { repair });
        assert!(self.answers.contains(&(number, Ok(()))), "{:?}", self.answers.last());
        let mut bound = Bound::new("the scrub is over", 1_000_000);
        let scrubs = |kind| matches!(kind, PassKind::Scrub { .. });
        while self.is_busy() || self.engine().pass().is_some_and(|p| scrubs(p.kind)) {
            self.proceed();
            bound.spend(self);
        }
    }

    /// A clean stop, after which the disks alone give the same array, without a resync.
    fn end(&mut self) {
        while !self.stops() {
            self.crash();
            self.drain();
            self.verify_after_crash();
            self.heal(Self::is_online);
        }
        checks::metadata::agrees(self);
        self.power_off();
        self.power_on(Outage::Quiet);
        let dirty = self.engine().status().dirty_regions.0;
        assert_eq!(dirty, 0, "a clean stop leaves no region marked");
        self.drain();
        self.verify();
        checks::parity::agrees(self);
    }
}
