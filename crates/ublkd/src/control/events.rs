//! Follows the events of an array: for its log, its history, and reports.

use std::sync::PoisonError;

use evenkeel_client::EventReport;
use raidcore::engine::Note;
use raidcore::units::MemberId;

use super::messages::{Weight, describe, describe_volume, is_news, kind, member_of, weight};
use super::service::Service;
use crate::history::What;
use crate::host::Happened;

/// How many events are in a report.
const EVENTS_TOLD: usize = 32;

impl Service {
    /// Follows the array's events until it ends, logs them, and keeps the latest for reports.
    pub async fn follow_events(&self) {
        let mut notes = self.host.notes();
        while let Some(event) = notes.next().await {
            let text = match &event.what {
                Happened::Volume(note) => describe_volume(note),
                Happened::Array { group, note } => {
                    let facts = &self.arrays[group.index()].facts;
                    let place = |member: MemberId| facts.place(member.0);
                    describe(note, place, |device| self.host.device_path(device))
                }
            };
            if let Happened::Array { group, note } = &event.what {
                self.follow_members(group.index(), note);
                if matches!(note, Note::MemberReplaced { .. }) {
                    self.remember().await;
                }
            }
            match weight(&event.what) {
                Weight::Error => tracing::error!("{text}"),
                Weight::Warning => tracing::warn!("{text}"),
                Weight::Info if is_news(&event.what) => tracing::info!("{text}"),
                Weight::Info => {
                    tracing::debug!("{text}");
                    continue;
                }
            }
            let kind = kind(&event.what).to_owned();
            let disk = self.disk_of(&event.what);
            if let Some(history) = &self.history {
                let (kind, text, disk) = (kind.clone(), text.clone(), disk.clone());
                history.add(What { kind, text, disk, by: None });
            }
            let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
            if events.len() == EVENTS_TOLD {
                events.pop_front();
            }
            events.push_back(EventReport { at: event.at, kind, disk, text });
        }
    }

    /// The member that an event is about, as commands name it.
    fn disk_of(&self, what: &Happened) -> Option<String> {
        let Happened::Array { group, .. } = what else { return None };
        member_of(what).map(|member| self.arrays[group.index()].facts.disk(member.0))
    }
}
