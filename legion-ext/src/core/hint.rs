//! The way out of a failed start, told from its text (HINT-2 … HINT-4).

/// The hint for a launch failure, without the blank line before it; `None` when the text needs none.
///
/// A text that has a hint already gets no second one, so the order is also what makes adding a hint twice impossible.
pub fn failure_hint(text: &str) -> Option<String> {
    if text.contains("Hint:") || text.contains("--- Legion auto-doctor") {
        return None;
    }
    let credential = CREDENTIAL_MARKS.iter().find_map(|mark| text.split_once(mark).map(|(_, after)| after));
    if let Some(after) = credential.or_else(|| text.contains(NO_PROVIDER_MARK).then_some("")) {
        let login = match provider(after) {
            Some(provider) => format!("/login {provider}"),
            None => "/login".to_owned(),
        };
        return Some(format!("Hint: run {login} (or set its API key) and launch again."));
    }
    text.contains(MODEL_MARK).then(|| {
        "Hint: declare the model in models.json, or load the extension that provides it with PI_LEGION_CHILD_EXTENSIONS."
            .to_owned()
    })
}

/// `text`, followed by a blank line and its hint where it gets one.
pub fn with_failure_hint(text: &str) -> String {
    failure_hint(text).map_or_else(|| text.to_owned(), |hint| format!("{text}\n\n{hint}"))
}

const CREDENTIAL_MARKS: [&str; 2] = ["No API key found for", "Authentication failed for"];
const NO_PROVIDER_MARK: &str = "No matching provider is authenticated";
const MODEL_MARK: &str = "inprocess model resolve failed";

/// The word after a mark, without quotes and punctuation.
fn provider(after: &str) -> Option<&str> {
    let word = after.split_whitespace().next()?;
    let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let name = word.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    (name && !word.is_empty() && word.len() <= 64).then_some(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODEL: &str = "inprocess model resolve failed: no model 'x/y'";

    /// HINT-2, HINT-3, HINT-4, 09-T14
    #[test]
    fn each_cause_gets_its_hint_once() {
        let rows = [
            ("No API key found for openai.", Some("Hint: run /login openai (or set its API key) and launch again.")),
            (
                "Authentication failed for \"anthropic\": 401",
                Some("Hint: run /login anthropic (or set its API key) and launch again."),
            ),
            ("No matching provider is authenticated", Some("Hint: run /login (or set its API key) and launch again.")),
            (
                MODEL,
                Some(
                    "Hint: declare the model in models.json, or load the extension that provides it with PI_LEGION_CHILD_EXTENSIONS.",
                ),
            ),
            ("the disk is full", None),
            ("No API key found for x\n\n--- Legion auto-doctor\n…", None),
        ];
        for (text, want) in rows {
            assert_eq!(failure_hint(text).as_deref(), want, "{text}");
            let once = with_failure_hint(text);
            assert_eq!(with_failure_hint(&once), once);
        }
    }

    /// HINT-2, 09-T14: credentials win over the marker of the resolver.
    #[test]
    fn credentials_win() {
        let text = format!("{MODEL}; No API key found for openai");
        assert!(failure_hint(&text).unwrap().starts_with("Hint: run /login openai "));
        assert_eq!(
            with_failure_hint("No API key found for"),
            "No API key found for\n\nHint: run /login (or set its API key) and launch again."
        );
    }
}
