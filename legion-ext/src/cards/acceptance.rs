//! The `acceptance` mapping of a card, an override or a call (CARD-70 … CARD-77): one form, one reader.

use serde_json::{Map, Value};

use super::error::Fault;
use super::reader::{A_SLUG, Nulls, Reader, alternatives, is_slug};
use super::types::{AcceptanceLevel, AcceptanceRole, AcceptanceSpec, Criterion, Evidence};

/// Reads the `acceptance` of a call, by the same rules as a card's (CARD-77).
///
/// # Errors
/// Every fault, its key a path below the call such as `acceptance.criteria[0].command`.
pub fn parse_call_acceptance(value: &Value) -> Result<AcceptanceSpec, Vec<Fault>> {
    let map = Map::from_iter([("acceptance".to_owned(), value.clone())]);
    let mut faults = Vec::new();
    let spec = read_acceptance(&mut Reader::new(&map, "", Nulls::Absent, &mut faults), "acceptance");
    if faults.is_empty() { Ok(spec.unwrap_or_default()) } else { Err(faults) }
}

/// The acceptance under `key`; faults are noted in `parent`.
pub(super) fn read_acceptance(parent: &mut Reader<'_, '_>, key: &str) -> Option<AcceptanceSpec> {
    match parent.value(key)? {
        Value::Object(_) => {
            let mut spec = parent.mapping(key)?;
            spec.refuse_unknown(&["level", "role", "criteria"]);
            Some(AcceptanceSpec {
                level: level(&mut spec, "level").unwrap_or(AcceptanceLevel::Attested),
                role: spec.word("role", &[AcceptanceRole::ReadOnly, AcceptanceRole::Writer], AcceptanceRole::as_str),
                criteria: criteria(&mut spec),
            })
        }
        Value::String(_) => level(parent, key).map(|level| AcceptanceSpec { level, role: None, criteria: Vec::new() }),
        other => {
            let levels: Vec<&str> = AcceptanceLevel::ALL.iter().map(|level| level.as_str()).collect();
            parent.expected(key, &format!("a mapping, or {}", alternatives(&levels)), other);
            None
        }
    }
}

fn level(reader: &mut Reader<'_, '_>, key: &str) -> Option<AcceptanceLevel> {
    reader.word(key, AcceptanceLevel::ALL, AcceptanceLevel::as_str)
}

fn criteria(spec: &mut Reader<'_, '_>) -> Vec<Criterion> {
    let Some(value) = spec.value("criteria") else { return Vec::new() };
    let Some(values) = value.as_array() else {
        spec.expected("criteria", "a list of strings or mappings", value);
        return Vec::new();
    };
    let mut criteria: Vec<Criterion> = Vec::with_capacity(values.len());
    for (at, value) in values.iter().enumerate() {
        let key = format!("criteria[{at}]");
        let default_id = format!("c{}", at + 1);
        let criterion = match value {
            Value::String(text) if !text.trim().is_empty() => Some(Criterion {
                id: default_id,
                text: text.trim().to_owned(),
                evidence: Evidence::Attestation,
                command: None,
                required: true,
            }),
            Value::Object(map) => criterion(&mut spec.nested(&key, map), default_id),
            other => {
                spec.expected(&key, "a non-blank string or a mapping with text", other);
                None
            }
        };
        let Some(criterion) = criterion else { continue };
        if let Some(first) = criteria.iter().position(|known| known.id == criterion.id) {
            spec.fault(&format!("{key}.id"), format!("'{}' is the id of criteria[{first}] too", criterion.id));
        }
        criteria.push(criterion);
    }
    criteria
}

fn criterion(reader: &mut Reader<'_, '_>, default_id: String) -> Option<Criterion> {
    reader.refuse_unknown(&["id", "text", "evidence", "command", "required"]);
    let id = match reader.string("id") {
        Some(id) if !is_slug(&id) => {
            reader.expected("id", A_SLUG, &Value::String(id));
            default_id
        }
        Some(id) => id,
        None => default_id,
    };
    if reader.value("text").is_none() {
        reader.fault("text", "expected a non-blank string, got nothing");
    }
    let text = reader.filled_string("text");
    let command = reader.filled_string("command");
    let evidence = reader.word("evidence", Evidence::ALL, Evidence::as_str);
    if command.is_some() && evidence == Some(Evidence::Attestation) {
        reader.fault("command", "expected none with evidence: attestation (nobody would run it)");
    }
    let by_command = if command.is_some() { Evidence::VerificationOutput } else { Evidence::Attestation };
    let required = reader.boolean("required").unwrap_or(true);
    Some(Criterion { id, text: text?, evidence: evidence.unwrap_or(by_command), command, required })
}
