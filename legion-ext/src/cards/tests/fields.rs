//! What each key becomes.

use serde_json::json;

use super::*;
use crate::core::model::{Thinking, ThinkingLevel};

/// 02-T1: every default of 02 §2 on a minimal card.
#[test]
fn minimal_card_has_every_default() {
    let minimal = agent("");
    let mut want = AgentConfig::new(CardSource::Project, "a.md", "helper");
    want.description = "Helps.".into();
    want.system_prompt = "Do it.".into();
    assert_eq!(minimal, want);

    assert_eq!(minimal.kind, AgentKind::Pi);
    assert_eq!((&minimal.model, minimal.thinking, &minimal.tools), (&None, None, &None));
    assert_eq!((&minimal.preset, &minimal.team, &minimal.output), (&None, &None, &None));
    assert_eq!(minimal.system_prompt_mode, SystemPromptMode::Replace);
    assert_eq!((minimal.inherit_project_context, minimal.inherit_skills), (false, false));
    // "None" is the operator's default, which is to inherit (CARD-34, INH-11).
    assert_eq!(minimal.inherit_extensions, None);
    assert_eq!((minimal.default_progress, minimal.run_async, minimal.completion_guard), (false, true, true));
    assert_eq!((minimal.timeout_ms, minimal.tool_timeout_ms, minimal.loop_notice_ms), (None, None, 1_800_000));
    assert_eq!((minimal.max_subagent_depth, minimal.allow_nested_subagents), (None, false));
    assert_eq!((minimal.renewable, minimal.max_renewals), (true, 2));
    assert_eq!((minimal.utility, minimal.disabled, minimal.worktree), (false, false, false));
    assert_eq!((minimal.steer, minimal.on_blocked), (Steer::Steer, OnBlocked::Notify));
    assert_eq!((&minimal.tool_budget, minimal.turn_budget, &minimal.phases), (&None, None, &None));
    assert_eq!(minimal.acceptance, None);
    assert_eq!(minimal.acceptance_spec().level, AcceptanceLevel::None);
    for list in [
        &minimal.alias,
        &minimal.aliases,
        &minimal.fallback_models,
        &minimal.exclude_extensions,
        &minimal.skill_path,
        &minimal.skills,
        &minimal.default_reads,
        &minimal.extensions,
        &minimal.subagent_only_extensions,
    ] {
        assert!(list.is_empty());
    }
}

