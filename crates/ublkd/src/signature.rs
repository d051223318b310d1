//! Recognises a device's content, so that nothing is overwritten by mistake: file systems, members
//! of other arrays, encrypted or swap space, partition tables, disk images.
//!
//! Invariants:
//! - Every format is a row of `FORMATS`: its magic bytes, and the places where they can be. If the
//!   bytes alone could be chance, the row has a further check.
//! - Only the first and the last mebibyte are read; every known format has its magic bytes there.
//! - A device that can't be read is an error, never "nothing found".
//! - For content that the table does not know, `blkid` is asked. A file with anything but zeros
//!   always counts as content.

mod blkid;
mod data;

use std::borrow::Cow;
use std::fmt;
use std::io;

use raidcore::meta::{SUPERBLOCKS, choose_superblock};
use raidcore::units::{BLOCK_BYTES, Pba};

pub(crate) use blkid::is_installed as has_blkid;

use crate::members::{Device, Kind};

/// How much of each end of a device is read, and wiped when it is overwritten.
pub(crate) const EDGE_BLOCKS: u64 = 256;

/// The kinds of content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Content {
    /// A file system.
    FileSystem,
    /// A member of an array or a pool, or a cache.
    Member,
    /// Encrypted data.
    Encrypted,
    /// Swap space.
    Swap,
    /// A partition table.
    Partitions,
    /// Known only to `blkid`, or unknown.
    Image,
    /// What only `blkid` knows, or nothing that is known.
    Other,
}

/// Recognised content. Prints as "an ext4 filesystem".
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// What it is, with its article.
    pub what: Cow<'static, str>,
    /// What kind of content it is.
    pub content: Content,
    /// The byte at which its mark begins, or 0 if only `blkid` knows.
    pub at: u64,
    /// The name of the array that a member of Evenkeel belongs to.
    pub array: Option<String>,
}

impl Signature {
    /// The first known content of a device, in the order of the table; `None` if there is none.
    /// `blkid`, if it is installed, is asked for what the table does not know.
    ///
    /// # Errors
    /// If the device can't be read.
    pub fn find(device: &Device) -> io::Result<Option<Self>> {
        if let Some(known) = Edges::read(device)?.find() {
            return Ok(Some(known));
        }
        Ok(blkid::name_of(device.path())?.map(|name| Self::other(name, 0)))
    }

    /// The content that would be overwritten: known content, or, in a file, anything but zeros.
    /// `goes_on` is asked from time to time, and its error ends the search.
    ///
    /// # Errors
    /// If the device can't be read.
    pub fn find_any(
        device: &Device,
        goes_on: impl Fn() -> io::Result<()>,
    ) -> io::Result<Option<Self>> {
        let known = Self::find(device)?;
        if known.is_some() || device.kind() != Kind::File {
            return Ok(known);
        }
        let data = data::first_byte(device, goes_on)?;
        Ok(data.map(|at| Self::other("data of no known format", at)))
    }

    fn other(what: impl Into<Cow<'static, str>>, at: u64) -> Self {
        Self { what: what.into(), content: Content::Other, at, array: None }
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.array {
            Some(array) => write!(f, "{} \"{array}\"", self.what),
            None => f.write_str(&self.what),
        }
    }
}

/// Where magic bytes can be, in bytes.
#[derive(Clone, Copy)]
enum MagicOffset {
    /// From the start.
    Start(u64),
    /// This much before the end, after the end is rounded down to a multiple of `unit`.
    End { unit: u64, before: u64 },
}

/// A row of the table.
struct Format {
    what: &'static str,
    content: Content,
    mark: &'static [u8],
    places: &'static [MagicOffset],
    /// A further check, given the edges and the place of the magic bytes.
    check: fn(&Edges, u64) -> bool,
}

const fn format(
    what: &'static str,
    content: Content,
    mark: &'static [u8],
    places: &'static [MagicOffset],
) -> Format {
    Format { what, content, mark, places, check: |_, _| true }
}

