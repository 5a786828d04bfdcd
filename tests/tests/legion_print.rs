//! Sessions in print mode, the way `legion run` runs them: the held end, signals, crashes and what a successor finds.

use std::path::Path;

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;
use tests::{
    legion::Running,
    legion_world::{PATIENCE, Project, custom, results, spoken, transcript},
};

/// Waits in a test without a runtime.
fn until(what: &str, mut look: impl FnMut() -> bool) {
    let mut left = PATIENCE;
    while !look() {
        let step = std::time::Duration::from_millis(20);
        left = left.checked_sub(step).unwrap_or_else(|| panic!("never came: {what}"));
        std::thread::sleep(step);
    }
}

/// Waits for a state of a child that another process runs.
fn until_state(project: &Project, child: &str, state: &str) {
    until(&format!("{child} is {state}"), || {
        project.runs().exists() && {
            let told = project.world.run(["tree".as_ref(), project.dir().as_os_str()]);
            told.out.lines().any(|line| line.contains(&format!("{child} (")) && line.contains(&format!(") {state}")))
        }
    });
}

fn end_by(running: &mut Running, signal: Signal) -> Option<i32> {
    kill(Pid::from_raw(running.pid()), signal).expect("it runs");
    running.end().code()
}

/// NTC-4, MODE-3, MAIL-30, MAIL-29, part of 09-T17, part of 09-T26, F19: the end is held while the child works; its
/// question and its result reach the model, each once, and the final answer covers them.
#[test]
fn the_held_end_tells_questions_and_results() {
    let project = Project::new();
    project.card("kid", "tools: read");
    let session = project.world.home().join("session.jsonl");
    let ended = project.run(
        "go",
        r"
rules:
  - match: { role: root, request: 1 }
    turns: [{ calls: [{ tool: subagent, arguments: { agent: kid, name: k, task: t } }] }]
  - match: { role: root, prompt: 'Which one' }
    turns: [{ text: It asks., calls: [{ tool: bash, arguments: { command: touch go-left } }] }]
  - match: { role: root, prompt: '▣ legion' }
    turns: [{ text: 'Final: {{prompt | /k went \w+/}}' }]
  - match: { role: root }
    repeat: last
    turns: [{ text: I wait. }]
  - match: { role: kid, request: 1 }
    turns:
      - calls:
          - { tool: legion_mail, arguments: { to: parent, kind: question, subject: Which one?, body: Left or right? } }
  - match: { role: kid }
    turns: [{ untilFile: go-left, text: k went left }]
",
        &["--session", session.to_str().unwrap()],
    );
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert_eq!(ended.out, "Final: k went left\n");
    let messages = transcript(&session);
    let mails = custom(&messages, "legion-mail");
    assert_eq!(mails.len(), 1, "{mails:#?}");
    assert!(
        mails[0].starts_with("[legion mail #1] question from k (kid) · action-needed\nSubject: Which one?\n\nLeft")
    );
    let notices = custom(&messages, "subagent-notify");
    assert!(notices.len() == 1 && notices[0].contains("\nk went left"), "{notices:#?}");
    let ledger = project.ledger();
    assert_eq!((ledger.mails.len(), &ledger.mails[0]["state"]), (1, &"DELIVERED".into()));
    let events = ledger.events_of("k");
    assert!(events.starts_with(&["node_launched", "mail_sent"]) && events.contains(&"node_settled"), "{events:?}");
    assert_eq!(ledger.state("root"), "settled");
}

/// MODE-3, ORC-86, part of 09-T26: a passed waiting budget is told once, with the ways on; the parent decides.
#[test]
fn the_held_end_tells_a_passed_budget_once() {
    let project = Project::new();
    project.card("kid", "tools: read\ntimeoutMs: 300");
    let session = project.world.home().join("session.jsonl");
    let ended = project.run(
        "go",
        r#"
rules:
  - match: { role: root, request: 1 }
    turns: [{ calls: [{ tool: subagent, arguments: { agent: kid, name: k, task: t } }] }]
  - match: { role: root, prompt: 'stop: subagent\(\{ action: "stop", name: "k" \}\)' }
    turns:
      - text: It says nothing.
        calls: [{ tool: subagent, arguments: { action: stop, name: k } }]
      - text: 'I ended it: {{last_result}}'
  - match: { role: root }
    turns: [{ text: I wait. }]
  - match: { role: kid }
    turns: [{ silence: {}, text: never }]
"#,
        &["--session", session.to_str().unwrap()],
    );
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert_eq!(ended.out, "I ended it: Stopped k\n");
    let told = custom(&transcript(&session), "subagent-notify");
    assert_eq!(told.len(), 1, "{told:#?}");
    let lines: Vec<&str> = told[0].lines().collect();
    assert_eq!(lines[0], "▣ legion · automatic completion notice (not a message from the user)");
    assert_eq!(lines[1], "… k (kid) running (collect deadline reached; the child is still running)");
    assert_eq!(project.ledger().state("k"), "retired");
}

