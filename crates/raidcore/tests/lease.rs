//! The lease, one host after the other: who waits for how long, and what ends a holder. Two hosts at once are in
//! the simulator.

use std::time::Duration;

use det::Instant;
use raidcore::lease::{Answer, Ask, Candidate, Keeper, Lost, Taker, Wait};
use raidcore::meta::{Holder, HostName, LeaseBlock, Term};
use raidcore::units::{MemberId, Set};

const MEMBERS: usize = 3;

fn term() -> Term {
    Term::new(Duration::from_secs(8)).expect("it can be a term")
}

fn at(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

fn holder(host: u8, instance: u8) -> Holder {
    let name = HostName::new("a");
    Holder { host: [host; 16], boot: [host; 16], instance: [instance; 16], name }
}

fn candidate(me: Holder) -> Candidate {
    let all = Set::first(MEMBERS);
    Candidate { me, term: term(), members: all, voters: all, events: 1, least: 2, fenced: false }
}

/// Members that answer at once.
#[derive(Default)]
struct Members([Option<LeaseBlock>; MEMBERS]);

impl Members {
    fn answer(&mut self, ask: Ask) -> (MemberId, Answer) {
        match ask {
            Ask::Read(member) => (member, Answer::Read(self.0[member.index()])),
            Ask::Write(member, block) => {
                self.0[member.index()] = Some(block);
                (member, Answer::Wrote)
            }
        }
    }

    /// A taker takes the lease; returns it and when it has it.
    fn take(&mut self, from: Instant, candidate: Candidate) -> (Keeper, Instant) {
        let (mut now, mut taker) = (from, Taker::new(from, candidate));
        loop {
            while let Some(ask) = taker.next_ask() {
                let (member, answer) = self.answer(ask);
                taker.answered(now, member, answer);
            }
            if let Some((keeper, _)) = taker.held() {
                return (keeper, now);
            }
            now = now.max(taker.deadline().expect("it waits for something"));
            taker.tick(now);
        }
    }

    fn renew(&mut self, keeper: &mut Keeper, now: Instant) {
        keeper.tick(now);
        while let Some(ask) = keeper.next_ask() {
            let (member, answer) = self.answer(ask);
            keeper.answered(now, member, answer);
        }
    }
}

#[test]
fn a_dead_host_is_waited_for_and_its_own_next_process_goes_on_at_once() {
    let mut members = Members::default();
    let (mut keeper, now) = members.take(at(0), candidate(holder(1, 1)));
    assert_eq!((now, keeper.generation()), (Instant::ORIGIN + term().settles(), 1));
    members.renew(&mut keeper, now);
    assert_eq!(keeper.until(), now + term().duration());

    let (again, later) = members.take(at(9), candidate(holder(1, 2)));
    assert_eq!((later, again.generation()), (at(9), 1), "a process that was killed");

    let (other, later) = members.take(at(9), candidate(holder(2, 3)));
    let expected = at(9) + term().waits() + term().settles();
    assert_eq!((later, other.generation()), (expected, 2), "another host");

    let (again, later) = members.take(at(90), candidate(holder(2, 4)));
    let expected = at(90) + term().settles();
    assert_eq!((later, again.generation()), (expected, 3), "the term is over, the process is dead");
}

#[test]
fn what_was_given_up_is_not_waited_for() {
    let mut members = Members::default();
    let (mut keeper, now) = members.take(at(0), candidate(holder(1, 1)));
    members.renew(&mut keeper, now);
    keeper.give_up(now);
    assert!(!keeper.is_given_up(now));
    members.renew(&mut keeper, now);
    assert!(keeper.is_given_up(now));
    let (_, later) = members.take(at(9), candidate(holder(2, 2)));
    assert_eq!(later, at(9) + term().settles());
}

#[test]
fn a_stop_does_not_wait_for_a_member_that_hangs_once_nothing_more_may_be_written() {
    let mut members = Members::default();
    let (mut keeper, now) = members.take(at(0), candidate(holder(1, 1)));
    members.renew(&mut keeper, now);
    keeper.give_up(now);
    while let Some(ask) = keeper.next_ask() {
        let (Ask::Read(MemberId(member)) | Ask::Write(MemberId(member), _)) = ask;
        if member != 1 {
            let (member, answer) = members.answer(ask);
            keeper.answered(now, member, answer);
        }
    }
    assert!(!keeper.is_given_up(now + term().fresh()));
    let end = keeper.deadline().expect("it waits for the member");
    assert!(end < keeper.renewed().expect("it was renewed") + term().duration());
    assert!(keeper.is_given_up(end));
    keeper.answered(end, MemberId::at(1), Answer::Read(None));
    assert_eq!(keeper.next_ask(), None);
}

#[test]
fn nothing_is_waited_for_where_the_operator_has_fenced_the_holder_which_notices_if_it_lives() {
    let mut members = Members::default();
    let (mut keeper, now) = members.take(at(0), candidate(holder(1, 1)));
    members.renew(&mut keeper, now);
    let fenced = Candidate { fenced: true, ..candidate(holder(2, 2)) };
    let (other, later) = members.take(at(7), fenced);
    assert_eq!((later, other.generation()), (at(7), 2));
    members.renew(&mut keeper, at(9));
    assert_eq!(keeper.lost(), Some(Lost::Taken(holder(2, 2))));
    assert_eq!(keeper.until(), Instant::ORIGIN);
}

#[test]
fn a_holder_that_can_not_renew_ends_with_its_term_for_good() {
    let mut members = Members::default();
    let (mut keeper, now) = members.take(at(0), candidate(holder(1, 1)));
    members.renew(&mut keeper, now);
    let until = keeper.until();
    keeper.tick(now + term().renews());
    let asks: Vec<Ask> = std::iter::from_fn(|| keeper.next_ask()).collect();
    assert_eq!(asks.len(), MEMBERS);
    keeper.tick(until);
    assert_eq!(keeper.lost(), Some(Lost::Expired));
    for ask in asks {
        let (member, answer) = members.answer(ask);
        keeper.answered(until, member, answer);
    }
    assert_eq!((keeper.next_ask(), keeper.until()), (None, Instant::ORIGIN));
}

#[test]
fn too_few_members_and_a_record_that_has_changed_are_told() {
    let mut members = Members::default();
    let waits = |members: &mut Members, candidate: Candidate| {
        let mut taker = Taker::new(at(99), candidate);
        while let Some(ask) = taker.next_ask() {
            let (member, answer) = members.answer(ask);
            taker.answered(at(99), member, answer);
        }
        taker.waits_for()
    };
    let one = Candidate { members: Set::first(1), ..candidate(holder(1, 1)) };
    assert_eq!(waits(&mut members, one), Wait::Quorum(Set::first(1)));
    let (mut keeper, now) = members.take(at(0), candidate(holder(1, 1)));
    keeper.set_members(now, Set::first(2), Set::EMPTY, 5);
    members.renew(&mut keeper, now);
    assert_eq!(keeper.until(), now + term().duration());
    assert_eq!(waits(&mut members, candidate(holder(2, 2))), Wait::Record);
    let fenced = Candidate { fenced: true, ..candidate(holder(2, 2)) };
    let (other, later) = members.take(at(99), fenced);
    assert_eq!((later, other.generation()), (at(99), 2), "the operator knows more");
}
