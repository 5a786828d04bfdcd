//! native-host for tests: a model that does what its prompt says, and a host around it.
//!
//! A prompt that is a JSON list is a list of steps, one for each request of the run: `{"calls": [["tool",
//! {arguments}], …]}`, `{"text": …}`, `{"barrier": n}` (a text once `n` requests are there together),
//! `{"hang": true}` (until it is cancelled), `{"deaf": true}` (not even then), `{"panic": true}`, `{"status": 429,
//! "times": 1}`. Any other prompt is repeated,
//! but one that begins with `~` says nothing.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use host_abi::{calls::kinds, ops::Stream};
use native_host::{
    console::MemoryConsole,
    extensions::{
        Attached,
        call::{Call, call as call_extension},
    },
    host::{Host, HostBuilder, LibraryAt, RunOutcome},
    provider::{Delta, DeltaSink, ModelInfo, ModelRequest, Provider, ProviderError, ThinkingLevel},
    session::Session,
    session_file::{AssistantMessage, Block, Cost, Message, StopReason, ToolCall, ToolResultMessage, Usage},
};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The bound of every wait in these tests.
pub const BOUND: Duration = Duration::from_secs(30);

/// A model that obeys.
#[derive(Debug, Default)]
pub struct Obedient {
    calls: AtomicU64,
    open: AtomicUsize,
    most: AtomicUsize,
    changed: Notify,
    requests: Mutex<Vec<ModelRequest>>,
}

impl Obedient {
    /// Requests that are open now.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// The most that were ever open at once.
    pub fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<ModelRequest> {
        self.requests.lock().expect("no test panics with this lock").clone()
    }

    /// Waits until `n` requests are open.
    pub async fn wait_open(&self, n: usize) {
        self.wait(|| self.open() >= n).await;
    }

    async fn wait(&self, state: impl Fn() -> bool) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if state() {
                return;
            }
            tokio::time::timeout(BOUND, changed).await.expect("the requests come");
        }
    }

    fn enter(&self) -> Open<'_> {
        let open = self.open.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(open, Ordering::SeqCst);
        self.changed.notify_waiters();
        Open(self)
    }

    async fn answer(&self, request: &ModelRequest, sink: DeltaSink<'_>) -> Result<Vec<Block>, ProviderError> {
        let step = step_of(&request.messages);
        if step["hang"] == json!(true) {
            request.cancel.cancelled().await;
            return Err(ProviderError::Aborted { partial: vec![Block::text("half")], usage: Usage::default() });
        }
        if step["deaf"] == json!(true) {
            std::future::pending::<()>().await;
        }
        if step["panic"] == json!(true) {
            panic!("the model was told to panic");
        }
        let before = {
            let requests = self.requests.lock().expect("no test panics with this lock");
            requests.iter().filter(|other| same_request(other, request)).count() as u64
        };
        if let Some(status) = step["status"].as_u64().filter(|_| before <= step["times"].as_u64().unwrap_or(u64::MAX)) {
            let status = u16::try_from(status).unwrap_or(500);
            return Err(ProviderError::Http { status, body: "told to fail".into(), retry_after_ms: None });
        }
        if let Some(n) = step["barrier"].as_u64() {
            let n = usize::try_from(n).unwrap_or(usize::MAX);
            // Once reached it stays open, for those too that see it late.
            self.wait(|| self.most() >= n).await;
        }
        let mut content = Vec::new();
        for (index, piece) in step["text"].as_str().into_iter().enumerate() {
            sink(Delta::TextStart { index });
            sink(Delta::Text { index, text: piece.to_owned() });
            sink(Delta::TextEnd { index });
            content.push(Block::text(piece));
        }
        for call in step["calls"].as_array().into_iter().flatten() {
            let id = format!("call-{}", self.calls.fetch_add(1, Ordering::Relaxed));
            let name = call[0].as_str().unwrap_or_default().to_owned();
            content.push(Block::ToolCall(ToolCall { id, name, arguments: call[1].clone(), ..ToolCall::default() }));
        }
        Ok(content)
    }
}

fn same_request(a: &ModelRequest, b: &ModelRequest) -> bool {
    a.session.id == b.session.id && a.messages.len() == b.messages.len()
}

/// A request that is open.
struct Open<'a>(&'a Obedient);

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

/// What the request is to do: the step of the last prompt that is a list, by the answers since. Texts that
/// begin with `~` and those of extensions are passed over.
fn step_of(messages: &[Message]) -> Value {
    for (at, message) in messages.iter().enumerate().rev() {
        let (text, passed) = match message {
            Message::User(user) => (user.content.text(), user.content.text().starts_with('~')),
            Message::Custom(custom) => (custom.content.text(), true),
            _ => continue,
        };
        match serde_json::from_str::<Vec<Value>>(&text) {
            Ok(steps) => {
                let answers = messages[at..].iter().filter(|message| matches!(message, Message::Assistant(_))).count();
                return steps.get(answers).cloned().unwrap_or_else(|| json!({ "text": "done" }));
            }
            Err(_) if passed => {}
            Err(_) => return json!({ "text": format!("you said: {text}") }),
        }
    }
    json!({ "text": "done" })
}

