//! The members' content is laid out as by Linux md, checked with an independent implementation of
//! md's layouts; or, with parity in given shares, as docs/on-disk-format.md has it.

use std::fs;

use crate::tools::{assert_same, pattern};
use crate::world::World;

/// The places in a stripe: parity members, then the members of the data chunks in order.
struct Places {
    parity: Vec<usize>,
    data: Vec<usize>,
}

/// Parity is always on the last member.
fn raid4(n: usize, _stripe: usize) -> Places {
    Places { parity: vec![n - 1], data: (0..n - 1).collect() }
}

/// md's left-symmetric: parity moves from the last member to the first, data begins after it.
fn raid5(n: usize, stripe: usize) -> Places {
    let p = n - 1 - stripe % n;
    Places { parity: vec![p], data: (1..n).map(|i| (p + i) % n).collect() }
}

/// md's right-asymmetric: parity moves from the first member to the last, data begins on the first one.
fn raid5_around(n: usize, stripe: usize) -> Places {
    let p = stripe % n;
    Places { parity: vec![p], data: (0..n).filter(|&member| member != p).collect() }
}

/// md's left-symmetric for RAID6: Q is after P, data begins after Q.
fn raid6(n: usize, stripe: usize) -> Places {
    let p = n - 1 - stripe % n;
    Places { parity: vec![p, (p + 1) % n], data: (2..n).map(|i| (p + i) % n).collect() }
}

/// Parity in shares, by the words of docs/on-disk-format.md.
fn uneven(shares: &[usize], parities: usize, stripe: usize) -> Places {
    let (cycle, turn) = (stripe as u64 / 100, stripe as u64 % 100);
    let strides: Vec<u64> = (1..100).filter(|n| n % 2 != 0 && n % 5 != 0).collect();
    // SplitMix64.
    let z = cycle.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    let hash = z ^ (z >> 31);
    let point = (turn * strides[(hash % 40) as usize] + (hash >> 32) % 100) % 100;
    let holder = |point: usize| {
        let slots = (0..shares.len()).flat_map(|n| vec![n; shares[n] * parities]);
        slots.collect::<Vec<_>>()[point]
    };
    let parity: Vec<_> = (0..parities).map(|one| holder(point as usize + 100 * one)).collect();
    Places { data: (0..shares.len()).filter(|n| !parity.contains(n)).collect(), parity }
}

/// Twice as much, in the field of 256 elements with the polynomial 0x11d.
fn double(byte: u8) -> u8 {
    (byte << 1) ^ if byte & 0x80 == 0 { 0 } else { 0x1d }
}

/// The expected content of each member from its data offset on.
fn expected(
    content: &[u8],
    n: usize,
    chunk: usize,
    places: impl Fn(usize, usize) -> Places,
) -> Vec<Vec<u8>> {
    let mut members = vec![Vec::new(); n];
    let width = places(n, 0).data.len() * chunk;
    for (stripe, content) in content.chunks(width).enumerate() {
        let Places { parity, data } = places(n, stripe);
        let mut p = vec![0; chunk];
        let mut q = vec![0; chunk];
        // Horner's rule: Q is the sum of the chunks times the powers of 2.
        for piece in content.rchunks(chunk) {
            for ((p, q), byte) in p.iter_mut().zip(&mut q).zip(piece) {
                *p ^= byte;
                *q = double(*q) ^ byte;
            }
        }
        for (piece, member) in content.chunks(chunk).zip(data) {
            members[member].extend_from_slice(piece);
        }
        for (piece, member) in [p, q].into_iter().zip(parity) {
            members[member].extend(piece);
        }
    }
    members
}

fn lies_as(level: &str, n: u8, chunk_kib: usize, places: impl Fn(usize, usize) -> Places) {
    let mut world = World::empty();
    let names: Vec<String> = (0..n).map(|number| format!("m{number}")).collect();
    let options = format!("--level {level} --chunk {chunk_kib}K --file-size 40M");
    world = world.with_array(&options, &names.join(" ")).started();
    let capacity = world.status()["capacity_bytes"].as_u64().expect("a size");
    let mut content = pattern(1, usize::try_from(capacity).expect("it fits in memory"));
    let image = world.path("image");
    fs::write(&image, &content).expect("a file");
    world.copy_in(&image);
    // Parity has to follow small writes too.
    let mut nbd = world.nbd();
    for (seed, lba) in [0, 17, 1000, 3333, capacity / 4096 - 1].into_iter().enumerate() {
        let block = pattern(seed as u64 + 100, 4096);
        let at = lba as usize * 4096;
        content[at..at + 4096].copy_from_slice(&block);
        assert_eq!(nbd.write(lba * 4096, &block, false), Ok(()), "block {lba}");
    }
    drop(nbd);
    world.stop();

    let wanted = expected(&content, n.into(), chunk_kib << 10, places);
    for (name, wanted) in names.iter().zip(wanted) {
        let examined = world.examine(name);
        assert_eq!(examined["clean"], true, "{examined:#}");
        let offset = examined["array"]["data_offset_bytes"].as_u64().expect("an offset") as usize;
        let found = fs::read(world.path(name)).expect("the member");
        assert_same(&found[offset..offset + wanted.len()], &wanted, &format!("{level}, {name}"));
    }
}

#[test]
fn raid4_is_like_md() {
    lies_as("raid4", 4, 64, raid4);
}

#[test]
fn raid5_is_like_md() {
    lies_as("raid5", 4, 64, raid5);
}

#[test]
fn raid5_with_many_members_and_small_chunks_is_like_md() {
    lies_as("raid5", 7, 4, raid5);
}

#[test]
fn raid5_placed_as_md_does_if_asked_to_is_like_md() {
    lies_as("raid5 --placement right-asymmetric", 4, 64, raid5_around);
}

#[test]
fn raid6_is_like_md() {
    lies_as("raid6", 5, 64, raid6);
}

#[test]
fn raid6_with_many_members_and_big_chunks_is_like_md() {
    lies_as("raid6", 8, 256, raid6);
}

#[test]
fn raid5_with_parity_shares_is_like_its_description() {
    let place = |_: usize, stripe: usize| uneven(&[5, 10, 15, 70], 1, stripe);
    lies_as("raid5 --parity-shares 5,10,15,70", 4, 16, place);
}

#[test]
fn raid6_with_parity_shares_is_like_its_description() {
    let place = |_: usize, stripe: usize| uneven(&[10, 0, 25, 50, 15], 2, stripe);
    lies_as("raid6 --parity-shares 10%,0%,25%,50%,15%", 5, 16, place);
}
