//! The extension behind the real boundary types, driven by a fake host.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

use host_abi::events::{AgentSettled, Event, Turn};
use host_abi::gates::CallInput;
use host_abi::info::{Ctx, Mode};
use host_abi::scope::vars;
use host_abi::sdk::BoxFuture;
use host_abi::sdk::host::{CallTarget, ExtensionHandle, Host, ReplySink};
use serde_json::json;

use super::*;

type Posts = Arc<Mutex<Vec<(u64, String, Value)>>>;

struct FakeHost(Posts);

impl Host for FakeHost {
    fn post(&self, scope: u64, op: &str, json: &str) {
        let payload = serde_json::from_str(json).expect("posts are JSON");
        lock(&self.0).push((scope, op.to_owned(), payload));
    }

    fn request(&self, _: u64, op: &str, _: String) -> BoxFuture<Result<String, AbiError>> {
        panic!("child-guard awaits nothing, and asked for {op}")
    }
}

struct Answer(mpsc::Sender<Result<String, AbiError>>);

impl ReplySink for Answer {
    fn progress(&self, json: &str) {
        panic!("a gate has no progress: {json}")
    }

    fn finish(&self, result: Result<String, AbiError>) {
        self.0.send(result).expect("the test listens")
    }
}

/// A host with the guard in it.
struct Stage {
    guard: ExtensionHandle,
    posts: Posts,
    calls: AtomicU64,
}

impl Stage {
    fn new(env: &[(&str, &str)]) -> Self {
        Self::judged_by(env, on_tool_call)
    }

    fn judged_by(env: &[(&str, &str)], judge: Judge) -> Self {
        let posts = Posts::default();
        let env: HashMap<String, String> = env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let guard = ChildGuard::with(HostHandle::new(FakeHost(Arc::clone(&posts))), Box::new(env), judge);
        Self { guard: ExtensionHandle::embed(guard), posts, calls: AtomicU64::new(0) }
    }

    /// Attaches a session; `scope` is what its `extensionScope` holds beyond the obligatory members.
    fn attach(&self, session: u64, scope: Option<Value>) -> Registrations {
        self.guard.attach(session, &attach_spec(scope)).expect("attaches")
    }

    fn ask(&self, session: u64, tool: &str, input: Value) -> Result<Value, AbiError> {
        let input = CallInput::of(&input, tool == BASH);
        let event = ToolCallEvent {
            tool_call_id: "t".to_owned(),
            tool_name: tool.to_owned(),
            input,
            parent_tool_call_id: None,
        };
        self.ask_json(session, &serde_json::to_value(GateCall { event, ctx: ctx() }).expect("JSON"))
    }

    fn ask_json(&self, session: u64, payload: &Value) -> Result<Value, AbiError> {
        let (send, receive) = mpsc::channel();
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let target = CallTarget { scope: session, call, kind: kinds::GATE, name: gates::TOOL_CALL };
        self.guard.invoke(target, payload, Answer(send));
        receive.recv().expect("answered").map(|json| serde_json::from_str(&json).expect("JSON"))
    }

    fn bash(&self, session: u64, command: &str) -> Value {
        self.ask(session, BASH, json!({ "command": command })).expect("answered")
    }

    /// How many of `n` further calls run.
    fn runs(&self, session: u64, n: u32) -> usize {
        (0..n).filter(|_| self.ask(session, "read", json!({ "path": "x" })).expect("answered") == json!({})).count()
    }

    /// A model response with `calls` parallel calls, taken as a host takes it: refusals that say so end the run when
    /// the batch holds nothing else (ABI-32).
    fn batch(&self, session: u64, calls: usize) -> Batch {
        let answers: Vec<Value> = std::thread::scope(|threads| {
            let asked: Vec<_> = (0..calls).map(|_| threads.spawn(|| self.bash(session, "ls"))).collect();
            asked.into_iter().map(|call| call.join().expect("no panic")).collect()
        });
        let refused = answers.iter().filter(|answer| blocked(answer)).count();
        let ends_the_run = answers.iter().all(|answer| answer["terminate"] == json!(true));
        Batch { ran: calls - refused, refused, ends_the_run }
    }

