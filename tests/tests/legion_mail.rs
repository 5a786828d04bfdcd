//! Mail through the real tool: limits, recipients, delivery, and what becomes of mail to those who end (part 08).

use serde_json::{Value, json};
use tests::legion_world::{Live, Project, Reply, custom, results, spoken, transcript, until};

async fn launch(live: &Live, names: &[&str]) {
    let tasks: Vec<Value> = names.iter().map(|name| json!({ "name": name, "task": "t" })).collect();
    live.subagent(json!({ "agent": "kid", "tasks": tasks })).await.good();
}

async fn wait_for(live: &Live, name: &str) -> Reply {
    live.subagent(json!({ "action": "collect", "name": name })).await
}

fn mail(to: &str, subject: &str, body: &str) -> Value {
    json!({ "tool": "legion_mail", "arguments": { "to": to, "subject": subject, "body": body } })
}

/// A script in which the child `from` makes these calls one after the other, and `more` rules play the others.
fn sends(from: &str, calls: &[Value], more: &[Value]) -> String {
    let turns: Vec<Value> =
        calls.iter().map(|call| json!({ "calls": [call] })).chain([json!({ "text": "sent" })]).collect();
    let rule = json!({ "match": { "name": from }, "turns": turns });
    let rules: Vec<&Value> = [&rule].into_iter().chain(more).collect();
    json!({ "rules": rules }).to_string()
}

/// MAIL-4 … MAIL-9, LTL-1, part of 08-T2, the mail rows of 09's bad input: what is refused is not written, and
/// the sender is told why.
#[tokio::test(flavor = "multi_thread")]
async fn mail_is_refused_beyond_its_limits() {
    let project = Project::new();
    project.card("kid", "tools: read");
    project.settings(json!({ "legion": { "mailRatePer5Min": 3 } }));
    let long = "x".repeat(5_000);
    let calls = [
        mail("children", "hello", "nobody is below"),
        mail("squad", "hello", "nobody is beside"),
        mail("parent", "", "b"),
        mail("parent", "s", " "),
        mail("parent", &"s".repeat(257), "b"),
        mail("parent", "s", &"b".repeat(32_769)),
        mail("parent", "Redelivered: mine", "b"),
        mail("parent", "s", "null \u{0} byte"),
        json!({ "tool": "legion_mail", "arguments": { "to": "parent", "subject": "s", "body": "b", "urgent": true } }),
        json!({ "tool": "legion_mail", "arguments": { "to": "mother", "subject": "s", "body": "b" } }),
        mail("parent", "long", &long),
        mail("parent", "two\nlines", "b"),
        mail("parent", "third", "b"),
        mail("parent", "fourth", "b"),
    ];
    let live = project.session(&sends("k", &calls, &[]));
    launch(&live, &["k"]).await;
    until("k is done", async || (live.model.of("k").len() == calls.len() + 1).then_some(())).await;
    live.told("✓ k (kid) success").await;
    let said = results(&project.transcript("k"));
    let refusals = [
        ("no live recipient for 'children'", "MAIL_NO_RECIPIENT"),
        ("no live recipient for 'squad'", "MAIL_NO_RECIPIENT"),
        ("mail subject must not be empty", "MAIL_INVALID_TEXT"),
        ("mail body must not be empty", "MAIL_INVALID_TEXT"),
        ("mail subject is 257 bytes; the limit is 256", "MAIL_SUBJECT_TOO_LONG"),
        ("mail body is 32769 bytes; the limit is 32768 — write it to a file and send the path", "MAIL_BODY_TOO_LARGE"),
        ("subject must not start with 'Redelivered: ': reserved for the platform", "MAIL_RESERVED_SUBJECT"),
        ("mail text must not contain U+0000", "MAIL_INVALID_TEXT"),
        ("unknown parameter 'urgent'; did you mean 'urgency'?", "INVALID_PARAMS"),
    ];
    for (reply, (text, code)) in said.iter().zip(refusals) {
        assert_eq!((reply.bad(), &reply.details["error"]["code"]), (format!("✗ {text}").as_str(), &json!(code)));
    }
    assert!(said[9].bad().contains("to"), "the host's own check: {}", said[9].text);
    let warning = "warning: body is 5000 bytes; keep mails under 4096 bytes and put long material in a file";
    assert_eq!(said[10].good(), format!("sent #1 to root\n{warning}"));
    assert_eq!((said[11].good(), said[12].good()), ("sent #2 to root", "sent #3 to root"));
    let limited = said[13].bad();
    assert!(
        limited.starts_with("✗ mail rate limit reached (3/3 in 5 minutes); retry in ") && limited.ends_with('s'),
        "{limited}"
    );
    let ledger = project.ledger();
    let subjects: Vec<&str> = ledger.mails.iter().filter_map(|mail| mail["subject"].as_str()).collect();
    assert_eq!((subjects, ledger.count("mail_sent")), (vec!["long", "two lines", "third"], 3));
    live.end().await;
}

