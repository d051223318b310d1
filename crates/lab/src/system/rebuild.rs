//! A member fails, and what it had is rebuilt.

use std::collections::VecDeque;
use std::time::Duration;

use det::Instant;
use raidcore::engine::{Note, PassEnd, PassKind, REBUILD_ORDERS, RebuildOrder};
use raidlog::Machine;
use raidlog::host::Said;
use serde::{Deserialize, Serialize};

use super::hosted::Beyond;
use crate::units::Bytes;

/// Reads of the failed member's data by which it is told whether most of what is read is there again.
const READS: usize = 100;

/// How many of these have to find it there.
const MOST: usize = 80;

/// `[array.rebuild]`: a member fails, and another SSD of the same kind replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RebuildSpec {
    /// The rate of the rebuild, which is neither exceeded nor missed without `max`; with it, the least.
    pub pace: Bytes,
    /// The greatest rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<Bytes>,
    /// How many times as long as in calm users' requests may take while it goes faster than the least rate;
    /// 0 if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowdown: Option<f64>,
    /// In which order: a name of [`REBUILD_ORDERS`].
    #[serde(default)]
    pub order: OrderName,
    /// Whether the measurement goes on when it has ended, so that all orders are compared over the same
    /// requests.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub goes_on: bool,
}

/// An order, by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OrderName(pub &'static RebuildOrder);

impl TryFrom<String> for OrderName {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let known = || REBUILD_ORDERS.iter().map(|order| order.name).collect::<Vec<_>>().join(", ");
        let order = RebuildOrder::named(&name);
        order.map(Self).ok_or_else(|| format!("there is no order {name:?}: there are {}", known()))
    }
}

impl From<OrderName> for String {
    fn from(OrderName(order): OrderName) -> Self {
        order.name.into()
    }
}

/// What is known of a rebuild.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rebuilt {
    /// How long it took, once it has ended.
    pub took: Option<Duration>,
    /// How long it took until four of five reads of what the failed member had found that rebuilt.
    pub mostly: Option<Duration>,
    /// Whether the measurement is over.
    pub is_end: bool,
}

/// Watches a rebuild.
pub(super) struct Watch {
    /// Whether the measurement goes on when it has ended.
    goes_on: bool,
    failed_at: Option<Instant>,
    rebuilt: Rebuilt,
    /// Whether the last reads of the failed member's data found it rebuilt.
    reads: VecDeque<bool>,
}

impl Watch {
    pub(super) fn new(goes_on: bool) -> Self {
        Self { goes_on, failed_at: None, rebuilt: Rebuilt::default(), reads: VecDeque::new() }
    }

    /// A member fails now.
    pub(super) fn failed(&mut self, now: Instant) {
        self.failed_at = Some(now);
    }

    /// All that the member had is there again.
    pub(super) fn ended(&mut self, now: Instant) {
        self.rebuilt.took = self.failed_at.map(|at| now - at);
        self.rebuilt.mostly = self.rebuilt.mostly.or(self.rebuilt.took);
        self.rebuilt.is_end = self.failed_at.is_some() && !self.goes_on;
    }

    /// Whether it matters what reads find.
    pub(super) fn looks(&self) -> bool {
        self.failed_at.is_some() && self.rebuilt.mostly.is_none()
    }

    /// A read of the failed member's data finds it rebuilt or not.
    pub(super) fn read(&mut self, now: Instant, whole: bool) {
        self.reads.push_back(whole);
        if self.reads.len() > READS {
            self.reads.pop_front();
        }
        let found = self.reads.iter().filter(|&&whole| whole).count();
        self.rebuilt.mostly = self.failed_at.filter(|_| found >= MOST).map(|at| now - at);
    }

    pub(super) fn rebuilt(&self) -> Rebuilt {
        self.rebuilt
    }
}

impl Beyond for Watch {
    fn hear(&mut self, now: Instant, said: Said) {
        match said {
            Said::Array(
                _,
                Note::PassEnded(
                    PassKind::Rebuild(_) | PassKind::Distribute(_) | PassKind::Copy(_),
                    PassEnd::Done,
                ),
            ) => self.ended(now),
            Said::Answer { result, .. } => {
                assert_eq!(result, Ok(()), "what is asked of it here is possible");
            }
            Said::Array(..)
            | Said::Volume(_)
            | Said::Release(..)
            | Said::Lost(_)
            | Said::Stopped(_) => {}
        }
    }

    fn settled(&mut self, _: &Machine) {}
}
