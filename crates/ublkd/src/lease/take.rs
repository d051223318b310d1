//! Takes the lease of an array that was attached, or tells why it can't be had.

use std::time::{Duration, Instant};

use raidcore::lease::{Candidate, Wait};
use raidcore::meta::{ArrayRecord, HostName, LeaseBlock, Term};
use raidcore::units::{MemberId, Set};

use super::agent::{Agent, Progress};
use super::clock::boot_time;
use super::file::LeaseFile;
use super::identity::me;
use super::{LeaseError, LeaseOptions};
use crate::host::Group;
use crate::members::Device;

/// Takes the lease of an array; nothing if its members have to be read anew before. What is waited for is
/// told to `tell`. A holder that renews it, or members that don't answer, are waited for until `deadline`. The
/// group's devices are written only with the lease's permission from now on.
///
/// # Errors
/// If it can't be had.
pub(crate) async fn take(
    group: &mut Group,
    term: Term,
    options: LeaseOptions,
    deadline: Instant,
    tell: &dyn Fn(&str),
) -> Result<Option<Agent>, LeaseError> {
    let record = &group.assembled.record;
    record.may_be_leased()?;
    let files = files(group)?;
    let there: Set<MemberId> = files.iter().map(|(member, _)| *member).collect();
    let serving = record.serving();
    let candidate = Candidate {
        me: me()?,
        term,
        members: there,
        // Those that are not here can't tell more than the operator.
        voters: if options.fenced { serving.and(there) } else { serving },
        events: record.events,
        least: record.least_members(),
        fenced: options.fenced,
    };
    let mut agent = Agent::start(record.array, candidate, files)?;
    // From now on their locks outlive what the agent has begun to write.
    group.devices.iter_mut().flatten().for_each(|device| device.under(agent.permit()));
    let mut watched = Watched { record, first: None, told: None };
    loop {
        let progress = *agent.progress.borrow_and_update();
        match progress {
            Progress::Held(before) => {
                tell_held(&record.name, before);
                return Ok(Some(agent));
            }
            Progress::Ended => return Err(lost(&agent, &record.name)),
            Progress::Waits(Wait::Record) => return Ok(None),
            Progress::Waits(wait) => {
                let is_late = Instant::now() >= deadline;
                if let Some(error) = watched.refuses(wait, candidate.voters, is_late) {
                    return Err(error);
                }
                watched.tell(wait, tell);
            }
        }
        let rest = deadline.saturating_duration_since(Instant::now()).max(LOOK);
        // It is looked at again when that time is over, too.
        if let Ok(Err(_)) = tokio::time::timeout(rest, agent.progress.changed()).await {
            // One that has ended by itself has said so, and that was seen.
            return Err(lost(&agent, &record.name));
        }
    }
}

/// How often to look at what is waited for when nothing is told.
const LOOK: Duration = Duration::from_millis(250);

fn tell_held(name: &str, before: Option<HostName>) {
    match before {
        Some(before) => tracing::info!(array = %name, "the lease is taken; {before} had it before"),
        None => tracing::info!(array = %name, "the lease is taken; none had it before"),
    }
}

fn lost(agent: &Agent, name: &str) -> LeaseError {
    match agent.permit().lost() {
        Some(why) => LeaseError::Lost { name: name.to_owned(), why },
        None => std::io::Error::other("its agent has ended").into(),
    }
}

/// The files of the members that serve and are there.
fn files(group: &Group) -> Result<Vec<(MemberId, LeaseFile)>, LeaseError> {
    let all = group.devices.iter().flatten();
    if let Some(path) = all.clone().find(|d| d.flash_profile().is_some()).map(Device::path) {
        return Err(LeaseError::Flash { path: path.to_path_buf() });
    }
    if let Some(path) = all.clone().find(|device| !device.is_direct()).map(Device::path) {
        return Err(LeaseError::NotDirect { path: path.to_path_buf() });
    }
    let serving = group.assembled.record.serving();
    let there =
        serving.filter_map(|member| Some((member, group.devices[member.index()].as_ref()?)));
    there.map(|(member, device)| Ok((member, device.lease_file()?))).collect()
}

/// What was seen while the lease could not be had.
struct Watched<'a> {
    record: &'a ArrayRecord,
    /// The first holder that was seen, and how far it was.
    first: Option<LeaseBlock>,
    told: Option<String>,
}

impl Watched<'_> {
    /// Why it is waited no longer.
    fn refuses(&mut self, wait: Wait, voters: Set<MemberId>, is_late: bool) -> Option<LeaseError> {
        let name = self.record.name.clone();
        match wait {
            Wait::Holder(block, _) => {
                let first = self.first.get_or_insert(block);
                let at = |block: &LeaseBlock| (block.generation, block.counter);
                let lives = at(&block) > at(first);
                (lives && is_late).then_some(LeaseError::Held { name, host: block.holder.name })
            }
            Wait::Quorum(there) if is_late => {
                let there = there.and(voters).len();
                Some(LeaseError::TooFew { name, there, voters: voters.len() })
            }
            Wait::Quorum(_) | Wait::Members | Wait::Record | Wait::Claim(_) => None,
        }
    }

    /// Tells what is waited for, if that is something else than before.
    fn tell(&mut self, wait: Wait, tell: &dyn Fn(&str)) {
        let name = &self.record.name;
        let seconds = |until: det::Instant| until.since(boot_time()).as_secs_f64();
        let (what, text) = match wait {
            Wait::Holder(block, until) => {
                let host = block.holder.name;
                let text = format!(
                    "{name}: host {host} has the lease; it counts as dead if it does not renew it for {:.1} s",
                    seconds(until)
                );
                (format!("holder {host}"), text)
            }
            Wait::Claim(until) => {
                let text =
                    format!("{name}: the lease is claimed, and is held in {:.1} s", seconds(until));
                ("claim".to_owned(), text)
            }
            Wait::Quorum(there) => {
                let text = format!(
                    "{name}: only {} of its members answer, too few to decide who has the lease; \
                     they are waited for",
                    there.len()
                );
                ("quorum".to_owned(), text)
            }
            Wait::Members | Wait::Record => return,
        };
        if self.told.as_ref() != Some(&what) {
            tracing::info!("{text}");
            tell(&text);
            self.told = Some(what);
        }
    }
}
