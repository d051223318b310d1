//! Pairs of jobs that read the same in two ways.

use core::mem;

use det::Instant;

use super::{Hedge, Second};
use crate::engine::JobId;
use crate::engine::jobs::Jobs;
use crate::engine::stage::Stage;
use crate::engine::work::Work;
use crate::geometry::Role;
use crate::units::{Mem, Set};

impl Jobs {
    /// Whether a job is still on its way to being read, alone, and to answer.
    pub(in crate::engine) fn reads_alone(&self, id: JobId) -> bool {
        self.get(id).is_some_and(|job| {
            let reads = matches!(job.stage, Stage::Buffers | Stage::Read | Stage::AfterRead);
            let is_alone = job.hedge.partner.is_none() && !job.asked.tags.is_empty();
            job.work == Work::Read && reads && is_alone
        })
    }

    /// Begins a second read of what a job still waits for, if it can.
    pub(in crate::engine) fn begin_second(&mut self, first: JobId, now: Instant) -> Second {
        let job = &self[first];
        debug_assert!(
            job.fetching.is_empty()
                && job.kept.is_empty()
                && !job.plan.reads.iter().any(|io| matches!(io.mem, Mem::Payload { .. })),
            "it was planned to scratch memory alone"
        );
        // One that is tried block by block has more and more reads.
        if !Hedge::can_follow(job.plan.reads.len()) {
            return Second::Never;
        }
        if job.stage != Stage::AfterRead {
            return Second::NotYet;
        }
        let reads = job.plan.reads.iter().enumerate();
        let late = reads.filter(|(index, _)| !job.hedge.landed.has(*index));
        let late: Set<Role> = late.map(|(_, io)| io.role).collect();
        if job.replan || !job.bad.is_empty() || late.is_empty() {
            return Second::Never;
        }
        let (stripe, blocks, begun) = (job.stripe, job.asked.blocks, job.asked.begun);
        let Some(second) = self.create(Work::Read, stripe, now) else { return Second::NotYet };
        self[first].hedge.partner = Some(second);
        let pieces = mem::take(&mut self[first].pieces);
        let job = &mut self[second];
        job.pieces.extend(&pieces);
        (job.hedge.partner, job.hedge.avoids, job.asked.blocks, job.asked.begun) =
            (Some(first), late, blocks, begun);
        self[first].pieces = pieces;
        self.join(second);
        Second::Begun
    }

    /// The other of two that read the same, if there are two.
    pub(in crate::engine) fn other_of(&self, id: JobId) -> Option<JobId> {
        self[id].hedge.partner
    }

    /// Whether another job has answered in this one's place.
    pub(in crate::engine) fn is_given_up(&self, id: JobId) -> bool {
        self[id].is_given_up()
    }

    /// Leaves the answer to the other of two that read the same; tells whether there is one.
    pub(in crate::engine) fn gives_up(&mut self, id: JobId) -> bool {
        let Some(other) = self.part(id) else { return false };
        self.pass_tags(id, other);
        // It goes on as if it had always been alone.
        self[other].hedge.avoids = Set::EMPTY;
        true
    }

    /// A job has read all, and answers; tells whether the other of two was to.
    pub(in crate::engine) fn claim(&mut self, id: JobId) -> bool {
        let Some(other) = self.part(id) else { return false };
        let wins = self[id].asked.tags.is_empty();
        if wins {
            self.pass_tags(other, id);
        }
        wins
    }

    /// Another job is to answer.
    pub(super) fn pass_tags(&mut self, from: JobId, to: JobId) {
        let mut tags = mem::take(&mut self[from].asked.tags);
        self[to].asked.tags.append(&mut tags);
        self[from].asked.tags = tags;
    }

