//! Whole teams in the native host: the real libraries of legion over a project of its own, a script that plays the
//! children, and a root that a test steers call by call.
//!
//! Nothing here sleeps to be in time: a test waits for states, and every wait ends after [`PATIENCE`].

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use host_abi::{info::Mode, ops::Stream};
use native_host::{
    console::{Console, MemoryConsole},
    env::Env,
    host::{Host, HostBuilder, RunOutcome},
    provider::{
        DeltaSink, ModelInfo, ModelRequest, Provider, ProviderError,
        scripted::{SCRIPTED, ScriptedProvider, script::Script},
    },
    session::{event::SessionEvent, run_state::RetryPolicy},
    session_file::{AssistantMessage, Entry, EntryBody, Message, ToolResultMessage},
};
use serde_json::{Value, json};

use crate::{
    legion::{Ended, Running, World, ended},
    libraries::target_dir,
    native::{Obedient, messages_of, results_of},
};

/// The bound of every wait. Reached only by a test that fails.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// Between two looks at a state.
const LOOK: Duration = Duration::from_millis(5);

/// A trusted project in a home of its own, with room for a hundred children.
#[derive(Debug)]
pub struct Project {
    pub world: World,
    dir: PathBuf,
}

impl Default for Project {
    fn default() -> Self {
        Self::new()
    }
}

impl Project {
    /// # Panics
    /// No directory can be made.
    pub fn new() -> Self {
        Self::at("project")
    }

    /// The same in this directory of its home.
    ///
    /// # Panics
    /// No directory can be made.
    pub fn at(name: &str) -> Self {
        let world = World::new();
        let dir = world.home().canonicalize().expect("the home is there").join(name);
        std::fs::create_dir_all(&dir).expect("the home is new");
        let project = Self { world, dir };
        project.settings(json!({}));
        project
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A path in the project.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes a file of the project.
    ///
    /// # Panics
    /// It cannot be written.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("it is below the project")).expect("the directory can be made");
        std::fs::write(&path, text).expect("the file can be written");
        path
    }

    /// What a file of the project says; empty when there is none.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Sets `subagents` of the project's settings, over limits that no test reaches by accident.
    pub fn settings(&self, subagents: Value) {
        let mut all = json!({
            "defaultModel": "scripted/echo",
            "legion": { "maxChildrenPerNode": 200, "maxActiveNodes": 1000 },
            "inprocess": { "maxChildrenPerNode": 200, "maxActive": 1000 },
        });
        merge(&mut all, subagents);
        self.file(".pi/settings.json", &json!({ "subagents": all }).to_string());
    }

    /// Writes a role card: its fields as YAML, and a prompt.
    pub fn card(&self, name: &str, fields: &str) {
        let text = format!("---\nname: {name}\ndescription: A role of this project.\n{fields}\n---\nYou are {name}.\n");
        self.file(&format!(".pi/agents/{name}.md"), &text);
    }

    /// Where the runs of this project are.
    pub fn runs(&self) -> PathBuf {
        self.path(".pi-subagents/runs")
    }

    /// Whether anything was ever launched here.
    pub fn is_untouched(&self) -> bool {
        !self.path(".pi-subagents").exists()
    }

    /// The one root run of this project.
    ///
    /// # Panics
    /// There is none, or there are several.
    pub fn run_dir(&self) -> PathBuf {
        let runs = std::fs::read_dir(self.runs()).expect("something was launched").flatten();
        let mut roots = runs.map(|entry| entry.path()).filter(|dir| dir.join("legion.db").exists());
        let run = roots.next().expect("there is a root run");
        assert_eq!(roots.next(), None, "there is one root run");
        run
    }