/// MODE-3, MAIL-20, NTC-4: a mail with a child's last breath is not lost, however fast its result is.
#[test]
fn mail_that_comes_with_the_result_reaches_the_model() {
    let project = Project::new();
    project.card("kid", "tools: read");
    let session = project.world.home().join("session.jsonl");
    let ended = project.run(
        "go",
        r"
rules:
  - match: { role: root, request: 1 }
    turns: [{ calls: [{ tool: subagent, arguments: { agent: kid, tasks: [{ task: t }, { task: t }, { task: t }, { task: t }] } }] }]
  - match: { role: root }
    repeat: last
    turns: [{ text: 'Heard.' }]
  - match: { role: kid, request: 1 }
    turns: [{ calls: [{ tool: legion_mail, arguments: { to: parent, subject: 'bye from {{name}}', body: Bye. } }] }]
  - match: { role: kid }
    turns: [{ text: '{{name}} is done' }]
",
        &["--session", session.to_str().unwrap()],
    );
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    let messages = transcript(&session);
    let last_answer = messages.iter().rposition(|message| spoken(std::slice::from_ref(message)) == "Heard.").unwrap();
    let told = spoken(&messages[..last_answer]);
    for n in 0..4 {
        assert_eq!(told.matches(&format!("Subject: bye from kid-{n}")).count(), 1, "the mail of kid-{n} in:\n{told}");
        assert_eq!(told.matches(&format!("kid-{n} is done")).count(), 1, "the result of kid-{n} in:\n{told}");
    }
}

/// MODE-3, MODE-4, ORC-167, part of 09-T17, part of 03-T25: a root whose model fails waits for its children all the same;
/// their results may bring it back.
#[test]
fn a_root_that_fails_waits_for_its_children() {
    let once = "{ role: root, prompt: '^go$' }";
    let ever = "{ role: root, request: '2-' }";
    for (fails, code, out, err) in
        [(once, 0, "Heard in the end.\n", ""), (ever, 1, "", "HTTP 400: the root fell over\n")]
    {
        let project = Project::new();
        project.card("kid", "tools: bash");
        let session = project.world.home().join("session.jsonl");
        let script = format!(
            r"
rules:
  - match: {{ role: root, request: 1 }}
    turns: [{{ calls: [{{ tool: subagent, arguments: {{ agent: kid, tasks: [{{ name: a, task: t }}, {{ name: b, task: t }}] }} }}] }}]
  - match: {fails}
    repeat: last
    turns: [{{ text: never, error: {{ status: 400, body: the root fell over }} }}]
  - match: {{ role: root }}
    repeat: last
    turns: [{{ text: Heard in the end. }}]
  - match: {{ role: kid, request: 1 }}
    turns: [{{ barrier: {{ name: kids, count: 2 }}, calls: [{{ tool: bash, arguments: {{ command: sleep 0.2 }} }}] }}]
  - match: {{ role: kid }}
    turns: [{{ text: '{{{{name}}}} is done' }}]
"
        );
        let ended = project.run("go", &script, &["--session", session.to_str().unwrap()]);
        assert_eq!((ended.code, ended.out.as_str(), ended.err.as_str()), (Some(code), out, err), "no child is cut off");
        let told = custom(&transcript(&session), "subagent-notify").join("\n");
        assert_eq!((told.matches("\na is done").count(), told.matches("\nb is done").count()), (1, 1), "{told}");
        let ledger = project.ledger();
        assert_eq!((ledger.state("a"), ledger.state("b")), ("settled", "settled"));
    }
}

