//! What lives once per process: the runtime, the agents of all attached sessions, the calls in flight.
//!
//! ```text
//! host thread ─ attach/notify/query ─▶ Process ─▶ Agent        answered at once, never waits for the host
//! host thread ─ invoke ─▶ Process ─▶ task in the agent's context ─▶ tools | gates ─▶ Responder
//! host thread ─ cancel ─▶ token of the call
//! ```
//!
//! It decides nothing; it finds the agent of a scope and runs the work in that agent's identity.

use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::FutureExt as _;
use host_abi::{
    AbiError,
    calls::{ToolInvocation, ToolResult, kinds},
    codes,
    events::{Event, names as events},
    fence::{install_silent_hook, panic_error},
    gates::{AgentBeforeSettle, BeforeAgentStart, GateCall, SessionShutdown, names as gate},
    info::{AttachSpec, ExtensionInfo, HostInfo},
    ops::{Log, LogLevel},
    registration::Registrations,
    scope::ExtensionScope,
    sdk::{
        encode,
        extension::{Extension, HostHandle, Invocation, Responder},
    },
};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::{
    clock,
    context::{EnvClaim, Identity, ProcessEnv, SessionContext, Spawner, env_claim},
    host::SessionHost,
    mail::{self, MailDeps, Mailroom, Postmen},
    orchestrator::{Drain, Orchestrator, OrchestratorDeps, Shared, command::CallCx},
    tools::{self, Desk},
};

/// Threads of the extension's own runtime (ABI-7): its work is waiting, not computing.
const RUNTIME_WORKERS: usize = 2;

/// The extension, once per process.
pub struct Process {
    host: HostHandle,
    info: HostInfo,
    /// Runs as long as the library, which is never unloaded.
    _runtime: Runtime,
    shared: Arc<Shared>,
    postmen: Arc<Postmen>,
    /// By scope; an agent whose session was rebuilt has a new scope.
    scopes: RwLock<HashMap<u64, Arc<Agent>>>,
    /// By `agentId`.
    agents: Mutex<HashMap<String, Arc<Agent>>>,
    calls: Arc<Calls>,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("host", &self.info.name).finish_non_exhaustive()
    }
}

/// One logical agent: what stays when its session is rebuilt.
struct Agent {
    host: SessionHost,
    desk: Desk,
    /// Its session ends for good; a detach forgets it.
    ending: AtomicBool,
}

/// What the library tells of itself.
pub fn extension_info() -> ExtensionInfo {
    ExtensionInfo {
        name: "legion-ext".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        abi: host_abi::VERSION.to_owned(),
        ops: host_abi::ops::ALL.iter().map(|op| (*op).to_owned()).collect(),
        events: CHILD_EVENTS
            .iter()
            .chain(&[gate::AGENT_BEFORE_SETTLE, gate::SESSION_SHUTDOWN])
            .map(|name| (*name).to_owned())
            .collect(),
    }
}

/// Starts the extension.
///
/// # Errors
/// The runtime cannot be made.
pub fn start(host: HostHandle, info: HostInfo) -> Result<Process, AbiError> {
    let log = host.clone();
    install_silent_hook(move |line| {
        // Scope 0 is nobody's: a panic belongs to the process.
        log.post(
            0,
            &Log {
                level: LogLevel::Error,
                target: "legion_ext::panic".to_owned(),
                message: line.to_owned(),
                fields: Value::Null,
            },
        );
    });
    let runtime = Builder::new_multi_thread()
        .worker_threads(RUNTIME_WORKERS)
        .thread_name("legion-ext")
        .enable_all()
        .build()
        .map_err(|error| AbiError::host(format!("failed to start the runtime of legion-ext: {error}")))?;
    Ok(Process {
        postmen: Arc::new(Postmen::new(Spawner::new(runtime.handle().clone()))),
        host,
        info,
        _runtime: runtime,
        shared: Arc::default(),
        scopes: RwLock::default(),
        agents: Mutex::default(),
        calls: Arc::default(),
    })
}

/// Reason of a shutdown that nothing forced; a signal has another one and skips the drain (ORC-169).
const NORMAL_END: &str = "quit";

/// Reasons of a shutdown after which the same agent comes back in a new session (ABI-3).
const REBUILDS: &[&str] = &["reload", "new", "resume", "fork"];

/// Events of a child that its parent's supervisor and the mail look at (SUP-12, NTC-4, LED-80).
const CHILD_EVENTS: &[&str] = &[
    events::AGENT_START,
    events::AGENT_END,
    events::AGENT_SETTLED,
    events::TURN_START,
    events::TURN_END,
    events::MESSAGE_END,
    events::MESSAGE_PROGRESS,
    events::TOOL_EXECUTION_START,
    events::TOOL_EXECUTION_END,
];

