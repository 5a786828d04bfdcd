//! What a session that may dispatch is told about it (PLAY-3 … PLAY-5, PLAY-7): the section `legion` of its prompt.
//!
//! It speaks only of what this build can do.

use std::fmt::Write as _;

use crate::{core::text::clean_line, mail::NOTICE_MARK, orchestrator::report::RoleView};

/// Id of the prompt section.
pub const SECTION: &str = "legion";
/// Longest playbook (PLAY-7).
pub const MAX_BYTES: usize = 6 * 1024;

/// Who is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Has `subagent` and `vexillatio`.
    Commander,
    /// Has `vexillatio` alone.
    Scouting,
}

/// The playbook over the roles that the session may launch.
pub fn parent_playbook(reader: Reader, roster: &[RoleView]) -> String {
    let mut text = match reader {
        Reader::Commander => commander(),
        Reader::Scouting => SCOUTING.to_owned(),
    };
    let utility_only = reader == Reader::Scouting;
    let roles: Vec<&RoleView> = roster
        .iter()
        .filter(|role| !role.flags.contains(&"disabled"))
        .filter(|role| !utility_only || role.flags.contains(&"utility"))
        .collect();
    if roles.is_empty() {
        return text;
    }
    text.push_str("\n\nRoles you may send:");
    for (at, role) in roles.iter().enumerate() {
        let utility = if role.flags.contains(&"utility") { " (vexillatio)" } else { "" };
        let line = format!("\n- {}{utility}: {}", role.name, clean_line(&role.description, ROLE_BYTES));
        let more = format!("\n- … {} more: see subagent list", roles.len() - at);
        if text.len() + line.len() + MORE_BYTES > MAX_BYTES {
            text.push_str(&more);
            break;
        }
        text.push_str(&line);
    }
    text
}

/// Bytes of one role's description.
const ROLE_BYTES: usize = 160;
/// Room for the line that counts the roles left out.
const MORE_BYTES: usize = 64;

fn commander() -> String {
    let mark = NOTICE_MARK.split(" (").next().unwrap_or(NOTICE_MARK);
    let mut text = String::from(
        "# Delegation\n\nYou can send child agents. They run in this process by default, each with its own context, tools and model, and see only the task you write.\n",
    );
    for line in COMMANDER {
        write!(text, "\n- {line}").expect("writing to a String");
    }
    write!(
        text,
        "\n- A message that begins with `{mark}` comes from the platform, not from the user. Read it and go on with the user's request."
    )
    .expect("writing to a String");
    text
}

const COMMANDER: &[&str] = &[
    "Delegate broad recon, independent parallel pieces and long work. Do small edits yourself.",
    "Use `vexillatio` for read-only search: it waits and brings the reports.",
    "Use `subagent` for work. A task states goal, files, checks and what to report; start independent tasks in one call with `tasks`.",
    "Never give two writers the same files.",
    "A launch returns at once and the completion arrives as a notice, so do not poll. `async: false` waits instead.",
    "A launch that is refused for want of a slot was not started: wait for a child to end, then launch it again.",
    "A wait that reaches its timeout ends only your wait: the child runs on. Choose one of the decisions that the answer offers, or wait again.",
    "Read a result before you build on it; `collect` with `offset` reads on in a long one. Never run a child again for it.",
    "Esc ends the wait, not the children.",
    "Do not launch children by any other means. In particular: no launching child Pi processes by hand (use the subagent tool).",
];

const SCOUTING: &str = "# Scouts\n\nYou can send read-only scouts with `vexillatio`: children with a context of their own that search, read and report. Use it for a question that takes many reads before it has a short answer. It waits and brings the reports in task order; Esc ends the wait, not the scouts. Ask one clear question per task. Launch no children by any other means: no launching child Pi processes by hand.";

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, flags: &[&'static str]) -> RoleView {
        RoleView {
            name: name.to_owned(),
            source: "bundled",
            description: "Does one task.".to_owned(),
            model: "x/y".to_owned(),
            model_source: None,
            flags: flags.to_vec(),
        }
    }

    /// PLAY-3, PLAY-4, PLAY-5, part of 09-T20
    #[test]
    fn a_commander_is_told_what_this_build_does() {
        let roster = [role("scout", &["utility"]), role("worker", &[]), role("off", &["disabled"])];
        let text = parent_playbook(Reader::Commander, &roster);
        insta::assert_snapshot!(text);
        assert!(text.len() <= MAX_BYTES);
        for absent in ["phase", "legion_phase", "continue", "queued(", "RPC", "worktree"] {
            assert!(!text.contains(absent), "{absent}");
        }
    }

    /// PLAY-3: a session with scouts alone hears of nothing else.
    #[test]
    fn a_session_without_subagent_hears_of_scouts_only() {
        let text = parent_playbook(Reader::Scouting, &[role("scout", &["utility"]), role("worker", &[])]);
        assert!(text.contains("- scout (vexillatio): Does one task."), "{text}");
        assert!(!text.contains("worker") && !text.contains("subagent"), "{text}");
    }

    /// PLAY-7
    #[test]
    fn a_long_roster_is_cut_to_the_size() {
        let long = RoleView { description: "很".repeat(400), ..role("name-of-a-role", &[]) };
        let roster = vec![long; 200];
        let text = parent_playbook(Reader::Commander, &roster);
        assert!(text.len() <= MAX_BYTES, "{}", text.len());
        assert!(text.lines().last().unwrap().starts_with("- … "), "{text}");
    }
}
