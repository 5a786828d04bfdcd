//! `legion status`, `legion tree`, `legion show`: the tree as it is, seen from outside.

use legion_ext::orchestrator::report::{Body, Projection, Report};
use legion_ext::tools::params::CallHead;
use legion_ext::tools::render;
use legion_ext::ui::status::status_text;
use legion_ext::ui::tree::{TreeQuery, select, tree_text};
use serde_json::Value;

use super::records::RunArgs;
use super::{Answer, Failure};
use crate::env::Env;

/// Transcript lines at the end of `show` (STA-9).
const TRANSCRIPT_LINES: usize = 80;

/// Shows one node of the tree: its state, what is below it, and the end of its transcript.
#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The name of the node, or its id.
    node: String,
    /// Lines of the transcript.
    #[arg(long, value_name = "N", default_value_t = TRANSCRIPT_LINES)]
    lines: usize,
    #[command(flatten)]
    run: RunArgs,
}

pub fn status(args: &RunArgs, env: &Env) -> Answer {
    let run = args.open(env)?;
    let projection = run.project()?;
    Ok(match args.json {
        true => status_json(projection, run.dir.run_id()),
        false => status_text(&projection),
    })
}

pub fn show(args: &ShowArgs, env: &Env) -> Answer {
    let run = args.run.open(env)?;
    let projection = run.node(&args.node, args.lines)?;
    Ok(match args.run.json {
        true => status_json(projection, run.dir.run_id()),
        false => status_text(&projection),
    })
}

pub fn tree(args: &RunArgs, env: &Env) -> Answer {
    let projection = args.open(env)?.project()?;
    let placed = select(&projection.tree, &TreeQuery::default()).map_err(Failure::from)?;
    let head = CallHead { tool: "legion_tree", ..CallHead::default() };
    Ok(match args.json {
        true => pretty(render::tree(&head, &placed).details),
        false => tree_text(&placed).0,
    })
}

/// `details` of `subagent status` (DET-7), the transcript lines among them.
fn status_json(projection: Projection, run_id: String) -> String {
    let head = CallHead { tool: "subagent", action: Some("status"), ..CallHead::default() };
    let transcript = projection.transcript.clone();
    let report = Report { run_id: Some(run_id), body: Body::Status(projection), ..Report::default() };
    let mut details = render::render(&head, &report).result.details;
    if let (Some(Value::Object(details)), Some(lines)) = (&mut details, transcript) {
        details.insert("transcript".to_owned(), lines.into());
    }
    pretty(details)
}

fn pretty(details: Option<Value>) -> String {
    serde_json::to_string_pretty(&details.unwrap_or_default()).expect("a JSON value can be written")
}
