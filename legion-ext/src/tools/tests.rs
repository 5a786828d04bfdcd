//! The whole way of a call, over the real orchestrator and mailroom and children by script.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex},
};

use host_abi::{
    events::{Event, ToolExecutionEnd},
    info::{AttachSpec, Mode},
    scope::ExtensionScope,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    context::Identity,
    core::caps,
    host::fake::RecordingHost,
    ledger::{LegionDb, artifacts},
    mail::{MailDeps, Postmen},
    orchestrator::{OrchestratorDeps, Shared, report::Progress},
    supervisor::fake::{FakeChild, FakeChildren, Plan},
};

/// A host, a project, and everything a process holds once.
struct World {
    host: RecordingHost,
    fake: FakeChildren,
    shared: Arc<Shared>,
    postmen: Arc<Postmen>,
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let host = RecordingHost::default();
        let world = Self {
            fake: FakeChildren::install(&host),
            host,
            shared: Arc::default(),
            postmen: Arc::new(Postmen::new(crate::context::Spawner::new(tokio::runtime::Handle::current()))),
            dir: tempfile::tempdir().unwrap(),
        };
        std::fs::create_dir_all(world.project().join(".pi")).unwrap();
        world
    }

    fn project(&self) -> PathBuf {
        self.dir.path().join("project")
    }

    fn settings(&self, subagents: &Value) {
        std::fs::write(self.project().join(".pi/settings.json"), json!({ "subagents": subagents }).to_string())
            .unwrap();
    }

    fn desk(&self, agent: &str, identity: Identity) -> Desk {
        let session_file = match &identity {
            Identity::Root => self.dir.path().join(format!("{agent}.jsonl")).display().to_string(),
            Identity::Child(scope) => scope.session_file.clone(),
        };
        let spec = AttachSpec {
            agent_id: agent.to_owned(),
            session_id: format!("session-{agent}"),
            session_file: Some(session_file),
            cwd: self.project().display().to_string(),
            mode: Mode::Print,
            has_ui: false,
            project_trusted: true,
            extension_scope: None,
        };
        let context = Arc::new(SessionContext::new(spec, identity));
        let host = self.host.session(1);
        let orchestrator = Orchestrator::new(OrchestratorDeps {
            host: host.clone(),
            context: Arc::clone(&context),
            shared: Arc::clone(&self.shared),
            agent_dir: self.dir.path().join("agent"),
        });
        let mail = Mailroom::new(MailDeps {
            tree: Arc::clone(&orchestrator) as _,
            host,
            context: Arc::clone(&context),
            postmen: Arc::clone(&self.postmen),
            blocks: notice_blocks,
            budget_text,
        });
        orchestrator.connect(mail.ports());
        Desk { context, orchestrator, mail }
    }

    fn root(&self) -> Desk {
        self.desk("root", Identity::Root)
    }

    fn desk_of(&self, child: &FakeChild) -> Desk {
        let scope = ExtensionScope::parse(child.scope()).unwrap();
        self.desk(&child.spec.agent_id, Identity::Child(Box::new(scope)))
    }

    /// Whether anything was started or written.
    fn untouched(&self) -> bool {
        self.fake.made().is_empty() && !self.project().join(".pi-subagents").exists()
    }
}

fn cx(id: &str) -> CallCx {
    CallCx { tool_call_id: id.to_owned(), cancel: CancellationToken::new(), progress: Arc::new(|_| {}) }
}

async fn ask(desk: &Desk, tool: &str, params: Value) -> ToolResult {
    call(desk, tool, params, cx("call")).await
}

async fn subagent(desk: &Desk, params: Value) -> String {
    ask(desk, schema::SUBAGENT, params).await.joined_text()
}

