//! Where sessions live: odd paths, no trust, no file, and neighbours in one project.

use serde_json::json;
use tests::legion_world::{Project, results, transcript};

const LOOK: &str = r"
rules:
  - match: { role: root, request: 1 }
    turns:
      - calls:
          - tool: subagent
            arguments: { agent: scout, async: false, tasks: [{ name: s, task: 'look at 目录/a b.txt' }] }
  - match: { role: root }
    repeat: last
    turns: [{ text: '{{last_result}}' }]
  - match: { role: scout, request: 1 }
    turns:
      - calls:
          - { tool: read, arguments: { path: '目录/a b.txt' } }
          - { tool: bash, arguments: { command: pwd } }
          - { tool: legion_mail, arguments: { to: parent, subject: '到了', body: '在 {{cwd}}' } }
  - match: { role: scout }
    turns: [{ text: 'It says {{result.read | /\S+/}} in {{result.bash}}' }]
";

/// F40, ORC-38: a deep directory with spaces and characters of many scripts is like any other.
#[test]
fn deep_and_foreign_paths_work() {
    let deep = format!("プロジェクト/with spaces & 'quotes'/{}/Ünïcödé 🎉", "d".repeat(120));
    let project = Project::at(&deep);
    project.file("目录/a b.txt", "好的\n");
    let told = project.run("go", LOOK, &[]);
    assert_eq!((told.code, told.err.as_str()), (Some(0), ""), "{}", told.out);
    assert!(told.out.contains("It says 好的 in ") && told.out.contains("Ünïcödé 🎉"), "{}", told.out);
    let ledger = project.ledger();
    assert_eq!((ledger.state("s"), &ledger.mails[0]["state"]), ("settled", &json!("DELIVERED")));
    assert!(project.artifact("s", 1).contains("好的"));
    assert_eq!(project.transcript("s").len(), 6, "one task, two answers, three results");
}

/// DISC-4, DISC-9: without trust the project's cards and settings are not used, and that is said once.
#[test]
fn a_project_without_trust_has_no_say() {
    let project = Project::new();
    project.card("kid", "tools: read");
    project.settings(json!({ "enabled": false }));
    let session = project.world.home().join("session.jsonl");
    let script = r"
rules:
  - match: { role: root, request: 1 }
    turns:
      - calls:
          - { tool: subagent, arguments: { agent: kid, task: t } }
          - { tool: subagent, arguments: { agent: scout, task: t, async: false } }
  - match: { role: root }
    turns: [{ text: done }]
  - match: { role: scout }
    turns: [{ text: looked }]
";
    let told = project.run("go", script, &["--no-approve", "--session", session.to_str().unwrap()]);
    assert_eq!((told.code, told.out.as_str()), (Some(0), "done\n"), "{}", told.err);
    let notice = "legion: project not trusted; .pi/agents and .pi/settings.json are not used";
    assert_eq!(told.err.matches(notice).count(), 1, "{}", told.err);
    let replies = results(&transcript(&session));
    assert_eq!(replies[0].bad(), "✗ kid: unknown agent 'kid'; available: centurion, scout, worker");
    assert!(replies[1].good().starts_with("✓ scout-0 (scout) success"), "{}", replies[1].text);
}

/// ORC-177: a session without a file has a run too.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_without_a_file_has_a_run() {
    let project = Project::new();
    project.card("kid", "tools: read");
    let live = project.session_with("rules: [{ turns: [{ text: done }] }]", |builder| builder.no_session_file());
    let reply = live.subagent(json!({ "agent": "kid", "task": "t", "async": false })).await;
    assert!(reply.good().starts_with("✓ kid-0 (kid) success"), "{}", reply.text);
    assert_eq!(project.artifact("kid-0", 1), "done");
    live.end().await;
}

/// ORC-15, ORC-181, ABI-3: two sessions at work in one project and one process have runs and children of their own.
#[tokio::test(flavor = "multi_thread")]
async fn neighbours_do_not_meet() {
    let project = Project::new();
    project.card("kid", "tools: read");
    let sessions = ["one", "two"].map(|name| {
        let script = format!("rules: [{{ turns: [{{ untilFile: go-{name}, text: 'done by {name}' }}] }}]");
        let file = project.world.home().join(format!("{name}.jsonl"));
        project.session_with(&script, |builder| builder.session_file(file))
    });
    for live in &sessions {
        live.subagent(json!({ "agent": "kid", "name": "a", "task": "t" })).await.good();
        let status = live.subagent(json!({ "action": "status" })).await;
        assert!(status.good().starts_with("Status · 1 live child\n"), "{}", status.text);
    }
    let runs = std::fs::read_dir(project.runs()).unwrap().flatten().filter(|run| run.path().join("legion.db").exists());
    assert_eq!(runs.count(), 2);
    let [one, two] = &sessions;
    assert_eq!(one.subagent(json!({ "action": "stop", "all": true })).await.good(), "Stopped a");
    project.file("go-two", "");
    two.told("done by two").await;
    two.idle().await;
    one.idle().await;
    assert_eq!((one.notices().await.len(), two.notices().await.len()), (0, 1));
    one.end().await;
    two.end().await;
}