    fn tell(&self, session: u64, event: &Event) {
        self.guard.notify(session, event);
    }

    fn posted(&self, op: &str) -> Vec<(u64, Value)> {
        lock(&self.posts).iter().filter(|post| post.1 == op).map(|post| (post.0, post.2.clone())).collect()
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Batch {
    ran: usize,
    refused: usize,
    ends_the_run: bool,
}

fn ctx() -> Ctx {
    Ctx {
        cwd: "/srv".to_owned(),
        mode: Mode::Print,
        has_ui: false,
        session_id: "s".to_owned(),
        session_file: None,
        model: None,
        idle: false,
    }
}

fn attach_spec(scope: Option<Value>) -> AttachSpec {
    let extension_scope = scope.map(|more| {
        let mut scope = json!({
            "schema": "legion.scope/1", "name": "w", "role": "worker", "nodeId": "root/w",
            "dbPath": "/srv/.pi-subagents/run/legion.db", "sessionFile": "/w.jsonl", "runDir": "/r", "rootRunDir": "/r",
            "parentPath": ["root"], "depth": 1, "spawnMode": "inprocess",
        });
        scope.as_object_mut().expect("object").extend(more.as_object().expect("object").clone());
        scope
    });
    AttachSpec {
        agent_id: "a".to_owned(),
        session_id: "s".to_owned(),
        session_file: None,
        cwd: "/srv".to_owned(),
        mode: Mode::Print,
        has_ui: false,
        project_trusted: true,
        extension_scope,
    }
}

fn blocked(answer: &Value) -> bool {
    answer["block"] == json!(true)
}

/// 10-T1, GUARD-2, GUARD-11, GUARD-30
#[test]
fn it_registers_its_gate_and_events_and_nothing_else() {
    let stage = Stage::new(&[]);
    let registrations = serde_json::to_value(stage.attach(1, Some(json!({})))).expect("JSON");
    assert_eq!(
        registrations,
        json!({ "events": ["agent_start", "agent_settled", "turn_start"], "gates": ["tool_call"], "inputFor": ["bash"] })
    );
    let info = serde_json::to_value(info()).expect("JSON");
    assert_eq!(info["ops"], json!(["session.send_message", "session.abort", "print", "log"]));
    assert_eq!(info["events"], json!(["agent_start", "agent_settled", "turn_start", "tool_call"]));
}

/// 10-T2, GUARD-12, GUARD-13
#[test]
fn the_acceptance_role_comes_from_the_context_alone() {
    let role = |role: &str| Some(json!({ "acceptanceRole": role }));
    for (scope, env, refused) in [
        (role("read-only"), "writer", true),
        (role("writer"), "read-only", false),
        (Some(json!({})), "read-only", false),
        (None, "read-only", true),
        (None, "writer", false),
    ] {
        let stage = Stage::new(&[("PI_SUBAGENT_ACCEPTANCE_ROLE", env)]);
        stage.attach(1, scope.clone());
        assert_eq!(blocked(&stage.bash(1, "rm x")), refused, "{scope:?} {env}");
    }
}

/// 10-T3, GUARD-12, GUARD-14
#[test]
fn the_budget_comes_from_the_context_as_a_whole() {
    let env = [("PI_SUBAGENT_MAX_TOOL_CALLS", "1")];
    for (scope, runs) in [(Some(json!({})), 10), (None, 1), (Some(json!({ "budget": { "maxTurns": 50 } })), 10)] {
        let stage = Stage::new(&env);
        stage.attach(1, scope.clone());
        stage.tell(1, &Event::AgentStart);
        stage.tell(1, &Event::TurnStart(Turn { turn: 0 }));
        assert_eq!(stage.runs(1, 10), runs, "{scope:?}");
    }
}

/// 10-T4, GUARD-17
#[test]
fn children_in_one_process_keep_their_own_counters_and_roles() {
    let stage = Stage::new(&[]);
    stage.attach(1, Some(json!({ "acceptanceRole": "read-only", "budget": { "maxToolCalls": 3 } })));
    stage.attach(2, Some(json!({ "acceptanceRole": "writer", "budget": { "maxToolCalls": 5, "toolSoft": 4 } })));
    for session in [1, 2] {
        stage.tell(session, &Event::AgentStart);
    }
    let mut run = [0, 0];
    for n in 0..12 {
        let session = 1 + n % 2;
        let answer = stage.bash(session, if n < 2 { "touch x" } else { "ls" });
        run[session as usize - 1] += usize::from(!blocked(&answer));
    }
    assert_eq!(run, [2, 5], "the first child's refused `touch` is one of its three calls");
    let nudged: Vec<u64> = stage.posted(SendMessage::OP).into_iter().map(|(session, _)| session).collect();
    assert_eq!(nudged, [2]);
    stage.guard.detach(1);
    assert_eq!(stage.ask(1, "read", json!({})).expect_err("gone").code, codes::SCOPE_GONE);
    assert!(blocked(&stage.bash(2, "ls")), "the other one is still there");
}

/// GUARD-4, GUARD-6, GUARD-11, part of 10-T5: what is never named in the code is never opened.
#[test]
fn all_works_without_a_session_start_and_without_a_file() {
    let signal = "/nowhere/signal";
    let answers = |env: &[(&str, &str)]| {
        let stage = Stage::new(env);
        stage.attach(1, Some(json!({ "budget": { "maxToolCalls": 4, "toolSoft": 3, "toolTimeoutMs": 1500 } })));
        stage.tell(1, &Event::AgentStart);
        let answers = ["cat legion.db", "rm -rf .pi-subagents", "ls", "ls", "ls"].map(|command| stage.bash(1, command));
        stage.tell(1, &Event::AgentSettled(AgentSettled { aborted: false }));
        (answers, std::mem::take(&mut *lock(&stage.posts)))
    };
    let (with, posts) = answers(&[(vars::SIGNAL_FILE, signal)]);
    assert!(blocked(&with[0]) && blocked(&with[1]));
    assert_eq!(with[3], json!({ "input": { "command": "ls", "timeout": 1.5 } }));
    assert_eq!(with[4]["terminate"], json!(true));
    assert_eq!(posts.len(), 1);
    assert_eq!(answers(&[]), (with, posts), "the variable changes nothing");
    assert!(!Path::new(signal).exists());

    let sources = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
    assert!(sources.len() > 10, "the sources are found");
    for (path, text) in sources {
        for word in [
            "std::fs",
            "File::",
            "OpenOptions",
            "std::net",
            "std::process",
            "std::thread",
            "std::time",
            "SIGNAL_FILE",
            "unsafe",
        ] {
            assert!(!text.contains(word), "{} names {word}", path.display());
        }
    }
}

/// The code below `folder`, without its tests.
fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.file_name().is_some_and(|name| name != "tests.rs") {
            let text = std::fs::read_to_string(&path).expect("readable");
            found.push((path, text));
        }
    }
    found
}

