//! Detects members that hang.
//!
//! A member is silent if it has I/O that has been in the kernel for half of the limit. The set of
//! silent members is reported when it has not changed for the other half. So if several members
//! stop for one reason, they are reported together, and nothing is reported while members become
//! silent or begin to answer again. A jump of the clock does no harm, as when a machine was
//! suspended.
//!
//! Invariant: the last report stands until the next one.

use std::time::Duration;

use det::Instant;
use raidcore::engine::IoError;
use raidcore::units::DeviceId;

use super::Ring;
use crate::arena::Arena;
use crate::open_members::{MemberIndex, Members};

/// See the [module](self).
pub(super) struct HangDetector {
    half: Duration,
    silent: Members,
    /// Since when the set of silent members is unchanged.
    since: Instant,
    told: Members,
}

impl HangDetector {
    /// No member is silent.
    pub(super) fn new(limit: Duration) -> Self {
        let none = Members::default();
        Self { half: limit / 2, silent: none, since: Instant::ORIGIN, told: none }
    }

    /// How long an I/O takes before its member is silent.
    pub(super) fn patience(&self) -> Duration {
        self.half
    }

    /// These are silent now. Returns the set if it has to be reported and differs from the last
    /// report.
    pub(super) fn look(&mut self, now: Instant, silent: Members) -> Option<Members> {
        if silent != self.silent {
            (self.silent, self.since) = (silent, now);
        }
        let settled = silent == Members::default() || self.since + self.half <= now;
        (settled && silent != self.told).then(|| {
            self.told = silent;
            silent
        })
    }

    /// When to look again at the latest, if no other member becomes silent.
    pub(super) fn deadline(&self) -> Option<Instant> {
        (self.silent != self.told).then(|| self.since + self.half)
    }

    /// Whether no member is silent, and none is reported.
    pub(super) fn is_over(&self) -> bool {
        self.silent == Members::default() && self.told == Members::default()
    }

    /// Whether a member is reported.
    pub(super) fn has_told(&self, index: u16) -> bool {
        self.told.has(index)
    }
}

impl Ring {
    /// The devices that hang, if they differ from the last report. Their I/O continues until it is
    /// [given up](Self::give_up), or the device [closed](Self::close).
    pub(crate) fn next_hung(&mut self) -> Option<Vec<DeviceId>> {
        let hung = self.hung.take()?;
        let members = (0..).zip(&self.members).filter(|&(index, _)| hung.has(index));
        let members = members.filter_map(|(_, member)| member.as_ref());
        Some(members.filter(|member| !member.released).map(|member| member.id).collect())
    }

    /// Gives up the I/O on a device that hangs.
    pub(crate) fn give_up(&mut self, arena: &mut Arena, id: DeviceId) {
        if let Some(index) = self.find(id) {
            self.give_up_on(index, arena);
        }
    }

    /// Finds out which members hang, and gives up those that are to be closed.
    pub(super) fn listen_to_members(&mut self, now: Instant, arena: &mut Arena) {
        let patience = self.hang_detector.patience();
        let before = now.0.checked_sub(patience.as_nanos() as u64).map(Instant);
        let (silent, oldest) = self.ops.oldest(before);
        if self.hang_detector.is_over() && silent != Members::default() {
            self.entries.more_workers();
        }
        if let Some(hung) = self.hang_detector.look(now, silent) {
            self.hung = Some(hung);
            for index in 0..self.members.len() {
                let released = self.members[index].as_ref().is_some_and(|member| member.released);
                if released && hung.has(index as u16) {
                    self.give_up_on(MemberIndex(index as u16), arena);
                }
            }
        }
        let next = oldest.map(|oldest| oldest + patience);
        self.expiry = next.into_iter().chain(self.hang_detector.deadline()).min();
    }

    /// Gives up all that a member has not ended.
    pub(super) fn give_up_on(&mut self, member: MemberIndex, arena: &mut Arena) {
        while let Some(id) = self.ops.give_up(member) {
            let op = self.ops.get(id);
            for &piece in &op.pieces {
                arena.orphan(piece);
            }
            self.done.extend(op.names().map(|io| (io, Err(IoError::TimedOut))));
            self.cancel(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Instant {
        Instant::ORIGIN + Duration::from_secs(seconds)
    }

    fn members(indices: &[u16]) -> Members {
        let mut members = Members::default();
        indices.iter().for_each(|&index| members.insert(index));
        members
    }

    #[test]
    fn who_is_silent_is_told_once_when_it_has_stayed_the_same() {
        let mut detector = HangDetector::new(Duration::from_secs(30));
        assert!(detector.is_over());
        assert_eq!(detector.look(at(15), members(&[1])), None);
        assert_eq!(detector.look(at(16), members(&[1, 3])), None);
        assert_eq!(detector.deadline(), Some(at(31)));
        assert_eq!(detector.look(at(30), members(&[1, 3])), None);
        assert_eq!(detector.look(at(31), members(&[1, 3])), Some(members(&[1, 3])));
        assert_eq!(detector.deadline(), None);
        assert_eq!(detector.look(at(90), members(&[1, 3])), None);
        // The cause of both passes.
        assert_eq!(detector.look(at(91), members(&[3])), None);
        assert!(detector.has_told(1), "nothing else was told yet");
        assert_eq!(detector.look(at(92), members(&[])), Some(members(&[])));
        assert!(detector.is_over());
    }
}
