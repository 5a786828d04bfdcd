use proptest::prelude::*;

use super::*;

fn fault(text: &str) -> String {
    Script::parse("s.yaml", text).expect_err("a fault").to_string()
}

/// 11 bad input: a fault names file, line and what was expected
#[test]
fn faults_name_the_place_and_the_expectation() {
    let table = [
        ("rules:\n- turns:\n  - txt: a\n", "s.yaml:3:5: ", "unknown field `txt`, expected one of thinking, text"),
        ("rules:\n- turns:\n  - text: a\n    delayMs: soon\n", "s.yaml:4:14: ", "expected a whole number"),
        ("rules:\n- turns: []\n", "s.yaml:2:3: ", "expected at least one turn in 'turns'"),
        ("rules:\n- match: { role: root }\n", "s.yaml:2:3: ", "missing field `turns`"),
        ("rules:\n- turns:\n  - delayMs: 5\n", "s.yaml:3:5: ", "expected at least one of 'text', 'thinking', 'calls'"),
        (
            "rules:\n- turns:\n  - text: 'a {{b}}'\n",
            "s.yaml:3:11: ",
            "unknown placeholder {{b}}; expected one of prompt, task",
        ),
        ("rules:\n- turns:\n  - text: 'a {{prompt'\n", "s.yaml:3:11: ", "expected '}}' after '{{'"),
        ("rules:\n- turns:\n  - text: '{{prompt | 3}}'\n", "s.yaml:3:11: ", "expected /pattern/ after '|'"),
        (
            "rules:\n- turns:\n  - text: '{{prompt | /(/}}'\n",
            "s.yaml:3:11: ",
            "expected a regular expression: unclosed group",
        ),
        (
            "rules:\n- match:\n    prompt: '('\n  turns: [{ text: a }]\n",
            "s.yaml:3:13: ",
            "expected a regular expression: unclosed group",
        ),
        (
            "rules:\n- match:\n    request: 4-2\n  turns: [{ text: a }]\n",
            "s.yaml:3:14: ",
            "expected a number from 1 or a range",
        ),
        (
            "rules:\n- turns:\n  - text: a\n    stopReason: done\n",
            "s.yaml:4:17: ",
            "unknown stopReason 'done'; expected stop, length",
        ),
        (
            "rules:\n- turns:\n  - { text: a, error: { status: 200 } }\n",
            "s.yaml:3:5: ",
            "expected an error status from 400 to 599",
        ),
        ("rules:\n- turns:\n  - { broken: {}, silence: {} }\n", "s.yaml:3:5: ", "expected only one of"),
        (
            "rules:\n- turns:\n  - calls:\n    - tool: a\n      arguments: { b: ['{{c}}'] }\n",
            "s.yaml:4:7: ",
            "unknown placeholder {{c}}",
        ),
        ("rules: 5\n", "s.yaml:1:8: ", "expected"),
        ("{ \"rules\": [\n  { \"turns\": [ { \"text\": 5 } ] }\n", "s.yaml:", ""),
        ("", "s.yaml: ", "expected 'rules'"),
        ("rules:\n- turns: [{ text: a }]\n  repeat: often\n", "s.yaml:3:11: ", "often"),
        ("rules:\n- turns: [{ text: a }]\nrules: []\n", "s.yaml:3:1: ", "duplicate"),
    ];
    let wrong: Vec<String> = table
        .iter()
        .map(|(text, place, expected)| (fault(text), place, expected))
        .filter(|(fault, place, expected)| {
            !fault.starts_with(*place) || !fault.contains(*expected) || fault.lines().count() != 1
        })
        .map(|(fault, place, expected)| format!("{fault}\n  wanted {place}{expected}"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// NAT-3: JSON is read like YAML
#[test]
fn json_is_a_script_too() {
    let script = Script::parse(
        "s.json",
        "{\n\t\"models\": [{ \"id\": \"m\", \"contextWindow\": 1000 }],\n\t\"rules\": [\n\t\t{ \"match\": { \"role\": [\"a\", \"b\"], \"request\": \"2-\" },\n\
         \t\t\"turns\": [{ \"text\": \"x\\u00e9\", \"usage\": { \"input\": 5 } }] }\n\t]\n}\n",
    )
    .unwrap();
    assert_eq!(script.models[0].context_window, 1000);
    assert_eq!(script.rules[0].when.request, Some((2, u64::MAX)));
    assert_eq!(script.rules[0].turns[0].usage.unwrap().input, 5);
}

/// DOC-2: the examples of the reference page are scripts
#[test]
fn the_examples_of_the_reference_are_scripts() {
    let page = include_str!("../../../../../docs/reference/scripts.md");
    let examples: Vec<&str> = page
        .split("```")
        .skip(1)
        .step_by(2)
        .filter_map(|block| block.strip_prefix("yaml\n").or(block.strip_prefix("json\n")))
        .collect();
    assert!(examples.len() >= 2);
    for example in examples {
        Script::parse("scripts.md", example).unwrap_or_else(|fault| panic!("{fault}\n{example}"));
    }
    for variable in crate::provider::scripted::template::VARIABLES.split(", ") {
        assert!(page.contains(&format!("{{{{{variable}}}}}")), "{variable} is not on the page");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "(?s)[a-z{}\\[\\]:,\"'|#&*!\\- \n\t]{0,200}") {
        let _ = Script::parse("s", &text);
    }

    #[test]
    fn no_template_makes_the_reader_panic(text in "[a-z{}|/\\\\.()\u{e9} ]{0,60}") {
        let _ = Template::parse(&text);
    }
}
