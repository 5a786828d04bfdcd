use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::session_file::{AssistantMessage, Block, Content, CustomMessage};

/// A message by its first letter: `u` user, `c` custom, `a` answer, `r` result of bash, `R` result of read.
fn message(short: &str) -> Message {
    let (kind, text) = short.split_at(1);
    let content = vec![Block::text(text)];
    let result =
        |tool: &str| ToolResultMessage { tool_name: tool.into(), content: content.clone(), ..Default::default() };
    match kind {
        "u" => Message::user(text, 0),
        "c" => Message::Custom(CustomMessage { content: Content::Text(text.into()), ..CustomMessage::default() }),
        "a" => Message::Assistant(AssistantMessage { model: "m".into(), content, ..AssistantMessage::default() }),
        "r" => Message::ToolResult(result("bash")),
        _ => Message::ToolResult(result("read")),
    }
}

fn play(script: &Script, role: &str, messages: &[Message]) -> Result<Answer, String> {
    let scene = Scene { role, name: "n-1", cwd: "/c", session: "0123456789", model: "m", messages };
    choose(script, scene)?.render(script)
}

fn text_of(script: &str, role: &str, messages: &[&str]) -> String {
    let script = Script::parse("s", script).expect("a good script");
    let messages: Vec<Message> = messages.iter().map(|short| message(short)).collect();
    match play(&script, role, &messages) {
        Ok(answer) => answer.text.unwrap_or_default(),
        Err(problem) => problem,
    }
}

/// NAT-3: turns are matched by role, prompt, order, tool and result
#[test]
fn rules_match_by_role_prompt_and_order() {
    let script = r#"
rules:
  - { match: { role: root, request: 1 }, turns: [{ text: first }] }
  - { match: { role: [scout, worker], task: "^look" }, turns: [{ text: s1 }, { text: s2 }] }
  - { match: { tool: read }, turns: [{ text: after read }], repeat: last }
  - { match: { result: "ok=(\\d+)" }, turns: [{ text: "got {{match.1}}" }], repeat: all }
  - { match: { prompt: "mail from (?<who>\\w+)" }, turns: [{ text: "to {{match.who}}" }], repeat: all }
  - { match: { request: "3-" }, turns: [{ text: late }], repeat: last }
otherwise: { text: otherwise }
"#;
    let table: &[(&str, &[&str], &str)] = &[
        ("root", &["ugo"], "first"),
        ("root", &["ugo", "a.", "uagain"], "otherwise"),
        ("root", &["ugo", "a.", "uagain", "a.", "uonce more"], "late"),
        ("scout", &["ulook here"], "s1"),
        ("scout", &["ulook here", "a.", "r1"], "s2"),
        ("scout", &["ulook here", "a.", "r1", "a.", "Rtext"], "after read"),
        ("worker", &["usomething"], "otherwise"),
        ("root", &["ugo", "a.", "Rx"], "after read"),
        ("root", &["ugo", "a.", "rok=42"], "got 42"),
        ("root", &["ugo", "a.", "rok=42", "cmail from bob"], "to bob"),
        ("root", &["ugo", "a.", "rok=42", "a.", "cmail from eve"], "to eve"),
    ];
    for (role, messages, expected) in table {
        assert_eq!(text_of(script, role, messages), *expected, "{role} {messages:?}");
    }
}

#[test]
fn repeat_says_what_happens_behind_the_last_turn() {
    let script = |repeat: &str| {
        format!("rules:\n- {{ repeat: {repeat}, turns: [{{ text: a }}, {{ text: b }}] }}\notherwise: {{ text: end }}\n")
    };
    for (repeat, expected) in
        [("never", ["a", "b", "end", "end"]), ("last", ["a", "b", "b", "b"]), ("all", ["a", "b", "a", "b"])]
    {
        for (count, expected) in expected.iter().enumerate() {
            let messages: Vec<&str> = std::iter::once("ugo").chain(std::iter::repeat_n("a.", count)).collect();
            assert_eq!(text_of(&script(repeat), "root", &messages), *expected, "{repeat} {count}");
        }
    }
}

/// NAT-3: arguments are filled in from earlier results, at any depth
#[test]
fn placeholders_are_filled_in() {
    let script = Script::parse(
        "s",
        r#"rules:
- match: { prompt: 'fix (\w+)' }
  turns:
  - text: '\{{plain}} {{role}} {{name}} {{cwd}} {{model}} {{session}} {{request}} {{task}} {{prompt}}'
    calls:
    - tool: write
      arguments:
        path: '{{result.1}}'
        list: ['{{last_result}}', { deep: '{{result.bash}}/{{match.1}}' }, 5, true, null]
        line: '{{last_result | /line (\d+)/}} {{last_result | /[a-z]{4}/}}'
"#,
    )
    .unwrap();
    let messages: Vec<Message> = ["ustart", "a.", "rone", "a.", "Rat line 17", "ufix it"].map(message).into();
    let answer = play(&script, "root", &messages).unwrap();
    assert_eq!(answer.text.as_deref(), Some("{{plain}} root n-1 /c m 0123456789 3 start fix it"));
    assert_eq!(
        answer.calls[0].arguments,
        json!({ "path": "one", "list": ["at line 17", { "deep": "one/it" }, 5, true, null], "line": "17 line" })
    );
}

#[test]
fn a_placeholder_without_a_value_names_its_place() {
    let script = "rules:\n- turns:\n  - text: a\n  - text: '{{result.2}}'\n  - text: '{{last_result | /x(y)/}}'\n";
    assert_eq!(text_of(script, "root", &["ugo", "a.", "rone"]), "s:4: {{result.2}} has no value here");
    assert_eq!(
        text_of(script, "root", &["ugo", "a.", "a.", "rone"]),
        "s:5: {{last_result | /x(y)/}}: the pattern does not match \"one\""
    );
}

proptest! {
    /// However a conversation went, playing it again gives the same answer, and never one that is used up
    #[test]
    fn playing_is_a_function_of_the_messages(kinds in proptest::collection::vec("[ucarR][a-c]", 0..30)) {
        let script = Script::parse("s", "rules:\n- { match: { prompt: a }, turns: [{ text: '1' }, { text: '2' }] }\n\
            - { match: { tool: bash }, turns: [{ text: '3' }] }\notherwise: { text: end }\n").unwrap();
        let messages: Vec<Message> = kinds.iter().map(|kind| message(kind)).collect();
        prop_assert_eq!(play(&script, "root", &messages), play(&script, "root", &messages));
        // Feeding each answer back never gives one of the three turns twice.
        let mut talk = Vec::new();
        let mut given = Vec::new();
        for kind in kinds.iter().filter(|kind| !kind.starts_with('a')) {
            talk.push(message(kind));
            let text = play(&script, "root", &talk).unwrap().text.unwrap();
            talk.push(message(&format!("a{text}")));
            given.push(text);
        }
        for turn in ["1", "2", "3"] {
            prop_assert!(given.iter().filter(|text| *text == turn).count() <= 1);
        }
    }
}
