//! Waiting for children, reading what they left, interrupting the wait, and taking them down (03 §10, §11, §14; 09 §2).

use native_host::session_file::Message;
use serde_json::{Value, json};
use tests::legion_world::{Live, Project, Reply, results, until};

/// What ORC-99 says, and nothing else.
const INTERRUPTED: &str = "interrupted (parent turn ended; children still running)";

const KID: &str = "tools: read";

/// Children that report when the file of their name is there.
const HELD: &str = r"
rules:
  - match: { request: 1 }
    turns: [{ untilFile: 'go-{{name}}', text: '{{name}} is done' }]
";

async fn launch(live: &Live, names: &[&str]) {
    let tasks: Vec<Value> = names.iter().map(|name| json!({ "name": name, "task": "t" })).collect();
    live.subagent(json!({ "agent": "kid", "tasks": tasks })).await.good();
}

/// CAP-1 … CAP-6, ORC-91, F17, F18, 09-T10 and 09-T23 in a live session: a large result is shown by its ends, is read on
/// page by page to its last byte without running the child again, and only then is it not announced.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_result_is_capped_and_read_page_by_page() {
    // Three bytes a character, and a line end after every hundred.
    let line = format!("{}\n", "漢".repeat(99) + "🎉🎉🎉");
    let text = format!("the beginning\n{}the end", line.repeat(700));
    assert!(text.len() > 200_000);
    let project = Project::new();
    project.card("kid", KID);
    let script = json!({ "rules": [{ "turns": [{ "text": text }] }] }).to_string();
    let live = project.session(&script);

    // In one run, so that no boundary comes between: launch, read all pages.
    let page = 30_000;
    let pages: Vec<usize> = (0..text.len().div_ceil(page) + 2).collect();
    let launch = json!({ "agent": "kid", "name": "k", "task": "write", "async": false });
    let first = live.calls(&[("subagent", launch.clone())]).await.pop().unwrap();
    let shown = first.good();
    assert!(shown.len() <= 49_152 && shown.lines().count() <= 2_000, "{}", shown.len());
    assert!(shown.contains("\nthe beginning\n") && shown.contains("\nthe end\n"), "head and tail are there");
    assert!(!shown.contains('\u{fffd}'), "no character is cut");
    let omitted = shown.lines().find(|line| line.contains("bytes omitted")).unwrap();
    assert!(omitted.starts_with("… ") && omitted.ends_with(" bytes omitted …"), "{omitted}");
    let artifact = project.run_dir().join("artifacts/k/r1.md");
    let full = format!("  full output: {} (", artifact.display());
    assert!(shown.contains(&full), "{}", &shown[shown.len() - 600..]);
    assert_eq!(project.artifact("k", 1), text, "the file is the text, byte by byte");
    let next = first.details["results"][0]["text"]["nextOffset"].as_u64().unwrap();
    let more = format!("  more: subagent({{ action: \"collect\", name: \"k\", offset: {next} }})");
    assert!(shown.contains(&more), "{}", &shown[shown.len() - 600..]);
    // It was not read to its end: the boundary after the call tells of it.
    live.told("✓ k (kid) success").await;
    live.idle().await;
    assert_eq!(live.notices().await.len(), 1);

    // A second child, read to its end before the boundary.
    let mut offset = 0;
    let mut calls = vec![("subagent", json!({ "agent": "kid", "name": "k2", "task": "write", "async": false }))];
    for _ in &pages {
        calls.push(("subagent", json!({ "action": "collect", "name": "k2", "offset": offset, "limit": page })));
        let mut end = (offset + page).min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        offset = end;
    }
    let replies = live.calls(&calls).await;
    let mut whole = String::new();
    let mut ends = 0;
    for reply in &replies[1..] {
        let reply = reply.good();
        if reply == format!("end of result ({} bytes)", text.len()) {
            ends += 1;
            continue;
        }
        let body: Vec<&str> = reply
            .split_inclusive('\n')
            .take_while(|line| !line.contains(" bytes\n") && !line.ends_with(" bytes"))
            .collect();
        whole += &body.concat();
        // The line end between the page and its facts is the reader's.
        if !text.starts_with(&whole) {
            whole.pop();
        }
    }
    assert!(ends >= 1, "{}", replies.last().unwrap().text);
    assert_eq!(whole.len(), text.len());
    assert!(whole == text, "the pages are the text");
    live.idle().await;
    assert_eq!(live.notices().await.len(), 1, "what was read to its end is not announced");
    assert_eq!((live.model.of("k").len(), live.model.of("k2").len()), (1, 1), "no child ran again");

    // CAP-5, SUB-14 and the bad-input row.
    let both = live.subagent(json!({ "action": "collect", "names": ["k", "k2"], "offset": 0 })).await;
    assert_eq!(both.bad(), "✗ offset and limit need exactly one name");
    live.end().await;
}

