//! What was asked for between two readings of the counters.

use evenkeel_client::{ArrayReport, IoReport, TransfersReport};
use serde_json::{Value, json};

/// An array's I/O in an interval.
pub(crate) struct Interval {
    /// The array's name.
    pub(crate) name: String,
    /// How long it was.
    pub(crate) seconds: f64,
    /// The upper bounds of the buckets.
    pub(crate) bounds_ns: Vec<u64>,
    /// Users' requests, by kind and size.
    pub(crate) requests: Vec<TransfersReport>,
    /// The members' I/O.
    pub(crate) members: Vec<MemberInterval>,
}

/// A member's I/O in an interval.
pub(crate) struct MemberInterval {
    /// Its number, and its group's if there are several.
    pub(crate) disk: String,
    /// Its device, as text.
    pub(crate) path: String,
    /// By kind.
    pub(crate) io: Vec<TransfersReport>,
}

impl Interval {
    /// From the reading before to this one. Without one before, or if the array was started again since,
    /// from its start. None if its process tells no counters.
    pub(crate) fn between(before: Option<&ArrayReport>, now: &ArrayReport) -> Option<Self> {
        let io = now.io.as_ref()?;
        let same = |before: &&ArrayReport| {
            before.pid == now.pid && before.io.as_ref().is_some_and(|b| b.since_ns == io.since_ns)
        };
        let before = before.filter(same);
        let earlier = before.and_then(|before| before.io.as_ref());
        let since = earlier.map_or(io.since_ns, |before| before.at_ns);
        let members = now.members.iter().map(|member| {
            let it = |other: &&evenkeel_client::MemberReport| {
                (other.group, other.member, &other.uuid)
                    == (member.group, member.member, &member.uuid)
            };
            let earlier = before.and_then(|before| before.members.iter().find(it));
            MemberInterval {
                disk: evenkeel_client::disk_name(member.group, member.member),
                path: member
                    .path
                    .as_deref()
                    .map(evenkeel_client::paths::to_text)
                    .unwrap_or_default(),
                io: differences(earlier.map_or(&[], |earlier| &earlier.io), &member.io),
            }
        });
        let none = IoReport { requests: Vec::new(), ..io.clone() };
        Some(Self {
            name: now.facts.name.clone(),
            seconds: io.at_ns.saturating_sub(since) as f64 / 1e9,
            bounds_ns: io.bounds_ns.clone(),
            requests: differences(&earlier.unwrap_or(&none).requests, &io.requests),
            members: members.collect(),
        })
    }

    /// All requests of a kind, whatever their size.
    pub(crate) fn all(&self, op: &str) -> TransfersReport {
        all(&self.requests, op)
    }

    /// For programs.
    pub(crate) fn value(&self) -> Value {
        let told = |rate: &TransfersReport| self.told(rate);
        let ops = ["read", "write", "flush", "discard", "write-zeroes"];
        let members = self.members.iter().map(|member| {
            let io: Vec<Value> = member.io.iter().map(told).collect();
            json!({ "disk": member.disk, "path": member.path, "io": io })
        });
        json!({
            "name": self.name,
            "seconds": self.seconds,
            "bounds_ns": self.bounds_ns,
            "totals": ops.map(|op| self.told(&self.all(op))),
            "requests": self.requests.iter().map(told).collect::<Vec<_>>(),
            "members": members.collect::<Vec<_>>(),
        })
    }

    fn told(&self, rate: &TransfersReport) -> Value {
        let us = |nanos: Option<f64>| nanos.map(|nanos| nanos / 1e3);
        let mut value = json!({
            "op": rate.op,
            "count": count(rate),
            "per_second": self.per_second(count(rate)),
            "bytes_per_second": self.per_second(rate.bytes),
            "mean_us": us(mean(rate)),
            "p50_us": us(quantile(rate, &self.bounds_ns, 0.5)),
            "p99_us": us(quantile(rate, &self.bounds_ns, 0.99)),
            "buckets": rate.buckets,
        });
        if let Some(bytes) = rate.up_to_bytes {
            value["up_to_bytes"] = json!(bytes);
        }
        value
    }

    /// How many a second.
    pub(crate) fn per_second(&self, count: u64) -> f64 {
        if self.seconds > 0.0 { count as f64 / self.seconds } else { 0.0 }
    }
}

/// How many there were.
pub(crate) fn count(rate: &TransfersReport) -> u64 {
    rate.buckets.iter().sum()
}

/// All of a kind, whatever their size.
pub(crate) fn all(rates: &[TransfersReport], op: &str) -> TransfersReport {
    let mut sum = nothing(op, None);
    for rate in rates.iter().filter(|rate| rate.op == op) {
        sum.bytes += rate.bytes;
        sum.time_ns += rate.time_ns;
        sum.buckets.resize(sum.buckets.len().max(rate.buckets.len()), 0);
        sum.buckets.iter_mut().zip(&rate.buckets).for_each(|(sum, one)| *sum += one);
    }
    sum
}

