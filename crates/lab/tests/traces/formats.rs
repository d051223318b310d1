//! Each format: its records, its detection, and errors.

use det::Instant;
use lab::trace::{Action, Format, Record, Selection, Trace, TraceError};
use lab::workload::Kind::{self, Discard, Flush, Read, Write};

use crate::{Shelf, read, select};

fn record(nanos: u64, device: u32, kind: Kind, offset: u64, bytes: u32) -> Record {
    Record { at: Instant(nanos), device, kind, offset, bytes }
}

/// Reads a file whose name says nothing; `format` must be recognised by the content.
#[track_caller]
fn assert_reads(format: Format, content: &[u8], devices: &[&str], records: &[Record]) {
    let shelf = Shelf::new();
    let path = shelf.put("trace", content);
    let mut trace = Trace::open(&path, &Selection::default()).unwrap();
    assert_eq!(trace.format(), format);
    let found: Result<Vec<Record>, _> = (&mut trace).collect();
    assert_eq!(found.unwrap(), records);
    assert_eq!(trace.devices().collect::<Vec<_>>(), devices);
    assert_eq!(trace.inversions(), 0);
}

#[test]
fn spc() {
    let content = b"0,20941264,8192,W,0.551706\n\
        0, 20939840 , 512,r,0.551706\r\n\
        \n\
        12,0,3072,R,1.5,an optional field\n";
    let records = [
        record(0, 0, Write, 20_941_264 * 512, 8192),
        record(0, 0, Read, 20_939_840 * 512, 512),
        record(948_294_000, 1, Read, 0, 3072),
    ];
    assert_reads(Format::Spc, content, &["0", "12"], &records);
}

#[test]
fn msr() {
    let content = b"128166372003061629,hm,1,Read,383496192,32768,413\n\
        128166372003061630,hm,1,Write,0,4096,1\r\n\
        128166372013061629,src2,0,Write,1,513,1\n";
    let records = [
        record(0, 0, Read, 383_496_192, 32768),
        record(100, 0, Write, 0, 4096),
        record(1_000_000_000, 1, Write, 1, 513),
    ];
    assert_reads(Format::Msr, content, &["hm_1", "src2_0"], &records);
}

#[test]
fn ssdsim() {
    let content = b"5000 0 303567 7 0\n5000 1\t55590 6 1\n78648005 0 8 8 1\n";
    let records = [
        record(0, 0, Write, 303_567 * 512, 3584),
        record(0, 1, Read, 55_590 * 512, 3072),
        record(78_643_005, 0, Read, 4096, 4096),
    ];
    assert_reads(Format::Ssdsim, content, &["0", "1"], &records);
}

#[test]
fn disksim() {
    let content = b"0.500000 0 1000 8 1\n1.250000 1 1001 16 0\n2.0 1 1001 16 0x3\n2.5 1 0 8 a\n";
    let records = [
        record(0, 0, Read, 512_000, 4096),
        record(750_000, 1, Write, 512_512, 8192),
        record(1_500_000, 1, Read, 512_512, 8192),
        record(2_000_000, 1, Write, 0, 4096),
    ];
    assert_reads(Format::Disksim, content, &["0", "1"], &records);
}

#[test]
fn heimdall() {
    let content = b"0.000 0 200626176 4096 0\n223.412 0 3159347200 36864 1\n";
    let records = [
        record(0, 0, Write, 200_626_176, 4096),
        record(223_412_000, 0, Read, 3_159_347_200, 36864),
    ];
    assert_reads(Format::Heimdall, content, &["0"], &records);
}

/// A record: command, length, address in sectors, microseconds.
fn first(command: u16, length: u32, lba: u64, micros: u64) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(7u32.to_le_bytes());
    record.extend(length.to_le_bytes());
    record.extend(1u32.to_le_bytes());
    record.extend(command.to_le_bytes());
    record.extend(0x0100u16.to_le_bytes());
    record.extend(lba.to_le_bytes());
    record.extend(micros.to_le_bytes());
    record
}

fn second(command: u16, length: u32, lba: u64, micros: u64) -> Vec<u8> {
    let mut record = Vec::new();
    record.extend(command.to_le_bytes());
    record.extend(0x0200u16.to_le_bytes());
    record.extend(7u32.to_le_bytes());
    record.extend(length.to_le_bytes());
    record.extend(1u32.to_le_bytes());
    record.extend(lba.to_le_bytes());
    record.extend(micros.to_le_bytes());
    record.extend(333u64.to_le_bytes());
    record
}

/// Reads and writes of all lengths of command, a cache synchronised, an inquiry passed over.
fn vscsi(of: fn(u16, u32, u64, u64) -> Vec<u8>) -> Vec<u8> {
    [
        of(0x2a, 32768, 42_932_745, 1000),
        of(0x12, 36, 0, 1001),
        of(0x88, 512, 1 << 40, 1003),
        of(0x35, 0, 77, 1004),
        of(0x08, 1024, 3, 1005),
    ]
    .concat()
}

