//! The ways in which messages leave: hooks, mail, webhooks.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use evenkeel_client::paths::shown;
use serde::{Deserialize, Serialize};

use super::child::{self, Running};
use super::message::Message;
use crate::args::MonitorArgs;

/// How long a mail or a webhook may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Where sendmail is, if it is not in the path.
const SENDMAIL: [&str; 2] = ["/usr/sbin/sendmail", "/usr/lib/sendmail"];

/// A way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Way {
    /// A program.
    Hook(PathBuf),
    /// A mail to this address.
    Mail(String),
    /// A POST to this URL.
    Webhook(String),
}

impl Way {
    /// Its name, for people. What is secret of a URL is left out.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Hook(path) => format!("the hook {}", shown(path)),
            Self::Mail(address) => format!("mail to {address}"),
            Self::Webhook(url) => {
                let host = url.split('/').nth(2).unwrap_or_default();
                let host = host.rsplit('@').next().unwrap_or_default();
                format!("the webhook at {host}")
            }
        }
    }
}

/// All ways.
#[derive(Debug)]
pub(super) struct Ways {
    hooks: PathBuf,
    hook_limit: Duration,
    run_dir: PathBuf,
    sendmail: PathBuf,
    others: Vec<Way>,
}

impl Ways {
    /// # Errors
    /// If a way can't work.
    pub(super) fn new(args: &MonitorArgs, run_dir: &Path) -> Result<Self> {
        if let Some(hooks) = &args.hooks {
            fs::read_dir(hooks).with_context(|| format!("--hooks {}", shown(hooks)))?;
        }
        let sendmail = match &args.sendmail {
            Some(path) => std::path::absolute(path)?,
            None => in_path("sendmail")
                .or_else(|| SENDMAIL.iter().map(PathBuf::from).find(|path| path.exists()))
                .unwrap_or_else(|| SENDMAIL[0].into()),
        };
        if !args.mail.is_empty() && !sendmail.exists() {
            bail!(
                "there is no {}, so no mail can be sent: install a package that has it (such as \
                 msmtp-mta or postfix), or name it by --sendmail",
                shown(&sendmail)
            );
        }
        if !args.webhook.is_empty() && in_path("curl").is_none() {
            bail!("there is no curl, which webhooks are sent by: install it");
        }
        let mail = args.mail.iter().cloned().map(Way::Mail);
        let others = mail.chain(args.webhook.iter().cloned().map(Way::Webhook)).collect();
        // Hooks run in another directory.
        let hooks = std::path::absolute(args.hooks.as_deref().unwrap_or(Path::new(HOOKS)))?;
        let run_dir = std::path::absolute(run_dir)?;
        Ok(Self { hooks, hook_limit: args.hook_timeout, run_dir, sendmail, others })
    }

    /// All that there are now, and what is wrong with hooks that are left out.
    pub(super) fn all(&self) -> (Vec<Way>, Vec<String>) {
        let (hooks, wrong) = hooks(&self.hooks);
        (hooks.into_iter().map(Way::Hook).chain(self.others.iter().cloned()).collect(), wrong)
    }

    /// Where hooks are.
    pub(super) fn hooks(&self) -> &Path {
        &self.hooks
    }

    /// Sends a message by some ways at once; tells of those that have failed why.
    pub(super) fn send(&self, message: &Message, ways: &[Way]) -> Vec<(Way, String)> {
        let started = ways.iter().map(|way| (way, self.start(message, way)));
        let started: Vec<(&Way, Result<Running, String>)> = started.collect();
        let ended = started.into_iter().filter_map(|(way, running)| {
            let failed = running.and_then(Running::end).err()?;
            Some((way.clone(), failed))
        });
        ended.collect()
    }

    fn start(&self, message: &Message, way: &Way) -> Result<Running, String> {
        let started = match way {
            Way::Hook(path) => {
                let mut command = Command::new(path);
                command.envs(message.environment()).env("EVENKEEL_RUN_DIR", &self.run_dir);
                command.current_dir("/");
                child::start(command, "", true, self.hook_limit)
            }
            Way::Mail(address) => {
                let mut command = Command::new(&self.sendmail);
                command.args(["-i", "--", address]);
                child::start(command, &message.mail(address), false, LIMIT)
            }
            Way::Webhook(url) => {
                let mut command = Command::new("curl");
                // A URL may be a secret, and arguments are seen by everyone.
                command.args(["-q", "--config", "-"]);
                child::start(command, &webhook(url, &message.json().to_string()), false, LIMIT)
            }
        };
        started.map_err(|error| error.to_string())
    }
}

/// Where hooks are, unless another place is given.
const HOOKS: &str = "/etc/evenkeel/hooks.d";

/// curl's configuration of a POST.
fn webhook(url: &str, body: &str) -> String {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    format!(
        "url = {}\nheader = \"Content-Type: application/json\"\ndata-binary = {}\n\
         proto = \"=http,https\"\nmax-time = {}\noutput = \"/dev/null\"\ngloboff\nsilent\nshow-error\nfail\n",
        quoted(url),
        quoted(body),
        LIMIT.as_secs()
    )
}

/// The programs in a directory, by their names, and what is wrong with those that are left out.
fn hooks(dir: &Path) -> (Vec<PathBuf>, Vec<String>) {
    let (mut hooks, mut wrong) = (Vec::new(), Vec::new());
    // Without the directory there are none.
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // What editors and package managers leave.
        let left = name.starts_with('.')
            || name.ends_with('~')
            || name.contains(".dpkg-")
            || name.contains(".rpm");
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if left || !metadata.is_file() {
            continue;
        }
        let (mode, owner) = (metadata.permissions().mode(), metadata.uid());
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            wrong.push(format!(
                "{} is left out: it belongs to user {owner}, not to root",
                shown(&path)
            ));
        } else if mode & 0o022 != 0 {
            wrong.push(format!(
                "{0} is left out, as others can write it: `chmod go-w {0}`",
                shown(&path)
            ));
        } else if mode & 0o111 == 0 {
            wrong.push(format!(
                "{0} is left out, as it can't be executed: `chmod +x {0}`",
                shown(&path)
            ));
        } else {
            hooks.push(path);
        }
    }
    (hooks, wrong)
}

/// A program, if it is in the path.
fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|dir| dir.join(name)).find(|program| program.is_file())
}