/// 10-T6, GUARD-16
#[test]
fn a_session_that_is_no_child_is_left_alone() {
    let stage = Stage::new(&[("PI_LEGION_SIGNAL_FILE", "/nowhere/signal"), ("PATH", "/bin")]);
    assert_eq!(stage.attach(1, None), Registrations::default());
    stage.tell(1, &Event::AgentStart);
    for command in ["rm legion.db", "echo 'a"] {
        assert_eq!(stage.bash(1, command), json!({}));
    }
    assert_eq!(stage.runs(1, 100), 100);
    assert!(lock(&stage.posts).is_empty());
}

/// GUARD-29
#[test]
fn a_malformed_variable_is_told_on_the_screen_and_in_the_log() {
    let stage = Stage::new(&[("PI_SUBAGENT_MAX_TURNS", "abc"), ("PI_SUBAGENT_MAX_TOOL_CALLS", "2")]);
    stage.attach(4, None);
    let line = "child-guard: PI_SUBAGENT_MAX_TURNS='abc' is not a positive integer; ignored";
    assert_eq!(stage.posted(Print::OP), [(4, json!({ "line": line, "stream": "err" }))]);
    let logged = stage.posted(Log::OP);
    assert_eq!((logged.len(), &logged[0].1["message"], &logged[0].1["level"]), (1, &json!(line), &json!("warn")));
    stage.tell(4, &Event::AgentStart);
    assert_eq!(stage.runs(4, 5), 2);
}