/// ORC-177, part of 03-T34: a session that launches nothing leaves nothing; one that did finds its run again.
#[test]
fn a_run_is_made_at_the_first_launch_and_found_again() {
    let project = Project::new();
    project.card("kid", "tools: read");
    let session = project.world.home().join("session.jsonl");
    let run = |task: &str| {
        let script = r"
rules:
  - match: { role: root, prompt: '^launch$' }
    repeat: all
    turns: [{ calls: [{ tool: subagent, arguments: { agent: kid, task: t, async: false } }] }, { text: launched }]
  - match: { role: root, prompt: '^look$' }
    repeat: all
    turns: [{ calls: [{ tool: subagent, arguments: { action: status, all: true } }] }, { text: '{{last_result}}' }]
  - match: { role: kid }
    turns: [{ text: done }]
otherwise: { text: hello }
";
        let ended = project.run(task, script, &["--session", session.to_str().unwrap()]);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{task}: {}", ended.out);
        ended.out
    };
    assert_eq!(run("say"), "hello\n");
    assert_eq!(run("look"), "No live children\n");
    assert!(project.is_untouched(), "nothing was launched");
    assert_eq!(run("launch"), "launched\n");
    let dir = project.run_dir();
    let record = record_of(&dir);
    assert!(record["closedAt"].is_string(), "{record}");
    let status = run("look");
    assert!(status.starts_with("Status · 0 live children\nDead · 1\n✓ kid-0 (kid) state=settled"), "{status}");
    assert_eq!(run("launch"), "launched\n");
    assert_eq!(project.run_dir(), dir, "the same run goes on");
    let ledger = project.ledger();
    assert_eq!((ledger.state("kid-0"), ledger.state("kid-1")), ("settled", "settled"), "names are counted on");
}

/// HOST-5, ORC-169, ORC-170, SUP-48, part of 11-T3, part of 03-T25: a signal takes the children down and leaves no process.
#[test]
fn a_signal_takes_the_children_down() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let project = Project::new();
        project.card("kid", "tools: bash");
        project.card("lead", "tools: bash\nallowNestedSubagents: true");
        let mut running = project.start(
            "go",
            r"
rules:
  - match: { role: root, request: 1 }
    turns: [{ calls: [{ tool: subagent, arguments: { tasks: [{ agent: kid, name: mute, task: t }, { agent: lead, name: l, task: t }] } }] }]
  - match: { name: mute }
    turns: [{ silence: {}, text: never }]
  - match: { role: lead, request: 1 }
    turns: [{ calls: [{ tool: subagent, arguments: { agent: kid, name: below, task: t } }] }]
  - match: { name: below, request: 1 }
    turns: [{ calls: [{ tool: bash, arguments: { command: 'sleep 611 & sleep 612; echo never' } }] }]
otherwise: { text: I wait. }
",
            &[],
        );
        until("the shells are at work", || {
            let processes = project.world.processes();
            processes.iter().any(|line| line.ends_with(" sleep 612 "))
                && processes.iter().any(|line| line.ends_with(" sleep 611 "))
        });
        assert_eq!(end_by(&mut running, signal), Some(130), "{:#?}", running.seen);
        assert_eq!(project.world.processes(), [""; 0]);
        let ledger = project.ledger();
        for name in ["mute", "l", "below"] {
            assert_eq!(
                (ledger.state(name), ledger.events_of(name).last()),
                ("retired", Some(&"node_retired")),
                "{signal}"
            );
        }
        let record = record_of(&project.run_dir());
        assert!(record["closedAt"].is_string(), "{record}");
        assert!(record["children"].as_array().unwrap().iter().all(|child| child["state"] == "retired"), "{record}");
    }
}

/// One child that ends while its parent is busy, and one that never does.
const CRASH: &str = r"
rules:
  - match: { role: root, request: 1 }
    turns: [{ calls: [{ tool: subagent, arguments: { agent: kid, tasks: [{ name: a, task: t }, { name: b, task: t }] } }] }]
  - match: { role: root }
    turns: [{ untilFile: never, text: never }]
  - match: { name: a }
    turns: [{ text: a is done }]
  - match: { name: b }
    turns: [{ silence: {}, text: never }]
";

