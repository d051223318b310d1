//! The protocol as a JSON Schema (draft 2020-12), for programs in other languages.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::{
    ArrayReport, DiskAnswer, Done, FlashLog, FlushAnswer, Launch, Page, PolicyAnswer, Refusal,
    Request, StopAnswer, VERSION, WhyReport,
};

/// The schema of a line that a client sends. Its `answers` has, by the command, what is in `ok` of the line that
/// answers it, and `refusal` what is in `error`.
///
/// # Panics
/// If a request has no answer: then this function is wrong.
#[must_use]
pub fn schema() -> Value {
    let mut all = SchemaSettings::draft2020_12().into_generator();
    all.subschema_for::<Request>();
    let refusal = all.subschema_for::<Refusal>();
    let done = all.subschema_for::<Done>();
    let of = [
        ("status", all.subschema_for::<ArrayReport>()),
        ("why", all.subschema_for::<WhyReport>()),
        ("metrics", all.subschema_for::<Page>()),
        ("disk-add", all.subschema_for::<DiskAnswer>()),
        ("disk-replace", all.subschema_for::<DiskAnswer>()),
        ("flash-log", all.subschema_for::<FlashLog>()),
        ("policy-set", all.subschema_for::<PolicyAnswer>()),
        ("cache-set", all.subschema_for::<PolicyAnswer>()),
        ("cache-flush", all.subschema_for::<FlushAnswer>()),
        ("stop", all.subschema_for::<StopAnswer>()),
        ("launch", all.subschema_for::<Launch>()),
        ("leave", all.subschema_for::<Launch>()),
    ];
    let mut types = all.take_definitions(true);
    let requests = types.get_mut("Request").and_then(|it| it["oneOf"].as_array_mut());
    let requests = requests.expect("it is one of several commands");
    let mut answers = Map::new();
    for request in requests {
        // Each line has the version, which is no argument of a command.
        request["properties"]["v"] = json!({ "const": VERSION });
        request["required"].as_array_mut().expect("a list").push("v".into());
        let command = request["properties"]["cmd"]["const"].as_str().expect("a word").to_owned();
        let answer = of.iter().find(|(of, _)| *of == command).map_or(&done, |(_, answer)| answer);
        answers.insert(command, answer.clone().to_value());
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("Requests to an array of Evenkeel, version {VERSION}"),
        "$ref": "#/$defs/Request",
        "answers": answers,
        "refusal": refusal,
        "$defs": types,
    })
}
