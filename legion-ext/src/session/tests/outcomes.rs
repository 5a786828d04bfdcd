use super::*;
use crate::core::outcome::{ExecutionStatus, Outcome, derive_outcome};

fn outcome(script: &Script) -> Outcome {
    derive_outcome(&script.facts().parsed)
}

fn shown(script: &Script) -> (ExecutionStatus, Option<String>, String) {
    let outcome = outcome(script);
    (outcome.status, outcome.reason, outcome.output)
}

/// 03-T10, ORC-105 … ORC-108: one transcript per row of the table.
#[test]
fn each_row_of_the_table_has_its_transcript() {
    use ExecutionStatus::{Aborted, Failed, Success, Truncated, Unknown};
    let rows = [
        ("stop", None, Success, None),
        ("length", None, Truncated, Some("output limit reached")),
        ("toolUse", None, Failed, Some("terminated during tool call")),
        ("error", Some("This operation was aborted"), Aborted, Some("This operation was aborted")),
        ("error", Some("503 overloaded"), Failed, Some("503 overloaded")),
        ("aborted", None, Aborted, Some("aborted")),
        ("aborted", Some("stopped by user"), Aborted, Some("stopped by user")),
        ("refusal", None, Unknown, Some("unrecognised stopReason 'refusal'")),
    ];
    for (stop, error, status, reason) in rows {
        let mut script = Script::new();
        script.user("do it");
        script.tool("bash", json!({"command": "ls"}), "out", false);
        let last = script.message(json!({
            "role": "assistant", "content": [{"type": "text", "text": "the report"}], "stopReason": stop,
            "errorMessage": error
        }));
        let outcome = outcome(&script);
        assert_eq!((outcome.status, outcome.reason.as_deref()), (status, reason), "{stop} {error:?}");
        assert_eq!((outcome.output.as_str(), outcome.stop_reason.as_deref()), ("the report", Some(stop)));
        assert_eq!(outcome.last_entry_id, Some(last));
    }

    // No answer: a hard kill writes none.
    let mut script = Script::new();
    script.user("do it");
    assert_eq!(shown(&script), (Aborted, Some("missing reply".into()), String::new()));
}

/// 03-T10: a turn that a waking notice began and that was killed is no success, an admission line begins none.
#[test]
fn notices_begin_a_turn_if_they_wake() {
    use ExecutionStatus::{Aborted, Success};
    let answered = || {
        let mut script = Script::new();
        script.user("do it");
        script.assistant("stop", "done");
        script
    };
    for kind in ["completion", "queue", "orphan"] {
        let mut script = answered();
        script.notice(kind, "a child has ended");
        assert_eq!(shown(&script), (Aborted, Some("missing reply".into()), String::new()), "{kind}");
        script.assistant("stop", "took it in");
        assert_eq!(shown(&script), (Success, None, "took it in".into()));
    }
    for kind in ["admission", "roster", "weather"] {
        let mut script = answered();
        script.notice(kind, "scout-1 started");
        assert_eq!(shown(&script), (Success, None, "done".into()), "{kind}");
    }
    // Another extension's message, a compaction, a label: none of them begins a turn.
    let mut script = answered();
    script.entry(json!({"type": "custom_message", "customType": "weather", "content": "rain", "display": true,
        "details": {"kind": "completion"}}));
    script.entry(json!({"type": "compaction", "summary": "s", "firstKeptEntryId": "e1", "tokensBefore": 5}));
    script.entry(json!({"type": "label", "targetId": "e1", "label": "x"}));
    script.entry(json!({"type": "something_new", "payload": {"deep": [1, 2]}}));
    assert_eq!(shown(&script), (Success, None, "done".into()));
}

