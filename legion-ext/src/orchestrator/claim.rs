//! The identity of a subprocess child: a claim by variables that the ledger has to confirm (LED-30, LED-31, SUP-37).

use std::path::Path;

use host_abi::scope::{AcceptanceRole, Env, ExtensionScope, SCOPE_SCHEMA, budget_from_env, vars};

use crate::{
    core::naming::parent_of_node_id,
    ledger::{OpenMode, nodes, open_legion_db},
    supervisor::SpawnMode,
};

/// The identity that the environment claims, if the session at `session_file` is that node's.
///
/// # Errors
/// Why the claim does not hold, in words for one warning.
pub fn subprocess_identity(
    db: &Path,
    node_id: &str,
    session_file: Option<&Path>,
    env: &dyn Env,
) -> Result<ExtensionScope, String> {
    let ledger = open_legion_db(db, OpenMode::Existing).map_err(|error| error.to_string())?;
    let row = ledger.read(|conn| nodes::get(conn, node_id)).map_err(|error| error.to_string())?;
    let row = row.ok_or_else(|| format!("node '{node_id}' is not in the ledger at {}", db.display()))?;
    let recorded = row.session_file.ok_or_else(|| format!("node '{node_id}' has no session file"))?;
    let own = session_file.ok_or_else(|| format!("node '{node_id}' needs the session {}", recorded.display()))?;
    if !same_file(&recorded, own) {
        return Err(format!("node '{node_id}' belongs to the session {}, not to this one", recorded.display()));
    }
    let root_run_dir = db.parent().unwrap_or(Path::new("")).to_owned();
    let run_dir = recorded.parent().unwrap_or(&root_run_dir).to_owned();
    let mut parents: Vec<String> =
        std::iter::successors(parent_of_node_id(node_id), |id| parent_of_node_id(id)).map(str::to_owned).collect();
    parents.reverse();
    let (budget, _) = budget_from_env(env);
    // Anything but the two words is the safe one (GUARD-29).
    let acceptance_role = env.var(vars::ACCEPTANCE_ROLE).map(|role| match role.as_str() {
        "writer" => AcceptanceRole::Writer,
        _ => AcceptanceRole::ReadOnly,
    });
    Ok(ExtensionScope {
        schema: SCOPE_SCHEMA.to_owned(),
        name: row.name,
        role: env.var(vars::ROLE).unwrap_or(row.role),
        node_id: node_id.to_owned(),
        db_path: db.display().to_string(),
        session_file: recorded.display().to_string(),
        run_dir: run_dir.display().to_string(),
        root_run_dir: root_run_dir.display().to_string(),
        parent_path: parents,
        depth: row.depth,
        spawn_mode: SpawnMode::Rpc.as_str().to_owned(),
        team: env.var(vars::TEAM).or(row.team),
        acceptance_role,
        utility: env.var(vars::UTILITY_CHILD).is_some_and(|set| set == "1"),
        budget: Some(budget),
        phases: env.var(vars::PHASES).and_then(|text| serde_json::from_str(&text).ok()),
    })
}

/// Paths are compared as the file system knows them.
fn same_file(a: &Path, b: &Path) -> bool {
    let canonical = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    a == b || canonical(a) == canonical(b)
}
