//! What is said of an array's lease.

use std::time::Duration;

use raidcore::meta::Term;

/// The lease that an array is to have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LeaseArg(pub(crate) Option<Term>);

/// A term.
pub(super) fn term(text: &str) -> Result<Term, String> {
    let time = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    let (least, most) = (Term::MIN.duration(), Term::MAX.duration());
    Term::new(time).ok_or_else(|| {
        let seconds = |time: Duration| time.as_secs();
        format!("a term is {} s to {} s, in whole milliseconds", seconds(least), seconds(most))
    })
}

/// A term, or none.
pub(super) fn lease(text: &str) -> Result<LeaseArg, String> {
    if text == "none" { Ok(LeaseArg(None)) } else { term(text).map(Some).map(LeaseArg) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_times_within_bounds_or_none() {
        let of = |text| lease(text).map(|LeaseArg(term)| term.map(Term::duration));
        assert_eq!(of("none"), Ok(None));
        assert_eq!(of("20s"), Ok(Some(Duration::from_secs(20))));
        for bad in ["", "0s", "999ms", "2h", "1s 1ns", "soon"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
