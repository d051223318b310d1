//! Requests and answers, as lines of JSON.
//!
//! A request is an object with the protocol's version `v`, the command `cmd` and its arguments; an answer
//! has `v`, and `ok` or `error`. Each is one line, and each request has one answer.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// The protocol's version.
pub const VERSION: u32 = 1;

/// The longest request, in bytes.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// The default directory of the sockets.
pub const RUN_DIR: &str = "/run/evenkeel";

/// The socket of the array called `name`.
#[must_use]
pub fn socket_path(run_dir: &Path, name: &str) -> PathBuf {
    run_dir.join(format!("{name}.sock"))
}

/// A request to a running array. A disk is a member's number, or the path of a member or spare. In
/// a log volume of several groups a member is GROUP.MEMBER. Paths are texts, see
/// [`paths`](crate::paths).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "cmd", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// The array's state: answered with an [`ArrayReport`](crate::ArrayReport).
    Status,
    /// The members' moods, and the reasons: answered with a [`WhyReport`](crate::WhyReport).
    Why,
    /// The array's metrics in Prometheus' text format: answered with a
    /// [`Page`](crate::Page).
    Metrics,
    /// Take a device in as a spare; if a member is missing, it is rebuilt onto it: answered with a
    /// [`DiskAnswer`](crate::DiskAnswer).
    DiskAdd {
        /// The device, as an absolute path.
        #[serde(with = "crate::paths::one")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        path: PathBuf,
        /// The group of a log volume; by default one that lacks a member, else the one with the
        /// fewest spares.
        #[serde(default)]
        group: Option<u8>,
        /// Overwrite the device's content.
        #[serde(default)]
        force: bool,
    },
    /// Take a member out of service.
    DiskFail {
        /// Which.
        disk: String,
    },
    /// When a member that is a modelled SSD collected garbage: answered with a [`FlashLog`](crate::FlashLog).
    FlashLog {
        /// Which member.
        disk: String,
        /// Leave out events that ended before: nanoseconds of `CLOCK_MONOTONIC`.
        since: u64,
    },
    /// Let go of a spare.
    DiskRemove {
        /// Which.
        disk: String,
    },
    /// Put a new device in a member's place and rebuild onto it: answered with a
    /// [`DiskAnswer`](crate::DiskAnswer).
    DiskReplace {
        /// Which member.
        disk: String,
        /// The new device, as an absolute path.
        #[serde(with = "crate::paths::one")]
        #[cfg_attr(feature = "schema", schemars(with = "String"))]
        with: PathBuf,
        /// Overwrite the new device's content.
        #[serde(default)]
        force: bool,
    },
    /// Hold the rebuild, resync or scrub.
    Pause,
    /// Let it go on.
    Resume,
    /// The pace of rebuild, resync and scrub, in bytes of each member per second.
    Limit {
        /// Guaranteed under load; unchanged if not given.
        #[serde(default)]
        min: Option<u64>,
        /// Never exceeded; unchanged if not given, unlimited if `u64::MAX`.
        #[serde(default)]
        max: Option<u64>,
        /// Within how many seconds each is to end, though the minimum would take longer; unchanged if
        /// not given, no matter when if 0.
        #[serde(default)]
        within: Option<u64>,
        /// While it goes faster than the minimum beside users, their requests may take so many percent
        /// of what they take in calm. Unchanged if not given; 0 keeps to the minimum.
        #[serde(default)]
        slowdown: Option<u32>,
    },
    /// Set the order in which redundancy is brought back.
    RebuildOrder {
        /// An order's name.
        order: String,
    },
    /// Set the policy against garbage collection: answered with a
    /// [`PolicyAnswer`](crate::PolicyAnswer).
    PolicySet {
        /// A scheme's name. If it names no cache, the cache stays as it is.
        scheme: String,
    },
    /// Set whether the staging log is a write cache, and in which order it is emptied: answered with a
    /// [`PolicyAnswer`](crate::PolicyAnswer).
    CacheSet {
        /// A cache's name.
        cache: String,
    },
    /// Bring home what is staged now: answered with a [`FlushAnswer`](crate::FlushAnswer), which does not
    /// wait for it.
    CacheFlush,
    /// Check that redundancy matches data.
    ScrubStart {
        /// And correct it.
        #[serde(default)]
        repair: bool,
    },
    /// End a scrub.
    ScrubCancel,
    /// Stop cleanly. Answered with a [`StopAnswer`](crate::StopAnswer) when the array is stopped; refused
    /// while it is in use.
    Stop {
        /// Stop even if the array is in use. This machine's file systems first write what they
        /// hold. Then users of NBD and of the file see errors, and those of the block device wait
        /// for the next start.
        #[serde(default)]
        force: bool,
    },
    /// How the array can be started again, answered with a [`Launch`]; refused if it can't.
    Launch,
    /// Stop cleanly for a restart: users of the block device wait meanwhile. Answered with the
    /// [`Launch`] when the array is stopped; refused while NBD or the file is in use.
    Leave {
        /// Stop even if they are, as with [`Request::Stop`].
        #[serde(default)]
        force: bool,
    },
}

