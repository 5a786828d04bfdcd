//! `write`: makes a file or replaces it whole.

use std::path::Path;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::read::{irregular, reason};
use super::{Tool, ToolContext, ToolDef, ToolOutput, blocking, mutation, paths};

#[derive(Debug)]
pub struct Write {
    def: ToolDef,
}

#[derive(Deserialize)]
struct Args {
    path: String,
    content: String,
}

impl Write {
    pub fn new() -> Write {
        let def = ToolDef {
            name: "write".into(),
            label: "write".into(),
            description: "Write content to a file. A missing file and its missing parent directories are made; an \
                          existing file is overwritten."
                .into(),
            prompt_snippet: Some("Make a file or replace it whole".into()),
            prompt_guidelines: vec!["Use write for new files and complete rewrites only.".into()],
            parameters: json!({
                "type": "object",
                "required": ["path", "content"],
                "properties": {
                    "path": { "type": "string", "description": "File to write (relative or absolute)" },
                    "content": { "type": "string", "description": "The file's whole new content" },
                },
            }),
            ..ToolDef::default()
        };
        Write { def }
    }
}

#[async_trait]
impl Tool for Write {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    async fn run(&self, ctx: ToolContext, input: Value) -> ToolOutput {
        let args: Args = match serde_json::from_value(input) {
            Ok(args) => args,
            Err(error) => return ToolOutput::error(format!("write: {error}")),
        };
        let path = paths::resolve(&args.path, &ctx.cwd, ctx.env.home());
        let Some(_turn) = ctx.cancel.run_until_cancelled(mutation::turn(&path)).await else {
            return ToolOutput::error(blocking::ABORTED);
        };
        blocking::run_to_end(&ctx.cancel, move |_| write(&path, &args)).await
    }
}

fn write(path: &Path, args: &Args) -> Result<ToolOutput, String> {
    let fail = |error: std::io::Error| format!("Could not write file: {}. {}", args.path, reason(&error));
    if irregular(path) {
        return Err(format!("Could not write file: {}. It is no regular file.", args.path));
    }
    if let Some(dir) = path.parent() {
        std::fs::create_dir_all(dir).map_err(fail)?;
    }
    std::fs::write(path, &args.content).map_err(fail)?;
    Ok(ToolOutput::text(format!("Successfully wrote {} bytes to {}", args.content.len(), args.path)))
}
