//! What is wrong with a card, and how it is said.

use proptest::prelude::*;

use super::*;

/// 02-T2, CARD-4, CARD-5, CARD-8, CARD-9
#[test]
fn unknown_keys_are_named_all_with_near_misses() {
    let legal = CARD_KEYS.join(", ");
    assert_eq!(
        error_text("maxRenewal: 3"),
        format!("a.md: unknown frontmatter key 'maxRenewal' (did you mean 'maxRenewals'?). Legal keys: {legal}")
    );
    assert_eq!(
        error_text("Model: 3\nplacement: left\ntimeoutMS: x"),
        format!(
            "a.md: unknown frontmatter keys 'Model' (did you mean 'model'?), 'placement', \
             'timeoutMS' (did you mean 'timeoutMs'?). Legal keys: {legal}"
        )
    );
    let text = error_text("spawnMode: rpc");
    assert!(
        text.starts_with("a.md: unknown frontmatter key 'spawnMode'. Legal keys: name, description, kind"),
        "{text}"
    );
    assert!(text.ends_with(". spawnMode was removed: the backend follows from the launch (worktree or not)"), "{text}");
    let error = parse_fields("placement: left").expect_err("unknown");
    let CardProblem::UnknownKeys(keys) = error.problem else { panic!("{:?}", error.problem) };
    assert_eq!(keys, [UnknownKey { key: "placement".into(), at: Some(Position { line: 4, column: 1 }) }]);
    assert_eq!(error.name.as_deref(), Some("helper"));
}

/// 02-T2, CARD-7: nested mappings are as strict, each against its own list.
#[test]
fn unknown_nested_keys() {
    for (card, want) in [
        (
            "toolBudget: { hard: 3, sofft: 1 }",
            "a.md: toolBudget: unknown key 'sofft' (did you mean 'soft'?). Legal keys: soft, hard, block",
        ),
        ("turnBudget: { hard: 3, block: '*' }", "a.md: turnBudget: unknown key 'block'. Legal keys: soft, hard"),
        (
            "acceptance: { levels: none }",
            "a.md: acceptance: unknown key 'levels' (did you mean 'level'?). Legal keys: level, role, criteria",
        ),
        (
            "acceptance: { criteria: [{ text: a, cmd: b }] }",
            "a.md: acceptance.criteria[0]: unknown key 'cmd'. Legal keys: id, text, evidence, command, required",
        ),
    ] {
        assert_eq!(error_text(card), want);
    }
}

