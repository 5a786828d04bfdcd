//! `ls`: the entries of one directory.

use std::path::Path;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::truncate::{self, MAX_BYTES};
use super::{Tool, ToolContext, ToolDef, ToolOutput, blocking, paths};

const DEFAULT_LIMIT: f64 = 500.0;

#[derive(Debug)]
pub struct Ls {
    def: ToolDef,
}

#[derive(Deserialize)]
struct Args {
    path: Option<String>,
    limit: Option<f64>,
}

impl Ls {
    pub fn new() -> Ls {
        let def = ToolDef {
            name: "ls".into(),
            label: "ls".into(),
            description: format!(
                "List a directory: entries in alphabetical order, dotfiles too, a '/' behind directories. Cut to \
                 {DEFAULT_LIMIT} entries or {}KB, whichever comes first.",
                MAX_BYTES / 1024
            ),
            prompt_snippet: Some("List a directory".into()),
            parameters: json!({
                "type": "object",
                "properties": {
                    "path": { "type": "string", "description": "Directory to list (default: current directory)" },
                    "limit": { "type": "number", "description": "Most entries to return (default: 500)" },
                },
            }),
            ..ToolDef::default()
        };
        Ls { def }
    }
}

#[async_trait]
impl Tool for Ls {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    async fn run(&self, ctx: ToolContext, input: Value) -> ToolOutput {
        let args: Args = match serde_json::from_value(input) {
            Ok(args) => args,
            Err(error) => return ToolOutput::error(format!("ls: {error}")),
        };
        let path = paths::resolve_existing(args.path.as_deref().unwrap_or("."), &ctx.cwd, ctx.env.home());
        let limit = limit_of(args.limit, DEFAULT_LIMIT);
        blocking::run(&ctx.cancel, move |_| list(&path, limit)).await
    }
}

fn list(dir: &Path, limit: usize) -> Result<ToolOutput, String> {
    if !dir.exists() {
        return Err(format!("Path not found: {}", dir.display()));
    }
    if !dir.is_dir() {
        return Err(format!("Not a directory: {}", dir.display()));
    }
    let entries = std::fs::read_dir(dir).map_err(|error| format!("Cannot read directory: {error}"))?;
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let entry = entry.ok()?;
            // Follows links, so that a link to a directory shows as one; a broken link is left out.
            let directory = std::fs::metadata(entry.path()).ok()?.is_dir();
            Some(format!("{}{}", entry.file_name().to_string_lossy(), if directory { "/" } else { "" }))
        })
        .collect();
    if names.is_empty() {
        return Ok(ToolOutput::text("(empty directory)"));
    }
    names.sort_by_cached_key(|name| (name.to_lowercase(), name.clone()));
    let more = names.len() > limit;
    names.truncate(limit);

    let shown = truncate::head(&names.join("\n"), usize::MAX, MAX_BYTES);
    let mut notes = Notes::default();
    if more {
        notes.say(format!("{limit} entries limit reached. Use limit={} for more", limit * 2));
        notes.detail("entryLimitReached", json!(limit));
    }
    notes.size_limit(&shown);
    Ok(notes.finish(shown.content))
}

/// A limit as a model writes it: at least 1, without a fraction.
pub(super) fn limit_of(limit: Option<f64>, default: f64) -> usize {
    limit.unwrap_or(default).max(1.0) as usize
}

/// What was cut from a result: a line for the model, details for programs.
#[derive(Default)]
pub(super) struct Notes {
    lines: Vec<String>,
    details: Map<String, Value>,
}

impl Notes {
    pub(super) fn say(&mut self, note: String) {
        self.lines.push(note);
    }

    pub(super) fn detail(&mut self, name: &str, value: Value) {
        self.details.insert(name.to_owned(), value);
    }

    /// Says that `shown` was cut by its size, if it was.
    pub(super) fn size_limit(&mut self, shown: &truncate::Truncation) {
        if shown.truncated {
            self.say(format!("{} limit reached", truncate::size(MAX_BYTES)));
            self.detail("truncation", json!(shown));
        }
    }

    pub(super) fn finish(self, mut text: String) -> ToolOutput {
        if !self.lines.is_empty() {
            text.push_str(&format!("\n\n[{}]", self.lines.join(". ")));
        }
        let details = (!self.details.is_empty()).then_some(Value::Object(self.details));
        ToolOutput { details, ..ToolOutput::text(text) }
    }
}
