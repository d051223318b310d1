//! An array from its first byte to the end of the time that is looked at.

use super::strategy::{Decides, Row};
use super::{Life, Strategy};

/// What becomes of an array with a strategy.
#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// The strategy.
    pub strategy: Strategy,
    /// When it replaces members, in percent of rated life used; at 100 when they are worn out.
    pub replaced_at: u8,
    /// The shares of parity that the array begins with, by member; they add up to 1.
    pub shares: Vec<f64>,
    /// The bytes of users until the first member is worn out, if none is replaced before.
    pub first_wear_out: f64,
    /// The bytes of users until more members are worn out than may fail, if none is ever replaced.
    pub unattended_loss: f64,
    /// The bytes of users until so many others wear out within the rebuild of a worn-out member that data is lost,
    /// although each is replaced in time; none if that does not happen in the time that is looked at.
    pub loss: Option<f64>,
    /// The replacements, in their order.
    pub calendar: Vec<Replacement>,
    /// The least life that the next member had left when one was replaced, from 0 to 1; none if none was.
    pub least_left: Option<f64>,
    /// The same once as many were replaced as there are members.
    pub least_left_later: Option<f64>,
    /// The speed of small writes relative to even parity, in the mean of users' bytes (the harmonic one: as much
    /// longer as they all take).
    pub speed: f64,
    /// The least such speed.
    pub least_speed: f64,
    /// How many times the array's stripes had their parity moved.
    pub moved: f64,
}

/// A member gets a new drive.
#[derive(Clone, PartialEq, Debug)]
pub struct Replacement {
    /// After so many days.
    pub days: f64,
    /// Which member.
    pub member: usize,
    /// Why.
    pub cause: Cause,
    /// The life that the next one had left: the least of all others', from 0 to 1 of what the drive can take.
    pub next_left: f64,
    /// The shares of parity from then on, by member; they add up to 1.
    pub shares: Vec<f64>,
}

/// Why a drive is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// It reported as much life used as the strategy waits for.
    Planned,
    /// It was worn out.
    WornOut,
}

impl Cause {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::WornOut => "worn-out",
        }
    }
}

/// A drive.
#[derive(Clone, Copy, Debug)]
struct Drive {
    /// What it was written, in bytes.
    written: f64,
    /// What it can be written, which it does not report, in bytes.
    endurance: f64,
}

impl Drive {
    /// From 0 to 1.
    fn left(&self) -> f64 {
        (1.0 - self.written / self.endurance).max(0.0)
    }
}

impl Life {
    /// The percents of its rated life that a drive reports as used, after so many bytes.
    pub(super) fn reported(&self, written: f64) -> f64 {
        // What has reached a percent but for its last bits has reached it.
        (100.0 * written / self.setup.endurance + 1e-6).floor()
    }
}

/// The array while it is written.
struct Array<'a> {
    life: &'a Life,
    row: &'static Row,
    replaced_at: u8,
    drives: Vec<Drive>,
    shares: Vec<f64>,
    /// What users have written.
    user: f64,
    /// The same over the speed at which they could.
    taken: f64,
    least_speed: f64,
    moved: f64,
}

impl<'a> Array<'a> {
    /// A new array, whose drives can take their rating times what `factor` has next.
    fn new(life: &'a Life, strategy: Strategy, factor: &mut dyn FnMut() -> f64) -> Self {
        let endurance = life.setup.endurance;
        let drive = |_| Drive { written: 0.0, endurance: endurance * factor() };
        let drives: Vec<Drive> = (0..life.setup.members).map(drive).collect();
        let (row, replaced_at) = (strategy.row(), life.replaced_at(strategy));
        let shares = (row.shares)(life, &vec![0.0; drives.len()], replaced_at);
        Self {
            least_speed: life.wear.speed(&shares),
            life,
            row,
            replaced_at,
            drives,
            shares,
            user: 0.0,
            taken: 0.0,
            moved: 0.0,
        }
    }

    /// What a drive has yet to be written until it is replaced, and why it then is.
    fn until_replaced(&self, drive: &Drive) -> (f64, Cause) {
        let worn = drive.endurance - drive.written;
        let planned =
            self.life.setup.endurance * f64::from(self.replaced_at) / 100.0 - drive.written;
        if self.replaced_at < 100 && planned < worn {
            (planned, Cause::Planned)
        } else {
            (worn, Cause::WornOut)
        }
    }

    /// What users write until the oldest member reports another percent; without end if the
    /// strategy does not ask.
    fn until_percent(&self, rates: &[f64]) -> f64 {
        if self.row.decides != Decides::AtPercents {
            return f64::INFINITY;
        }
        let by_age = |a: &(&Drive, &f64), b: &(&Drive, &f64)| a.0.written.total_cmp(&b.0.written);
        let oldest = self.drives.iter().zip(rates).max_by(by_age);
        oldest.map_or(f64::INFINITY, |(drive, rate)| {
            let next = (self.life.reported(drive.written) + 1.0) / 100.0;
            (next * self.life.setup.endurance - drive.written) / rate
        })
    }

    /// Users write so many bytes.
    fn write(&mut self, bytes: f64, rates: &[f64]) {
        self.drives.iter_mut().zip(rates).for_each(|(drive, rate)| drive.written += bytes * rate);
        self.user += bytes;
        self.taken += bytes / self.life.wear.speed(&self.shares);
    }

