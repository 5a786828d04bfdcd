//! The shell: one identity and one state per session, events and gates in, answers and posts out.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host_abi::calls::kinds;
use host_abi::events::names as events;
use host_abi::gates::{CustomMessage, GateCall, ToolCall as ToolCallEvent, ToolCallAnswer, names as gates};
use host_abi::info::{AttachSpec, ExtensionInfo, HostInfo};
use host_abi::ops::{AbortSession, DeliverAs, Log, LogLevel, Post as _, Print, Request as _, SendMessage, Stream};
use host_abi::registration::Registrations;
use host_abi::scope::Env;
use host_abi::sdk::extension::{Extension, HostHandle, Invocation, Responder};
use host_abi::{AbiError, codes, fence};
use serde_json::{Map, Value};

use crate::env::ProcessEnv;
use crate::identity;
use crate::messages;
use crate::state::{
    BASH, BashInput, GuardDecision, GuardIdentity, GuardState, Timeout, ToolCall, TurnAction, on_agent_settled,
    on_agent_start, on_tool_call, on_turn_start,
};

/// Type of the messages that warn a child of a limit (GUARD-99).
const MESSAGE_TYPE: &str = "legion-guard";

const EVENTS: &[&str] = &[events::AGENT_START, events::AGENT_SETTLED, events::TURN_START];

/// Facts of this library.
pub fn info() -> ExtensionInfo {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    ExtensionInfo {
        name: "child-guard".to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        abi: host_abi::VERSION.to_owned(),
        ops: names(&[SendMessage::OP, AbortSession::OP, Print::OP, Log::OP]),
        events: names(&[EVENTS, &[gates::TOOL_CALL]].concat()),
    }
}

/// Starts the extension in a host.
///
/// # Errors
/// None of its own; the signature is that of every extension.
pub fn init(host: HostHandle, _: HostInfo) -> Result<ChildGuard, AbiError> {
    let log = host.clone();
    fence::install_silent_hook(move |panic| post_log(&log, CURRENT.get(), LogLevel::Error, panic));
    Ok(ChildGuard::new(host))
}

thread_local! {
    /// The session that this thread works for, for the log line of a panic. Every entry is synchronous.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

type Judge = fn(&mut GuardState, &GuardIdentity, &ToolCall<'_>) -> GuardDecision;

/// The extension: a map from scope to what binds that session and what it has used.
pub struct ChildGuard {
    host: HostHandle,
    env: Box<dyn Env + Send + Sync>,
    judge: Judge,
    sessions: Mutex<HashMap<u64, Arc<Session>>>,
}

impl fmt::Debug for ChildGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildGuard").field("sessions", &lock(&self.sessions).len()).finish_non_exhaustive()
    }
}

struct Session {
    /// Absent in a session that is no child.
    identity: Option<GuardIdentity>,
    cwd: PathBuf,
    state: Mutex<GuardState>,
}

impl ChildGuard {
    /// A guard that reads the environment of this process in sessions without a scope.
    pub fn new(host: HostHandle) -> Self {
        Self::with(host, Box::new(ProcessEnv), on_tool_call)
    }

    fn with(host: HostHandle, env: Box<dyn Env + Send + Sync>, judge: Judge) -> Self {
        Self { host, env, judge, sessions: Mutex::new(HashMap::new()) }
    }

    fn session(&self, scope: u64) -> Option<Arc<Session>> {
        CURRENT.set(scope);
        lock(&self.sessions).get(&scope).cloned()
    }

    fn tool_call(&self, call: &Invocation) -> Result<ToolCallAnswer, AbiError> {
        let session = self.session(call.scope).ok_or_else(|| AbiError::scope_gone(call.scope))?;
        let Some(identity) = &session.identity else { return Ok(ToolCallAnswer::default()) };
        let GateCall { event, ctx }: GateCall<ToolCallEvent> = call.payload()?;
        let input = event.input.whole().and_then(Value::as_object).filter(|_| event.tool_name == BASH);
        let cwd = if ctx.cwd.is_empty() { session.cwd.as_path() } else { Path::new(&ctx.cwd) };
        let judged = ToolCall { tool: &event.tool_name, bash: input.and_then(bash_input), cwd };
        let decision = (self.judge)(&mut lock(&session.state), identity, &judged);
        Ok(match decision {
            GuardDecision::Allow { timeout_s, nudge } => {
                self.nudge(call.scope, nudge);
                let input = timeout_s.zip(input).map(|(seconds, input)| with_timeout(input, seconds));
                ToolCallAnswer { input, ..ToolCallAnswer::default() }
            }
            GuardDecision::Refuse { reason, terminate, nudge } => {
                self.nudge(call.scope, nudge);
                ToolCallAnswer { block: true, reason: Some(reason), terminate, input: None }
            }
        })
    }

