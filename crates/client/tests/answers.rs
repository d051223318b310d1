//! Answers of every release are read by this one, with all that was in them.
//!
//! `answers/VERSION/` has what arrays of that release have answered, a file for each, named by the
//! request's `cmd`. A release adds a directory, and changes none.

use std::fs;
use std::path::Path;

use evenkeel_client::{
    ArrayReport, DiskAnswer, FlashLog, FlushAnswer, Launch, Page, PolicyAnswer, Refusal, Request,
    StopAnswer, VERSION, WhyReport, decode_request, encode_request,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Reads an answer as its type, and writes it again.
fn again<T: DeserializeOwned + Serialize>(answer: &Value) -> Result<Value, serde_json::Error> {
    serde_json::to_value(serde_json::from_value::<T>(answer.clone())?)
}

/// What this release makes of an answer to this request.
fn understood(cmd: &str, answer: &Value) -> Result<Value, serde_json::Error> {
    match cmd {
        "status" => again::<ArrayReport>(answer),
        "why" => again::<WhyReport>(answer),
        "flash-log" => again::<FlashLog>(answer),
        "launch" => again::<Launch>(answer),
        "metrics" => again::<Page>(answer),
        "disk-add" | "disk-replace" => again::<DiskAnswer>(answer),
        "policy-set" => again::<PolicyAnswer>(answer),
        "cache-flush" => again::<FlushAnswer>(answer),
        "stop" => again::<StopAnswer>(answer),
        "disk-fail" | "limit" | "scrub-start" | "scrub-cancel" => {
            again::<Map<String, Value>>(answer)
        }
        "refusal" => again::<Refusal>(answer),
        other => panic!("nothing says what the answer to {other} is read as"),
    }
}

/// Checks that all of `was` is in `is`. What had no value may be missing.
fn assert_kept(was: &Value, is: &Value, at: &str) {
    match (was, is) {
        (Value::Object(was), Value::Object(is)) => {
            for (name, value) in was {
                match is.get(name) {
                    Some(kept) => assert_kept(value, kept, &format!("{at}.{name}")),
                    None => assert!(value.is_null(), "{at}.{name} is gone: {value}"),
                }
            }
        }
        (Value::Array(was), Value::Array(is)) => {
            assert_eq!(was.len(), is.len(), "{at}");
            for (index, (was, is)) in was.iter().zip(is).enumerate() {
                assert_kept(was, is, &format!("{at}[{index}]"));
            }
        }
        _ => assert_eq!(was, is, "{at}"),
    }
}

/// The answers of all releases: where they are, what was asked, and what was answered.
fn stored() -> Vec<(String, String, Value)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/answers");
    let mut stored = Vec::new();
    for release in fs::read_dir(dir).expect("releases") {
        for file in fs::read_dir(release.expect("a release").path()).expect("answers") {
            let path = file.expect("an answer").path();
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
            let cmd = name.split("-of-").next().expect("a command").to_owned();
            let text = fs::read(&path).expect("an answer");
            let answer: Value = serde_json::from_slice(&text).expect("JSON");
            stored.push((path.display().to_string(), cmd, answer));
        }
    }
    stored
}

#[test]
fn answers_of_every_release_are_read_and_nothing_of_them_is_lost() {
    let stored = stored();
    assert!(!stored.is_empty());
    for (path, cmd, answer) in stored {
        assert_eq!(answer["v"], VERSION, "{path}");
        let inner = if cmd == "refusal" { &answer["error"] } else { &answer["ok"] };
        let read = understood(&cmd, inner).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_kept(inner, &read, &path);
    }
}

#[test]
fn disks_answers_are_told_apart() {
    let is = |name: &str| -> DiskAnswer {
        let all = stored();
        let suffix = format!("/{name}.json");
        let (_, _, answer) = all.iter().find(|(path, ..)| path.ends_with(&suffix)).expect(name);
        serde_json::from_value(answer["ok"].clone()).expect(name)
    };
    assert!(matches!(is("disk-add"), DiskAnswer::Added { .. }));
    assert!(matches!(is("disk-replace"), DiskAnswer::Replaced { member: 0, copied: true, .. }));
    let back = is("disk-add-of-a-member-that-was-away");
    assert!(matches!(back, DiskAnswer::Returned { member: 1, missed_bytes: Some(1..), .. }));
}

#[test]
fn requests_of_every_release_mean_the_same() {
    // As 0.1.0 has sent them.
    let lines = include_str!("requests/0.1.0.txt");
    let mut count = 0;
    for line in lines.lines() {
        let request: Request = decode_request(line.as_bytes()).expect(line);
        let again = encode_request(&request).expect("it encodes");
        let value = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        assert_kept(&value(line), &value(&again), line);
        count += 1;
    }
    assert_eq!(count, 20, "all that there were");
}

#[test]
fn an_answer_of_a_later_release_is_read_too() {
    let (_, _, answer) =
        stored().into_iter().find(|(path, ..)| path.ends_with("/status.json")).expect("a state");
    let mut later = answer["ok"].clone();
    later["comes_later"] = Value::from(1);
    later["members"][0]["comes_later"] = Value::from("new");
    later["problems"] = serde_json::json!([{
        "kind": "comes-later", "what": "w", "since": null, "action": "a", "comes_later": true
    }]);
    let read: ArrayReport = serde_json::from_value(later).expect("what is new is ignored");
    assert_eq!(read.problems[0].kind, "comes-later");
}
