//! Invalid or damaged traces: reading them gives an error, never a panic, and always ends.

use std::io::Write;

use lab::trace::{Format, Info, Selection, Trace};
use proptest::prelude::*;

use crate::Shelf;

const FORMATS: [Format; 7] = [
    Format::Spc,
    Format::Msr,
    Format::Ssdsim,
    Format::Disksim,
    Format::Heimdall,
    Format::Vscsi,
    Format::Blkparse,
];

/// A valid beginning of each format.
fn sample(format: Format) -> Vec<u8> {
    let lines = match format {
        Format::Spc => "0,20941264,8192,W,0.551706\n12,0,3072,R,1.5,x\n",
        Format::Msr => {
            "128166372003061629,hm,1,Read,383496192,32768,413\n\
             128166372003061639,hm,1,Write,0,4096,1\n"
        }
        Format::Ssdsim => "5000 0 303567 7 0\n78648005 1 8 8 1\n",
        Format::Disksim => "0.500000 0 1000 8 1\n1.250000 1 1001 16 0\n",
        Format::Heimdall => "0.000 0 200626176 4096 0\n223.412 0 3159347200 36864 1\n",
        Format::Blkparse => {
            "8,0 0 1 0.000000000 40 Q FWFSM 1000 + 8 [x]\n\
             8,16 0 2 0.1 40 D R 1000 + 8 [x]\n\
             CPU0 (8,0):\n"
        }
        Format::Vscsi => {
            let record = |micros: u8| {
                let mut record = [0u8; 32];
                (record[5], record[12], record[15], record[24]) = (16, 0x2a, 1, micros);
                record
            };
            return [record(1), record(2), record(9)].concat();
        }
    };
    lines.as_bytes().to_vec()
}

/// Reads in every way. It only has to return.
fn read_all(bytes: &[u8]) {
    let shelf = Shelf::new();
    let path = shelf.put("trace", bytes);
    for format in FORMATS.map(Some).into_iter().chain([None]) {
        let selection = Selection { format, ..Selection::default() };
        if let Ok(trace) = Trace::open(&path, &selection) {
            let mut last = 0;
            for record in trace.flatten() {
                assert!(record.offset.checked_add(record.bytes.into()).is_some());
                assert!(record.at.0 >= last);
                last = record.at.0;
            }
        }
        if let Ok(info) = Info::of(&path, &selection) {
            assert!((0.0..=1.0).contains(&info.top_fifth_share));
        }
        let name = format.map_or(String::new(), |format| format!("format = \"{format}\", "));
        for how in ["merge = true", "fit = \"wrap\"", "fit = \"compact\", loop = 2", "rate = 10"] {
            const CAPACITY: u64 = 10 << 20;

            let keys = format!("file = \"trace\", {name}{how}");
            for arrival in shelf.replay(&keys, CAPACITY).into_iter().flatten() {
                assert!(arrival.offset + u64::from(arrival.bytes) <= CAPACITY, "{keys}");
            }
        }
    }
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn xz(bytes: &[u8]) -> Vec<u8> {
    let options = lzma_rust2::XzOptions::with_preset(0);
    let mut encoder = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

/// A byte changed, taken out or put in.
#[derive(Clone, Debug)]
enum Mutation {
    Set(prop::sample::Index, u8),
    Cut(prop::sample::Index),
    Insert(prop::sample::Index, Vec<u8>),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let place = any::<prop::sample::Index>;
    let digits = prop::collection::vec(b'0'..=b'9', 1..25);
    prop_oneof![
        (place(), any::<u8>()).prop_map(|(at, byte)| Mutation::Set(at, byte)),
        place().prop_map(Mutation::Cut),
        (place(), digits).prop_map(|(at, digits)| Mutation::Insert(at, digits)),
        (place(), prop::collection::vec(any::<u8>(), 1..9))
            .prop_map(|(at, bytes)| Mutation::Insert(at, bytes)),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutations: &[Mutation]) {
    for mutation in mutations {
        let at = |index: &prop::sample::Index| index.index(bytes.len().max(1)).min(bytes.len());
        match mutation {
            Mutation::Set(index, byte) => {
                let at = at(index);
                if let Some(old) = bytes.get_mut(at) {
                    *old = *byte;
                }
            }
            Mutation::Cut(index) => bytes.truncate(at(index)),
            Mutation::Insert(index, new) => {
                let at = at(index);
                bytes.splice(at..at, new.iter().copied());
            }
        }
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, cases: 200, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        read_all(&bytes);
    }

    #[test]
    fn damaged_traces(
        format in prop::sample::select(&FORMATS[..]),
        mutations in prop::collection::vec(mutation(), 1..5),
    ) {
        let mut bytes = sample(format);
        mutate(&mut bytes, &mutations);
        read_all(&bytes);
    }

    #[test]
    fn damaged_compression(
        format in prop::sample::select(&FORMATS[..]),
        pack in prop::sample::select(&[gz as fn(&[u8]) -> Vec<u8>, xz, zstd][..]),
        mutations in prop::collection::vec(mutation(), 1..5),
    ) {
        let mut bytes = pack(&sample(format).repeat(3));
        mutate(&mut bytes, &mutations);
        read_all(&bytes);
    }
}

#[test]
fn samples_are_valid() {
    for format in FORMATS {
        let shelf = Shelf::new();
        let info = Info::of(&shelf.put("trace", sample(format)), &Selection::default()).unwrap();
        assert_eq!(info.format, format);
    }
}

/// It must not take more memory than the limit of a line.
#[test]
fn a_line_without_end_is_an_error() {
    let shelf = Shelf::new();
    let bytes = gz(&vec![b'7'; 50 << 20]);
    let path = shelf.put("bomb.ssdsim.gz", bytes);
    let error = Info::of(&path, &Selection::default()).unwrap_err().to_string();
    assert!(error.contains("line 1: expected a line of less than 16 KiB"), "{error}");
    assert!(error.len() < 300, "the line is not repeated in full");
}
