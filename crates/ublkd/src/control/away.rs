//! Members that are away and are expected to come back by themselves.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use raidcore::engine::IoError;
use raidcore::units::MemberId;

/// How often to look for members that are away.
pub(super) const EVERY: Duration = Duration::from_secs(3);

/// A member that came back by itself and vanishes again within this time is not awaited.
const FLAPS: Duration = Duration::from_secs(600);

/// An array, by its number, and a member of it.
pub(super) type Which = (usize, MemberId);

/// What is known of members that are away.
#[derive(Debug, Default)]
pub(super) struct Away {
    awaited: BTreeMap<(usize, u8), Awaited>,
    /// Which members came back by themselves, and when they last did.
    back: BTreeMap<(usize, u8), Instant>,
}

/// A member that is awaited.
#[derive(Debug)]
pub(super) struct Awaited {
    /// Where its device was.
    pub(super) path: Option<PathBuf>,
    /// It was missing at the start. If its device was there then, it was left out on purpose.
    pub(super) since_start: bool,
    /// It is being looked for.
    pub(super) busy: bool,
    /// The time of the next attempt.
    pub(super) not_before: Option<Instant>,
    /// The pause after the next failure.
    pub(super) pause: Duration,
    /// Why it did not come back.
    pub(super) why_not: Option<String>,
}

impl Awaited {
    fn at(path: Option<PathBuf>, since_start: bool) -> Self {
        let (busy, not_before, why_not) = (false, None, None);
        Self { path, since_start, busy, not_before, pause: EVERY, why_not }
    }
}

impl Away {
    /// A member was out of service when the array was started.
    pub(super) fn was_out(&mut self, which: Which) {
        self.awaited.insert(key(which), Awaited::at(None, true));
    }

    /// A member was taken out of service: for an error, or by an operator. If it has vanished, it
    /// is awaited at its old place, unless it came back by itself shortly before.
    pub(super) fn left(
        &mut self,
        which: Which,
        why: Option<IoError>,
        path: Option<PathBuf>,
        now: Instant,
    ) {
        self.forget(which);
        // A member that does not answer is still there: looking at it could block for ever.
        if why != Some(IoError::Gone) {
            return;
        }
        if self.back.get(&key(which)).is_some_and(|&at| now.duration_since(at) < FLAPS) {
            tracing::warn!("it came back lately, so it does not come back by itself again");
            return;
        }
        self.awaited.insert(key(which), Awaited::at(path, false));
    }

    /// A member has come back by itself.
    pub(super) fn came_back(&mut self, which: Which, now: Instant) {
        self.forget(which);
        self.back.insert(key(which), now);
    }

    /// A member is no longer awaited.
    pub(super) fn forget(&mut self, which: Which) {
        self.awaited.remove(&key(which));
    }

    /// A member, if it is waited for.
    pub(super) fn awaited(&mut self, which: Which) -> Option<&mut Awaited> {
        self.awaited.get_mut(&key(which))
    }
}

fn key((array, member): Which) -> (usize, u8) {
    (array, member.0)
}

#[cfg(test)]
mod tests {
    use raidcore::units::MemberId;

    use super::*;

    const IT: Which = (0, MemberId(1));

    /// Whether a member that vanishes now is awaited.
    fn waits(away: &mut Away, which: Which, now: Instant) -> bool {
        away.left(which, Some(IoError::Gone), Some("/dev/sdx".into()), now);
        away.awaited(which).is_some()
    }

    #[test]
    fn what_was_back_lately_comes_back_by_command_only() {
        let (mut away, start) = (Away::default(), Instant::now());
        assert!(waits(&mut away, IT, start), "it was not back yet");
        away.came_back(IT, start);
        assert!(away.awaited(IT).is_none());
        for others in [(0, MemberId(2)), (1, MemberId(1))] {
            assert!(waits(&mut away, others, start), "{others:?} was not");
        }
        // However often it vanishes: in between, an operator has brought it back.
        for early in [Duration::ZERO, Duration::from_secs(1), FLAPS - Duration::from_nanos(1)] {
            assert!(!waits(&mut away, IT, start + early), "{early:?}");
        }
        assert!(waits(&mut away, IT, start + FLAPS));
        away.came_back(IT, start + FLAPS);
        assert!(
            !waits(&mut away, IT, start + FLAPS + Duration::from_secs(1)),
            "the last time counts"
        );
    }

    #[test]
    fn only_what_has_vanished_comes_back_by_itself() {
        let (mut away, now) = (Away::default(), Instant::now());
        let others = [IoError::Medium, IoError::NoSpace, IoError::Shrunk, IoError::TimedOut];
        for why in others.map(Some).into_iter().chain([None]) {
            assert!(waits(&mut away, IT, now));
            away.left(IT, why, Some("/dev/sdx".into()), now);
            assert!(away.awaited(IT).is_none(), "{why:?}");
        }
        away.was_out(IT);
        assert!(away.awaited(IT).is_some_and(|it| it.since_start && it.path.is_none()));
    }
}
