//! `evenkeel monitor`: tells people what is wrong with arrays, and what has happened to them.
//!
//! Invariants:
//! - An occurrence is told once, also by a process that comes after this one: what was told is stored
//!   before the next is. After a crash between the two it is told again rather than never.
//! - No way of telling holds up another one for longer than its time limit.

mod child;
mod findings;
mod message;
mod state;
mod watch;
mod ways;

use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;

use anyhow::{Result, bail};
use evenkeel_client::paths::shown;
use serde_json::json;
use ublkd::create::wall_clock;

use crate::args::MonitorArgs;
use crate::output::Output;
use message::{Message, Severity};
use state::{State, Store};
use watch::Watch;
use ways::{Way, Ways};

pub(crate) fn monitor(
    args: &MonitorArgs,
    (run_dir, state_dir): (&Path, &Path),
    output: Output,
) -> Result<ExitCode> {
    let ways = Ways::new(args, run_dir)?;
    let watch = Watch::new(run_dir, state_dir, args);
    let teller = Teller { ways, output, once: args.once, host: host() };
    if args.test {
        return teller.test();
    }
    if args.once && !args.new {
        let mut failed = Vec::new();
        let messages = watch.now()?;
        for message in &messages {
            failed.extend(teller.tell(message, &mut State::default()));
        }
        return Ok(teller.told(&messages, &failed));
    }
    let (store, mut state) = Store::open(run_dir)?;
    loop {
        teller.retry(&mut state);
        let round = teller.round(&watch, &store, &mut state);
        if args.once {
            let (messages, failed) = round?;
            return Ok(teller.told(&messages, &failed));
        }
        if let Err(error) = round {
            teller.output.warn(&format!("{error:#}"));
        }
        sleep(args.interval);
    }
}

/// Tells messages.
struct Teller {
    ways: Ways,
    output: Output,
    /// All that is told is one result.
    once: bool,
    host: String,
}

impl Teller {
    fn with_host(&self, message: &Message) -> Message {
        Message { host: self.host.clone(), ..message.clone() }
    }

    /// Sends a message by all ways; returns what has failed.
    fn tell(&self, message: &Message, state: &mut State) -> Vec<String> {
        let message = self.with_host(message);
        let (ways, mut wrong) = self.ways.all();
        for (way, why) in self.ways.send(&message, &ways) {
            wrong.push(format!("{} failed: {why}", way.name()));
            state.try_again(way, &message, wall_clock());
        }
        for wrong in &wrong {
            self.output.warn(wrong);
        }
        wrong
    }

    /// Tries again what has failed.
    fn retry(&self, state: &mut State) {
        state.retry(wall_clock(), |message, way| {
            self.ways.send(message, std::slice::from_ref(way)).is_empty()
        });
    }

    /// Tells what is new, and stores that. Returns it, and what has failed.
    fn round(
        &self,
        watch: &Watch,
        store: &Store,
        state: &mut State,
    ) -> Result<(Vec<Message>, Vec<String>)> {
        let (mut told, mut failed) = (Vec::new(), Vec::new());
        let mut next = state.clone();
        for (key, message) in watch.news(&mut next)? {
            if !self.once {
                self.show(&message);
            }
            failed.extend(self.tell(&message, state));
            state.told((&key, &message), &next, wall_clock());
            store.save(state)?;
            told.push(message);
        }
        state.follow(next);
        store.save(state)?;
        Ok((told, failed))
    }

    /// Prints a message.
    fn show(&self, message: &Message) {
        let message = self.with_host(message);
        self.output.result(&json!({ "message": message }), || message.text());
    }

    /// What was told at once, as the result.
    fn told(&self, messages: &[Message], failed: &[String]) -> ExitCode {
        let told: Vec<Message> = messages.iter().map(|message| self.with_host(message)).collect();
        self.output.result(&json!({ "told": told, "failed": failed }), || match told.len() {
            0 => "there is nothing to tell".to_owned(),
            _ => told.iter().map(Message::text).collect::<Vec<_>>().join("\n"),
        });
        if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Sends a message that nothing is wrong.
    fn test(&self) -> Result<ExitCode> {
        let (ways, _) = self.ways.all();
        if ways.is_empty() {
            bail!(
                "there is no way to tell anything: give --mail or --webhook, or put a program into {}",
                shown(self.ways.hooks())
            );
        }
        let message = Message {
            event: "test".to_owned(),
            severity: Severity::Info,
            array: "test".to_owned(),
            uuid: None,
            disk: None,
            message: "this is a test of `evenkeel monitor`: nothing is wrong".to_owned(),
            what_to_do: Some("nothing".to_owned()),
            at: wall_clock(),
            host: String::new(),
        };
        let failed = self.tell(&message, &mut State::default());
        let names: Vec<String> = ways.iter().map(Way::name).collect();
        self.output.result(&json!({ "ways": names, "failed": failed }), || {
            format!("a test message was sent by {}", names.join(", "))
        });
        Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The name of this machine.
fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