#[async_trait::async_trait]
impl Provider for Obedient {
    fn name(&self) -> &str {
        "obedient"
    }

    fn models(&self) -> Vec<ModelInfo> {
        let model = |id: &str, has_credentials| ModelInfo {
            provider: "obedient".into(),
            id: id.into(),
            name: id.into(),
            thinking_levels: vec![ThinkingLevel::Off, ThinkingLevel::Low],
            context_window: 100_000,
            max_tokens: 1_000,
            cost: Cost::default(),
            images: false,
            has_credentials,
        };
        vec![model("m", true), model("keyless", false)]
    }

    async fn stream(&self, request: ModelRequest, sink: DeltaSink<'_>) -> Result<AssistantMessage, ProviderError> {
        self.requests.lock().expect("no test panics with this lock").push(request.clone());
        let _open = self.enter();
        let content = self.answer(&request, sink).await?;
        let calls = content.iter().any(|block| matches!(block, Block::ToolCall(_)));
        Ok(AssistantMessage {
            content,
            api: "obedient".into(),
            provider: "obedient".into(),
            model: request.model.id,
            usage: Usage { input: 100, output: 10, total_tokens: 110, ..Usage::default() },
            stop_reason: if calls { StopReason::ToolUse } else { StopReason::Stop },
            timestamp: 1,
            ..AssistantMessage::default()
        })
    }
}

/// A host in a directory of its own, with the probe as the root's extension and no legion.
#[derive(Debug)]
pub struct Bench {
    pub host: Host,
    pub model: Arc<Obedient>,
    pub console: Arc<MemoryConsole>,
    pub dir: tempfile::TempDir,
}

/// Steps as a prompt.
pub fn steps(steps: Value) -> String {
    steps.to_string()
}

/// A prompt that makes one call.
pub fn call(tool: &str, arguments: Value) -> String {
    steps(json!([{ "calls": [[tool, arguments]] }]))
}

impl Bench {
    /// With the probe in the root.
    pub fn new() -> Bench {
        Bench::with(|builder| builder)
    }

    /// With what `change` makes of the builder.
    ///
    /// # Panics
    /// The host does not start.
    pub fn with(change: impl FnOnce(HostBuilder) -> HostBuilder) -> Bench {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let project = dir.path().join("project");
        std::fs::create_dir_all(&project).expect("a directory can be made");
        let (model, console) = (Arc::new(Obedient::default()), Arc::new(MemoryConsole::default()));
        let probe = crate::libraries::library("probe_ext");
        let builder = Host::builder()
            .cwd(&project)
            .agent_dir(dir.path().join("agent"))
            .provider(Arc::clone(&model) as Arc<dyn Provider>)
            .no_legion()
            .extension(probe.to_string_lossy())
            .retry(native_host::session::run_state::RetryPolicy { max: 2, base_delay_ms: 0, max_delay_ms: 0 })
            .console(Arc::clone(&console) as Arc<dyn native_host::console::Console>);
        let host = change(builder).build().expect("the host starts");
        let complaints = console.lines(Stream::Err);
        assert!(complaints.is_empty(), "the root does without something: {complaints:?}");
        Bench { host, model, console, dir }
    }

    /// The root's working directory.
    pub fn project(&self) -> PathBuf {
        self.host.root().shared.identity.cwd.clone()
    }

    /// Runs a prompt of the root to its end.
    ///
    /// # Panics
    /// The prompt is refused, or does not end.
    pub async fn run(&self, prompt: &str) -> RunOutcome {
        within(self.host.run_prompt(prompt)).await.expect("the prompt is taken")
    }

    /// Has the root call a tool and gives its result.
    ///
    /// # Panics
    /// The call has no result.
    pub async fn tool(&self, tool: &str, arguments: Value) -> ToolResultMessage {
        self.run(&call(tool, arguments)).await;
        self.results().await.pop().expect("the call has a result")
    }

    /// Asks an operation of the host for the root, through the probe and past the model. The error is the
    /// `AbiError` as JSON.
    ///
    /// # Errors
    /// The host's.
    pub async fn request(&self, op: &str, input: Value) -> Result<Value, Value> {
        let answer = probe(self.host.root(), "probe_request", json!({ "op": op, "input": input })).await;
        match answer.get("error") {
            Some(error) => Err(error.clone()),
            None => Ok(answer["answer"].clone()),
        }
    }

