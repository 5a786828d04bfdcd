//! Mail and notices over a real ledger, a fake tree and the recording host.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use host_abi::{
    AbiError,
    events::{AgentSettled, Event, ToolExecutionEnd},
    gates::{AgentBeforeSettle, RunOutcome},
    info::{AttachSpec, Mode},
    ops::{Disposition as Sent, SendMessage, Sent as SentAnswer},
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{
    text::{Draft, To},
    tree::{Active, LiveChild, Tree},
    *,
};
use crate::{
    context,
    core::{
        budget::TreeLimits,
        mail::{Delivery, MailKind},
        outcome::ExecutionStatus,
    },
    host::fake::RecordingHost,
    ledger::{
        LegionDb, OpenMode,
        artifacts::{self, ArtifactRow, NewArtifact},
        launch::{self, NewNode, Reserve, Started},
        legion_db_path, messages, open_legion_db, settle,
    },
    orchestrator::report::{Settled, Snapshot, Usage},
    settings::Settings,
    supervisor::Disposition,
};

#[derive(Default)]
struct FakeState {
    children: Vec<LiveChild>,
    active: Vec<Active>,
    delivered: Vec<(String, String)>,
    answers: Vec<Result<Disposition>>,
}

struct FakeTree {
    node: String,
    db: LegionDb,
    file: Option<PathBuf>,
    state: Mutex<FakeState>,
}

#[async_trait::async_trait]
impl Tree for FakeTree {
    fn node_id(&self) -> String {
        self.node.clone()
    }
    fn ledger(&self) -> Option<LegionDb> {
        Some(self.db.clone())
    }
    fn settings(&self) -> Arc<Settings> {
        Arc::default()
    }
    fn session_file(&self) -> Option<PathBuf> {
        self.file.clone()
    }
    fn live_children(&self) -> Vec<LiveChild> {
        self.state.lock().expect("tests").children.clone()
    }
    fn held_nodes(&self) -> Vec<String> {
        self.state.lock().expect("tests").children.iter().map(|child| child.node_id.clone()).collect()
    }
    async fn deliver(&self, name: &str, text: &str) -> Result<Disposition> {
        let mut state = self.state.lock().expect("tests");
        if let Some(Err(error)) = state.answers.first().cloned() {
            drop(state.answers.remove(0));
            return Err(error);
        }
        state.delivered.push((name.to_owned(), text.to_owned()));
        if state.answers.is_empty() { Ok(Disposition::Queued) } else { state.answers.remove(0) }
    }
    fn recorded(&self, artifact: &ArtifactRow) -> Option<Settled> {
        let busy = self.state.lock().expect("tests").active.iter().any(|child| child.name == artifact.name);
        (!busy).then(|| Settled {
            name: artifact.name.clone(),
            agent: "scout".into(),
            node_id: artifact.node_id.clone(),
            status: ExecutionStatus::Success,
            reason: None,
            round: artifact.round,
            duration_ms: None,
            usage: Usage::default(),
            model: None,
            text: format!("result of {}", artifact.name),
            artifact: None,
            unsaved: None,
            acceptance: None,
            verdict: None,
            warnings: vec![],
            first_delivery: true,
        })
    }
    fn active(&self) -> Vec<Active> {
        self.state.lock().expect("tests").active.clone()
    }
    fn snapshot(&self, name: &str) -> Option<Snapshot> {
        Some(Snapshot {
            name: name.to_owned(),
            agent: "scout".into(),
            node_id: format!("root/{name}"),
            reason: "deadline".into(),
            turn: None,
            tool: None,
            quiet_ms: None,
            extend_ms: 1,
            decisions: vec![],
        })
    }
}

