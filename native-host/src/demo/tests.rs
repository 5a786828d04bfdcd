use std::sync::Arc;

use legion_ext::ledger::usage::{LedgerTotals, UsageRow};
use serde_json::{Value, json};

use super::content::{self, HISTORY, Pace};
use super::narrate::{Beat, Kind, Line, Narrator};
use super::report::{ChildFacts, Facts, RunFacts};
use super::{Place, PlaceError};
use crate::env::Env;
use crate::session::event::{HostEvent, SessionEvent};
use crate::session_file::{AssistantMessage, Block, CustomMessage, Message, ToolCall};
use crate::tools::ToolOutput;

/// CLI-1, NAT-3
#[test]
fn the_script_is_read_at_both_paces() {
    let slow = content::script(Pace::Visible).unwrap();
    assert!(slow.rules.iter().flat_map(|rule| &rule.turns).any(|turn| turn.delay_ms > 0));
    let fast = content::script(Pace::Instant).unwrap();
    assert!(fast.rules.iter().flat_map(|rule| &rule.turns).all(|turn| turn.delay_ms == 0));
    assert_eq!(slow.rules.len(), fast.rules.len());
}

/// Every file of `demo/repo` is part of the history, and has the text that is on the disk.
#[test]
fn no_file_of_the_repository_is_forgotten() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/repo");
    let mut on_disk = Vec::new();
    for dir in ["", "lib", "tests"] {
        for entry in std::fs::read_dir(root.join(dir)).unwrap().flatten().filter(|entry| entry.path().is_file()) {
            on_disk.push(entry.path().strip_prefix(&root).unwrap().to_string_lossy().into_owned());
        }
    }
    let mut carried: Vec<&str> = HISTORY.iter().flat_map(|commit| commit.files).map(|file| file.path).collect();
    on_disk.sort_unstable();
    carried.sort_unstable();
    assert_eq!(carried, on_disk);
}

/// CLI-1
#[test]
fn a_place_has_a_repository_with_red_tests() {
    let dir = tempfile::tempdir().unwrap();
    let place = Place::make(Some(&dir.path().join("a/b"))).unwrap();
    assert_eq!(place.run_tests().unwrap(), ("10 passed, 6 failed".to_owned(), false));
    assert_eq!(place.changes().unwrap(), "", "the history is whole");
    assert!(place.repo.join(".git").is_dir() && place.agent_dir.join("settings.json").is_file());
}

