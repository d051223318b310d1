//! Time, faults and checks.

use std::collections::BTreeMap;
use std::time::Duration;

use det::Instant;
use raidcore::lease::{Keeper, Wait};
use raidcore::meta::{Holder, LeaseBlock, Term};
use raidcore::units::{BLOCK_BYTES, MemberId, Set};

use super::array::Array;
use super::fabric::{Disk, Flight, Op, Record, Said};
use super::host::{Holding, Host, Stage};
use super::{LeaseScenario, LeaseSummary};
use crate::play::Sink;
use crate::source::Source;

pub(super) const MILLI: u64 = 1_000_000;

/// How long the last host may take until it serves, in terms.
const PATIENCE: u64 = 12;

#[derive(Clone, Copy, Debug)]
pub(super) enum Event {
    Land(u64),
    Tell(u64),
    Wake(usize, u64),
    Resume(usize),
    Heal(usize),
    Fast(usize),
    Start(usize),
    /// Something happens that chance decides.
    Chance,
}

pub(super) struct World {
    pub(super) source: Source,
    pub(super) scenario: LeaseScenario,
    sink: Option<Sink>,
    term: Term,
    pub(super) now: u64,
    next: u64,
    queue: BTreeMap<(u64, u64), Event>,
    pub(super) hosts: [Host; 2],
    pub(super) disks: Vec<Disk>,
    pub(super) flights: BTreeMap<u64, Flight>,
    instances: u64,
    /// How often a host began to hold the lease, and the last that did.
    periods: u64,
    last: Option<(u64, Holder, Set<MemberId>)>,
    /// The last holding of which a write of data has landed.
    landed: u64,
    pub(super) requests: u32,
    pub(super) acked: Vec<u32>,
    /// The host that lives, at the end.
    pub(super) alone: Option<usize>,
    pub(super) summary: LeaseSummary,
}

impl World {
    pub(super) fn new(source: Source, scenario: LeaseScenario, sink: Option<Sink>) -> Self {
        let all = Set::first(scenario.members.into());
        let record = Record { epoch: 0, events: 1, serve: all };
        let disk = Disk { lease: vec![0; BLOCK_BYTES], record, written: Default::default() };
        let host =
            |number: usize| Host { number, drift: scenario.drift[number], ..Host::default() };
        Self {
            source,
            sink,
            term: Term::new(Duration::from_secs(8)).expect("it can be a term"),
            now: 0,
            next: 0,
            queue: BTreeMap::new(),
            hosts: [host(0), host(1)],
            disks: vec![disk; scenario.members.into()],
            flights: BTreeMap::new(),
            instances: 0,
            periods: 0,
            last: None,
            landed: 0,
            requests: 0,
            acked: Vec::new(),
            alone: None,
            summary: LeaseSummary::default(),
            scenario,
        }
    }

    pub(super) fn summary(&self) -> LeaseSummary {
        self.summary
    }

    /// The whole run: faults, and then a host alone.
    pub(super) fn run(&mut self) {
        for host in 0..2 {
            let after = self.source.below(self.terms(1));
            self.at(after, Event::Start(host));
        }
        self.at(0, Event::Chance);
        let end = self.terms(self.scenario.terms);
        while self.now < end && self.step() {}
        let alone = self.source.below(2) as usize;
        self.alone = Some(alone);
        self.crash(1 - alone, true);
        for host in [0, 1] {
            self.hosts[host].cut = Set::EMPTY;
            self.resume(host);
        }
        self.at(0, Event::Start(alone));
        let end = self.now + self.terms(PATIENCE);
        while !self.serves(alone) {
            assert!(self.now < end && self.step(), "host {alone} is alone and does not serve");
        }
    }

    pub(super) fn terms(&self, count: u64) -> u64 {
        count * self.term.duration().as_nanos() as u64
    }

    fn serves(&mut self, host: usize) -> bool {
        self.hosts[host].holding().is_some_and(|holding| holding.array.serves())
    }

    pub(super) fn at(&mut self, after: u64, event: Event) {
        self.next += 1;
        self.queue.insert((self.now + after, self.next), event);
    }

