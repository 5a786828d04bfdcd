//! Children: made by `child.create`, ended by `child.dispose` or with their parent.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, join_all};
use host_abi::AbiError;
use host_abi::info::Mode;
use host_abi::ops::{ChildCreated, ChildSpec};
use serde_json::Value;

use super::context;
use super::core::Core;
use super::open::{OpenSpec, Opened, open};
use crate::provider::ThinkingLevel;
use crate::session::Session;
use crate::session::toolset::ToolChoice;
use crate::session_file::{HeaderSpec, SessionFile};

/// How long a disposed child may take to become idle (ABI-58).
const IDLE_BOUND: Duration = Duration::from_secs(3);

/// How long its extensions may take to answer `session_shutdown` (ABI-58).
const SHUTDOWN_BOUND: Duration = Duration::from_secs(5);

/// Makes a child of the agent `owner`; its extensions are attached when this returns.
pub fn create(core: &Arc<Core>, owner: &Session, spec: ChildSpec) -> Result<ChildCreated, AbiError> {
    let cwd = PathBuf::from(&spec.cwd);
    if !cwd.is_dir() {
        return Err(AbiError::host(format!("failed to start '{}': no directory {}", spec.name, cwd.display())));
    }
    let thinking = parse_level(spec.thinking.as_deref())?;
    let file = open_file(&spec, &cwd)?;
    let session_file = file.path().map(|path| path.to_string_lossy().into_owned()).unwrap_or_default();
    let prompt = context::of_child(core, &cwd, &spec);
    let open_spec = OpenSpec {
        agent_id: spec.agent_id,
        role: role_of(spec.extension_scope.as_ref(), &spec.name),
        name: spec.name,
        root: false,
        mode: Mode::Print,
        prompt,
        cwd,
        file,
        choice: ToolChoice { only: spec.tools, exclude: spec.exclude_tools },
        model: spec.model,
        thinking,
        extensions: spec.extensions,
        extension_scope: spec.extension_scope,
    };
    let Opened { session, warning, errors } = open(core, open_spec)?;
    let child = core.add_child(&session, &owner.shared.identity.agent_id);
    let live = session.shared.live().clone();
    Ok(ChildCreated {
        child,
        scope: session.scope(),
        session_file,
        session_id: session.shared.identity.session_id.clone(),
        tools: live.tools,
        model: Some(live.model.model_ref().to_string()),
        thinking: live.thinking.to_string(),
        warning,
        errors,
    })
}

/// Ends a child and whatever children it left behind: first its run, then its extensions are told, each
/// within its bound; then it is gone.
pub fn dispose<'a>(core: &'a Core, session: &'a Session, reason: &'a str) -> BoxFuture<'a, ()> {
    Box::pin(async move {
        let name = &session.shared.identity.name;
        session.end_runs();
        if tokio::time::timeout(IDLE_BOUND, session.wait_idle(None)).await.is_err() {
            tracing::warn!(name, "a disposed child did not become idle");
        }
        if tokio::time::timeout(SHUTDOWN_BOUND, session.ask_shutdown(reason)).await.is_err() {
            tracing::warn!(name, "a disposed child's extensions did not answer session_shutdown");
        }
        let left = core.children_of(&session.shared.identity.agent_id);
        join_all(left.iter().map(|(_, child)| dispose(core, child, reason))).await;
        core.close(session).await;
    })
}

/// The exact file of the spec, or a new one in its directory (ABI-41).
fn open_file(spec: &ChildSpec, cwd: &std::path::Path) -> Result<SessionFile, AbiError> {
    let header = HeaderSpec { cwd: cwd.to_owned(), id: spec.session_id.clone(), parent: spec.parent_session.clone() };
    let file = match (&spec.session_file, &spec.session_dir) {
        (Some(file), _) => SessionFile::open(&cwd.join(file), &header),
        (None, Some(dir)) => SessionFile::create_in(&cwd.join(dir), &header),
        (None, None) => {
            return Err(AbiError::new(
                host_abi::codes::BAD_PAYLOAD,
                "child.create: 'sessionFile' or 'sessionDir' is missing",
            ));
        }
    };
    file.map_err(|error| AbiError::host(error.to_string()))
}

pub fn parse_level(level: Option<&str>) -> Result<Option<ThinkingLevel>, AbiError> {
    level
        .map(str::parse)
        .transpose()
        .map_err(|error: crate::provider::model::UnknownLevel| AbiError::host(error.to_string()))
}

/// A label for scripts to match by. To everything else in this host the scope is opaque.
fn role_of(scope: Option<&Value>, name: &str) -> String {
    let role = scope.and_then(|scope| scope.get("role")).and_then(Value::as_str);
    role.unwrap_or(name).to_owned()
}
