use super::*;

fn tail_of(script: &Script, lines: usize) -> TranscriptView {
    let (_dir, path) = script.save();
    transcript_tail(&path, lines).unwrap()
}

/// STA-9
#[test]
fn the_last_items_are_shown_one_line_each() {
    let mut script = Script::new();
    script.user("do\n  it");
    script.tool("bash", json!({"command": "ls"}), "a\nb", false);
    script.tool("read", json!({"path": "x"}), "no such file", true);
    script.message(json!({"role": "assistant", "stopReason": "error", "errorMessage": "503", "content": [
        {"type": "thinking", "thinking": "secret"}, {"type": "text", "text": "half"},
        {"type": "toolCall", "id": "1", "name": "grep", "arguments": {"pattern": "x"}}]}));
    script.notice("completion", "a child\u{1b}[2J ended");
    let all = [
        "user: do it",
        "tool bash: {\"command\":\"ls\"}",
        "result: a b",
        "tool read: {\"path\":\"x\"}",
        "error: no such file",
        "assistant: half",
        "tool grep: {\"pattern\":\"x\"}",
        "error: 503",
        "user: a child [2J ended",
    ];
    assert_eq!(tail_of(&script, 100), TranscriptView { lines: all.map(str::to_owned).to_vec(), unreadable: 0 });
    assert_eq!(tail_of(&script, 3).lines, all[6..]);
    assert_eq!(tail_of(&script, 0).lines, [] as [&str; 0]);
    assert!(transcript_tail(Path::new("/nowhere"), 5).is_err());
}

/// STA-9: damaged lines are counted and do not hide what is before them; another branch is not shown.
#[test]
fn damage_is_counted_and_other_branches_are_left_out() {
    let mut script = Script::new();
    let first = script.user("one");
    script.assistant("stop", "elsewhere");
    script.leaf = Some(first);
    script.assistant("stop", "here");
    script.damaged(b"{\"type\":\"mess");
    let user = script.user("two");
    assert_eq!(tail_of(&script, 9).lines, ["user: one", "assistant: here", "user: two"]);
    assert_eq!(tail_of(&script, 9).unreadable, 1);
    // The parent of the next one is on the damaged line.
    script.damaged(b"half a line");
    script.leaf = Some("lost".into());
    script.assistant("stop", "after");
    assert_eq!(tail_of(&script, 2).lines, ["user: two", "assistant: after"]);
    assert_eq!(user, "e4");
}

/// STA-9: at most 16 KiB, and a long item is cut.
#[test]
fn the_view_is_bounded() {
    let mut script = Script::new();
    for _ in 0..100 {
        script.user(&"word ".repeat(300));
    }
    // Lines further back than the first read.
    for _ in 0..3 {
        script.tool("bash", json!({}), &"x".repeat(200_000), false);
    }
    let view = tail_of(&script, 1000);
    let bytes: usize = view.lines.iter().map(|line| line.len() + 1).sum();
    assert!(bytes <= TRANSCRIPT_VIEW_BYTES, "{bytes}");
    assert!(bytes > TRANSCRIPT_VIEW_BYTES - 1000, "{bytes}");
    assert!(view.lines.last().unwrap().ends_with('…'));
    assert!(view.lines[0].starts_with("user: word word"));
}