/// 03-T10, ORC-107, ORC-108: damaged lines are passed over, and the output is the last one that has text.
#[test]
fn damage_is_counted_and_silence_at_the_end_keeps_the_text() {
    let mut script = Script::new();
    script.user("do it");
    script.assistant("toolUse", "first I look");
    script.damaged(b"{\"type\":\"message\",\"id\":\"e99\",\"parentId\":\"e2\",\"mess");
    script.damaged(b"\xff\xfe\x00");
    script.damaged(b"[1,2]");
    script.assistant("stop", "");
    assert_eq!(shown(&script), (ExecutionStatus::Success, None, "first I look".into()));
    let facts = script.facts();
    assert_eq!((facts.parsed.damaged_lines, facts.parsed.valid_lines), (3, 4));

    let mut silent = Script::new();
    silent.user("do it");
    silent.assistant("stop", "");
    assert_eq!(shown(&silent), (ExecutionStatus::Success, None, String::new()));

    // A text of an earlier turn is not this turn's.
    silent.user("again");
    silent.assistant("stop", "here");
    silent.user("again");
    silent.assistant("stop", "");
    assert_eq!(shown(&silent).2, "");
}

/// 03-T10, ORC-108: an empty file, one without a single line that can be read, and a missing one.
#[test]
fn empty_unreadable_and_missing_files_differ() {
    let (_dir, path) = save(b"");
    let outcome = derive_outcome(&read_session(&path).unwrap().parsed);
    assert_eq!((outcome.status, outcome.reason.as_deref()), (ExecutionStatus::Aborted, Some("missing reply")));
    let (_dir, path) = save(b"garbage\n{\"half\": ");
    let facts = read_session(&path).unwrap();
    assert_eq!(facts.parsed.damaged_lines, 2);
    let outcome = derive_outcome(&facts.parsed);
    let reason = Some("session file is not readable");
    assert_eq!((outcome.status, outcome.reason.as_deref()), (ExecutionStatus::Unknown, reason));
    assert!(read_session(Path::new("/nowhere/child.jsonl")).is_err());
}

/// The last line of a killed host: whole without its line end, or cut.
#[test]
fn the_last_line_of_a_killed_host_is_taken_if_it_is_whole() {
    let mut script = Script::new();
    script.user("do it");
    script.assistant("stop", "done");
    let mut bytes = script.bytes();
    bytes.pop();
    let (_dir, path) = save(&bytes);
    let facts = read_session(&path).unwrap();
    assert_eq!((derive_outcome(&facts.parsed).status, facts.parsed.damaged_lines), (ExecutionStatus::Success, 0));
    let (_dir, path) = save(&bytes[..bytes.len() - 9]);
    let facts = read_session(&path).unwrap();
    assert_eq!((derive_outcome(&facts.parsed).status, facts.parsed.damaged_lines), (ExecutionStatus::Aborted, 1));
}

/// The active branch is the parent chain of the last entry; totals are those of the whole file (LED-54).
#[test]
fn the_last_entry_decides_the_branch() {
    let mut script = Script::new();
    let first = script.user("do it");
    script.assistant("length", "a long way");
    let abandoned = script.user("go on");
    script.assistant("stop", "the other way");
    script.leaf = Some(first.clone());
    assert_eq!(script.facts().parsed.last_turn.begin_entry_id, Some(abandoned));
    script.entry(json!({"type": "branch_summary", "fromId": "e4", "summary": "s"}));
    let facts = script.facts();
    assert_eq!(facts.parsed.last_turn.begin_entry_id, Some(first));
    assert_eq!(derive_outcome(&facts.parsed).reason.as_deref(), Some("missing reply"));
    assert_eq!((facts.parsed.assistant_messages, facts.usage.output), (2, 40));
    let last = script.assistant("stop", "back here");
    assert_eq!(outcome(&script).output, "back here");
    assert_eq!(outcome(&script).last_entry_id, Some(last));

    // A new root is a branch without a past.
    script.leaf = None;
    script.assistant("stop", "alone");
    let facts = script.facts();
    assert_eq!(facts.parsed.last_turn.begin_entry_id, None);
    assert_eq!(derive_outcome(&facts.parsed).output, "alone");
}

/// An entry whose parent was lost with a damaged line goes on from the line before.
#[test]
fn a_lost_parent_breaks_no_turn() {
    let mut script = Script::new();
    let begin = script.user("do it");
    script.leaf = Some("lost".into());
    script.assistant("stop", "done");
    let facts = script.facts();
    assert_eq!(facts.parsed.last_turn.begin_entry_id, Some(begin));
    assert_eq!(derive_outcome(&facts.parsed).status, ExecutionStatus::Success);
}

