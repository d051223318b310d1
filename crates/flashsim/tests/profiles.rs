//! Profiles: those that come with the crate, and those that can't be.

use flashsim::profile::BUILTIN;
use flashsim::{Precondition, Profile, ProfileError, Ssd};

fn parse(change: impl Fn(String) -> String) -> Result<Profile, ProfileError> {
    let text = BUILTIN.iter().find(|builtin| builtin.name == "msr2008").unwrap().text;
    let changed = change(text.to_string());
    assert_ne!(changed, text, "the test changes nothing");
    Profile::parse(&changed, "test.toml")
}

#[test]
fn every_builtin_profile_is_possible_and_names_its_source() {
    for builtin in BUILTIN {
        let profile = Profile::builtin(builtin.name).unwrap();
        assert_eq!(profile.name, builtin.name);
        assert!(builtin.text.starts_with("# "), "{} doesn't name its source", builtin.name);
        let small = profile.with_blocks(400);
        let ssd = Ssd::new(&small, Precondition::Fresh, 1);
        assert!(ssd.is_ok(), "{}: {:?}", builtin.name, ssd.err());
    }
}

#[test]
fn a_drive_is_made_as_large_as_it_has_to_be() {
    const MIB: u64 = 1 << 20;
    for builtin in BUILTIN {
        let profile = Profile::builtin(builtin.name).unwrap();
        let bytes = |profile: &Profile| {
            let ssd = Ssd::new(profile, Precondition::Fresh, 1).unwrap();
            u64::from(ssd.geometry().logical_pages) * u64::from(ssd.geometry().page_bytes)
        };
        for mib in [1, 100, 5000] {
            let drive = profile.clone().covering(mib * MIB).unwrap();
            let fewer = drive.clone().with_blocks(drive.geometry.blocks - 1);
            assert!(bytes(&drive) >= mib * MIB, "{} of {mib} MiB", builtin.name);
            let too_small = fewer.check().is_err() || bytes(&fewer) < mib * MIB;
            assert!(too_small, "{} of {mib} MiB: {:?}", builtin.name, drive.geometry);
        }
        let error = profile.covering(u64::MAX).unwrap_err();
        assert!(matches!(error, ProfileError::TooLarge { .. }), "{error}");
    }
}

#[test]
fn a_profile_is_read_from_a_file() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/profiles/nvme-tlc.toml");
    assert_eq!(Profile::load(path.as_ref()).unwrap(), Profile::builtin("nvme-tlc").unwrap());
    let missing = Profile::load("/nonexistent/drive.toml".as_ref()).unwrap_err();
    assert!(missing.to_string().contains("/nonexistent/drive.toml"));
}

#[test]
fn a_profile_survives_being_written_and_read() {
    for builtin in BUILTIN {
        let profile = Profile::builtin(builtin.name).unwrap();
        let json = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&json).unwrap(), profile);
    }
}

#[test]
fn an_unknown_key_is_named_with_its_line() {
    let error = parse(|text| text.replace("erase_us", "erase_ms")).unwrap_err().to_string();
    for part in ["test.toml", "line 20", "erase_ms", "erase_us"] {
        assert!(error.contains(part), "{part:?} is missing in: {error}");
    }
}

#[test]
fn what_is_impossible_is_told() {
    type Change = (&'static str, &'static str, &'static str);
    let cases: &[Change] = &[
        ("channels = 8", "channels = 0", "geometry.channels is 0, but must be from 1 to 65536"),
        ("blocks = 2048", "blocks = 4", "geometry.blocks is 4, but must be at least 8"),
        ("blocks = 2048", "blocks = 2000000", "at most 2147483648 are possible"),
        ("spare = 0.15", "spare = 0.05", "102 blocks of a plane free, but only 102 are spare"),
        ("spare = 0.15", "spare = 1.5", "ftl.spare is 1.5"),
        ("read_us = 25", "read_us = -1", "nand.read_us is -1"),
        ("mb_per_s = 40", "mb_per_s = 0.5", "bus.mb_per_s is 0.5, but must be from 1"),
        (
            "[ftl]",
            "[bus.commands]\nread_us = 1\nprogram_us = 1\nerase_us = -2\n[ftl]",
            "bus.commands.erase_us is -2",
        ),
        ("[gc]", "[buffer]\nkib = 5000000\npower_safe = true\n[gc]", "buffer.kib is 5000000"),
        ("read_us = 25", "read_us = nan", "nand.read_us is NaN"),
        ("start = 0.05", "start = 0.05\nhard = 0.06", "gc.start must not be below gc.hard"),
        ("start = 0.05", "start = 0.05\nstop = 0.04", "gc.stop must not be below gc.start"),
        ("erase_us = 1500", "erase_us = 1500\nprogram_planes = 2", "must be a [buffer]"),
        (
            "erase_us = 1500",
            "erase_us = 1500\nprogram_planes = 3",
            "multiple of nand.program_planes",
        ),
        ("summary = true", "mapping_bytes = 3000", "multiple of ftl.mapping_bytes (3000)"),
        (
            "[ftl]",
            "[buffer]\nkib = 64\npower_safe = true\n[ftl]\nmapping_bytes = 2048",
            "ftl.die is \"static\", which tells single pages where to go, but the flash programs 2",
        ),
        ("blocks = 2048", "blocks = 16", "with 32 blocks in a plane the same shares leave enough"),
        ("unit = \"block\"", "unit = { burst = 0 }", "gc.unit.burst is 0"),
        ("scope = \"chip\"", "scope = \"shelf\"", "unknown variant `shelf`"),
    ];
    for (from, to, expected) in cases {
        let error = parse(|text| text.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(expected), "{to}: {error}");
    }
}

/// So few pages a block, of programs so large, and so little spare that all garbage could be where moving
/// the rest takes as many programs as the block has: collecting would go on for ever.
#[test]
fn a_drive_that_could_not_win_anything_by_collecting_is_refused() {
    let drive = |pages, spare| {
        let mut profile = Profile::builtin("nvme-tlc").expect("a profile");
        profile.geometry.pages = pages;
        profile.ftl.spare = spare;
        profile.check()
    };
    let error = drive(24, 0.07).expect_err("24 pages are too few").to_string();
    assert!(error.contains("a block has 192 pages and a program 24"), "{error}");
    drive(768, 0.07).and_then(|()| drive(24, 0.3)).expect("there is enough to win");
}

#[test]
fn thresholds_that_few_blocks_make_the_same_are_told() {
    let drive = |blocks| Profile::builtin("sata-mlc").expect("a profile").with_blocks(blocks);
    assert_eq!(drive(1024).same_thresholds(), []);
    let same = [("gc.hard", "gc.start", 1), ("gc.start", "gc.stop", 1)];
    assert_eq!(drive(64).same_thresholds(), same);
    assert_eq!(drive(1024).notes().count(), 0);
    let notes: Vec<_> = drive(64).notes().collect();
    assert_eq!(notes[0], "with 64 blocks in a plane gc.hard and gc.start are the same, 1");
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let error = Profile::builtin("floppy").unwrap_err().to_string();
    assert!(error.contains("floppy") && error.contains("msr2008"), "{error}");
}
