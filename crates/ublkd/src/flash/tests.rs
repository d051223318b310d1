use super::*;

fn named(typed: &str) -> Result<(String, Option<(String, Precondition)>), FlashError> {
    let named = Named::parse(Path::new(typed))?;
    let flash = named.flash.map(|flash| (flash.profile, flash.state));
    Ok((named.path.display().to_string(), flash))
}

#[test]
fn names_are_read() {
    use Precondition::{Aged, Filled, Fresh};
    for (typed, path, profile, state) in [
        ("flash:mqsim:a.img", "a.img", "mqsim", Fresh),
        ("flash:mqsim+filled:/x/a", "/x/a", "mqsim", Filled),
        ("flash:./my.toml+aged:a:b", "a:b", "./my.toml", Aged(2.0)),
        ("flash:/x+y/my.toml+fresh:a", "a", "/x+y/my.toml", Fresh),
    ] {
        let expected = (path.to_owned(), Some((profile.to_owned(), state)));
        assert_eq!(named(typed).unwrap(), expected, "{typed}");
    }
    assert_eq!(named("./flash:a:b").unwrap(), ("./flash:a:b".to_owned(), None));
    for typed in ["flash:", "flash:mqsim", "flash:mqsim:", "flash::a", "flash:mqsim+new:a"] {
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
    let flash = NewFlash { profile: "mqsim".into(), state: Precondition::Filled };
    let drive = flash.drive(&path, BYTES).unwrap();
    store(&path, &drive.save()).unwrap();
    let loaded = load(&path, BYTES).unwrap().unwrap();
    assert_eq!(loaded.save(), drive.save());
    flash.check(&path, &loaded).unwrap();
    let other = NewFlash { profile: "msr2008".into(), ..flash };
    let error = other.check(&path, &loaded).unwrap_err().to_string();
    assert!(error.contains("a.flash") && error.contains("\"mqsim\""), "{error}");

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