/// LED-54, and the bad readings of part 06: counted once, ignored, the rest kept.
#[test]
fn usage_is_the_sum_over_every_answer() {
    let mut script = Script::new();
    script.user("do it");
    for _ in 0..10 {
        script.assistant("stop", "x");
    }
    script.entry(json!({"type": "compaction", "summary": "s", "firstKeptEntryId": "e5", "tokensBefore": 5}));
    for bad in [
        json!({"input": -5, "output": 1, "cost": {"total": 0.1}}),
        json!({"input": 1.5, "output": 1, "cost": {"total": 0.1}}),
        json!({"input": "many", "output": 1}),
        json!({"input": 1, "output": 1, "cost": {"total": -0.1}}),
    ] {
        script.message(json!({"role": "assistant", "content": [], "stopReason": "stop", "usage": bad}));
    }
    script.message(json!({"role": "assistant", "content": [], "stopReason": "stop"}));
    let facts = script.facts();
    let total = facts.usage;
    assert_eq!((total.input, total.output, total.cache_read, total.cache_write), (1000, 200, 70, 50));
    assert_eq!((total.tokens_in(), total.cost_usd), (1050, 2.5));
    assert_eq!((facts.unusable_usage, facts.parsed.assistant_messages), (4, 15));
}

/// ORC-126: distinct paths of edits and writes that worked.
#[test]
fn changed_paths_are_those_of_edits_and_writes_that_worked() {
    let mut script = Script::new();
    script.user("do it");
    script.tool("write", json!({"path": "a.rs", "content": "x".repeat(100)}), "ok", false);
    script.tool("edit", json!({"file_path": "b.rs", "edits": []}), "ok", false);
    script.tool("edit", json!({"path": "a.rs", "edits": []}), "ok", false);
    script.tool("edit", json!({"path": "c.rs", "edits": []}), "no match", true);
    script.tool("read", json!({"path": "d.rs"}), "text", false);
    script.tool("write", json!({"nonsense": 1}), "ok", false);
    // Called, and killed before the result.
    script.message(json!({"role": "assistant", "stopReason": "toolUse", "content":
        [{"type": "toolCall", "id": "last", "name": "write", "arguments": {"path": "e.rs"}}]}));
    let facts = script.facts();
    assert_eq!(facts.changed_paths.iter().map(String::as_str).collect::<Vec<_>>(), ["a.rs", "b.rs"]);
    assert_eq!((facts.parsed.tool_results, facts.parsed.assistant_messages), (6, 7));
}

/// MAIL-22: mails of the last 20 turns, in user messages, session messages and tool results, batches being one turn.
#[test]
fn mail_texts_are_kept_for_twenty_turns() {
    let mail = |n: u32| format!("[legion mail #{n}] report from w (worker) · info\nSubject: s\n\nline\r\nbody {n}");
    let mut script = Script::new();
    script.user(&mail(1));
    script.assistant("stop", "ok");
    // Two that arrived together are one turn.
    script.user(&mail(2));
    script.user(&mail(3));
    script.tool("subagent", json!({"action": "wait"}), &format!("w1 done\n{}", mail(4)), false);
    script.entry(json!({"type": "custom_message", "customType": "legion-mail", "content": mail(5), "display": true}));
    script.assistant("stop", "ok");
    let held = |script: &Script| -> Vec<u32> {
        let facts = script.facts();
        let number = |text: &str| text.split("#").nth(1).unwrap().split(']').next().unwrap().parse().unwrap();
        facts.mail_texts.iter().map(|mail| number(&mail.text)).collect()
    };
    assert_eq!(held(&script), [1, 2, 3, 4, 5]);
    assert!(script.facts().mail_texts[3].text.ends_with(&mail(4)));
    for _ in 0..18 {
        script.user("next");
        script.assistant("stop", "ok");
    }
    assert_eq!(script.facts().turns, 20);
    assert_eq!(held(&script), [1, 2, 3, 4, 5], "the first turn is the twentieth from the end");
    script.user("next");
    assert_eq!(held(&script), [2, 3, 4, 5]);
    script.assistant("stop", "ok");
    script.user("next");
    assert_eq!(held(&script), [] as [u32; 0]);
}
