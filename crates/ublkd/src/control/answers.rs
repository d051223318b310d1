//! Answers, as what their lines have.

use evenkeel_client::Refusal;
use serde::Serialize;
use serde_json::Value;

/// The content of a typed answer.
pub(super) fn answer(answer: impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(answer).map_err(|error| Refusal::new("internal", error.to_string()))
}