    /// Makes a child with the probe; `change` makes the spec what it is to be.
    ///
    /// # Errors
    /// The host's.
    pub async fn try_child(&self, name: &str, change: Value) -> Result<Value, Value> {
        let mut spec = json!({
            "agentId": format!("root/{name}"), "name": name, "cwd": self.project(),
            "sessionFile": self.dir.path().join(format!("{name}.jsonl")),
            "extensions": [crate::libraries::library("probe_ext")], "extensionScope": { "who": name },
        });
        for (key, value) in change.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        self.request("child.create", spec).await
    }

    /// Makes a child and gives its session and id.
    ///
    /// # Panics
    /// It does not start.
    pub async fn child(&self, name: &str, change: Value) -> (Arc<Session>, String) {
        let created = self.try_child(name, change).await.expect("the child starts");
        let id = created["child"].as_str().expect("the child has an id").to_owned();
        (self.session(created["scope"].as_u64().expect("the child has a scope")), id)
    }

    /// The session of a scope.
    ///
    /// # Panics
    /// There is none.
    pub fn session(&self, scope: u64) -> Arc<Session> {
        let sessions = self.host.core().sessions();
        sessions.into_iter().find(|session| session.scope() == scope).expect("the session lives")
    }

    /// The root's tool results, oldest first.
    pub async fn results(&self) -> Vec<ToolResultMessage> {
        results_of(self.host.root()).await
    }

    /// What was printed.
    pub fn printed(&self, stream: Stream) -> Vec<String> {
        self.console.lines(stream)
    }

    /// A path below the bench's directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Default for Bench {
    fn default() -> Self {
        Bench::new()
    }
}

/// Calls a tool of the probe in a session, past its model and its gates, and gives the details of the result.
///
/// # Panics
/// The session has no probe, or the call fails.
pub async fn probe(session: &Session, tool: &str, params: Value) -> Value {
    probe_number(session, 0, tool, params).await
}

/// The same for one of several probes, in load order from 0.
///
/// # Panics
/// The session has no such probe, or the call fails.
pub async fn probe_number(session: &Session, number: usize, tool: &str, params: Value) -> Value {
    let extension = {
        let extensions = &session.teller().expect("the session is up").extensions;
        let is_probe = |extension: &&Arc<Attached>| extension.library.name() == "probe";
        Arc::clone(extensions.iter().filter(is_probe).nth(number).expect("the session has the probe"))
    };
    let payload = json!({ "toolCallId": "direct", "params": params, "ctx": session.shared.ctx() });
    let target = Call { kind: kinds::TOOL, name: tool, grace: Duration::ZERO };
    let never = CancellationToken::new();
    let answer = within(call_extension(&extension, target, &payload, None, &never)).await;
    let answer: Value = serde_json::from_str(&answer.expect("the probe answers")).expect("an answer is JSON");
    answer["details"].clone()
}

/// A copy of the probe in a file of its own, which is a library of its own: other statics, other sessions.
///
/// # Panics
/// It cannot be copied.
pub fn second_probe() -> PathBuf {
    let file = format!("second-{}", host_abi::library_file_name("probe_ext"));
    let copy = crate::libraries::target_dir().join("deps").join(file);
    // Tests of several processes make it at the same time; a loaded file must not change.
    let own = copy.with_extension(format!("{}.tmp", std::process::id()));
    std::fs::copy(crate::libraries::library("probe_ext"), &own).expect("the probe can be copied");
    std::fs::rename(&own, &copy).expect("the copy can be put in place");
    copy
}

/// A library as the host's own.
pub fn at(path: &Path) -> LibraryAt {
    LibraryAt::At(path.to_owned())
}

/// The tool results of a session, oldest first.
///
/// # Panics
/// The session is gone.
pub async fn results_of(session: &Session) -> Vec<ToolResultMessage> {
    let messages = messages_of(session).await;
    let result = |message| match message {
        Message::ToolResult(result) => Some(result),
        _ => None,
    };
    messages.into_iter().filter_map(result).collect()
}

/// The messages of a session.
///
/// # Panics
/// The session is gone.
pub async fn messages_of(session: &Session) -> Vec<Message> {
    let messages = within(session.messages(None)).await.expect("the session lives");
    messages.into_iter().map(|message| serde_json::from_value(message).expect("a message is one")).collect()
}

/// Runs a prompt of any session to its end.
///
/// # Panics
/// It is refused or does not end.
pub async fn run_in(session: &Session, prompt: &str) {
    let prompted = within(session.prompt(prompt.to_owned(), "extension", None)).await.expect("the prompt is taken");
    within(session.wait_idle(prompted.run)).await.expect("the run ends");
}

/// The end of `work`, which must come.
///
/// # Panics
/// It does not come within [`BOUND`].
pub async fn within<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(BOUND, work).await.expect("the work ends within its bound")
}

/// Waits until `state` holds.
///
/// # Panics
/// It does not come to hold within [`BOUND`].
pub async fn until(what: &str, state: impl Fn() -> bool) {
    let poll = async {
        while !state() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    assert!(tokio::time::timeout(BOUND, poll).await.is_ok(), "never came to hold: {what}");
}