impl Format {
    const fn if_also(mut self, check: fn(&Edges, u64) -> bool) -> Self {
        self.check = check;
        self
    }
}

use Content::{Encrypted, FileSystem, Image, Member, Partitions, Swap};
use MagicOffset::{End, Start};

const MD: &[u8] = &0xa92b_4efc_u32.to_le_bytes();
const MD_BIG_ENDIAN: &[u8] = &0xa92b_4efc_u32.to_be_bytes();
const MD_090: &[MagicOffset] = &[End { unit: 64 << 10, before: 64 << 10 }];
const MD_10: &[MagicOffset] = &[End { unit: 4 << 10, before: 8 << 10 }];
const EVENKEEL: &[MagicOffset] = &[
    Start(SUPERBLOCKS[0].0 * BLOCK_BYTES as u64),
    Start(SUPERBLOCKS[1].0 * BLOCK_BYTES as u64),
    Start(SUPERBLOCKS[2].0 * BLOCK_BYTES as u64),
    Start(SUPERBLOCKS[3].0 * BLOCK_BYTES as u64),
];
const GPT: &[MagicOffset] =
    &[Start(512), Start(4096), End { unit: 512, before: 512 }, End { unit: 4096, before: 4096 }];
const LVM: &[MagicOffset] = &[Start(0), Start(512), Start(1024), Start(1536)];
const SWAP: &[MagicOffset] = &[Start(4096 - 10), Start((64 << 10) - 10)];
const EXT: &[MagicOffset] = &[Start(EXT_AT + 0x38)];

/// Where the superblock of ext2 and its successors begins.
const EXT_AT: u64 = 1024;

/// The known formats. The first match counts, so the more specific ones come first: a FAT file
/// system also looks like a partition table.
static FORMATS: &[Format] = &[
    format("a member of the Evenkeel array", Member, b"Evenkeel", EVENKEEL),
    format("a LUKS volume", Encrypted, b"LUKS\xba\xbe", &[Start(0)]),
    format("a LUKS volume", Encrypted, b"SKUL\xba\xbe", &[Start(0x4000), Start(0x8000)]),
    format("an LVM2 physical volume", Member, b"LABELONE", LVM),
    format("an md member (version 0.90)", Member, MD, MD_090),
    format("an md member (version 0.90)", Member, MD_BIG_ENDIAN, MD_090),
    format("an md member (version 1.0)", Member, MD, MD_10).if_also(is_md_1),
    format("an md member (version 1.1)", Member, MD, &[Start(0)]).if_also(is_md_1),
    format("an md member (version 1.2)", Member, MD, &[Start(4096)]).if_also(is_md_1),
    format("a bcache device", Member, &BCACHE, &[Start(4096 + 24)]),
    format("a bcachefs filesystem", FileSystem, &BCACHEFS, &[Start(4096 + 24)]),
    format("a Ceph BlueStore device", Member, b"bluestore block device\n", &[Start(0)]),
    format("a btrfs filesystem", FileSystem, b"_BHRfS_M", &[Start((64 << 10) + 0x40)]),
    format("an XFS filesystem", FileSystem, b"XFSB", &[Start(0)]),
    format("an ext4 filesystem", FileSystem, &EXT_MAGIC, EXT).if_also(|e, _| ext_is(e, Ext::Four)),
    format("an ext3 filesystem", FileSystem, &EXT_MAGIC, EXT).if_also(|e, _| ext_is(e, Ext::Three)),
    format("an ext2 filesystem", FileSystem, &EXT_MAGIC, EXT).if_also(|e, _| ext_is(e, Ext::Two)),
    format("an f2fs filesystem", FileSystem, &F2FS, &[Start(1024), Start(4096 + 1024)]),
    format("a JFS filesystem", FileSystem, b"JFS1", &[Start(32 << 10)]),
    format("an EROFS filesystem", FileSystem, &EROFS, &[Start(1024)]),
    format("a SquashFS filesystem", FileSystem, b"hsqs", &[Start(0)]),
    format("an ISO 9660 filesystem", FileSystem, b"CD001", &[Start((32 << 10) + 1)]),
    format("an NTFS filesystem", FileSystem, b"NTFS    ", &[Start(3)]).if_also(is_boot_sector),
    format("an exFAT filesystem", FileSystem, b"EXFAT   ", &[Start(3)]).if_also(is_boot_sector),
    format("a FAT filesystem", FileSystem, b"FAT", &[Start(54), Start(82)]).if_also(is_boot_sector),
    format("swap space", Swap, b"SWAPSPACE2", SWAP),
    format("swap space", Swap, b"SWAP-SPACE", SWAP),
    format("a qcow2 image", Image, b"QFI\xfb", &[Start(0)]),
    format("a GPT partition table", Partitions, b"EFI PART", GPT),
    format("an MBR partition table", Partitions, &BOOT_MARK, &[Start(510)]).if_also(has_partitions),
];

