//! What is known of an array's members and why: the answer to `status --why`.

use std::time::Duration;

use det::Instant;
use raidcore::engine::{Avoided, Choice, Engine, Judged, MemberStatus};
use raidcore::units::MemberId;
use serde::{Deserialize, Serialize};
use steering::detect::{Advice, Decision, Kind, Mood, Outcome};
use steering::{Controller, Steering};

use super::counts::{Detours, StagedWrites};

/// How many verdicts a report has.
const VERDICTS_TOLD: usize = 32;

/// What is known of an array's members, and why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct WhyReport {
    /// The policy against garbage collection.
    pub policy: String,
    /// Since when, in seconds since 1970, if that is on record.
    #[serde(default)]
    pub policy_since: Option<u64>,
    /// Reads that went around busy members.
    pub detours: Detours,
    /// Writes that were staged.
    pub staged: StagedWrites,
    /// Findings of the policy's trials, if it makes any.
    #[serde(default)]
    pub parts: Vec<PartReport>,
    /// The members, in order.
    pub members: Vec<MemberWhy>,
    /// Members that ought to be looked at, and perhaps replaced.
    pub advice: Vec<AdviceReport>,
    /// The latest verdicts that a member is busy, the newest first.
    pub verdicts: Vec<Verdict>,
}

/// A part of a policy and its benefit, by the mean latency of requests.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct PartReport {
    /// Its group, if it is one of a log volume of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// What it does.
    pub name: String,
    /// What `around_us` is about, in a few words.
    pub around: String,
    /// What `home_us` is about, in a few words.
    pub home: String,
    /// Whether it is on; it rests while it is found to lose.
    pub on: bool,
    /// Since when, in seconds since 1970; none if that has not changed since the policy was set or
    /// the array started.
    #[serde(default)]
    pub since: Option<u64>,
    /// In µs, without a busy member in their way.
    pub calm_us: Option<f64>,
    /// In µs, if they make the detour.
    pub around_us: Option<f64>,
    /// In µs, if they don't.
    pub home_us: Option<f64>,
}

impl PartReport {
    fn of(group: Option<u8>, judged: Judged, wall_at: impl Fn(Instant) -> u64) -> Self {
        let micros = |took: Option<Duration>| took.map(|took| took.as_secs_f64() * 1e6);
        let [name, around, home] = in_words(judged.choice).map(str::to_owned);
        Self {
            group,
            name,
            around,
            home,
            on: judged.on,
            since: judged.since.map(wall_at),
            calm_us: micros(judged.calm),
            around_us: micros(judged.around),
            home_us: micros(judged.home),
        }
    }
}

/// What is chosen, and what becomes of requests if it is, and if it is not.
const fn in_words(choice: Choice) -> [&'static str; 3] {
    let name = match choice {
        Choice::Detour { reads: true, small: true } => "small reads go around",
        Choice::Detour { reads: true, small: false } => "large reads go around",
        Choice::Detour { reads: false, small: true } => "small writes are staged",
        Choice::Detour { reads: false, small: false } => "large writes are staged",
        Choice::Turns => return ["members take turns", "in turns", "as they like"],
    };
    [name, "led around", "waiting"]
}

/// What is known of a member.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct MemberWhy {
    /// Its group, if it is one of a log volume of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// Its number.
    pub member: u8,
    /// For how long reads have gone around it by now, in µs; none if they don't.
    #[serde(default)]
    pub busy_us: Option<u64>,
    /// Reads that went around it, since the start.
    #[serde(default)]
    pub detours: u64,
    /// Writes that were staged on other members because of it, since the start.
    #[serde(default)]
    pub staged_writes: u64,
    /// What is known of it.
    #[serde(flatten)]
    pub known: Known,
}

/// How it is known whether a member is busy.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "from", rename_all = "lowercase")]
pub enum Known {
    /// It is not known: with this policy reads go home, or the member has no device.
    Nothing,
    /// It reports when it collects garbage.
    Told {
        /// Whether it collects now.
        busy: bool,
    },
    /// It is detected by its latencies.
    Detected(Detected),
}

/// What latencies show of a member, since the policy was set or the device became a member.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Detected {
    /// Its mood.
    #[serde(with = "MoodName")]
    pub mood: Mood,
    /// Its I/Os under way.
    pub in_flight: u32,
    /// Right verdicts that it is busy: late I/Os kept waiting.
    pub right: u64,
    /// Verdicts that were wrong.
    pub wrong: u64,
    /// The share of those that were right; none if there are none.
    pub precision: Option<f64>,
    /// I/Os that have ended and could be judged.
    pub judged: u64,
    /// Of these, late ones.
    pub late: u64,
    /// The share of late I/Os that began while the member was known to be busy; none if there are
    /// none. Those that went around it don't count.
    pub recall: Option<f64>,
}