/// Events of a root session: its run boundaries, and the ends of its tool calls.
const ROOT_EVENTS: &[&str] = &[events::AGENT_START, events::AGENT_SETTLED, events::TOOL_EXECUTION_END];

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    fn spawner(&self) -> &Spawner {
        self.postmen.spawner()
    }

    fn agent(&self, scope: u64) -> Option<Arc<Agent>> {
        self.scopes.read().unwrap_or_else(PoisonError::into_inner).get(&scope).cloned()
    }

    /// The identity of a session (ABI-14); a claim that does not hold is warned about and refused (LED-31).
    fn identify(&self, spec: &AttachSpec, host: &SessionHost) -> Result<Identity, AbiError> {
        if let Some(json) = &spec.extension_scope {
            let scope = ExtensionScope::parse(json).map_err(|message| AbiError::new(codes::BAD_PAYLOAD, message))?;
            return Ok(Identity::Child(Box::new(scope)));
        }
        match env_claim(&ProcessEnv) {
            EnvClaim::None => {}
            EnvClaim::Partial { missing } => {
                host.warn(format!("legion: {missing} is not set; this session has no place in the tree"));
            }
            EnvClaim::Node { db, node_id } => {
                let session = spec.session_file.as_deref().map(Path::new);
                match crate::orchestrator::claim::subprocess_identity(&db, &node_id, session, &ProcessEnv) {
                    Ok(scope) => return Ok(Identity::Child(Box::new(scope))),
                    Err(reason) => host.warn(format!("legion: {reason}; this session has no place in the tree")),
                }
            }
        }
        Ok(Identity::Root)
    }

    fn new_agent(&self, scope: u64, spec: AttachSpec) -> Result<Arc<Agent>, AbiError> {
        let host = SessionHost::new(self.host.clone(), scope);
        let identity = self.identify(&spec, &host)?;
        let context = Arc::new(SessionContext::new(spec, identity));
        let orchestrator = Orchestrator::new(OrchestratorDeps {
            host: host.clone(),
            context: Arc::clone(&context),
            shared: Arc::clone(&self.shared),
            agent_dir: self.info.agent_dir.clone().into(),
        });
        let mail = Mailroom::new(MailDeps {
            tree: Arc::clone(&orchestrator) as Arc<dyn mail::tree::Tree>,
            host: host.clone(),
            context: Arc::clone(&context),
            postmen: Arc::clone(&self.postmen),
            blocks: tools::notice_blocks,
            budget_text: tools::budget_text,
        });
        orchestrator.connect(mail.ports());
        Ok(Arc::new(Agent { host, desk: Desk { context, orchestrator, mail }, ending: AtomicBool::new(false) }))
    }

    fn registrations(agent: &Agent) -> Registrations {
        let context = &agent.desk.context;
        let mut gates = vec![gate::SESSION_SHUTDOWN];
        if context.identity.may_launch() || !context.identity.utility() {
            gates.push(gate::BEFORE_AGENT_START);
        }
        if context.holds_boundary() {
            gates.push(gate::AGENT_BEFORE_SETTLE);
        }
        let events = if context.identity.child().is_some() { CHILD_EVENTS } else { ROOT_EVENTS };
        Registrations {
            tools: tools::registrations(context),
            events: events.iter().map(|name| (*name).to_owned()).collect(),
            gates: gates.into_iter().map(str::to_owned).collect(),
            ..Registrations::default()
        }
    }

    /// Runs `work` in the agent's context and answers with what it gives; a panic of it fails this call alone.
    fn run<F>(&self, agent: &Agent, call: &Invocation, reply: Responder, work: F)
    where
        F: Future<Output = Result<String, AbiError>> + Send + 'static,
    {
        let what = format!("{} '{}'", call.kind, call.name);
        let ended = CallEnd { calls: Arc::clone(&self.calls), call: call.call };
        drop(self.spawner().within(Arc::clone(&agent.desk.context), async move {
            let _ended = ended;
            let result = AssertUnwindSafe(work).catch_unwind().await;
            reply.finish_json(result.unwrap_or_else(|payload| Err(panic_error(&what, payload.as_ref()))));
        }));
    }

    fn tool(
        &self,
        agent: &Agent,
        call: &Invocation,
        cancel: CancellationToken,
        reply: Responder,
    ) -> Result<(), AbiError> {
        let ToolInvocation { tool_call_id, params, .. } = call.payload()?;
        let partial = reply.clone();
        let cx = CallCx {
            tool_call_id,
            cancel,
            progress: Arc::new(move |progress| partial.progress(&tools::render_progress(&progress))),
        };
        let (desk, tool) = (agent.desk.clone(), call.name.clone());
        self.run(agent, call, reply, async move {
            let result: ToolResult = tools::call(&desk, &tool, params, cx).await;
            encode("tool result", &result)
        });
        Ok(())
    }

    fn gate(
        &self,
        agent: &Agent,
        call: &Invocation,
        cancel: CancellationToken,
        reply: Responder,
    ) -> Result<(), AbiError> {
        let desk = agent.desk.clone();
        match call.name.as_str() {
            gate::BEFORE_AGENT_START => {
                let GateCall { event, .. } = call.payload::<GateCall<BeforeAgentStart>>()?;
                self.run(agent, call, reply, async move {
                    encode("gate answer", &tools::before_agent_start(&desk, &event).await)
                });
            }
            gate::AGENT_BEFORE_SETTLE => {
                let GateCall { event, .. } = call.payload::<GateCall<AgentBeforeSettle>>()?;
                self.run(agent, call, reply, async move {
                    encode("gate answer", &desk.mail.before_settle(event, &cancel).await)
                });
            }
            gate::SESSION_SHUTDOWN => {
                let GateCall { event, .. } = call.payload::<GateCall<SessionShutdown>>()?;
                if desk.context.identity.child().is_none() && REBUILDS.contains(&event.reason.as_str()) {
                    self.calls.end(call.call);
                    reply.finish_json(Ok("{}".to_owned()));
                    return Ok(());
                }
                agent.ending.store(true, Ordering::Release);
                let drain = if desk.context.holds_boundary() && event.reason == NORMAL_END {
                    Drain::Until { cut: cancel }
                } else {
                    Drain::Skip
                };
                self.run(agent, call, reply, async move {
                    desk.orchestrator.shutdown(drain).await;
                    desk.mail.last_round().await;
                    Ok("{}".to_owned())
                });
            }
            other => return Err(AbiError::unknown_op(other)),
        }
        Ok(())
    }
}

