//! Compressed traces read like plain ones.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use lab::trace::{Info, Selection};
use lzma_rust2::{XzOptions, XzWriter};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::{Shelf, read};

fn gz(plain: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn xz(plain: &[u8]) -> Vec<u8> {
    let mut encoder = XzWriter::new(Vec::new(), XzOptions::with_preset(6)).unwrap();
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn zstd(plain: &[u8]) -> Vec<u8> {
    compress_to_vec(plain, CompressionLevel::Fastest)
}

type Packer = fn(&[u8]) -> Vec<u8>;

const PACKERS: [(&str, Packer); 3] = [("gz", gz), ("xz", xz), ("zst", zstd)];

/// More than any buffer on the way.
fn plain() -> String {
    (0..30_000u64).map(|n| format!("{} 0 {} 8 {}\n", n * 1000, n * n % 99_991, n % 2)).collect()
}

#[test]
fn they_read_like_plain_ones() {
    let shelf = Shelf::new();
    let plain = plain();
    let expected = read(&shelf.put("plain", &plain)).unwrap();
    assert_eq!(expected.len(), 30_000);
    for (suffix, pack) in PACKERS {
        // The content counts, not the name.
        for name in [format!("trace.ssdsim.{suffix}"), "trace".to_owned()] {
            let path = shelf.put(&name, pack(plain.as_bytes()));
            assert!(read(&path).unwrap() == expected, "{name} ({suffix})");
        }
    }
}

/// Compressed files may be concatenated.
#[test]
fn several_parts_are_one_trace() {
    let shelf = Shelf::new();
    let plain = plain();
    let expected = read(&shelf.put("plain", &plain)).unwrap();
    let (one, two) = plain.as_bytes().split_at(plain.len() / 3);
    for (suffix, pack) in PACKERS {
        let path = shelf.put("trace", [pack(one), pack(two)].concat());
        assert!(read(&path).unwrap() == expected, "{suffix}");
    }
}

#[test]
fn one_that_is_cut_off_or_damaged_is_an_error() {
    let shelf = Shelf::new();
    let plain = plain();
    for (suffix, pack) in PACKERS {
        let whole = pack(plain.as_bytes());
        let cut = shelf.put("cut.ssdsim", &whole[..whole.len() - whole.len() / 4]);
        let error = Info::of(&cut, &Selection::default()).unwrap_err().to_string();
        assert!(error.contains("can't read on") && error.contains("line "), "{suffix}: {error}");
        let mut damaged = whole;
        let middle = damaged.len() / 2;
        damaged[middle] ^= 0x10;
        assert!(read(&shelf.put("damaged.ssdsim", damaged)).is_err(), "{suffix}");
    }
}
