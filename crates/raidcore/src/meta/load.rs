//! Reads the maps from the devices.

use alloc::vec::Vec;

use super::image::Image;
use super::page::{BitMap, MapKind, PageVersions};
use super::problem::Warning;
use super::record::{ArrayRecord, Consistency};

/// More versions than a page may have had that are on no member that is there.
const BEYOND: u64 = 1 << 32;

/// A map, its pages' versions, and which pages are lost: they have no intact copy, or the newest may have
/// been where it can't be read. Members that are not kept current are none; `missing` is how many of them
/// redundancy makes up for.
pub(super) fn load_map<I: Image>(
    record: &ArrayRecord,
    members: &[Option<&I>],
    missing: usize,
    kind: MapKind,
) -> (BitMap, Vec<PageVersions>, Vec<u32>) {
    let redundancy = record.greatest_redundancy();
    let enough = (redundancy + 1).saturating_sub(missing).max(1);
    let mut map = record.areas.map(kind);
    let (mut versions, mut lost) = (Vec::new(), Vec::new());
    for index in 0..map.pages() {
        let places = [0, 1].map(|slot| (slot, record.areas.map_page(kind, index, slot)));
        let copies = members.iter().flatten().flat_map(|image| places.map(|place| (image, place)));
        let pages = copies.filter_map(|(image, (slot, at))| {
            let page = map.decode_page(record.array, index, image.block(at).ok()?).ok()?;
            (page.version % 2 == slot).then_some(page)
        });
        let pages: Vec<_> = pages.collect();
        let is_unreadable = |image: &&&I| places.iter().any(|&(_, at)| image.block(at).is_err());
        let unreadable = members.iter().flatten().filter(is_unreadable).count();
        // All members have the pages of the other maps. After a clean stop those regions are marked that a
        // start had found to be, and that is on all members since.
        let is_on_few = kind == MapKind::Bitmap && redundancy > 0 && !record.clean;
        let hidden = is_on_few && unreadable > 0 && missing + unreadable > redundancy;
        match pages.iter().max_by_key(|page| page.version) {
            Some(page) if !hidden => {
                let newest = page.version;
                let holders = pages.iter().filter(|page| page.version == newest).count();
                // What so few have was not durable: the version before it was, in the other place.
                let durable = if holders < enough { newest.saturating_sub(1) } else { newest };
                map.load_page(index, page);
                versions.push(PageVersions { newest, durable });
            }
            newest => {
                let known = newest.map_or(0, |page| page.version);
                // What could not be read is older, should it be read at a later start.
                let newest = if unreadable > 0 { known + BEYOND } else { known };
                versions.push(PageVersions { newest, durable: newest });
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
    missing: usize,
    warnings: &mut Vec<Warning>,
) -> (BitMap, Vec<PageVersions>) {
    let (mut bitmap, versions, lost) = load_map(record, members, missing, MapKind::Bitmap);
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