/// CAP-6, LED-76, 09-T23 in a live session: a page at the end alone settles nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_page_alone_does_not_count_as_read() {
    let text = "0123456789 ".repeat(20_000);
    let project = Project::new();
    project.card("kid", KID);
    let script = json!({ "rules": [{ "turns": [{ "text": text }] }] }).to_string();
    let live = project.session(&script);
    let launch = json!({ "agent": "kid", "name": "k", "task": "write", "async": false });
    let tail = json!({ "action": "collect", "name": "k", "offset": 200_000, "limit": 30_000 });
    let replies = live.calls(&[("subagent", launch), ("subagent", tail)]).await;
    assert!(replies[1].good().ends_with("\n200000-220000 of 220000 bytes"), "{}", replies[1].text);
    let notice = live.told("✓ k (kid) success").await;
    assert!(notice.len() < 4_000, "NTC-9: at most 2000 characters of a result: {}", notice.len());
    live.end().await;
}

/// ORC-90, ORC-93, ORC-95, NTC-3, F15: an answer that a wait brought enters the parent's context once.
#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_was_waited_for_is_not_announced() {
    let project = Project::new();
    project.card("kid", KID);
    let live = project.session(HELD);
    launch(&live, &["a", "b"]).await;
    let release = || ["go-a", "go-b"].into_iter().for_each(|file| drop(project.file(file, "")));
    let (reply, _) = live.blocking("subagent", json!({ "action": "wait" }), release).await;
    assert!(reply.good().contains("\na is done") && reply.text.contains("\nb is done"), "{}", reply.text);
    live.idle().await;
    let retired = live.subagent(json!({ "action": "retire", "name": "a" })).await;
    assert_eq!(retired.good(), "a is already retired");
    let nothing = live.subagent(json!({ "action": "wait" })).await;
    assert_eq!(nothing.good(), "no active children");
    live.idle().await;
    let messages = live.messages().await;
    let seen = messages.iter().filter(|message| said(message).contains("a is done")).count();
    assert_eq!((seen, live.notices().await.len()), (1, 0), "once, in the result of the wait");

    // A collect on demand shows it again, since it was asked for, and announces nothing.
    let again = live.subagent(json!({ "action": "collect", "name": "b" })).await;
    assert!(again.good().contains("b is done"));
    live.idle().await;
    assert_eq!(live.notices().await, [""; 0]);
    live.end().await;
}

fn said(message: &Message) -> String {
    tests::legion_world::spoken(std::slice::from_ref(message))
}

/// ORC-96, MAIL-28 … MAIL-31, F20, part of 03-T15: a child's question reaches the parent that waits for it, as the result
/// of the wait.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiting_parent_gets_its_childs_question() {
    let project = Project::new();
    project.card("kid", KID);
    let live = project.session(
        r"
rules:
  - match: { request: 1 }
    turns:
      - calls:
          - tool: legion_mail
            arguments: { to: parent, kind: question, subject: Which one?, body: Left or right? }
  - match: { tool: legion_mail }
    turns: [{ untilFile: 'go-{{name}}', text: '{{name}} went left' }]
",
    );
    for action in ["wait", "collect"] {
        let name = format!("by-{action}");
        let reply = live
            .calls(&[
                ("subagent", json!({ "agent": "kid", "name": name, "task": "t" })),
                ("subagent", json!({ "action": action, "name": name, "timeoutMs": 15_000 })),
            ])
            .await
            .pop()
            .unwrap();
        let id = reply.details["mail"][0]["id"].as_u64().unwrap();
        let text = format!(
            "still running: {name}\nmail received (children still running)\n[legion mail #{id}] question from {name} (kid) · action-needed\nSubject: Which one?\n\nLeft or right?"
        );
        assert_eq!(reply.good(), text, "{action}");
        let facts =
            (&reply.details["mail"][0]["from"], &reply.details["mail"][0]["kind"], &reply.details["stillRunning"]);
        assert_eq!(facts, (&json!(name), &json!("question"), &json!([name])));

        project.file(&format!("go-{name}"), "");
        let reply = live.subagent(json!({ "action": action, "name": name })).await;
        assert!(reply.good().contains(&format!("{name} went left")), "{}", reply.text);
    }
    let delivered = until("both mails are seen in the transcript", async || {
        let mails = project.ledger().mails;
        mails.iter().all(|mail| mail["state"] == "DELIVERED").then_some(mails.len())
    });
    assert_eq!(delivered.await, 2);
    live.idle().await;
    assert_eq!(live.custom("legion-mail").await, [""; 0], "nothing is handed over twice");
    live.end().await;
}

