//! What happens to hosts: faults, users and operators.

use raidcore::units::{MemberId, Set};

use super::world::{Event, MILLI, World};

impl World {
    /// Faults, users and operators.
    pub(super) fn chance(&mut self) {
        if self.alone.is_some() {
            return;
        }
        let host = self.source.below(2) as usize;
        match self.source.below(40) {
            0 if self.scenario.pauses => {
                let long = self.source.one_of(&[1, 4, 8, 12, 20, 40]);
                let long = self.source.below(self.terms(long) / 8);
                self.tell(format_args!("host {host} is paused for {} ms", long / MILLI));
                self.hosts[host].paused = true;
                self.at(long, Event::Resume(host));
            }
            1 if self.scenario.crashes => {
                let power = self.source.chance(1, 2);
                self.crash(host, power);
            }
            2 if self.scenario.cuts => self.cut(host),
            6 if self.scenario.late => {
                let long = self.source.below(self.terms(3));
                self.tell(format_args!("host {host} is slow for {} ms", long / MILLI));
                self.hosts[host].slow = true;
                self.at(long, Event::Fast(host));
            }
            3 => self.stop(host),
            4 | 5 => self.take_back(host),
            _ if self.scenario.idle && self.source.chance(15, 16) => {}
            _ => self.request(host),
        }
        let pause = self.source.below(self.terms(1) / 10);
        self.at(pause, Event::Chance);
    }

    fn cut(&mut self, host: usize) {
        let all = Set::first(self.disks.len());
        let some = Set::from_bits(self.source.below(1 << self.disks.len()));
        self.hosts[host].cut = if self.source.chance(1, 2) { all } else { some };
        let cut = self.hosts[host].cut;
        self.tell(format_args!("host {host} does not reach {cut:?}"));
        let long = self.source.below(self.terms(4));
        self.at(long, Event::Heal(host));
    }

    /// A process is killed, or its host loses power.
    pub(super) fn crash(&mut self, host: usize, power: bool) {
        self.tell(format_args!("host {host} crashes, power: {power}"));
        if power {
            let lost: Vec<u64> = self.flights_of(host).collect();
            for flight in lost {
                if self.source.chance(1, 2) {
                    self.flights.remove(&flight);
                }
            }
            let boot = self.hosts[host].boot + 1;
            (self.hosts[host].booted, self.hosts[host].boot) = (self.now, boot);
            self.hosts[host].paused = false;
        }
        self.end(host);
        if power {
            self.hosts[host].free_at = self.now;
        }
        let after = self.source.below(self.terms(2));
        if self.alone.is_none() {
            self.at(after, Event::Start(host));
        }
    }

    fn flights_of(&self, host: usize) -> impl Iterator<Item = u64> + '_ {
        self.flights.iter().filter(move |of| of.1.host == host).map(|of| *of.0)
    }

    /// An operator stops the array.
    fn stop(&mut self, host: usize) {
        let is_idle = self.flights.values().all(|flight| flight.host != host || !flight.is_data());
        let local = self.hosts[host].local(self.now);
        let paused = self.hosts[host].paused;
        if let Some(holding) = self.hosts[host].holding()
            && is_idle
            && !paused
            && holding.array.serves()
        {
            holding.keeper.give_up(local);
            holding.stops = true;
            self.summary.given_up += 1;
            self.tell(format_args!("host {host} gives the lease up"));
            self.stir(host);
        }
    }

    fn take_back(&mut self, host: usize) {
        let member = MemberId(self.source.below(self.disks.len() as u64) as u8);
        let is_busy =
            self.flights.values().any(|flight| flight.member == member && flight.is_data());
        let paused = self.hosts[host].paused;
        let Some(holding) = self.hosts[host].holding() else { return };
        if let Some(from) = holding.array.record.serve.least()
            && !is_busy
            && !paused
        {
            let all = self.disks[from.index()].written.clone();
            holding.array.take_back(member, all);
            self.stir(host);
        }
    }

    fn request(&mut self, host: usize) {
        let (is_write, from) = (self.source.chance(2, 3), self.source.below(32) as usize);
        let (acked, number, paused) =
            (self.acked.len(), self.requests + 1, self.hosts[host].paused);
        if let Some(holding) = self.hosts[host].holding()
            && holding.array.serves()
            && !holding.stops
            && !paused
        {
            holding.array.request(number, is_write, acked, from);
            self.requests = number;
            self.stir(host);
        }
    }
}