/// A root with children in a real ledger.
struct World {
    _dir: tempfile::TempDir,
    root_dir: PathBuf,
    db: LegionDb,
    host: RecordingHost,
    postmen: Arc<Postmen>,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let root_dir = dir.path().to_owned();
        let db = open_legion_db(&legion_db_path(&root_dir), OpenMode::RootCreate).expect("opens");
        db.write(|tx| settle::open_root(tx, "r-00000000", None, 1)).expect("writes");
        let host = RecordingHost::default();
        host.answer::<SendMessage>(|_, _| Ok(SentAnswer { disposition: Sent::Started }));
        let postmen = Arc::new(Postmen::new(context::Spawner::new(tokio::runtime::Handle::current())));
        Self { _dir: dir, root_dir, db, host, postmen }
    }

    fn transcript(&self, name: &str) -> PathBuf {
        self.root_dir.join(format!("{name}.jsonl"))
    }

    /// A running child of root.
    fn child(&self, name: &str) -> LiveChild {
        let file = self.transcript(name);
        write_entry(&file, &json!({ "type": "session", "version": 3, "id": "s", "timestamp": "", "cwd": "/" }));
        let new = NewNode {
            parent_id: "root",
            name,
            role: "scout",
            run_id: "r-00000000",
            session_file: &file,
            team: None,
            phase: None,
            task: "look",
        };
        let limits = TreeLimits { max_children_per_node: 20, ..TreeLimits::default() };
        let node_id = self
            .db
            .write(|tx| {
                let Reserve::Reserved(reserved) = launch::reserve(tx, &new, &limits, 1)? else {
                    panic!("the reservation is refused")
                };
                let started = Started {
                    resumed: None,
                    session_file: &file,
                    worktree_path: None,
                    model: None,
                    team: None,
                    supervisor: "inprocess",
                };
                launch::mark_running(tx, &reserved.node_id, &started, 1)?;
                Ok(reserved.node_id)
            })
            .expect("writes");
        LiveChild { name: name.to_owned(), node_id, session_file: file, has_live_children: false }
    }

    fn room(&self, node: &str, mode: Mode) -> (Arc<Mailroom>, Arc<FakeTree>) {
        let tree = Arc::new(FakeTree {
            node: node.to_owned(),
            db: self.db.clone(),
            file: (node == "root").then(|| self.transcript("root")),
            state: Mutex::default(),
        });
        let spec = AttachSpec {
            agent_id: node.to_owned(),
            session_id: "s".into(),
            session_file: None,
            cwd: "/".into(),
            mode,
            has_ui: false,
            project_trusted: true,
            extension_scope: None,
        };
        let identity =
            if node == "root" { Identity::Root } else { Identity::Child(Box::new(child_scope(node, &self.db))) };
        let room = Mailroom::new(MailDeps {
            tree: Arc::clone(&tree) as Arc<dyn Tree>,
            host: self.host.session(1),
            context: Arc::new(SessionContext::new(spec, identity)),
            postmen: Arc::clone(&self.postmen),
            blocks: |rounds| {
                (rounds.iter().map(|round| round.text.clone()).collect::<Vec<_>>().join("\n"), vec![Value::Null])
            },
            budget_text: |children| format!("{} still running", children.len()),
        });
        (room, tree)
    }

    fn states(&self, to: &str) -> Vec<(i64, Delivery)> {
        let newest = self.db.read(|conn| messages::newest(conn, 1000)).expect("reads");
        newest.messages.into_iter().filter(|m| m.to_node == to).map(|m| (m.id, m.delivered)).collect()
    }

    /// A recorded round of a child, owed to root.
    fn result(&self, child: &LiveChild, round: u32) -> i64 {
        let artifact = NewArtifact {
            node_id: &child.node_id,
            parent_id: "root",
            name: &child.name,
            round,
            path: "/r.md",
            bytes: 10,
        };
        self.db.write(|tx| artifacts::register(tx, &artifact, 1)).expect("writes")
    }
}

fn child_scope(node: &str, db: &LegionDb) -> host_abi::scope::ExtensionScope {
    host_abi::scope::ExtensionScope {
        schema: host_abi::scope::SCOPE_SCHEMA.into(),
        name: node.rsplit('/').next().unwrap_or_default().into(),
        role: "scout".into(),
        node_id: node.into(),
        db_path: db.path().display().to_string(),
        session_file: String::new(),
        run_dir: String::new(),
        root_run_dir: String::new(),
        parent_path: vec!["root".into()],
        depth: 1,
        spawn_mode: "inprocess".into(),
        team: None,
        acceptance_role: None,
        utility: false,
        budget: None,
        phases: None,
    }
}

fn write_entry(path: &Path, entry: &Value) {
    let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).expect("opens");
    writeln!(file, "{entry}").expect("writes");
}

fn user_text(path: &Path, id: &str, text: &str) {
    let message = json!({ "role": "user", "content": [{ "type": "text", "text": text }] });
    write_entry(path, &json!({ "type": "message", "id": id, "parentId": null, "timestamp": "", "message": message }));
}

fn draft(to: To, subject: &str) -> Draft {
    Draft::new(to, subject, "body", MailKind::Report, None).expect("a legal mail")
}

