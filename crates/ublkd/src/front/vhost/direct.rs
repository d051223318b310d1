//! A device that is served on the volume's thread: a kick wakes that thread and no other, requests reach
//! the engine in the same pass, and are answered at its end. The session's thread has the connection.
//!
//! Invariants:
//! - Nothing here waits for the VM, its VMM, or the session's thread. While that looks at the device, it
//!   is looked at later.
//! - The device is touched only as long as it is this one's ([`Device::hand`]).
//! - In a pass the device is looked at twice at most: what came leads to requests, and what was answered
//!   to answers. How much a look does is limited ([`Device::turn`]).

use std::sync::{Arc, Mutex, TryLockError};

use raidcore::engine::RequestError;

use super::control::Control;
use super::device::{Device, Hand};
use crate::resident::{Came, Command, Resident, Todo};
use crate::volume::Buffer;

/// The commands' numbers.
const EVENTS: u16 = 0;
const CONTINUE: u16 = 1;

/// How it is with a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Idle,
    Wanted,
    /// The kernel has it.
    UnderWay,
}

/// See the [module](self).
pub(super) struct Direct {
    hand: Hand,
    device: Arc<Mutex<Device>>,
    control: Arc<Control>,
    /// By command.
    commands: [State; 2],
    /// It has left the device to the session.
    has_left: bool,
    /// It has looked at the device in this pass.
    has_looked: bool,
    /// And is to look again at its end.
    looks_again: bool,
}

impl Direct {
    pub(super) fn new(hand: Hand, device: Arc<Mutex<Device>>, control: Arc<Control>) -> Self {
        Self {
            hand,
            device,
            control,
            commands: [State::Idle; 2],
            has_left: false,
            has_looked: false,
            looks_again: false,
        }
    }

    fn want(&mut self, number: u16) {
        let command = &mut self.commands[usize::from(number)];
        if *command == State::Idle {
            *command = State::Wanted;
        }
    }

    fn command(&mut self, number: u16) -> Command {
        self.commands[usize::from(number)] = State::UnderWay;
        match number {
            EVENTS => Command::when_readable(EVENTS, self.control.events().file()),
            _ => Command::nothing(number),
        }
    }

    /// Looks at the device.
    fn look(&mut self) {
        if self.has_left {
            return;
        }
        (self.has_looked, self.looks_again) = (true, false);
        let events = self.control.events();
        events.tries();
        let mut device = match self.device.try_lock() {
            Ok(device) => device,
            // There is a nudge when it is free.
            Err(TryLockError::WouldBlock) => return,
            Err(TryLockError::Poisoned(_)) => {
                self.has_left = true;
                return;
            }
        };
        events.looks();
        if device.hand() != Some(self.hand) {
            drop(device);
            self.has_left = true;
            // A kick that was heard of here is the session's, or its successor's.
            self.control.mailbox().bell().ring();
            events.nudge();
            return;
        }
        let is_over = |device: &Device| device.is_lost() || self.control.is_cut();
        let again = !is_over(&device) && device.turn(true);
        let tells = is_over(&device) || device.has_news();
        drop(device);
        if tells {
            self.control.bell().ring();
        }
        if again {
            self.want(CONTINUE);
        }
    }

    /// What follows from having looked, or not.
    fn conclude(&mut self) {
        if !self.has_left {
            return self.want(EVENTS);
        }
        for command in self.commands.iter_mut().filter(|command| **command == State::Wanted) {
            *command = State::Idle;
        }
    }
}

impl Resident for Direct {
    fn begin(&mut self) -> Vec<Command> {
        self.control.events().listen();
        vec![self.command(CONTINUE)]
    }

    fn came(&mut self, number: u16, _: i32) -> Came {
        self.commands[usize::from(number)] = State::Idle;
        if self.has_left {
            return Came::Several;
        }
        let events = self.control.events();
        // Before the device is looked at, so that no nudge is missed.
        events.listen();
        if let Err(error) = events.hear() {
            // The session serves by itself then.
            tracing::error!(%error, "a VM's kicks are not heard on the volume's thread");
            self.control.return_device();
            self.has_left = true;
        }
        if self.has_looked {
            self.looks_again = true;
        } else {
            self.look();
        }
        self.conclude();
        Came::Several
    }

    fn answered(&mut self, _: u16, _: Buffer, _: Result<(), RequestError>) -> Option<Command> {
        unreachable!("its requests go by the volume's queue, as they may outlive it")
    }

    fn settle(&mut self) -> bool {
        if self.looks_again || !self.control.mailbox().is_empty() {
            self.look();
            self.conclude();
        }
        self.has_looked = false;
        self.commands.contains(&State::Wanted) || self.has_ended()
    }

    fn next(&mut self) -> Option<Todo> {
        let wanted = self.commands.iter().position(|&command| command == State::Wanted)?;
        Some(Todo::Command(self.command(wanted as u16)))
    }

    fn has_ended(&self) -> bool {
        self.has_left && self.commands == [State::Idle; 2]
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        if !self.has_left {
            // The volume's thread has ended, or could not take it on.
            self.control.return_device();
        }
    }
}