/// GUARD-41, GUARD-51, GUARD-99
#[test]
fn warnings_are_steering_messages_that_wake_nobody() {
    let stage = Stage::new(&[]);
    let budget = json!({ "maxToolCalls": 3, "toolSoft": 2, "maxTurns": 3, "turnSoft": 2 });
    stage.attach(1, Some(json!({ "budget": budget })));
    for round in 1..=2 {
        stage.tell(1, &Event::AgentStart);
        for turn in 0..2 {
            stage.tell(1, &Event::TurnStart(Turn { turn }));
        }
        assert_eq!(stage.runs(1, 5), 3);
        stage.tell(1, &Event::AgentSettled(AgentSettled { aborted: false }));
        assert_eq!(stage.posted(SendMessage::OP).len(), 2 * round);
    }
    let messages: Vec<Value> = stage.posted(SendMessage::OP).into_iter().map(|(_, message)| message).collect();
    let turn = "[child-guard] turn 2 of 3 in this round. Finish and report; tool calls are refused from turn 3 on.";
    assert_eq!(
        messages[0],
        json!({ "customType": "legion-guard", "content": turn, "display": true, "deliverAs": "steer" })
    );
    assert!(messages[1]["content"].as_str().is_some_and(|text| text.starts_with("[child-guard] 2 of 3 tool calls")));
}

/// GUARD-36, GUARD-42, GUARD-43, 10-T9
#[test]
fn exactly_the_budget_runs_of_parallel_calls_and_one_more_turn_follows() {
    for _ in 0..20 {
        let stage = Stage::new(&[]);
        stage.attach(1, Some(json!({ "budget": { "maxToolCalls": 5, "toolSoft": 4 } })));
        stage.tell(1, &Event::AgentStart);
        stage.tell(1, &Event::TurnStart(Turn { turn: 0 }));
        assert_eq!(stage.batch(1, 8), Batch { ran: 5, refused: 3, ends_the_run: false });
        assert_eq!(stage.posted(SendMessage::OP).len(), 1);
        stage.tell(1, &Event::TurnStart(Turn { turn: 1 }));
        assert_eq!(stage.batch(1, 2), Batch { ran: 0, refused: 2, ends_the_run: true });
    }
}

/// GUARD-33, 10-T13
#[test]
fn nested_calls_and_refused_commands_count() {
    let stage = Stage::new(&[]);
    stage.attach(1, Some(json!({ "acceptanceRole": "read-only", "budget": { "maxToolCalls": 4 } })));
    stage.tell(1, &Event::AgentStart);
    let nested = |command: &str| {
        let event = json!({
            "toolCallId": "t2", "toolName": "bash", "parentToolCallId": "t1", "input": { "command": command },
        });
        stage.ask_json(1, &json!({ "event": event, "ctx": ctx() })).expect("answered")
    };
    assert_eq!(stage.ask(1, "codemode", json!({ "script": "rm" })).expect("answered"), json!({}));
    assert_eq!(nested("ls"), json!({}));
    assert!(blocked(&nested("rm x")), "a nested call is judged");
    assert!(blocked(&stage.bash(1, "rm x")));
    for answer in [stage.bash(1, "ls"), nested("ls")] {
        assert_eq!(answer["terminate"], json!(true), "four calls are spent: {answer}");
    }
}