    /// The result of a child's round, as it is stored.
    pub fn artifact(&self, child: &str, round: u32) -> String {
        let path = self.run_dir().join(format!("artifacts/{child}/r{round}.md"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// What a child's session says.
    pub fn transcript(&self, child: &str) -> Vec<Message> {
        transcript(&self.run_dir().join(format!("{child}.jsonl")))
    }

    /// The ledger as the `legion` command tells it: nodes, events and mails. A process of its own reads it, since two
    /// copies of SQLite in one process would undo each other's locks.
    ///
    /// # Panics
    /// The command fails.
    pub fn ledger(&self) -> Ledger {
        let ask = |what: &str| -> Value {
            let mut command = self.world.command([what, "--json"]);
            let told = ended(command.arg(self.run_dir()));
            assert_eq!((told.code, told.err.as_str()), (Some(0), ""), "legion {what}: {}", told.out);
            serde_json::from_str(&told.out).expect("--json is JSON")
        };
        let list = |value: Value| value.as_array().cloned().expect("a list");
        // Events last: whoever sees a state sees what led to it.
        let (mails, nodes) = (list(ask("mail")), list(ask("tree")["tree"].take()));
        Ledger { nodes, mails, events: list(ask("events")) }
    }

    /// `legion run` of this task in this project, by this script, in print mode; trusted, unless `more` says otherwise.
    pub fn command(&self, task: &str, script: &str, more: &[&str]) -> std::process::Command {
        let script = self.script_file(script);
        let mut command = self.world.command(["run", task, "-p", "--script"]);
        command.arg(script).args(more).current_dir(&self.dir);
        if !more.contains(&"--no-approve") {
            command.arg("--approve");
        }
        command
    }

    /// Runs it to its end.
    pub fn run(&self, task: &str, script: &str, more: &[&str]) -> Ended {
        ended(&mut self.command(task, script, more))
    }

    /// Starts it.
    pub fn start(&self, task: &str, script: &str, more: &[&str]) -> Running {
        Running::start(&mut self.command(task, script, more))
    }

    fn script_file(&self, script: &str) -> PathBuf {
        let path = self.world.home().join(format!("script-{}.yaml", fingerprint(script)));
        std::fs::write(&path, script).expect("the script can be written");
        path
    }

    /// A host over this project, whose `scripted` models play `script`.
    ///
    /// # Panics
    /// The script is faulty.
    pub fn host(&self, mode: Mode, script: &str) -> (HostBuilder, Arc<Recorder>, Arc<MemoryConsole>) {
        let (model, console) = (Arc::new(Recorder::new(script)), Arc::new(MemoryConsole::default()));
        // What the command would see, and nothing of the process that runs the tests.
        let command = self.world.command::<&str>([]);
        let vars = command.get_envs().filter_map(|(key, value)| Some((key.to_owned(), value?.to_owned())));
        let env = Env { vars: vars.collect(), cwd: self.dir.clone(), ..Env::default() };
        let builder = Host::builder()
            .env(env)
            .cwd(&self.dir)
            .lib_dir(target_dir())
            .mode(mode)
            .approve(true)
            .session_file(self.world.home().join("root.jsonl"))
            .provider(Arc::clone(&model) as Arc<dyn Provider>)
            .retry(RetryPolicy { max: 1, base_delay_ms: 0, max_delay_ms: 0 })
            .console(Arc::clone(&console) as Arc<dyn Console>);
        (builder, model, console)
    }

    /// A session that stays, as a client of `rpc` has it: the test makes its calls, `script` plays the children.
    pub fn session(&self, script: &str) -> Live {
        self.session_with(script, |builder| builder)
    }

    /// The same with what `change` makes of the builder.
    ///
    /// # Panics
    /// The host does not start, or complains.
    pub fn session_with(&self, script: &str, change: impl FnOnce(HostBuilder) -> HostBuilder) -> Live {
        let (builder, model, console) = self.host(Mode::Rpc, script);
        let root = Arc::new(Obedient::default());
        let builder = builder.provider(Arc::clone(&root) as Arc<dyn Provider>).model("obedient/m");
        let host = change(builder).build().expect("the host starts");
        let complaints = console.lines(Stream::Err);
        assert!(complaints.is_empty(), "the root does without something: {complaints:?}");
        Live { host, root, model, console }
    }

    /// Runs a prompt in print mode inside this process, script and all, to the end of the host.
    ///
    /// # Panics
    /// The host does not start, or the prompt is refused.
    pub async fn print(&self, prompt: &str, script: &str) -> Printed {
        let (builder, model, console) = self.host(Mode::Print, script);
        let host = builder.build().expect("the host starts");
        let outcome = within("the prompt ends", host.run_prompt(prompt)).await.expect("the prompt is taken");
        within("the host ends", host.finish()).await;
        Printed { outcome, model, complaints: console.lines(Stream::Err) }
    }
}

/// What a run in print mode came to.
#[derive(Debug)]
pub struct Printed {
    pub outcome: RunOutcome,
    pub model: Arc<Recorder>,
    pub complaints: Vec<String>,
}

impl Printed {
    /// All that the root's model was told, as its last request had it.
    ///
    /// # Panics
    /// It was never asked.
    pub fn last_request(&self) -> ModelRequest {
        self.model.of("root").pop().expect("the root's model was asked")
    }
}

/// A session whose calls the test makes.
#[derive(Debug)]
pub struct Live {
    pub host: Host,
    /// The root's model: it makes the calls of its prompts.
    pub root: Arc<Obedient>,
    /// The children's.
    pub model: Arc<Recorder>,
    pub console: Arc<MemoryConsole>,
}

/// What a tool answered.
#[derive(Debug, Clone)]
pub struct Reply {
    pub text: String,
    pub details: Value,
    pub is_error: bool,
}

impl Reply {
    fn of(result: &ToolResultMessage) -> Self {
        let details = result.details.clone().unwrap_or_default();
        Self { text: result.text(), details, is_error: result.is_error }
    }

    /// The text of an answer that is no error.
    ///
    /// # Panics
    /// It is one.
    pub fn good(&self) -> &str {
        assert!(!self.is_error, "{}", self.text);
        &self.text
    }

    /// The text of an answer that is an error.
    ///
    /// # Panics
    /// It is none.
    pub fn bad(&self) -> &str {
        assert!(self.is_error, "{}", self.text);
        &self.text
    }

    pub fn lines(&self) -> Vec<&str> {
        self.text.lines().collect()
    }
}

impl Live {
    /// Has the root make one call.
    ///
    /// # Panics
    /// It has no result.
    pub async fn call(&self, tool: &str, arguments: Value) -> Reply {
        self.calls(&[(tool, arguments)]).await.pop().expect("a call has a result")
    }

    /// `subagent` with these arguments.
    pub async fn subagent(&self, arguments: Value) -> Reply {
        self.call("subagent", arguments).await
    }

    /// Has the root make calls in one run, one after the other.
    ///
    /// # Panics
    /// One has no result.
    pub async fn calls(&self, calls: &[(&str, Value)]) -> Vec<Reply> {
        let before = results_of(self.host.root()).await.len();
        self.prompt(calls).await;
        let results = results_of(self.host.root()).await;
        let replies: Vec<Reply> = results[before..].iter().map(Reply::of).collect();
        assert_eq!(replies.len(), calls.len(), "{replies:#?}");
        replies
    }

    /// Runs the calls without looking at what they answer.
    ///
    /// # Panics
    /// The prompt is refused.
    pub async fn prompt(&self, calls: &[(&str, Value)]) -> RunOutcome {
        let steps: Vec<Value> = calls.iter().map(|call| json!({ "calls": [call] })).collect();
        let prompt = Value::from(steps).to_string();
        within("the calls end", self.host.run_prompt(&prompt)).await.expect("the prompt is taken")
    }

    /// Makes a call, and acts while it blocks: once it has told its progress.
    ///
    /// # Panics
    /// The call does not block.
    pub async fn blocking(&self, tool: &str, arguments: Value, act: impl FnOnce()) -> (Reply, RunOutcome) {
        let mut events = self.host.subscribe();
        let scope = self.host.root().scope();
        let acts = async {
            let blocks = async {
                while let Some(event) = events.recv().await {
                    if event.scope == scope && matches!(*event.event, SessionEvent::ToolUpdate { .. }) {
                        return;
                    }
                }
            };
            within("the call blocks", blocks).await;
            act();
        };
        let calls = [(tool, arguments)];
        let (outcome, ()) = tokio::join!(self.prompt(&calls), acts);
        let results = results_of(self.host.root()).await;
        (Reply::of(results.last().expect("the call has a result")), outcome)
    }

    /// Makes a call and ends the run while it blocks.
    ///
    /// # Panics
    /// The call does not block.
    pub async fn interrupted(&self, tool: &str, arguments: Value) -> Reply {
        let (reply, outcome) = self.blocking(tool, arguments, || self.host.root().abort(false)).await;
        assert!(outcome.aborted, "{outcome:?}");
        reply
    }

    /// The root's messages.
    pub async fn messages(&self) -> Vec<Message> {
        messages_of(self.host.root()).await
    }

    /// Texts of the messages of one custom type that the root got.
    pub async fn custom(&self, kind: &str) -> Vec<String> {
        custom(&self.messages().await, kind)
    }

    /// Completion notices so far.
    pub async fn notices(&self) -> Vec<String> {
        self.custom("subagent-notify").await
    }

    /// Waits for the notice or mail that holds this text.
    pub async fn told(&self, text: &str) -> String {
        until(&format!("the root is told '{text}'"), async || {
            let messages = self.messages().await;
            let all = messages.iter().filter_map(custom_text);
            all.map(|(_, told)| told).find(|told| told.contains(text))
        })
        .await
    }

    /// Waits until the root has nothing to do.
    pub async fn idle(&self) {
        within("the root is idle", self.host.root().wait_idle(None)).await.expect("the root lives");
    }

    /// Waits until a child's model was asked for the n-th time, and gives that request.
    pub async fn asked(&self, child: &str, n: usize) -> ModelRequest {
        until(&format!("request {n} of {child}"), async || self.model.of(child).into_iter().nth(n - 1)).await
    }

    /// The normal end.
    pub async fn end(&self) {
        within("the host ends", self.host.finish()).await;
    }
}

/// The scripted provider, with every request kept.
#[derive(Debug)]
pub struct Recorder {
    script: ScriptedProvider,
    requests: Mutex<Vec<ModelRequest>>,
}

impl Recorder {
    /// # Panics
    /// The script is faulty.
    pub fn new(script: &str) -> Self {
        let script = Script::parse("script", script).unwrap_or_else(|error| panic!("{error}"));
        Self { script: ScriptedProvider::new(script), requests: Mutex::default() }
    }

    /// The requests of the session of this name, oldest first.
    ///
    /// # Panics
    /// A request panicked.
    pub fn of(&self, name: &str) -> Vec<ModelRequest> {
        let requests = self.requests.lock().expect("no request panics with this lock");
        requests.iter().filter(|request| request.session.name == name).cloned().collect()
    }
}

#[async_trait::async_trait]
impl Provider for Recorder {
    fn name(&self) -> &str {
        SCRIPTED
    }

    fn models(&self) -> Vec<ModelInfo> {
        self.script.models()
    }

    fn model(&self, id: &str) -> Option<ModelInfo> {
        self.script.model(id)
    }

    async fn stream(&self, request: ModelRequest, sink: DeltaSink<'_>) -> Result<AssistantMessage, ProviderError> {
        self.requests.lock().expect("no request panics with this lock").push(request.clone());
        self.script.stream(request, sink).await
    }
}

/// A run's ledger at one moment.
#[derive(Debug)]
pub struct Ledger {
    /// `{ id, parentId, name, role, state, depth, … }`, the root first.
    pub nodes: Vec<Value>,
    /// `{ id, time, node, type, data }`, oldest first.
    pub events: Vec<Value>,
    /// `{ id, from, to, kind, urgency, state, subject }`, oldest first.
    pub mails: Vec<Value>,
}

impl Ledger {
    /// The state of a node.
    ///
    /// # Panics
    /// There is no such node.
    pub fn state(&self, name: &str) -> &str {
        let node = self.nodes.iter().find(|node| node["name"] == name);
        node.and_then(|node| node["state"].as_str()).unwrap_or_else(|| panic!("no node '{name}' in {:#?}", self.nodes))
    }

    /// Types of the events of a node, given by its name, oldest first.
    pub fn events_of(&self, name: &str) -> Vec<&str> {
        let id = self.nodes.iter().find(|node| node["name"] == name).map(|node| &node["id"]);
        let own = self.events.iter().filter(|event| Some(&event["node"]) == id);
        own.filter_map(|event| event["type"].as_str()).collect()
    }

    /// How many events there are of this type.
    pub fn count(&self, kind: &str) -> usize {
        self.events.iter().filter(|event| event["type"] == kind).count()
    }
}

/// The messages of a session file, in the order of the file.
///
/// # Panics
/// It cannot be read.
pub fn transcript(path: &Path) -> Vec<Message> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let entries = text.lines().skip(1).filter_map(|line| serde_json::from_str::<Entry>(line).ok());
    let message = |entry: Entry| match entry.body {
        EntryBody::Message { message } => Some(message),
        EntryBody::CustomMessage { custom_type, content, .. } => {
            let value = json!({ "role": "custom", "customType": custom_type, "content": content, "display": true });
            serde_json::from_value(value).ok()
        }
        _ => None,
    };
    entries.filter_map(message).collect()
}

/// Texts of the messages of one custom type.
pub fn custom(messages: &[Message], kind: &str) -> Vec<String> {
    let all = messages.iter().filter_map(custom_text);
    all.filter(|(custom, _)| *custom == kind).map(|(_, text)| text).collect()
}

fn custom_text(message: &Message) -> Option<(&str, String)> {
    match message {
        Message::Custom(custom) => Some((custom.custom_type.as_str(), custom.content.text())),
        _ => None,
    }
}

/// The tool results in these messages.
pub fn results(messages: &[Message]) -> Vec<Reply> {
    let reply = |message: &Message| match message {
        Message::ToolResult(result) => Some(Reply::of(result)),
        _ => None,
    };
    messages.iter().filter_map(reply).collect()
}

/// Everything that messages say, one text.
pub fn spoken(messages: &[Message]) -> String {
    let text = |message: &Message| match message {
        Message::User(user) => user.content.text(),
        Message::Assistant(answer) => answer.text(),
        Message::ToolResult(result) => result.text(),
        Message::Custom(custom) => custom.content.text(),
        _ => String::new(),
    };
    messages.iter().map(text).collect::<Vec<_>>().join("\n")
}

/// The end of `work`, which must come.
///
/// # Panics
/// It does not come within [`PATIENCE`].
pub async fn within<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(done) => done,
        Err(_) => panic!("never came: {what}"),
    }
}

/// Looks until there is something to see.
///
/// # Panics
/// There is nothing within [`PATIENCE`].
pub async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looks = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    within(what, looks).await
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

/// A name for a text, so that two scripts of one home do not meet.
fn fingerprint(text: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
