//! Schemes: which policies go together, by name.

use alloc::boxed::Box;

use raidcore::engine::Place;

use crate::collect::{Collect, Global, Limits, Rotate};
use crate::place::Reconstruct;

/// A row of the table of schemes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    reads: Reads,
    turns: Turns,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reads {
    Home,
    Reconstruct,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turns {
    Local,
    Global,
    Rotate,
}

/// All schemes.
pub const SCHEMES: &[Scheme] = &[
    row("plain", "members collect as they like (LGC)", Reads::Home, Turns::Local),
    row("ggc", "when one has to, all collect", Reads::Home, Turns::Global),
    row("reconstruct", "reads go around who collects", Reads::Reconstruct, Turns::Local),
    row("rotate", "members take turns", Reads::Home, Turns::Rotate),
    row(
        "rotate+reconstruct",
        "members take turns, and reads go around whose turn it is",
        Reads::Reconstruct,
        Turns::Rotate,
    ),
];

const fn row(name: &'static str, about: &'static str, reads: Reads, turns: Turns) -> Scheme {
    Scheme { name, about, reads, turns }
}

impl Scheme {
    /// The scheme of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        SCHEMES.iter().copied().find(|scheme| scheme.name == name)
    }

    /// Whether reads go around busy members.
    #[must_use]
    pub fn goes_around(&self) -> bool {
        self.reads != Reads::Home
    }

    /// Its policy for reads, with a budget as [`Reconstruct`] has it; none if they go home.
    #[must_use]
    pub fn place(&self, budget: f64) -> Option<Box<dyn Place>> {
        match self.reads {
            Reads::Home => None,
            Reads::Reconstruct => Some(Box::new(Reconstruct::new(budget))),
        }
    }

    /// Its policy for garbage collection, for members with these limits whose redundancy stands in
    /// for so many; none if they are left alone.
    #[must_use]
    pub fn collect(&self, limits: Limits, redundancy: usize) -> Option<Box<dyn Collect>> {
        match self.turns {
            Turns::Local => None,
            Turns::Global => Some(Box::new(Global::new(limits))),
            Turns::Rotate => Some(Box::new(Rotate::new(limits, redundancy.max(1)))),
        }
    }
}
