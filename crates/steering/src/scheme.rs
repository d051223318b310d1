//! Schemes: named combinations of policies.

use alloc::boxed::Box;
use core::fmt;
use core::time::Duration;

use raidcore::engine::SteeringPolicy;
use raidcore::meta::Entries;

use crate::Members;
use crate::collect::age::{Age, Law};
use crate::collect::modes::{Forcing, Modes};
use crate::collect::{Collect, Global, Rotate, Window};
use crate::hedge::Hedge;
use crate::hedge_trial::HedgeTrial;
use crate::hedged_home::HedgedHome;
use crate::hold::{CACHES, Cache};
use crate::steer::{Known, Reconstruct, Staged, Steer};

/// A row of the table of schemes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// The name of the row.
    pub name: &'static str,
    /// What it does, in a few words.
    pub about: &'static str,
    /// Whether reads go around busy members.
    around: bool,
    hedges: Hedges,
    writes: Option<Staged>,
    /// Whether popular blocks are copied, and all writes staged while a member is rebuilt.
    by_the_paper: bool,
    turns: Turns,
    /// How thresholds follow ages, if they do.
    ages: Option<Law>,
    /// Which members collect with one that begins to, if the drives decide when.
    forcing: Option<Forcing>,
    /// Whether a way that loses rests.
    tries: bool,
    cache: Cache,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turns {
    Local,
    Global,
    Rotate,
    Window,
    /// By thresholds that members are given.
    Given,
}

/// Whether slow reads are hedged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hedges {
    Never,
    /// Only where not all members say when they are busy, or, by a scheme in which what loses rests, where none
    /// takes orders: more of them can be busy at a time than can be gone around then.
    Untold,
    Always,
}

/// For how long users have to want nothing before what is staged comes home, unless members take turns. Most
/// pauses within a burst are shorter, and most others longer: from 20 ms to 100 ms it makes little difference.
/// Turns come within bursts, and what was staged during one comes home before the next.
const LULL: Duration = Duration::from_millis(50);

/// The budget of reads around busy members where all members say when they are busy: extra blocks
/// for each block that is requested.
const EXTRA_READS_TOLD: f64 = 0.25;

/// The share of reads that may go around busy members, or be hedged, where that is a guess, which is
/// sometimes wrong. Each such read costs as many reads as a stripe has data chunks.
const DETOURS_GUESSED: f64 = 0.05;

/// The same of a scheme that finds out by itself whether they pay: as many as are hedged at most.
const DETOURS_TRIED: f64 = 0.25;

/// All schemes.
pub const SCHEMES: &[Scheme] = &[
    row("plain", "members collect as they like (LGC)", Turns::Local),
    row("ggc", "when one has to, all collect", Turns::Global),
    row("reconstruct", "reads go around members that collect", Turns::Local).around(),
    row("hedge", "reads that take long are tried from the others, too", Turns::Local)
        .hedges(Hedges::Always),
    row(
        "gc-steering",
        "writes to members that collect are staged on others; hot reads are copied there",
        Turns::Local,
    )
    .stages(Staged::Data)
    .by_the_paper(),
    row("gc-steering+age", "and staged writes go to the young rather than the old", Turns::Local)
        .stages(Staged::Data)
        .by_the_paper()
        .ages(Law::Damped),
    row("steering+reconstruct", "reads and writes go around members that collect", Turns::Local)
        .around()
        .hedges(Hedges::Untold)
        .stages(Staged::All),
    row(
        "steering+age",
        "steering+reconstruct, and staged writes go to the young rather than the old",
        Turns::Local,
    )
    .around()
    .hedges(Hedges::Untold)
    .stages(Staged::All)
    .ages(Law::Damped),
    row("rotate", "members take turns", Turns::Rotate),
    row(
        "rotate+reconstruct",
        "members take turns, and reads go around whose turn it is",
        Turns::Rotate,
    )
    .around(),
    row(
        "window",
        "members collect in windows of their own, and reads go around the one that does (IODA)",
        Turns::Window,
    )
    .around(),
    row(
        "evenkeel",
        "members take turns if they obey, and reads and writes go around those that are busy",
        Turns::Rotate,
    )
    .around()
    .hedges(Hedges::Untold)
    .stages(Staged::All)
    .tries(),
    row("preempt", "members that collect let users go before each page", Turns::Given),
    row(
        "preempt+age",
        "and collect the earlier, the younger they are for their parity",
        Turns::Given,
    )
    .ages(Law::Damped),
    row("preempt+age-printed", "the same as the paper prints it", Turns::Given).ages(Law::Printed),
    row(
        "age-aware",
        "preempt+age, and members that are about to collect do so together",
        Turns::Given,
    )
    .ages(Law::Damped)
    .forcing(Forcing::Near),
    row("age-aware-printed", "the same as the paper prints it", Turns::Given)
        .ages(Law::Printed)
        .forcing(Forcing::Printed),
    row(
        "evenkeel+age",
        "evenkeel, and turns come the earlier, the younger members are for their parity",
        Turns::Rotate,
    )
    .around()
    .hedges(Hedges::Untold)
    .stages(Staged::All)
    .tries()
    .ages(Law::Damped),
];

