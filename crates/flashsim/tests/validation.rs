//! The short comparisons with theory and other programs: the long ones are made by the example
//! `validate`.

use flashsim::validate::{Depth, SECTIONS, Verdict};

fn check(name: &str) {
    let section = SECTIONS.iter().find(|section| section.name == name).expect("a section");
    for row in (section.run)(Depth::Short) {
        println!("{row}");
        assert_eq!(row.verdict(), Verdict::Ok, "{row}");
    }
}

#[test]
fn uniform_writes_amplify_as_theory_says() {
    check("uniform");
}

#[test]
fn skewed_writes_amplify_as_theory_says() {
    check("skewed");
}

#[test]
fn a_saturated_chip_takes_the_time_of_its_operations() {
    check("saturated");
}

#[test]
fn a_chip_is_a_queue() {
    check("md1");
}

#[test]
fn the_msr_drive_answers_as_disksim_does() {
    check("disksim");
}

#[test]
fn the_mqsim_drive_answers_as_mqsim_does() {
    check("mqsim");
}

#[test]
fn a_fresh_drive_has_a_cliff_where_it_must_be() {
    check("pts");
}
