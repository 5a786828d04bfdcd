//! Brings a session up: model, extensions, tools, task.

use std::path::PathBuf;
use std::sync::Arc;

use host_abi::AbiError;
use host_abi::info::Mode;
use host_abi::ops::ModelRef;
use host_abi::scope::ScopeJson;

use super::core::Core;
use crate::extensions::tool::ExtensionTool;
use crate::extensions::{Attached, Library, next_scope, scopes};
use crate::ops::ScopeSession;
use crate::provider::{ModelQuery, ResolvedModel, ThinkingLevel};
use crate::session::event::Teller;
use crate::session::prompt::PromptSource;
use crate::session::shared::{Identity, Live};
use crate::session::toolset::{Offered, ToolChoice, ToolSet};
use crate::session::{Parts, Session};
use crate::session_file::{Context, EntryBody, SessionFile};
use crate::tools::Tool;

/// The session to bring up.
pub struct OpenSpec {
    pub agent_id: String,
    pub name: String,
    pub role: String,
    pub root: bool,
    pub mode: Mode,
    pub cwd: PathBuf,
    pub file: SessionFile,
    pub prompt: PromptSource,
    pub choice: ToolChoice,
    pub model: Option<ModelRef>,
    pub thinking: Option<ThinkingLevel>,
    /// Extensions beyond the two libraries.
    pub extensions: Vec<String>,
    pub extension_scope: Option<ScopeJson>,
}

/// A session that is up.
#[derive(Debug)]
pub struct Opened {
    pub session: Arc<Session>,
    pub warning: Option<String>,
    /// Extensions beyond the two libraries that the session does without.
    pub errors: Vec<String>,
}

/// Brings the session up. For a child the two libraries are a condition, for a first session they are not
/// (01, bad input).
pub fn open(core: &Arc<Core>, spec: OpenSpec) -> Result<Opened, AbiError> {
    let context = spec.file.build_context();
    let resumed = !spec.file.entries().is_empty();
    let model = choose_model(core, &spec, &context)?;
    let (libraries, errors) = libraries(core, &spec)?;

    let identity = Identity {
        scope: next_scope(),
        agent_id: spec.agent_id,
        name: spec.name,
        role: spec.role,
        root: spec.root,
        session_id: spec.file.id().to_owned(),
        session_file: spec.file.path().map(ToOwned::to_owned),
        cwd: spec.cwd,
        mode: spec.mode,
        project_trusted: core.config.project_trusted,
        extension_scope: spec.extension_scope,
    };
    let live = Live {
        idle: true,
        pending: 0,
        model: model.info.clone(),
        thinking: model.thinking,
        tools: Vec::new(),
        usage: spec.file.total_usage(),
        context_tokens: None,
        runs: 0,
        last_event_at: None,
    };
    let mut file = spec.file;
    note_model(&mut file, &context, &model)?;

    let (session, inbox) = Session::new(identity, live);
    let scope = session.scope();
    scopes::enter(scope, Arc::new(ScopeSession { core: Arc::clone(core), session: Arc::clone(&session) }));
    let (extensions, errors) = match attach(&session, libraries, errors) {
        Ok(attached) => attached,
        Err(error) => {
            scopes::leave(scope);
            return Err(error);
        }
    };
    let tools = ToolSet::new(core.builtin.clone(), offered(&session, &extensions), &spec.choice);
    session.shared.live().tools = tools.active().to_vec();
    let teller = Arc::new(Teller::new(Arc::clone(&session.shared), extensions, Arc::clone(&core.bus)));
    let parts = Parts {
        file,
        tools,
        prompt: spec.prompt,
        policy: core.config.policy,
        compaction: core.config.compaction,
        models: core.models.clone(),
        env: Arc::clone(&core.env),
    };
    core.add_session(&session);
    teller.session_start(if resumed { "resume" } else { "startup" });
    session.start(inbox, teller, parts, &core.runtime);
    Ok(Opened { session, warning: model.warning, errors })
}