/// LINE-2, LINE-6, LINE-7, CAP-6, LED-80: launched, waited for, read, and then no longer owed.
#[tokio::test]
async fn a_delegation_from_call_to_result() {
    let world = World::new();
    let desk = world.root();
    let tasks = json!({ "agent": "worker", "tasks": [{ "task": "one", "name": "One" }, { "task": "two" }] });
    let launched = subagent(&desk, tasks).await;
    assert_eq!(
        launched,
        "▶ one (worker) supervisor=inprocess\n▶ worker-0 (worker) supervisor=inprocess\nchildren run in the background; a notice arrives when they finish"
    );
    let status = subagent(&desk, json!({ "action": "status" })).await;
    assert!(
        status.starts_with(
            "Status · 2 live children\n● one (worker) state=working supervisor=inprocess\n  owner: live\n"
        ),
        "{status}"
    );

    world.fake.prompted("one").await.reply("the answer");
    let result = call(&desk, schema::SUBAGENT, json!({ "action": "collect", "name": "one" }), cx("read")).await;
    let text = result.joined_text();
    assert!(text.starts_with("✓ one (worker) success · ") && text.contains("\nthe answer"), "{text}");
    assert_eq!(result.usage.len(), 1);
    let db = desk.orchestrator.ledger().unwrap();
    assert_eq!(db.undelivered("root").unwrap().len(), 1, "owed until the host has taken the result");
    taken(&desk, "read", |read| read == 10).await;
    assert!(db.undelivered("root").unwrap().is_empty());
    let again = ask(&desk, schema::SUBAGENT, json!({ "action": "collect", "name": "one" })).await;
    assert!(again.usage.is_empty(), "CAP-8: once");

    let stopped = subagent(&desk, json!({ "action": "stop", "all": true })).await;
    assert!(stopped.contains("Stopped worker-0"), "{stopped}");
    assert_eq!(subagent(&desk, json!({ "action": "wait" })).await, "no active children");
}

/// The host has taken the result of a call; what it showed is recorded soon after.
async fn taken(desk: &Desk, id: &str, read: impl Fn(u64) -> bool) {
    let end = ToolExecutionEnd { tool_call_id: id.into(), tool_name: "subagent".into(), is_error: false };
    desk.mail.on_event(&Event::ToolExecutionEnd(end));
    let db = desk.orchestrator.ledger().unwrap();
    while !read(read_bytes(&db)) {
        tokio::task::yield_now().await;
    }
}

/// Bytes that the root has read of the only result.
fn read_bytes(db: &LegionDb) -> u64 {
    db.read(|conn| artifacts::consumption(conn, 1, "root")).unwrap().read_bytes
}

/// CAP-3 … CAP-6, LED-76, LED-80, 09-T10, 09-T23: a long result is previewed, paged, rebuilt, and owed until its end.
#[tokio::test]
async fn a_long_result_is_owed_until_it_was_read_to_its_end() {
    for size in [200_000, 3_000_000] {
        let world = World::new();
        let desk = world.root();
        let line = "日本語 and emoji 🦀 in one line that is not very long\n";
        let whole = format!("{}{{ \"ok\": true }}", line.repeat(size / line.len()));
        subagent(&desk, json!({ "task": "x", "agent": "worker", "name": "w" })).await;
        world.fake.prompted("w").await.reply(&whole);

        let collect = |page: Value| {
            let mut params = json!({ "action": "collect", "name": "w" });
            params.as_object_mut().unwrap().extend(page.as_object().unwrap().clone());
            params
        };
        let preview = call(&desk, schema::SUBAGENT, collect(json!({})), cx("preview")).await;
        let text = preview.joined_text();
        assert!(
            text.len() <= caps::RESULT_BYTES && text.contains("bytes omitted") && text.contains("{ \"ok\": true }")
        );
        let result = &preview.details.unwrap()["results"][0];
        let stored = std::fs::read_to_string(result["artifact"]["path"].as_str().unwrap()).unwrap();
        assert!(stored == whole, "the artifact is the text, byte for byte");
        let next = result["text"]["nextOffset"].as_u64().unwrap();
        taken(&desk, "preview", |read| read == next).await;
        let db = desk.orchestrator.ledger().unwrap();
        assert_eq!(db.undelivered("root").unwrap().len(), 1, "a preview settles nothing");

        // A page at the end alone joins on to nothing.
        let tail = whole.len() as u64 - 20_000;
        call(&desk, schema::SUBAGENT, collect(json!({ "offset": tail })), cx("tail")).await;
        taken(&desk, "tail", |read| read == next).await;

        let mut from = next;
        let mut rebuilt = whole[..usize::try_from(next).unwrap()].to_owned();
        while from < whole.len() as u64 {
            assert_eq!(db.undelivered("root").unwrap().len(), 1);
            let id = format!("page-{from}");
            let page = call(&desk, schema::SUBAGENT, collect(json!({ "offset": from })), cx(&id)).await;
            let text = page.joined_text();
            let shown = &page.details.unwrap()["results"][0]["text"];
            let to = from + shown["shown"].as_u64().unwrap();
            let mark = format!("\n{from}-{to} of {} bytes", whole.len());
            let (piece, rest) = text.split_once(&mark).unwrap();
            rebuilt.push_str(piece);
            // A page that ends at a line end shows no empty line for it.
            if whole.as_bytes()[usize::try_from(to).unwrap() - 1] == b'\n' {
                rebuilt.push('\n');
            }
            assert_eq!(rest.is_empty(), to == whole.len() as u64, "{rest}");
            taken(&desk, &id, |read| read == to).await;
            from = to;
        }
        assert!(rebuilt == whole, "paging rebuilds the text");
        assert!(db.undelivered("root").unwrap().is_empty(), "read to the end, so nothing is owed");
        let behind = subagent(&desk, collect(json!({ "offset": from }))).await;
        assert_eq!(behind, format!("end of result ({from} bytes)"));
    }
}