/// How long they took in the mean, in nanoseconds; none if there were none.
pub(crate) fn mean(rate: &TransfersReport) -> Option<f64> {
    let count = count(rate);
    (count > 0).then(|| rate.time_ns as f64 / count as f64)
}

/// What this share of them took at most, in nanoseconds; none if there were none. Within its bucket it is
/// as if they were spread evenly; beyond the last bound it is that.
pub(crate) fn quantile(rate: &TransfersReport, bounds_ns: &[u64], share: f64) -> Option<f64> {
    let rank = (count(rate) as f64 * share).ceil().max(1.0);
    let (mut below, mut least) = (0.0, 0.0);
    for (&bucket, &bound) in rate.buckets.iter().zip(bounds_ns) {
        let (here, bound) = (bucket as f64, bound as f64);
        if below + here >= rank {
            return Some(least + (bound - least) * (rank - below) / here);
        }
        (below, least) = (below + here, bound);
    }
    (count(rate) > 0).then_some(least)
}

/// What was added to each kind since `before`.
fn differences(before: &[TransfersReport], now: &[TransfersReport]) -> Vec<TransfersReport> {
    let since = |now: &TransfersReport| {
        let kind =
            |other: &&TransfersReport| (&other.op, other.up_to_bytes) == (&now.op, now.up_to_bytes);
        let before = before.iter().find(kind).filter(|before| !began_anew(before, now));
        let before = before.cloned().unwrap_or_else(|| nothing(&now.op, now.up_to_bytes));
        let earlier = before.buckets.iter().copied().chain(std::iter::repeat(0));
        TransfersReport {
            bytes: now.bytes - before.bytes,
            time_ns: now.time_ns - before.time_ns,
            buckets: now.buckets.iter().zip(earlier).map(|(now, before)| now - before).collect(),
            ..now.clone()
        }
    };
    now.iter().map(since).collect()
}

/// Whether counting has begun again: the device was opened anew.
fn began_anew(before: &TransfersReport, now: &TransfersReport) -> bool {
    let fewer = before.buckets.iter().zip(&now.buckets).any(|(before, now)| now < before);
    fewer || now.bytes < before.bytes || now.time_ns < before.time_ns
}

fn nothing(op: &str, up_to_bytes: Option<u64>) -> TransfersReport {
    TransfersReport { op: op.to_owned(), up_to_bytes, bytes: 0, time_ns: 0, buckets: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(bytes: u64, time_ns: u64, buckets: &[u64]) -> TransfersReport {
        TransfersReport { bytes, time_ns, buckets: buckets.to_vec(), ..nothing("read", None) }
    }

    #[test]
    fn what_was_added_is_counted() {
        let before = [reads(100, 10, &[1, 0, 2]), nothing("write", None)];
        let now = [reads(150, 40, &[1, 5, 3]), reads(7, 7, &[1])];
        assert_eq!(differences(&before, &now[..1]), [reads(50, 30, &[0, 5, 1])]);
        // Of a device that was opened anew, all counts.
        assert_eq!(differences(&now[..1], &before[..1]), before[..1]);
        assert_eq!(differences(&[], &before[..1]), before[..1]);
    }

    #[test]
    fn quantiles_are_within_their_bucket() {
        let bounds = [10, 20, 50];
        let of = |buckets: &[u64], share| quantile(&reads(0, 0, buckets), &bounds, share);
        assert_eq!(of(&[0, 0, 0, 0], 0.5), None);
        assert_eq!(of(&[], 0.5), None);
        assert_eq!(of(&[100, 0, 0, 0], 0.5), Some(5.0));
        assert_eq!(of(&[0, 10, 0, 0], 0.5), Some(15.0));
        assert_eq!(of(&[98, 0, 2, 0], 0.99), Some(35.0));
        assert_eq!(of(&[0, 0, 0, 3], 0.5), Some(50.0), "longer than the last bound");
        assert_eq!(of(&[1, 0, 0, 0], 0.99), Some(10.0));
    }

    #[test]
    fn kinds_are_added_up() {
        let small = TransfersReport { up_to_bytes: Some(4096), ..reads(10, 20, &[1, 2]) };
        let sum = all(&[small, reads(5, 6, &[1, 1, 1]), nothing("write", None)], "read");
        assert_eq!(sum, reads(15, 26, &[2, 3, 1]));
        assert_eq!(mean(&sum), Some(26.0 / 6.0));
        assert_eq!(mean(&all(&[], "read")), None);
    }
}