    /// Decides the shares again. Where they change, parity moves; `rebuilt` is written as a whole anyway.
    fn decide(&mut self, rebuilt: Option<usize>) {
        let written: Vec<f64> = self.drives.iter().map(|drive| drive.written).collect();
        let shares = (self.row.shares)(self.life, &written, self.replaced_at);
        for (member, (new, old)) in shares.iter().zip(&self.shares).enumerate() {
            let stripes = self.life.wear.stripes((new - old).abs());
            self.moved += stripes / 2.0;
            if rebuilt != Some(member) {
                self.drives[member].written += stripes * self.life.setup.capacity;
            }
        }
        self.shares = shares;
        self.least_speed = self.least_speed.min(self.life.wear.speed(&self.shares));
    }

    /// Whether so many others than `member` wear out while it is rebuilt that data is lost.
    fn is_lost(&self, member: usize, rates: &[f64]) -> bool {
        let meanwhile = self.life.setup.rebuild_days * self.life.setup.per_day;
        let ends = |(at, (drive, rate)): &(usize, (&Drive, &f64))| {
            *at != member && drive.endurance - drive.written <= **rate * meanwhile
        };
        let ended = self.drives.iter().zip(rates).enumerate().filter(ends).count();
        self.life.wear.stripes(1.0) <= ended as f64
    }

    /// The member that is to be replaced now, and why.
    fn ended(&self) -> Option<(usize, Cause)> {
        // What is as good as nothing is nothing.
        let nothing = 1e-9 * self.life.setup.endurance;
        let mut ends = self.drives.iter().map(|drive| self.until_replaced(drive)).enumerate();
        ends.find(|(_, (left, _))| *left <= nothing).map(|(member, (_, cause))| (member, cause))
    }

    /// A member gets a drive that can take its rating times `factor`.
    fn replace(&mut self, member: usize, cause: Cause, factor: f64) -> Replacement {
        let others = self.drives.iter().enumerate().filter(|(at, _)| *at != member);
        let next_left = others.map(|(_, drive)| drive.left()).fold(1.0, f64::min);
        let setup = &self.life.setup;
        self.drives[member] =
            Drive { written: setup.capacity, endurance: setup.endurance * factor };
        if self.row.decides != Decides::Once {
            self.decide(Some(member));
        }
        let days = self.user / setup.per_day;
        Replacement { days, member, cause, next_left, shares: self.shares.clone() }
    }
}

/// Users write until the end of the time, and members are replaced.
pub(super) fn outcome(life: &Life, strategy: Strategy, factor: &mut dyn FnMut() -> f64) -> Outcome {
    let (first_wear_out, unattended_loss) = unattended(life, strategy, factor);
    let mut array = Array::new(life, strategy, factor);
    let shares = array.shares.clone();
    let (horizon, mut calendar, mut loss) = (life.horizon(), Vec::new(), None);
    while array.user < horizon {
        let rates = life.wear.written(&array.shares);
        let ends = array.drives.iter().zip(&rates);
        let end = ends.map(|(drive, rate)| array.until_replaced(drive).0.max(0.0) / rate);
        let event = end.fold(array.until_percent(&rates), f64::min);
        if event >= horizon - array.user {
            array.write(horizon - array.user, &rates);
            break;
        }
        array.write(event, &rates);
        let before = calendar.len();
        while let Some((member, cause)) = array.ended() {
            if cause == Cause::WornOut && loss.is_none() && array.is_lost(member, &rates) {
                loss = Some(array.user);
            }
            calendar.push(array.replace(member, cause, factor()));
        }
        if before == calendar.len() && array.row.decides == Decides::AtPercents {
            array.decide(None);
        }
    }
    let least =
        |replaced: &[Replacement]| replaced.iter().map(|one| one.next_left).min_by(f64::total_cmp);
    Outcome {
        strategy,
        replaced_at: array.replaced_at,
        shares,
        first_wear_out,
        unattended_loss,
        loss,
        least_left: least(&calendar),
        least_left_later: least(calendar.get(life.setup.members..).unwrap_or_default()),
        calendar,
        speed: array.user / array.taken,
        least_speed: array.least_speed,
        moved: array.moved,
    }
}

/// What users write until the first member is worn out, and until more are than may fail, if none is ever
/// replaced. Parity stays where it is once one is worn out.
fn unattended(life: &Life, strategy: Strategy, factor: &mut dyn FnMut() -> f64) -> (f64, f64) {
    let mut array = Array::new(life, strategy, factor);
    let left = |array: &Array, rates: &[f64]| {
        let left = array.drives.iter().zip(rates);
        left.map(|(drive, rate)| (drive.endurance - drive.written) / rate).collect::<Vec<f64>>()
    };
    loop {
        let rates = life.wear.written(&array.shares);
        let mut ends = left(&array, &rates);
        ends.sort_by(f64::total_cmp);
        let percent = array.until_percent(&rates);
        if percent < ends[0] {
            array.write(percent, &rates);
            array.decide(None);
        } else {
            let parities = life.wear.stripes(1.0) as usize;
            return (array.user + ends[0].max(0.0), array.user + ends[parities].max(0.0));
        }
    }
}