/// 02-T1: each of the 41 keys reaches its typed member, and only that one (CARD-20 … CARD-73).
#[test]
fn every_key_has_its_member() {
    let strings = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    type Set = Box<dyn Fn(&mut AgentConfig)>;
    let rows: Vec<(&str, &str, Set)> = vec![
        ("name", "name: other", Box::new(|a| a.name = "other".into())),
        ("description", "description: Other.", Box::new(|a| a.description = "Other.".into())),
        ("kind", "kind: cursor", Box::new(|a| a.foreign_kind = Some("cursor".into()))),
        ("model", "model: ' cb/x:high '", Box::new(|a| a.model = Some("cb/x:high".into()))),
        ("thinking", "thinking: xhigh", Box::new(|a| a.thinking = Some(Thinking::Level(ThinkingLevel::Xhigh)))),
        ("alias", "alias: h, h2", Box::new(move |a| a.alias = strings(&["h", "h2"]))),
        ("aliases", "aliases: [h3]", Box::new(move |a| a.aliases = strings(&["h3"]))),
        ("preset", "preset: deep", Box::new(|a| a.preset = Some("deep".into()))),
        ("team", "team: fast", Box::new(|a| a.team = Some("fast".into()))),
        ("output", "output: a/./b/../r.md", Box::new(|a| a.output = Some(Output::File("a/r.md".into())))),
        ("fallbackModels", "fallbackModels: cb/y, z", Box::new(move |a| a.fallback_models = strings(&["cb/y", "z"]))),
        ("systemPromptMode", "systemPromptMode: append", Box::new(|a| a.system_prompt_mode = SystemPromptMode::Append)),
        ("inheritProjectContext", "inheritProjectContext: true", Box::new(|a| a.inherit_project_context = true)),
        ("inheritSkills", "inheritSkills: true", Box::new(|a| a.inherit_skills = true)),
        ("inheritExtensions", "inheritExtensions: false", Box::new(|a| a.inherit_extensions = Some(false))),
        ("excludeExtensions", "excludeExtensions: x*", Box::new(move |a| a.exclude_extensions = strings(&["x*"]))),
        ("skillPath", "skillPath: ~/s, ./t", Box::new(move |a| a.skill_path = strings(&["~/s", "./t"]))),
        ("skills", "skills: [git]", Box::new(move |a| a.skills = strings(&["git"]))),
        ("defaultReads", "defaultReads: docs/a.md", Box::new(move |a| a.default_reads = strings(&["docs/a.md"]))),
        ("tools", "tools: read, mcp_*", Box::new(move |a| a.tools = Some(strings(&["read", "mcp_*"])))),
        ("extensions", "extensions: ./e.so", Box::new(move |a| a.extensions = strings(&["./e.so"]))),
        (
            "subagentOnlyExtensions",
            "subagentOnlyExtensions: builtin:codemode",
            Box::new(move |a| a.subagent_only_extensions = strings(&["builtin:codemode"])),
        ),
        ("defaultProgress", "defaultProgress: true", Box::new(|a| a.default_progress = true)),
        ("async", "async: false", Box::new(|a| a.run_async = false)),
        ("timeoutMs", "timeoutMs: 5", Box::new(|a| a.timeout_ms = Some(5))),
        ("toolTimeoutMs", "toolTimeoutMs: 6", Box::new(|a| a.tool_timeout_ms = Some(6))),
        ("loopNoticeMs", "loopNoticeMs: -1", Box::new(|a| a.loop_notice_ms = -1)),
        ("completionGuard", "completionGuard: false", Box::new(|a| a.completion_guard = false)),
        ("maxSubagentDepth", "maxSubagentDepth: 0", Box::new(|a| a.max_subagent_depth = Some(0))),
        ("allowNestedSubagents", "allowNestedSubagents: true", Box::new(|a| a.allow_nested_subagents = true)),
        ("renewable", "renewable: false", Box::new(|a| a.renewable = false)),
        ("maxRenewals", "maxRenewals: 0", Box::new(|a| a.max_renewals = 0)),
        ("utility", "utility: true", Box::new(|a| a.utility = true)),
        ("disabled", "disabled: true", Box::new(|a| a.disabled = true)),
        ("worktree", "worktree: true", Box::new(|a| a.worktree = true)),
        ("steer", "steer: followUp", Box::new(|a| a.steer = Steer::FollowUp)),
        ("onBlocked", "onBlocked: stop", Box::new(|a| a.on_blocked = OnBlocked::Stop)),
        (
            "toolBudget",
            "toolBudget: { hard: 10, soft: 3, block: [bash, edit] }",
            Box::new(move |a| {
                a.tool_budget =
                    Some(ToolBudget { hard: 10, soft: Some(3), block: ToolBlock::Names(strings(&["bash", "edit"])) });
            }),
        ),
        ("turnBudget", "turnBudget: 7", Box::new(|a| a.turn_budget = Some(TurnBudget { hard: 7, soft: None }))),
        (
            "phases",
            "phases: [{ id: work, next: [done] }]",
            Box::new(|a| a.phases = Some(json!([{ "id": "work", "next": ["done"] }]))),
        ),
        (
            "acceptance",
            "acceptance: verified",
            Box::new(|a| {
                a.acceptance =
                    Some(AcceptanceSpec { level: AcceptanceLevel::Verified, role: None, criteria: Vec::new() });
            }),
        ),
    ];
    let tried: Vec<&str> = rows.iter().map(|(key, ..)| *key).collect();
    assert_eq!(tried, CARD_KEYS);
    assert_eq!(CARD_KEYS.len(), 41);
    for (key, line, set) in rows {
        let mut want = agent("");
        set(&mut want);
        let required = ["name: helper", "description: Helps."]
            .into_iter()
            .filter(|required| !required.starts_with(&format!("{key}:")));
        let card = required.chain([line]).collect::<Vec<_>>().join("\n");
        assert_eq!(parse(&card).unwrap_or_else(|error| panic!("{error}")), want, "{key}");
    }
}

