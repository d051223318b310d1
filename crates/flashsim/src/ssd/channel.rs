//! The channels: what uses them, what waits for them, and whose turn it is.
//!
//! A channel that brings only data serves it first come, first served. If it brings commands too
//! ([`Commands`](crate::profile::Commands)), a die begins nothing while its channel is in use. When
//! the channel is free again, data that has been read goes first; if there is none, the dies are
//! asked in turn until one uses the channel.

use std::collections::VecDeque;

use super::Ssd;
use super::die::Running;
use super::event::Event;
use super::lane::Lane;

/// A channel.
#[derive(Clone, Debug, Default)]
pub(super) struct Channel {
    lane: Lane,
    /// From the beginning of a use until [`Event::Channel`]. Only if it brings commands.
    in_use: bool,
    /// When a use ends for which there is no event yet.
    ends: Option<u64>,
    /// Dies that have read something, and wait.
    waiting: VecDeque<u32>,
    /// The die of it that is asked first.
    turn: u32,
}

impl Ssd {
    /// Uses the die's channel for `length`, after all earlier uses; returns when that ends.
    /// [`Ssd::run`] has to follow.
    pub(super) fn use_channel(&mut self, id: u32, length: u64) -> u64 {
        if !self.timing.shared_channel {
            return self.now + length;
        }
        let channel = &mut self.channels[self.ftl.geometry().channel_of(id) as usize];
        let ends = channel.lane.take(self.now, length);
        if self.timing.commands {
            channel.in_use = true;
            channel.ends = Some(ends);
        }
        ends
    }

    /// Brings the die a command; returns when it has it.
    pub(super) fn command(&mut self, id: u32, length: u64) -> u64 {
        if self.timing.commands { self.command_with_data(id, length, 0) } else { self.now }
    }

    /// Brings the die a command and the data for it; returns when it has them.
    pub(super) fn command_with_data(&mut self, id: u32, length: u64, data: u64) -> u64 {
        let g = *self.geometry();
        self.channels[g.channel_of(id) as usize].turn = id / g.channels + 1;
        self.use_channel(id, length + data)
    }

    /// Whether the die can't begin anything since its channel is in use. It is asked again later.
    pub(super) fn waits_for_channel(&self, id: u32) -> bool {
        self.channels[self.geometry().channel_of(id) as usize].in_use
    }

    /// The die has read something, and waits with it for its channel.
    pub(super) fn wait_for_channel(&mut self, id: u32, running: Running) {
        self.dies[id as usize].running = Some(running);
        let channel = self.geometry().channel_of(id);
        self.channels[channel as usize].waiting.push_back(id);
    }

    /// Makes the event for the end of a use that has begun. It comes after the event of the die
    /// that uses the channel, so that the die takes part in what follows.
    pub(super) fn await_channel(&mut self, id: u32) {
        let channel = self.geometry().channel_of(id);
        if let Some(ends) = self.channels[channel as usize].ends.take() {
            self.events.at(ends, Event::Channel { channel });
        }
    }

    /// A use of the channel has ended.
    pub(super) fn channel_done(&mut self, number: u32) {
        let channel = &mut self.channels[number as usize];
        if channel.lane.free_at() > self.now {
            return;
        }
        channel.in_use = false;
        if let Some(id) = channel.waiting.pop_front() {
            let running = self.dies[id as usize].running.take().expect("a die that waits");
            self.after_read(id, running.work);
            return;
        }
        let turn = channel.turn;
        let channels = self.geometry().channels;
        let dies = self.geometry().dies / channels;
        for step in 0..dies {
            let id = (turn + step) % dies * channels + number;
            self.kick(id);
            if self.waits_for_channel(id) {
                return;
            }
        }
    }
}