/// MAIL-3, MAIL-4, part of 08-T1
#[tokio::test]
async fn words_mean_live_nodes_only() {
    let world = World::new();
    let a = world.child("a");
    let _b = world.child("b");
    let c = world.child("c");
    world.db.write(|tx| settle::retire(tx, &c.node_id, "retire", 0, 5)).expect("writes");
    let (room, _) = world.room(&a.node_id, Mode::Print);
    let sent = room.send(draft(To::Parent, "s")).await.expect("sent");
    assert_eq!(sent.sent.iter().map(|s| s.node_id.as_str()).collect::<Vec<_>>(), ["root"]);
    let sent = room.send(draft(To::Squad, "s")).await.expect("sent");
    assert_eq!(sent.sent.iter().map(|s| s.to.as_str()).collect::<Vec<_>>(), ["b"], "the ended one is left out");
    let refused = room.send(draft(To::Children, "s")).await.expect_err("no children");
    assert_eq!((refused.code, refused.message.as_str()), (Code::MailNoRecipient, "no live recipient for 'children'"));
}

/// MAIL-7, part of 08-T3
#[tokio::test]
async fn the_eleventh_mail_in_five_minutes_is_refused_and_writes_nothing() {
    let world = World::new();
    let a = world.child("a");
    let b = world.child("b");
    let (room, _) = world.room(&a.node_id, Mode::Print);
    for _ in 0..10 {
        room.send(draft(To::Parent, "s")).await.expect("within the rate");
    }
    let refused = room.send(draft(To::Parent, "s")).await.expect_err("over the rate");
    assert_eq!(refused.code, Code::MailRateLimited);
    assert!(refused.message.starts_with("mail rate limit reached (10/10 in 5 minutes); retry in "), "{refused}");
    assert_eq!(world.states("root").len(), 10);
    let (other, _) = world.room(&b.node_id, Mode::Print);
    other.send(draft(To::Parent, "s")).await.expect("another sender is unaffected");
}

/// MAIL-18, MAIL-20, MAIL-22, part of 08-T7, part of 08-T8
#[tokio::test]
async fn a_mail_is_handed_over_once_in_order_and_confirmed_from_the_transcript() {
    let world = World::new();
    let (a, b) = (world.child("a"), world.child("b"));
    let (sender, _) = world.room(&a.node_id, Mode::Print);
    sender.send(draft(To::Squad, "one")).await.expect("sent");
    sender.send(draft(To::Squad, "two")).await.expect("sent");
    let (root, tree) = world.room("root", Mode::Print);
    {
        let mut state = tree.state.lock().expect("tests");
        state.children = vec![a.clone(), b.clone()];
        state.answers = vec![Err(SubagentError::internal("busy"))];
    }
    let postman = world.postmen.of(&world.db);
    let members = vec![Arc::clone(&root)];
    postman.tick(&members, false, clock::now_ms()).await;
    assert_eq!(world.states(&b.node_id), [(1, Delivery::Pending), (2, Delivery::Pending)], "order is kept on failure");
    postman.tick(&members, false, clock::now_ms()).await;
    postman.tick(&members, false, clock::now_ms()).await;
    let delivered = tree.state.lock().expect("tests").delivered.clone();
    assert_eq!(delivered.len(), 2, "each once");
    assert!(delivered[0].1.starts_with("[legion mail #1] report from a (scout) · info\nSubject: one\n\nbody"));
    assert_eq!(world.states(&b.node_id), [(1, Delivery::Accepted), (2, Delivery::Accepted)]);
    user_text(&b.session_file, "e1", &delivered[0].1);
    postman.tick(&members, true, clock::now_ms()).await;
    assert_eq!(world.states(&b.node_id), [(1, Delivery::Delivered), (2, Delivery::Accepted)]);
}

/// MAIL-11, MAIL-23, MAIL-24
#[tokio::test]
async fn mail_to_a_child_that_ended_bounces_after_one_last_look() {
    let world = World::new();
    let (a, b) = (world.child("a"), world.child("b"));
    let (sender, _) = world.room(&a.node_id, Mode::Print);
    sender.send(draft(To::Squad, "accepted")).await.expect("sent");
    let (root, tree) = world.room("root", Mode::Print);
    tree.state.lock().expect("tests").children = vec![a, b.clone()];
    let postman = world.postmen.of(&world.db);
    let members = vec![Arc::clone(&root)];
    postman.tick(&members, false, clock::now_ms()).await;
    sender.send(draft(To::Squad, "pending")).await.expect("sent");
    world.db.write(|tx| settle::retire(tx, &b.node_id, "retire", 0, 5)).expect("writes");
    tree.state.lock().expect("tests").children.clear();
    postman.tick(&members, true, clock::now_ms()).await;
    assert_eq!(world.states(&b.node_id), [(1, Delivery::Bounced), (2, Delivery::Bounced)]);
}

