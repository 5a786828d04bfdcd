//! Launches: `subagent` with `launch`, and `vexillatio`.

use serde_json::Value;

use super::{Args, CallHead, not_available};
use crate::{
    cards::{AcceptanceSpec, parse_call_acceptance},
    core::model::ThinkingLevel,
    error::{Result, SubagentError},
    orchestrator::command::{Command, Dispatch, Launch, LaunchItem},
    tools::action::NOT_BUILT,
};

/// The role of `vexillatio` when none is named (ORC-75).
const DEFAULT_UTILITY_ROLE: &str = "scout";

/// A launch by `subagent`.
pub(super) fn subagent(head: &mut CallHead, args: &Args<'_>) -> Result<Command> {
    for parameter in NOT_BUILT {
        if args.has(parameter) {
            return Err(not_available(&format!("parameter '{parameter}'")));
        }
    }
    let top = Top {
        agent: args.text("agent"),
        model: args.text("model"),
        thinking: thinking(*args),
        worktree: args.flag("worktree"),
        acceptance: acceptance(*args, "")?,
    };
    let items = items(args, &top)?;
    let timeout_ms = args.timeout_ms(head);
    Ok(Command::Launch(Launch { dispatch: Dispatch::Subagent, items, run_async: args.flag("async"), timeout_ms }))
}

/// A launch by `vexillatio`, which always waits (VEX-2).
pub(super) fn vexillatio(head: &mut CallHead, args: &Args<'_>) -> Result<Command> {
    let agent = args.text("agent").unwrap_or_else(|| DEFAULT_UTILITY_ROLE.to_owned());
    let top = Top { agent: Some(agent), model: args.text("model"), ..Top::default() };
    let items = items(args, &top)?;
    let timeout_ms = args.timeout_ms(head);
    Ok(Command::Launch(Launch { dispatch: Dispatch::Vexillatio, items, run_async: Some(false), timeout_ms }))
}

/// What holds for each item that does not say otherwise (SUB-3).
#[derive(Default)]
struct Top {
    agent: Option<String>,
    model: Option<String>,
    thinking: Option<ThinkingLevel>,
    worktree: Option<bool>,
    acceptance: Option<AcceptanceSpec>,
}

fn items(args: &Args<'_>, top: &Top) -> Result<Vec<LaunchItem>> {
    let refuse = |message: &str| Err(SubagentError::invalid(message));
    match (args.raw_text("task"), args.list("tasks")) {
        (Some(task), Some(_)) if !task.trim().is_empty() => refuse("give task or tasks, not both"),
        (None, None) => refuse("launch needs task or tasks"),
        (Some(task), None) if task.trim().is_empty() => refuse("task is empty"),
        (Some(task), None) => Ok(vec![LaunchItem {
            agent: top.agent.clone(),
            task: task.trim().to_owned(),
            name: args.name(),
            model: top.model.clone(),
            thinking: top.thinking,
            worktree: top.worktree,
            acceptance: top.acceptance.clone(),
        }]),
        (_, Some(_)) if args.has("name") => refuse("name applies to a single task; set tasks[].name"),
        (_, Some(tasks)) => tasks.iter().enumerate().map(|(at, task)| item(at, task, top)).collect(),
    }
}

fn item(at: usize, task: &Value, top: &Top) -> Result<LaunchItem> {
    let args = Args { map: task.as_object() };
    if args.has("preset") {
        return Err(not_available(&format!("parameter 'tasks[{at}].preset'")));
    }
    let Some(task) = args.text("task") else {
        return Err(SubagentError::invalid(format!("tasks[{at}]: task is empty")));
    };
    Ok(LaunchItem {
        agent: args.text("agent").or_else(|| top.agent.clone()),
        task,
        name: args.name(),
        model: args.text("model").or_else(|| top.model.clone()),
        thinking: thinking(args).or(top.thinking),
        worktree: args.flag("worktree").or(top.worktree),
        acceptance: acceptance(args, &format!("tasks[{at}]."))?.or_else(|| top.acceptance.clone()),
    })
}

fn thinking(args: Args<'_>) -> Option<ThinkingLevel> {
    ThinkingLevel::parse(args.raw_text("thinking")?)
}

/// The acceptance of a call or of one task, in the form of a card's (CARD-77); `prefix` is where it stands.
fn acceptance(args: Args<'_>, prefix: &str) -> Result<Option<AcceptanceSpec>> {
    let Some(value) = args.value("acceptance") else { return Ok(None) };
    parse_call_acceptance(value).map(Some).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(|fault| format!("{prefix}{fault}")).collect();
        SubagentError::invalid(faults.join("\n"))
    })
}
