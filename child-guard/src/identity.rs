//! Where a child's identity comes from: the `extensionScope` of its session, or else the environment of a subprocess
//! child, never a mixture of both (GUARD-12 … GUARD-16).

use std::path::PathBuf;

use host_abi::scope::{AcceptanceRole, Env, ExtensionScope, ScopeJson, budget_from_env, vars};

use crate::state::GuardIdentity;

/// The variables any of which makes a session without a scope a child (GUARD-16).
const MARKS: &[&str] = &[
    vars::NODE_ID,
    vars::MAX_TOOL_CALLS,
    vars::MAX_TURNS,
    vars::TOOL_TIMEOUT_MS,
    vars::ACCEPTANCE_ROLE,
    vars::TOOL_SOFT,
    vars::TURN_SOFT,
    vars::TOOL_BLOCK,
    vars::MAX_DEPTH,
    vars::ALLOW_NESTED,
    vars::DB,
];

/// What binds a session, and what to tell about values that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Absent: no child, the guard is inert.
    pub identity: Option<GuardIdentity>,
    pub warnings: Vec<String>,
}

/// Finds the identity of a session.
///
/// # Errors
/// The scope cannot be read; the session must not start, since it would have no guard.
pub(crate) fn find(scope: Option<&ScopeJson>, env: &dyn Env) -> Result<Found, String> {
    match scope {
        Some(json) => Ok(Found { identity: Some(of_scope(ExtensionScope::parse(json)?)), warnings: Vec::new() }),
        None => Ok(of_env(env)),
    }
}

fn of_scope(scope: ExtensionScope) -> GuardIdentity {
    GuardIdentity {
        acceptance_role: scope.acceptance_role,
        budget: scope.budget.unwrap_or_default(),
        ledger: ledger(scope.db_path),
    }
}

fn of_env(env: &dyn Env) -> Found {
    if MARKS.iter().all(|name| env.var(name).is_none()) {
        return Found::default();
    }
    let (budget, mut warnings) = budget_from_env(env);
    let acceptance_role = env.var(vars::ACCEPTANCE_ROLE).map(|role| match role.as_str() {
        "writer" => AcceptanceRole::Writer,
        "read-only" => AcceptanceRole::ReadOnly,
        other => {
            warnings.push(format!(
                "{}='{other}' is neither 'read-only' nor 'writer'; treated as 'read-only'",
                vars::ACCEPTANCE_ROLE
            ));
            AcceptanceRole::ReadOnly
        }
    });
    let ledger = env.var(vars::DB).and_then(ledger);
    let warnings = warnings.into_iter().map(|warning| format!("child-guard: {warning}")).collect();
    Found { identity: Some(GuardIdentity { acceptance_role, budget, ledger }), warnings }
}

fn ledger(path: String) -> Option<PathBuf> {
    (!path.is_empty()).then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests;