/// CARD-77, ORC-138, 09-T25: the acceptance of a call and of a task, in the block and in `details`.
#[tokio::test]
async fn acceptance_of_a_call_is_shown() {
    let world = World::new();
    world.fake.plan(|spec| {
        Plan::replies(if spec.name == "b" {
            "```json\n{ \"ok\": false }\n```"
        } else {
            "```json\n{ \"ok\": true }\n```"
        })
    });
    let desk = world.root();
    let result = ask(
        &desk,
        schema::SUBAGENT,
        json!({ "agent": "scout", "async": false, "acceptance": { "level": "attested", "criteria": [{ "text": "every file named" }] }, "tasks": [
            { "task": "x", "name": "a" },
            { "task": "y", "name": "b", "acceptance": { "level": "attested" } },
            { "task": "z", "name": "c", "acceptance": { "level": "none" } },
        ] }),
    )
    .await;
    let text = result.joined_text();
    assert!(text.contains("  acceptance: attested accepted\n  pending: every file named\n✓ b "), "{text}");
    assert!(text.contains("  acceptance: attested rejected\n✓ c "), "{text}");
    assert_eq!(text.matches("acceptance:").count(), 2, "{text}");
    let results = &result.details.unwrap()["results"];
    assert_eq!(
        results[0]["acceptance"],
        json!({ "level": "attested", "status": "accepted", "pending": ["every file named"] })
    );
    assert_eq!(results[1]["acceptance"]["status"], json!("rejected"));
    assert!(results[2].get("acceptance").is_none());
}

/// Bad-input rows of 09 and 03: call-level and step-level refusals, and nothing is started by any of them.
#[tokio::test]
async fn bad_calls_start_nothing() {
    let world = World::new();
    let desk = world.root();
    let rows = [
        (json!({ "task": "x" }), "✗ agent is required; available: centurion, scout, worker"),
        (
            json!({ "task": "x", "agent": "ghost" }),
            "✗ ghost: unknown agent 'ghost'; available: centurion, scout, worker",
        ),
        (
            json!({ "task": "x", "agent": "worker", "name": "1st" }),
            "✗ 1st: invalid name '1st' (expected [a-z][a-z0-9_-]{0,31})",
        ),
        (json!({ "task": "x", "agent": "worker", "name": "Root" }), "✗ root: name 'root' is reserved"),
        (json!({ "task": " ", "agent": "worker" }), "✗ task is empty"),
        (json!({ "agent": "worker" }), "✗ launch needs task or tasks"),
        (json!({ "task": "x", "tasks": [{ "task": "y" }] }), "✗ give task or tasks, not both"),
        (json!({ "tasks": [{ "task": "y" }], "name": "a" }), "✗ name applies to a single task; set tasks[].name"),
        (json!({ "taskss": [] }), "✗ unknown parameter 'taskss'; did you mean 'tasks'?"),
        (json!({ "task": "x", "agent": "worker", "force": true }), "✗ force is only valid with action \"stop\""),
        (json!({ "action": "status", "worktree": true }), "✗ worktree is only valid with action \"launch\""),
        (json!({ "task": "x", "agent": "worker", "acceptance": { "level": "gold" } }), "✗ acceptance.level: "),
        (
            json!({ "task": "x", "agent": "centurion", "phases": [] }),
            "✗ parameter 'phases' is not available in this build",
        ),
        (
            json!({ "action": "continue", "name": "a", "message": "m" }),
            "✗ action 'continue' is not available in this build",
        ),
        (json!({ "action": "collect", "name": "ghost" }), "✗ ghost: unknown child 'ghost'"),
        (json!({ "action": "status", "name": "ghost" }), "✗ unknown child 'ghost'"),
        (json!({ "action": "stop", "name": "ghost" }), "✗ ghost: unknown child 'ghost'"),
        (json!({ "action": "collect", "names": ["a", "b"], "offset": 1 }), "✗ offset and limit need exactly one name"),
        (json!({ "action": "wait", "timeoutMs": 0 }), "✗ timeoutMs: expected a whole number of at least 1, got 0"),
    ];
    for (params, want) in rows {
        let result = ask(&desk, schema::SUBAGENT, params.clone()).await;
        let text = result.joined_text();
        assert!(text.starts_with(want), "{params}: {text}");
        assert!(result.is_error, "{params}: {text}");
        assert_eq!(result.details.unwrap()["ok"], json!(false));
        assert!(world.untouched(), "{params}");
    }
    let text = ask(&desk, schema::VEXILLATIO, json!({ "task": "x", "agent": "worker" })).await.joined_text();
    assert_eq!(text, "✗ worker: 'worker' is not a utility agent; vexillatio takes: scout");
    assert_eq!(subagent(&desk, json!({ "action": "stop", "all": true })).await, "No live children");
    assert_eq!(subagent(&desk, json!({ "action": "status" })).await, "No live children");
    assert!(world.untouched());
}

