//! Sets of CPUs, as the kernel writes them, and the threads that run on them.

use std::str::FromStr;
use std::{fmt, io, thread};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A set of CPUs. It is written as the kernel writes it: numbers and ranges, such as `0-3,8`.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Cpus(CpuSet);

/// The largest number of a CPU that a set can have.
const LARGEST: usize = CpuSet::MAX_CPU - 1;

/// Why a text names no CPUs.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CpusError {
    /// It has something that is no number and no range.
    #[error("\"{0}\" names no CPUs: write numbers and ranges, such as 0-3,8")]
    Malformed(String),
    /// A range ends before it begins.
    #[error("the range {first}-{last} ends before it begins: write {last}-{first}")]
    Backwards {
        /// Its first number.
        first: usize,
        /// Its last number.
        last: usize,
    },
    /// A number is larger than any CPU's.
    #[error("{0} is no CPU: the largest number is {LARGEST}")]
    TooLarge(usize),
}

/// CPUs that this process can't run on, as the kernel writes sets.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "this process can't run on CPUs {missing}: they are not there, offline, or not for its control group"
)]
pub struct CpusMissing {
    /// Those.
    pub missing: String,
    /// Those that it can run on.
    pub there: String,
}

impl Cpus {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.count() == 0
    }

    /// Those that are in both.
    pub(crate) fn and(&self, other: &Self) -> Self {
        self.iter().filter(|&cpu| other.0.is_set(cpu)).collect()
    }

    /// Those that are in this one only.
    pub(crate) fn without(&self, other: &Self) -> Self {
        self.iter().filter(|&cpu| !other.0.is_set(cpu)).collect()
    }

    /// Those that are in either.
    pub(crate) fn or(&self, other: &Self) -> Self {
        self.iter().chain(other.iter()).collect()
    }

    /// Finds out whether this process can run on all of them.
    ///
    /// # Errors
    /// If not.
    pub(crate) fn check(&self) -> Result<(), CpusMissing> {
        // Where the kernel does not tell, it refuses them later.
        let Ok(there) = all() else { return Ok(()) };
        let missing = self.without(&there);
        if missing.is_empty() {
            return Ok(());
        }
        Err(CpusMissing { missing: missing.to_string(), there: there.to_string() })
    }

    /// Keeps the calling thread, and those that it begins from now on, to them.
    pub(crate) fn keep_thread(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.0)?)
    }

    /// In the form that the C library has.
    #[allow(unsafe_code)]
    pub(crate) fn of_libc(&self) -> libc::cpu_set_t {
        // SAFETY: the type is plain bits, of which none set is a value.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        for cpu in self.iter() {
            // SAFETY: it writes inside the set, and checks the number.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        set
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        (0..=LARGEST).filter(|&cpu| self.0.is_set(cpu))
    }

    /// Runs of numbers without gaps: their first and last.
    fn runs(&self) -> Vec<(usize, usize)> {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for cpu in self.iter() {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == cpu => *last = cpu,
                Some(_) | None => runs.push((cpu, cpu)),
            }
        }
        runs
    }
}

/// Those that the calling thread may run on now.
///
/// # Errors
/// If the kernel does not tell, or has CPUs of larger numbers than a set can have.
pub(crate) fn of_this_thread() -> io::Result<Cpus> {
    Ok(Cpus(sched_getaffinity(None)?))
}

/// Those that threads of this process can run on, whichever they may now.
fn all() -> io::Result<Cpus> {
    let widened = || {
        let all: Cpus = (0..=LARGEST).collect();
        // The kernel takes what there is of it. Where threads may not choose, the answer is what they have.
        let _ = all.keep_thread();
        of_this_thread()
    };
    // A thread of its own, since the calling one stays where it is.
    let asked = thread::Builder::new().spawn(widened)?.join();
    asked.unwrap_or_else(|_| of_this_thread())
}

impl FromIterator<usize> for Cpus {
    /// # Panics
    /// If a number is larger than any CPU's.
    fn from_iter<T: IntoIterator<Item = usize>>(numbers: T) -> Self {
        let mut set = CpuSet::new();
        numbers.into_iter().for_each(|cpu| set.set(cpu));
        Self(set)
    }
}

impl FromStr for Cpus {
    type Err = CpusError;

    fn from_str(text: &str) -> Result<Self, CpusError> {
        let malformed = || CpusError::Malformed(text.to_owned());
        let number = |digits: &str| {
            let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
            // What has more digits than fit is larger than any CPU's number.
            let number = || digits.parse().unwrap_or(usize::MAX);
            let number = is_number.then(number).ok_or_else(malformed)?;
            if number > LARGEST { Err(CpusError::TooLarge(number)) } else { Ok(number) }
        };
        let mut set = CpuSet::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first)?, number(last)?);
            if first > last {
                return Err(CpusError::Backwards { first, last });
            }
            (first..=last).for_each(|cpu| set.set(cpu));
        }
        Ok(Self(set))
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.runs().into_iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cpus({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(text: &str) -> Cpus {
        text.parse().expect(text)
    }

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for text in ["0", "0-3,8", "1,3,5-7", "1023"] {
            assert_eq!(cpus(text).to_string(), text);
        }
        assert_eq!(cpus("8,0-2,3,2-3").to_string(), "0-3,8", "whatever the order");
        assert_eq!(Cpus::default().to_string(), "");
    }

    #[test]
    fn what_names_no_cpus_is_refused() {
        let refused = |text: &str| text.parse::<Cpus>().expect_err(text);
        for text in ["", ",", "0,", "a", "-", "1-", "-1", "0-3-5", "+1", "0x1", "0 ,1", "0-3:1/2"] {
            assert_eq!(refused(text), CpusError::Malformed(text.to_owned()));
        }
        assert_eq!(refused("3-1"), CpusError::Backwards { first: 3, last: 1 });
        assert_eq!(refused("0-1024"), CpusError::TooLarge(1024));
        let digits = "9".repeat(100);
        assert_eq!(refused(&digits), CpusError::TooLarge(usize::MAX));
    }

    #[test]
    fn sets_are_combined() {
        let (some, others) = (cpus("0-3"), cpus("2-5"));
        assert_eq!(some.and(&others), cpus("2-3"));
        assert_eq!(some.or(&others), cpus("0-5"));
        assert_eq!(some.without(&others), cpus("0-1"));
        assert!(some.and(&cpus("9")).is_empty() && !some.is_empty());
    }

    #[test]
    fn a_thread_is_kept_to_cpus_and_so_are_those_that_it_begins() {
        let of_this_thread = || of_this_thread().expect("the kernel tells");
        let before = of_this_thread();
        let one = before.iter().next().into_iter().collect::<Cpus>();
        let kept = thread::spawn(move || {
            one.keep_thread().expect("a CPU that is there");
            (of_this_thread(), thread::spawn(of_this_thread).join().expect("it ends"))
        });
        assert_eq!(kept.join().expect("it ends"), (one, one));
        assert_eq!(of_this_thread(), before, "the others stay where they are");
    }

    #[test]
    fn cpus_that_are_not_there_are_told_with_those_that_are() {
        let there = all().expect("the kernel tells");
        there.check().expect("all that are there");
        let Some(missing) = (0..=LARGEST).find(|&cpu| !there.0.is_set(cpu)) else { return };
        let missing: Cpus = [missing].into_iter().collect();
        let (both, missing) = (there.or(&missing), missing.to_string());
        assert_eq!(both.check(), Err(CpusMissing { missing, there: there.to_string() }));
    }
}
