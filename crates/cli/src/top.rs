//! `evenkeel top`: arrays, their members and what waits, on a screen that follows them.
//!
//! Invariants:
//! - The terminal is given back as it was, however this ends: at the end, on errors, panics and signals.
//! - An array that does not answer holds up neither the keys nor the screen.

mod draw;
mod gather;
mod view;

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::signal::unix::{SignalKind, signal};

use crate::args::TopArgs;
use crate::output::Output;
use gather::Gatherer;
use view::Screen;

/// How long a key may wait for a signal to be noticed.
const TICK: Duration = Duration::from_millis(100);

/// What the interval can be changed to, in milliseconds.
const INTERVALS: [u64; 7] = [250, 500, 1000, 2000, 5000, 10_000, 60_000];

pub(crate) fn top(args: &TopArgs, run_dir: &Path, output: Output) -> Result<ExitCode> {
    if output.is_json() {
        bail!("`evenkeel top` is a screen: `evenkeel iostat 1 --json` tells programs the same");
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        bail!("`evenkeel top` needs a terminal; `evenkeel iostat 1` writes to files and pipes");
    }
    let ended = Arc::new(AtomicBool::new(false));
    end_on_signals(&ended)?;
    // The standard says that any value but an empty one means no colours.
    let colour = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut screen = Screen::new(args.interval, colour);
    let gatherer = Gatherer::start(run_dir, args.array.clone(), args.interval);
    let terminal = ratatui::try_init()?;
    let shown = show(terminal, &mut screen, &gatherer, &ended);
    ratatui::restore();
    shown.map(|()| ExitCode::SUCCESS)
}

fn show(
    mut terminal: DefaultTerminal,
    screen: &mut Screen,
    gatherer: &Gatherer,
    ended: &AtomicBool,
) -> Result<()> {
    while !ended.load(Ordering::Relaxed) {
        if let Some(told) = gatherer.news()? {
            screen.take(told);
        }
        terminal.draw(|frame| draw::draw(frame, screen))?;
        if !event::poll(TICK)? {
            continue;
        }
        let Event::Key(key) = event::read()? else { continue };
        if key.kind == KeyEventKind::Press && !act(key, screen, gatherer) {
            break;
        }
    }
    Ok(())
}

/// Does what a key says; whether it goes on.
fn act(key: KeyEvent, screen: &mut Screen, gatherer: &Gatherer) -> bool {
    let is = |codes: [KeyCode; 2]| codes.contains(&key.code);
    let held_down = key.modifiers.contains(KeyModifiers::CONTROL);
    if is([KeyCode::Char('q'), KeyCode::Esc]) || held_down && key.code == KeyCode::Char('c') {
        return false;
    }
    if is([KeyCode::Up, KeyCode::Char('k')]) {
        screen.select(-1);
    } else if is([KeyCode::Down, KeyCode::Char('j')]) {
        screen.select(1);
    } else if key.code == KeyCode::Char(' ') {
        screen.held = !screen.held;
    } else if is([KeyCode::Char('+'), KeyCode::Char('=')]) {
        set_interval(screen, gatherer, next(screen.interval));
    } else if key.code == KeyCode::Char('-') {
        set_interval(screen, gatherer, previous(screen.interval));
    }
    true
}

fn set_interval(screen: &mut Screen, gatherer: &Gatherer, interval: Duration) {
    screen.interval = interval;
    gatherer.set_interval(interval);
}

/// The next longer interval.
fn next(interval: Duration) -> Duration {
    let all = INTERVALS.map(Duration::from_millis);
    all.into_iter().find(|&longer| longer > interval).unwrap_or(interval)
}

/// The next shorter one.
fn previous(interval: Duration) -> Duration {
    let all = INTERVALS.map(Duration::from_millis);
    all.into_iter().rev().find(|&shorter| shorter < interval).unwrap_or(interval)
}

/// Notes signals that would end the program with the terminal as it is.
fn end_on_signals(ended: &Arc<AtomicBool>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = Arc::clone(ended);
    let (mut terminate, mut hangup) = {
        let _entered = runtime.enter();
        (signal(SignalKind::terminate())?, signal(SignalKind::hangup())?)
    };
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        ended.store(true, Ordering::Relaxed);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_go_up_and_down_to_their_ends() {
        let ms = Duration::from_millis;
        assert_eq!((next(ms(2000)), previous(ms(2000))), (ms(5000), ms(1000)));
        assert_eq!((next(ms(3000)), previous(ms(3000))), (ms(5000), ms(2000)));
        assert_eq!((next(ms(60_000)), previous(ms(250))), (ms(60_000), ms(250)));
    }
}