    /// Sends a message into the child's session before its next model request. It starts no run, and that it may be
    /// lost is accepted: the hard limit holds without it (GUARD-99).
    fn nudge(&self, scope: u64, text: Option<String>) {
        let Some(content) = text else { return };
        let message = CustomMessage { custom_type: MESSAGE_TYPE.to_owned(), content, display: true, details: None };
        self.host.post_request(scope, &SendMessage { message, deliver_as: Some(DeliverAs::Steer), trigger_turn: None });
    }

    fn warn(&self, scope: u64, line: String) {
        post_log(&self.host, scope, LogLevel::Warn, &line);
        self.host.post(scope, &Print { line, stream: Stream::Err });
    }
}

impl Extension for ChildGuard {
    fn attach(&self, scope: u64, spec: AttachSpec) -> Result<Registrations, AbiError> {
        CURRENT.set(scope);
        let found = identity::find(spec.extension_scope.as_ref(), self.env.as_ref())
            .map_err(|error| AbiError::new(codes::BAD_PAYLOAD, format!("child-guard: {error}")))?;
        for warning in found.warnings {
            self.warn(scope, warning);
        }
        let is_child = found.identity.is_some();
        let session = Session {
            identity: found.identity,
            cwd: PathBuf::from(spec.cwd),
            state: Mutex::new(GuardState::default()),
        };
        lock(&self.sessions).insert(scope, Arc::new(session));
        if !is_child {
            return Ok(Registrations::default());
        }
        Ok(Registrations {
            events: EVENTS.iter().map(|event| (*event).to_owned()).collect(),
            gates: vec![gates::TOOL_CALL.to_owned()],
            input_for: vec![BASH.to_owned()],
            ..Registrations::default()
        })
    }

    fn detach(&self, scope: u64) {
        lock(&self.sessions).remove(&scope);
    }

    fn invoke(&self, call: Invocation, reply: Responder) {
        if call.kind != kinds::GATE || call.name != gates::TOOL_CALL {
            return reply.finish_json(Err(AbiError::unknown_op(&format!("{} {}", call.kind, call.name))));
        }
        // A call never passes because the guard broke (GUARD-35), whatever the host makes of an error.
        match fence::guard("tool_call", || self.tool_call(&call)) {
            Ok(answer) => reply.finish(Ok(&answer)),
            Err(error) if error.code == codes::SCOPE_GONE => reply.finish_json(Err(error)),
            Err(error) => {
                let reason = messages::internal(&error.message);
                post_log(&self.host, call.scope, LogLevel::Error, &reason);
                reply.finish(Ok(&ToolCallAnswer { block: true, reason: Some(reason), terminate: false, input: None }));
            }
        }
    }

    /// Nothing waits inside a gate, so there is nothing to stop.
    fn cancel(&self, _: u64) {}

    fn notify(&self, scope: u64, name: &str, _: &str) {
        let Some(session) = self.session(scope) else { return };
        let Some(identity) = &session.identity else { return };
        let mut state = lock(&session.state);
        match name {
            events::AGENT_START => on_agent_start(&mut state),
            events::AGENT_SETTLED => on_agent_settled(&mut state),
            events::TURN_START => {
                let action = on_turn_start(&mut state, identity);
                drop(state);
                match action {
                    TurnAction::Go => {}
                    TurnAction::Nudge(text) => self.nudge(scope, Some(text)),
                    TurnAction::End(why) => {
                        self.warn(scope, why);
                        self.host.post_request(scope, &AbortSession {});
                    }
                }
            }
            _ => {}
        }
    }

    fn query(&self, _: u64, name: &str, _: &str) -> Result<String, AbiError> {
        Err(AbiError::unknown_op(name))
    }
}

fn bash_input(input: &Map<String, Value>) -> Option<BashInput<'_>> {
    let command = input.get("command")?.as_str()?;
    let timeout = match input.get("timeout") {
        None | Some(Value::Null) => Timeout::Absent,
        Some(value) => value.as_f64().filter(|seconds| *seconds > 0.0).map_or(Timeout::Invalid, Timeout::Seconds),
    };
    Some(BashInput { command, timeout })
}

/// The input with another time limit; all else stays, since the answer replaces the whole input (ABI-52).
fn with_timeout(input: &Map<String, Value>, seconds: f64) -> Value {
    // Whole seconds are written as the model would have written them.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number of 0 to 2147483")]
    let timeout = if seconds.fract() == 0.0 { Value::from(seconds as u64) } else { Value::from(seconds) };
    let mut input = input.clone();
    input.insert("timeout".to_owned(), timeout);
    Value::Object(input)
}

fn post_log(host: &HostHandle, scope: u64, level: LogLevel, message: &str) {
    let target = "child_guard".to_owned();
    host.post(scope, &Log { level, target, message: message.to_owned(), fields: Value::Null });
}

/// A panic while the lock was held leaves counters that are right or one too high, so the lock stays usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