/// The model that was asked for, else that of a resumed session, else the host's default.
fn choose_model(core: &Core, spec: &OpenSpec, context: &Context) -> Result<ResolvedModel, AbiError> {
    let level = |text: &Option<String>| text.as_deref().and_then(|level| level.parse::<ThinkingLevel>().ok());
    let resolve = |provider: &str, id: &str, thinking| {
        let query = ModelQuery { model: id.to_owned(), provider: Some(provider.to_owned()), thinking };
        core.models.resolve(&query)
    };
    if let Some(ModelRef { provider, id }) = &spec.model {
        let thinking = spec.thinking.or(Some(core.default_model.thinking));
        return resolve(provider, id, thinking).map_err(|error| AbiError::host(error.to_string()));
    }
    if let Some((provider, id)) = &context.model
        && let Ok(model) = resolve(provider, id, spec.thinking.or(level(&context.thinking)))
    {
        return Ok(model);
    }
    let mut model = core.default_model.clone();
    if let Some(thinking) = spec.thinking {
        model.thinking = thinking.clamp_to(&model.info.thinking_levels);
    }
    Ok(model)
}

/// Writes the model and the level into the session where they are not what it says already.
fn note_model(file: &mut SessionFile, context: &Context, model: &ResolvedModel) -> Result<(), AbiError> {
    let failed = |error: crate::session_file::SessionFileError| AbiError::host(error.to_string());
    let (provider, model_id) = (model.info.provider.clone(), model.info.id.clone());
    if context.model.as_ref() != Some(&(provider.clone(), model_id.clone())) {
        file.append(EntryBody::ModelChange { provider, model_id }).map_err(failed)?;
    }
    let thinking_level = model.thinking.to_string();
    if context.thinking.as_ref() != Some(&thinking_level) {
        file.append(EntryBody::ThinkingLevelChange { thinking_level }).map_err(failed)?;
    }
    Ok(())
}

/// The libraries of the session in their order: `legion-ext`, the listed ones, child-guard last (HOST-2).
fn libraries(core: &Core, spec: &OpenSpec) -> Result<(Vec<Wanted>, Vec<String>), AbiError> {
    let mut wanted = Vec::new();
    let mut errors = Vec::new();
    let required = !spec.root;
    match core.legion() {
        Ok(library) => wanted.extend(library.map(|library| Wanted { library, required })),
        Err(error) if required => return Err(AbiError::host(error)),
        Err(error) => errors.push(error),
    }
    for entry in &spec.extensions {
        match core.library(entry, &spec.cwd) {
            Ok(library) => wanted.push(Wanted { library, required: false }),
            Err(error) => errors.push(error),
        }
    }
    if !spec.root {
        let guard = core.guard().map_err(AbiError::host)?;
        wanted.extend(guard.map(|library| Wanted { library, required: true }));
    }
    Ok((wanted, errors))
}

/// A library, and whether the session must not run without it.
struct Wanted {
    library: Library,
    required: bool,
}

type AttachedAndErrors = (Vec<Arc<Attached>>, Vec<String>);

fn attach(session: &Session, wanted: Vec<Wanted>, mut errors: Vec<String>) -> Result<AttachedAndErrors, AbiError> {
    let attach_spec = session.shared.identity.attach_spec();
    let mut attached: Vec<Arc<Attached>> = Vec::with_capacity(wanted.len());
    for Wanted { library, required } in wanted {
        match Attached::attach(library, session.scope(), &attach_spec) {
            Ok(extension) => attached.push(Arc::new(extension)),
            Err(error) if required => {
                attached.iter().for_each(|extension| extension.detach());
                let message = error.to_string();
                return Err(AbiError { message, ..error.error });
            }
            Err(error) => errors.push(error.to_string()),
        }
    }
    Ok((attached, errors))
}

fn offered(session: &Session, extensions: &[Arc<Attached>]) -> Vec<Offered> {
    let shared = Arc::clone(&session.shared);
    let ctx: crate::extensions::tool::CtxSource = Arc::new(move || shared.ctx());
    let tools = extensions.iter().flat_map(|extension| {
        extension.registered.tools.iter().map(|def| {
            let tool: Arc<dyn Tool> = Arc::new(ExtensionTool::new(def, Arc::clone(extension), Arc::clone(&ctx)));
            Offered { tool, default_active: def.default_active.unwrap_or(true) }
        })
    });
    tools.collect()
}
