//! Operations of the host (01 §4): one type per operation that carries its input and names its answer.
//!
//! `host.request(scope, &ops::ChildPrompt { … }).await` gives `ops::Prompted`. Operations marked as posts
//! are fire and forget; any request may be posted too when its answer is not wanted.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{gates::CustomMessage, info::HostInfo, scope::ScopeJson};

/// An operation with an answer.
pub trait Request: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The wire name.
    const OP: &'static str;
    /// What the host answers.
    type Answer: Serialize + DeserializeOwned + Send + 'static;
}

/// An operation without an answer.
pub trait Post: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// The wire name.
    const OP: &'static str;
}

macro_rules! operations {
    ($( $kind:ident $op:literal $input:ident $(-> $answer:ty)? ; $doc:literal )+) => {
        $( operations!(@one $kind $op $input $(-> $answer)?); )+

        /// Names of all operations, in the order of the specification.
        pub const ALL: &[&str] = &[$($op),+];

        /// Name, kind (`R` request, `P` post), input type, answer type and meaning of each operation.
        pub const TABLE: &[(&str, char, &str, &str, &str)] = &[
            $( ($op, operations!(@kind $kind), stringify!($input), operations!(@answer $($answer)?), $doc) ),+
        ];
    };
    (@one request $op:literal $input:ident -> $answer:ty) => {
        impl Request for $input { const OP: &'static str = $op; type Answer = $answer; }
    };
    (@one post $op:literal $input:ident) => {
        impl Post for $input { const OP: &'static str = $op; }
    };
    (@kind request) => { 'R' };
    (@kind post) => { 'P' };
    (@answer) => { "" };
    (@answer $answer:ty) => { stringify!($answer) };
}

operations! {
    request "host.info" GetHostInfo -> HostInfo; "facts of the host"
    request "session.info" GetSessionInfo -> SessionInfo; "facts of the scope's session"
    request "session.entries" GetEntries -> Entries; "entries of the session's branch, oldest first"
    request "session.send_message" SendMessage -> Sent; "put a custom message into the session (ABI-56)"
    request "session.send_user_message" SendUserMessage -> Sent; "put a user message into the session"
    request "session.append_entry" AppendEntry -> Done; "append an entry outside the model's context"
    request "session.set_active_tools" SetActiveTools -> Done; "choose the tools that the model sees"
    request "session.abort" AbortSession -> Done; "end the session's run"
    request "session.compact" CompactSession -> Done; "compact the context; ends an active run first"
    request "child.create" ChildSpec -> ChildCreated; "make a child session and attach its extensions"
    request "child.prompt" ChildPrompt -> Prompted; "give a child a text; answers at acceptance (ABI-57)"
    request "child.wait_idle" ChildWaitIdle -> Idle; "wait for a run, or for idleness"
    request "child.steer" ChildSteer -> Prompted; "text before the next model request"
    request "child.follow_up" ChildFollowUp -> Prompted; "text after the run's pending work"
    request "child.abort" ChildAbort -> Done; "end the child's run, drop its queue, answer when idle"
    request "child.dispose" ChildDispose -> Done; "abort, shut down and remove the child (ABI-58)"
    post "child.kill" ChildKill; "abort and dispose without an answer"
    request "child.stats" GetChildStats -> ChildStats; "tokens, cost and activity of a child"
    request "child.messages" GetChildMessages -> ChildMessages; "the child's messages"
    request "child.last_text" GetChildLastText -> LastText; "text of the child's last answer"
    request "models.list" ListModels -> Models; "the model registry"
    request "models.resolve" ResolveModel -> ResolvedModel; "find a model, check credentials, clamp thinking"
    request "extensions.list" ListExtensions -> Extensions; "extensions of the scope's session"
    request "rpc.command" RpcCommand -> ProcessCommand; "how this host starts itself as an RPC child (ABI-43)"
    request "terminal.command" TerminalCommand -> ProcessCommand; "the same for a visible interactive child"
    post "ui.notify" UiNotify; "a short notification"
    post "ui.set_status" UiSetStatus; "a status pill"
    post "ui.set_widget" UiSetWidget; "a widget above or below the editor"
    post "ui.invalidate" UiInvalidate; "draw a component again"
    request "ui.confirm" UiConfirm -> Confirmed; "a yes/no dialog; cancelled is no"
    request "ui.select" UiSelect -> Chosen; "a choice; cancelled is none"
    request "ui.input" UiInput -> Entered; "a text; cancelled is none"
    request "ui.open" UiOpen -> Opened; "a full-size view; answers when it closes"
    request "ui.theme" GetTheme -> Theme; "colours of the screen"
    post "print" Print; "a line for the person at the host (ABI-44)"
    post "events.deltas" SetDeltas; "message_update for this scope on or off"
    post "bus.emit" BusEmit; "an event on the host's bus"
    post "log" Log; "a log record"
}

macro_rules! empty {
    ($($name:ident),+) => { $(
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name {}
    )+ };
}

empty!(Done, GetHostInfo, GetSessionInfo, AbortSession, CompactSession, ListModels, ListExtensions, GetTheme);

/// Where a queued message enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum DeliverAs {
    /// Before the next model request.
    Steer,
    /// After the run's pending work.
    FollowUp,
    /// With the next prompt; never wakes a session.
    NextTurn,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Disposition {
    /// It began a run.
    Started,
    /// It waits in the session's queue.
    Queued,
    /// It was appended; no model request is made for it.
    Appended,
    /// An input handler took it; no run began.
    Handled,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SessionInfo {
    pub session_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_file: Option<String>,
    /// `provider/id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub thinking: String,
    pub idle: bool,
    pub pending_messages: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_usage: Option<ContextUsage>,
    /// Active tools.
    pub tools: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextUsage {
    pub tokens: u64,
    pub context_window: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GetEntries {
    /// An unknown id gives the whole branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Entries {
    pub entries: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendMessage {
    #[serde(flatten)]
    pub message: CustomMessage,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_as: Option<DeliverAs>,
    /// `true` wakes an idle session; `false` starts no model request; absent leaves it to `deliver_as`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trigger_turn: Option<bool>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    pub disposition: Disposition,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SendUserMessage {
    pub content: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_as: Option<DeliverAs>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AppendEntry {
    pub custom_type: String,
    pub data: Value,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetActiveTools {
    pub tools: Vec<String>,
}

/// A model by provider and id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ModelRef {
    pub provider: String,
    pub id: String,
}

/// What `child.create` makes (ABI-40). `extensions` names everything beyond `legion-ext` and `child-guard`,
/// which a host loads by itself (HOST-2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildSpec {
    pub agent_id: String,
    pub name: String,
    pub cwd: String,
    /// The transcript to open or continue (ABI-41); else `session_dir`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_dir: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// Path of the parent's session file, for the header.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session: Option<String>,
    /// Replaces the host's own prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Follows the host's own prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub append_system_prompt: Option<String>,
    /// Allowlist; absent means the host's default tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exclude_tools: Vec<String>,
    /// Absent: the host's own default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelRef>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
    /// Paths, or `builtin:<name>`.
    #[serde(default)]
    pub extensions: Vec<String>,
    #[serde(default)]
    pub skills: Vec<String>,
    #[serde(default)]
    pub context_files: bool,
    #[serde(default)]
    pub host_skills: bool,
    /// Handed to every extension's `attach` in the child, verbatim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extension_scope: Option<ScopeJson>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildCreated {
    /// Names the child in the other `child.*` operations.
    pub child: String,
    pub scope: u64,
    pub session_file: String,
    pub session_id: String,
    /// Tools that the child's model sees.
    pub tools: Vec<String>,
    /// `provider/id`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The effective level.
    pub thinking: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
    /// Load errors of extensions other than the two libraries.
    #[serde(default)]
    pub errors: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChildPrompt {
    pub child: String,
    pub text: String,
    /// How a busy child queues it; `steer` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deliver_as: Option<DeliverAs>,
}

/// Runs of a child are numbered from 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prompted {
    pub disposition: Disposition,
    /// The run that takes the text; absent for a text that was handled or is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildWaitIdle {
    pub child: String,
    /// Absent: until the child is idle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Idle {
    pub aborted: bool,
}

macro_rules! child_text {
    ($($name:ident),+) => { $(
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name {
            pub child: String,
            pub text: String,
        }
    )+ };
}
child_text!(ChildSteer, ChildFollowUp);

macro_rules! child_only {
    ($($name:ident),+) => { $(
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name {
            pub child: String,
        }
    )+ };
}
child_only!(ChildAbort, ChildDispose, ChildKill, GetChildStats, GetChildLastText);

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ChildStats {
    /// Uncached input and cache writes.
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub cache_read: u64,
    pub cost_usd: f64,
    pub idle: bool,
    /// Runs begun so far.
    pub runs: u64,
    /// Milliseconds since the Unix epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_event_at: Option<i64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GetChildMessages {
    pub child: String,
    /// The last so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChildMessages {
    pub messages: Vec<Value>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastText {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Models {
    pub models: Vec<ModelInfo>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelInfo {
    pub provider: String,
    pub id: String,
    pub name: String,
    pub reasoning: bool,
    /// Tokens.
    pub context_window: u64,
    /// US dollars per million tokens.
    #[serde(default)]
    pub cost: ModelCost,
    pub has_credentials: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ModelCost {
    pub input: f64,
    pub output: f64,
    pub cache_read: f64,
    pub cache_write: f64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolveModel {
    /// `provider/id` or a bare id.
    pub model: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResolvedModel {
    pub provider: String,
    pub id: String,
    /// Clamped to what the model can do.
    pub thinking: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extensions {
    pub extensions: Vec<ExtensionEntry>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtensionEntry {
    /// As it was named.
    pub entry: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_name: Option<String>,
}

/// A child that is a process of its own (ABI-43).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProcessSpec {
    /// `extension_scope` of it stays absent: the identity of a process travels in its environment.
    #[serde(flatten)]
    pub child: ChildSpec,
    #[serde(default)]
    pub approve: bool,
    /// Additions; `null` removes a variable.
    #[serde(default)]
    pub env: std::collections::BTreeMap<String, Option<String>>,
    /// Must exist when the process starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt_file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub append_system_prompt_file: Option<String>,
}

macro_rules! process {
    ($($name:ident),+) => { $(
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub ProcessSpec);
    )+ };
}
process!(RpcCommand, TerminalCommand);

/// A program to start; it holds no prompt text and no credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessCommand {
    pub program: String,
    pub args: Vec<String>,
    #[serde(default)]
    pub env: std::collections::BTreeMap<String, Option<String>>,
    pub cwd: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NotifyLevel {
    Info,
    Warning,
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UiNotify {
    pub message: String,
    pub level: NotifyLevel,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UiSetStatus {
    pub key: String,
    /// Absent removes the pill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UiSetWidget {
    pub key: String,
    /// Absent, with `component` absent too, removes the widget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    #[serde(default)]
    pub placement: Placement,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Placement {
    #[default]
    AboveEditor,
    BelowEditor,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UiInvalidate {
    pub id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UiConfirm {
    pub title: String,
    pub message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Confirmed {
    pub confirmed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UiSelect {
    pub title: String,
    pub options: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    #[serde(default)]
    pub value: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UiInput {
    pub title: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placeholder: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub multiline: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entered {
    #[serde(default)]
    pub value: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UiOpen {
    pub component: String,
    #[serde(default)]
    pub options: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Opened {
    #[serde(default)]
    pub result: Value,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Theme {
    /// Colour name to ANSI sequence.
    pub colors: std::collections::BTreeMap<String, String>,
    /// 1, 4, 8 or 24 bits.
    pub color_depth: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    Out,
    Err,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Print {
    pub line: String,
    pub stream: Stream,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetDeltas {
    pub on: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BusEmit {
    pub name: String,
    pub data: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    Trace,
    Debug,
    Info,
    Warn,
    Error,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Log {
    pub level: LogLevel,
    pub target: String,
    pub message: String,
    #[serde(default)]
    pub fields: Value,
}
