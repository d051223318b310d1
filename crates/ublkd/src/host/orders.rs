//! Carries out operators' orders on the data thread.

use evenkeel_client::{FlashReport, WhyReport};
use raidcore::engine::{Command, CommandError, Input};
use raidcore::units::{DeviceId, Set};
use raidlog::array;
use raidlog::{GroupId, ONLY};

use super::askers::Asker;
use super::cache;
use super::clock::wall_seconds;
use super::data::Data;
use super::diagnosis::{both, why_report};
use super::handle::{HostError, Order, reply};
use super::log;
use super::metrics::Metrics;

impl Data {
    pub(super) fn order(&mut self, order: Order) {
        match order {
            Order::Command(group, command, answer) => {
                self.command(group, command, Asker::Command(answer));
            }
            Order::Status(group, answer) => reply(answer, Ok(self.machine.engine(group).status())),
            Order::Log(answer) => reply(answer, Ok(log::status(&self.machine))),
            Order::Cache(answer) => reply(answer, Ok(cache::state(self.now, &self.machine))),
            Order::Flash(answer) => reply(answer, Ok(self.flash())),
            Order::FlashLog { device, since, answer } => {
                reply(answer, Ok(self.ring.flash_log(self.now, device, since)));
            }
            Order::SetScheme(scheme, answer) => {
                for group in self.machine.groups() {
                    let engine = self.machine.engine(group);
                    let steering = &mut self.steering[group.index()];
                    steering.set(self.now, scheme, engine, &mut self.ring);
                    self.machine.set_steering(group, None);
                    self.feed_group(group, Input::Busy(Set::EMPTY));
                }
                self.machine.set_cache_order(scheme.cache().order_in_memory());
                reply(answer, Ok(()));
            }
            Order::Scheme(answer) => reply(answer, Ok(self.steering[ONLY.index()].scheme())),
            Order::Why(answer) => reply(answer, Ok(self.why())),
            Order::Metrics(group, answer) => {
                let engine = self.machine.engine(group);
                let registered = self.arena.registered_bytes();
                let (steering, ring) = (&self.steering[group.index()], &mut self.ring);
                let metrics = Metrics::new(self.now, engine, steering, ring, registered);
                reply(answer, Ok(metrics));
            }
            Order::Requests(answer) => {
                reply(answer, Ok(Box::new(self.requests.stats(self.now))));
            }
            Order::Add { group, coming, answer } => self.add(group, *coming, answer),
            Order::MayReturn { group, superblock, blocks, answer } => {
                self.may_return(group, &superblock, blocks, answer);
            }
            Order::Gone(device) => self.device_lost(Input::DeviceGone(device)),
            Order::Admit(resident, answer) => self.admit(resident, answer),
            Order::Join(answer) => self.waiting.push(answer),
            Order::Stop(answer) => {
                self.waiting.extend(answer);
                if !std::mem::replace(&mut self.stopping, true) {
                    self.feed(array::Input::Stop);
                }
            }
        }
    }

    /// How the modelled SSDs are.
    fn flash(&mut self) -> Vec<(DeviceId, FlashReport)> {
        let mut reports = self.ring.flash_reports(self.now);
        for (device, report) in &mut reports {
            report.threshold = self.steering.iter().find_map(|group| group.threshold(*device));
        }
        reports
    }

    /// What is known of the members of all groups, and why.
    fn why(&self) -> WhyReport {
        let (groups, times) = (self.machine.groups(), (self.now, wall_seconds()));
        let several = groups.size_hint().0 > 1;
        let reports = groups.map(|group| {
            let name = several.then_some(group.0);
            let steering = &self.steering[group.index()];
            why_report(times, name, steering, self.machine.engine(group))
        });
        reports.reduce(both).expect("there is a group")
    }

    pub(super) fn command(&mut self, group: GroupId, command: Command, asker: Asker) {
        let number = self.askers.ask(asker);
        self.feed_group(group, Input::Command { number, command });
    }

    pub(super) fn answer(&mut self, number: u64, result: Result<(), CommandError>) {
        match self.askers.answered(number) {
            Some(Asker::Command(answer)) => reply(answer, result.map_err(HostError::from)),
            Some(Asker::Add(device, answer)) => {
                if result.is_err() {
                    self.ring.close(&mut self.arena, device);
                }
                reply(answer, result.map(|()| device).map_err(HostError::from));
            }
            None => unreachable!("command {number} was answered twice"),
        }
    }
}
