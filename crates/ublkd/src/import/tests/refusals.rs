//! What is refused, and that no bytes are taken for more than they are.

use det::Prng;

use super::members::{MdMembers, MdShape};
use crate::import::array::Given;
use crate::import::md::checksum;
use crate::import::*;

#[track_caller]
fn refused(shape: MdShape, words: &str) {
    let members = MdMembers::new(shape);
    let before = members.whole();
    let error = prepare(&members.config()).expect_err(words);
    assert!(error.to_string().contains(words), "{error}, not {words}");
    assert!(members.whole() == before, "something was written: {words}");
}

fn shape(change: impl FnOnce(&mut MdShape)) -> MdShape {
    let mut shape = MdShape::default();
    change(&mut shape);
    shape
}

#[test]
fn what_evenkeel_does_not_have_is_refused() {
    for (layout, copies) in [
        (0x201, "RAID10 with 1 near and 2 far copies"),
        (0x1_0201, "RAID10 with 1 near and 2 offset copies"),
        (0x202, "RAID10 with 2 near and 2 far copies"),
        (0x103, "RAID10 with 3 near copies"),
    ] {
        refused(shape(|s| (s.level, s.layout) = (10, layout)), copies);
    }
    let odd = |s: &mut MdShape| {
        (s.level, s.layout, s.raid_disks, s.roles) = (10, 0x102, 5, vec![0, 1, 2, 3, 4]);
    };
    refused(shape(odd), "RAID10 of 5 members");
    refused(shape(|s| s.level = -1), "linear is no level");
    refused(shape(|s| s.layout = 16), "layout 16 of md's");
    refused(shape(|s| (s.level, s.layout) = (6, 1)), "layout 1 of md's");
    refused(shape(|s| s.chunk = 192), "its chunk has 96 KiB");
    refused(shape(|s| (s.chunk, s.size) = (4096, 4096)), "its chunk has 2048 KiB");
    refused(shape(|s| s.chunk = 0), "its chunk has 0 KiB");
    refused(shape(|s| (s.level, s.chunk, s.size) = (1, 0, 509)), "no multiple of 4 KiB");
    refused(shape(|s| s.data_offset = 4092), "no multiple of 4 KiB");
    refused(shape(|s| s.data_offset = 4088), "no multiple of 1024 KiB");
    refused(shape(|s| s.size = 32), "it has no data");
    refused(shape(|s| s.features = 1 << 20), "features that are not known here");
}

#[test]
fn what_is_not_at_rest_is_refused() {
    refused(shape(|s| s.resync_offset = 0), "not stopped cleanly");
    refused(shape(|s| s.features |= 4), "being reshaped");
    refused(shape(|s| s.features |= 2), "being rebuilt");
    refused(shape(|s| s.features |= 16), "being rebuilt");
    refused(shape(|s| s.features |= 8), "bad blocks");
    refused(shape(|s| s.features |= 256), "cluster");
    refused(shape(|s| s.features |= 512), "journal");
    refused(shape(|s| s.features |= 1024), "PPL");
    refused(shape(|s| s.roles = vec![0, 1, 2]), "it is degraded: it has no member 3");
    refused(shape(|s| s.roles = vec![0, 1, 2, 0xfffe]), "md has taken it out of service");
    refused(shape(|s| s.roles = vec![0, 1, 2, 3, 0xffff]), "it is a spare");
    refused(shape(|s| s.raid_disks = 3), "it says that it is member 3");
}

#[test]
fn what_has_no_room_is_refused() {
    refused(shape(|s| s.data_offset = 2048), "1024 KiB before the data");
    // A bitmap that would reach beyond the second superblock, and one that is nowhere.
    refused(shape(|s| s.bitmap_offset = 504), "md's bitmap lies where");
    refused(shape(|s| s.bitmap_offset = -8), "md's bitmap lies where");
    refused(shape(|s| s.bitmap_offset = i32::MAX), "md's bitmap lies where");
    refused(shape(|s| s.bad_blocks = (500, 64)), "list of bad blocks lies where");
    let members = MdMembers::new(MdShape::default());
    members.put(2, Pba(0), &[1; 512].repeat(8));
    let error = prepare(&members.config()).expect_err("a boot loader");
    assert!(error.to_string().contains("boot loader"), "{error}");
}

#[test]
fn members_that_do_not_belong_together_are_refused() {
    let members = MdMembers::new(MdShape::default());
    let tell = |paths: &[usize]| {
        let paths = paths.iter().map(|&path| members.paths[path].clone()).collect();
        let config = ImportConfig { paths, ..members.config() };
        plan(&config).expect_err("it can't be imported").to_string()
    };
    assert!(tell(&[0, 1, 3]).contains("member 2 was not given"));
    assert!(tell(&[0, 1, 2, 2, 3]).contains("are the same device"));
    assert!(tell(&[]).contains("no device was given"));
    members.rewrite_from(2, |shape| shape.events += 1);
    assert!(tell(&[0, 1, 2, 3]).contains("says something else than the first device's"));
    members.rewrite_from(2, |shape| shape.data_offset += 2048);
    assert!(tell(&[0, 1, 2, 3]).contains("its data begins at 3072 KiB"));
    members.rewrite_from(2, |shape| shape.data_size = u64::MAX);
    assert!(plan(&members.config()).is_ok(), "what it could use does not matter");
    members.rewrite(|shape| shape.size = 1024);
    assert!(tell(&[0, 1, 2, 3]).contains("less than its md superblock says"));
    members.put(3, Pba(1), &[9; 512].repeat(8));
    assert!(tell(&[0, 1, 2, 3]).contains("no superblock of md's metadata version 1.2"));
}

#[test]
fn names_that_no_array_can_have_are_refused() {
    let members = MdMembers::new(MdShape::default());
    let config = ImportConfig { name: Some("../x".to_owned()), ..members.config() };
    let error = plan(&config).expect_err("no name").to_string();
    assert!(error.contains("can't be an array's name"), "{error}");
}

#[test]
fn bytes_of_a_superblock_are_never_taken_for_more_than_they_are() {
    let mut chance = Prng::new(11);
    let mut decoded = 0;
    for _ in 0..20_000 {
        let shape = MdShape::default();
        let blocks = [0, 1, 2, 3].map(|number| {
            let mut block = shape.block(number);
            for _ in 0..chance.below(4) {
                let at = chance.below(300) as usize;
                block[at] = chance.next_u64() as u8;
            }
            let max = u32::from_le_bytes([block[220], block[221], block[222], block[223]]);
            let end = 256 + 2 * (max as usize).min(1920);
            let sum = checksum(&block[..end]);
            block[216..220].copy_from_slice(&sum.to_le_bytes());
            block
        });
        let superblocks = blocks.iter().map(|block| MdSuperblock::decode(block));
        let Ok(superblocks) = superblocks.collect::<Result<Vec<_>, _>>() else { continue };
        decoded += 1;
        let given: Vec<_> =
            superblocks.iter().map(|superblock| Given { superblock, blocks: 1 << 20 }).collect();
        if let Ok(array) = MdArray::of(&given) {
            let mut order = array.order.clone();
            order.sort_unstable();
            assert_eq!(order, [0, 1, 2, 3]);
            let end = array.geometry.stripes() * u64::from(array.geometry.chunk());
            assert!(array.data_start.0 + end <= 1 << 20);
        }
    }
    assert!(decoded > 1000, "only {decoded} had a chance");
}