/// 02-T3, CARD-2: `off` is a level, `false` is a boolean; the other words of older YAML are strings too.
#[test]
fn off_is_a_level_and_false_is_not() {
    assert_eq!(agent("thinking: off").thinking, Some(Thinking::Level(ThinkingLevel::Off)));
    assert_eq!(agent("thinking: false").thinking, Some(Thinking::Disabled));
    for level in ThinkingLevel::ALL {
        assert_eq!(agent(&format!("thinking: {level}")).thinking, Some(Thinking::Level(level)));
    }
    for word in ["on", "off", "yes", "no"] {
        assert_eq!(agent(&format!("preset: {word}")).preset.as_deref(), Some(word));
    }
    let text = error_text("thinking: true");
    assert_eq!(text, "a.md: thinking: expected off, minimal, low, medium, high, xhigh, max or false, got true");
    let text = error_text("model: a\nmodel: b");
    assert!(text.starts_with("a.md:5:1: ") && text.contains("duplicate"), "{text}");
    let text = error_text("toolBudget:\n  hard: 3\n  hard: 4");
    assert!(text.starts_with("a.md:6:3: ") && text.contains("duplicate"), "{text}");
}

/// CARD-11, CARD-12, CARD-13
#[test]
fn lists_nulls_and_blanks() {
    for (line, want) in [
        ("tools: read, grep ,read,, ls", vec!["read", "grep", "ls"]),
        ("tools: [' read ', '', grep, read]", vec!["read", "grep"]),
        ("tools:\n  - read", vec!["read"]),
        ("tools:", vec![]),
        ("tools: ''", vec![]),
        ("tools: []", vec![]),
    ] {
        assert_eq!(agent(line).tools.expect(line), want, "{line}");
    }
    for line in ["model: null", "maxRenewals: ~", "acceptance:", "steer:", "kind: null", "utility:", "toolBudget:"] {
        assert_eq!(agent(line), agent(""), "{line}");
    }
    for key in ["model", "preset", "team", "output"] {
        assert_eq!(agent(&format!("{key}: ' '")), agent(""), "{key}");
    }
    assert_eq!(agent("output: false").output, Some(Output::Disabled));
    assert_eq!(agent("steer: true").steer, Steer::Steer);
    assert_eq!(agent("steer: false").steer, Steer::Refused);
}

/// CARD-61, CARD-62
#[test]
fn budgets_and_their_soft_steps() {
    let soft = |line: &str| agent(line).tool_budget.expect(line).soft_step();
    assert_eq!(soft("toolBudget: 200"), Some(160));
    assert_eq!(soft("toolBudget: { hard: 200 }"), Some(160));
    assert_eq!(soft("toolBudget: { hard: 200, soft: 1 }"), Some(1));
    // A fifth off one call leaves no step before it.
    assert_eq!(soft("toolBudget: 1"), None);
    assert_eq!(agent("turnBudget: { hard: 5 }").turn_budget.and_then(|b| b.soft_step()), Some(4));
    assert_eq!(agent("toolBudget: { hard: 2, block: '*' }").tool_budget.map(|b| b.block), Some(ToolBlock::All));
    let names = ToolBlock::Names(vec!["bash".into()]);
    assert_eq!(agent("toolBudget: { hard: 2, block: bash }").tool_budget.map(|b| b.block), Some(names));
}

/// CARD-70 … CARD-75
#[test]
fn acceptance_defaults() {
    let spec = agent("acceptance: {}").acceptance.expect("declared");
    assert_eq!((spec.level, spec.role, spec.criteria), (AcceptanceLevel::Attested, None, Vec::new()));
    let spec = agent(
        "acceptance:\n  role: read-only\n  criteria:\n    - It works\n    - { text: Tests, command: ' make test ' }\n    \
         - { id: x, text: Seen, required: false, evidence: verification-output }",
    )
    .acceptance
    .expect("declared");
    let criterion = |id: &str, text: &str, evidence, command: Option<&str>, required| Criterion {
        id: id.into(),
        text: text.into(),
        evidence,
        command: command.map(str::to_owned),
        required,
    };
    assert_eq!(spec.role, Some(AcceptanceRole::ReadOnly));
    assert_eq!(
        spec.criteria,
        [
            criterion("c1", "It works", Evidence::Attestation, None, true),
            criterion("c2", "Tests", Evidence::VerificationOutput, Some("make test"), true),
            criterion("x", "Seen", Evidence::VerificationOutput, None, false),
        ]
    );
}