const EXT_MAGIC: [u8; 2] = 0xef53_u16.to_le_bytes();
const F2FS: [u8; 4] = 0xf2f5_2010_u32.to_le_bytes();
const EROFS: [u8; 4] = 0xe0f5_e1e2_u32.to_le_bytes();
const BOOT_MARK: [u8; 2] = [0x55, 0xaa];
const BCACHE: [u8; 16] = 0xc685_73f6_4e1a_45ca_8265_f57f_48ba_6d81_u128.to_be_bytes();
const BCACHEFS: [u8; 16] = 0xc685_73f6_66ce_90a9_d96a_60cf_803d_f7ef_u128.to_be_bytes();

/// A label of ZFS, of which a device has two at each end.
const ZFS_LABEL: u64 = 256 << 10;
/// The first bytes of an uberblock, in its writer's byte order.
const ZFS_UBERBLOCK: u64 = 0x00ba_b10c;
/// How many uberblocks are proof: a single one may be left of an old pool.
const ZFS_UBERBLOCKS_MIN: usize = 4;

/// Both ends of a device.
struct Edges {
    bytes: u64,
    head: Vec<u8>,
    tail: Vec<u8>,
}

impl Edges {
    fn read(device: &Device) -> io::Result<Self> {
        let blocks = device.blocks();
        let edge = blocks.min(EDGE_BLOCKS);
        let mut head = vec![0; edge as usize * BLOCK_BYTES];
        let mut tail = head.clone();
        device.read_at(Pba(0), &mut head)?;
        device.read_at(Pba(blocks - edge), &mut tail)?;
        let bytes = blocks * BLOCK_BYTES as u64;
        Ok(Self { bytes, head, tail })
    }

    fn find(&self) -> Option<Signature> {
        let row = FORMATS.iter().find_map(|format| {
            let mut places = format.places.iter().filter_map(|place| self.at(*place));
            let at = places.find(|&at| {
                self.get(at, format.mark.len()) == Some(format.mark) && (format.check)(self, at)
            })?;
            Some((format, at))
        });
        let Some((format, at)) = row else {
            return self.zfs();
        };
        Some(Signature {
            what: format.what.into(),
            content: format.content,
            at,
            array: self.evenkeel_name(),
        })
    }

    /// The byte that a place is on this device, if it has one.
    fn at(&self, place: MagicOffset) -> Option<u64> {
        match place {
            Start(at) => Some(at),
            End { unit, before } => (self.bytes / unit * unit).checked_sub(before),
        }
    }

    /// `len` bytes from `at` on, if they are within an end.
    fn get(&self, at: u64, len: usize) -> Option<&[u8]> {
        let slice = |bytes: &[u8], at: u64| -> Option<std::ops::Range<usize>> {
            let at = usize::try_from(at).ok()?;
            let range = at..at.checked_add(len)?;
            bytes.get(range.clone()).map(|_| range)
        };
        if let Some(range) = slice(&self.head, at) {
            return Some(&self.head[range]);
        }
        let at = at.checked_sub(self.bytes - self.tail.len() as u64)?;
        slice(&self.tail, at).map(|range| &self.tail[range])
    }

