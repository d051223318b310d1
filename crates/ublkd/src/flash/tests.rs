use super::*;

fn named(typed: &str) -> Result<(String, Option<NewFlash>), FlashError> {
    let named = Named::parse(Path::new(typed))?;
    Ok((named.path.display().to_string(), named.flash))
}

#[test]
fn names_are_read() {
    use Precondition::{Aged, Filled, Fresh};
    for (typed, path, profile, state) in [
        ("flash:mqsim:a.img", "a.img", "mqsim", Fresh),
        ("flash:mqsim+filled:/x/a", "/x/a", "mqsim", Filled),
        ("flash:./my.toml+aged:a:b", "a:b", "./my.toml", Aged(2.0)),
        ("flash:/x+y/my.toml+fresh:a", "a", "/x+y/my.toml", Fresh),
        ("flash:/x+y/my.toml:a", "a", "/x+y/my.toml", Fresh),
    ] {
        let flash = NewFlash { profile: profile.to_owned(), state, told: false, obeys: false };
        assert_eq!(named(typed).unwrap(), (path.to_owned(), Some(flash)), "{typed}");
    }
    for (typed, state, told, obeys) in [
        ("flash:mqsim+told:a", Fresh, true, false),
        ("flash:mqsim+aged+obeys:a", Aged(2.0), false, true),
        ("flash:mqsim+obeys+told+filled:a", Filled, true, true),
    ] {
        let flash = NewFlash { profile: "mqsim".into(), state, told, obeys };
        assert_eq!(named(typed).unwrap().1, Some(flash), "{typed}");
    }
    assert_eq!(named("./flash:a:b").unwrap(), ("./flash:a:b".to_owned(), None));
    for typed in [
        "flash:",
        "flash:mqsim",
        "flash:mqsim:",
        "flash::a",
        "flash:mqsim+new:a",
        "flash:mqsim+told+told:a",
        "flash:mqsim+aged+fresh:a",
    ] {
        let error = named(typed).unwrap_err().to_string();
        assert!(error.contains("+aged") && error.contains("sata-mlc"), "{error}");
    }
}

#[test]
fn names_are_made_absolute() {
    let here = std::env::current_dir().unwrap().display().to_string();
    for (typed, absolute) in [
        ("a", format!("{here}/a")),
        ("flash:mqsim:a", format!("flash:mqsim+fresh:{here}/a")),
        ("flash:p.toml+aged:/a", format!("flash:{here}/p.toml+aged:/a")),
        ("flash:mqsim+obeys+told:/a", "flash:mqsim+fresh+told+obeys:/a".to_owned()),
        ("flash:oops", "flash:oops".to_owned()),
    ] {
        assert_eq!(Named::absolute(Path::new(typed)).unwrap(), Path::new(&absolute), "{typed}");
    }
}

#[test]
fn a_state_comes_back_and_what_is_none_is_refused() {
    const BYTES: u64 = 8 << 20;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a");
    assert!(load(&path, BYTES).unwrap().is_none());
    let (told, obeys) = (false, true);
    let flash = NewFlash { profile: "mqsim".into(), state: Precondition::Filled, told, obeys };
    let drive = flash.drive(&path, BYTES).unwrap();
    store(&path, &drive.save()).unwrap();
    let loaded = load(&path, BYTES).unwrap().unwrap();
    assert_eq!(loaded.save(), drive.save());
    flash.check(&path, &loaded).unwrap();
    assert!(loaded.profile().obeys && !loaded.profile().told);
    for other in [
        NewFlash { profile: "msr2008".into(), ..flash.clone() },
        NewFlash { told: true, ..flash.clone() },
        NewFlash { obeys: false, ..flash },
    ] {
        let error = other.check(&path, &loaded).unwrap_err().to_string();
        assert!(error.contains("a.flash") && error.contains("\"mqsim+obeys\""), "{error}");
    }

    let names: Vec<_> =
        dir.path().read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a.flash"], "nothing else is left behind");
    let refused = |bytes| {
        let error = load(&path, bytes).unwrap_err().to_string();
        assert!(error.contains("a.flash can't be used") && error.contains("Delete it"), "{error}");
        error
    };
    assert!(refused(1 << 40).contains("the file has 1099511627776"));
    store(&path, b"EKFLASH, or not").unwrap();
    assert!(refused(BYTES).contains("not the state of a drive"));
    File::create(state_path(&path)).unwrap().set_len(BYTES_MAX + 1).unwrap();
    assert!(refused(BYTES).contains("too large"));
}
