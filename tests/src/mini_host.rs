//! A host that is just enough to drive extension libraries in a test: sessions without a model, a few
//! operations, and a record of what the extension told it. Two kinds of operations exist for the tests alone:
//! those that stay open until the test says so, and those that misbehave.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use host_abi::{
    AbiError, MAX_PAYLOAD_BYTES, NO_SCOPE,
    calls::{ToolInvocation, ToolResult, kinds},
    events, fence, gates,
    info::{AttachSpec, Ctx, HostInfo, Mode},
    load, ops,
    registration::Registrations,
    sdk::{
        BoxFuture, decode, encode,
        host::{CallTarget, ExtensionHandle, Host, ReplySink},
    },
};
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc, oneshot};

use crate::libraries::library;

/// Longest wait for a state. Reached only by a test that fails.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Operations beside the real ones: how a host may misbehave.
pub mod misbehaving {
    /// Panics before it gives a future. As a post it panics too.
    pub const PANIC: &str = "test.panic";
    /// Panics when its future is polled.
    pub const PANIC_IN_POLL: &str = "test.panic_in_poll";
    /// Stays open; its future panics when it is dropped.
    pub const PANIC_IN_DROP: &str = "test.panic_in_drop";
    /// Answers with more than may cross.
    pub const LARGE: &str = "test.large";
    /// Errs with more than may cross.
    pub const LARGE_ERROR: &str = "test.large_error";
    /// Answers something that is no JSON.
    pub const NO_JSON: &str = "test.no_json";
}

/// The host. Clones are the same one.
#[derive(Clone, Default)]
pub struct MiniHost(Arc<Inner>);

#[derive(Default)]
struct Inner {
    last_scope: AtomicU64,
    last_call: AtomicU64,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    scopes: HashSet<u64>,
    posts: Vec<(u64, String, Value)>,
    open: Vec<Open>,
    dropped: Vec<(u64, String)>,
}

/// A request that waits for the test.
struct Open {
    scope: u64,
    op: String,
    reply: oneshot::Sender<Result<String, AbiError>>,
}

impl Open {
    fn is(&self, scope: u64, op: &str) -> bool {
        self.scope == scope && self.op == op
    }
}

impl std::fmt::Debug for MiniHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("MiniHost")
    }
}

impl MiniHost {
    /// The one of this process: a library keeps the host of its first start.
    pub fn shared() -> Self {
        static SHARED: OnceLock<MiniHost> = OnceLock::new();
        SHARED.get_or_init(Self::default).clone()
    }

    /// What this host tells of itself.
    pub fn info() -> HostInfo {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        HostInfo {
            name: "mini".to_owned(),
            version: "0".to_owned(),
            mode: Mode::Print,
            has_ui: true,
            cwd: "/".to_owned(),
            agent_dir: "/".to_owned(),
            project_trusted: true,
            ops: owned(ops::ALL),
            events: owned(events::names::ALL),
            gates: owned(gates::names::ALL),
        }
    }