    fn number<const N: usize>(&self, at: u64) -> Option<[u8; N]> {
        self.get(at, N)?.try_into().ok()
    }

    fn evenkeel_name(&self) -> Option<String> {
        let block = |at: Pba| self.get(at.0 * BLOCK_BYTES as u64, BLOCK_BYTES);
        let superblock = choose_superblock(&SUPERBLOCKS.map(block)).ok()?;
        Some(superblock.record.name)
    }

    /// ZFS has no magic bytes at a fixed place, but a ring of uberblocks in each of its four
    /// labels.
    fn zfs(&self) -> Option<Signature> {
        let end = self.bytes / ZFS_LABEL * ZFS_LABEL;
        let labels = [Some(0), Some(ZFS_LABEL)]
            .into_iter()
            .chain([end.checked_sub(2 * ZFS_LABEL), end.checked_sub(ZFS_LABEL)]);
        let ring = |label: u64| (label + ZFS_LABEL / 2..label + ZFS_LABEL).step_by(1024);
        let found: Vec<u64> = labels
            .flatten()
            .flat_map(ring)
            .filter(|&at| {
                self.number(at).is_some_and(|bytes| {
                    u64::from_le_bytes(bytes) == ZFS_UBERBLOCK
                        || u64::from_be_bytes(bytes) == ZFS_UBERBLOCK
                })
            })
            .collect();
        (found.len() >= ZFS_UBERBLOCKS_MIN).then(|| Signature {
            what: "a ZFS vdev".into(),
            content: Member,
            at: found[0],
            array: None,
        })
    }
}

/// Version 1 stores its own place, in sectors, so a copy of the bytes elsewhere is not accepted.
fn is_md_1(edges: &Edges, at: u64) -> bool {
    edges.number(at + 4).map(u32::from_le_bytes) == Some(1)
        && edges.number(at + 144).map(u64::from_le_bytes) == Some(at / 512)
}

fn is_boot_sector(edges: &Edges, _: u64) -> bool {
    edges.get(510, 2) == Some(&BOOT_MARK)
}

/// A partition table has at least one entry, and every entry's flag is one of two values.
fn has_partitions(edges: &Edges, _: u64) -> bool {
    let Some(table) = edges.get(446, 64) else {
        return false;
    };
    let used = |entry: &[u8]| entry[4] != 0 && entry[12..16] != [0; 4];
    table.chunks_exact(16).all(|e| matches!(e[0], 0 | 0x80)) && table.chunks_exact(16).any(used)
}

#[derive(PartialEq, Eq)]
enum Ext {
    Two,
    Three,
    Four,
}

