//! Where in a TOML text something is.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The line, from 1, on which a dotted key is set; that of the innermost table around it if it is
/// not there.
#[must_use]
pub fn line_of(text: &str, key: &str) -> usize {
    let Ok(root) = DeTable::parse(text) else { return 1 };
    let (mut table, mut at) = (root.get_ref(), 0);
    for part in key.split('.') {
        let Some((name, value)) = table.iter().find(|(name, _)| name.get_ref() == part) else {
            break;
        };
        at = Spanned::span(name).start;
        let DeValue::Table(inner) = value.get_ref() else { break };
        table = inner;
    }
    text[..at].matches('\n').count() + 1
}