    pub(super) fn tell(&mut self, what: std::fmt::Arguments<'_>) {
        if let Some(sink) = &self.sink {
            sink(Instant(self.now), what);
        }
    }

    fn step(&mut self) -> bool {
        let Some(((at, _), event)) = self.queue.pop_first() else { return false };
        self.now = at;
        let digest = self.summary.digest.wrapping_mul(0x0100_0000_01b3);
        self.summary.digest = digest ^ at ^ self.next;
        match event {
            Event::Land(flight) => self.land(flight),
            Event::Tell(flight) => self.deliver(flight),
            Event::Wake(host, instance) => self.wake(host, instance),
            Event::Resume(host) => self.resume(host),
            Event::Heal(host) => self.hosts[host].cut = Set::EMPTY,
            Event::Fast(host) => self.hosts[host].slow = false,
            Event::Start(host) => self.start(host),
            Event::Chance => self.chance(),
        }
        true
    }

    /// The process of a host ends. What it has begun goes on, and the locks are held meanwhile.
    pub(super) fn end(&mut self, host: usize) {
        let flights = self.flights.values().filter(|flight| flight.host == host);
        let last = flights.map(|flight| flight.latest).max().unwrap_or(self.now);
        let it = &mut self.hosts[host];
        it.free_at = it.free_at.max(last + 1);
        if let Some(holding) = it.holding() {
            self.summary.dropped += holding.array.dropped;
            self.summary.returned += holding.array.returned;
        }
        let it = &mut self.hosts[host];
        (it.process, it.inbox) = (None, Vec::new());
    }

    fn start(&mut self, host: usize) {
        let it = &self.hosts[host];
        if it.process.is_some() || self.alone.is_some_and(|alone| alone != host) {
            return;
        }
        let there = self.disks.iter().zip(0..).filter(|of| !it.cut.has(MemberId(of.1)));
        let newest = there.map(|of| &of.0.record).max_by_key(|record| record.version()).cloned();
        if let Some(record) = newest.filter(|_| it.free_at <= self.now && !it.paused) {
            self.instances += 1;
            let (term, least) = (self.term, self.scenario.least.into());
            self.hosts[host].start(self.now, self.instances, record, term, least);
            self.stir(host);
        } else {
            self.at(self.terms(1) / 8, Event::Start(host));
        }
    }

    fn resume(&mut self, host: usize) {
        self.hosts[host].paused = false;
        for flight in std::mem::take(&mut self.hosts[host].inbox) {
            self.deliver(flight);
        }
        self.stir(host);
    }

    /// Something is handed to a host's kernel.
    fn submit(&mut self, host: usize, period: u64, member: MemberId, op: Op) {
        let most = self.terms(1) / 2;
        let late = self.scenario.late && self.alone.is_none() && self.source.chance(1, 8);
        let after = match self.hosts[host].slow && self.alone.is_none() {
            true => most / 2 + self.source.below(most / 2),
            false if late => self.source.below(most),
            false => self.source.below(20 * MILLI),
        };
        let instance = self.hosts[host].process.as_ref().map_or(0, |process| process.instance);
        let latest = self.now + most;
        self.next += 1;
        let number = self.next;
        let flight = Flight { host, instance, period, member, op, latest, said: None };
        self.flights.insert(number, flight);
        self.at(after, Event::Land(number));
    }

    fn land(&mut self, number: u64) {
        let Some(flight) = self.flights.get_mut(&number) else { return };
        let (host, member) = (flight.host, flight.member);
        if self.hosts[host].cut.has(member) {
            // The kernel tries again, and gives up when it has to.
            let left = flight.latest.saturating_sub(self.now);
            let event = if left == 0 { Event::Tell(number) } else { Event::Land(number) };
            return self.at(left.min(50 * MILLI), event);
        }
        if flight.is_data() {
            assert!(
                flight.period >= self.landed,
                "a write of holding {} by host {host} lands after one of holding {}",
                flight.period,
                self.landed
            );
            self.landed = flight.period;
        }
        flight.land(&mut self.disks[member.index()]);
        let often = if self.hosts[host].slow { 10 } else { 1 };
        let after = match self.alone.is_none() && self.source.chance(often, 20) {
            true => self.source.below(self.terms(1) / 2),
            false => self.source.below(5 * MILLI),
        };
        self.at(after, Event::Tell(number));
    }