/// How a process runs an array, so that another one can take its place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Launch {
    /// The process.
    pub pid: u32,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its working directory.
    #[serde(with = "crate::paths::one")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub directory: PathBuf,
    /// The devices that the array has now: members and spares.
    #[serde(default, with = "crate::paths::list")]
    #[cfg_attr(feature = "schema", schemars(with = "Vec<String>"))]
    pub devices: Vec<PathBuf>,
}

/// A line of a client.
#[derive(Debug, Serialize, Deserialize)]
struct Envelope {
    v: u32,
    #[serde(flatten)]
    rest: serde_json::Map<String, serde_json::Value>,
}

/// A line of the server.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Reply {
    pub(crate) v: u32,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Ok(serde_json::Value),
    Error(Refusal),
}

/// Why a request was refused, for programs (`code`) and for people.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, thiserror::Error)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[error("{message}")]
pub struct Refusal {
    /// The kind of error: hyphenated words that don't change between releases.
    pub code: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Refusal {
    /// One of this kind.
    #[must_use]
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self { code: code.to_owned(), message: message.into(), hint: None }
    }

    /// The same, with what to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The line of a request.
///
/// # Errors
/// None of the requests that there are.
pub fn encode_request(request: &Request) -> serde_json::Result<String> {
    let serde_json::Value::Object(rest) = serde_json::to_value(request)? else {
        unreachable!("a tagged enum is an object");
    };
    let mut line = serde_json::to_string(&Envelope { v: VERSION, rest })?;
    line.push('\n');
    Ok(line)
}

/// The request of a line, for an array.
///
/// # Errors
/// If it is none of this version.
pub fn decode_request(line: &[u8]) -> Result<Request, Refusal> {
    let bad = |error: serde_json::Error| {
        Refusal::new("bad-request", format!("not a request of version {VERSION}: {error}"))
    };
    let Envelope { v, rest } = serde_json::from_slice(line).map_err(bad)?;
    if v != VERSION {
        let message = format!("version {v} of the protocol is not known here, only {VERSION}");
        let hint = "use the `evenkeel` of the release that the array was started with";
        return Err(Refusal::new("unsupported-version", message).hint(hint));
    }
    serde_json::from_value(rest.into()).map_err(bad)
}

/// The line of an answer, for an array.
#[must_use]
pub fn encode_reply(outcome: Result<serde_json::Value, Refusal>) -> String {
    let outcome = match outcome {
        Ok(value) => Outcome::Ok(value),
        Err(refusal) => Outcome::Error(refusal),
    };
    let reply = Reply { v: VERSION, outcome };
    // Maps with string keys and numbers always encode.
    let mut line = serde_json::to_string(&reply).unwrap_or_default();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn requests_come_back_as_they_were() {
        for request in [
            Request::Status,
            Request::DiskReplace { disk: "2".into(), with: "/dev/sdz".into(), force: true },
            Request::DiskReplace {
                disk: "2".into(),
                with: OsStr::from_bytes(b"/\xff").into(),
                force: false,
            },
            Request::Limit { min: Some(1), max: None, within: Some(60), slowdown: None },
            Request::Stop { force: true },
            Request::Launch,
            Request::Leave { force: false },
        ] {
            let line = encode_request(&request).expect("it encodes");
            assert!(line.starts_with("{\"v\":1,"), "{line}");
            assert_eq!(decode_request(line.as_bytes()), Ok(request));
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        let code = |line: &str| decode_request(line.as_bytes()).expect_err(line).code;
        for line in [
            "",
            "[]",
            "{}",
            "null",
            r#"{"cmd":"status"}"#,
            r#"{"v":1}"#,
            r#"{"v":1,"cmd":"format"}"#,
            r#"{"v":1,"cmd":"disk-fail"}"#,
            r#"{"v":1,"cmd":"disk-fail","disk":"1","extra":true}"#,
            r#"{"v":1,"cmd":"disk-fail","disk":1}"#,
            r#"{"v":-1,"cmd":"status"}"#,
            "\u{fffd}",
        ] {
            assert_eq!(code(line), "bad-request", "{line}");
        }
        let stop = decode_request(br#"{"v":1,"cmd":"stop"}"#);
        assert_eq!(stop, Ok(Request::Stop { force: false }));
        assert_eq!(code(r#"{"v":2,"cmd":"status","new":1}"#), "unsupported-version");
    }

    #[test]
    fn replies_are_one_line() {
        let refusal = Refusal::new("busy", "two\nlines").hint("wait");
        let line = encode_reply(Err(refusal.clone()));
        assert_eq!(line.matches('\n').count(), 1);
        let reply: Reply = serde_json::from_str(&line).expect("it decodes");
        assert!(matches!(reply.outcome, Outcome::Error(found) if found == refusal));
    }
}
