//! `grep`: searches file contents, with ripgrep's own libraries.

use std::io;
use std::path::Path;

use async_trait::async_trait;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use ignore::WalkBuilder;
use ignore::overrides::OverrideBuilder;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::ls::{Notes, limit_of};
use super::truncate::{self, GREP_LINE_CHARS, MAX_BYTES};
use super::{Tool, ToolContext, ToolDef, ToolOutput, blocking, paths};

const DEFAULT_LIMIT: f64 = 100.0;

#[derive(Debug)]
pub struct Grep {
    def: ToolDef,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Args {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    literal: bool,
    context: Option<f64>,
    limit: Option<f64>,
}

impl Grep {
    pub fn new() -> Grep {
        let def = ToolDef {
            name: "grep".into(),
            label: "grep".into(),
            description: format!(
                "Search file contents for a pattern. Answers matching lines with path and line number. Respects \
                 .gitignore. Cut to {DEFAULT_LIMIT} matches or {}KB, whichever comes first; lines are cut to \
                 {GREP_LINE_CHARS} characters.",
                MAX_BYTES / 1024
            ),
            prompt_snippet: Some("Search in files (ignored ones are left out)".into()),
            parameters: json!({
                "type": "object",
                "required": ["pattern"],
                "properties": {
                    "pattern": { "type": "string", "description": "What to search for (regex or literal string)" },
                    "path": { "type": "string", "description": "Directory or file to search (default: current directory)" },
                    "glob": {
                        "type": "string",
                        "description": "Only files that match this glob, relative to path, e.g. 'src/**/*.ts'. Without \
                                        '/', e.g. '*.ts', it matches file names at any depth",
                    },
                    "ignoreCase": { "type": "boolean", "description": "Ignore case (default: false)" },
                    "literal": { "type": "boolean", "description": "Take pattern as plain text, not as regex (default: false)" },
                    "context": { "type": "number", "description": "Lines to show before and after each match (default: 0)" },
                    "limit": { "type": "number", "description": "Most matches to return (default: 100)" },
                },
            }),
            ..ToolDef::default()
        };
        Grep { def }
    }
}

#[async_trait]
impl Tool for Grep {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    async fn run(&self, ctx: ToolContext, input: Value) -> ToolOutput {
        let args: Args = match serde_json::from_value(input) {
            Ok(args) => args,
            Err(error) => return ToolOutput::error(format!("grep: {error}")),
        };
        let path = paths::resolve_existing(args.path.as_deref().unwrap_or("."), &ctx.cwd, ctx.env.home());
        blocking::run(&ctx.cancel, move |cancel| grep(&path, &args, cancel)).await
    }
}

/// A walk that shows what a person would call the files of a tree: ignore files hold, also outside of git
/// repositories, dotfiles are there, git's own files are not.
pub(super) fn walk(root: &Path) -> WalkBuilder {
    let in_repository = root.ancestors().any(|dir| dir.join(".git").exists());
    let mut walk = WalkBuilder::new(root);
    // Within a repository the rules of git hold, by which ignore files end at a nested repository.
    walk.hidden(false).require_git(in_repository);
    walk.filter_entry(|entry| entry.file_name() != ".git").sort_by_file_path(Path::cmp);
    walk
}

fn grep(root: &Path, args: &Args, cancel: &CancellationToken) -> Result<ToolOutput, String> {
    if !root.exists() {
        return Err(format!("Path not found: {}", root.display()));
    }
    let matcher = RegexMatcherBuilder::new()
        .case_insensitive(args.ignore_case)
        .fixed_strings(args.literal)
        .line_terminator(Some(b'\n'))
        .build(&args.pattern)
        .map_err(|error| format!("Invalid pattern: {error}"))?;
    let context = args.context.unwrap_or(0.0).max(0.0) as usize;
    let mut found = Found::new(limit_of(args.limit, DEFAULT_LIMIT), context);

    if root.is_file() {
        let name = root.file_name().unwrap_or_default().to_string_lossy();
        // A file that was asked for by name is searched even where it looks binary.
        search(&matcher, root, &name, BinaryDetection::convert(0), &mut found, cancel)
            .map_err(|error| format!("Could not search {}: {error}", root.display()))?;
    } else {
        let mut files = walk(root);
        if let Some(glob) = &args.glob {
            let (not, glob) = glob.strip_prefix('!').map_or(("", glob.as_str()), |glob| ("!", glob));
            let glob = format!("{not}{}", glob.trim_start_matches("./"));
            let only = OverrideBuilder::new(root).add(&glob).and_then(|only| only.build());
            files.overrides(only.map_err(|error| format!("Invalid glob: {error}"))?);
        }
        // Files that cannot be read are passed over, as in any search of a tree.
        for file in files.build().filter_map(Result::ok).filter(|file| file.file_type().is_some_and(|t| t.is_file())) {
            if found.done || cancel.is_cancelled() {
                break;
            }
            let name = paths::relative(file.path(), root);
            let _ = search(&matcher, file.path(), &name, BinaryDetection::quit(0), &mut found, cancel);
        }
    }
    if cancel.is_cancelled() {
        return Err(blocking::ABORTED.to_owned());
    }
    Ok(found.into_output())
}

fn search(
    matcher: &RegexMatcher,
    file: &Path,
    name: &str,
    binary: BinaryDetection,
    found: &mut Found,
    cancel: &CancellationToken,
) -> io::Result<()> {
    let mut searcher = SearcherBuilder::new()
        .line_number(true)
        .binary_detection(binary)
        .before_context(found.context)
        .after_context(found.context)
        .build();
    let window_end = None;
    searcher.search_path(matcher, file, FileSink { name, window_end, found, cancel })
}

/// The lines found so far, over all files.
struct Found {
    limit: usize,
    context: usize,
    matches: usize,
    /// Only as many as can be shown; the rest is counted.
    lines: Vec<String>,
    line_count: usize,
    bytes: usize,
    lines_cut: bool,
    /// One more match than the limit was seen.
    more: bool,
    done: bool,
}

impl Found {
    fn new(limit: usize, context: usize) -> Found {
        let (lines, matches, line_count, bytes) = (Vec::new(), 0, 0, 0);
        Found { limit, context, matches, lines, line_count, bytes, lines_cut: false, more: false, done: false }
    }