/// 10-T14, GUARD-60, GUARD-61
#[test]
fn no_child_touches_the_ledger_by_bash() {
    for role in ["writer", "read-only"] {
        let stage = Stage::new(&[]);
        stage.attach(1, Some(json!({ "acceptanceRole": role })));
        for command in [
            "sqlite3 legion.db",
            "cat \"legion\"'.db'",
            "cp $PI_LEGION_DB x",
            "ls *.db; cat LEGION.DB-WAL",
            "python3 -c \"open('/srv/x/legion.db')\"",
        ] {
            let answer = stage.bash(1, command);
            let reason = answer["reason"].as_str().expect("a reason");
            assert!(blocked(&answer) && reason.starts_with("bash may not read or write legion.db."), "{answer}");
            assert!(answer.get("terminate").is_none());
        }
        for path in ["/srv/.pi-subagents/run", ".pi-subagents"] {
            let answer = stage.bash(1, &format!("rm -rf {path}"));
            assert_eq!(
                answer,
                json!({ "block": true, "reason": format!("bash may not remove or move '{path}': it holds this run's legion.db.") })
            );
        }
        let free = stage.bash(1, "rm -rf /srv/.pi-subagents/run/worktrees/c1/target");
        assert_eq!(blocked(&free), role == "read-only", "{free}");
        assert!(free["reason"].as_str().is_none_or(|reason| reason.starts_with("read-only role")), "{free}");
    }
}

/// GUARD-61: relative to where the call runs, not to where the session began.
#[test]
fn relative_paths_belong_to_the_working_directory_of_the_call() {
    let stage = Stage::new(&[]);
    stage.attach(1, Some(json!({})));
    let ask = |cwd: &str| {
        let event = json!({ "toolCallId": "t", "toolName": "bash", "input": { "command": "rm -rf run" } });
        let ctx = serde_json::to_value(Ctx { cwd: cwd.to_owned(), ..ctx() }).expect("JSON");
        stage.ask_json(1, &json!({ "event": event, "ctx": ctx })).expect("answered")
    };
    assert!(blocked(&ask("/srv/.pi-subagents")));
    assert!(!blocked(&ask("/srv")));
    assert!(!blocked(&ask("")), "an empty one falls back to the session's");
}

/// GUARD-85, GUARD-86, GUARD-87, GUARD-88, part of 10-T18
#[test]
fn the_timeout_of_bash_is_bounded_and_the_rest_of_its_input_kept() {
    let limited = Stage::new(&[]);
    limited.attach(1, Some(json!({ "budget": { "toolTimeoutMs": 90_000 } })));
    let free = Stage::new(&[]);
    free.attach(1, Some(json!({})));
    let input = |timeout: Value| json!({ "command": "ls", "timeout": timeout, "note": { "a": [1] } });
    for (own, becomes) in [
        (json!(30), None),
        (json!(90), None),
        (json!(90.5), Some(json!(90))),
        (json!(600), Some(json!(90))),
        (json!(null), Some(json!(90))),
        (json!(0), None),
        (json!(-5), None),
        (json!("600"), None),
        (json!([1]), None),
    ] {
        let answer = limited.ask(1, BASH, input(own.clone())).expect("answered");
        assert_eq!(answer, becomes.map_or(json!({}), |limit| json!({ "input": input(limit) })), "{own}");
        assert_eq!(free.ask(1, BASH, input(own)).expect("answered"), json!({}));
    }
    assert_eq!(limited.bash(1, "ls"), json!({ "input": { "command": "ls", "timeout": 90 } }));
    assert_eq!(limited.ask(1, "read", json!({ "path": "x", "timeout": 600 })).expect("answered"), json!({}));

    // A call that timed out is an error result of the host, of which the guard learns nothing: later calls run.
    limited.tell(1, &Event::AgentStart);
    for turn in 0..3 {
        limited.tell(1, &Event::TurnStart(Turn { turn }));
        assert_eq!(limited.batch(1, 2), Batch { ran: 2, refused: 0, ends_the_run: false });
    }
}

