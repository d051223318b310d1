//! What is told of an array's lease.

use std::time::Duration;

use evenkeel_client::LeaseReport;
use raidcore::meta::{ArrayRecord, LeaseBlock};
use serde_json::{Value, json};

/// The lease of a running array, for people.
pub(super) fn held(lease: &LeaseReport) -> String {
    let term = humantime::format_duration(Duration::from_millis(lease.term_ms));
    let renewed = match lease.renewed_ms_ago {
        Some(ago) => format!("renewed {:.1} s ago", ago as f64 / 1000.0),
        None => "not renewed".to_owned(),
    };
    let before = lease.before.iter().map(|before| format!("; host {before} had it before"));
    let silent: Vec<_> = lease.silent.iter().map(u8::to_string).collect();
    let silent = match silent.len() {
        0 => String::new(),
        _ => format!("; no answer from members {}", silent.join(", ")),
    };
    format!(
        "host {} has it (term {term}, generation {}), {renewed} on {} members{}{silent}",
        lease.holder,
        lease.generation,
        lease.voters,
        before.collect::<String>()
    )
}

/// What the device tells of its array's lease.
pub(super) fn value(record: &ArrayRecord, block: Option<&LeaseBlock>) -> Value {
    let Some(term) = record.lease else { return Value::Null };
    let mut value = json!({ "term_ms": term.duration().as_millis() as u64 });
    if let Some(block) = block {
        value["holder"] = block.holder.name.as_str().into();
        value["held"] = block.held.into();
        value["generation"] = block.generation.into();
        value["renewals"] = block.counter.into();
    }
    value
}

/// The same, for people.
pub(super) fn text(record: &ArrayRecord, block: Option<&LeaseBlock>) -> String {
    let Some(term) = record.lease else { return "none: one host reaches it".to_owned() };
    let term = humantime::format_duration(term.duration());
    match block {
        None => format!("of {term}, which no host has had yet"),
        Some(block) if block.held => format!(
            "of {term}, held by host {}, or by none if that is dead (generation {}, renewal {})",
            block.holder.name, block.generation, block.counter
        ),
        Some(block) => format!(
            "of {term}, given up by host {} (generation {})",
            block.holder.name, block.generation
        ),
    }
}