    /// A host hears of what it has submitted.
    fn deliver(&mut self, number: u64) {
        let Some(flight) = self.flights.get(&number) else { return };
        let host = flight.host;
        let process = self.hosts[host].process.as_ref();
        if process.is_none_or(|process| process.instance != flight.instance) {
            self.flights.remove(&number);
            return;
        }
        if self.hosts[host].paused {
            return self.hosts[host].inbox.push(number);
        }
        let flight = self.flights.remove(&number).expect("it is there");
        let lost = self.hosts[host].cut.has(flight.member);
        let said = flight.said.clone().filter(|_| !lost).unwrap_or_else(|| flight.failed());
        self.hear(host, &flight, said);
        // The data path asks the gate alone.
        self.serve(host);
        self.stir(host);
    }

    fn hear(&mut self, host: usize, flight: &Flight, said: Said) {
        let now = self.hosts[host].local(self.now);
        let Some(process) = &mut self.hosts[host].process else { return };
        match (&mut process.stage, said) {
            (Stage::Takes { taker, .. }, Said::Lease(answer)) => {
                taker.answered(now, flight.member, answer);
            }
            (Stage::Holds(holding), Said::Lease(answer)) => {
                holding.keeper.answered(now, flight.member, answer);
            }
            (Stage::Holds(holding), said) => {
                match holding.array.answered(flight.member, &flight.op, said) {
                    Ok(fresh) => {
                        let fresh = fresh.map_or(Set::EMPTY, Set::one);
                        holding.changed(now + self.term.learns(), fresh);
                    }
                    Err(_) => self.restart(host),
                }
            }
            (Stage::Takes { .. }, _) => {}
        }
    }

    /// The process ends by itself, and is started again some time.
    fn restart(&mut self, host: usize) {
        self.end(host);
        let after = self.source.below(self.terms(1));
        self.at(after, Event::Start(host));
    }

    /// The host's process does what is to be done now.
    pub(super) fn stir(&mut self, host: usize) {
        if self.hosts[host].paused {
            return;
        }
        let now = self.hosts[host].local(self.now);
        let Some(process) = &mut self.hosts[host].process else { return };
        let instance = process.instance;
        let (asks, deadline, period) = match &mut process.stage {
            Stage::Takes { taker, record } => {
                taker.tick(now);
                if let Some((keeper, _)) = taker.held() {
                    let record = record.clone();
                    self.hold(host, keeper, record);
                    return self.stir(host);
                }
                if matches!(taker.waits_for(), Wait::Record | Wait::Quorum(_)) {
                    return self.restart(host);
                }
                let asks: Vec<_> = std::iter::from_fn(|| taker.next_ask()).collect();
                (asks, taker.deadline(), 0)
            }
            Stage::Holds(holding) => {
                holding.learn(now);
                holding.keeper.tick(now);
                holding.gate.open(holding.keeper.until());
                if now < holding.keeper.until() && holding.learns.is_none() {
                    check_shown(&holding.keeper, instance, &self.disks);
                }
                if holding.stops && holding.keeper.is_given_up(now) {
                    return self.restart(host);
                }
                if holding.keeper.lost().is_some() {
                    let why = holding.keeper.lost();
                    self.summary.fenced += 1;
                    self.tell(format_args!("host {host} fences itself: {why:?}"));
                    return self.restart(host);
                }
                let keeper = &mut holding.keeper;
                let asks: Vec<_> = std::iter::from_fn(|| keeper.next_ask()).collect();
                let deadline = keeper.deadline().into_iter().chain(holding.learns_at()).min();
                (asks, deadline, holding.period)
            }
        };
        for ask in asks {
            let (raidcore::lease::Ask::Read(member) | raidcore::lease::Ask::Write(member, _)) = ask;
            self.submit(host, period, member, Op::Lease(ask));
        }
        let at = deadline.map_or(u64::MAX, |deadline| self.hosts[host].true_time(deadline));
        if let Some(process) = &mut self.hosts[host].process
            && process.wakes > at
        {
            process.wakes = at;
            self.at(at.saturating_sub(self.now), Event::Wake(host, instance));
        }
        self.serve(host);
    }