    /// Two that read the same go on each by itself.
    fn part(&mut self, id: JobId) -> Option<JobId> {
        let other = self[id].hedge.partner.take()?;
        self[other].hedge.partner = None;
        Some(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::hedge::Patience;
    use crate::geometry::{Geometry, Level};
    use crate::plan::SubIo;
    use crate::units::{Stripe, Tag};

    fn jobs() -> Jobs {
        let geo = Geometry::new(Level::Raid6, 6, 8, 16).expect("it is possible");
        Jobs::new(&geo, 4, 1, 32)
    }

    /// A read to scratch memory of these data chunks, under way.
    fn read(jobs: &mut Jobs, roles: &[u8]) -> JobId {
        let id = jobs.create(Work::Read, Stripe(3), Instant(5)).expect("there is room");
        jobs.start(id, |_, _| false);
        jobs.pop_ready();
        let job = &mut jobs[id];
        (job.stage, job.asked.blocks) = (Stage::AfterRead, 9);
        job.asked.tags.push(Tag(7));
        let scratch = |role| Mem::Scratch { buffer: u16::from(role), at: 0 };
        let io = |&role: &u8| SubIo { role: Role(role), row: 0, blocks: 1, mem: scratch(role) };
        job.plan.reads.extend(roles.iter().map(io));
        job.hedge.begin_reads();
        id
    }

    /// The second of two, which has just begun.
    fn second(jobs: &mut Jobs, first: JobId) -> JobId {
        assert_eq!(jobs.begin_second(first, Instant(50)), Second::Begun);
        jobs.pop_ready().expect("it goes on at once")
    }

    #[test]
    fn patience_ends_in_the_order_of_the_deadlines() {
        let (mut jobs, mut patience) = (jobs(), Patience::default());
        let [late, soon] = [0, 1].map(|_| read(&mut jobs, &[0]));
        patience.wait(Instant(30), late);
        patience.wait(Instant(20), soon);
        assert_eq!(patience.deadline(), Some(Instant(20)));
        assert_eq!(patience.pop_due(Instant(19)), None);
        assert_eq!(patience.pop_due(Instant(20)), Some(soon));
        patience.wait(Instant(10), soon);
        patience.forget_ended(|job| job == late);
        assert_eq!((patience.deadline(), patience.pop_due(Instant(29))), (Some(Instant(30)), None));
        patience.forget_ended(|_| false);
        assert_eq!(patience.deadline(), None);
    }

    #[test]
    fn a_second_read_goes_around_what_the_first_still_waits_for() {
        let mut jobs = jobs();
        let first = read(&mut jobs, &[0, 1, 2]);
        assert!(jobs.reads_alone(first));
        jobs[first].hedge.land(1);
        let second = second(&mut jobs, first);
        let job = &jobs[second];
        assert_eq!(job.hedge.avoids(), Set::one(Role(0)).with(Role(2)));
        assert_eq!((job.asked.blocks, job.asked.begun, job.stripe), (9, Instant(5), Stripe(3)));
        assert!(!jobs.reads_alone(first) && jobs[first].hedge.is_paired());
        assert!(!jobs.is_given_up(second), "it may answer yet");
    }

    #[test]
    fn what_is_all_there_is_not_read_again() {
        let mut jobs = jobs();
        let first = read(&mut jobs, &[0]);
        jobs[first].hedge.land(0);
        assert_eq!(jobs.begin_second(first, Instant(50)), Second::Never);
        assert!(!jobs[first].hedge.is_paired(), "all is there");
        assert!(!jobs.any_ready());
    }

    #[test]
    fn of_two_one_answers() {
        let mut jobs = jobs();
        let first = read(&mut jobs, &[0]);
        let other = second(&mut jobs, first);
        assert!(jobs.claim(other), "the second wins");
        assert_eq!(jobs[other].asked.tags, [Tag(7)]);
        assert!(jobs.is_given_up(first) && !jobs.gives_up(first) && !jobs.claim(other));

        let mut jobs = self::jobs();
        let first = read(&mut jobs, &[0]);
        let other = second(&mut jobs, first);
        assert!(!jobs.claim(first) && jobs.is_given_up(other), "the first was to answer anyway");
    }

    #[test]
    fn who_gives_up_leaves_the_answer_to_the_other() {
        let mut jobs = jobs();
        let first = read(&mut jobs, &[0]);
        let other = second(&mut jobs, first);
        assert!(jobs.gives_up(first) && jobs.is_given_up(first));
        assert_eq!(jobs[other].asked.tags, [Tag(7)]);
        assert!(!jobs[other].hedge.is_second(), "it is alone now");
        assert!(!jobs.gives_up(other), "nobody is left");
    }
}