/// ORC-97 … ORC-104, NTC-21, NTC-22, F8, part of 03-T14: ending the parent's turn ends its wait and nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_call_leaves_its_children_running() {
    let cases = [
        ("subagent", json!({ "action": "wait" }), "kid"),
        ("subagent", json!({ "action": "collect", "name": "a" }), "kid"),
        ("subagent", json!({ "agent": "kid", "name": "a", "task": "t", "async": false }), "kid"),
        ("vexillatio", json!({ "agent": "helper", "tasks": [{ "name": "a", "task": "t" }] }), "helper"),
    ];
    for (tool, call, agent) in cases {
        let project = Project::new();
        project.card("kid", KID);
        project.card("helper", "tools: read\nutility: true");
        let live = project.session(HELD);
        if call.get("action").is_some() {
            launch(&live, &["a"]).await;
        }
        let reply = live.interrupted(tool, call.clone()).await;
        let lines = reply.lines();
        let at = lines.iter().position(|line| *line == INTERRUPTED);
        assert!(at.is_some_and(|at| lines[at + 1..].contains(&"still running: a")), "{tool} {call}: {}", reply.text);
        assert_eq!(reply.details["interrupted"], true);

        let status = live.subagent(json!({ "action": "status" })).await;
        assert!(status.good().starts_with("Status · 1 live child\n"), "{}", status.text);
        project.file("go-a", "");
        let notice = live.told("a is done").await;
        assert!(notice.contains(&format!("\n✓ a ({agent}) success")), "{notice}");
        live.idle().await;
        assert_eq!(live.notices().await.len(), 1, "{tool} {call}");
        live.end().await;
        assert_eq!(project.ledger().events_of("a"), ["node_launched", "node_settled"]);
    }
}