const AFTER_THE_CRASH: &str = r"
rules:
  - match: { role: root, prompt: '^again$' }
    turns:
      - calls:
          - { tool: subagent, arguments: { action: status, all: true } }
          - { tool: subagent, arguments: { action: collect, name: b } }
      - text: I have looked.
  - match: { role: root, prompt: '▣ legion' }
    turns: [{ text: 'Heard: {{prompt | /a is done/}}' }]
";

/// ORC-171, ORC-172, NTC-14, F3, 11-T4, part of 03-T33, part of 03-T23: after `kill -9` the next session of the transcript
/// takes the run over: a result that was recorded and not told yet is told once, so is one that the crash kept from being
/// recorded, and who had not ended has failed.
#[test]
fn a_killed_session_is_taken_over() {
    for crash in [Crash::AsItCame, Crash::BeforeTheRecord, Crash::BeforeTheSettlement] {
        let project = Project::new();
        project.card("kid", "tools: read");
        let session = project.world.home().join("session.jsonl");
        let file = ["--session", session.to_str().unwrap()];
        let mut running = project.start("go", CRASH, &file);
        until_state(&project, "a", "settled");
        until_state(&project, "b", "running");
        assert_eq!(end_by(&mut running, Signal::SIGKILL), None);
        assert_eq!(project.world.processes(), [""; 0]);
        let run = project.run_dir();
        crash.put_back(&run);
        let ledger = project.ledger();
        assert_eq!(ledger.nodes.len(), 3, "a reader sees a whole ledger");

        let ended = project.run("again", AFTER_THE_CRASH, &file);
        assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""), "{}", ended.out);
        assert_eq!(ended.out, "Heard: a is done\n");
        assert_eq!(project.run_dir(), run, "the same run");
        let messages = transcript(&session);
        let told = custom(&messages, "subagent-notify").join("\n");
        assert_eq!(told.matches("\n✓ a (kid) success").count(), 1, "{crash:?}: {told}");
        assert_eq!(told.matches("a is done").count(), 1, "{crash:?}: {told}");
        let replies = results(&messages);
        let status = &replies[replies.len() - 2];
        assert!(status.good().starts_with("Status · 0 live children\n"), "{}", status.text);
        assert!(status.text.contains("b (kid) state=failed"), "{}", status.text);
        assert!(replies.last().unwrap().text.starts_with("■ b (kid) aborted ("), "{}", replies.last().unwrap().text);

        let ledger = project.ledger();
        assert_eq!((ledger.state("a"), ledger.state("b")), ("settled", "failed"));
        assert_eq!(ledger.events_of("a"), ["node_launched", "node_settled"]);
        assert_eq!(ledger.events_of("b"), ["node_launched", "orphan_detected", "node_abandoned"]);
        assert_eq!(project.artifact("a", 1), "a is done");
    }
}

/// ORC-172, ORC-178, F3, part of 03-T33: a lead whose turn had ended while its team worked has not succeeded, and nothing
/// below it fills a slot.
#[test]
fn a_lead_that_died_with_its_team_has_failed() {
    let project = Project::new();
    project.card("kid", "tools: read");
    project.card("lead", "tools: read\nallowNestedSubagents: true");
    let session = project.world.home().join("session.jsonl");
    let file = ["--session", session.to_str().unwrap()];
    let script = r"
rules:
  - match: { role: root, request: 1 }
    turns: [{ calls: [{ tool: subagent, arguments: { agent: lead, name: l, task: t } }] }]
  - match: { role: root, prompt: '^again$' }
    turns:
      - calls: [{ tool: subagent, arguments: { action: collect, name: l } }]
      - text: '{{last_result}}'
  - match: { role: root }
    turns: [{ untilFile: never, text: never }]
  - match: { role: lead, request: 1 }
    turns:
      - calls:
          - { tool: subagent, arguments: { agent: kid, tasks: [{ name: mute, task: t }, { name: quick, task: t }] } }
  - match: { role: lead }
    repeat: last
    turns: [{ text: I wait for my team. }]
  - match: { name: mute }
    turns: [{ silence: {}, text: never }]
  - match: { name: quick }
    turns: [{ text: quick is done }]
";
    let mut running = project.start("go", script, &file);
    until_state(&project, "quick", "settled");
    until("the lead ended its turn", || {
        let transcripts = project.runs().read_dir().into_iter().flatten().flatten();
        transcripts
            .filter_map(|run| std::fs::read_to_string(run.path().join("l.jsonl")).ok())
            .any(|text| text.contains("I wait for"))
    });
    assert_eq!(end_by(&mut running, Signal::SIGKILL), None);

    let ended = project.run("again", script, &file);
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
    assert!(ended.out.starts_with("■ l (lead) aborted ("), "{}", ended.out);
    let ledger = project.ledger();
    let states = ["l", "mute", "quick"].map(|name| ledger.state(name));
    assert_eq!(states, ["failed", "failed", "settled"]);
    assert_eq!(custom(&transcript(&session), "subagent-notify"), [""; 0]);
}

