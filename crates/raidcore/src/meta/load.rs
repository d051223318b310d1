//! Reads the maps from the devices.

use alloc::vec::Vec;

use super::image::Image;
use super::page::{BitMap, MapKind, PageVersions};
use super::problem::Warning;
use super::record::{ArrayRecord, Consistency};

/// A map, its pages' versions, and which pages have no intact copy. Members that are not kept current
/// are none.
pub(super) fn load_map<I: Image>(
    record: &ArrayRecord,
    members: &[Option<&I>],
    kind: MapKind,
) -> (BitMap, Vec<PageVersions>, Vec<u32>) {
    let absent = members.iter().filter(|member| member.is_none()).count();
    let enough = (record.geometry.redundancy() + 1).saturating_sub(absent).max(1);
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
        let pages: Vec<_> = pages.collect();
        match pages.iter().max_by_key(|page| page.version) {
            Some(page) => {
                let newest = page.version;
                let holders = pages.iter().filter(|page| page.version == newest).count();
                // What so few have was not durable: the version before it was, in the other place.
                let durable = if holders < enough { newest.saturating_sub(1) } else { newest };
                map.load_page(index, page);
                versions.push(PageVersions { newest, durable });
            }
            None => {
                versions.push(PageVersions::default());
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
) -> (BitMap, Vec<PageVersions>) {
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