    fn push(&mut self, name: &str, number: u64, text: &[u8], mark: char) {
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        let text = String::from_utf8_lossy(text.strip_suffix(b"\r").unwrap_or(text));
        let (text, cut) = truncate::line(&text);
        self.lines_cut |= cut;
        let line = format!("{name}{mark}{number}{mark} {text}");
        self.bytes += line.len() + 1;
        self.line_count += 1;
        if self.bytes - line.len() <= MAX_BYTES + 1 {
            self.lines.push(line);
        }
    }

    fn into_output(self) -> ToolOutput {
        if self.matches == 0 {
            return ToolOutput::text("No matches found");
        }
        let mut shown = truncate::head(&self.lines.join("\n"), usize::MAX, MAX_BYTES);
        (shown.total_lines, shown.total_bytes) = (self.line_count, self.bytes - 1);
        let mut notes = Notes::default();
        if self.more {
            let limit = self.limit;
            notes
                .say(format!("{limit} matches limit reached. Use limit={} for more, or a narrower pattern", limit * 2));
            notes.detail("matchLimitReached", json!(limit));
        }
        notes.size_limit(&shown);
        if self.lines_cut {
            notes.say(format!("Some lines were cut to {GREP_LINE_CHARS} characters; read shows them whole"));
            notes.detail("linesTruncated", json!(true));
        }
        notes.finish(shown.content)
    }
}

/// Takes the lines of one file.
struct FileSink<'a> {
    name: &'a str,
    /// The last line of the context behind the last allowed match, when that match is in this file.
    window_end: Option<u64>,
    found: &'a mut Found,
    cancel: &'a CancellationToken,
}

impl FileSink<'_> {
    /// Whether to go on behind this line.
    fn go_on(&mut self, number: u64) -> bool {
        let window_open = self.window_end.is_some_and(|end| number < end);
        self.found.done = self.found.more && !window_open;
        !self.found.done && !self.cancel.is_cancelled()
    }
}

impl Sink for FileSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, line: &SinkMatch<'_>) -> io::Result<bool> {
        let number = line.line_number().unwrap_or_default();
        if self.found.matches < self.found.limit {
            self.found.matches += 1;
            self.found.push(self.name, number, line.bytes(), ':');
            if self.found.matches == self.found.limit {
                self.window_end = Some(number + self.found.context as u64);
            }
        } else {
            self.found.more = true;
            // A further match within the shown context is shown as context.
            if self.window_end.is_some_and(|end| number <= end) {
                self.found.push(self.name, number, line.bytes(), '-');
            }
        }
        Ok(self.go_on(number))
    }

    fn context(&mut self, _: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        let number = line.line_number().unwrap_or_default();
        if self.found.matches < self.found.limit || self.window_end.is_some_and(|end| number <= end) {
            self.found.push(self.name, number, line.bytes(), '-');
        }
        Ok(self.go_on(number))
    }
}