/// Which of the ext file systems it is, by its features.
fn ext_is(edges: &Edges, which: Ext) -> bool {
    const HAS_JOURNAL: u32 = 0x4;
    /// Extents, 64 bits, MMP, flexible groups, and what came after.
    const INCOMPATIBLE_SINCE_4: u32 = !0x1f;
    /// Huge files, group checksums, and what came after.
    const READ_ONLY_SINCE_4: u32 = !0x7;
    let field = |at| edges.number(EXT_AT + at).map_or(0, u32::from_le_bytes);
    let four = field(0x60) & INCOMPATIBLE_SINCE_4 != 0 || field(0x64) & READ_ONLY_SINCE_4 != 0;
    let found = if four {
        Ext::Four
    } else if field(0x5c) & HAS_JOURNAL != 0 {
        Ext::Three
    } else {
        Ext::Two
    };
    found == which
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A device of 8 MiB and 28 KiB with `parts` on it.
    fn edges(parts: &[(u64, &[u8])]) -> Edges {
        let bytes = 8 * MIB + (28 << 10);
        let mut device = vec![0; bytes as usize];
        for (at, part) in parts {
            device[*at as usize..][..part.len()].copy_from_slice(part);
        }
        Edges {
            bytes,
            head: device[..MIB as usize].to_vec(),
            tail: device[(bytes - MIB) as usize..].to_vec(),
        }
    }

    fn found(parts: &[(u64, &[u8])]) -> Option<String> {
        edges(parts).find().map(|signature| signature.to_string())
    }

    #[test]
    fn every_format_is_found_at_each_of_its_places() {
        let empty = edges(&[]);
        for format in FORMATS {
            for place in format.places {
                let at = empty.at(*place).expect("the device is large enough");
                let mut parts: Vec<(u64, &[u8])> = vec![(at, format.mark)];
                let sector = (at / 512).to_le_bytes();
                let ext4 = 0x40u32.to_le_bytes();
                match format.what {
                    what if what.contains("md member (version 1.") => {
                        parts.extend([(at + 4, &[1][..]), (at + 144, &sector[..])]);
                    }
                    "an NTFS filesystem" | "an exFAT filesystem" | "a FAT filesystem" => {
                        parts.push((510, &BOOT_MARK))
                    }
                    "an MBR partition table" => parts.extend([(450, &[0x83][..]), (458, &[1][..])]),
                    "an ext4 filesystem" => parts.push((EXT_AT + 0x60, &ext4)),
                    "an ext3 filesystem" => parts.push((EXT_AT + 0x5c, &[4])),
                    _ => {}
                }
                let signature = edges(&parts).find().expect(format.what);
                assert_eq!((&*signature.what, signature.at), (format.what, at));
            }
        }
    }

    #[test]
    fn chance_is_not_taken_for_content() {
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[(510, &BOOT_MARK)]), None, "a boot sector without partitions");
        assert_eq!(found(&[(4096, MD), (4100, &[1])]), None, "an md superblock of elsewhere");
        let uberblock = ZFS_UBERBLOCK.to_le_bytes();
        let three = [128 << 10, 129 << 10, 130 << 10].map(|at| (at, &uberblock[..]));
        assert_eq!(found(&three), None, "what is left of a pool");
    }

    #[test]
    fn zfs_is_found_by_its_uberblocks_at_either_end() {
        let uberblock = ZFS_UBERBLOCK.to_be_bytes();
        let end = 8 * MIB - (128 << 10);
        for start in [128 << 10, end] {
            let four = [0, 1, 2, 3].map(|i| (start + i * 1024, &uberblock[..]));
            assert_eq!(found(&four).as_deref(), Some("a ZFS vdev"));
        }
    }

    #[test]
    fn a_small_device_has_no_places_at_its_end() {
        let edges = Edges { bytes: 4096, head: vec![0; 4096], tail: vec![0; 4096] };
        assert_eq!(edges.find(), None);
    }

    #[test]
    fn it_reads_as_a_sentence() {
        let ext4 = 0x40u32.to_le_bytes();
        let parts = [(EXT_AT + 0x38, &EXT_MAGIC[..]), (EXT_AT + 0x60, &ext4[..])];
        assert_eq!(found(&parts).as_deref(), Some("an ext4 filesystem"));
        assert_eq!(found(&[(0, b"XFSB")]).as_deref(), Some("an XFS filesystem"));
        assert_eq!(found(&[(4086, b"SWAPSPACE2")]).as_deref(), Some("swap space"));
        assert_eq!(found(&[(512, b"EFI PART")]).as_deref(), Some("a GPT partition table"));
        assert_eq!(found(&[(0, b"LABELONE")]).as_deref(), Some("an LVM2 physical volume"));
        let luks = found(&[(0, b"LUKS\xba\xbe")]);
        assert_eq!(luks.as_deref(), Some("a LUKS volume"));
    }
}