/// GUARD-15, SUP-30
#[test]
fn a_scope_that_cannot_be_read_fails_the_attach() {
    let stage = Stage::new(&[]);
    let mut spec = attach_spec(Some(json!({ "schema": "legion.scope/9" })));
    let error = stage.guard.attach(1, &spec).expect_err("refused");
    assert_eq!(error.code, codes::BAD_PAYLOAD);
    assert_eq!(
        error.message,
        "child-guard: extensionScope has schema 'legion.scope/9'; this build reads 'legion.scope/1'"
    );
    spec.extension_scope = Some(json!("nonsense"));
    assert!(stage.guard.attach(2, &spec).is_err());
}

/// GUARD-35, GUARD-98
#[test]
fn a_call_that_cannot_be_read_is_refused() {
    let stage = Stage::new(&[]);
    stage.attach(1, Some(json!({})));
    let ctx = serde_json::to_value(ctx()).expect("JSON");
    for (event, detail) in [
        (json!({ "toolCallId": "t", "toolName": "bash", "input": {} }), "the bash call came without a command"),
        (
            json!({ "toolCallId": "t", "toolName": "bash", "input": { "command": 3 } }),
            "the bash call came without a command",
        ),
        (json!({ "toolCallId": "t", "toolName": "bash", "inputText": "{" }), "the bash call came without a command"),
        (json!({ "toolName": "bash" }), "gate 'tool_call': "),
    ] {
        let answer = stage.ask_json(1, &json!({ "event": event, "ctx": ctx })).expect("answered");
        let reason = answer["reason"].as_str().expect("a reason");
        assert!(blocked(&answer) && reason.starts_with(&format!("child-guard failed: {detail}")), "{answer}");
    }
    assert_eq!(stage.bash(1, "ls"), json!({}), "the session lives on");
}

/// 10-T20, GUARD-35
#[test]
fn a_panic_refuses_the_call_and_the_session_lives_on() {
    fn panics_on_grep(state: &mut GuardState, id: &GuardIdentity, call: &ToolCall<'_>) -> GuardDecision {
        assert_ne!(call.tool, "grep", "no grep today");
        on_tool_call(state, id, call)
    }
    let stage = Stage::judged_by(&[], panics_on_grep);
    stage.attach(1, Some(json!({ "budget": { "maxToolCalls": 2 } })));
    stage.tell(1, &Event::AgentStart);
    let answer = stage.ask(1, "grep", json!({ "pattern": "x" })).expect("an answer, no error");
    let reason = answer["reason"].as_str().expect("a reason");
    assert!(blocked(&answer) && answer.get("terminate").is_none(), "{answer}");
    assert!(reason.starts_with("child-guard failed: ") && reason.contains("no grep today"), "{reason}");
    assert_eq!(stage.posted(Log::OP).len(), 1);
    stage.tell(1, &Event::TurnStart(Turn { turn: 0 }));
    assert_eq!(stage.runs(1, 5), 2, "its budget still counts");
}

#[test]
fn other_kinds_of_calls_are_unknown() {
    let stage = Stage::new(&[]);
    stage.attach(1, Some(json!({})));
    let (send, receive) = mpsc::channel();
    let target = CallTarget { scope: 1, call: 7, kind: kinds::TOOL, name: "bash" };
    stage.guard.invoke(target, &json!({}), Answer(send));
    assert_eq!(receive.recv().expect("answered").expect_err("unknown").code, codes::UNKNOWN_OP);
    let error = stage.guard.query::<_, Value>(1, "render.message", &json!({})).expect_err("unknown");
    assert_eq!(error.code, codes::UNKNOWN_OP);
    stage.guard.cancel(7);
}
