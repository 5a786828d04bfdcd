use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn spec() -> HeaderSpec {
    HeaderSpec { cwd: "/srv".into(), id: Some("s-1".into()), parent: Some("/p.jsonl".into()) }
}

fn answer(text: &str) -> Message {
    let usage = Usage { input: 10, output: 5, total_tokens: 15, ..Usage::default() };
    Message::Assistant(AssistantMessage {
        content: vec![Block::text(text)],
        provider: "scripted".into(),
        model: "echo".into(),
        usage,
        ..AssistantMessage::default()
    })
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn texts(context: &Context) -> Vec<String> {
    let text = |message: &Message| match message {
        Message::User(user) => user.content.text(),
        Message::Assistant(answer) => answer.text(),
        Message::Custom(custom) => format!("custom {}", custom.content.text()),
        Message::CompactionSummary(compaction) => format!("summary {}", compaction.summary),
        other => other.role().to_owned(),
    };
    context.messages.iter().map(text).collect()
}

/// ABI-41: an absent and an empty file are begun, with header, at once, for this user only
#[test]
fn an_absent_or_empty_file_is_begun() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.jsonl");
    fs::write(&empty, "").unwrap();
    for path in [dir.path().join("deep/er/new.jsonl"), empty] {
        let file = SessionFile::open(&path, &spec()).unwrap();
        assert_eq!((file.id(), file.leaf(), file.path()), ("s-1", None, Some(path.as_path())));
        let header = &lines(&path)[0];
        assert_eq!(header["type"], "session");
        assert_eq!((&header["version"], &header["id"], &header["cwd"]), (&json!(3), &json!("s-1"), &json!("/srv")));
        assert_eq!(header["parentSession"], "/p.jsonl");
    }
    let mode = fs::metadata(dir.path().join("deep/er/new.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// ABI-41: a file with entries is continued, and opening it changes no byte
#[test]
fn a_file_with_entries_is_continued() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let mut file = SessionFile::open(&path, &spec()).unwrap();
    file.append_message(Message::user("hello", 1)).unwrap();
    file.append_message(answer("hi")).unwrap();
    let bytes = fs::read(&path).unwrap();

    let other = HeaderSpec { cwd: "/elsewhere".into(), id: Some("other".into()), parent: None };
    let mut again = SessionFile::open(&path, &other).unwrap();
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert_eq!((again.header(), again.entries()), (file.header(), file.entries()));
    let id = again.append_message(Message::user("more", 2)).unwrap().id.clone();
    let written = lines(&path);
    assert_eq!(written.len(), 4);
    assert_eq!(written[1]["parentId"], Value::Null);
    assert_eq!(written[2]["parentId"], written[1]["id"]);
    assert_eq!(written[3]["parentId"], written[2]["id"]);
    assert_eq!(written[3]["id"], json!(id));
    assert!(id.len() == 8 && id.chars().all(|c| c.is_ascii_hexdigit()));
}

/// ABI-41, 11 bad input: what is no session, or has another version, is named and stays as it is
#[test]
fn foreign_and_other_versions_stay_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let table: [(&[u8], &str); 8] = [
        (b"hello\n", "its first line is not JSON"),
        (b"{\"type\":\"message\",\"id\":\"a\"}\n", "its first line is no session header"),
        (b"[1]\n", "its first line is no session header"),
        (b"{\"type\":\"session\",\"version\":3}\n", "its header is incomplete"),
        (b"{\"type\":\"session\",\"version\":\"3\",\"id\":\"a\"}\n", "the version in its header is no number"),
        (b"{\"type\":\"session\",\"version\":4,\"id\":\"a\"}\n", "version 4, this program knows version 3"),
        (b"{\"type\":\"session\",\"id\":\"a\"}\n", "version 1, this program knows version 3"),
        (b"\xff\xfe\0", "its first line is not JSON"),
    ];
    for (bytes, expected) in table {
        let path = dir.path().join("f.jsonl");
        fs::write(&path, bytes).unwrap();
        let error = SessionFile::open(&path, &spec()).unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains(path.to_str().unwrap()), "{error}");
        assert_eq!(fs::read(&path).unwrap(), bytes, "{expected}");
    }
}

