//! Worlds with pairs of mirrored members: RAID10.

use std::cell::Cell;
use std::rc::Rc;

use sim::{Playable, Scenario, trace};

#[test]
fn nothing_is_lost_while_no_pair_is() {
    let beside = Rc::new(Cell::new(0));
    for seed in crate::range(0, 2_000) {
        let scenario = Scenario::draw(seed).paired(seed);
        let found = Rc::clone(&beside);
        let look = move |line: &str| {
            found
                .set(found.get() + u32::from(line.contains("a member of another pair is missing")));
        };
        if let Err(failure) = trace(seed, &scenario, look) {
            panic!("{failure}\n{:?}", failure.scenario);
        }
    }
    assert!(beside.get() > 500, "{}", beside.get());
}
