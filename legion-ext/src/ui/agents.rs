//! Roles and children as a list (CMD-10): `subagent list` and `/legion agents`.

use crate::{
    core::text::clean_line,
    orchestrator::report::{ChildView, RoleView},
};

/// Longest description in a list, in bytes; a card may hold a page.
const DESCRIPTION_BYTES: usize = 400;

/// What a list shows.
#[derive(Debug, Clone, Copy)]
pub struct Listing<'a> {
    pub roles: &'a [RoleView],
    pub team: &'a str,
    /// `<file>: <error>` of each card that failed to load.
    pub broken: &'a [String],
    pub children: &'a [ChildView],
}

/// Header, two lines per role, one per broken card, then the children of this run.
pub fn list_text(listing: &Listing<'_>) -> String {
    let available = listing.roles.iter().filter(|role| !role.flags.contains(&"disabled")).count();
    let mut lines = vec![format!("Agents · {available} available · team {}", listing.team)];
    for role in listing.roles {
        lines.push(role_line(role));
        lines.push(format!("  {}", clean_line(&role.description, DESCRIPTION_BYTES)));
    }
    lines.extend(listing.broken.iter().map(|error| format!("✗ {}", clean_line(error, 4 * DESCRIPTION_BYTES))));
    if !listing.children.is_empty() {
        lines.push(String::new());
        lines.push(format!("Children · {}", listing.children.len()));
        lines.extend(
            listing.children.iter().map(|child| format!("{} ({}) state={}", child.name, child.agent, child.state)),
        );
    }
    lines.join("\n")
}

/// `<name> [<source>] <model>[ (<model source>)][ <flags>]`.
pub fn role_line(role: &RoleView) -> String {
    let mut line = format!("{} [{}] {}", role.name, role.source, clean_line(&role.model, DESCRIPTION_BYTES));
    if let Some(source) = role.model_source {
        line.push_str(&format!(" ({source})"));
    }
    for flag in &role.flags {
        line.push(' ');
        line.push_str(flag);
    }
    line
}