/// MAIL-20
#[tokio::test]
async fn mail_to_root_wakes_it_only_when_it_is_urgent() {
    let world = World::new();
    let a = world.child("a");
    let (sender, _) = world.room(&a.node_id, Mode::Print);
    sender.send(draft(To::Parent, "report")).await.expect("sent");
    let question = Draft::new(To::Parent, "q", "which?", MailKind::Question, None).expect("legal");
    sender.send(question).await.expect("sent");
    let (root, _) = world.room("root", Mode::Print);
    world.postmen.of(&world.db).tick(&[root], false, clock::now_ms()).await;
    let sent = world.host.calls(Some("session.send_message"));
    let wakes: Vec<_> = sent.iter().map(|call| call.input["triggerTurn"].clone()).collect();
    assert_eq!(wakes, [json!(false), json!(true)]);
    assert_eq!(sent[0].input["customType"], "legion-mail");
}

/// MAIL-20, MAIL-28, F20: what comes while a run goes on is there for a call of that run that blocks, else at its end.
#[tokio::test]
async fn mail_to_a_busy_root_waits_for_a_call_that_blocks_or_the_end_of_its_run() {
    let world = World::new();
    let a = world.child("a");
    let (root, _) = world.room("root", Mode::Rpc);
    let (sender, _) = world.room(&a.node_id, Mode::Print);
    let postman = world.postmen.of(&world.db);
    root.on_event(&Event::AgentStart);
    sender.send(draft(To::Parent, "early")).await.expect("sent");
    sender.send(draft(To::Parent, "late")).await.expect("sent");
    postman.tick(&[Arc::clone(&root)], true, clock::now_ms()).await;
    assert_eq!(world.host.calls(Some("session.send_message")).len(), 0);
    assert_eq!(root.ports().inbox.hold().take(1).await.mail.len(), 1, "sent before the call blocked");
    root.on_event(&Event::AgentSettled(AgentSettled { aborted: false }));
    world.host.until("session.send_message", 1).await;
    let sent = world.host.calls(Some("session.send_message"));
    assert!(sent[0].input["content"].as_str().expect("a text").contains("Subject: late"), "{sent:?}");
}

/// MAIL-29, MAIL-30, part of 08-T10, part of 08-T11
#[tokio::test]
async fn a_blocked_call_takes_what_fits_and_the_postman_leaves_the_rest() {
    let world = World::new();
    let a = world.child("a");
    let (sender, _) = world.room(&a.node_id, Mode::Print);
    for n in 0..3 {
        let big =
            Draft::new(To::Parent, &format!("m{n}"), &"x".repeat(30 * 1024), MailKind::Report, None).expect("legal");
        sender.send(big).await.expect("sent");
    }
    let (root, _) = world.room("root", Mode::Interactive);
    let mut hold = root.ports().inbox.hold();
    hold.arrived().await;
    world.postmen.of(&world.db).tick(&[Arc::clone(&root)], false, clock::now_ms()).await;
    assert!(world.host.calls(Some("session.send_message")).is_empty(), "the postman skips a held recipient");
    let taken = hold.take(10).await;
    assert_eq!((taken.mail.len(), taken.left), (1, 2), "the first always fits");
    assert_eq!(taken.mail[0].subject, "m0");
    let pending = world.db.read(|conn| messages::for_recipient(conn, "root", Delivery::Pending, 9)).expect("reads");
    assert!(pending.messages.iter().all(|mail| mail.delivered_at.is_none()), "the rest carries no claim");
    hold.returned("call-1");
    drop(hold);
    root.on_event(&Event::ToolExecutionEnd(ToolExecutionEnd {
        tool_call_id: "call-1".into(),
        tool_name: "subagent".into(),
        is_error: false,
    }));
    world.postmen.of(&world.db).tick(&[root], false, clock::now_ms()).await;
    assert_eq!(world.host.calls(Some("session.send_message")).len(), 2, "delivered later");
    assert_eq!(world.states("root").len(), 3, "nothing is redelivered");
}