    /// The running extension of the library `name`, such as `probe_ext`.
    ///
    /// # Panics
    /// The library does not load.
    pub fn start(&self, name: &str) -> ExtensionHandle {
        fence::install_host_hook();
        let loaded = load(&library(name)).unwrap_or_else(|error| panic!("{error}"));
        loaded.start(self.clone(), &Self::info()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A new session of the library `name`.
    ///
    /// # Panics
    /// It does not load or attach.
    pub fn session(&self, name: &str) -> MiniSession {
        self.session_with(name, |_| {}).unwrap_or_else(|error| panic!("{error}"))
    }

    /// A new session whose attach is what `change` makes of the usual one.
    ///
    /// # Errors
    /// The extension refuses the session.
    pub fn session_with(&self, name: &str, change: impl FnOnce(&mut AttachSpec)) -> Result<MiniSession, AbiError> {
        let extension = self.start(name);
        let scope = self.0.last_scope.fetch_add(1, Ordering::Relaxed) + 1;
        let mut spec = AttachSpec {
            agent_id: format!("agent-{scope}"),
            session_id: format!("session-{scope}"),
            session_file: None,
            cwd: "/".to_owned(),
            mode: Mode::Print,
            has_ui: true,
            project_trusted: true,
            extension_scope: None,
        };
        change(&mut spec);
        self.lock().scopes.insert(scope);
        let registrations = extension.attach(scope, &spec).inspect_err(|_| self.close(scope))?;
        Ok(MiniSession { host: self.clone(), extension, scope, registrations })
    }

    /// What was posted under `op` for a scope, oldest first.
    pub fn posts(&self, scope: u64, op: &str) -> Vec<Value> {
        let state = self.lock();
        let own = state.posts.iter().filter(|(s, o, _)| *s == scope && o == op);
        own.map(|(_, _, json)| json.clone()).collect()
    }

    /// Waits for a post that fits.
    pub async fn post_of(&self, scope: u64, op: &str, fits: impl Fn(&Value) -> bool) -> Value {
        self.until(&format!("a post of '{op}'"), |_| self.posts(scope, op).into_iter().find(&fits)).await
    }

    /// Waits until a request of the scope is open.
    pub async fn opened(&self, scope: u64, op: &str) {
        self.until(&format!("an open '{op}'"), |_| {
            self.lock().open.iter().any(|open| open.is(scope, op)).then_some(())
        })
        .await;
    }

    /// Answers the oldest open request of the scope.
    ///
    /// # Panics
    /// There is none.
    pub fn answer(&self, scope: u64, op: &str, answer: &Value) {
        let open = {
            let mut state = self.lock();
            let at = state.open.iter().position(|open| open.is(scope, op)).expect("a request is open");
            state.open.remove(at)
        };
        drop(open.reply.send(Ok(answer.to_string())));
    }

    /// Waits until the extension has dropped a request of the scope before its answer.
    pub async fn dropped(&self, scope: u64, op: &str) {
        self.until(&format!("a dropped '{op}'"), |_| {
            self.lock().dropped.iter().any(|o| o.0 == scope && o.1 == op).then_some(())
        })
        .await;
    }

    /// Settles what is open for a scope; nothing reaches it from now on (ABI-2).
    fn close(&self, scope: u64) {
        let settled: Vec<Open> = {
            let mut state = self.lock();
            state.scopes.remove(&scope);
            state.open.extract_if(.., |open| open.scope == scope).collect()
        };
        for open in settled {
            drop(open.reply.send(Err(AbiError::scope_gone(scope))));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn until<T>(&self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        let wait = async {
            loop {
                let changed = self.0.changed.notified();
                tokio::pin!(changed);
                changed.as_mut().enable();
                if let Some(found) = look(self) {
                    return found;
                }
                changed.await;
            }
        };
        within(what, wait).await
    }

    /// A request that stays open until the test answers, the scope closes, or the extension drops it.
    fn stay_open(&self, scope: u64, op: &str) -> BoxFuture<Result<String, AbiError>> {
        let (reply, answer) = oneshot::channel();
        self.lock().open.push(Open { scope, op: op.to_owned(), reply });
        self.0.changed.notify_waiters();
        let in_flight = InFlight { host: self.clone(), scope, op: op.to_owned(), ended: false };
        Box::pin(async move {
            let answer = answer.await;
            in_flight.end();
            answer.unwrap_or_else(|_| Err(AbiError::host("the test forgot the request")))
        })
    }
}

/// A request in flight; its drop before the end is what ABI-8 calls a cancel.
struct InFlight {
    host: MiniHost,
    scope: u64,
    op: String,
    ended: bool,
}

impl InFlight {
    fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.ended {
            let mut state = self.host.lock();
            state.open.retain(|open| !open.is(self.scope, &self.op));
            state.dropped.push((self.scope, self.op.clone()));
            drop(state);
            self.host.0.changed.notify_waiters();
        }
    }
}

impl Host for MiniHost {
    fn post(&self, scope: u64, op: &str, json: &str) {
        assert!(op != misbehaving::PANIC, "mini host: post");
        let mut state = self.lock();
        if scope == NO_SCOPE || state.scopes.contains(&scope) {
            state.posts.push((scope, op.to_owned(), serde_json::from_str(json).unwrap_or(Value::Null)));
        }
        drop(state);
        self.0.changed.notify_waiters();
    }

    fn request(&self, scope: u64, op: &str, json: String) -> BoxFuture<Result<String, AbiError>> {
        if scope != NO_SCOPE && !self.lock().scopes.contains(&scope) {
            return ready(Err(AbiError::scope_gone(scope)));
        }
        match op {
            "host.info" => ready(encode(op, &Self::info())),
            "ui.confirm" => match decode::<ops::UiConfirm>(op, &json) {
                Ok(_) => self.stay_open(scope, op),
                Err(error) => ready(Err(error)),
            },
            misbehaving::PANIC => panic!("mini host: request"),
            misbehaving::PANIC_IN_POLL => Box::pin(async { panic!("mini host: poll") }),
            misbehaving::PANIC_IN_DROP => {
                let mine = Mine(self.stay_open(scope, op));
                Box::pin(async move {
                    let mut mine = mine;
                    (&mut mine.0).await
                })
            }
            misbehaving::LARGE => ready(Ok(format!("\"{}\"", "x".repeat(MAX_PAYLOAD_BYTES)))),
            misbehaving::LARGE_ERROR => ready(Err(AbiError::host("x".repeat(MAX_PAYLOAD_BYTES)))),
            misbehaving::NO_JSON => ready(Ok("no json".to_owned())),
            _ => ready(Err(AbiError::unknown_op(op))),
        }
    }
}

struct Mine(BoxFuture<Result<String, AbiError>>);

impl Drop for Mine {
    fn drop(&mut self) {
        panic!("mini host: drop");
    }
}

fn ready(answer: Result<String, AbiError>) -> BoxFuture<Result<String, AbiError>> {
    Box::pin(std::future::ready(answer))
}

/// One session of one extension.
#[derive(Debug)]
pub struct MiniSession {
    host: MiniHost,
    pub extension: ExtensionHandle,
    pub scope: u64,
    /// The answer of `attach`.
    pub registrations: Registrations,
}

impl MiniSession {
    /// A call number that was not used yet.
    pub fn next_call(&self) -> u64 {
        self.host.0.last_call.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// What the work of this session is told of it.
    pub fn ctx(&self) -> Ctx {
        Ctx {
            cwd: "/".to_owned(),
            mode: Mode::Print,
            has_ui: true,
            session_id: format!("session-{}", self.scope),
            session_file: None,
            model: None,
            idle: false,
        }
    }

    /// Starts a call whose payload is JSON text.
    pub fn invoke(&self, call: u64, kind: &str, name: &str, json: String) -> Call {
        let (sink, heard) = mpsc::unbounded_channel();
        self.extension.invoke_json(CallTarget { scope: self.scope, call, kind, name }, json, Sink(sink));
        Call { number: call, heard }
    }

    /// Starts a tool call.
    pub fn call(&self, tool: &str, params: Value) -> Call {
        let call = self.next_call();
        self.invoke(call, kinds::TOOL, tool, self.tool_json(call, params))
    }

    /// The payload of a tool call.
    pub fn tool_json(&self, call: u64, params: Value) -> String {
        let payload = ToolInvocation { tool_call_id: format!("tool-{call}"), params, ctx: self.ctx() };
        serde_json::to_string(&payload).expect("the payload is strings and JSON")
    }

    /// Calls a tool and waits for its answer.
    ///
    /// # Errors
    /// The call failed.
    pub async fn tool(&self, tool: &str, params: Value) -> Result<ToolResult, AbiError> {
        let (_, answer) = self.call(tool, params).end().await;
        decode(tool, &answer?)
    }

    /// The `details` of a tool's answer.
    ///
    /// # Panics
    /// The call failed, or gave none.
    pub async fn details(&self, tool: &str, params: Value) -> Value {
        let result = self.tool(tool, params).await.unwrap_or_else(|error| panic!("{tool}: {error}"));
        result.details.unwrap_or_else(|| panic!("{tool} gives no details"))
    }

    /// Asks a gate and waits for its answer.
    ///
    /// # Errors
    /// The gate erred.
    pub async fn gate(&self, gate: &str, event: Value) -> Result<Value, AbiError> {
        let json = json!({ "event": event, "ctx": self.ctx() }).to_string();
        let (_, answer) = self.invoke(self.next_call(), kinds::GATE, gate, json).end().await;
        decode(gate, &answer?)
    }

    /// The session is gone.
    pub fn detach(&self) {
        self.extension.detach(self.scope);
        self.host.close(self.scope);
    }
}

/// What a call told, in the order in which it came.
#[derive(Debug)]
pub enum Heard {
    Progress(String),
    Finish(Result<String, AbiError>),
}

/// A call that runs.
#[derive(Debug)]
pub struct Call {
    pub number: u64,
    heard: mpsc::UnboundedReceiver<Heard>,
}

impl Call {
    /// The next thing that the call tells; `None` when it will tell nothing more.
    pub async fn next(&mut self) -> Option<Heard> {
        within("a call", self.heard.recv()).await
    }

    /// Progress and answer, once the reply is gone.
    ///
    /// # Panics
    /// The call had not exactly one answer, as the last thing it told.
    pub async fn end(mut self) -> (Vec<String>, Result<String, AbiError>) {
        let (mut progress, mut answer) = (Vec::new(), None);
        while let Some(heard) = self.next().await {
            assert!(answer.is_none(), "after the answer: {heard:?}");
            match heard {
                Heard::Progress(json) => progress.push(json),
                Heard::Finish(result) => answer = Some(result),
            }
        }
        (progress, answer.expect("the reply went without an answer"))
    }
}

struct Sink(mpsc::UnboundedSender<Heard>);

impl ReplySink for Sink {
    fn progress(&self, json: &str) {
        drop(self.0.send(Heard::Progress(json.to_owned())));
    }
    fn finish(&self, result: Result<String, AbiError>) {
        drop(self.0.send(Heard::Finish(result)));
    }
}

/// Waits for `future`, as long as a test that works could ever need.
///
/// # Panics
/// It takes longer than [`PATIENCE`].
pub async fn within<F: Future>(what: &str, future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} did not come within {PATIENCE:?}"))
}