#[test]
fn vscsi_of_both_versions() {
    let records = [
        record(0, 0, Write, 42_932_745 * 512, 32768),
        record(3000, 0, Read, 512 << 40, 512),
        record(4000, 0, Flush, 0, 0),
        record(5000, 0, Read, 1536, 1024),
    ];
    assert_reads(Format::Vscsi, &vscsi(first), &["0"], &records);
    assert_reads(Format::Vscsi, &vscsi(second), &["0"], &records);
}

const BLKPARSE: &str = "\
  8,0    0        1     0.000000000  4020  Q   R 1000 + 8 [java]
  8,0    0        2     0.000001581  4020  G   R 1000 + 8 [java]
  8,0    0        3     0.000003650  4020  U   N [java] 1
  8,0    0        0     0.000003700     0  m   N cfq4020S / alloced
  8,0    0        4     0.000005462  4020  D  RS 1000 + 8 [java]
  8,0    1        1     0.000010000   211  Q FWFSM 2000 + 16 [jbd2/sda1-8]
  8,0    1        2     0.000011000   211  Q  FWS [jbd2/sda1-8]
  8,0    1        3     0.000012000   211  D  FN [jbd2/sda1-8]
  8,16   1        4     0.000013000    99  Q  DS 4096 + 2048 [fstrim]
  8,16   1        5     0.000014000    99  D   D 4096 + 2048 [fstrim]
  8,0    1        6     0.000015000   211  D  WFSM 2000 + 16 [jbd2/sda1-8]
  8,0    1        7     0.000016000     0  C  RS 1000 + 8 [0]

CPU0 (8,0):
 Reads Queued:           1,        4KiB\t Writes Queued:           0,        0KiB
Total (8,0):
";

#[test]
fn blkparse_dispatches() {
    let records = [
        record(0, 0, Read, 512_000, 4096),
        record(6538, 0, Flush, 0, 0),
        record(8538, 1, Discard, 4096 * 512, 1 << 20),
        record(9538, 0, Write, 1_024_000, 8192),
    ];
    assert_reads(Format::Blkparse, BLKPARSE.as_bytes(), &["8,0", "8,16"], &records);
}

#[test]
fn blkparse_queued_or_completed() {
    let shelf = Shelf::new();
    let path = shelf.put("trace.blkparse", BLKPARSE);
    let of = |action| select(&path, &Selection { action: Some(action), ..Selection::default() });
    let queued = [
        record(0, 0, Read, 512_000, 4096),
        record(10_000, 0, Flush, 0, 0),
        record(10_000, 0, Write, 1_024_000, 8192),
        record(11_000, 0, Flush, 0, 0),
        record(13_000, 1, Discard, 4096 * 512, 1 << 20),
    ];
    assert_eq!(of(Action::Q).unwrap(), queued);
    assert_eq!(of(Action::C).unwrap(), [record(0, 0, Read, 512_000, 4096)]);
    // Without a dispatch in it, queued requests are taken.
    let lines = BLKPARSE.lines().filter(|line| !line.contains(" D ")).collect::<Vec<_>>();
    assert_eq!(read(&shelf.put("queued", lines.join("\n"))).unwrap(), queued);
}

#[test]
fn the_name_tells_the_format_first() {
    // Also a possible trace of SSDsim.
    let shelf = Shelf::new();
    let path = shelf.put("cut.disksim.old", "5 0 8 8 1\n6 0 8 8 3\n");
    assert_eq!(read(&path).unwrap()[1].at, Instant(1_000_000));
    let ssdsim = Selection { format: Some(Format::Ssdsim), limit: Some(1), ..Selection::default() };
    assert_eq!(select(&path, &ssdsim).unwrap().len(), 1);
}

#[test]
fn times_never_go_back() {
    let shelf = Shelf::new();
    let path =
        shelf.put("x.ssdsim", "50 0 0 8 1\n40 0 1 8 1\n70 0 2 8 1\n60 0 3 8 1\n70 0 4 8 1\n");
    let mut trace = Trace::open(&path, &Selection::default()).unwrap();
    let times: Vec<u64> = (&mut trace).map(|record| record.unwrap().at.0).collect();
    assert_eq!(times, [0, 0, 20, 20, 20]);
    assert_eq!(trace.inversions(), 2);
}

#[test]
fn requests_of_nothing_are_left_out_and_counted() {
    let shelf = Shelf::new();
    let path = shelf.put("x.spc", "0,0,0,R,1\n0,8,512,R,2\n0,8,0,W,3\n");
    let mut trace = Trace::open(&path, &Selection::default()).unwrap();
    assert_eq!((&mut trace).count(), 1);
    assert_eq!(trace.empty(), 2);
}

