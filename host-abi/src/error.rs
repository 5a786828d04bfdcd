//! The error that crosses the boundary (ABI-5, ABI-15).

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Codes of the boundary. Extensions have codes of their own beside these.
pub mod codes {
    /// JSON that does not parse or misses a field.
    pub const BAD_PAYLOAD: &str = "BAD_PAYLOAD";
    /// A message that came without a code.
    pub const HOST: &str = "HOST";
    /// The named child is not there (any more).
    pub const NO_CHILD: &str = "NO_CHILD";
    /// The operation needs a screen and this session has none.
    pub const NO_UI: &str = "NO_UI";
    /// The body of the call panicked; the extension stays usable.
    pub const PANIC: &str = "PANIC";
    /// The scope was detached.
    pub const SCOPE_GONE: &str = "SCOPE_GONE";
    /// A payload above [`crate::MAX_PAYLOAD_BYTES`].
    pub const TOO_LARGE: &str = "TOO_LARGE";
    /// The other side does not know this operation.
    pub const UNKNOWN_OP: &str = "UNKNOWN_OP";
}

/// What went wrong on the other side, in words for a person, with a code for a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub struct AbiError {
    /// One of [`codes`], or a code of the extension.
    pub code: String,
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Box<Value>>,
}

impl fmt::Display for AbiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)
    }
}

impl AbiError {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), hint: None, details: None }
    }

    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(Box::new(details));
        self
    }

    /// A message without a code.
    pub fn host(message: impl Into<String>) -> Self {
        Self::new(codes::HOST, message)
    }

    pub fn bad_payload(what: &str, error: &impl fmt::Display) -> Self {
        Self::new(codes::BAD_PAYLOAD, format!("{what}: {error}"))
    }

    /// A payload that is wrong at `path`, such as `ctx.mode`; `.` is the whole of it.
    pub fn bad_payload_at(what: &str, path: &str, error: &impl fmt::Display) -> Self {
        let at = if path == "." { String::new() } else { format!("at {path}: ") };
        Self::new(codes::BAD_PAYLOAD, format!("{what}: {at}{error}")).with_details(serde_json::json!({ "path": path }))
    }

    pub fn unknown_op(op: &str) -> Self {
        Self::new(codes::UNKNOWN_OP, format!("unknown operation '{op}'")).with_details(serde_json::json!({ "op": op }))
    }

    pub fn scope_gone(scope: u64) -> Self {
        Self::new(codes::SCOPE_GONE, format!("session scope {scope} is gone"))
    }

    pub fn no_child(child: &str) -> Self {
        Self::new(codes::NO_CHILD, format!("no child '{child}' in this session"))
    }

    pub fn no_ui(op: &str) -> Self {
        Self::new(codes::NO_UI, format!("'{op}' needs a user interface and this session has none"))
    }

    pub fn too_large(bytes: usize) -> Self {
        Self::new(
            codes::TOO_LARGE,
            format!("payload of {bytes} bytes is over the limit of {}", crate::MAX_PAYLOAD_BYTES),
        )
    }

    /// The wire form. An error always serialises: it holds strings and JSON only.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and JSON values always serialise")
    }

    /// Reads the wire form; a text that is not one is wrapped as [`codes::HOST`].
    pub fn from_json(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_else(|_| Self::host(text))
    }
}