/// Calls that the host may cancel.
#[derive(Debug, Default)]
struct Calls(Mutex<HashMap<u64, CancellationToken>>);

impl Calls {
    fn begin(&self, call: u64) -> CancellationToken {
        lock(&self.0).entry(call).or_default().clone()
    }

    fn end(&self, call: u64) {
        lock(&self.0).remove(&call);
    }

    fn cancel(&self, call: u64) {
        if let Some(token) = lock(&self.0).get(&call) {
            token.cancel();
        }
    }
}

/// Forgets a call when its task ends, however it ends.
struct CallEnd {
    calls: Arc<Calls>,
    call: u64,
}

impl Drop for CallEnd {
    fn drop(&mut self) {
        self.calls.end(self.call);
    }
}

impl Extension for Process {
    fn attach(&self, scope: u64, spec: AttachSpec) -> Result<Registrations, AbiError> {
        let known = lock(&self.agents).get(&spec.agent_id).cloned();
        let agent = match known {
            // Only a root session is rebuilt; a child that is made anew has an identity of its own.
            Some(agent) if spec.extension_scope.is_none() => {
                agent.host.repoint(scope);
                agent.desk.orchestrator.rebind(Arc::new(SessionContext::new(spec, Identity::Root)));
                agent
            }
            Some(_) | None => {
                let agent = self.new_agent(scope, spec)?;
                lock(&self.agents).insert(agent.desk.context.agent_id.clone(), Arc::clone(&agent));
                agent
            }
        };
        let registrations = Self::registrations(&agent);
        self.scopes.write().unwrap_or_else(PoisonError::into_inner).insert(scope, Arc::clone(&agent));
        drop(self.spawner().within(Arc::clone(&agent.desk.context), {
            let desk = agent.desk.clone();
            async move {
                desk.orchestrator.recover().await;
                desk.mail.join();
            }
        }));
        Ok(registrations)
    }

    fn detach(&self, scope: u64) {
        let Some(agent) = self.scopes.write().unwrap_or_else(PoisonError::into_inner).remove(&scope) else { return };
        agent.host.leave(scope);
        // A root session may come back under its agent id (ABI-3); a child that is gone stays gone.
        let gone = agent.desk.context.identity.child().is_some() || agent.ending.load(Ordering::Acquire);
        if gone && agent.host.scope().is_none() {
            lock(&self.agents).remove(&agent.desk.context.agent_id);
            agent.desk.mail.detached();
        }
    }

    fn invoke(&self, call: Invocation, reply: Responder) {
        let Some(agent) = self.agent(call.scope) else {
            reply.finish_json(Err(AbiError::scope_gone(call.scope)));
            return;
        };
        let cancel = self.calls.begin(call.call);
        let started = match call.kind.as_str() {
            kinds::TOOL => self.tool(&agent, &call, cancel, reply.clone()),
            kinds::GATE => self.gate(&agent, &call, cancel, reply.clone()),
            other => Err(AbiError::unknown_op(other)),
        };
        if let Err(error) = started {
            self.calls.end(call.call);
            reply.finish_json(Err(error));
        }
    }

    fn cancel(&self, call: u64) {
        self.calls.cancel(call);
    }

    fn notify(&self, scope: u64, name: &str, json: &str) {
        let Some(agent) = self.agent(scope) else { return };
        let Ok(Some(event)) = Event::parse(name, json) else { return };
        self.shared.activity.note(&agent.desk.context, &event, clock::now_ms());
        agent.desk.mail.on_event(&event);
    }

    fn query(&self, _: u64, name: &str, _: &str) -> Result<String, AbiError> {
        Err(AbiError::unknown_op(name))
    }
}