/// CLI-1: what is there is not touched.
#[test]
fn a_place_that_is_taken_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine"), "x").unwrap();
    let refused = Place::make(Some(dir.path())).unwrap_err();
    assert!(matches!(&refused, PlaceError::NotEmpty(path) if path == dir.path()), "{refused}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// CLI-1: the commands at the end can be pasted.
#[test]
fn the_program_is_named_as_a_shell_finds_it() {
    let env = |path: &str| Env {
        vars: vec![("PATH".into(), path.into())],
        executable: "/opt/bin/legion".into(),
        ..Env::default()
    };
    assert_eq!(env("/usr/bin:/opt/bin").command_name(), "legion");
    assert_eq!(env("/usr/bin").command_name(), "/opt/bin/legion");
    assert_eq!(Env { vars: Vec::new(), ..env("") }.command_name(), "/opt/bin/legion");
}

fn event(name: &str, event: SessionEvent) -> HostEvent {
    HostEvent { scope: 1, agent_id: name.into(), name: name.into(), root: name == "root", event: Arc::new(event) }
}

fn call(tool: &str, arguments: Value) -> ToolCall {
    ToolCall { id: "c".into(), name: tool.into(), arguments, ..ToolCall::default() }
}

fn line(who: &str, kind: Kind, text: &str) -> Vec<Beat> {
    vec![Beat::Line(Line { who: who.into(), kind, text: text.into() })]
}

#[test]
fn the_narrator_tells_calls_mails_faults_and_results_once() {
    let mut narrator = Narrator::default();
    let mut tell = |name: &str, what: SessionEvent| narrator.tell(&event(name, what));
    let start = |call: ToolCall| SessionEvent::ToolStart { call };
    let end = |call: ToolCall, output: ToolOutput| SessionEvent::ToolEnd { call, output };

    let answer =
        AssistantMessage { content: vec![Block::text("I send \u{1b}[2Jtwo.\nMore.")], ..AssistantMessage::default() };
    let says = SessionEvent::MessageEnd { message: Message::Assistant(answer) };
    assert_eq!(tell("root", says.clone()), line("root", Kind::Says, "I send two."));
    assert_eq!(tell("a", says), []);

    let launch = call("subagent", json!({ "action": "launch", "tasks": [{}, {}] }));
    assert_eq!(tell("root", start(launch)), line("root", Kind::Acts, "launch 2 children"));
    let wait = call("subagent", json!({ "action": "wait" }));
    assert_eq!(tell("root", start(wait.clone())), []);

    let edit = call("edit", json!({ "path": "lib/slug.sh" }));
    assert_eq!(tell("a", start(edit)), [Beat::Activity { who: "a".into(), text: "edit lib/slug.sh".into() }]);
    let mail = call("legion_mail", json!({ "to": "parent", "subject": "which?", "kind": "question" }));
    assert_eq!(
        tell("a", end(mail.clone(), ToolOutput::text("sent"))),
        line("a", Kind::Mail, "to parent: question: which?")
    );
    assert_eq!(tell("a", end(mail, ToolOutput::error("full"))), line("a", Kind::Fault, "legion_mail: full"));
    let tests = call("bash", json!({ "command": "./run-tests.sh" }));
    let red = ToolOutput::error("ok - a: b\nnot ok - a: c: expected 1");
    assert_eq!(tell("a", end(tests, red)), line("a", Kind::Fault, "bash: not ok - a: c: expected 1"));
    assert_eq!(
        tell("a", SessionEvent::AgentSettled { run: 1, aborted: false }),
        [Beat::Ended { who: "a".into(), text: "I send two.".into() }]
    );

    let results = json!({ "results": [
        { "name": "a", "agent": "worker", "status": "success", "round": 1, "durationMs": 4_000, "verdict": { "ok": true } },
        { "name": "b", "agent": "worker", "status": "success", "round": 1, "verdict": { "ok": false } },
        { "name": "c", "agent": "scout", "status": "failed", "round": 1 },
    ] });
    let output = ToolOutput { details: Some(results), ..ToolOutput::default() };
    let told = tell("root", end(wait.clone(), output.clone()));
    let expected = [
        line("a", Kind::Good, "success (worker) · 4s"),
        line("b", Kind::Bad, "success (worker), and says it is not done"),
        line("c", Kind::Bad, "failed (scout)"),
    ];
    assert_eq!(told, expected.concat());
    assert_eq!(tell("root", end(wait, output)), [], "a result is told once");
    let notice = json!({ "kind": "completion", "children": [
        { "name": "a", "agent": "worker", "status": "success", "round": 1 },
        { "name": "a", "agent": "worker", "status": "truncated", "round": 2 },
    ] });
    let notice = CustomMessage { details: Some(notice), ..CustomMessage::default() };
    let told = tell("root", SessionEvent::MessageEnd { message: Message::Custom(notice) });
    assert_eq!(told, line("a", Kind::Bad, "truncated (worker)"));
}

fn facts() -> Facts {
    let child = |name: &str, status: Option<&str>, verdict| ChildFacts {
        name: name.to_owned(),
        agent: "worker".to_owned(),
        status: status.map(str::to_owned),
        verdict,
        duration_ms: Some(4_200),
        tokens_in: 1_500,
        tokens_out: 40,
        ..ChildFacts::default()
    };
    let usage = UsageRow { tokens_in: 3_000, tokens_out: 80, cost_usd: 0.0 };
    Facts {
        program: "legion".to_owned(),
        dir: "/tour".into(),
        repo: "/tour/repo".into(),
        run: Some(RunFacts {
            dir: "/tour/repo/.pi-subagents/runs/r-1".into(),
            children: vec![child("fix-slug", Some("success"), Some(true)), child("map", Some("success"), None)],
            totals: LedgerTotals { nodes: 3, events: 20, messages: 2, artifacts: 2, usage },
        }),
        before: "10 passed, 6 failed".to_owned(),
        after: "17 passed, 0 failed".to_owned(),
        green: true,
        changes: " lib/slug.sh | 2 +-\n 1 file changed\n".to_owned(),
        answer: Some("Green.\n\nAll of it.\n".to_owned()),
        error: None,
    }
}

/// CLI-1: what happened, where the files are, the ledger's own counts, and what to look at next.
#[test]
fn the_end_tells_what_happened_and_where_it_is() {
    insta::assert_snapshot!(facts().text(), @r"

    The root's answer

      Green.

      All of it.

    What happened

      ✓ fix-slug     worker  success · 4s · ↑1.5k ↓40
      ✓ map          worker  success · 4s · ↑1.5k ↓40

    Tests    10 passed, 6 failed → 17 passed, 0 failed

     lib/slug.sh | 2 +-
     1 file changed

    Where it is

      repository   /tour/repo
      run          /tour/repo/.pi-subagents/runs/r-1
      transcripts  /tour/repo/.pi-subagents/runs/r-1/<child>.jsonl
      results      /tour/repo/.pi-subagents/runs/r-1/artifacts/<child>/r1.md
      ledger       /tour/repo/.pi-subagents/runs/r-1/legion.db

    Ledger   3 nodes · 20 events · 2 mails · 2 results · ↑3.0k ↓80 tokens

    Next

      legion status /tour/repo/.pi-subagents/runs/r-1
      legion tree /tour/repo/.pi-subagents/runs/r-1
      legion mail /tour/repo/.pi-subagents/runs/r-1
      legion show fix-slug /tour/repo/.pi-subagents/runs/r-1
      rm -r /tour
    ");
    let bare = Facts { run: None, ..facts() };
    assert!(!bare.succeeded() && bare.places().len() == 3, "{:?}", bare.places());
}

/// CLI-1: the exit code is 0 only when all of it went well.
#[test]
fn a_tour_that_went_wrong_says_so() {
    assert!(facts().succeeded());
    let with = |change: &dyn Fn(&mut Facts)| {
        let mut facts = facts();
        change(&mut facts);
        facts
    };
    let child =
        |facts: &mut Facts, change: &dyn Fn(&mut ChildFacts)| change(&mut facts.run.as_mut().unwrap().children[0]);
    let bad = [
        with(&|facts| facts.green = false),
        with(&|facts| facts.error = Some("broken stream".to_owned())),
        with(&|facts| facts.run = None),
        with(&|facts| child(facts, &|child| child.status = None)),
        with(&|facts| child(facts, &|child| child.status = Some("failed".to_owned()))),
        with(&|facts| child(facts, &|child| child.verdict = Some(false))),
    ];
    for facts in bad {
        assert!(!facts.succeeded(), "{facts:?}");
    }
    let text =
        with(&|facts| child(facts, &|child| (child.status, child.reason) = (None, Some("gone\nfar".into())))).text();
    assert!(text.contains("✗ fix-slug     worker  no result · 4s · ↑1.5k ↓40 · gone far"), "{text}");
}
