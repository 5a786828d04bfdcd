//! A test extension that uses the whole of the ABI: tools that misbehave on demand, gates that answer what a
//! test told them, every event recorded, renderers and components, and panics in every place.
//!
//! It is driven from inside a session: a scripted model calls `probe_gate` to say how a gate shall answer, and
//! `probe_events` and `probe_asked` to see what happened. Everything that is set belongs to one session.

mod gates;
mod identity;
mod tools;
mod views;

use std::{
    collections::{HashMap, VecDeque},
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use host_abi::{
    AbiError,
    calls::{CommandInvocation, ToolInvocation, kinds},
    events,
    fence::guard_future,
    gates::names as gate_names,
    info::{AttachSpec, ExtensionInfo, HostInfo},
    ops,
    registration::{CommandDef, Registrations, Section},
    sdk::extension::{Extension, HostHandle, Invocation, Responder},
};
use identity::Identity;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

/// What the library knows, once per process.
struct Probe {
    host: HostHandle,
    runtime: tokio::runtime::Runtime,
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
    calls: Mutex<Calls>,
}

/// What it knows of one session.
struct Session {
    identity: Arc<Identity>,
    gates: gates::Gates,
    events: Mutex<Vec<Value>>,
    views: views::Views,
    /// The entries whose next use panics.
    armed: Mutex<Vec<String>>,
}

/// Cancellation of the calls that run, and of those that were cancelled before they came (ABI-50).
#[derive(Default)]
struct Calls {
    running: HashMap<u64, CancellationToken>,
    early: VecDeque<u64>,
}

/// Cancels of unknown calls that are kept. One may be of a call that ended, so they cannot all be kept.
const EARLY_CANCELS: usize = 256;

/// Work of one call: its session, and how it learns that it is cancelled.
struct Work {
    host: HostHandle,
    session: Arc<Session>,
    cancelled: CancellationToken,
    reply: Responder,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Session {
    /// Panics if this entry is armed, and disarms it.
    fn explode_if_armed(&self, entry: &str) {
        let armed = {
            let mut armed = lock(&self.armed);
            let at = armed.iter().position(|name| name == entry);
            at.map(|at| armed.remove(at)).is_some()
        };
        assert!(!armed, "probe: {entry}");
    }
}

impl Probe {
    fn session(&self, scope: u64) -> Result<Arc<Session>, AbiError> {
        lock(&self.sessions).get(&scope).cloned().ok_or_else(|| AbiError::scope_gone(scope))
    }

    fn begin(&self, call: u64) -> CancellationToken {
        let mut calls = lock(&self.calls);
        let token = CancellationToken::new();
        if let Some(at) = calls.early.iter().position(|early| *early == call) {
            calls.early.remove(at);
            token.cancel();
        }
        calls.running.insert(call, token.clone());
        token
    }

    /// Runs `work` on the runtime under the session's identity and the panic fence, and sends its answer.
    fn start<R>(
        self: &Arc<Self>,
        call: &Invocation,
        reply: Responder,
        session: Arc<Session>,
        work: impl FnOnce(Work) -> R,
    ) where
        R: Future<Output = Result<Value, AbiError>> + Send + 'static,
    {
        let cancelled = self.begin(call.call);
        let (probe, number) = (Arc::clone(self), call.call);
        let identity = Arc::clone(&session.identity);
        let what = format!("{} '{}'", call.kind, call.name);
        let body = Box::pin(work(Work { host: self.host.clone(), session, cancelled, reply: reply.clone() }));
        identity::spawn_scoped_on(self.runtime.handle(), identity, async move {
            let answer = guard_future(what, body).await;
            lock(&probe.calls).running.remove(&number);
            match answer {
                Ok(value) => reply.finish(Ok(&value)),
                Err(error) => reply.finish::<Value>(Err(error)),
            }
        });
    }
}

/// The library's object: the state is shared with the tasks.
struct Shared(Arc<Probe>);

impl Extension for Shared {
    fn attach(&self, scope: u64, spec: AttachSpec) -> Result<Registrations, AbiError> {
        match marker(&spec) {
            Some("err") => return Err(AbiError::new("PROBE", "the probe refuses this session")),
            Some("panic") => panic!("probe: attach"),
            _ => {}
        }
        let session = Session {
            identity: Arc::new(Identity { scope, spec }),
            gates: gates::Gates::default(),
            events: Mutex::default(),
            views: views::Views::default(),
            armed: Mutex::default(),
        };
        lock(&self.0.sessions).insert(scope, Arc::new(session));
        Ok(registrations())
    }

    fn detach(&self, scope: u64) {
        if let Some(session) = lock(&self.0.sessions).remove(&scope) {
            session.explode_if_armed("detach");
        }
    }

    fn invoke(&self, call: Invocation, reply: Responder) {
        let probe = &self.0;
        let outcome = probe.session(call.scope).and_then(|session| match call.kind.as_str() {
            kinds::TOOL => {
                let tool: ToolInvocation = call.payload()?;
                tools::start(probe, &call, tool, session, reply.clone())
            }
            kinds::COMMAND => {
                let command: CommandInvocation = call.payload()?;
                probe.start(&call, reply.clone(), session, |work| tools::command(work, command));
                Ok(())
            }
            kinds::GATE => {
                let asked: Value = call.payload()?;
                let gate = call.name.clone();
                probe.start(&call, reply.clone(), session, |work| gates::answer(work, gate, asked));
                Ok(())
            }
            other => Err(AbiError::unknown_op(other)),
        });
        if let Err(error) = outcome {
            reply.finish::<Value>(Err(error));
        }
    }

    fn cancel(&self, call: u64) {
        let mut calls = lock(&self.0.calls);
        if let Some(token) = calls.running.get(&call) {
            token.cancel();
        } else {
            calls.early.push_back(call);
            if calls.early.len() > EARLY_CANCELS {
                calls.early.pop_front();
            }
        }
    }

    fn notify(&self, scope: u64, name: &str, json: &str) {
        let Ok(session) = self.0.session(scope) else { return };
        session.explode_if_armed("notify");
        if !events::names::ALL.contains(&name) {
            return;
        }
        let payload = serde_json::from_str(json).unwrap_or_else(|_| json!({ "unreadable": json }));
        lock(&session.events).push(json!({ "name": name, "payload": payload }));
    }

    fn query(&self, scope: u64, name: &str, json: &str) -> Result<String, AbiError> {
        let session = self.0.session(scope)?;
        session.explode_if_armed("query");
        views::query(&session.views, name, json)
    }
}

/// `err` or `panic`, from a file `probe.err` or `probe.panic` in the working directory, or from the member
/// `probe` of the scope.
fn marker(spec: &AttachSpec) -> Option<&str> {
    let in_scope = spec.extension_scope.as_ref().and_then(|scope| scope.get("probe")?.as_str());
    in_scope.or_else(|| {
        ["err", "panic"].into_iter().find(|what| Path::new(&spec.cwd).join(format!("probe.{what}")).is_file())
    })
}

fn registrations() -> Registrations {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Registrations {
        tools: tools::definitions(),
        commands: vec![CommandDef {
            name: "probe".to_owned(),
            description: "Does what its first word says".to_owned(),
            completes: true,
        }],
        events: owned(events::names::ALL),
        gates: owned(gate_names::ALL),
        renderers: owned(views::CUSTOM_TYPES),
        entry_renderers: owned(views::CUSTOM_TYPES),
        components: owned(views::COMPONENTS),
        system_prompt: Some(Section { id: "probe".to_owned(), text: "The probe is loaded.".to_owned() }),
        input_for: vec!["probe_echo".to_owned()],
    }
}

fn info() -> ExtensionInfo {
    ExtensionInfo {
        name: "probe".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        abi: host_abi::VERSION.to_owned(),
        ops: ops::ALL.iter().map(|op| (*op).to_owned()).collect(),
        events: events::names::ALL.iter().chain(gate_names::ALL).map(|name| (*name).to_owned()).collect(),
    }
}

fn init(host: HostHandle, _: HostInfo) -> Result<Shared, AbiError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("probe")
        .enable_time()
        .build()
        .map_err(|error| AbiError::host(format!("failed to start the probe's runtime: {error}")))?;
    Ok(Shared(Arc::new(Probe { host, runtime, sessions: Mutex::default(), calls: Mutex::default() })))
}

host_abi::export_extension!(info = info, init = init);