/// SUB-4, ORC-16: one bad step is its own line.
#[tokio::test]
async fn a_bad_step_leaves_the_others() {
    let world = World::new();
    let desk = world.root();
    let tasks = json!({ "tasks": [{ "task": "a", "agent": "ghost" }, { "task": "b", "agent": "worker" }] });
    let result = ask(&desk, schema::SUBAGENT, tasks).await;
    assert!(!result.is_error);
    assert_eq!(
        result.joined_text(),
        "✗ ghost: unknown agent 'ghost'; available: centurion, scout, worker\n▶ worker-0 (worker) supervisor=inprocess\nchildren run in the background; a notice arrives when they finish"
    );
}

/// SURF-5, part of 09-T3
#[tokio::test]
async fn disabled_subagents_refuse_launches_and_go_on_otherwise() {
    let world = World::new();
    let desk = world.root();
    subagent(&desk, json!({ "task": "x", "agent": "worker", "name": "w" })).await;
    world.settings(&json!({ "enabled": false }));
    for tool in [schema::SUBAGENT, schema::VEXILLATIO] {
        let result = ask(&desk, tool, json!({ "task": "x", "agent": "scout" })).await;
        assert_eq!(result.joined_text(), "✗ subagents are off; /legion on enables them for this session");
        assert_eq!(result.details.unwrap()["error"]["code"], json!("DISABLED"));
    }
    assert!(subagent(&desk, json!({ "action": "status" })).await.starts_with("Status · 1 live child\n"));
    let event = BeforeAgentStart { prompt: None, custom: None, system_prompt: String::new() };
    assert!(before_agent_start(&desk, &event).await.sections.is_empty());
    assert_eq!(subagent(&desk, json!({ "action": "stop", "name": "w" })).await, "Stopped w");
    assert_eq!(world.fake.living(), Vec::<String>::new());
}

/// ORC-86, LINE-8, part of 09-T8: the offered calls are taken.
#[tokio::test(start_paused = true)]
async fn a_wait_that_runs_out_offers_calls_that_work() {
    let world = World::new();
    let desk = world.root();
    subagent(&desk, json!({ "task": "x", "agent": "worker", "name": "w" })).await;
    let result = ask(&desk, schema::SUBAGENT, json!({ "action": "wait", "timeoutMs": 5 })).await;
    let text = result.joined_text();
    assert!(text.starts_with("… w (worker) running (collect deadline reached; the child is still running)"), "{text}");
    assert!(!text.contains("renew:") && !result.is_error);
    let decisions = result.details.unwrap()["decisions"].clone();
    let stop = decisions.as_array().unwrap().iter().find(|one| one["decision"] == "stop").unwrap().clone();
    assert_eq!(subagent(&desk, stop["call"].clone()).await, "Stopped w");
}

/// VEX-2, ORC-77, part of 09-T1: scouts report in task order, and have only the tools of a utility child.
#[tokio::test]
async fn vexillatio_brings_reports_in_task_order() {
    let world = World::new();
    world.fake.plan(|spec| Plan::replies(&format!("report of {}", spec.name)));
    let desk = world.root();
    let result =
        ask(&desk, schema::VEXILLATIO, json!({ "tasks": [{ "task": "a" }, { "task": "b", "name": "second" }] })).await;
    let text = result.joined_text();
    let first = text.find("report of scout-0").unwrap();
    assert!(first < text.find("report of second").unwrap(), "{text}");

    let scout = world.desk_of(&world.fake.get("second").unwrap());
    for tool in [schema::SUBAGENT, schema::VEXILLATIO] {
        let refused = ask(&scout, tool, json!({ "task": "x", "agent": "scout" })).await;
        assert!(refused.is_error);
        assert_eq!(refused.joined_text(), format!("✗ this session has no tool '{tool}'"));
    }
    let event = BeforeAgentStart { prompt: None, custom: None, system_prompt: String::new() };
    assert!(before_agent_start(&scout, &event).await.sections.is_empty(), "PLAY-3");
}

