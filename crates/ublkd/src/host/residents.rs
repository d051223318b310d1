//! Front ends on the data thread.

use raidcore::engine::RequestError;

use super::data::{Data, InFlight};
use super::handle::{HostError, Reply, reply};
use crate::resident::{Came, Resident, Todo};
use crate::ring::{CommandSlot, Completed, Ring};
use crate::volume::{Buffer, Submit};

/// Gives a front end the first free place, and the ring its first commands.
pub(crate) fn seat(
    residents: &mut Vec<Option<Box<dyn Resident>>>,
    ring: &mut Ring,
    mut resident: Box<dyn Resident>,
) {
    let free = residents.iter().position(Option::is_none);
    let at = free.unwrap_or_else(|| {
        residents.push(None);
        residents.len() - 1
    });
    let place = CommandSlot(at as u16);
    ring.seat(place, resident.queue());
    for command in resident.begin() {
        ring.command(place, command);
    }
    residents[at] = Some(resident);
}

impl Data {
    /// Adds a front end to this thread. Answered when the kernel has its first commands.
    pub(super) fn admit(&mut self, resident: Box<dyn Resident>, answer: Reply<()>) {
        seat(&mut self.residents, &mut self.ring, resident);
        // If the kernel refuses this, it refuses what follows, too: this thread is about to end.
        let begun = self.ring.reach_kernel(self.now, &mut self.arena);
        reply(answer, begun.map_err(|_| HostError::Died));
    }

    pub(super) fn command_completed(&mut self, Completed { place, number, result }: Completed) {
        let at = usize::from(place.0);
        let Some(resident) = &mut self.residents[at] else {
            unreachable!("a resident stays until its last command has completed");
        };
        match resident.came(number, result) {
            Came::Request(asked, buffer) => self.asked_by_resident(place, number, asked, buffer),
            Came::Again(command) => self.ring.command(place, command),
            Came::Several => self.carry_on(place),
            Came::Nothing => self.let_go_if_ended(at),
        }
    }

    /// The end of a pass, for all of them: until none wants anything, as what one asks for may lead to answers
    /// to others.
    pub(super) fn settle_residents(&mut self) {
        let mut is_over = false;
        while !std::mem::replace(&mut is_over, true) {
            for at in 0..self.residents.len() {
                let resident = self.residents[at].as_mut();
                if resident.is_some_and(|resident| resident.settle()) {
                    self.carry_on(CommandSlot(at as u16));
                    is_over = false;
                }
            }
        }
    }

    /// Does what a resident wants.
    fn carry_on(&mut self, place: CommandSlot) {
        let at = usize::from(place.0);
        while let Some(todo) = self.residents[at].as_mut().and_then(|resident| resident.next()) {
            match todo {
                Todo::Request(number, asked, buffer) => {
                    self.asked_by_resident(place, number, asked, buffer);
                }
                Todo::Command(command) => self.ring.command(place, command),
            }
        }
        self.let_go_if_ended(at);
    }

    fn asked_by_resident(
        &mut self,
        place: CommandSlot,
        number: u16,
        asked: Submit,
        buffer: Buffer,
    ) {
        if asked.fits(self.submissions.config().max_request_blocks) {
            let tag = buffer.tag();
            self.request(tag, asked, InFlight::Resident { place, number, buffer, asked });
        } else {
            self.answer_resident(place, number, buffer, Err(RequestError::OutOfRange));
        }
    }

    pub(super) fn answer_resident(
        &mut self,
        place: CommandSlot,
        number: u16,
        buffer: Buffer,
        result: Result<(), RequestError>,
    ) {
        let at = usize::from(place.0);
        let Some(resident) = &mut self.residents[at] else {
            unreachable!("a resident stays while it has a request");
        };
        match resident.answered(number, buffer, result) {
            Some(command) => self.ring.command(place, command),
            None => self.let_go_if_ended(at),
        }
    }

    fn let_go_if_ended(&mut self, at: usize) {
        self.residents[at].take_if(|resident| resident.has_ended());
    }
}
