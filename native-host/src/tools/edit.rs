//! `edit`: replaces exact pieces of a file's text.

mod apply;

use std::path::Path;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::read::{irregular, reason};
use super::{Tool, ToolContext, ToolDef, ToolOutput, blocking, mutation, paths};

#[derive(Debug)]
pub struct Edit {
    def: ToolDef,
}

#[derive(Deserialize)]
struct Args {
    path: String,
    edits: Vec<apply::Replacement>,
}

impl Edit {
    pub fn new() -> Edit {
        let def = ToolDef {
            name: "edit".into(),
            label: "edit".into(),
            description: "Replace exact pieces of one file's text. Each edits[].oldText must occur exactly once in the \
                          original file, and pieces must not overlap: merge changes to the same block or to nearby lines \
                          into one edit. Leave out large unchanged regions."
                .into(),
            prompt_snippet: Some(
                "Replace exact pieces of a file, several in one call".into(),
            ),
            prompt_guidelines: vec![
                "Use edit for targeted changes, and one call for all changes to one file.".into(),
                "edits[].oldText must match the original file exactly and only once; keep it short, without overlaps."
                    .into(),
            ],
            parameters: json!({
                "type": "object",
                "required": ["path", "edits"],
                "properties": {
                    "path": { "type": "string", "description": "File to edit (relative or absolute)" },
                    "edits": {
                        "type": "array",
                        "description": "The replacements. Each is matched against the original file, not against the \
                                        result of the ones before.",
                        "items": {
                            "type": "object",
                            "required": ["oldText", "newText"],
                            "properties": {
                                "oldText": { "type": "string", "description": "Text to replace; occurs once in the file" },
                                "newText": { "type": "string", "description": "Text to put in its place" },
                            },
                        },
                    },
                },
            }),
            ..ToolDef::default()
        };
        Edit { def }
    }
}

#[async_trait]
impl Tool for Edit {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    /// Models also send `edits` as JSON text, a single edit without its list, or the older form with
    /// `oldText` and `newText` beside `path`.
    fn prepare(&self, mut input: Value) -> Value {
        let Some(object) = input.as_object_mut() else { return input };
        let edits = match object.get("edits") {
            Some(Value::String(text)) => serde_json::from_str(text).ok(),
            edits => edits.cloned(),
        };
        let mut edits = match edits {
            Some(Value::Array(list)) => Some(list),
            Some(single) if is_edit(&single) => Some(vec![single]),
            _ => None,
        };
        if is_edit(&Value::Object(object.clone())) {
            let old = json!({ "oldText": object.shift_remove("oldText"), "newText": object.shift_remove("newText") });
            edits.get_or_insert_default().push(old);
        }
        if let Some(edits) = edits {
            object.insert("edits".to_owned(), Value::Array(edits));
        }
        input
    }

    async fn run(&self, ctx: ToolContext, input: Value) -> ToolOutput {
        let args: Args = match serde_json::from_value(input) {
            Ok(args) => args,
            Err(error) => return ToolOutput::error(format!("edit: {error}")),
        };
        if args.edits.is_empty() {
            return ToolOutput::error("edit: edits must contain at least one replacement.");
        }
        let path = paths::resolve_existing(&args.path, &ctx.cwd, ctx.env.home());
        let Some(_turn) = ctx.cancel.run_until_cancelled(mutation::turn(&path)).await else {
            return ToolOutput::error(blocking::ABORTED);
        };
        blocking::run_to_end(&ctx.cancel, move |cancel| edit(&path, &args, cancel)).await
    }
}

fn is_edit(value: &Value) -> bool {
    value.get("oldText").is_some_and(Value::is_string) && value.get("newText").is_some_and(Value::is_string)
}

fn edit(path: &Path, args: &Args, cancel: &CancellationToken) -> Result<ToolOutput, String> {
    let fail = |error: std::io::Error| format!("Could not edit file: {}. {}", args.path, reason(&error));
    if irregular(path) {
        return Err(format!("Could not edit file: {}. It is no regular file.", args.path));
    }
    let bytes = std::fs::read(path).map_err(fail)?;
    // Text that is not UTF-8 would come back changed where nobody edited it.
    let text =
        String::from_utf8(bytes).map_err(|_| format!("Could not edit file: {}. It is not UTF-8 text.", args.path))?;
    let edited = apply::apply(&text, &args.edits, &args.path)?;
    if cancel.is_cancelled() {
        return Err(blocking::ABORTED.to_owned());
    }
    std::fs::write(path, &edited.text).map_err(fail)?;
    let count = args.edits.len();
    Ok(ToolOutput::text(format!("Successfully replaced {count} block(s) in {}.", args.path)).with_details(json!({
        "diff": edited.diff,
        "patch": edited.patch,
        "firstChangedLine": edited.first_changed_line,
    })))
}