/// PLAY-3, part of 09-T20: who may dispatch is told how, in a section of its own.
#[tokio::test]
async fn the_playbook_is_one_section() {
    let world = World::new();
    let desk = world.root();
    let event = BeforeAgentStart { prompt: Some("hi".into()), custom: None, system_prompt: String::new() };
    let answer = before_agent_start(&desk, &event).await;
    let [section] = answer.sections.as_slice() else { panic!("{answer:?}") };
    assert!(Section::valid_id(&section.id));
    assert!(section.text.contains("- worker: ") && section.text.contains("- scout (vexillatio): "), "{}", section.text);

    subagent(&desk, json!({ "task": "x", "agent": "worker", "name": "w" })).await;
    let worker = world.desk_of(&*world.fake.prompted("w").await);
    let answer = before_agent_start(&worker, &event).await;
    let text = &answer.sections[0].text;
    assert!(text.starts_with("# Scouts") && !text.contains("- worker"), "{text}");
}

/// LTL-1 … LTL-3, MAIL-4, MAIL-9: a child mails its parent and sees its own subtree only.
#[tokio::test]
async fn a_child_mails_and_looks_around() {
    let world = World::new();
    let desk = world.root();
    subagent(
        &desk,
        json!({ "agent": "worker", "tasks": [{ "task": "x", "name": "a" }, { "task": "y", "name": "b" }] }),
    )
    .await;
    let child = world.desk_of(&*world.fake.prompted("a").await);

    let tree = ask(&child, schema::LEGION_TREE, json!({})).await;
    assert!(tree.joined_text().starts_with("● a (worker) running"), "{}", tree.joined_text());
    assert_eq!(tree.joined_text().lines().count(), 1);
    let outside = ask(&child, schema::LEGION_TREE, json!({ "node": "b" })).await;
    assert!(outside.is_error);
    assert_eq!(outside.joined_text(), "✗ node 'b' is outside your subtree");

    let mail = |to: &str| json!({ "to": to, "subject": "s", "body": "b", "kind": "question" });
    let sent = ask(&child, schema::LEGION_MAIL, mail("parent")).await;
    assert!(
        sent.joined_text().starts_with("sent #") && sent.joined_text().ends_with(" to root"),
        "{}",
        sent.joined_text()
    );
    assert_eq!(sent.details.unwrap()["sent"][0]["nodeId"], json!("root"));
    let nobody = ask(&child, schema::LEGION_MAIL, mail("children")).await;
    assert_eq!(nobody.joined_text(), "✗ no live recipient for 'children'");
    assert_eq!(nobody.details.unwrap()["error"]["code"], json!("MAIL_NO_RECIPIENT"));
}

/// LINE-10: a blocking call tells how it stands, at most once per second.
#[tokio::test(start_paused = true)]
async fn a_blocking_call_reports_progress() {
    let world = World::new();
    let desk = world.root();
    subagent(&desk, json!({ "task": "x", "agent": "worker", "name": "w" })).await;
    let seen: Arc<Mutex<Vec<Progress>>> = Arc::default();
    let told = Arc::clone(&seen);
    let progress = Arc::new(move |progress| told.lock().unwrap().push(progress));
    let cx = CallCx { progress, ..cx("call") };
    call(&desk, schema::SUBAGENT, json!({ "action": "wait", "timeoutMs": 3500 }), cx).await;
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 3);
    let text = render_progress(&seen[0]).joined_text();
    assert!(
        text.starts_with("● w (worker) working") && text.ends_with("esc stops waiting · children keep running"),
        "{text}"
    );
}

/// ORC-99, LED-80: an interrupted call says so; what it showed does not count as read.
#[tokio::test]
async fn an_interrupted_wait_leaves_the_child() {
    let world = World::new();
    let desk = world.root();
    subagent(&desk, json!({ "task": "x", "agent": "worker", "name": "w" })).await;
    let cx = cx("call");
    let cancel = cx.cancel.clone();
    let (result, ()) = tokio::join!(call(&desk, schema::SUBAGENT, json!({ "action": "wait" }), cx), async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    assert_eq!(result.joined_text(), "interrupted (parent turn ended; children still running)\nstill running: w");
    assert!(!result.is_error);
    assert_eq!(world.fake.living(), ["w"]);
}
