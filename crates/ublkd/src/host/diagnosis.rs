//! What is known of an array's members and why: the answer to `status --why`.

use std::time::Duration;

use det::Instant;
use evenkeel_client::{
    AdviceReport, Detected, Kind, Known, MemberWhy, Mood, PartReport, Verdict, WhyReport,
};
use raidcore::engine::{Avoided, Choice, Engine, Judged, MemberStatus};
use raidcore::units::MemberId;
use steering::detect::{self, Advice, Decision, Outcome};
use steering::{Controller, Steering};

/// How many verdicts a report has.
const VERDICTS_TOLD: usize = 32;

fn part(group: Option<u8>, judged: Judged, wall_at: impl Fn(Instant) -> u64) -> PartReport {
    let micros = |took: Option<Duration>| took.map(|took| took.as_secs_f64() * 1e6);
    let [name, around, home] = in_words(judged.choice).map(str::to_owned);
    PartReport {
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

/// What is chosen, and what becomes of requests if it is, and if it is not.
const fn in_words(choice: Choice) -> [&'static str; 3] {
    let name = match choice {
        Choice::Detour { reads: true, small: true } => "small reads go around",
        Choice::Detour { reads: true, small: false } => "large reads go around",
        Choice::Detour { reads: false, small: true } => "small writes are staged",
        Choice::Detour { reads: false, small: false } => "large writes are staged",
        Choice::Late { small: true } => return late("small late writes are staged"),
        Choice::Late { small: false } => return late("large late writes are staged"),
        Choice::HedgedWrites => {
            return [
                "small writes that take long are staged as well",
                "answered",
                "going home alone",
            ];
        }
        Choice::Turns => return ["members take turns", "in turns", "as they like"],
    };
    [name, "led around", "waiting"]
}

const fn late(name: &'static str) -> [&'static str; 3] {
    [name, "staged once they have read", "going home then"]
}

/// The report at `now` (`wall` in seconds since 1970) for an array or a log volume's group.
pub(super) fn why_report(
    (now, wall): (Instant, u64),
    group: Option<u8>,
    steering: &Steering,
    engine: &Engine,
) -> WhyReport {
    let (scheme, controller) = (steering.scheme(), steering.controller());
    let counters = engine.counters();
    let wall_at = |at: Instant| wall.saturating_sub((now - at).as_secs());
    let mut parts = Vec::new();
    if let Some(policy) = engine.steering_policy() {
        policy.tell(&mut |judged| parts.push(part(group, judged, wall_at)));
    }
    if let Some((_, controller)) = controller {
        controller.tell(&mut |judged| parts.push(part(group, judged, wall_at)));
    }
    let controller = controller.filter(|_| scheme.goes_around());
    let known = |member: MemberId| {
        let asked = controller.filter(|(devices, _)| devices[member.index()].is_some());
        asked.map_or(Known::Nothing, |(_, controller)| known_of(controller, member))
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
    WhyReport {
        policy: name,
        policy_since: on_record.map(|policy| policy.since),
        detours: (counters.detours, counters.detour_blocks).into(),
        staged: (counters.staged_writes, counters.staged_blocks).into(),
        parts,
        members: engine.members().map(member).collect(),
        advice: detector
            .into_iter()
            .flat_map(|detector| detector.advice())
            .map(|advice| advice_of(group, advice))
            .collect(),
        verdicts: recent.take(VERDICTS_TOLD).map(verdict).collect(),
    }
}

/// The reports of two groups of a log volume as one.
pub(super) fn both(mut one: WhyReport, other: WhyReport) -> WhyReport {
    one.detours = one.detours + other.detours;
    one.staged = one.staged + other.staged;
    one.parts.extend(other.parts);
    one.members.extend(other.members);
    one.advice.extend(other.advice);
    one.verdicts.extend(other.verdicts);
    one.verdicts.sort_by_key(|verdict| std::cmp::Reverse(verdict.at));
    one.verdicts.truncate(VERDICTS_TOLD);
    one
}

fn known_of(controller: &Controller, member: MemberId) -> Known {
    let watching = controller.signals().filter(|signals| !signals.telling().has(member));
    let Some(signals) = watching else {
        return Known::Told { busy: controller.who_is_busy().has(member) };
    };
    let detector = signals.detector();
    let score = detector.log().score_of(member);
    Known::Detected(Detected {
        mood: match detector.mood(member) {
            detect::Mood::Free => Mood::Free,
            detect::Mood::Suspect => Mood::Suspect,
            detect::Mood::Busy => Mood::Busy,
        },
        in_flight: detector.in_flight(member),
        right: score.right,
        wrong: score.wrong,
        precision: score.precision(),
        judged: score.judged,
        late: score.late,
        recall: score.recall_of_ios(),
    })
}

fn advice_of(group: Option<u8>, advice: Advice) -> AdviceReport {
    let Advice { member, kind, median_percent, p99_percent } = advice;
    let kind = match kind {
        detect::Kind::Read => Kind::Read,
        detect::Kind::Write => Kind::Write,
    };
    AdviceReport { group, member: member.0, kind, median_percent, p99_percent }
}