/// CARD-65: every form of a declaration gives the same value.
#[test]
fn four_forms_of_phases() {
    let want = json!([{ "id": "work", "require": ["children_settled"], "next": ["done"] }]);
    let list = agent("phases: [{ id: work, require: [children_settled], next: [done] }]").phases;
    let block = agent("phases:\n  - id: work\n    require: [children_settled]\n    next:\n      - done").phases;
    let text = agent(r#"phases: '[{"id":"work","require":["children_settled"],"next":["done"]}]'"#).phases;
    assert_eq!((list.as_ref(), block.as_ref(), text.as_ref()), (Some(&want), Some(&want), Some(&want)));
    let machine = agent("phases:\n  start: work\n  maxRework: 1\n  phases: [{ id: work, next: [done] }]").phases;
    assert_eq!(
        machine,
        Some(json!({ "start": "work", "maxRework": 1, "phases": [{ "id": "work", "next": ["done"] }] }))
    );
}

/// CARD-1, F39: a byte-order mark and CRLF line ends are no trouble, and the prompt has plain ends.
#[test]
fn byte_order_mark_and_crlf() {
    let text = "\u{feff}---\r\nname: helper\r\ndescription: 'A: b'\r\n--- \r\n\r\nOne.\r\nTwo.\r\n";
    let agent = parse_agent_document(CardSource::User, "a.md", text.as_bytes()).expect("a card");
    assert_eq!((agent.description.as_str(), agent.system_prompt.as_str()), ("A: b", "One.\nTwo."));
    // A rule in the body is no fence.
    let text = "---\nname: helper\ndescription: x\n---\nOne.\n\n---\n\nTwo.";
    let agent = parse_agent_document(CardSource::User, "a.md", text.as_bytes()).expect("a card");
    assert_eq!(agent.system_prompt, "One.\n\n---\n\nTwo.");
}

/// CARD-36
#[test]
fn skill_paths_stand_beside_the_card() {
    let mut card = agent("skillPath: ~/s, ~, t/u, /abs, ~x");
    card.path = "/cards/a.md".into();
    let paths = |home: Option<&str>| -> Vec<String> {
        let paths = card.skill_paths(home.map(std::path::Path::new));
        paths.iter().map(|path| path.display().to_string()).collect()
    };
    assert_eq!(paths(Some("/home/u")), ["/home/u/s", "/home/u/", "/cards/t/u", "/abs", "/cards/~x"]);
    assert_eq!(paths(None)[0], "/cards/~/s");
}

/// GUARD-19
#[test]
fn budget_of_a_child() {
    use host_abi::scope::ChildBudget;
    assert_eq!(child_budget_from_agent(&agent("")), ChildBudget::default());
    let card = agent(
        "maxSubagentDepth: 3\nallowNestedSubagents: true\ntoolTimeoutMs: 600000\n\
         toolBudget: { hard: 200, block: [bash] }\nturnBudget: { hard: 50, soft: 10 }",
    );
    let want = ChildBudget {
        max_depth: Some(3),
        allow_nested: true,
        max_tool_calls: Some(200),
        max_turns: Some(50),
        tool_timeout_ms: Some(600_000),
        tool_soft: Some(160),
        tool_block: ToolBlock::Names(vec!["bash".into()]),
        turn_soft: Some(10),
    };
    let budget = child_budget_from_agent(&card);
    assert_eq!(budget, want);
    let env: std::collections::HashMap<String, String> =
        host_abi::scope::budget_to_env(&budget).into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    assert_eq!(host_abi::scope::budget_from_env(&env).0, budget);
}
