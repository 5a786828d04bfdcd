//! The child playbook: what every child is told about its place, once, behind its role's prompt (PLAY-6, INH-15).

use host_abi::scope::ChildBudget;

use crate::cards::{AcceptanceLevel, AcceptanceSpec, AgentConfig};

/// Bytes of the whole text (PLAY-7).
pub const CHILD_CONTEXT_BYTES: usize = 6 * 1024;
/// Bytes of one criterion.
const CRITERION_BYTES: usize = 240;

/// What the text is made of.
#[derive(Debug, Clone, Copy)]
pub struct ChildFacts<'a> {
    pub name: &'a str,
    /// Name of the parent; `root` for the session of the person.
    pub parent: &'a str,
    pub agent: &'a AgentConfig,
    pub acceptance: &'a AcceptanceSpec,
    pub budget: &'a ChildBudget,
}

/// The text, at most [`CHILD_CONTEXT_BYTES`].
pub fn child_context(facts: &ChildFacts<'_>) -> String {
    let ChildFacts { name, parent, agent, budget, .. } = facts;
    let mut lines = vec![
        "# Your place".to_owned(),
        format!(
            "You are `{name}`, a {} dispatched by `{parent}`. You work alone in a session of your own; nobody reads it while you work.",
            agent.name
        ),
    ];
    lines.push(if agent.utility {
        "You cannot dispatch agents: answer the question yourself.".to_owned()
    } else if budget.allow_nested {
        "You may dispatch agents with `subagent`, and read-only scouts with `vexillatio`. Your turn may end while they run: a notice wakes you when they finish, so do not poll. Report when all of them are done.".to_owned()
    } else {
        "You cannot dispatch agents, except read-only scouts with `vexillatio`, which returns their reports.".to_owned()
    });
    lines.push("- Your last message is your report, and the only thing your parent reads. Put the result into it; a message without text counts as no report.".to_owned());
    lines.push("- When a decision is missing, ask with `legion_mail` to `parent`, then go on with what does not depend on it, or end your turn. Do not wait by polling.".to_owned());
    lines.push("- Texts that begin with `[legion mail` or `▣ legion` come from other agents or from the platform, not from the user.".to_owned());
    lines.push("- Never read or write `legion.db` or the files beside it; use the tools.".to_owned());
    lines.extend(budget_line(budget));
    if !agent.default_reads.is_empty() {
        lines.push(format!("- Read first: {}.", quoted(&agent.default_reads)));
    }
    if agent.default_progress {
        lines.push(format!("- Keep your progress in `progress-{name}.md` in the run's `out/` directory."));
    }
    lines.extend(acceptance_lines(facts.acceptance));
    let mut text = lines.join("\n");
    if text.len() > CHILD_CONTEXT_BYTES {
        let mut end = CHILD_CONTEXT_BYTES - "…".len();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

fn budget_line(budget: &ChildBudget) -> Option<String> {
    let tools = budget.max_tool_calls.map(|n| format!("{n} tool calls"));
    let turns = budget.max_turns.map(|n| format!("{n} turns"));
    let limits: Vec<String> = tools.into_iter().chain(turns).collect();
    (!limits.is_empty()).then(|| {
        format!(
            "- Your budget is {}; what is over it is refused. Leave enough of it for your report.",
            limits.join(" and ")
        )
    })
}

fn acceptance_lines(acceptance: &AcceptanceSpec) -> Vec<String> {
    if acceptance.level == AcceptanceLevel::None {
        return Vec::new();
    }
    let mut lines = vec![
        "- Close your report with the verdict, a JSON object in a fenced block of its own: `{ \"ok\": true }` when the task is done and its checks pass, else `{ \"ok\": false, \"reason\": \"…\" }`.".to_owned(),
    ];
    if !acceptance.criteria.is_empty() {
        lines.push("- The result is accepted when:".to_owned());
        lines.extend(acceptance.criteria.iter().map(|criterion| {
            let optional = if criterion.required { "" } else { " (wanted, not required)" };
            format!("  - {}: {}{optional}", criterion.id, shortened(&criterion.text))
        }));
    }
    lines
}

fn quoted(paths: &[String]) -> String {
    paths.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(", ")
}

fn shortened(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    let mut end = line.len().min(CRITERION_BYTES);
    while !line.is_char_boundary(end) {
        end -= 1;
    }
    &line[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cards::{CardSource, Criterion, Evidence};

    /// PLAY-6, PLAY-7
    #[test]
    fn a_child_is_told_its_place_its_budget_and_what_is_asked() {
        let mut agent = AgentConfig::new(CardSource::Bundled, "x", "worker");
        agent.default_reads = vec!["docs/plan.md".into()];
        let criterion = |n| Criterion {
            id: format!("c{n}"),
            text: "the tests are green ".repeat(40),
            evidence: Evidence::Attestation,
            command: None,
            required: n != 2,
        };
        let acceptance = AcceptanceSpec {
            level: AcceptanceLevel::Attested,
            role: None,
            criteria: (1..100).map(criterion).collect(),
        };
        let budget = ChildBudget { max_tool_calls: Some(50), max_turns: Some(9), ..ChildBudget::default() };
        let facts = ChildFacts { name: "w1", parent: "root", agent: &agent, acceptance: &acceptance, budget: &budget };
        let text = child_context(&facts);
        assert!(text.len() <= CHILD_CONTEXT_BYTES && text.ends_with('…'));
        for part in [
            "`w1`, a worker dispatched by `root`",
            "cannot dispatch agents, except",
            "50 tool calls and 9 turns",
            "`docs/plan.md`",
            "\"ok\": true",
            "c2: the tests are green",
            "legion_mail",
            "legion.db",
        ] {
            assert!(text.contains(part), "{part}");
        }
        let scout = AgentConfig { utility: true, ..AgentConfig::new(CardSource::Bundled, "x", "scout") };
        let (none, budget) = (AcceptanceSpec::default(), ChildBudget::default());
        let text = child_context(&ChildFacts { agent: &scout, acceptance: &none, budget: &budget, ..facts });
        assert!(
            text.contains("answer the question yourself") && !text.contains("\"ok\"") && !text.contains("vexillatio")
        );
    }
}
