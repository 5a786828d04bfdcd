//! `bash`: runs a shell command and answers with the end of its output.

mod output;
mod shell;

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use self::output::{Output, Snapshot};
use self::shell::{Command, Ending, Patience};
use super::truncate::{self, Limit, MAX_BYTES, MAX_LINES};
use super::{Tool, ToolContext, ToolDef, ToolOutput};

/// The longest timeout in seconds; what a timer of pi can hold.
const MAX_TIMEOUT_SECONDS: f64 = 2_147_483.647;

#[derive(Debug)]
pub struct Bash {
    def: ToolDef,
}

#[derive(Deserialize)]
struct Args {
    command: String,
    timeout: Option<f64>,
}

impl Bash {
    pub fn new() -> Bash {
        let def = ToolDef {
            name: "bash".into(),
            label: "bash".into(),
            description: format!(
                "Run a bash command in the working directory. Answers its stdout and stderr, cut to the last \
                 {MAX_LINES} lines or {}KB, whichever comes first; the whole of a cut output is kept in a temporary \
                 file. A timeout in seconds can be given.",
                MAX_BYTES / 1024
            ),
            prompt_snippet: Some("Run shell commands".into()),
            prompt_guidelines: vec!["Commands see the session's id, file and model in PI_* variables.".into()],
            parameters: json!({
                "type": "object",
                "required": ["command"],
                "properties": {
                    "command": { "type": "string", "description": "Shell command to run" },
                    "timeout": { "type": "number", "description": "Timeout in seconds (default: none)" },
                },
            }),
            ..ToolDef::default()
        };
        Bash { def }
    }
}

#[async_trait]
impl Tool for Bash {
    fn def(&self) -> &ToolDef {
        &self.def
    }

    async fn run(&self, ctx: ToolContext, input: Value) -> ToolOutput {
        let args: Args = match serde_json::from_value(input) {
            Ok(args) => args,
            Err(error) => return ToolOutput::error(format!("bash: {error}")),
        };
        let timeout = match args.timeout.map(timeout_of).transpose() {
            Ok(timeout) => timeout,
            Err(problem) => return ToolOutput::error(problem),
        };
        if !ctx.cwd.is_dir() {
            let cwd = ctx.cwd.display();
            return ToolOutput::error(format!("Working directory does not exist: {cwd}"));
        }
        let command = Command {
            text: &args.command,
            cwd: &ctx.cwd,
            vars: ctx.env.for_command(&ctx.session),
            timeout,
            patience: Patience::default(),
        };
        let mut output = Output::new(ctx.env.temp_dir());
        let show = |output: &mut Output| {
            if let Some(progress) = &ctx.progress {
                let snapshot = output.snapshot();
                progress(ToolOutput { details: details(&snapshot), ..ToolOutput::text(snapshot.truncation.content) });
            }
        };
        let ending = match shell::run(command, &ctx.cancel, &mut output, show).await {
            Ok(ending) => ending,
            Err(error) => return ToolOutput::error(format!("Could not start the shell: {error}")),
        };
        output.finish();
        result(&output.snapshot(), &ending, args.timeout.unwrap_or_default())
    }
}

fn timeout_of(seconds: f64) -> Result<Duration, String> {
    if seconds > MAX_TIMEOUT_SECONDS {
        return Err(format!("Invalid timeout: maximum is {MAX_TIMEOUT_SECONDS} seconds"));
    }
    if seconds > 0.0 {
        return Ok(Duration::from_secs_f64(seconds));
    }
    Err("Invalid timeout: must be a positive number of seconds".to_owned())
}

fn result(snapshot: &Snapshot, ending: &Ending, timeout: f64) -> ToolOutput {
    let shown = shown_text(snapshot);
    let status = match ending {
        Ending::Exited { code: 0, still_written } => {
            let text = if shown.is_empty() { "(no output)".to_owned() } else { shown };
            let text = if *still_written { with_status(text, &background_note()) } else { text };
            return ToolOutput { details: details(snapshot), ..ToolOutput::text(text) };
        }
        Ending::Exited { code, .. } => {
            let text = if shown.is_empty() { "(no output)".to_owned() } else { shown };
            let text = with_status(text, &format!("Command exited with code {code}"));
            return ToolOutput { details: details(snapshot), ..ToolOutput::error(text) };
        }
        Ending::Aborted => "Command aborted".to_owned(),
        Ending::TimedOut { shell: None } => format!("Command timed out after {timeout} seconds"),
        Ending::TimedOut { shell: Some(code) } => format!(
            "Command timed out after {timeout} seconds. The shell had ended with code {code}; what it left in the \
             background kept writing."
        ),
    };
    ToolOutput { details: details(snapshot), ..ToolOutput::error(with_status(shown, &status)) }
}

fn background_note() -> String {
    "[Background processes still write output, which is no longer read. Redirect it to a file.]".to_owned()
}

/// The output with a line that says what was left out.
fn shown_text(snapshot: &Snapshot) -> String {
    let truncation = &snapshot.truncation;
    let Some(by) = truncation.truncated_by else { return truncation.content.clone() };
    let whole = match &snapshot.full_output {
        Some(path) => format!("Full output: {}", path.display()),
        None => "The full output could not be kept".to_owned(),
    };
    let last = truncation.total_lines;
    let first = last + 1 - truncation.output_lines.min(last);
    let note = if truncation.last_line_partial {
        let (part, line) = (truncate::size(truncation.output_bytes), truncate::size(snapshot.last_line_bytes));
        format!("[Showing last {part} of line {last} (line is {line}). {whole}]")
    } else if by == Limit::Lines {
        format!("[Showing lines {first}-{last} of {last}. {whole}]")
    } else {
        format!("[Showing lines {first}-{last} of {last} ({} limit). {whole}]", truncate::size(MAX_BYTES))
    };
    format!("{}\n\n{note}", truncation.content)
}

fn with_status(text: String, status: &str) -> String {
    if text.is_empty() { status.to_owned() } else { format!("{text}\n\n{status}") }
}

fn details(snapshot: &Snapshot) -> Option<Value> {
    snapshot
        .truncation
        .truncated
        .then(|| json!({ "truncation": snapshot.truncation, "fullOutputPath": snapshot.full_output }))
}