/// F37: killed in mid-append and reopened, the file stays parseable, and so does a last line without its break
#[test]
fn a_torn_last_line_is_left_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let mut file = SessionFile::open(&path, &spec()).unwrap();
    file.append_message(Message::user("one", 1)).unwrap();
    file.append_message(Message::user("two", 2)).unwrap();
    let whole = fs::read(&path).unwrap();

    fs::write(&path, &whole[..whole.len() - 10]).unwrap();
    let mut file = SessionFile::open(&path, &spec()).unwrap();
    assert_eq!(texts(&file.build_context()), ["one"]);
    file.append_message(Message::user("three", 3)).unwrap();
    assert_eq!(texts(&SessionFile::open(&path, &spec()).unwrap().build_context()), ["one", "three"]);

    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let mut file = SessionFile::open(&path, &spec()).unwrap();
    assert_eq!(texts(&file.build_context()), ["one", "two"]);
    file.append_message(Message::user("three", 3)).unwrap();
    assert_eq!(texts(&SessionFile::open(&path, &spec()).unwrap().build_context()), ["one", "two", "three"]);
}

/// F38: an entry for a file that was deleted meanwhile is an error, not a write into nowhere
#[test]
fn a_deleted_file_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.jsonl");
    let mut file = SessionFile::open(&path, &spec()).unwrap();
    fs::remove_file(&path).unwrap();
    let error = file.append_message(Message::user("x", 1)).unwrap_err().to_string();
    assert!(error.starts_with("failed to append to session file ") && error.contains("s.jsonl"), "{error}");
    assert_eq!((file.entries().len(), file.leaf()), (0, None));
    assert!(!path.exists());
}

#[test]
fn leaf_and_branch_follow_the_tree() {
    let mut file = SessionFile::in_memory(&spec());
    let first = file.append_message(Message::user("a", 1)).unwrap().id.clone();
    file.append_message(Message::user("b", 2)).unwrap();
    file.set_leaf(Some(&first)).unwrap();
    file.append_message(Message::user("c", 3)).unwrap();
    assert_eq!(texts(&file.build_context()), ["a", "c"]);
    assert_eq!(file.entries().len(), 3);
    file.set_leaf(None).unwrap();
    assert!(file.build_context().messages.is_empty());
    assert!(file.set_leaf(Some("nope")).unwrap_err().to_string().contains("no entry nope"));
}

/// NAT-1: the context honours compactions, edits, messages of extensions, and the last chosen settings
#[test]
fn the_context_is_what_pi_builds() {
    let mut file = SessionFile::in_memory(&spec());
    file.append(EntryBody::ModelChange { provider: "p".into(), model_id: "m".into() }).unwrap();
    file.append(EntryBody::ThinkingLevelChange { thinking_level: "high".into() }).unwrap();
    assert_eq!(file.build_context().model, Some(("p".into(), "m".into())));
    file.append_message(Message::user("old", 1)).unwrap();
    let kept = file.append_message(answer("kept")).unwrap().id.clone();
    let hidden = file.append_message(Message::user("hidden", 2)).unwrap().id.clone();
    file.append(EntryBody::Custom { custom_type: "state".into(), data: Some(json!(1)) }).unwrap();
    file.append(EntryBody::Compaction(Compaction {
        summary: "long ago".into(),
        first_kept_entry_id: kept.clone(),
        tokens_before: 99,
        ..Compaction::default()
    }))
    .unwrap();
    file.append(EntryBody::CustomMessage {
        custom_type: "mail".into(),
        content: Content::Text("mail".into()),
        display: true,
        details: None,
    })
    .unwrap();
    file.append(EntryBody::ContextEdit { target_id: hidden, replacement: None }).unwrap();
    let replacement = Replacement { content: Content::Text("edited".into()), extra: Extra::new() };
    file.append(EntryBody::ContextEdit { target_id: kept, replacement: Some(replacement) }).unwrap();
    let context = file.build_context();
    assert_eq!(texts(&context), ["summary long ago", "edited", "custom mail"]);
    assert_eq!((context.model, context.thinking.as_deref()), (Some(("scripted".into(), "echo".into())), Some("high")));
    let roles: Vec<String> = model_messages(&context.messages).iter().map(|m| m.role().to_owned()).collect();
    assert_eq!(roles, ["user", "assistant", "user"]);
    assert_eq!(file.total_usage().total_tokens, 15);
}

/// NAT-1: what pi writes and we do not know comes back as it was
#[test]
fn unknown_fields_roles_and_types_survive() {
    let table = [
        json!({"type":"message","id":"a","parentId":null,"timestamp":"t","message":{"role":"assistant","content":[
            {"type":"thinking","thinking":"x","thinkingSignature":"sig"},
            {"type":"toolCall","id":"c","name":"n","arguments":{"a":1},"namespace":"ns"},
            {"type":"new_block","x":[1]}],
            "api":"a","provider":"p","model":"m","usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,
            "totalTokens":10,"cost":{"input":0.5,"output":0.0,"cacheRead":0.0,"cacheWrite":0.0,"total":0.5},"reasoning":1},
            "stopReason":"deferred","timestamp":5,"responseId":"r"}}),
        json!({"type":"message","id":"b","parentId":"a","timestamp":"t","message":{"role":"newRole","x":1}}),
        json!({"id":"c","parentId":"b","timestamp":"t","type":"new_type","x":{"y":1}}),
        json!({"type":"label","id":"d","parentId":"c","timestamp":"t","targetId":"a","label":"l"}),
        json!({"type":"message","id":"e","parentId":"d","timestamp":"t","message":{"role":"toolResult","toolCallId":"c",
            "toolName":"n","content":[{"type":"image","data":"AA==","mimeType":"image/png"}],"details":{"x":1},
            "isError":false,"timestamp":6,"nestedCalls":{"calls":[],"complete":true}}}),
    ];
    for entry in table {
        let read: Entry = serde_json::from_value(entry.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), entry);
    }
}

