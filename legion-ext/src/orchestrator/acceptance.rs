//! What a child has to show, and what its own report says about it (ORC-137 … ORC-142, CARD-77, PHM-44). Pure.
//!
//! Commands are listed and not run: verification is not in this build.

use serde_json::Value;

use super::report::AcceptanceResult;
use crate::{
    cards::{AcceptanceLevel, AcceptanceRole, AcceptanceSpec},
    error::{Result, SubagentError},
};

/// The acceptance in force: the call's replaces the card's whole, and may tighten but not loosen its role (CARD-77).
/// With it come the warnings of that.
///
/// # Errors
/// A read-only session gives a command.
pub(super) fn in_force(
    card: &AcceptanceSpec,
    call: Option<&AcceptanceSpec>,
    session: Option<AcceptanceRole>,
) -> Result<(AcceptanceSpec, Vec<String>)> {
    let Some(call) = call else { return Ok((card.clone(), Vec::new())) };
    if session == Some(AcceptanceRole::ReadOnly) && call.criteria.iter().any(|criterion| criterion.command.is_some()) {
        return Err(SubagentError::invalid("a read-only role cannot give acceptance commands"));
    }
    let mut spec = call.clone();
    let mut warnings = Vec::new();
    if card.role == Some(AcceptanceRole::ReadOnly) && spec.role != Some(AcceptanceRole::ReadOnly) {
        spec.role = Some(AcceptanceRole::ReadOnly);
        warnings.push("acceptance.role stays read-only (card)".to_owned());
    }
    Ok((spec, warnings))
}

/// The result of a recorded round; `None` where nothing was asked for.
pub(super) fn judge(spec: &AcceptanceSpec, verdict: Option<bool>) -> Option<AcceptanceResult> {
    if spec.level == AcceptanceLevel::None {
        return None;
    }
    let status = match verdict {
        Some(true) => "accepted",
        Some(false) => "rejected",
        None => "pending",
    };
    let pending = spec.criteria.iter().map(|criterion| criterion.text.clone()).collect();
    Some(AcceptanceResult { level: AcceptanceLevel::Attested.as_str(), status, pending })
}

/// The verdict that ends a report: a JSON object with a boolean `ok`, the whole text or its last fenced code block
/// (PHM-44).
pub(super) fn verdict(text: &str) -> Option<bool> {
    let text = text.trim();
    let ok = |json: &str| serde_json::from_str::<Value>(json.trim()).ok()?.as_object()?.get("ok")?.as_bool();
    ok(text).or_else(|| ok(last_fenced(text)?))
}

/// The content of the last fenced code block that is closed.
fn last_fenced(text: &str) -> Option<&str> {
    let mut fences = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with("```") {
            fences.push((at, at + line.len()));
        }
        at += line.len();
    }
    // Fences come in pairs; an odd one at the end opens a block that is not closed.
    fences.truncate(fences.len() / 2 * 2);
    let [.., (_, begin), (end, _)] = fences.as_slice() else { return None };
    text.get(*begin..*end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cards::{Criterion, Evidence};

    /// PHM-44
    #[test]
    fn a_verdict_is_the_whole_text_or_its_last_fenced_block() {
        let rows = [
            (r#"{ "ok": true }"#, Some(true)),
            ("  {\"ok\": false, \"reason\": \"x\"}\n", Some(false)),
            ("Done.\n\n```json\n{ \"ok\": true }\n```\n", Some(true)),
            ("```json\n{ \"ok\": true }\n```\nthen\n```\n{\"ok\": false}\n```", Some(false)),
            ("```json\n{ \"ok\": true }\n```\nand code\n```rust\nfn main() {}\n```", None),
            ("Done. { \"ok\": true }", None),
            ("```json\n{ \"ok\": \"yes\" }\n```", None),
            ("```json\n{ \"ok\": true }", None),
            ("[true]", None),
            ("", None),
        ];
        for (text, want) in rows {
            assert_eq!(verdict(text), want, "{text:?}");
        }
    }

    fn spec(role: Option<AcceptanceRole>, command: Option<&str>) -> AcceptanceSpec {
        let criterion = Criterion {
            id: "c1".into(),
            text: "tests pass".into(),
            evidence: if command.is_some() { Evidence::VerificationOutput } else { Evidence::Attestation },
            command: command.map(str::to_owned),
            required: true,
        };
        AcceptanceSpec { level: AcceptanceLevel::Verified, role, criteria: vec![criterion] }
    }

    /// ORC-138, ORC-142: without a run of its command every criterion stays attested and pending.
    #[test]
    fn the_report_decides_the_status_and_criteria_stay_pending() {
        let asked = spec(None, Some("cargo test"));
        for (verdict, status) in [(Some(true), "accepted"), (Some(false), "rejected"), (None, "pending")] {
            let result = judge(&asked, verdict).unwrap();
            assert_eq!((result.level, result.status, result.pending), ("attested", status, vec!["tests pass".into()]));
        }
        assert_eq!(judge(&AcceptanceSpec::default(), Some(true)), None);
    }

    /// CARD-77
    #[test]
    fn a_call_tightens_and_never_loosens() {
        use AcceptanceRole::{ReadOnly, Writer};
        let card = spec(Some(ReadOnly), None);
        let (got, warnings) = in_force(&card, Some(&spec(Some(Writer), None)), None).unwrap();
        assert_eq!((got.role, warnings), (Some(ReadOnly), vec!["acceptance.role stays read-only (card)".into()]));
        let (got, warnings) = in_force(&spec(None, None), Some(&spec(Some(ReadOnly), None)), None).unwrap();
        assert_eq!((got.role, warnings.len()), (Some(ReadOnly), 0));
        let error = in_force(&card, Some(&spec(None, Some("make"))), Some(ReadOnly)).unwrap_err();
        assert_eq!(error.message, "a read-only role cannot give acceptance commands");
        assert!(in_force(&card, Some(&spec(None, Some("make"))), Some(Writer)).is_ok());
        assert_eq!(in_force(&card, None, Some(ReadOnly)).unwrap().0, card);
    }
}