const fn row(name: &'static str, about: &'static str, turns: Turns) -> Scheme {
    Scheme {
        name,
        about,
        around: false,
        hedges: Hedges::Never,
        writes: None,
        by_the_paper: false,
        turns,
        ages: None,
        forcing: None,
        tries: false,
        cache: CACHES[0],
    }
}

impl fmt::Display for Scheme {
    /// Its full name, that of a row, or of a row and a cache: `evenkeel/log`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)?;
        if self.cache.is_some() { write!(f, "/{}", self.cache.name) } else { Ok(()) }
    }
}

impl Scheme {
    const fn around(self) -> Self {
        Self { around: true, ..self }
    }

    const fn hedges(self, hedges: Hedges) -> Self {
        Self { hedges, ..self }
    }

    const fn tries(self) -> Self {
        Self { tries: true, ..self }
    }

    const fn ages(self, law: Law) -> Self {
        Self { ages: Some(law), ..self }
    }

    const fn forcing(self, forcing: Forcing) -> Self {
        Self { forcing: Some(forcing), ..self }
    }

    const fn by_the_paper(self) -> Self {
        Self { by_the_paper: true, ..self }
    }

    const fn stages(self, writes: Staged) -> Self {
        Self { writes: Some(writes), ..self }
    }

    /// The scheme of that full name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let (row, cache) = match name.split_once('/') {
            Some((row, cache)) => (row, Cache::named(cache).filter(Cache::is_some)?),
            None => (name, Cache::default()),
        };
        let found = SCHEMES.iter().copied().find(|scheme| scheme.name == row);
        found.map(|scheme| scheme.with(cache))
    }

    /// The same with this cache.
    #[must_use]
    pub fn with(self, cache: Cache) -> Self {
        Self { cache, ..self }
    }

    /// Its cache.
    #[inline]
    #[must_use]
    pub fn cache(&self) -> Cache {
        self.cache
    }

    /// Whether it does nothing: the first row of the table.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        !self.goes_around() && self.hedges == Hedges::Never && self.turns == Turns::Local
    }

    /// Whether it goes by the members' ages.
    #[must_use]
    pub fn has_ages(&self) -> bool {
        self.ages.is_some()
    }

    /// What of the journal the optimal ages are to count, if it has this of small writes. Where members take turns and
    /// writes are staged meanwhile, nothing: most writes are, on members that are not at it, so more on those with
    /// less parity. That makes up for about what entries are on the others, and turns could not get ages so far apart.
    #[must_use]
    pub fn ages_by(&self, entries: Entries) -> Entries {
        let stages_by_turns = self.gives_orders() && self.needs_staging();
        if stages_by_turns { Entries::None } else { entries }
    }

    /// Whether young members are preferred as holders of staged writes: those whose ages no orders even out.
    #[must_use]
    pub fn prefers_young(&self) -> bool {
        self.has_ages() && self.needs_staging()
    }

    /// Whether it goes around no more members at a time than redundancy can stand in for, where these
    /// collect as they like.
    #[must_use]
    pub fn goes_around_some(&self) -> bool {
        self.tries
    }

    /// Whether it wants to know which members are busy.
    #[inline]
    #[must_use]
    pub fn goes_around(&self) -> bool {
        self.around || self.needs_staging()
    }

    /// Whether it stages writes, which needs a staging log.
    #[must_use]
    pub fn needs_staging(&self) -> bool {
        self.writes.is_some() || self.cache.takes()
    }

    /// Whether it can't know of which members reads would have to go around: not all say when they are busy, or, by
    /// a scheme in which what loses rests, none takes orders.
    fn guesses(&self, known: Known) -> bool {
        !known.told || self.tries && !known.obeyed
    }

    /// The budget of [`Reconstruct`], for stripes of so many data chunks.
    #[must_use]
    pub fn budget(&self, data: usize, known: Known) -> f64 {
        let share = if self.tries { DETOURS_TRIED } else { DETOURS_GUESSED };
        if self.guesses(known) { share * data as f64 } else { EXTRA_READS_TOLD }
    }

    /// Its policy for reads and writes; none if all of them go home and wait. `budget` is that of
    /// [`Reconstruct`].
    #[must_use]
    pub fn place(&self, budget: f64, known: Known) -> Option<Box<dyn SteeringPolicy>> {
        let hedges = match self.hedges {
            Hedges::Never => false,
            Hedges::Untold => self.guesses(known),
            Hedges::Always => true,
        };
        let reads = (self.around || hedges).then(|| Reconstruct::new(budget));
        let takes_turns = known.told && known.obeyed;
        let hedge = hedges.then(Hedge::at_home);
        let hedge_staged = hedges.then(Hedge::of_staged);
        let trials = self.tries.then(Default::default);
        let popular = self.by_the_paper.then(Default::default);
        let Self { writes, cache, by_the_paper: spares_rebuilds, .. } = *self;
        let (totals, burden) = Default::default();
        let at_will = self.tries && !known.obeyed;
        let steer = Steer {
            reads,
            at_will,
            hedge,
            hedge_trial: at_will.then(HedgeTrial::of_reads),
            hedge_staged,
            hedge_home: at_will.then(HedgedHome::default),
            writes,
            cache,
            lull: if self.tries && !takes_turns { LULL } else { Duration::ZERO },
            spares_rebuilds,
            popular,
            trials,
            totals,
            burden,
        };
        (self.goes_around() || hedges).then(|| Box::new(steer) as Box<dyn SteeringPolicy>)
    }

    /// Whether turns are to rest where they are found to lose.
    #[must_use]
    pub fn tries_turns(&self) -> bool {
        self.tries && self.turns == Turns::Rotate
    }

    /// Whether it orders members when to collect.
    #[must_use]
    pub fn gives_orders(&self) -> bool {
        self.turns != Turns::Local
    }

    /// Whether it is nothing without members that take orders. Where a way that loses rests, turns rest where
    /// no member takes them, and the rest of it is of use.
    #[must_use]
    pub fn needs_orders(&self) -> bool {
        self.gives_orders() && !self.tries
    }

    /// Its policy for garbage collection; none if members are left alone, by the scheme or because none
    /// takes orders. Members that take orders and report nothing, or nothing but whether they collect, can't
    /// be given turns or thresholds: they have windows instead of turns.
    #[must_use]
    pub fn collect(&self, members: &Members) -> Option<Box<dyn Collect>> {
        let silent = members.obeying.minus(members.telling).or(members.windows.members);
        let all_are_silent = silent == members.obeying;
        let limits = || members.limits.clone();
        let window = || Box::new(Window::new(limits()).suits(members.windows));
        let age = self.ages.map(|law| Age::new(law, &members.limits, &members.optimal));
        match self.turns {
            Turns::Local => None,
            Turns::Global | Turns::Given if all_are_silent => None,
            Turns::Rotate | Turns::Window if members.obeying.is_empty() => None,
            Turns::Rotate if !silent.is_empty() => Some(window()),
            Turns::Global => Some(Box::new(Global::new(limits()))),
            Turns::Window => Some(window()),
            Turns::Rotate => {
                Some(Box::new(Rotate::new(limits(), members.redundancy.max(1)).aged(age)))
            }
            Turns::Given => Some(Box::new(Modes::fixed(limits()).aged(age).forcing(self.forcing))),
        }
    }
}