/// CARD-10, CARD-20 … CARD-75: one wrong value each, in the form of CARD-10.
#[test]
fn wrong_values() {
    for (card, want) in [
        ("maxRenewals: -1", "maxRenewals: expected a non-negative integer, got -1"),
        ("maxRenewals: 1.5", "maxRenewals: expected a non-negative integer, got 1.5"),
        ("maxRenewals: 5000000000", "maxRenewals: expected a non-negative integer up to 4294967295, got 5000000000"),
        ("timeoutMs: 0", "timeoutMs: expected a positive integer, got 0"),
        ("timeoutMs: 1_000", "timeoutMs: expected a positive integer, got \"1_000\""),
        ("loopNoticeMs: soon", "loopNoticeMs: expected an integer, got \"soon\""),
        ("async: yes", "async: expected true or false, got \"yes\""),
        ("model: 4", "model: expected a string, got 4"),
        ("model: [a]", "model: expected a string, got a list"),
        ("team: { a: b }", "team: expected a string, got a mapping"),
        ("tools: 4", "tools: expected a list of strings or a comma-separated string, got 4"),
        ("tools: [read, 4]", "tools[1]: expected a string, got 4"),
        ("tools: ./x", "tools: \"./x\" looks like an extension: list it under extensions"),
        ("tools: [x.dylib]", "tools: \"x.dylib\" looks like an extension: list it under extensions"),
        ("tools: +read", "tools: tools takes plain names, got \"+read\""),
        ("systemPromptMode: both", "systemPromptMode: expected replace or append, got \"both\""),
        ("onBlocked: ask", "onBlocked: expected notify, wait, cancel or stop, got \"ask\""),
        ("steer: never", "steer: expected steer, followUp, true or false, got \"never\""),
        ("output: /tmp/x", "output: expected a relative path that stays under out/, got \"/tmp/x\""),
        ("output: a/../../x", "output: expected a relative path that stays under out/, got \"a/../../x\""),
        (r"output: 'c:\x'", r#"output: expected a relative path that stays under out/, got "c:\\x""#),
        ("output: a/..", "output: expected a relative path that stays under out/, got \"a/..\""),
        ("output: true", "output: expected a relative path under out/, or false, got true"),
        ("toolBudget: 0", "toolBudget: expected a positive integer or a mapping with hard, got 0"),
        ("toolBudget: { soft: 1 }", "toolBudget.hard: expected a positive integer, got nothing"),
        ("toolBudget: { hard: 4, soft: 4 }", "toolBudget.soft: expected a positive integer below hard (4), got 4"),
        ("toolBudget: { hard: 4, block: [] }", "toolBudget.block: expected \"*\" or a list of tool names, got a list"),
        ("acceptance: 3", "acceptance: expected a mapping, or none, attested or verified, got 3"),
        ("acceptance: checked", "acceptance: expected none, attested or verified, got \"checked\""),
        ("acceptance: { role: admin }", "acceptance.role: expected read-only or writer, got \"admin\""),
        (
            "acceptance: { criteria: [' '] }",
            "acceptance.criteria[0]: expected a non-blank string or a mapping with text, got \" \"",
        ),
        (
            "acceptance: { criteria: [{ id: a }] }",
            "acceptance.criteria[0].text: expected a non-blank string, got nothing",
        ),
        (
            "acceptance: { criteria: [{ text: a, command: ' ' }] }",
            "acceptance.criteria[0].command: expected a non-blank string, got \" \"",
        ),
        (
            "acceptance: { criteria: [{ text: a, command: b, evidence: attestation }] }",
            "acceptance.criteria[0].command: expected none with evidence: attestation (nobody would run it)",
        ),
        (
            "acceptance: { criteria: [a, { id: c1, text: b }] }",
            "acceptance.criteria[1].id: 'c1' is the id of criteria[0] too",
        ),
        (
            "utility: true\nallowNestedSubagents: true",
            "allowNestedSubagents: expected false with utility: true, got true",
        ),
        ("phases: 3", "phases: expected a list of phases, a mapping with phases, or JSON text of one of them, got 3"),
        ("phases: []", "phases: expected at least one phase, got none"),
        ("phases: { start: a }", "phases: expected at least one phase, got none"),
    ] {
        assert_eq!(error_text(card), format!("a.md: {want}"), "{card}");
    }
    let text = error_text("phases: '[{\"id\":'");
    assert!(
        text.contains("phases: expected a phase machine, got text that is not JSON") && text.contains("line 1"),
        "{text}"
    );
    let long = error_text(&format!("async: {}", "x".repeat(5000)));
    assert!(long.len() < 200 && long.ends_with("…"), "{long}");
}

/// CARD-10: all faults of a card are told at once, each with its place.
#[test]
fn every_fault_with_its_line() {
    let error =
        parse_fields("timeoutMs: 0\nacceptance:\n  criteria:\n    - text: a\n      command: 3").expect_err("two");
    assert_eq!(
        error.to_string(),
        "a.md: timeoutMs: expected a positive integer, got 0; \
         acceptance.criteria[0].command: expected a non-blank string, got 3"
    );
    let CardProblem::Faults(faults) = error.problem else { panic!("{:?}", error.problem) };
    let at = |fault: &Fault| fault.at.map(|at| (at.line, at.column));
    assert_eq!(faults.iter().map(at).collect::<Vec<_>>(), [Some((4, 1)), Some((8, 7))]);
}

/// CARD-20, CARD-21, CARD-25: names
#[test]
fn names_and_descriptions() {
    let slug = "a name of lower-case letters, digits, '-' and '_' that starts with a letter (at most 32)";
    let nameless = parse("description: x").expect_err("no name");
    assert_eq!(nameless.to_string(), format!("a.md: name: expected {slug}, got nothing"));
    assert_eq!(nameless.name, None);
    for bad in ["Worker", "1st", "a b", "a/b", "-a", &"a".repeat(33), "''", "é"] {
        assert!(parse(&format!("name: {bad}\ndescription: x")).is_err(), "{bad}");
    }
    assert!(parse(&format!("name: {}\ndescription: x", "a".repeat(32))).is_ok());
    assert!(error_text("alias: [Bad]").contains(&format!("alias: expected {slug}, got \"Bad\"")));
    for bad in ["", "description:", "description: ' '", "description: 3", "description: [a]"] {
        let text = parse(&format!("name: helper\n{bad}")).expect_err(bad).to_string();
        assert!(text.starts_with("a.md: description: expected one line of text, got"), "{text}");
    }
    let folded = parse("name: helper\ndescription: >\n  one\n  two").expect("a card");
    assert_eq!(folded.description, "one two");
}

/// CARD-1, CARD-3: documents that are no cards. F39: an unquoted colon is a named error, never a missing role.
#[test]
fn broken_documents() {
    let whole = |text: &[u8]| parse_agent_document(CardSource::User, "a.md", text).expect_err("broken").to_string();
    let fences = "a.md: a card starts with a line '---', its fields as YAML, and a second line '---'";
    assert_eq!(whole(b""), fences);
    assert_eq!(whole(b"# Title\n"), fences);
    assert_eq!(whole(b"---\nname: a\n"), fences);
    assert_eq!(whole(b"---\nname: \xff\n---\n"), "a.md: a card is UTF-8 text, but byte 11 is not");
    assert_eq!(whole(&vec![b'a'; MAX_CARD_BYTES + 1]), "a.md: a card may have at most 1 MiB");
    for (yaml, place) in [
        (
            "name: a\ndescription: use it: now",
            "a.md:3:20: invalid frontmatter: mapping values are not allowed in this context; \
             put a value that contains ': ' in quotes",
        ),
        ("name: a\n  b: c", "a.md:"),
        ("name: [a", "a.md:"),
        ("- a\n- b", "a.md:2:1: invalid frontmatter: expected a mapping of keys and values, got a list"),
        ("just words", "a.md:2:1: invalid frontmatter: expected a mapping of keys and values, got \"just words\""),
        ("", "a.md"),
        ("name: a\n...\nname: b", "a.md"),
        ("name: .nan", "a.md:2:7: invalid frontmatter: '.nan' is no finite number"),
        ("name: &a b\nmodel: *missing", "a.md:3:"),
    ] {
        let text = whole(format!("---\n{yaml}\n---\nBody.\n").as_bytes());
        assert!(text.starts_with(place) && text.contains("invalid frontmatter"), "{yaml:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}

/// CARD-14
#[test]
fn an_empty_body_needs_append() {
    let text = |mode: &str| format!("---\nname: a\ndescription: b\nsystemPromptMode: {mode}\n---\n \n");
    let parse = |mode| parse_agent_document(CardSource::User, "a.md", text(mode).as_bytes());
    assert!(parse("append").is_ok());
    let error = parse("replace").expect_err("empty").to_string();
    assert_eq!(error, "a.md: body: it is empty, and with systemPromptMode: replace it is the whole system prompt");
}

/// CARD-3: hostile nesting and alias bombs end in an error, quickly.
#[test]
fn hostile_yaml() {
    let deep = format!("phases: {}{}", "[".repeat(20_000), "]".repeat(20_000));
    assert!(parse_fields(&deep).is_err());
    let mut bomb = String::from("phases:\n  - &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let below = format!("*a{}", level - 1);
        bomb.push_str(&format!("  - &a{level} [{}]\n", [below.as_str(); 10].join(", ")));
    }
    assert!(parse_fields(&bomb).is_err());
    let text: Vec<String> = (0..40_000).map(|n| format!("k{n}: 1")).collect();
    assert!(parse_fields(&text.join("\n")).is_err());
}

/// CARD-77: the acceptance of a call is read like a card's, with its own path.
#[test]
fn acceptance_of_a_call() {
    let spec =
        parse_call_acceptance(&serde_json::json!({ "role": "writer", "criteria": [{ "text": "a" }] })).expect("ok");
    assert_eq!((spec.level, spec.criteria.len()), (AcceptanceLevel::Attested, 1));
    assert_eq!(parse_call_acceptance(&serde_json::json!("none")).expect("ok").level, AcceptanceLevel::None);
    let faults = parse_call_acceptance(&serde_json::json!({ "criteria": [{ "text": "a", "command": 1 }], "rolle": 1 }))
        .expect_err("two faults");
    let texts: Vec<String> = faults.iter().map(Fault::to_string).collect();
    assert_eq!(
        texts,
        [
            "acceptance: unknown key 'rolle' (did you mean 'role'?). Legal keys: level, role, criteria",
            "acceptance.criteria[0].command: expected a non-blank string, got 1",
        ]
    );
}

proptest! {
    /// CARD-3: no bytes make the parser panic.
    #[test]
    fn no_panic_on_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = parse_agent_document(CardSource::User, "a.md", &bytes);
    }

    /// As above, past the fences and among the words of a card.
    #[test]
    fn no_panic_on_frontmatter(
        lines in prop::collection::vec(
            (prop::sample::select(CARD_KEYS), "[-\\[\\]{}:,&*!|>'\"#%@` a-z0-9.~\n]{0,20}"), 0..8),
    ) {
        let yaml: String = lines.iter().map(|(key, value)| format!("{key}: {value}\n")).collect();
        let _ = parse(&yaml);
    }
}
