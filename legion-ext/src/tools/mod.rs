//! The edge where a model's tool call comes in: arguments -> question, answer -> text and `details`.
//!
//! It decides nothing about children; every call ends in one question to the orchestrator or the mailroom.

mod action;
mod check;
pub mod docs;
pub mod params;
pub mod playbook;
pub mod render;
pub mod schema;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use host_abi::{
    calls::ToolResult,
    gates::{BeforeAgentStart, BeforeAgentStartAnswer},
    registration::Section,
};
use serde_json::Value;

pub use action::Action;
pub use render::{budget_text, notice_blocks, render_progress};
pub use schema::registrations;

use self::{
    params::{Ask, CallHead},
    playbook::Reader,
    schema::has_tool,
};
use crate::{
    context::SessionContext,
    core::text::clean_line,
    error::{Code, Result, SubagentError},
    mail::Mailroom,
    orchestrator::{
        Orchestrator,
        command::{CallCx, CardScope, StatusQuery},
    },
    ui::tree::{TreeQuery, select},
};

/// Whom a session's calls go to.
#[derive(Debug, Clone)]
pub struct Desk {
    pub context: Arc<SessionContext>,
    pub orchestrator: Arc<Orchestrator>,
    pub mail: Arc<Mailroom>,
}

/// Answers one call of a tool. Refusals are results too (LINE-1).
pub async fn call(desk: &Desk, tool: &str, params: Value, cx: CallCx) -> ToolResult {
    let (head, asked) = params::parse(tool, &params);
    // A host calls only what was registered; one that is mistaken must not lend a child its parent's hands.
    if !has_tool(&desk.context.identity, tool) {
        let text = format!("this session has no tool '{}'", clean_line(tool, 64));
        return render::refusal(&head, &SubagentError::new(Code::NotAvailable, text));
    }
    let answered = match asked {
        Ok(Ask::Orchestrator(command)) => {
            let report = desk.orchestrator.run(command, &cx).await;
            let rendered = render::render(&head, &report);
            // They count once the host has taken the result; a cancelled call's result it drops (LED-80).
            if !cx.cancel.is_cancelled() {
                desk.mail.pend_reads(&cx.tool_call_id, rendered.reads);
            }
            Ok(rendered.result)
        }
        Ok(Ask::Mail(draft)) => desk.mail.send(draft).await.map(|sent| render::sent(&head, &sent)),
        Ok(Ask::Tree(query)) => tree(desk, &head, &query),
        Err(error) => Err(error),
    };
    answered.unwrap_or_else(|error| render::refusal(&head, &error))
}

fn tree(desk: &Desk, head: &CallHead, query: &TreeQuery) -> Result<ToolResult> {
    let projection = desk.orchestrator.project(&StatusQuery { all: true, ..StatusQuery::default() })?;
    let placed = select(&projection.tree, query)?;
    Ok(render::tree(head, &placed))
}

/// What a session that may dispatch is told at the start of each run (PLAY-3). Given anew each time, so a change of
/// cards or settings shows in the next run.
pub async fn before_agent_start(desk: &Desk, _event: &BeforeAgentStart) -> BeforeAgentStartAnswer {
    let identity = &desk.context.identity;
    if identity.utility() || !desk.orchestrator.settings().enabled {
        return BeforeAgentStartAnswer::default();
    }
    let reader = if identity.may_launch() { Reader::Commander } else { Reader::Scouting };
    let roster = desk.orchestrator.roster(CardScope::Both).await;
    let text = playbook::parent_playbook(reader, &roster);
    let section = Section { id: playbook::SECTION.to_owned(), text };
    BeforeAgentStartAnswer { sections: vec![section], ..BeforeAgentStartAnswer::default() }
}
