//! Requests that change an array, in the words of the command line, for its history.

use std::fmt::Display;

use super::Request;
use crate::paths::shown;

/// The command of a request to the array called `name`; none if it changes nothing that lasts, or is
/// told in another way.
pub(super) fn in_words(request: &Request, name: &str) -> Option<String> {
    let forced = |force: bool| if force { " --force" } else { "" };
    Some(match request {
        Request::Status
        | Request::Why
        | Request::Metrics
        | Request::FlashLog { .. }
        | Request::Launch => return None,
        Request::DiskAdd { path, group, force } => format!(
            "disk add {name} {}{}{}",
            shown(path),
            option("group", group.as_ref()),
            forced(*force)
        ),
        Request::DiskFail { disk } => format!("disk fail {name} {disk}"),
        Request::DiskRemove { disk } => format!("disk remove {name} {disk}"),
        Request::DiskReplace { disk, with, force } => {
            format!("disk replace {name} {disk} {}{}", shown(with), forced(*force))
        }
        Request::Pause => format!("rebuild pause {name}"),
        Request::Resume => format!("rebuild resume {name}"),
        Request::Limit { min, max, within, slowdown } => format!(
            "rebuild limit {name}{}{}{}{}",
            option("min", min.as_ref()),
            option("max", max.as_ref()),
            option("within", within.map(|seconds| format!("{seconds}s"))),
            option("slowdown", slowdown.as_ref())
        ),
        Request::RebuildOrder { order } => format!("rebuild order {name} {order}"),
        Request::PolicySet { scheme } => format!("policy set {name} {scheme}"),
        Request::CacheSet { cache } => format!("cache set {name} {cache}"),
        Request::CacheFlush => format!("cache flush {name}"),
        Request::ScrubStart { repair } => {
            format!("scrub start {name}{}", if *repair { " --repair" } else { "" })
        }
        Request::ScrubCancel => format!("scrub cancel {name}"),
        Request::Stop { force } => format!("stop {name}{}", forced(*force)),
        Request::Leave { force } => format!("restart {name}{}", forced(*force)),
    })
}

/// An option of a command, if it has a value.
fn option(name: &str, value: Option<impl Display>) -> String {
    value.map_or_else(String::new, |value| format!(" --{name} {value}"))
}