    fn wake(&mut self, host: usize, instance: u64) {
        let (now, paused) = (self.now, self.hosts[host].paused);
        if let Some(process) = &mut self.hosts[host].process
            && process.instance == instance
            && process.wakes <= now
        {
            process.wakes = u64::MAX;
            if !paused {
                self.stir(host);
            }
        }
    }

    /// The array goes on, as far as the gate lets it.
    fn serve(&mut self, host: usize) {
        let now = self.hosts[host].local(self.now);
        let Some(holding) = self.hosts[host].holding() else { return };
        let (period, least) = (holding.period, self.periods);
        let ops = std::mem::take(&mut holding.array.ops);
        let lets = holding.gate.lets_submit(now);
        let done = holding.array.done();
        let lets_answer = holding.gate.lets_answer(now);
        let loaded = holding.array.loaded();
        if !ops.is_empty() && !lets || !done.is_empty() && !lets_answer {
            self.summary.fenced += 1;
            return self.restart(host);
        }
        for (member, written) in loaded {
            let missing = self.acked.iter().find(|number| !written.contains(number));
            assert_eq!(missing, None, "{member:?} lacks an acknowledged write");
        }
        for (member, op) in ops {
            self.submit(host, period, member, op);
        }
        for request in done {
            assert_eq!(
                period, least,
                "host {host} answers after another has begun to hold the lease"
            );
            if request.is_write {
                self.acked.push(request.number);
                self.summary.writes += 1;
            } else {
                let before = &self.acked[..request.acked];
                let missing = before.iter().find(|number| !request.found.contains(number));
                assert_eq!(missing, None, "a read lacks an acknowledged write");
                self.summary.reads += 1;
            }
        }
    }

    /// A host holds the lease now.
    fn hold(&mut self, host: usize, keeper: Keeper, record: Record) {
        let Some(process) = &self.hosts[host].process else { return };
        let me = self.hosts[host].holder(process.instance);
        let other = self.hosts[1 - host].local(self.now);
        if let Some(holding) = self.hosts[1 - host].holding() {
            let acts = holding.gate.lets_submit(other) && !holding.stops;
            assert!(!acts, "both hosts hold the lease");
        }
        let generation = keeper.generation();
        self.tell(format_args!("host {host} holds the lease, generation {generation}"));
        let voters = keeper.voters();
        if let Some((before, who, of)) = self.last {
            let continues = generation == before && who.shares_kernel_with(&me);
            // Members that were dropped may be all that had the last claim.
            let is_later = generation > before || continues || voters != of;
            assert!(is_later, "generation {generation} after {before}");
            self.summary.continued += u64::from(continues);
            self.summary.moved += u64::from(who.host != me.host);
        }
        self.last = Some((generation, me, voters));
        self.periods += 1;
        self.summary.held += 1;
        let from = record.serve.minus(self.hosts[host].cut);
        let array = Array::start(record, from, self.periods, self.scenario.least.into());
        let holding = Holding {
            keeper,
            gate: Default::default(),
            array,
            period: self.periods,
            stops: false,
            learns: None,
        };
        if let Some(process) = &mut self.hosts[host].process {
            process.stage = Stage::Holds(Box::new(holding));
        }
    }
}

/// A holder acts for no longer than a term after renewals that a majority of the members shows.
fn check_shown(keeper: &Keeper, instance: u64, disks: &[Disk]) {
    let is_mine = |block: &LeaseBlock| block.holder.instance[..8] == instance.to_le_bytes();
    let shown = keeper.voters().filter_map(|member| disks[member.index()].lease().filter(is_mine));
    let ends = shown.map(|block| Instant(block.begun) + block.term.duration());
    let enough = ends.filter(|&end| end >= keeper.until()).count();
    let most = keeper.voters().len() / 2 + 1;
    assert!(enough >= most, "a holder acts until {:?}, longer than it shows", keeper.until());
}
