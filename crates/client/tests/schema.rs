//! The schema of the protocol is stored for programs in other languages, and is what it is.

use std::path::Path;
use std::{env, fs};

use evenkeel_client::{Request, encode_request, schema};
use serde_json::Value;

#[test]
fn the_stored_schema_is_that_of_the_protocol() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/control-socket.schema.json");
    let text = serde_json::to_string_pretty(&schema()).expect("it is JSON") + "\n";
    if env::var_os("EVENKEEL_STORE_SCHEMA").is_some() {
        fs::write(&path, &text).expect("it is stored");
    }
    let stored = fs::read_to_string(&path).expect("it is there");
    assert!(
        stored == text,
        "{} is not the protocol's: look whether it may change, and store it with \
         EVENKEEL_STORE_SCHEMA=1 cargo test -p evenkeel-client --features schema --test schema",
        path.display()
    );
}

#[test]
fn a_request_has_what_the_schema_says() {
    let schema = schema();
    let requests = schema["$defs"]["Request"]["oneOf"].as_array().expect("several");
    let add = Request::DiskAdd { path: "/dev/sdz".into(), group: None, force: true };
    for request in [Request::Status, add, Request::CacheSet { cache: "log".into() }] {
        let line: Value =
            serde_json::from_str(&encode_request(&request).expect("a line")).expect("an object");
        let is_it = |it: &&Value| it["properties"]["cmd"]["const"] == line["cmd"];
        let described = requests.iter().find(is_it).expect("it is described");
        for (name, _) in line.as_object().expect("an object") {
            assert!(described["properties"][name].is_object(), "{name} of {line}");
        }
        for name in described["required"].as_array().expect("a list") {
            assert!(line.get(name.as_str().expect("a name")).is_some(), "{name} of {line}");
        }
        let command = line["cmd"].as_str().expect("a word");
        assert!(schema["answers"][command].is_object(), "what answers {command}");
    }
}
