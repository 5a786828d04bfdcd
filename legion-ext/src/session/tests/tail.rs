use proptest::prelude::*;

use super::*;

/// PERF-8: a look costs the new bytes, and one at a file that has not grown costs none.
#[test]
fn a_look_reads_what_is_new() {
    let mut script = Script::new();
    script.user("do it");
    let (_dir, path) = script.save();
    let mut tail = TranscriptTail::new(&path);
    let first = tail.poll().unwrap();
    assert_eq!((first.bytes, first.lines, first.restarted), (script.bytes().len() as u64, 2, false));
    assert_eq!(tail.poll().unwrap(), Growth::default());
    let before = script.bytes().len();
    script.assistant("stop", "done");
    let line = script.bytes()[before..].to_vec();
    append(&path, &line[..10]);
    assert_eq!(tail.poll().unwrap(), Growth { bytes: 10, lines: 0, restarted: false });
    assert_eq!(tail.facts().parsed.assistant_messages, 0);
    append(&path, &line[10..]);
    assert_eq!(tail.poll().unwrap(), Growth { bytes: line.len() as u64 - 10, lines: 1, restarted: false });
    assert_eq!(*tail.facts(), script.facts());
}

/// A file that was cut or replaced is read anew, and a missing one is an error that loses nothing.
#[test]
fn a_replaced_file_is_read_anew() {
    let mut script = Script::new();
    script.user("do it");
    script.assistant("stop", "done");
    let (dir, path) = script.save();
    let mut tail = TranscriptTail::new(&path);
    tail.poll().unwrap();
    let known = tail.facts().clone();
    fs::rename(&path, dir.path().join("away")).unwrap();
    assert!(tail.poll().is_err());
    assert_eq!(*tail.facts(), known);

    let mut other = Script::new();
    other.user("something else");
    other.assistant("length", "and longer than before, by far");
    fs::write(&path, other.bytes()).unwrap();
    assert!(tail.poll().unwrap().restarted);
    assert_eq!(*tail.facts(), other.facts());

    fs::write(&path, Script::new().bytes()).unwrap();
    assert!(tail.poll().unwrap().restarted);
    assert_eq!(*tail.facts(), Script::new().facts());
}

/// Lines longer than a read, and contents that no parser should recurse into.
#[test]
fn big_and_deep_lines_are_read() {
    let mut script = Script::new();
    script.user("do it");
    script.tool("bash", json!({"command": "cat big"}), &"é\n\"".repeat(700_000), false);
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    let parent = script.leaf.clone().unwrap();
    script.damaged(
        format!(
            "{{\"type\":\"message\",\"id\":\"deep\",\"parentId\":\"{parent}\",\"message\":{{\"role\":\"toolResult\",\
             \"toolCallId\":\"x\",\"content\":[],\"details\":{deep},\"isError\":false}}}}"
        )
        .as_bytes(),
    );
    script.leaf = Some("deep".into());
    script.assistant("stop", "done");
    let facts = script.facts();
    assert_eq!((facts.parsed.damaged_lines, facts.parsed.tool_results), (0, 2));
    assert_eq!(facts.parsed.last_turn.last_text, "done");
}

#[derive(Debug, Clone)]
enum Step {
    User(String),
    Assistant(String, String),
    Tool(String, bool),
    Notice(String),
    Damaged(Vec<u8>),
    Branch(usize),
    Blank,
}

fn step() -> impl Strategy<Value = Step> {
    let text = "[a-zé\\\\\"\n]{0,12}|\\[legion mail #[0-9]\\] hello";
    prop_oneof![
        4 => text.prop_map(Step::User),
        6 => ("stop|length|toolUse|error", text).prop_map(|(stop, text)| Step::Assistant(stop, text)),
        4 => ("[a-c]\\.rs", any::<bool>()).prop_map(|(path, failed)| Step::Tool(path, failed)),
        2 => "completion|admission|roster".prop_map(Step::Notice),
        1 => proptest::collection::vec(any::<u8>().prop_filter("one line", |b| *b != b'\n'), 1..20)
            .prop_map(Step::Damaged),
        2 => any::<usize>().prop_map(Step::Branch),
        1 => Just(Step::Blank),
    ]
}

fn written(steps: &[Step]) -> Vec<u8> {
    let mut script = Script::new();
    for step in steps {
        match step {
            Step::User(text) => drop(script.user(text)),
            Step::Assistant(stop, text) => drop(script.assistant(stop, text)),
            Step::Tool(path, failed) => script.tool("edit", json!({"path": path, "edits": []}), "ok", *failed),
            Step::Notice(kind) => drop(script.notice(kind, "text")),
            Step::Damaged(bytes) => script.damaged(bytes),
            Step::Branch(to) => {
                let made = (script.next - 1) as usize;
                script.leaf = (made > 0).then(|| format!("e{}", 1 + to % made));
            }
            Step::Blank => script.damaged(b"  "),
        }
    }
    script.bytes()
}

proptest! {
    /// Wherever a file is cut while it grows, the looks add up to one parse of the whole.
    #[test]
    fn looks_add_up(steps in proptest::collection::vec(step(), 0..25), cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..8)) {
        let bytes = written(&steps);
        let (_dir, path) = save(&bytes);
        let whole = read_session(&path).unwrap();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.sort_unstable();
        let (_other_dir, growing) = save(b"");
        let mut tail = TranscriptTail::new(&growing);
        let mut from = 0;
        let mut read = 0;
        for cut in cuts.into_iter().chain([bytes.len()]) {
            append(&growing, &bytes[from..cut]);
            read += tail.poll().unwrap().bytes;
            from = cut;
        }
        prop_assert_eq!(tail.facts(), &whole);
        prop_assert_eq!(read, bytes.len() as u64);
    }

    /// No bytes make the reader fail or panic.
    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300), lines in 0_usize..5) {
        let (_dir, path) = save(&bytes);
        let facts = read_session(&path).unwrap();
        prop_assert_eq!(facts.parsed.has_content, !bytes.is_empty());
        transcript_tail(&path, lines).unwrap();
    }
}