/// Files of JavaScript programs hold nulls where a number went wrong, and content that is null
#[test]
fn nulls_do_not_hide_a_message() {
    let entry = json!({"type":"message","id":"a","parentId":null,"timestamp":"t","message":{"role":"assistant",
        "content":null,"provider":"p","model":"m","usage":{"input":null,"output":2.0,"cost":{"total":null}},"timestamp":1}});
    let read: Entry = serde_json::from_value(entry).unwrap();
    let EntryBody::Message { message: Message::Assistant(answer) } = read.body else { panic!("{read:?}") };
    assert_eq!((answer.usage.input, answer.usage.output), (0, 2));
    let entry = json!({"type":"message","id":"a","message":{"role":"user","content":null,"timestamp":1}});
    let read: Entry = serde_json::from_value(entry).unwrap();
    assert!(matches!(read.body, EntryBody::Message { message: Message::User(_) }));
}

#[test]
fn the_session_directory_is_pis() {
    assert_eq!(
        default_session_dir(Path::new("/a"), Path::new("/home/me/x:y")),
        Path::new("/a/sessions/--home-me-x-y--")
    );
}

/// F40: deep paths with CJK characters and spaces
#[test]
fn deep_cjk_paths_work() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("深い 道/経路 with spaces/日本語".repeat(3)).join("セッション 1.jsonl");
    let mut file = SessionFile::open(&path, &spec()).unwrap();
    file.append_message(Message::user("漢字\u{2028}", 1)).unwrap();
    assert_eq!(texts(&SessionFile::open(&path, &spec()).unwrap().build_context()), ["漢字\u{2028}"]);
    assert_eq!(lines(&path).len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// F37: however often the file is cut and reopened, every entry that was whole stays, no line is ever mixed
    /// from two entries, and ids stay unique
    #[test]
    fn cut_and_reopened_files_stay_parseable(steps in proptest::collection::vec((0usize..3, 0usize..400), 1..12)) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        let mut file = SessionFile::open(&path, &spec()).unwrap();
        let header_bytes = fs::read(&path).unwrap().len();
        for (number, (appends, cut)) in steps.into_iter().enumerate() {
            for n in 0..appends {
                file.append_message(Message::user(format!("{number}.{n} \u{65e5}"), 1)).unwrap();
            }
            let bytes = fs::read(&path).unwrap();
            let kept = bytes.len().saturating_sub(cut).max(header_bytes);
            fs::write(&path, &bytes[..kept]).unwrap();
            let whole = SessionFile::open(&path, &spec()).unwrap();
            prop_assert_eq!(fs::read(&path).unwrap(), &bytes[..kept], "opening writes nothing");
            let ids: std::collections::HashSet<&str> = whole.entries().iter().map(|entry| entry.id.as_str()).collect();
            prop_assert_eq!(ids.len(), whole.entries().len());
            // What was read is a beginning of what was written before the cut.
            let before: Vec<String> = file.entries().iter().map(|entry| entry.id.clone()).collect();
            let after: Vec<String> = whole.entries().iter().map(|entry| entry.id.clone()).collect();
            prop_assert_eq!(&before[..after.len()], &after[..]);
            file = whole;
        }
        file.append_message(Message::user("last", 1)).unwrap();
        let reopened = SessionFile::open(&path, &spec()).unwrap();
        prop_assert_eq!(reopened.entries(), file.entries());
        prop_assert_eq!(reopened.branch().len(), file.branch().len());
    }

    #[test]
    fn no_file_makes_the_reader_panic(tail in "(?s)[ -~\n]{0,300}") {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s.jsonl");
        fs::write(&path, format!("{{\"type\":\"session\",\"version\":3,\"id\":\"a\"}}\n{tail}")).unwrap();
        let mut file = SessionFile::open(&path, &spec()).unwrap();
        file.append_message(Message::user("x", 1)).unwrap();
        prop_assert!(SessionFile::open(&path, &spec()).unwrap().entries().iter().any(|entry| Some(entry.id.as_str()) == file.leaf()));
    }
}