/// MAIL-3, MAIL-18 … MAIL-23: siblings, lead and team reach each other while they work, each
/// mail is handed over once and confirmed from the transcript.
#[tokio::test(flavor = "multi_thread")]
async fn siblings_and_teams_mail_each_other() {
    let project = Project::new();
    project.card("kid", "tools: read");
    project.card("lead", "tools: read\nallowNestedSubagents: true");
    let live = project.session(
        r"
rules:
  - match: { name: speaker }
    turns:
      - { barrier: { name: ready, count: 3 }, calls: [{ tool: legion_mail, arguments: { to: squad, subject: news, body: 'The door is open.' } }] }
      - { text: 'told: {{last_result}}' }
  - match: { name: [left, right], request: 1 }
    turns: [{ barrier: { name: ready, count: 3 }, untilFile: go, text: '{{name}} has heard nothing yet' }]
  - match: { name: [left, right], prompt: 'news' }
    turns: [{ text: '{{name}} heard [{{prompt | /The door.*/}}] from {{prompt | /from (\w+)/}}' }]

  - match: { role: lead, request: 1 }
    turns: [{ calls: [{ tool: subagent, arguments: { agent: kid, name: below, task: t } }] }]
  - match: { role: lead, request: 2 }
    turns: [{ calls: [{ tool: legion_mail, arguments: { to: children, subject: order, body: 'Come back.' } }] }]
  - match: { name: below, request: 1 }
    turns: [{ untilFile: go, text: below has no orders }]
  - match: { name: below, prompt: 'order' }
    turns: [{ text: 'below obeys' }]
otherwise: { text: 'otherwise: {{prompt}}' }
",
    );
    launch(&live, &["speaker", "left", "right"]).await;
    // A lead that was there already would be of the squad.
    until("the squad has mail", async || (project.ledger().mails.len() == 2).then_some(())).await;
    live.subagent(json!({ "agent": "lead", "name": "l", "task": "t" })).await.good();
    // All mail is in the sessions of its recipients before they may end.
    until("the mail is handed over", async || {
        let accepted = project.ledger().mails.iter().filter(|mail| mail["state"] == "ACCEPTED").count();
        (accepted == 3).then_some(())
    })
    .await;
    project.file("go", "");
    let reply = live.subagent(json!({ "action": "wait" })).await;
    live.idle().await;
    let told = format!("{}\n{}", reply.good(), live.notices().await.join("\n"));
    for text in [
        "left heard [The door is open.] from speaker",
        "right heard [The door is open.] from speaker",
        "told: sent #",
        "below obeys",
    ] {
        assert!(told.contains(text), "{text} in\n{told}");
    }
    let mails = until("all mail is confirmed", async || {
        let mails = project.ledger().mails;
        mails.iter().all(|mail| mail["state"] == "DELIVERED").then_some(mails)
    })
    .await;
    let pairs: Vec<(&str, &str)> =
        mails.iter().filter_map(|mail| Some((mail["from"].as_str()?, mail["to"].as_str()?))).collect();
    assert_eq!(pairs.len(), 3);
    for pair in [("root/speaker", "root/left"), ("root/speaker", "root/right"), ("root/l", "root/l/below")] {
        assert!(pairs.contains(&pair), "{pair:?} in {pairs:?}");
    }
    for name in ["left", "right"] {
        let spoken = spoken(&project.transcript(name));
        assert_eq!(spoken.matches("Subject: news").count(), 1, "{name} got it once");
    }
    live.end().await;
}

