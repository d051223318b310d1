//! Reads the maps from the devices.

use alloc::vec::Vec;

use super::image::Image;
use super::page::{BitMap, MapKind};
use super::problem::Warning;
use super::record::{ArrayRecord, Consistency};

/// A map, its pages' versions, and which pages have no intact copy.
pub(super) fn load_map<I: Image>(
    record: &ArrayRecord,
    members: &[Option<&I>],
    kind: MapKind,
) -> (BitMap, Vec<u64>, Vec<u32>) {
    let mut map = record.areas.map(kind, record.geometry.stripes());
    let (mut versions, mut lost) = (Vec::new(), Vec::new());
    for index in 0..map.pages() {
        let copies = members.iter().flatten().flat_map(|image| {
            [0, 1].map(|slot| (slot, image.block(record.areas.map_page(kind, index, slot))))
        });
        let pages = copies.filter_map(|(slot, block)| {
            let page = map.decode_page(record.array, index, block.ok()?).ok()?;
            (page.version % 2 == slot).then_some(page)
        });
        match pages.max_by_key(|page| page.version) {
            Some(page) => {
                map.load_page(index, &page);
                versions.push(page.version);
            }
            None => {
                versions.push(0);
                lost.push(index);
            }
        }
    }
    (map, versions, lost)
}

/// The write-intent bitmap. Where no copy is intact, regions count as marked.
pub(super) fn load_bitmap<I: Image>(
    record: &ArrayRecord,
    members: &[Option<&I>],
    warnings: &mut Vec<Warning>,
) -> (BitMap, Vec<u64>) {
    let (mut bitmap, versions, lost) = load_map(record, members, MapKind::Bitmap);
    for page in lost {
        bitmap.set_page(page);
        warnings.push(Warning::BitmapPageLost { page });
    }
    let resync = record.consistency == Consistency::Resync && record.geometry.redundancy() > 0;
    if resync && !record.clean {
        bitmap.set_all();
    }
    (bitmap, versions)
}
