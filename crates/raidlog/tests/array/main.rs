//! Log arrays whose power fails and whose members are lost.

mod world;

use det::Prng;
use world::World;

/// Writes at random until the power fails at some moment.
fn torn(seed: u64) -> World {
    let mut random = Prng::new(seed);
    let mut world = World::new(1 + (seed % 2) as usize, seed);
    world.run_until_idle();
    let requests = 20 + random.below(150);
    for _ in 0..requests {
        match random.below(8) {
            0 => world.flush(),
            _ => world.write(random.below(world.capacity()), 1 + random.below(12)),
        }
        for _ in 0..random.below(30) {
            world.step();
        }
    }
    for _ in 0..random.below(60) {
        world.step();
    }
    world.crash();
    world
}

#[test]
fn what_was_flushed_is_there_after_a_crash() {
    for seed in 0..40 {
        let mut world = torn(seed);
        world.open(&[]);
        world.survey();
    }
}

#[test]
fn what_was_flushed_is_there_after_a_crash_that_took_a_member_of_each_group() {
    for seed in 0..40 {
        let mut world = torn(seed);
        let lost: Vec<_> = (0..world.groups()).map(|group| (seed as usize + group) % 3).collect();
        world.open(&lost);
        world.survey();
    }
}

#[test]
fn what_a_start_has_found_outlives_a_member_that_is_lost_before_parity_was_checked() {
    for seed in 0..40 {
        let mut world = torn(seed);
        world.open(&[]);
        let before = world.survey();
        let lost: Vec<_> = (0..world.groups()).map(|group| (seed as usize + group) % 3).collect();
        world.lose(&lost);
        assert_eq!(world.survey(), before, "seed {seed}");
    }
}

#[test]
fn a_stopped_array_has_all_that_was_written() {
    let mut world = World::new(2, 1);
    world.run_until_idle();
    for lba in 0..world.capacity() {
        world.write(lba, 1);
        world.run_until_idle();
    }
    world.stop();
    world.open(&[0, 1]);
    let versions = world.survey();
    assert!(versions.iter().all(|&version| version > 0));
}