/// ORC-113, ORC-116 … ORC-120, ORC-6, LINE-2, part of 03-T18, part of 09-T6: take-downs by name, names and all.
#[tokio::test(flavor = "multi_thread")]
async fn children_are_taken_down_by_name_names_and_all() {
    let project = Project::new();
    project.card("kid", KID);
    project.card("lead", "tools: read\nallowNestedSubagents: true");
    let live = project.session(
        r"
rules:
  - match: { role: lead, request: 1 }
    turns: [{ calls: [{ tool: subagent, arguments: { agent: kid, name: below, task: t } }] }]
  - match: { role: lead }
    turns: [{ text: I wait. }]
  - match: { request: 1 }
    turns: [{ silence: {}, text: never }]
",
    );
    let none = live.subagent(json!({ "action": "stop", "all": true })).await;
    assert_eq!(none.good(), "No live children");
    let unknown = live.subagent(json!({ "action": "stop", "name": "nobody" })).await;
    assert_eq!(unknown.bad(), "✗ nobody: unknown child 'nobody'");

    launch(&live, &["a", "b", "c", "d", "e"]).await;
    live.subagent(json!({ "agent": "lead", "name": "l", "task": "t" })).await.good();
    live.asked("below", 1).await;
    let unknown = live.subagent(json!({ "action": "collect", "name": "aa" })).await;
    assert_eq!(
        unknown.bad(),
        "✗ aa: unknown child 'aa'; known: a, b, c, d, e, l",
        "the nearest first, else as launched"
    );
    assert_eq!(unknown.details["children"][0]["error"]["code"], "NOT_FOUND");

    assert_eq!(live.subagent(json!({ "action": "retire", "name": "A" })).await.good(), "Retired a");
    assert_eq!(live.subagent(json!({ "action": "retire", "name": "a" })).await.good(), "a is already retired");
    let two = live.subagent(json!({ "action": "stop", "names": ["b", "nobody", "c"] })).await;
    let lines = two.lines();
    assert_eq!((lines[0], lines[2]), ("Stopped b", "Stopped c"));
    assert!(lines[1].starts_with("✗ nobody: unknown child 'nobody'; known: "), "{}", two.text);
    assert!(!two.is_error, "something was done");
    let force = live.subagent(json!({ "action": "stop", "name": "d", "force": true })).await;
    assert_eq!(force.good(), "Force-stopped d");

    let one_of = live.subagent(json!({ "action": "stop" })).await;
    assert_eq!(one_of.bad(), "✗ stop needs name, names or all: true");
    let all = live.subagent(json!({ "action": "stop", "all": true })).await;
    assert_eq!(all.good(), "Stopped e\nStopped l\n  also stopped: below");

    let ledger = project.ledger();
    for name in ["a", "b", "c", "d", "e", "l", "below"] {
        assert_eq!((ledger.state(name), ledger.events_of(name).last()), ("retired", Some(&"node_retired")), "{name}");
    }
    assert_eq!(live.host.core().sessions().len(), 1, "their sessions are gone");
    live.idle().await;
    assert_eq!(live.notices().await, [""; 0], "NTC-13");

    // ORC-14: the name is free again, and its node is the same.
    project.file("go-a", "");
    launch(&live, &["a"]).await;
    assert_eq!(project.ledger().nodes.iter().filter(|node| node["name"] == "a").count(), 1);
    live.subagent(json!({ "action": "stop", "name": "a" })).await.good();
    live.end().await;
}

/// STA-1 … STA-9, CMD-10, DIAG-less, part of 09-T11: what a session says of its children while they live and after.
#[tokio::test(flavor = "multi_thread")]
async fn status_and_list_tell_what_is_true() {
    let project = Project::new();
    project.card("kid", KID);
    let live = project.session(HELD);
    assert_eq!(live.subagent(json!({ "action": "status" })).await.good(), "No live children");
    assert!(project.is_untouched(), "looking makes nothing");
    launch(&live, &["a", "b"]).await;
    live.asked("a", 1).await;
    live.asked("b", 1).await;

    let status = live.subagent(json!({ "action": "status" })).await;
    let lines = status.lines();
    assert_eq!(lines[0], "Status · 2 live children");
    for name in ["a", "b"] {
        assert!(
            lines.iter().any(|line| line.ends_with(&format!("{name} (kid) state=working supervisor=inprocess"))),
            "{}",
            status.text
        );
    }
    assert_eq!(lines.iter().filter(|line| **line == "  owner: live").count(), 2, "{}", status.text);
    assert!(lines.contains(&"  model: scripted/echo"), "{}", status.text);
    assert_eq!((&status.details["live"], &status.details["dead"]), (&json!(2), &json!(0)));
    let one = live.subagent(json!({ "action": "status", "name": "a", "view": "transcript" })).await;
    assert!(!one.good().contains("b (kid)") && one.text.contains("\nuser: t"), "{}", one.text);

    project.file("go-a", "");
    live.told("a is done").await;
    live.idle().await;
    let status = live.subagent(json!({ "action": "status", "all": true })).await;
    let lines = status.lines();
    assert_eq!(lines[0], "Status · 1 live child");
    assert!(lines.contains(&"Dead · 1"), "{}", status.text);
    assert!(lines.iter().any(|line| line.ends_with("a (kid) state=settled supervisor=inprocess")), "{}", status.text);
    let unknown = live.subagent(json!({ "action": "status", "name": "zz" })).await;
    assert_eq!(unknown.bad(), "✗ unknown child 'zz'; known: a, b");

    let list = live.subagent(json!({ "action": "list" })).await;
    for role in ["centurion", "kid", "scout", "worker"] {
        assert!(list.good().lines().any(|line| line.contains(role)), "{role} in {}", list.text);
    }
    assert!(list.text.contains("b (kid)") || list.text.contains("b "), "{}", list.text);
    assert!(list.details["roles"].as_array().is_some_and(|roles| roles.len() == 4), "{}", list.details);
    live.subagent(json!({ "action": "stop", "all": true })).await.good();
    live.end().await;
}

