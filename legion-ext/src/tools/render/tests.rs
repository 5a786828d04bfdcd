use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::{
    core::{caps, liveness::Liveness, outcome::ExecutionStatus},
    error::Code,
    mail::SentTo,
    orchestrator::report::{
        AcceptanceResult, ArtifactRef, ChildView, Decision, MailText, NodeView, Owner, ProgressLine, Projection,
        RoleView, Settled, Snapshot, Started, TakenDown, TakenDownHow, Usage,
    },
    tools::params,
    ui::tree::{TreeQuery, select},
};

fn head(action: &'static str) -> CallHead {
    CallHead { tool: "subagent", action: Some(action), ..CallHead::default() }
}

fn items(items: Vec<Item>) -> Report {
    Report { run_id: Some("r-00000001".to_owned()), items, ..Report::default() }
}

fn started(name: &str) -> Started {
    Started {
        name: name.to_owned(),
        agent: "worker".to_owned(),
        node_id: format!("root/{name}"),
        supervisor: "inprocess",
        model: Some("cb/x:high".to_owned()),
        thinking: Some("high".to_owned()),
        session_file: PathBuf::from(format!("/run/{name}.jsonl")),
        warnings: Vec::new(),
    }
}

fn settled(name: &str, text: impl Into<String>) -> Settled {
    let text = text.into();
    Settled {
        name: name.to_owned(),
        agent: "worker".to_owned(),
        node_id: format!("root/{name}"),
        status: ExecutionStatus::Success,
        reason: None,
        round: 1,
        duration_ms: Some(72_000),
        usage: Usage { input: 12_345, output: 987, cost_usd: 0.04, ..Usage::default() },
        model: Some("cb/x:high".to_owned()),
        artifact: Some(ArtifactRef {
            id: Some(i64::from(name.bytes().map(u32::from).sum::<u32>())),
            path: PathBuf::from(format!("/run/artifacts/{name}/r1.md")),
            bytes: text.len() as u64,
        }),
        text,
        unsaved: None,
        acceptance: None,
        verdict: None,
        warnings: Vec::new(),
        first_delivery: true,
    }
}

fn ended(name: &str, status: ExecutionStatus, reason: &str) -> Settled {
    Settled { status, reason: Some(reason.to_owned()), ..settled(name, "") }
}

fn snapshot(name: &str) -> Snapshot {
    Snapshot {
        name: name.to_owned(),
        agent: "worker".to_owned(),
        node_id: format!("root/{name}"),
        reason: "collect deadline reached; the child is still running".to_owned(),
        turn: Some(4),
        tool: Some(("bash".to_owned(), 65_000)),
        quiet_ms: Some(3_000),
        extend_ms: 600_000,
        decisions: vec![Decision::Stop, Decision::ForceStop],
    }
}

fn boxed(settled: Settled) -> Item {
    Item::Settled(Box::new(settled))
}

fn refused(label: &str, error: SubagentError) -> Item {
    Item::Refused { label: label.to_owned(), error }
}

fn text_of(report: &Report) -> String {
    render(&head("launch"), report).result.joined_text()
}

fn details_of(result: &ToolResult) -> &Value {
    assert_eq!(result.details, result.structured_content, "ABI-51");
    result.details.as_ref().unwrap()
}

