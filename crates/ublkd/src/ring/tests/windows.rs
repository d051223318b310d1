//! Drives in Predictable Latency Mode, as policies see them.

use steering::Devices;
use steering::collect::{Order, Thresholds};

use super::*;
use crate::nvme::Passthrough;
use crate::nvme::fake::Asked;
use crate::nvme::placement::Placement;

fn null() -> File {
    File::options().read(true).write(true).open("/dev/null").unwrap()
}

fn windowed(asked: &Asked) -> World {
    let passthrough = Passthrough::to_file(null(), 1 << 20, Placement::default());
    let passthrough = passthrough.with_windows(asked.windows().unwrap());
    world_of(Device::from_file(null(), 64).passing(passthrough))
}

#[test]
fn a_drive_with_windows_takes_orders_and_tells_when_it_may_collect() {
    let asked = Asked::default();
    let mut world = windowed(&asked);
    let (ring, now) = (&mut world.ring, Instant::ORIGIN);
    assert!(ring.obeys(DEVICE) && ring.flash(DEVICE).is_none());
    assert_eq!(ring.window(DEVICE), Some(Duration::from_secs(2)));
    assert!(!ring.is_collecting(DEVICE), "nothing was ordered");
    let mut told = Vec::new();
    let thresholds = Thresholds { low: 0.1, medium: 0.1, high: 0.1, gce: 0.5 };
    for (order, collects, window) in [
        (Order::Hold, false, 1),
        (Order::Reach(1.0), true, 2),
        (Order::Hold, false, 1),
        (Order::Auto, false, 2),
        (Order::Hold, false, 1),
        (Order::Once { gce: 0.5 }, true, 2),
        (Order::Hold, false, 1),
        (Order::Thresholds(thresholds), false, 2),
    ] {
        ring.order(now, DEVICE, order);
        told.push(window);
        asked.wait(&told);
        if order != Order::Hold {
            assert_eq!(ring.is_collecting(DEVICE), collects, "{order:?}");
        }
    }
    assert_eq!(ring.version(), 0);
}

#[test]
fn a_drive_that_is_closed_is_left_as_it_was() {
    let asked = Asked::default();
    let mut world = windowed(&asked);
    world.ring.order(Instant::ORIGIN, DEVICE, Order::Hold);
    asked.wait(&[1]);
    world.ring.close(&mut world.arena, DEVICE);
    assert!(!world.ring.obeys(DEVICE));
    asked.wait(&[1, 2]);
    // A ring that ends with open members, too.
    let asked = Asked::default();
    let mut world = windowed(&asked);
    world.ring.order(Instant::ORIGIN, DEVICE, Order::Hold);
    asked.wait(&[1]);
    drop(world);
    asked.wait(&[1, 2]);
}

#[test]
fn a_drive_whose_mode_is_turned_off_neither_tells_nor_obeys() {
    let asked = Asked::default();
    let mut world = windowed(&asked);
    let ring = &mut world.ring;
    asked.turn_off();
    ring.order(Instant::ORIGIN, DEVICE, Order::Reach(1.0));
    // It is seen to by another thread.
    while ring.version() == 0 {
        std::thread::yield_now();
    }
    assert!(!ring.obeys(DEVICE) && !ring.is_collecting(DEVICE));
    assert_eq!(ring.window(DEVICE), None);
}
