//! `subagent`: which action, and what it needs.

use serde_json::{Map, Value};

use super::{Args, CallHead, launch, not_available};
use crate::{
    core::caps,
    error::{Result, SubagentError},
    orchestrator::command::{
        CardScope, Collect, Command, ListQuery, Page, StatusQuery, TakeDown, TakeDownWording, Target, Wait,
    },
    tools::{
        action::{Action, LAUNCH_ONLY},
        schema::SUBAGENT_SCHEMA,
    },
};

/// Transcript lines without `lines`.
const DEFAULT_TRANSCRIPT_LINES: u64 = 80;

/// The action that unchecked arguments name, or `launch`; `None` when the word is none (SUB-1).
pub(super) fn named_action(params: &Map<String, Value>) -> Option<&'static str> {
    match params.get("action") {
        None | Some(Value::Null) => Some(Action::Launch),
        Some(word) => word.as_str().and_then(Action::parse),
    }
    .map(Action::as_str)
}

pub(super) fn read(head: &mut CallHead, args: &Args<'_>) -> Result<Command> {
    let action = args.raw_text("action").and_then(Action::parse).unwrap_or(Action::Launch);
    head.action = Some(action.as_str());
    refuse_foreign(action, args)?;
    head.ignored = parameters().filter(|key| args.has(key) && !action.uses().contains(key)).collect();
    let invalid = |message: String| Err(SubagentError::invalid(message));
    match action {
        Action::Launch => launch::subagent(head, args),
        Action::Collect => {
            let names = args.names();
            let paged = args.has("offset") || args.has("limit");
            match names.len() {
                0 => return invalid("collect needs name or names".to_owned()),
                1 => {}
                _ if paged => return invalid("offset and limit need exactly one name".to_owned()),
                _ => {}
            }
            let page = paged.then(|| Page {
                offset: args.whole("offset").unwrap_or(0),
                limit: args.whole("limit").unwrap_or(caps::PAGE_BYTES),
            });
            Ok(Command::Collect(Collect { names, timeout_ms: args.timeout_ms(head), page }))
        }
        Action::Wait => Ok(Command::Wait(Wait { names: args.names(), timeout_ms: args.timeout_ms(head) })),
        Action::Status => status(head, args),
        Action::List => {
            let scope = match args.raw_text("scope") {
                Some("user") => CardScope::User,
                Some("project") => CardScope::Project,
                _ => CardScope::Both,
            };
            Ok(Command::List(ListQuery { scope }))
        }
        Action::Retire => {
            let Some(name) = args.name() else { return invalid("retire needs name".to_owned()) };
            let target = Target::Names(vec![name]);
            Ok(Command::TakeDown(TakeDown { target, wording: TakeDownWording::Retire, force: false }))
        }
        Action::Stop => {
            let all = args.flag("all") == Some(true);
            let target = match (args.has("name"), args.list("names").is_some(), all) {
                (true, false, false) | (false, true, false) if !args.names().is_empty() => Target::Names(args.names()),
                (false, false, true) => Target::All,
                _ => return invalid("stop needs name, names or all: true".to_owned()),
            };
            let force = args.flag("force") == Some(true);
            Ok(Command::TakeDown(TakeDown { target, wording: TakeDownWording::Stop, force }))
        }
        Action::Continue | Action::Steer | Action::Abort | Action::Resume | Action::Diagnose | Action::Extend => {
            Err(not_available(&format!("action '{}'", action.as_str())))
        }
    }
}

fn status(head: &mut CallHead, args: &Args<'_>) -> Result<Command> {
    let name = args.name();
    let transcript = args.raw_text("view") == Some("transcript");
    if transcript && name.is_none() {
        return Err(SubagentError::invalid("view \"transcript\" needs name"));
    }
    if !transcript && args.has("lines") {
        head.ignored.push("lines");
    }
    let lines = args.whole("lines").unwrap_or(DEFAULT_TRANSCRIPT_LINES);
    Ok(Command::Status(StatusQuery {
        name,
        all: args.flag("all") == Some(true),
        transcript_lines: transcript.then(|| usize::try_from(lines).unwrap_or(usize::MAX)),
    }))
}

/// Parameters that would change the meaning of an action they do not belong to (SUB-2).
fn refuse_foreign(action: Action, args: &Args<'_>) -> Result<()> {
    let misplaced = |owner: Action, parameters: &[&str]| {
        let found: Vec<String> = parameters
            .iter()
            .filter(|parameter| action != owner && args.has(parameter))
            .map(|parameter| format!("{parameter} is only valid with action \"{}\"", owner.as_str()))
            .collect();
        found
    };
    let mut found = misplaced(Action::Launch, &LAUNCH_ONLY);
    found.extend(misplaced(Action::Stop, &["force"]));
    if found.is_empty() { Ok(()) } else { Err(SubagentError::invalid(found.join("\n"))) }
}

/// Every parameter beside `action`, in the order of the schema.
fn parameters() -> impl Iterator<Item = &'static str> {
    let properties = SUBAGENT_SCHEMA["properties"].as_object();
    properties.into_iter().flat_map(Map::keys).map(String::as_str).filter(|key| *key != "action")
}
