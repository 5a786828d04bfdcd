//! The limits of a child, from its card: the one place they are computed (GUARD-19).

use host_abi::scope::{ChildBudget, ToolBlock};

use super::types::AgentConfig;

/// The budget that a child of this role gets, for its scope and, derived from it, for its environment.
pub fn child_budget_from_agent(agent: &AgentConfig) -> ChildBudget {
    let tools = agent.tool_budget.as_ref();
    let turns = agent.turn_budget.as_ref();
    ChildBudget {
        max_depth: agent.max_subagent_depth,
        // A utility role is a leaf (CARD-54).
        allow_nested: agent.allow_nested_subagents && !agent.utility,
        max_tool_calls: tools.map(|budget| budget.hard),
        max_turns: turns.map(|budget| budget.hard),
        tool_timeout_ms: agent.tool_timeout_ms,
        tool_soft: tools.and_then(|budget| budget.soft_step()),
        tool_block: tools.map_or(ToolBlock::All, |budget| budget.block.clone()),
        turn_soft: turns.and_then(|budget| budget.soft_step()),
    }
}