/// MAIL-33, part of 08-T12
#[tokio::test]
async fn mail_of_a_dropped_result_comes_again_prefixed_once() {
    let world = World::new();
    let a = world.child("a");
    let (sender, _) = world.room(&a.node_id, Mode::Print);
    sender.send(draft(To::Parent, "s")).await.expect("sent");
    let (root, _) = world.room("root", Mode::Interactive);
    let mut last = 1;
    for _ in 0..2 {
        let mut hold = root.ports().inbox.hold();
        assert_eq!(hold.take(1000).await.mail.len(), 1);
        drop(hold);
        // The redelivery is written in the background; its row is the state to wait for.
        loop {
            let newest = world.db.read(|conn| messages::newest(conn, 9)).expect("reads").messages;
            if newest.len() > last {
                last = newest.len();
                assert_eq!(newest.last().expect("there").subject, "Redelivered: s");
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    let states: Vec<_> = world.states("root").into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, [Delivery::Obsolete, Delivery::Obsolete, Delivery::Pending]);
}

/// NTC-1 … NTC-6, NTC-22, part of 08-T15, part of 08-T17
#[tokio::test]
async fn results_of_one_run_are_told_as_one_message_at_its_end_and_once() {
    let world = World::new();
    let children: Vec<_> = ["a", "b", "c", "d"].iter().map(|name| world.child(name)).collect();
    let (root, tree) = world.room("root", Mode::Interactive);
    root.on_event(&Event::AgentStart);
    let read = world.result(&children[0], 1);
    for child in &children[1..] {
        world.result(child, 1);
        root.ports().outbox.settled(&child.name);
    }
    tree.state.lock().expect("tests").active = vec![Active { name: "d".into(), budget_ends_at: None }];
    root.pend_reads("call-1", vec![ReadMark { artifact: read, from: 0, to: 10 }]);
    root.on_event(&Event::ToolExecutionEnd(ToolExecutionEnd {
        tool_call_id: "call-1".into(),
        tool_name: "subagent".into(),
        is_error: false,
    }));
    while world.db.read(|conn| artifacts::consumption(conn, read, "root")).expect("reads").read_bytes < 10 {
        tokio::task::yield_now().await;
    }
    assert!(world.host.calls(Some("session.send_message")).is_empty(), "nothing is told inside a run");
    root.on_event(&Event::AgentSettled(AgentSettled { aborted: true }));
    let sent = world.host.until("session.send_message", 1).await;
    let text = sent[0].input["content"].as_str().expect("text");
    assert_eq!(text, format!("{NOTICE_MARK}\nresult of b\nresult of c"), "read ones and busy ones are left out");
    assert_eq!(sent[0].input["triggerTurn"], json!(false), "an aborted turn is not undone");
    assert_eq!(sent[0].input["deliverAs"], "followUp");
    tree.state.lock().expect("tests").active.clear();
    root.ports().outbox.settled("d");
    let sent = world.host.until("session.send_message", 2).await;
    assert_eq!(sent[1].input["content"], format!("{NOTICE_MARK}\nresult of d"));
    assert_eq!(sent[1].input["triggerTurn"], json!(true));
}

/// NTC-4, NTC-6, 08-T14
#[tokio::test]
async fn five_ends_are_one_message_in_a_run_and_two_while_idle() {
    let world = World::new();
    let (root, _) = world.room("root", Mode::Interactive);
    let all_told = || async {
        while world.db.undelivered("root").is_ok_and(|owed| !owed.is_empty()) {
            tokio::task::yield_now().await;
        }
    };
    root.on_event(&Event::AgentStart);
    for name in ["a", "b", "c", "d", "e"] {
        world.result(&world.child(name), 1);
        root.ports().outbox.settled(name);
    }
    root.on_event(&Event::AgentSettled(AgentSettled { aborted: false }));
    let sent = world.host.until("session.send_message", 1).await;
    let told = sent[0].input["content"].as_str().expect("text").matches("result of").count();
    assert_eq!((told, sent[0].input["triggerTurn"].clone()), (5, json!(true)));
    all_told().await;

    let late: Vec<_> = (0..5).map(|n| world.child(&format!("late-{n}"))).collect();
    world.result(&late[0], 1);
    root.ports().outbox.settled("late-0");
    world.host.until("session.send_message", 2).await;
    root.on_event(&Event::AgentStart);
    for child in &late[1..] {
        world.result(child, 1);
        root.ports().outbox.settled(&child.name);
    }
    root.on_event(&Event::AgentSettled(AgentSettled { aborted: false }));
    let sent = world.host.until("session.send_message", 3).await;
    let told: Vec<_> =
        sent.iter().map(|call| call.input["content"].as_str().expect("text").matches("result of").count()).collect();
    assert_eq!(told, [5, 1, 4], "the first one wakes, the rest arrive together");
    all_told().await;
    assert_eq!(world.host.calls(Some("session.send_message")).len(), 3);
}

/// NTC-6, LED-79
#[tokio::test]
async fn a_notice_that_the_host_refused_is_told_at_the_next_boundary() {
    let world = World::new();
    let a = world.child("a");
    let (root, _) = world.room("root", Mode::Interactive);
    world.host.answer::<SendMessage>(|_, _| Err(AbiError::host("stale context")));
    world.result(&a, 1);
    root.ports().outbox.settled("a");
    world.host.until("session.send_message", 1).await;
    world.host.until("log", 1).await;
    world.host.answer::<SendMessage>(|_, _| Ok(SentAnswer { disposition: Sent::Started }));
    root.on_event(&Event::AgentStart);
    root.on_event(&Event::AgentSettled(AgentSettled { aborted: false }));
    world.host.until("session.send_message", 2).await;
    while world.db.undelivered("root").is_ok_and(|owed| !owed.is_empty()) {
        tokio::task::yield_now().await;
    }
}

/// MODE-3, part of 09-T26
#[tokio::test(start_paused = true)]
async fn a_held_end_tells_questions_budgets_and_results_and_then_lets_go() {
    let world = World::new();
    let a = world.child("a");
    let (root, tree) = world.room("root", Mode::Print);
    let hold = |room: &Arc<Mailroom>| {
        let (room, cancel) = (Arc::clone(room), CancellationToken::new());
        let stop = cancel.clone();
        let task = context::spawn_scoped(async move {
            room.before_settle(AgentBeforeSettle { outcome: RunOutcome::Completed }, &cancel).await
        });
        (task, stop)
    };
    let budget = clock::now_ms() + 60_000;
    tree.state.lock().expect("tests").active = vec![Active { name: "a".into(), budget_ends_at: None }];

    let (held, _) = hold(&root);
    let (sender, _) = world.room(&a.node_id, Mode::Print);
    sender.send(Draft::new(To::Parent, "q", "which?", MailKind::Question, None).expect("legal")).await.expect("sent");
    let answer = held.await.expect("answers");
    assert!(answer.continue_run && answer.messages[0].content.contains("which?"));

    let (held, stop) = hold(&root);
    stop.cancel();
    assert!(!held.await.expect("answers").continue_run, "an abort ends the hold");

    tree.state.lock().expect("tests").active =
        vec![Active { name: "a".into(), budget_ends_at: Some(budget - 120_000) }];
    let answer = hold(&root).0.await.expect("answers");
    assert!(answer.messages[0].content.ends_with("1 still running"));
    let (held, _) = hold(&root);
    tree.state.lock().expect("tests").active.clear();
    world.result(&a, 1);
    root.ports().outbox.settled("a");
    let answer = held.await.expect("answers");
    assert_eq!(answer.messages[0].content, format!("{NOTICE_MARK}\nresult of a"));
    root.on_event(&Event::AgentStart);
    sender.send(draft(To::Parent, "last words")).await.expect("sent");
    let answer = hold(&root).0.await.expect("answers");
    assert!(answer.messages[0].content.contains("Subject: last words"), "told though nobody is at work");
    assert_eq!(hold(&root).0.await.expect("answers"), Default::default(), "nothing is left to wait for");
}

/// MODE-3: children and screens are not held.
#[tokio::test]
async fn only_a_root_without_a_screen_is_held() {
    let world = World::new();
    let a = world.child("a");
    for (node, mode) in [("root", Mode::Interactive), ("root", Mode::Rpc), (a.node_id.as_str(), Mode::Print)] {
        let (room, tree) = world.room(node, mode);
        tree.state.lock().expect("tests").active = vec![Active { name: "x".into(), budget_ends_at: None }];
        let cancel = CancellationToken::new();
        let answer = room.before_settle(AgentBeforeSettle { outcome: RunOutcome::Completed }, &cancel).await;
        assert_eq!(answer, Default::default());
    }
}