/// A member has been slower than its peers for two days.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AdviceReport {
    /// Its group, if it is one of a log volume of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// Its number.
    pub member: u8,
    /// What it is slow at.
    #[serde(with = "KindName")]
    pub kind: Kind,
    /// Its median latency in percent of its peers'.
    pub median_percent: u32,
    /// Its 99th percentile in percent of its peers'.
    pub p99_percent: u32,
}

/// A verdict that a member is busy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// Its group, if it is one of a log volume of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// When, in seconds since 1970.
    pub at: u64,
    /// About which member.
    pub member: u8,
    /// Whether it was right, once that is known.
    pub right: Option<bool>,
    /// The reason of the verdict and its outcome, in words.
    pub text: String,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Mood", rename_all = "lowercase")]
enum MoodName {
    Free,
    Suspect,
    Busy,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Kind", rename_all = "lowercase")]
enum KindName {
    Read,
    Write,
}

impl WhyReport {
    /// The report at `now` (`wall` in seconds since 1970) for an array or a log volume's group.
    pub(super) fn new(
        (now, wall): (Instant, u64),
        group: Option<u8>,
        steering: &Steering,
        engine: &Engine,
    ) -> Self {
        let (scheme, controller) = (steering.scheme(), steering.controller());
        let counters = engine.counters();
        let wall_at = |at: Instant| wall.saturating_sub((now - at).as_secs());
        let mut parts = Vec::new();
        if let Some(policy) = engine.steering_policy() {
            policy.tell(&mut |judged| parts.push(PartReport::of(group, judged, wall_at)));
        }
        if let Some((_, controller)) = controller {
            controller.tell(&mut |judged| parts.push(PartReport::of(group, judged, wall_at)));
        }
        let controller = controller.filter(|_| scheme.goes_around());
        let known = |member: MemberId| {
            let asked = controller.filter(|(devices, _)| devices[member.index()].is_some());
            asked.map_or(Known::Nothing, |(_, controller)| Known::of(controller, member))
        };
        let member = |status: MemberStatus| {
            let Avoided { reads, writes } = status.avoided;
            let busy_for =
                controller.and_then(|(_, controller)| controller.busy_for(now, status.member));
            MemberWhy {
                group,
                member: status.member.0,
                busy_us: busy_for.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
                detours: reads,
                staged_writes: writes,
                known: known(status.member),
            }
        };
        let name = scheme.to_string();
        let on_record = engine.policy().filter(|policy| policy.name.as_str() == name);
        let detector = controller
            .and_then(|(_, controller)| controller.signals())
            .map(|signals| signals.detector());
        let verdict = |decision: &Decision| Verdict {
            group,
            at: wall_at(decision.at),
            member: decision.member.0,
            right: match decision.outcome {
                Outcome::Open => None,
                Outcome::Right { .. } => Some(true),
                Outcome::Wrong => Some(false),
            },
            text: decision.to_string(),
        };
        let recent = detector.into_iter().flat_map(|detector| detector.log().recent());
        Self {
            policy: name,
            policy_since: on_record.map(|policy| policy.since),
            detours: (counters.detours, counters.detour_blocks).into(),
            staged: (counters.staged_writes, counters.staged_blocks).into(),
            parts,
            members: engine.members().map(member).collect(),
            advice: detector
                .into_iter()
                .flat_map(|detector| detector.advice())
                .map(|advice| AdviceReport::of(group, advice))
                .collect(),
            verdicts: recent.take(VERDICTS_TOLD).map(verdict).collect(),
        }
    }

    /// The reports of two groups of a log volume as one.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.detours = self.detours + other.detours;
        self.staged = self.staged + other.staged;
        self.parts.extend(other.parts);
        self.members.extend(other.members);
        self.advice.extend(other.advice);
        self.verdicts.extend(other.verdicts);
        self.verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.at));
        self.verdicts.truncate(VERDICTS_TOLD);
        self
    }
}

impl Known {
    fn of(controller: &Controller, member: MemberId) -> Self {
        let watching = controller.signals().filter(|signals| !signals.telling().has(member));
        let Some(signals) = watching else {
            return Self::Told { busy: controller.who_is_busy().has(member) };
        };
        let detector = signals.detector();
        let score = detector.log().score_of(member);
        Self::Detected(Detected {
            mood: detector.mood(member),
            in_flight: detector.in_flight(member),
            right: score.right,
            wrong: score.wrong,
            precision: score.precision(),
            judged: score.judged,
            late: score.late,
            recall: score.recall_of_ios(),
        })
    }
}

impl AdviceReport {
    fn of(group: Option<u8>, advice: Advice) -> Self {
        let Advice { member, kind, median_percent, p99_percent } = advice;
        Self { group, member: member.0, kind, median_percent, p99_percent }
    }
}