/// How far the files had come when the process died. The record of the run is written a little behind the ledger
/// (ORC-148).
#[derive(Debug, Clone, Copy)]
enum Crash {
    AsItCame,
    /// The ledger has all, `run.json` neither the end of `a` nor that `b` was ever launched.
    BeforeTheRecord,
    /// The transcript has the end of `a`, and nothing else has.
    BeforeTheSettlement,
}

impl Crash {
    fn put_back(self, run: &Path) {
        match self {
            Crash::AsItCame => {}
            Crash::BeforeTheRecord => forget_record(run, Some("b")),
            Crash::BeforeTheSettlement => {
                forget_settlement(run);
                forget_record(run, None);
            }
        }
    }
}

fn record_of(run: &Path) -> Value {
    let text = std::fs::read_to_string(run.join("run.json")).expect("the run has a record");
    serde_json::from_str(&text).expect("it is whole")
}

fn forget_settlement(run: &Path) {
    let sql = rusqlite::Connection::open(run.join("legion.db")).expect("the ledger opens");
    for statement in [
        "DELETE FROM consumptions WHERE artifact_id IN (SELECT id FROM artifacts WHERE node_id = ?1)",
        "DELETE FROM artifacts WHERE node_id = ?1",
        "DELETE FROM events WHERE node_id = ?1 AND type = 'node_settled'",
        "UPDATE nodes SET status = 'running' WHERE id = ?1",
    ] {
        sql.execute(statement, ["root/a"]).expect("the statement fits the schema");
    }
    std::fs::remove_dir_all(run.join("artifacts/a")).expect("the result is there");
}

fn forget_record(run: &Path, absent: Option<&str>) {
    let path = run.join("run.json");
    let mut record = record_of(run);
    let children = record["children"].as_array_mut().expect("a list");
    children.retain(|child| absent.is_none_or(|absent| child["name"] != absent));
    let child = children.iter_mut().find(|child| child["name"] == "a").and_then(Value::as_object_mut);
    let child = child.expect("its launch was recorded before its end");
    for key in ["execution", "settledAt", "retiredAt", "verdict", "acceptance"] {
        child.remove(key);
    }
    child.insert("state".to_owned(), "working".into());
    child.insert("round".to_owned(), 0.into());
    std::fs::write(path, record.to_string()).expect("the record can be written");
}

/// ORC-181, part of 03-T33: of two processes on one transcript one owns the run; the other says so and uses its own.
#[test]
fn a_run_that_is_in_use_is_left_to_its_owner() {
    let project = Project::new();
    project.card("kid", "tools: read");
    let session = project.world.home().join("session.jsonl");
    let file = ["--session", session.to_str().unwrap()];
    let mut owner = project.start("go", CRASH, &file);
    until_state(&project, "a", "settled");
    let run = project.run_dir();
    let id = run.file_name().unwrap().to_str().unwrap().to_owned();
    let ended = project.run(
        "second",
        r"
rules:
  - match: { role: root, prompt: '^second$' }
    turns: [{ calls: [{ tool: subagent, arguments: { agent: kid, name: mine, task: t, async: false } }] }, { text: done }]
  - match: { role: kid }
    turns: [{ text: mine is done }]
",
        &file,
    );
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "done\n"), "{}", ended.err);
    let line = format!("run {id} is in use by pid {}; this session uses run r-", owner.pid());
    assert_eq!(ended.err.matches(&line).count(), 1, "{}", ended.err);
    let told = project.world.run(["tree".as_ref(), run.as_os_str()]);
    assert!(told.out.contains("b (kid) running") && !told.out.contains("mine"), "{}", told.out);
    assert_eq!(end_by(&mut owner, Signal::SIGTERM), Some(130));
}