/// MAIL-3, MAIL-4, MAIL-12, MAIL-23: who has ended gets no mail, and what had been handed to one that ends unread bounces.
#[tokio::test(flavor = "multi_thread")]
async fn mail_to_those_who_end_bounces() {
    let project = Project::new();
    project.card("kid", "tools: read");
    let live = project.session(&sends(
        "speaker",
        &[mail("squad", "news", "The door is open."), mail("squad", "more", "It is shut again.")],
        &[
            json!({ "match": { "name": "deaf" }, "turns": [{ "silence": {}, "text": "never" }] }),
            json!({ "match": { "name": "gone" }, "turns": [{ "text": "done" }] }),
        ],
    ));
    launch(&live, &["gone"]).await;
    live.told("✓ gone (kid) success").await;
    launch(&live, &["deaf"]).await;
    live.asked("deaf", 1).await;
    launch(&live, &["speaker"]).await;
    wait_for(&live, "speaker").await.good();
    let mails = until("the mail is handed over", async || {
        let mails = project.ledger().mails;
        mails.iter().all(|mail| mail["state"] == "ACCEPTED").then_some(mails)
    })
    .await;
    assert!(mails.len() == 2 && mails.iter().all(|mail| mail["to"] == "root/deaf"), "gone has ended: {mails:#?}");
    live.subagent(json!({ "action": "stop", "name": "deaf" })).await.good();
    let ledger = until("it bounces", async || {
        let ledger = project.ledger();
        ledger.mails.iter().all(|mail| mail["state"] == "BOUNCED").then_some(ledger)
    })
    .await;
    assert_eq!(ledger.count("mail_bounced"), 2);
    live.end().await;
}

/// MAIL-20, 08 §8: an idle root is woken by what needs an answer; the rest waits for its next turn.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_root_is_woken_by_urgent_mail() {
    let project = Project::new();
    project.card("kid", "tools: read");
    let question = json!({ "tool": "legion_mail",
        "arguments": { "to": "parent", "kind": "question", "subject": "which", "body": "Left or right?" } });
    let hold = json!({ "match": { "request": 2 }, "turns": [{ "untilFile": "ask", "calls": [question] }] });
    let note = mail("parent", "note", "Just so you know.");
    let script = json!({ "rules": [
        { "match": { "request": 1 }, "turns": [{ "calls": [note] }] }, hold,
        { "turns": [{ "untilFile": "go", "text": "done" }] },
    ] });
    let live = project.session(&script.to_string());
    launch(&live, &["k"]).await;
    live.told("Subject: note").await;
    live.idle().await;
    let before = live.root.requests().len();
    project.file("ask", "");
    live.told("Subject: which").await;
    until("the root is asked", async || (live.root.requests().len() == before + 1).then_some(())).await;
    live.idle().await;
    assert_eq!(live.custom("legion-mail").await.len(), 2);
    let request = live.root.requests().pop().unwrap();
    assert_eq!(custom(&request.messages, "legion-mail").len(), 2, "the note came along");
    live.subagent(json!({ "action": "stop", "all": true })).await.good();
    live.end().await;
}

/// MAIL-30, LINE-11, MODE-3, NTC-4: much mail at once comes in pieces, in order, all of it and each once.
#[test]
fn a_flood_of_mail_arrives_whole() {
    let project = Project::new();
    project.card("kid", "tools: read");
    let session = project.world.home().join("session.jsonl");
    let filler = "x".repeat(29_000);
    let letter = |n: u32| {
        let body = format!("letter {n} of {{{{name}}}}\n{filler}");
        json!({ "calls": [{ "tool": "legion_mail", "arguments": { "to": "parent", "subject": "long", "body": body } }] })
    };
    let tasks: Vec<Value> = (0..4).map(|n| json!({ "name": format!("k{n}"), "task": "t" })).collect();
    let launch = json!({ "calls": [{ "tool": "subagent", "arguments": { "agent": "kid", "tasks": tasks } }] });
    let script = json!({ "rules": [
        { "match": { "role": "root", "request": 1 }, "turns": [launch] },
        { "match": { "role": "root" }, "repeat": "last", "turns": [{ "text": "Read." }] },
        { "turns": [letter(1), letter(2), letter(3), { "text": "{{name}} is done" }] },
    ] });
    let ended = project.run("go", &script.to_string(), &["--session", session.to_str().unwrap()]);
    assert_eq!((ended.code, ended.err.as_str(), ended.out.as_str()), (Some(0), "", "Read.\n"));
    let messages = transcript(&session);
    let last = messages.iter().rposition(|message| spoken(std::slice::from_ref(message)) == "Read.").unwrap();
    let told = spoken(&messages[..last]);
    for name in ["k0", "k1", "k2", "k3"] {
        let at = [1, 2, 3].map(|n| {
            let found: Vec<usize> = told.match_indices(&format!("letter {n} of {name}\n")).map(|(at, _)| at).collect();
            assert_eq!(found.len(), 1, "letter {n} of {name}");
            found[0]
        });
        assert!(at.is_sorted(), "{name}: {at:?}");
        assert_eq!(told.matches(&format!("\n{name} is done")).count(), 1);
    }
    assert!(project.ledger().mails.iter().all(|mail| mail["state"] == "DELIVERED"));
}
