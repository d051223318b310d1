//! What is known of members and why, as plain data: the answer to `status --why`.

use serde::{Deserialize, Serialize};

use super::{Detours, StagedWrites};

/// What is known of an array's members, and why.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// What is known of a member.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Detected {
    /// Its mood.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdviceReport {
    /// Its group, if it is one of a log volume of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u8>,
    /// Its number.
    pub member: u8,
    /// What it is slow at.
    pub kind: Kind,
    /// Its median latency in percent of its peers'.
    pub median_percent: u32,
    /// Its 99th percentile in percent of its peers'.
    pub p99_percent: u32,
}

/// A verdict that a member is busy.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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

/// How a member's latencies are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Mood {
    /// As its usual ones.
    Free,
    /// Some were late.
    Suspect,
    /// It is busy.
    Busy,
}

/// What members are compared by.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Their reads.
    Read,
    /// Their writes.
    Write,
}
