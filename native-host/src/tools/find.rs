//! `find`: files and directories by a glob pattern.

use std::path::Path;

use async_trait::async_trait;
use globset::GlobBuilder;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::grep::walk;
use super::ls::{Notes, limit_of};
use super::truncate::{self, MAX_BYTES};
use super::{Tool, ToolContext, ToolDef, ToolOutput, blocking, paths};

const DEFAULT_LIMIT: f64 = 1_000.0;

#[derive(Debug)]
pub struct Find {
    def: ToolDef,
}

#[derive(Deserialize)]
struct Args {
    pattern: String,
    path: Option<String>,
    limit: Option<f64>,
}

impl Find {
    pub fn new() -> Find {
        let def = ToolDef {
            name: "find".into(),
            label: "find".into(),
            description: format!(
                "Find files and directories by glob pattern. Answers paths relative to the searched directory. \
                 Respects .gitignore. Cut to {DEFAULT_LIMIT} results or {}KB, whichever comes first.",
                MAX_BYTES / 1024
            ),
            prompt_snippet: Some("Find files by name (ignored ones are left out)".into()),
            parameters: json!({
                "type": "object",
                "required": ["pattern"],
                "properties": {
                    "pattern": {
                        "type": "string",
                        "description": "Glob relative to the searched directory, e.g. 'src/**/*.ts'. Without '/', e.g. \
                                        '*.ts', it matches names at any depth",
                    },
                    "path": { "type": "string", "description": "Directory to search (default: current directory)" },
                    "limit": { "type": "number", "description": "Most results to return (default: 1000)" },
                },
            }),
            ..ToolDef::default()
        };
        Find { def }
    }
}

#[async_trait]
impl Tool for Find {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    async fn run(&self, ctx: ToolContext, input: Value) -> ToolOutput {
        let args: Args = match serde_json::from_value(input) {
            Ok(args) => args,
            Err(error) => return ToolOutput::error(format!("find: {error}")),
        };
        let path = paths::resolve_existing(args.path.as_deref().unwrap_or("."), &ctx.cwd, ctx.env.home());
        blocking::run(&ctx.cancel, move |cancel| find(&path, &args, cancel)).await
    }
}

fn find(root: &Path, args: &Args, cancel: &CancellationToken) -> Result<ToolOutput, String> {
    if !root.exists() {
        return Err(format!("Path not found: {}", root.display()));
    }
    if !root.is_dir() {
        return Err(format!("Not a directory: {}", root.display()));
    }
    let pattern = args.pattern.trim_start_matches("./");
    let glob = GlobBuilder::new(pattern)
        .literal_separator(true)
        // A pattern without capitals does not tell them apart.
        .case_insensitive(pattern.to_lowercase() == pattern)
        .build()
        .map_err(|error| format!("Invalid pattern: {error}"))?
        .compile_matcher();
    let limit = limit_of(args.limit, DEFAULT_LIMIT);

    let (mut lines, mut count, mut bytes, mut more) = (Vec::new(), 0, 0, false);
    for entry in walk(root).build().filter_map(Result::ok).filter(|entry| entry.depth() > 0) {
        if cancel.is_cancelled() {
            return Err(blocking::ABORTED.to_owned());
        }
        let name = paths::relative(entry.path(), root);
        let hit = match pattern {
            _ if pattern.starts_with('/') => glob.is_match(entry.path()),
            _ if pattern.contains('/') => glob.is_match(&name),
            _ => glob.is_match(entry.file_name()),
        };
        if !hit {
            continue;
        }
        if count == limit {
            more = true;
            break;
        }
        let slash = if entry.file_type().is_some_and(|kind| kind.is_dir()) { "/" } else { "" };
        let line = format!("{name}{slash}");
        count += 1;
        // The first line beyond the limit is kept, so that the cut is seen as one.
        if bytes <= MAX_BYTES {
            lines.push(line.clone());
        }
        bytes += line.len() + 1;
    }
    if count == 0 {
        return Ok(ToolOutput::text("No files found matching pattern"));
    }
    let mut shown = truncate::head(&lines.join("\n"), usize::MAX, MAX_BYTES);
    (shown.total_lines, shown.total_bytes) = (count, bytes - 1);
    let mut notes = Notes::default();
    if more {
        notes.say(format!("{limit} results limit reached. Use limit={} for more, or a narrower pattern", limit * 2));
        notes.detail("resultLimitReached", json!(limit));
    }
    notes.size_limit(&shown);
    Ok(notes.finish(shown.content))
}