#[test]
fn a_selection_counts_after_devices() {
    let shelf = Shelf::new();
    let path = shelf.put("x.ssdsim", "1 0 0 8 1\n2 1 1 8 1\n3 0 2 8 1\n4 1 3 8 1\n5 1 4 8 1\n");
    let selection = Selection {
        devices: Some(vec!["1".into()]),
        skip: 1,
        limit: Some(1),
        ..Selection::default()
    };
    assert_eq!(select(&path, &selection).unwrap(), [record(0, 1, Read, 3 * 512, 4096)]);
    let none = Selection { devices: Some(vec!["2".into()]), ..Selection::default() };
    let error = select(&path, &none).unwrap_err().to_string();
    assert!(
        error.contains("no request in it is left") && error.contains("devices 0, 1"),
        "{error}"
    );
}

/// A name, the content, and words of the error.
const WRONG: [(&str, &str, &str); 23] = [
    (
        "a.spc",
        "0,1,512,R,1\n0,1,512,X,1\n",
        "line 2: expected R or W in column 4, found \"0,1,512,X",
    ),
    ("b.spc", "0,1,512,R\n", "line 1: expected unit,lba,bytes"),
    ("c.spc", "0,-1,512,R,1\n", "an address in blocks of 512 bytes in column 2"),
    ("d.spc", "0,1,4294967296,R,1\n", "a size in bytes below 4 GiB in column 3"),
    ("e.spc", "0,1,512,R,1:30\n", "a time in seconds in column 5"),
    ("f.spc", "x,1,512,R,1\n", "the number of a storage unit in column 1"),
    ("g.spc", "0,36028797018963968,512,R,1\n", "an address in blocks"),
    ("h.spc", "0,36028797018963967,1024,R,1\n", "line 1: expected a request within 16 EiB"),
    ("a.msr", "128,hm,1,Read,1\n", "line 1: expected ticks,host,disk"),
    ("b.msr", "128,hm,1,Trim,1,2,3\n", "Read or Write in column 4"),
    ("c.msr", "128,hm,x,Read,1,2,3\n", "the number of a disk in column 3"),
    ("d.msr", "184467440737095517,hm,1,Read,1,2,3\n", "a time in units of 100 ns in column 1"),
    ("a.ssdsim", "1 0 0 8\n", "five columns"),
    ("b.ssdsim", "1 0 0 8 2\n", "1 (read) or 0 (write) in column 5"),
    ("c.ssdsim", "1 0 0 8388608 1\n", "a size in sectors of 512 bytes, below 4 GiB"),
    ("d.ssdsim", "1 a 0 8 1\n", "the number of a device in column 2"),
    ("a.disksim", "1.0 0 0 8 q\n", "hexadecimal flags in column 5"),
    ("a.heimdall", "1.0 0 x 8 1\n", "an offset in bytes in column 3"),
    ("a.blkparse", "8,0 0 1 0.1 1 Q R 5 + 8 [x]\nnonsense\n", "line 2: expected an event"),
    ("b.blkparse", "8,0 0 1 0.1 1 Q R 5 + x [x]\n", "sector + sectors"),
    ("c.blkparse", "8,0 0 1 0.1 1 Q WS [x]\n", "sector + sectors"),
    ("empty.spc", "", "empty.spc: no request in it is left"),
    ("unknown", "Lorem ipsum\n", "unknown: can't tell its format; give it as `format`: spc,"),
];

#[test]
fn what_is_wrong_is_said() {
    let shelf = Shelf::new();
    for (name, content, says) in WRONG {
        let error = read(&shelf.put(name, content)).expect_err(name).to_string();
        assert!(error.contains(says) && error.contains(name), "{name}: {error}");
    }
}

#[test]
fn a_binary_trace_that_ends_early_says_where() {
    let shelf = Shelf::new();
    let whole = vscsi(first);
    let path = shelf.put("cut.vscsi", &whole[..75]);
    let mut trace = Trace::open(&path, &Selection::default()).unwrap();
    assert!(trace.next().unwrap().is_ok());
    let error = trace.next().unwrap().unwrap_err();
    assert!(matches!(error, TraceError::Malformed { .. }));
    assert!(error.to_string().contains("record 3 (byte 64): expected a whole record"), "{error}");
    assert!(error.to_string().contains("after 11 of 32 bytes"), "{error}");
    assert!(trace.next().is_none(), "nothing after an error");

    let mut mixed = first(0x28, 512, 0, 0);
    mixed.extend(second(0x28, 512, 0, 0));
    let error = read(&shelf.put("mixed.vscsi", mixed)).unwrap_err().to_string();
    assert!(error.contains("record 2 (byte 32): expected the version of the records"), "{error}");
}