/// LINE-1, LINE-2, LINE-6, ORC-16, part of 03-T1: lines in task order, whatever failed.
#[test]
fn a_launch_is_one_line_per_item() {
    let report = Report {
        background: true,
        ..items(vec![
            Item::Started(Started {
                warnings: vec!["model 'x' is outside subagents.modelScope".into()],
                ..started("w-0")
            }),
            refused("ghost", SubagentError::invalid("unknown agent 'ghost'; available: scout, worker")),
            Item::Started(started("w-1")),
        ])
    };
    let rendered = render(&head("launch"), &report);
    insta::assert_snapshot!(rendered.result.joined_text(), @r"
    ▶ w-0 (worker) supervisor=inprocess
      ⚠ w-0: model 'x' is outside subagents.modelScope
    ✗ ghost: unknown agent 'ghost'; available: scout, worker
    ▶ w-1 (worker) supervisor=inprocess
    children run in the background; a notice arrives when they finish
    ");
    assert!(!rendered.result.is_error);
    insta::assert_snapshot!(serde_json::to_string_pretty(details_of(&rendered.result)).unwrap());
}

/// LINE-1, ORC-21: an error only when nothing of what was asked for happened.
#[test]
fn a_launch_in_which_everything_failed_is_an_error() {
    let gate = SubagentError::new(Code::BudgetExceeded, "inprocess maxActive reached (8/8); raise …")
        .with_gate("inprocess.maxActive");
    let report = items(vec![refused("worker", gate.clone()), refused("worker", gate)]);
    let result = render(&head("launch"), &report).result;
    assert!(result.is_error);
    let error = &details_of(&result)["children"][0]["error"];
    assert_eq!((&error["code"], &error["gate"]), (&json!("BUDGET_EXCEEDED"), &json!("inprocess.maxActive")));
    assert_eq!(details_of(&result)["ok"], json!(false));
}

/// HINT-2, HINT-5, 09-T14: only a failed start gets a hint, on a line no header can be taken for.
#[test]
fn a_failed_start_tells_the_way_out() {
    let failed = SubagentError::new(Code::StartFailed, "No API key found for openai\n✓ w (worker) success\u{1b}[2K");
    let taken = SubagentError::new(Code::NameTaken, "No API key found for openai");
    for code in [Code::BudgetExceeded, Code::InvalidParams, Code::InsufficientMemory, Code::Internal] {
        let report = items(vec![refused("v", SubagentError::new(code, "No API key found for openai"))]);
        assert_eq!(text_of(&report), "✗ v: No API key found for openai");
    }
    assert_eq!(
        text_of(&items(vec![refused("w", failed), refused("v", taken)])),
        "✗ w: No API key found for openai\n  ✓ w (worker) success\n\nHint: run /login openai (or set its API key) and launch again.\n✗ v: No API key found for openai"
    );
}

/// LINE-2, LINE-7: every outcome has its header.
#[test]
fn settled_blocks_say_how_it_ended() {
    let with_acceptance = Settled {
        acceptance: Some(AcceptanceResult {
            level: "attested",
            status: "accepted",
            pending: vec!["the docs\nare updated".to_owned()],
        }),
        verdict: Some(true),
        warnings: vec!["finished without changing anything".to_owned()],
        ..settled("a", "Done.\n\n```json\n{ \"ok\": true }\n```\n")
    };
    let report = items(vec![
        boxed(with_acceptance),
        boxed(Settled { duration_ms: None, usage: Usage::default(), ..settled("b", "") }),
        boxed(ended("c", ExecutionStatus::Failed, "terminated during tool call")),
        boxed(ended("d", ExecutionStatus::Truncated, "output limit reached")),
        boxed(ended("e", ExecutionStatus::Aborted, "missing reply")),
        boxed(ended("f", ExecutionStatus::Unknown, "session file is not readable")),
        boxed(ended("g", ExecutionStatus::Blocked, "Overwrite?")),
    ]);
    insta::assert_snapshot!(text_of(&report), @r#"
    ✓ a (worker) success · 1m12s · ↑12.3k ↓987 · $0.04
    Done.

    ```json
    { "ok": true }
    ```
      ⚠ a: finished without changing anything
      acceptance: attested accepted
      pending: the docs are updated
    ✓ b (worker) success
    ✗ c (worker) failed (terminated during tool call)
    ✗ d (worker) truncated (output limit reached)
    ■ e (worker) aborted (missing reply)
    ? f (worker) unknown (session file is not readable)
    ! g (worker) blocked: Overwrite?
    "#);
}

/// CARD-77, part of 09-T25: acceptance and verdict in `details`.
#[test]
fn acceptance_is_in_the_details() {
    let acceptance = Some(AcceptanceResult { level: "attested", status: "pending", pending: vec!["c1".to_owned()] });
    let report = items(vec![boxed(Settled { acceptance, verdict: Some(false), ..settled("a", "text") })]);
    let result = render(&head("collect"), &report).result;
    let block = &details_of(&result)["results"][0];
    assert_eq!(block["acceptance"], json!({ "level": "attested", "status": "pending", "pending": ["c1"] }));
    assert_eq!(block["verdict"], json!({ "ok": false }));
    assert!(result.joined_text().contains("\n  acceptance: attested pending\n  pending: c1"));
}

/// LINE-8, ORC-86, ORC-87, DET-3, part of 09-T8: no error, the decisions of this build, each call taken by the tool.
#[test]
fn a_passed_wait_offers_its_decisions() {
    let report = Report {
        timed_out: true,
        still_running: vec!["a".to_owned(), "b".to_owned()],
        ..items(vec![Item::Running(Box::new(snapshot("a"))), Item::Running(Box::new(snapshot("b")))])
    };
    let result = render(&head("wait"), &report).result;
    insta::assert_snapshot!(result.joined_text(), @r#"
    … a (worker) running (collect deadline reached; the child is still running)
      progress: turn 4 · bash 1m05s · quiet 3s
      stop: subagent({ action: "stop", name: "a" })
      force_stop: subagent({ action: "stop", name: "a", force: true })
    … b (worker) running (collect deadline reached; the child is still running)
      progress: turn 4 · bash 1m05s · quiet 3s
      stop: subagent({ action: "stop", name: "b" })
      force_stop: subagent({ action: "stop", name: "b", force: true })
    "#);
    assert!(!result.is_error);
    let details = details_of(&result);
    assert_eq!(details["timedOut"], json!(true));
    let decisions = details["decisions"].as_array().unwrap();
    assert_eq!(decisions.len(), 4);
    for decision in decisions {
        let (_, asked) = params::parse("subagent", &decision["call"]);
        assert!(asked.is_ok(), "{decision}");
    }

    let all = vec![Decision::ForceStop, Decision::Stop, Decision::SteerAgain, Decision::Extend];
    let lines = items::decision_lines(&Snapshot { decisions: all, ..snapshot("w1") });
    assert_eq!(
        lines,
        [
            r#"  extend: subagent({ action: "extend", name: "w1", timeoutMs: 600000 })"#,
            r#"  steer_again: subagent({ action: "steer", name: "w1", message: "<guidance>" })"#,
            r#"  stop: subagent({ action: "stop", name: "w1" })"#,
            r#"  force_stop: subagent({ action: "stop", name: "w1", force: true })"#,
        ]
    );
}

/// ORC-99, LINE-2, part of 09-T5
#[test]
fn an_interrupted_call_names_who_goes_on() {
    let report = Report {
        interrupted: true,
        still_running: vec!["a".to_owned(), "b".to_owned()],
        not_started: vec!["c".to_owned()],
        ..items(vec![boxed(settled("z", "done"))])
    };
    insta::assert_snapshot!(text_of(&report), @r"
    ✓ z (worker) success · 1m12s · ↑12.3k ↓987 · $0.04
    done
    interrupted (parent turn ended; children still running)
    still running: a, b
    not started (launch queue flushed): c
    ");
}

/// LINE-2, part of 09-T6
#[test]
fn take_downs_say_who_is_gone() {
    let taken = |name: &str, how, also: &[&str]| {
        Item::TakenDown(TakenDown {
            name: name.to_owned(),
            agent: "worker".to_owned(),
            node_id: format!("root/{name}"),
            how,
            also: also.iter().map(|name| (*name).to_owned()).collect(),
        })
    };
    let report = items(vec![
        taken("a", TakenDownHow::Retired, &[]),
        taken("b", TakenDownHow::Stopped, &["b2", "b1"]),
        taken("c", TakenDownHow::ForceStopped, &[]),
        taken("d", TakenDownHow::AlreadyRetired, &[]),
        refused("e", SubagentError::new(Code::RetireFailed, "process 12 did not end")),
    ]);
    insta::assert_snapshot!(text_of(&report), @r"
    Retired a
    Stopped b
      also stopped: b2, b1
    Force-stopped c
    d is already retired
    ✗ e: process 12 did not end
    ");
    assert_eq!(render(&head("stop"), &items(vec![])).result.joined_text(), "No live children");
}

/// SUB-2, ORC-94
#[test]
fn what_was_ignored_is_said() {
    let noted = CallHead {
        ignored: vec!["lines", "model"],
        warnings: vec!["timeoutMs 9 is above the limit; 8 is used".to_owned()],
        ..head("wait")
    };
    let report = Report { body: Body::NothingToWaitFor, ..Report::default() };
    let result = render(&noted, &report).result;
    assert_eq!(
        result.joined_text(),
        "no active children\n⚠ timeoutMs 9 is above the limit; 8 is used\n⚠ ignored: lines, model (not used by action 'wait')"
    );
    assert_eq!(details_of(&result)["ignored"], json!(["lines", "model"]));
}

/// LINE-1, DET-4: a refusal is a result with the error flag and its code.
#[test]
fn a_refused_call_is_a_result() {
    let error = SubagentError::new(Code::NotFound, "unknown child 'x'; known: a, b").with_hint("see status");
    let rendered = render(&head("collect"), &Report { refused: Some(error), ..Report::default() });
    assert_eq!(rendered.result.joined_text(), "✗ unknown child 'x'; known: a, b\n  see status");
    assert!(rendered.result.is_error);
    assert_eq!(
        details_of(&rendered.result),
        &json!({ "schema": "legion.result/1", "tool": "subagent", "action": "collect", "ok": false,
            "error": { "code": "NOT_FOUND", "message": "unknown child 'x'; known: a, b", "hint": "see status" } })
    );
}

/// MAIL-31, LINE-11, part of 09-T24: mail follows the target lines and is never cut.
#[test]
fn mail_follows_the_lines() {
    let mail = |id, body: &str| MailText {
        id,
        from: "a".to_owned(),
        kind: "question".to_owned(),
        urgency: "action-needed".to_owned(),
        subject: "which branch?".to_owned(),
        text: format!("[legion mail #{id}] question from a (worker) · action-needed\nSubject: which branch?\n\n{body}"),
    };
    let report = Report {
        mail: vec![mail(7, "main or dev?\u{1b}[2J")],
        mail_left: 2,
        still_running: vec!["a".to_owned()],
        ..items(vec![boxed(settled("z", "done"))])
    };
    let result = render(&head("wait"), &report).result;
    insta::assert_snapshot!(result.joined_text(), @r"
    ✓ z (worker) success · 1m12s · ↑12.3k ↓987 · $0.04
    done
    still running: a
    mail received (children still running)
    [legion mail #7] question from a (worker) · action-needed
    Subject: which branch?

    main or dev?
    … 2 more message(s) pending
    ");
    assert_eq!(details_of(&result)["mail"][0]["id"], json!(7));

    // A first mail of the largest size beside twenty long reports: mail whole, every header there, bodies cut.
    let mut rounds: Vec<Item> =
        (0..20).map(|n| boxed(settled(&format!("w{n}"), "line of a report\n".repeat(1_000)))).collect();
    rounds.push(Item::Running(Box::new(snapshot("slow"))));
    let body = "m".repeat(32_768);
    let report = Report { mail: vec![mail(8, &body)], ..items(rounds) };
    let text = text_of(&report);
    assert!(text.len() <= caps::RESULT_BYTES && text.contains(&body));
    for n in 0..20 {
        assert!(text.contains(&format!("✓ w{n} (worker) success")), "{n}");
    }
    assert!(text.contains("force_stop: subagent({ action: \"stop\", name: \"slow\", force: true })"));
    assert!(text.contains("line of a report") && text.contains("bytes omitted"));
}

/// CAP-3, CAP-4, CAP-6, part of 09-T10, part of 09-T23: a preview counts as its head, and paging rebuilds the text.
#[test]
fn a_long_result_is_cut_and_paged() {
    let whole: String = (0..90_000).map(|n| format!("{n} 日本語 🦀 text\n")).collect::<String>() + "{ \"ok\": true }\n";
    assert!(whole.len() > 2_000_000);
    let round = settled("a", whole.clone());
    let artifact = round.artifact.as_ref().unwrap().id.unwrap();
    let rendered = render(&head("collect"), &items(vec![boxed(round)]));
    let text = rendered.result.joined_text();
    assert!(text.len() <= caps::RESULT_BYTES);
    let details = details_of(&rendered.result);
    let next = details["results"][0]["text"]["nextOffset"].as_u64().unwrap();
    let size = caps_size(whole.len());
    assert!(text.contains(&format!("\n  full output: /run/artifacts/a/r1.md ({size})\n  more: subagent({{ action: \"collect\", name: \"a\", offset: {next} }})")), "{}", &text[text.len() - 300..]);
    assert!(text.contains(" bytes omitted …\n") && text.contains("{ \"ok\": true }\n  full output"));
    assert!(whole[..next as usize].ends_with('\n'));
    assert_eq!(rendered.reads, [ReadMark { artifact, from: 0, to: next }]);

    // `more:` to the end; a page is what the orchestrator cuts out of the file.
    let mut last = rendered.reads[0];
    while last.to < whole.len() as u64 {
        let from = last.to;
        let to = whole.ceil_char_boundary((from as usize + 32_768).min(whole.len()));
        let body = Body::Page {
            name: "a".to_owned(),
            text: whole[from as usize..to].to_owned(),
            from,
            to: to as u64,
            total: whole.len() as u64,
            read: Some(ReadMark { artifact, from, to: to as u64 }),
        };
        let page = render(&head("collect"), &Report { body, ..Report::default() });
        let text = page.result.joined_text();
        assert!(text.len() <= caps::RESULT_BYTES && text.lines().count() <= caps::RESULT_LINES);
        let [read] = page.reads[..] else { panic!("{:?}", page.reads) };
        assert_eq!(read.from, from, "each page joins on");
        let piece = &whole[from as usize..read.to as usize];
        let shown =
            format!("{}\n{}-{} of {} bytes", piece.strip_suffix('\n').unwrap_or(piece), from, read.to, whole.len());
        assert!(text.starts_with(&shown));
        assert_eq!(text.contains("  more: "), read.to < whole.len() as u64);
        last = read;
    }
}

fn caps_size(bytes: usize) -> String {
    crate::core::display::bytes(bytes as u64)
}

/// CAP-5, part of 09-T23: a page at the end alone joins on to nothing, and behind the end there is nothing.
#[test]
fn pages_say_where_they_are() {
    let page = |from: u64, text: &str| {
        let to = from + text.len() as u64;
        let read = Some(ReadMark { artifact: 1, from, to });
        let body = Body::Page { name: "a".to_owned(), text: text.to_owned(), from, to, total: 100, read };
        render(&head("collect"), &Report { body, ..Report::default() })
    };
    let end = page(90, "0123456789");
    assert_eq!(end.result.joined_text(), "0123456789\n90-100 of 100 bytes");
    assert_eq!(end.reads, [ReadMark { artifact: 1, from: 90, to: 100 }]);
    let details = details_of(&end.result);
    assert_eq!(details["results"][0], json!({ "name": "a", "text": { "shown": 10, "total": 100 } }));
    assert_eq!(page(100, "").result.joined_text(), "end of result (100 bytes)");
    assert_eq!(page(500, "").result.joined_text(), "end of result (100 bytes)");
    // More lines than one result holds: the page is shorter and says so.
    let long = "\n".repeat(30_000);
    let body = Body::Page {
        name: "a".to_owned(),
        to: long.len() as u64,
        total: long.len() as u64,
        text: long,
        from: 0,
        read: Some(ReadMark { artifact: 1, from: 0, to: 30_000 }),
    };
    let rendered = render(&head("collect"), &Report { body, ..Report::default() });
    let text = rendered.result.joined_text();
    let read = rendered.reads[0].to;
    assert!(text.lines().count() <= caps::RESULT_LINES && read < 30_000);
    assert!(text.contains(&format!(
        "0-{read} of 30000 bytes\n  more: subagent({{ action: \"collect\", name: \"a\", offset: {read} }})"
    )));
}

/// CAP-6: a whole body counts as read, an empty one too; what is not shown does not.
#[test]
fn whole_bodies_are_read() {
    let rendered = render(&head("collect"), &items(vec![boxed(settled("a", "short")), boxed(settled("b", ""))]));
    let of = |name: &str, to| ReadMark { artifact: i64::from(name.as_bytes()[0]), from: 0, to };
    assert_eq!(rendered.reads, [of("a", 5), of("b", 0)]);
    // A body over 2 KiB names its file although it is complete (CAP-4).
    let text = text_of(&items(vec![boxed(settled("a", "x".repeat(2_049)))]));
    assert!(text.ends_with("\n  full output: /run/artifacts/a/r1.md (2.0 KB)"), "{text}");
    assert!(!text_of(&items(vec![boxed(settled("a", "x".repeat(2_048)))])).contains("full output"));
}

/// CAP-2: more than twenty results; the first twenty have a body, the others their header and file.
#[test]
fn many_results_share_one_answer() {
    let rounds = (0..64).map(|n| boxed(settled(&format!("w{n}"), "word ".repeat(2_000)))).collect();
    let rendered = render(&head("wait"), &items(rounds));
    let text = rendered.result.joined_text();
    assert!(text.len() <= caps::RESULT_BYTES, "{}", text.len());
    for n in 0..64 {
        assert!(text.contains(&format!("✓ w{n} (worker) success")), "{n}");
        assert!(text.contains(&format!("  full output: /run/artifacts/w{n}/r1.md (9.7 KB)")), "{n}");
    }
    assert_eq!(text.matches("bytes omitted").count(), rendered.reads.len());
    assert!((15..=20).contains(&rendered.reads.len()), "{}", rendered.reads.len());
    assert_eq!(rendered.result.usage.len(), 64, "each round was delivered, its body shown or not");
}

/// CAP-2: what cannot be named within one result is counted, and stays owed.
#[test]
fn hundreds_of_children_are_counted() {
    let rounds = (0..1_000).map(|n| boxed(settled(&format!("w{n}"), "text"))).collect();
    let rendered = render(&head("wait"), &items(rounds));
    let text = rendered.result.joined_text();
    assert!(text.len() <= caps::RESULT_BYTES && text.lines().count() <= caps::RESULT_LINES);
    let shown = text.matches(" success").count();
    assert!(text.ends_with(&format!(
        "… {} more children left out: ask for them by name, or with action 'status'",
        1_000 - shown
    )));
    assert!(rendered.reads.len() <= shown);
    assert!(details_of(&rendered.result).to_string().len() <= caps::DETAILS_BYTES);
}

/// CAP-7: a result that is nowhere else is shown whole, and its notice stays due.
#[test]
fn an_unsaved_result_is_shown_whole() {
    let round = Settled { artifact: None, unsaved: Some("disk full".to_owned()), ..settled("a", "x".repeat(45_000)) };
    let rendered = render(&head("collect"), &items(vec![boxed(round)]));
    let text = rendered.result.joined_text();
    assert!(text.contains(&"x".repeat(45_000)), "{}", text.len());
    assert!(text.ends_with("⚠ a: result not saved: disk full"));
    assert!(rendered.reads.is_empty());
}

/// CAP-8: usage goes with the first delivery, and only then.
#[test]
fn usage_is_told_once() {
    let usage = Usage { input: 5, output: 6, cache_read: 7, cache_write: 8, cost_usd: 0.5 };
    let round = Settled { usage, ..settled("a", "text") };
    let again = Settled { first_delivery: false, ..round.clone() };
    let result = render(&head("collect"), &items(vec![boxed(round), boxed(again)])).result;
    let [nested] = result.usage.as_slice() else { panic!("{:?}", result.usage) };
    assert_eq!((nested.provider.as_str(), nested.model.as_str()), ("cb", "x"));
    assert_eq!((nested.input, nested.cache_read, nested.cost_usd), (5, 7, 0.5));
}

/// The bad-input row of 09: escape sequences of a child are removed; what was read is counted in the file's bytes.
#[test]
fn escape_sequences_of_a_child_are_removed() {
    let raw = "\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}ok\r\n";
    let rendered = render(&head("collect"), &items(vec![boxed(settled("a", raw))]));
    let text = rendered.result.joined_text();
    assert!(text.ends_with("\nred ok"), "{text:?}");
    assert_eq!(rendered.reads[0].to, raw.len() as u64);
    assert!(!details_of(&rendered.result).to_string().contains("\\u001b"));
}

/// LINE-10
#[test]
fn a_blocking_call_tells_how_it_stands() {
    let line = |name: &str, tool: Option<(String, u64)>| ProgressLine {
        name: name.to_owned(),
        agent: "worker".to_owned(),
        state: "working".to_owned(),
        tool,
        elapsed_ms: 61_000,
    };
    let targets = vec![line("a", Some(("bash".to_owned(), 2_000))), line("b", None)];
    let result = render_progress(&Progress { targets });
    insta::assert_snapshot!(result.joined_text(), @r"
    ● a (worker) working · bash 2s · 1m01s
    ● b (worker) working · 1m01s
    esc stops waiting · children keep running
    ");
    let many = render_progress(&Progress { targets: vec![line("a", None); 1_000] });
    assert_eq!(many.joined_text().lines().count(), MAX_PROGRESS_LINES + 2);
    assert!(details_of(&many).to_string().len() <= caps::DETAILS_BYTES);
}

fn node(id: &str) -> NodeView {
    NodeView {
        id: id.to_owned(),
        parent_id: id.rsplit_once('/').map(|(parent, _)| parent.to_owned()),
        name: id.rsplit('/').next().unwrap().to_owned(),
        role: "worker".to_owned(),
        state: "running".to_owned(),
        liveness: Liveness::Live,
        phase: None,
        depth: 1,
        model: Some("cb/x".to_owned()),
        usage: Usage { input: 1, ..Usage::default() },
    }
}

/// DET-1, DET-7, MAIL-6, MAIL-9, LTL-2, LTL-3
#[test]
fn the_legion_tools_have_their_details() {
    let own = CallHead { tool: "legion_mail", ..CallHead::default() };
    let mailed = SentMail {
        sent: vec![SentTo { id: 4, to: "root".to_owned(), node_id: "root".to_owned() }],
        warning: Some("body is 5000 bytes; keep mails under 4096 bytes and put long material in a file".to_owned()),
    };
    let result = sent(&own, &mailed);
    assert_eq!(
        result.joined_text(),
        "sent #4 to root\nwarning: body is 5000 bytes; keep mails under 4096 bytes and put long material in a file"
    );
    assert_eq!(details_of(&result)["sent"], json!([{ "id": 4, "to": "root", "nodeId": "root" }]));

    let nodes = [node("root/a"), node("root/a/b")];
    let own = CallHead { tool: "legion_tree", ..CallHead::default() };
    let result = tree(&own, &select(&nodes, &TreeQuery::default()).unwrap());
    assert_eq!(result.joined_text(), "● a (worker) running cb/x\n  ● b (worker) running cb/x");
    let second = &details_of(&result)["tree"][1];
    assert_eq!((&second["parentId"], &second["model"]), (&json!("root/a"), &json!("cb/x")));
    assert_eq!(second["usage"]["input"], json!(1));
    assert!(second.get("phase").is_none(), "absent rather than null");
}

fn child(name: &str) -> ChildView {
    ChildView {
        name: name.to_owned(),
        agent: "worker".to_owned(),
        node_id: format!("root/{name}"),
        state: "working".to_owned(),
        liveness: Liveness::Live,
        supervisor: "inprocess".to_owned(),
        owner: Owner::Live,
        quiet_ms: None,
        turn: None,
        tool: None,
        model: None,
        usage: Usage::default(),
        session_file: None,
        execution: Some(ExecutionStatus::Running),
        reason: None,
        delivered: false,
        round: 0,
    }
}

/// STA-1, CMD-10, DET-7, part of 09-T11, part of 09-T22: the tool prints the shared text, and the facts beside it.
#[test]
fn views_have_their_details() {
    let projection =
        Projection { children: vec![child("a")], tree: vec![node("root"), node("root/a")], ..Projection::default() };
    let report = Report { body: Body::Status(projection.clone()), ..Report::default() };
    let result = render(&head("status"), &report).result;
    assert_eq!(result.joined_text(), status_text(&projection));
    let details = details_of(&result);
    assert_eq!((&details["live"], &details["dead"], &details["unknown"]), (&json!(1), &json!(0), &json!(0)));
    assert_eq!(details["tree"][1]["id"], json!("root/a"));

    let roles = vec![RoleView {
        name: "scout".to_owned(),
        source: "bundled",
        description: "Looks.".to_owned(),
        model: "(agent CLI default)".to_owned(),
        model_source: None,
        flags: vec!["utility"],
    }];
    let body = Body::Roles { roles, team: "default".to_owned(), children: vec![child("a")], broken: Vec::new() };
    let result = render(&head("list"), &Report { body, ..Report::default() }).result;
    insta::assert_snapshot!(result.joined_text(), @r"
    Agents · 1 available · team default
    scout [bundled] (agent CLI default) utility
      Looks.

    Children · 1
    a (worker) state=working
    ");
    let role = json!({ "name": "scout", "source": "bundled", "description": "Looks.", "model": "(agent CLI default)", "flags": ["utility"] });
    assert_eq!(details_of(&result)["roles"], json!([role]));
}

/// NTC-9: header, at most 2000 characters, the file always, and the way to the rest.
#[test]
fn notices_speak_in_result_blocks() {
    let failed = ended("c", ExecutionStatus::Failed, "HTTP 500");
    let (text, children) = notice_blocks(&[settled("a", "short"), settled("b", "line\n".repeat(1_000)), failed]);
    assert!(text.starts_with("✓ a (worker) success · 1m12s · ↑12.3k ↓987 · $0.04\nshort\n  full output: /run/artifacts/a/r1.md (5 B)\n✓ b "), "{text}");
    assert!(text.contains("  full output: /run/artifacts/b/r1.md (4.8 KB)\n  more: subagent({ action: \"collect\", name: \"b\", offset: 1500 })\n✗ c (worker) failed (HTTP 500)"), "{text}");
    assert_eq!(text.matches("line").count(), 400);
    assert_eq!(children.len(), 3);
    assert_eq!(children[2]["status"], json!("failed"));

    let text = budget_text(&[snapshot("a")]);
    assert!(text.starts_with("… a (worker) running (") && text.contains("  stop: subagent("), "{text}");
    let many: Vec<Settled> = (0..300).map(|n| settled(&format!("w{n}"), "x".repeat(5_000))).collect();
    assert!(notice_blocks(&many).0.len() + crate::mail::NOTICE_MARK.len() < caps::RESULT_BYTES);
}

/// DET-5
#[test]
fn details_give_way_in_their_order() {
    let rounds = |n: usize| (0..n).map(|n| boxed(settled(&format!("w{n}"), "x".repeat(300)))).collect();
    let of = |n: usize| details_of(&render(&head("wait"), &items(rounds(n))).result).clone();
    let size = |details: &Value| details.to_string().len();
    let small = of(10);
    assert!(small.get("truncated").is_none() && small["results"][0]["preview"].is_string());
    let middle = of(180);
    assert_eq!(middle["truncated"], json!(true));
    assert!(size(&middle) <= caps::DETAILS_BYTES && middle["results"][0].get("preview").is_none());
    assert!(middle["results"][179].get("usage").is_some(), "the newest stay whole");
    let large = of(400);
    assert!(size(&large) <= caps::DETAILS_BYTES);
    assert_eq!(large["results"].as_array().unwrap().len(), 400);
    let first = large["results"][0].as_object().unwrap();
    assert_eq!(first.keys().collect::<Vec<_>>(), ["name", "status", "artifact"]);
    assert!(size(&of(3_000)) <= caps::DETAILS_BYTES);
}

fn any_item() -> impl Strategy<Value = Item> {
    let name = "[a-z][a-z0-9_-]{0,31}";
    let words = "(\\PC|\n|\u{1b}\\[1m|語){0,60}";
    let body = (0usize..800, prop::sample::select(vec!["word ", "語", "🦀\n", "\n", "line of text\n"]))
        .prop_map(|(times, piece)| piece.repeat(times));
    prop_oneof![
        (name, prop::collection::vec(words, 0..3))
            .prop_map(|(name, warnings)| Item::Started(Started { warnings, ..started(&name) })),
        (name, words, 1usize..200)
            .prop_map(|(name, words, times)| refused(&name, SubagentError::invalid(words.repeat(times)))),
        (name, words).prop_map(|(name, reason)| Item::Running(Box::new(Snapshot { reason, ..snapshot(&name) }))),
        (name, body.clone(), words).prop_map(|(name, text, reason)| {
            boxed(Settled { reason: Some(reason), status: ExecutionStatus::Failed, ..settled(&name, text) })
        }),
        (name, body).prop_map(|(name, text)| boxed(Settled {
            artifact: None,
            unsaved: Some("disk full".into()),
            ..settled(&name, text)
        })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// CAP-2, CAP-3, CAP-6, DET-5, part of 09-T10: no answer is larger than its caps, no line that must stay is cut,
    /// and nothing counts as read that was not shown.
    #[test]
    fn every_answer_keeps_to_its_caps(list in prop::collection::vec(any_item(), 0..70), mail in prop::collection::vec(0usize..3_000, 0..4)) {
        let mail: Vec<MailText> = mail
            .into_iter()
            .enumerate()
            .map(|(id, length)| MailText {
                id: id as i64,
                from: "a".to_owned(),
                kind: "report".to_owned(),
                urgency: "info".to_owned(),
                subject: "s".to_owned(),
                text: format!("[legion mail #{id}] {}", "m".repeat(length)),
            })
            .collect();
        let report = Report { mail: mail.clone(), ..items(list) };
        let rendered = render(&head("wait"), &report);
        let text = rendered.result.joined_text();
        prop_assert!(text.len() <= caps::RESULT_BYTES, "{} bytes", text.len());
        prop_assert!(text.lines().count() <= caps::RESULT_LINES, "{} lines", text.lines().count());
        prop_assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
        prop_assert!(details_of(&rendered.result).to_string().len() <= caps::DETAILS_BYTES);
        for mail in &mail {
            prop_assert!(text.contains(&mail.text));
        }
        // What is left out is counted, and it is the end of the list.
        let left_out = text.lines().find_map(|line| line.strip_prefix("… ")?.split_once(" more child")?.0.parse::<usize>().ok());
        let kept = report.items.len() - left_out.unwrap_or(0);
        for item in &report.items[..kept] {
            let header = match item {
                Item::Started(it) => format!("▶ {} (worker) supervisor=inprocess", it.name),
                Item::Refused { label, .. } => format!("✗ {label}: "),
                Item::Running(it) => format!("  force_stop: subagent({{ action: \"stop\", name: \"{}\", force: true }})", it.name),
                Item::Settled(it) if it.status == ExecutionStatus::Failed => format!("✗ {} (worker) failed (", it.name),
                Item::Settled(it) => format!("✓ {} (worker) success", it.name),
                Item::TakenDown(_) => continue,
            };
            prop_assert!(text.contains(&header), "{}", header);
        }
        for read in &rendered.reads {
            let whole = report.items.iter().find_map(|item| match item {
                Item::Settled(it) if it.artifact.as_ref().and_then(|file| file.id) == Some(read.artifact) => Some(&it.text),
                _ => None,
            });
            prop_assert!(whole.is_some() && read.from == 0);
        }
    }
}