/// LTL-3: a child's own view of the tree ends at itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_child_sees_its_own_subtree_alone() {
    let project = Project::new();
    project.card("kid", KID);
    let live = project.session(
        r"
rules:
  - match: { name: nosy }
    turns:
      - calls:
          - { tool: legion_tree, arguments: {} }
          - { tool: legion_tree, arguments: { node: other } }
          - { tool: legion_tree, arguments: { node: root } }
          - { tool: legion_tree, arguments: { noed: root } }
      - text: seen
  - turns: [{ silence: {}, text: never }]
",
    );
    launch(&live, &["other", "nosy"]).await;
    live.subagent(json!({ "action": "wait", "name": "nosy" })).await.good();
    let seen: Vec<Reply> = results(&project.transcript("nosy"));
    assert_eq!(seen[0].good(), "● nosy (kid) running scripted/echo");
    assert_eq!(seen[1].bad(), "✗ node 'other' is outside your subtree");
    assert_eq!(seen[2].bad(), "✗ node 'root' is outside your subtree");
    assert_eq!(seen[3].bad(), "✗ unknown parameter 'noed'; did you mean 'node'?");
    live.subagent(json!({ "action": "stop", "all": true })).await.good();
    live.end().await;
}

/// ORC-73, ORC-92, ORC-95, NTC-7: several calls on one child at once are safe.
#[tokio::test(flavor = "multi_thread")]
async fn calls_on_one_child_do_not_get_in_each_others_way() {
    let project = Project::new();
    project.card("kid", KID);
    let live = project.session(HELD);
    launch(&live, &["a", "b", "c"]).await;
    let both =
        |first: Value, second: Value| json!([{ "calls": [["subagent", first], ["subagent", second]] }]).to_string();
    let run = async |prompt: String| {
        let before = results(&live.messages().await).len();
        let run = live.host.run_prompt(&prompt);
        tests::legion_world::within("both calls end", run).await.expect("the prompt is taken");
        results(&live.messages().await).split_off(before)
    };
    // Two that wait get the same, and it is not announced.
    let calls = both(json!({ "action": "wait", "name": "a" }), json!({ "action": "collect", "name": "a" }));
    project.file("go-a", "");
    let replies = run(calls).await;
    assert!(replies.iter().all(|reply| reply.good().contains("a is done")), "{replies:#?}");
    // A stop wins over a wait, and two stops are one.
    let replies = run(both(json!({ "action": "wait", "name": "b" }), json!({ "action": "stop", "name": "b" }))).await;
    assert!(replies[0].text.starts_with("■ b (kid) aborted ("), "{replies:#?}");
    assert_eq!(replies[1].good(), "Stopped b");
    let replies = run(both(json!({ "action": "stop", "name": "c" }), json!({ "action": "retire", "name": "c" }))).await;
    let texts: Vec<&str> = replies.iter().map(Reply::good).collect();
    assert!(
        ["Stopped c", "c is already retired"].contains(&texts[0])
            && ["Retired c", "c is already retired"].contains(&texts[1]),
        "{texts:?}"
    );
    let ledger = project.ledger();
    assert_eq!(ledger.events_of("b"), ["node_launched", "node_retired"]);
    assert_eq!(ledger.events_of("c"), ["node_launched", "node_retired"]);
    // One of two launches of one name is refused.
    let name = || json!({ "agent": "kid", "name": "twin", "task": "t" });
    let replies = run(both(name(), name())).await;
    let started = replies.iter().filter(|reply| !reply.is_error && reply.text.starts_with("▶ twin")).count();
    let taken = replies.iter().filter(|reply| reply.text == "✗ twin: child is already alive: 'twin'").count();
    assert_eq!((started, taken), (1, 1), "{replies:#?}");
    live.subagent(json!({ "action": "stop", "all": true })).await.good();
    live.idle().await;
    assert!(live.notices().await.len() <= 1, "of a at most, which may have ended before its waits began");
    live.end().await;
}
